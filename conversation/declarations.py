"""What a project declares about itself: its conversation, token usage, tools and parameters. Checked once, frozen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from agent_nodes.errors import InputValidationError

Kind = TypeVar("Kind", bound=BaseModel)

ProjectType: TypeAlias = Literal["conversation"]
ParamType: TypeAlias = Literal["string", "integer", "number", "boolean", "json", "path"]
ParamGroup: TypeAlias = Literal["Auxiliary", "Quick", "Mode"]
ParamValue: TypeAlias = str | int | float | bool

PROJECT_TYPE: ProjectType = "conversation"
MESSAGE = "message"
"""The standard input of every conversation; always there, and no parameter."""

RESERVED_NAMES = frozenset({MESSAGE, "conversation_id", "session", "request_id", "reopen", "json", "help"})
RESERVED_FLAGS = frozenset({"--session", "--request-id", "--reopen", "--json", "--help", "-h"})
"""What the command line and the flow have themselves beside a project's parameters."""


class _Declaration(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


def _tuple(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("blank", "must not be empty")
    return value


def _tool_name(value: str) -> str:
    if not (0 < len(value) <= 64 and value.isascii() and value.replace("-", "").replace("_", "a").isalnum()):
        raise PydanticCustomError("name", "must be 1 to 64 of the characters A-Z a-z 0-9 _ -")
    return value


def _param_name(value: str) -> str:
    if not (value.isascii() and value.isidentifier() and value == value.lower() and value[0] != "_"):
        raise PydanticCustomError("name", "must be a name of small letters, digits and _, such as reply_style")
    if value == MESSAGE:
        raise PydanticCustomError("name", "the message is always there and is no parameter; leave it out")
    if value in RESERVED_NAMES or iskeyword(value):
        raise PydanticCustomError("name", "means something else already; take another name")
    return value


def _flag(value: str) -> str:
    short = len(value) == 2 and value[0] == "-" and value[1].isalnum()
    long = value.startswith("--") and len(value) > 2 and value[2:].replace("-", "").isalnum() and value[2] != "-"
    if not (value.isascii() and (short or long)):
        raise PydanticCustomError("flag", "must look like -x or --name")
    if value in RESERVED_FLAGS:
        raise PydanticCustomError("flag", "is a flag of the command itself; take another one")
    return value


def _scalar(value: Any) -> Any:
    if value is not None and not isinstance(value, str | int | float):
        raise PydanticCustomError("value", "must be a text, a number, True, False or None")
    return value


Text: TypeAlias = Annotated[str, AfterValidator(_not_blank)]
ToolName: TypeAlias = Annotated[str, AfterValidator(_tool_name)]
ParamName: TypeAlias = Annotated[str, AfterValidator(_param_name)]
Flags: TypeAlias = Annotated[tuple[Annotated[str, AfterValidator(_flag)], ...], BeforeValidator(_tuple)]
# Any: pydantic would report each member of the union on its own.
Scalar: TypeAlias = Annotated[Any, BeforeValidator(_scalar)]


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
    """A tool the project uses; where tools are declared, one that is not is not there. ``enabled`` False hides it from
    the model; ``auto_approve`` False asks a person before each call in turns of plan mode."""

    name: ToolName
    label: str = ""
    description: str = ""
    enabled: bool = True
    auto_approve: bool = True


class ParamChoice(_Declaration):
    """``label`` is what people see of the value; left out, the value itself."""

    value: Annotated[Any, BeforeValidator(_scalar)] = Field()
    label: str = ""


def _choice(value: Any) -> Any:
    if isinstance(value, str | int | float):
        return {"value": value}
    return value


Choices: TypeAlias = Annotated[tuple[Annotated[ParamChoice, BeforeValidator(_choice)], ...], BeforeValidator(_tuple)]


class ConversationParamDeclaration(_Declaration):
    """A parameter that people set beside the message.

    ``flags`` are its spellings on a command line (``--workdir``, ``-C``). ``group`` says where hosts show it. A text
    that is empty means unset, save for a parameter whose choices hold the empty text. ``hidden``: it can be set, but
    is not shown. A value of type ``json`` is its text.
    """

    name: ParamName
    flags: Flags = ()
    type: ParamType = "string"
    label: str = ""
    description: str = ""
    group: ParamGroup = "Auxiliary"
    choices: Choices = ()
    default: Scalar = None
    required: bool = False
    hidden: bool = False

    @field_validator("choices")
    @classmethod
    def _choices_fit(cls, choices: tuple[ParamChoice, ...], info: ValidationInfo) -> tuple[ParamChoice, ...]:
        seen: list[Any] = []
        for choice in choices:
            wrong = _type_mistake(info.data.get("type"), choice.value)
            if wrong is None and choice.value in seen:
                wrong = "is there twice"
            if wrong is not None:
                raise PydanticCustomError("choice", "{value} {wrong}", {"value": repr(choice.value), "wrong": wrong})
            seen.append(choice.value)
        return choices

    @field_validator("default")
    @classmethod
    def _default_fits(cls, default: Any, info: ValidationInfo) -> Any:
        choices = [choice.value for choice in info.data.get("choices", ())]
        wrong = None if default is None else _type_mistake(info.data.get("type"), default) or _not_in(choices, default)
        if wrong is not None:
            raise PydanticCustomError("default", "{value} {wrong}", {"value": repr(default), "wrong": wrong})
        return default


_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "path": (str,),
    "json": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def _type_mistake(kind: str | None, value: object) -> str | None:
    if kind is None or (isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))):
        return None
    return f"is no value of type {kind}"


def _not_in(choices: Sequence[Any], value: object) -> str | None:
    if not choices or value in choices:
        return None
    return f"must be one of {', '.join(map(repr, choices))}"


def param_mistake(param: ConversationParamDeclaration, value: object) -> str | None:
    """What is wrong with ``value`` for ``param``, None where it fits."""
    return _type_mistake(param.type, value) or _not_in([choice.value for choice in param.choices], value)


# -- checking ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mistake:
    """``field`` is the path of what is wrong: ``params.2.flags.0``; ``unknown``: there is no such field."""

    field: str
    text: str
    unknown: bool = False

    def error(self) -> InputValidationError:
        return InputValidationError(f"{self.field}: {self.text}", field=self.field)


def mistakes(kind: type[BaseModel], value: Any, where: str) -> list[Mistake]:
    """What is wrong with ``value`` (a dict) as the fields of a ``kind``."""
    try:
        kind.model_validate(value)
    except ValidationError as error:
        return [_mistake(kind, item["loc"], item["type"], item["msg"], where) for item in error.errors()]
    return []


def _mistake(kind: type[BaseModel], loc: tuple[int | str, ...], error: str, text: str, where: str) -> Mistake:
    if error == "extra_forbidden":
        from difflib import get_close_matches

        known = list(_model_at(kind, loc[:-1]).model_fields)
        close = get_close_matches(_snake(str(loc[-1])), known, 1)
        text = f"unknown field; did you mean {close[0]}?" if close else f"unknown field; known are {', '.join(known)}"
    elif error == "missing":
        text = "missing"
    return Mistake(".".join([where, *map(str, loc)]), text, error == "extra_forbidden")


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _model_at(kind: type[BaseModel], loc: Sequence[int | str]) -> type[BaseModel]:
    for name in loc:
        if isinstance(name, str):
            kind = _model_in(kind.model_fields[name].annotation) or kind
    return kind


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)


def declared(kind: type[Kind], value: Any, where: str) -> Kind:
    """``value`` (one already, or a dict of its fields) as a ``kind``. Raises :class:`InputValidationError` with the
    path of the first field that is wrong."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise InputValidationError(f"{where}: must be a {kind.__name__} or a dict of its fields", field=where)
    fields = dict(cast("Mapping[str, Any]", value))
    for mistake in mistakes(kind, fields, where):
        raise mistake.error()
    return kind.model_validate(fields)


def declared_list(kind: type[Kind], values: Any, where: str) -> tuple[Kind, ...]:
    """Each of ``values``, with no name given twice."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise InputValidationError(f"{where}: must be a list", field=where)
    made = tuple(declared(kind, value, f"{where}.{n}") for n, value in enumerate(cast("Sequence[Any]", values)))
    for mistake in repeated([cast("Any", item).name for item in made], where):
        raise mistake.error()
    return made


def declared_params(values: Any) -> tuple[ConversationParamDeclaration, ...]:
    """Parameters, with no name and no flag given twice."""
    params = declared_list(ConversationParamDeclaration, values, "params")
    for mistake in repeated_flags([param.flags for param in params]):
        raise mistake.error()
    return params


def repeated(names: Sequence[str], where: str) -> list[Mistake]:
    first: dict[str, int] = {}
    out: list[Mistake] = []
    for n, name in enumerate(names):
        if first.setdefault(name, n) != n:
            out.append(Mistake(f"{where}.{n}.name", f"{name!r} is declared already, at {where}.{first[name]}"))
    return out


def repeated_flags(flags: Sequence[Sequence[str]]) -> list[Mistake]:
    owner: dict[str, int] = {}
    out: list[Mistake] = []
    for n, own in enumerate(flags):
        for m, flag in enumerate(own):
            if flag in owner:
                out.append(Mistake(f"params.{n}.flags.{m}", f"{flag} is a flag of params.{owner[flag]} already"))
            owner.setdefault(flag, n)
    return out
