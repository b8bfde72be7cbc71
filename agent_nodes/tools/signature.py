"""What a function says about itself as a tool: its name, its docstring, and its parameters as a pydantic model."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_jsonable_python

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import ImageBlock, JsonObject, TextBlock
from agent_nodes.tools.base import AgentTool, AgentToolResult, ToolContext, check_name
from agent_nodes.tools.environment import ToolError
from agent_nodes.tools.results import content_blocks
from agent_nodes.tools.schemas import model_mistakes

Values: TypeAlias = Callable[[JsonObject, ToolContext], Mapping[str, Any]]

_FIXES = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only, and arguments come by name",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments; declare a list instead",
    inspect.Parameter.VAR_KEYWORD: "takes any arguments; declare each of them, or a dict",
}


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """``model`` checks arguments, ``values`` makes the function's keyword arguments of checked ones; ``output`` is
    None where what comes back is text or plain JSON."""

    name: str
    description: str
    parameters: JsonObject
    model: type[BaseModel]
    values: Values
    output: TypeAdapter[Any] | None


def read_signature(function: Any, name: str | None, local: Mapping[str, Any]) -> FunctionSignature:
    """``local``: names that annotations may use besides those of the function's module.

    Raises :class:`InputValidationError` for what is no function of named, annotated parameters.
    """
    target = _target(function)
    if name is None:
        name = _name(target)
    else:
        check_name(name)
    signature = _signature(function, name)
    hints = _hints(target, name, local)
    docs = _docs(_docstring(target))
    fields: dict[str, _Field] = {}
    contexts: list[str] = []
    preset: Mapping[str, Any] = function.keywords if isinstance(function, functools.partial) else {}
    for parameter in signature.parameters.values():
        if parameter.name in preset:
            continue
        if parameter.kind in _FIXES:
            raise _wrong(name, f"parameter {parameter.name} {_FIXES[parameter.kind]}")
        if parameter.name not in hints:
            bound = parameter.name in ("self", "cls") and not fields
            hint = "; hand over a bound method: agent_tool(thing.method)" if bound else ""
            raise _wrong(name, f"parameter {parameter.name} has no annotation{hint}")
        if _is_context(hints[parameter.name]):
            contexts.append(parameter.name)
            continue
        try:
            fields[parameter.name] = _field(parameter, hints[parameter.name], docs.parameters.get(parameter.name))
        except AttributeError as error:  # what is asked of whatever stands there
            raise _unfillable(name, parameter.name, error) from error
    model = _model(name, fields)
    schema = model.model_json_schema(schema_generator=_Schema)
    schema.pop("title", None)
    return FunctionSignature(
        name, docs.description, schema, model, _values(model, list(fields), contexts), _output(name, hints)
    )


def plain_value(value: Any) -> Any:
    """A returned value as JSON: dataclasses, models, dates and the like too. Content blocks stay what they are."""
    return to_jsonable_python(value) if content_blocks(value) is None else value


def _wrong(name: str, what: str) -> InputValidationError:
    return InputValidationError(f"agent_tool {name}: {what}", field=name)


def _unfillable(name: str, parameter: str, reason: Exception) -> InputValidationError:
    return _wrong(name, f"parameter {parameter} is of a type that no model can fill: {_first_line(reason)}")


# -- the function ------------------------------------------------------------------------------------------------------


def _target(function: Any) -> Any:
    """What holds the annotations and the name: of a partial the function, of an object its ``__call__``."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, AgentTool):
        raise _wrong(function.name, "is a tool already")
    if isinstance(function, type) or not callable(function):
        raise _wrong(getattr(function, "__name__", type(function).__name__), "is no function")
    if hasattr(function, "__name__"):
        return function
    return function.__call__


def _name(target: Any) -> str:
    if inspect.ismethod(target) and target.__name__ == "__call__":
        return type(target.__self__).__name__
    return str(target.__name__)


def _signature(function: Any, name: str) -> inspect.Signature:
    yields = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    if any(check(function) for check in yields):
        raise _wrong(name, "yields; a tool returns its result (context.update shows output on the way)")
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise _wrong(name, f"its parameters are not known ({error})") from error


def _hints(target: Any, name: str, local: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return get_type_hints(target, localns=dict(local), include_extras=True)
    except Exception as error:  # an annotation may be any expression
        raise _wrong(
            name,
            f"an annotation cannot be read ({error}); what it names must be defined before the function, and not only "
            "for type checking",
        ) from error


def _is_context(annotation: Any) -> bool:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        return any(_is_context(item) for item in get_args(annotation))
    return annotation is ToolContext


# -- the model of its arguments ----------------------------------------------------------------------------------------


class _Field(NamedTuple):
    annotation: Any
    default: Any


class _Schema(GenerateJsonSchema):
    """Without titles, which say the names again, and without defaults that are no JSON, which nobody else needs."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _field(parameter: inspect.Parameter, annotation: Any, doc: str | None) -> _Field:
    """The parameter's name as an alias, so that no name clashes with pydantic's own; what the caller says about the
    field stands behind ours and so goes before it."""
    extras: tuple[Any, ...] = ()
    if get_origin(annotation) is Annotated:
        annotation, *rest = get_args(annotation)
        extras = tuple(rest)
    doc = next((extra for extra in extras if isinstance(extra, str)), doc)
    ours = Field(alias=parameter.name, description=doc)
    default = ... if parameter.default is inspect.Parameter.empty else parameter.default
    return _Field(Annotated[(annotation, ours, *extras)], default)


def _model(name: str, fields: Mapping[str, _Field]) -> type[BaseModel]:
    try:
        return _built(name, fields)
    except Exception as error:  # pydantic asks the type itself, which may raise anything
        for parameter, field in fields.items():
            try:
                _built(name, {parameter: field})
            except Exception as reason:
                raise _unfillable(name, parameter, reason) from reason
        raise _wrong(name, _first_line(error)) from error


def _built(name: str, fields: Mapping[str, _Field]) -> type[BaseModel]:
    declared: dict[str, Any] = {f"p{number}": tuple(field) for number, field in enumerate(fields.values())}
    model = create_model(name, __config__=ConfigDict(extra="forbid"), **declared)
    model.model_json_schema(schema_generator=_Schema)
    return model


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _values(model: type[BaseModel], names: list[str], contexts: list[str]) -> Values:
    def values(arguments: JsonObject, context: ToolContext) -> Mapping[str, Any]:
        try:
            checked = model.model_validate_json(orjson.dumps(arguments))
        except ValidationError as error:  # stored arguments of a call, and the function is another one by now
            raise ToolError("\n".join(["The arguments do not fit any more:", *model_mistakes(error)])) from error
        found = {name: getattr(checked, f"p{number}") for number, name in enumerate(names)}
        return {**found, **dict.fromkeys(contexts, context)}

    return values


# -- what comes back ---------------------------------------------------------------------------------------------------


def _output(name: str, hints: Mapping[str, Any]) -> TypeAdapter[Any] | None:
    annotation: Any = hints.get("return")
    kind: Any = annotation
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    kind = get_origin(kind) or kind
    if not isinstance(kind, type) or not _is_record(cast("type[Any]", kind)):
        return None
    try:
        return TypeAdapter(annotation)
    except (PydanticUserError, NameError, TypeError) as error:
        raise _wrong(name, f"what it returns has no JSON form: {_first_line(error)}") from error


def _is_record(kind: type[Any]) -> bool:
    if issubclass(kind, BaseModel) or hasattr(kind, "__required_keys__"):  # which a TypedDict has
        return True
    return dataclasses.is_dataclass(kind) and not issubclass(kind, AgentToolResult | TextBlock | ImageBlock)


# -- docstrings --------------------------------------------------------------------------------------------------------


class _Docs(NamedTuple):
    description: str
    parameters: Mapping[str, str]


def _docstring(target: Any) -> str:
    if inspect.ismethod(target) and target.__name__ == "__call__" and not target.__doc__:
        target = type(target.__self__)
    return inspect.getdoc(target) or ""


def _docs(text: str) -> _Docs:
    """What stands before the first section, and what is said about each parameter."""
    from docstring_parser import ParseError, parse

    try:
        found = parse(text)
    except ParseError:
        return _Docs(text.strip(), {})
    gap = "\n\n" if found.blank_after_short_description else "\n"
    description = gap.join(part.strip() for part in (found.short_description, found.long_description) if part)
    parameters: dict[str, str] = {}
    for item in found.params:
        for name in item.arg_name.split(","):
            if item.description:
                parameters[name.strip().lstrip("*")] = " ".join(item.description.split())
    return _Docs(description, parameters)
