"""What a project declares about itself: its conversation, token usage, tools and parameters. Checked once, frozen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from agent_nodes.errors import InputValidationError, validation_error

ProjectType: TypeAlias = Literal["conversation"]
ParamType: TypeAlias = Literal["string", "integer", "number", "boolean", "json", "path"]
ParamGroup: TypeAlias = Literal["Auxiliary", "Quick", "Mode"]

MESSAGE = "message"
"""The standard input of every conversation; always there, and no parameter."""


class _Declaration(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


def _tuple(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("blank", "must not be empty")
    return value


def _flag(value: str) -> str:
    short = len(value) == 2 and value[0] == "-" and value[1].isalnum()
    long = value.startswith("--") and len(value) > 2 and value[2:].replace("-", "").isalnum() and value[2] != "-"
    if not (short or long):
        raise PydanticCustomError("flag", "must look like -x or --name")
    return value


Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*\z", max_length=64)]
Text: TypeAlias = Annotated[str, AfterValidator(_not_blank)]
Flags: TypeAlias = Annotated[tuple[Annotated[str, AfterValidator(_flag)], ...], BeforeValidator(_tuple)]


class Switch(_Declaration):
    enabled: bool = True


class OpenAIDeclaration(_Declaration):
    """``output_item_id`` is the id of the answer's item in the report of a turn that a host drives."""

    output_item_id: Text = "agent-answer"


class ConversationDeclaration(_Declaration):
    """How a host shows and drives the conversation.

    ``input_queue``: input while a turn runs is queued. ``recovery``: interrupted workers are taken up again.
    ``durable``: the project keeps a durable session with commands. ``collapse_intermediate``: rows of completed turns
    are folded until somebody opens them.
    """

    input_queue: Switch = Switch(enabled=True)
    recovery: Switch | None = None
    durable: Switch | None = None
    collapse_intermediate: bool = True
    openai: OpenAIDeclaration = OpenAIDeclaration()


class TokenUsageDeclaration(_Declaration):
    """``enabled``: usage is kept for the project's runs. ``display``: hosts show it."""

    enabled: bool = True
    display: bool = True


class ToolDeclaration(_Declaration):
    """A tool the project uses. ``enabled`` False hides it from the model; ``auto_approve`` False asks a person before
    each call in turns of plan mode."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}\z")]
    label: str = ""
    description: str = ""
    enabled: bool = True
    auto_approve: bool = True


class ParamChoice(_Declaration):
    value: str
    label: str = ""


def _choice(value: Any) -> Any:
    return ParamChoice(value=value) if isinstance(value, str) else value


Choices: TypeAlias = Annotated[tuple[Annotated[ParamChoice, BeforeValidator(_choice)], ...], BeforeValidator(_tuple)]


class ConversationParamDeclaration(_Declaration):
    """A parameter that people set beside the message.

    ``flags`` are its spellings on a command line (``--workdir``, ``-C``). ``group`` says where hosts show it. A text
    that is empty means unset, save for a parameter whose choices hold the empty text. ``hidden``: it can be set, but
    is not shown.
    """

    name: Name
    flags: Flags = ()
    type: ParamType = "string"
    label: str = ""
    description: str = ""
    group: ParamGroup = "Auxiliary"
    choices: Choices = ()
    default: str | int | float | bool | None = None
    required: bool = False
    hidden: bool = False

    @model_validator(mode="after")
    def _fits(self) -> ConversationParamDeclaration:
        if self.name == MESSAGE:
            raise PydanticCustomError("name", "the message is always there and no parameter")
        wrong = param_mistake(self, self.default) if self.default is not None else None
        if wrong is not None:
            raise PydanticCustomError("default", "default {wrong}", {"wrong": wrong})
        values = [choice.value for choice in self.choices]
        if len(set(values)) != len(values):
            raise PydanticCustomError("choices", "choices holds a value twice")
        return self


def param_mistake(param: ConversationParamDeclaration, value: object) -> str | None:
    """What is wrong with ``value`` for ``param``, None where it fits."""
    kinds: dict[str, tuple[type, ...]] = {
        "string": (str,),
        "path": (str,),
        "json": (str, dict),
        "integer": (int,),
        "number": (int, float),
        "boolean": (bool,),
    }
    right = isinstance(value, kinds[param.type]) and (param.type == "boolean" or not isinstance(value, bool))
    if not right:
        return f"must be of type {param.type}"
    if param.choices and value not in [choice.value for choice in param.choices]:
        known = ", ".join(repr(choice.value) for choice in param.choices)
        return f"must be one of {known}"
    return None


def declared(kind: type[Any], value: Any, where: str) -> Any:
    """``value`` (one already, or a dict of its fields) as a ``kind``. Raises :class:`InputValidationError` with the
    path of the field, ``params.2.flags.0``."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise InputValidationError(f"{where}: must be a {kind.__name__} or a dict of its fields", field=where)
    try:
        return kind.model_validate(dict(cast("Mapping[str, Any]", value)))
    except ValidationError as error:
        told = validation_error(error, where=where, known=list(kind.model_fields))
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]["loc"]
        path = ".".join([where, *map(str, first)])
        raise InputValidationError(told.message, field=path) from None


def declared_list(kind: type[Any], values: Any, where: str) -> tuple[Any, ...]:
    """Each of ``values``, with no name given twice."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise InputValidationError(f"{where}: must be a list", field=where)
    made = tuple(declared(kind, value, f"{where}.{n}") for n, value in enumerate(cast("Sequence[Any]", values)))
    names: dict[str, int] = {}
    for n, item in enumerate(made):
        if item.name in names:
            raise InputValidationError(
                f"{where}.{n}.name: {item.name!r} is declared already, at {where}.{names[item.name]}",
                field=f"{where}.{n}.name",
            )
        names[item.name] = n
    return made


def declared_params(values: Any) -> tuple[ConversationParamDeclaration, ...]:
    """Parameters, with no flag given twice."""
    params = cast(
        "tuple[ConversationParamDeclaration, ...]", declared_list(ConversationParamDeclaration, values, "params")
    )
    flags: dict[str, str] = {}
    for n, param in enumerate(params):
        for flag in param.flags:
            if flag in flags:
                raise InputValidationError(
                    f"params.{n}.flags: {flag} is a flag of {flags[flag]!r} already", field=f"params.{n}.flags"
                )
            flags[flag] = param.name
    return params
