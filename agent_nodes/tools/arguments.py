"""Arguments on the way into a tool: prepared, checked, and mended where a mistake has one meaning."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, cast

import orjson

from agent_nodes.messages import JsonObject, JsonValue, is_storable, repair_json
from agent_nodes.tools.base import AgentTool
from agent_nodes.tools.effort import MOST_STEPS, steps
from agent_nodes.tools.environment import ToolError
from agent_nodes.tools.schemas import BadSchema, branches, mistakes, model_mistakes, validator

MENDED_STEPS = 20_000
"""Mending looks at every value, which takes as long as checking it several times."""


def check_arguments(tool: AgentTool, arguments: JsonObject, invalid: str | None = None) -> JsonObject:
    """The arguments that ``tool.execute`` gets: a new dict of plain JSON, because a call that is run again after a
    crash gets them from the store.

    What the tool's ``prepare_arguments`` makes of them is checked. Mistakes that have one meaning are mended: null for
    an optional field is left out, and text that holds the JSON of the wanted type is read. With a pydantic model the
    result is the ``model_dump(mode="json")`` of the validated model, so that defaults are filled in; a tool made from a
    function gets what was checked, for it validates again. ``invalid`` is what the model sent instead of a JSON object.

    Raises :class:`ToolError` with a line for each field that is wrong.
    """
    if invalid is not None:
        raise ToolError(f"The arguments of {tool.name} are {_why_invalid(invalid)}. Nothing was done; send them again.")
    prepared = dict(arguments) if tool.prepare_arguments is None else _prepared(tool, arguments)
    if tool.model is None:
        return _by_schema(tool, prepared)
    with _code_of(tool, "could not be checked"):  # a model's validators are code as well
        return _by_model(tool, tool.model, prepared)


def _prepared(tool: AgentTool, arguments: JsonObject) -> JsonObject:
    """What the caller's function makes of a copy: the call itself stays as it was submitted."""
    assert tool.prepare_arguments is not None
    with _code_of(tool, "could not be prepared"):
        prepared: Any = tool.prepare_arguments(deepcopy(arguments))
        if not isinstance(prepared, dict):
            raise ToolError(
                f"{tool.name}: prepare_arguments returned {type(prepared).__name__}, not a dict of arguments."
            )
        try:
            repaired = repair_json(prepared)
        except RecursionError:
            repaired = None
        if repaired is None or not is_storable(repaired):
            raise ToolError(f"{tool.name}: prepare_arguments returned something that is no JSON.")
        return repaired


@contextmanager
def _code_of(tool: AgentTool, what: str) -> Generator[None]:
    """What the caller's code raises is a result that the model can handle, as with ``execute``."""
    try:
        yield
    except (ToolError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ToolError(f"The arguments of {tool.name} {what}: {_words(error)}") from error


def _words(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__


def _by_schema(tool: AgentTool, arguments: JsonObject) -> JsonObject:
    schema = tool.schema()
    try:
        if validator(schema).is_valid(arguments):
            return arguments
        mended = mend(schema, arguments) if steps(schema, arguments) <= MENDED_STEPS else arguments
        wrong = mistakes(schema, mended)
    except BadSchema as error:
        raise ToolError(f"The parameters of the tool {tool.name} are no usable JSON Schema: {error}") from error
    if wrong:
        raise _refused(tool, wrong)
    return mended


def _refused(tool: AgentTool, wrong: list[str]) -> ToolError:
    return ToolError("\n".join([f"Arguments of {tool.name} refused:", *wrong]))


def _by_model(tool: AgentTool, model: Any, arguments: JsonObject) -> JsonObject:
    from pydantic import ValidationError

    from agent_nodes.tools.decorator import FunctionTool

    schema = tool.schema()
    work = steps(schema, arguments)
    if work > MOST_STEPS:
        raise _refused(
            tool, ["too large, or nested too deeply for the alternatives of the schema. Send less at a time."]
        )
    try:
        value = model.model_validate_json(orjson.dumps(arguments))
    except ValidationError as first:
        if work > MENDED_STEPS:
            raise _refused(tool, model_mistakes(first)) from first
        arguments = mend(schema, arguments)
        try:
            value = model.model_validate_json(orjson.dumps(arguments))
        except ValidationError as error:
            raise _refused(tool, model_mistakes(error)) from error
    if isinstance(tool, FunctionTool):
        return arguments
    checked = value.model_dump(mode="json")
    if not is_storable(checked):
        raise ToolError(
            f"Arguments of {tool.name} refused: a number in them is not finite or has more than 64 bits; where such "
            "are wanted, the tool must take them as text."
        )
    return checked


def _why_invalid(text: str) -> str:
    try:
        value = json.loads(text)
    except RecursionError:
        return "nested too deeply"
    except ValueError as error:
        # "Expecting ',' delimiter: line 1 column 12 (char 11)"
        reason = str(error)
        cut = " The text may have been cut off: write less at a time" if text.strip() and _ends_early(text) else ""
        return f"not valid JSON ({reason}).{cut}"
    if isinstance(value, dict):
        return "nested too deeply, or hold an integer of more than 64 bits, which can be sent as text"
    return f"no JSON object but {type(value).__name__}"


def _ends_early(text: str) -> bool:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
    except ValueError:  # an integer of too many digits
        return False
    return False


# -- mending -----------------------------------------------------------------------------------------------------------

_KINDS: dict[str, tuple[type[Any], ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def mend(schema: JsonObject, arguments: JsonObject) -> JsonObject:
    """``arguments`` with the mistakes mended that have one meaning under ``schema``; the rest as it is."""
    return cast("JsonObject", _mended(arguments, schema, schema))


def _mended(value: JsonValue, schema: object, root: JsonObject) -> JsonValue:
    options = list(branches(schema, root))
    if isinstance(value, str):
        value = _read(value, _kinds(options))
    # Where several shapes fit, which one is meant is not for us to guess.
    if isinstance(value, dict):
        shapes = [option for option in options if "object" in _kinds([option])]
        given = cast("JsonObject", value)
        return _mended_object(given, shapes[0], root) if len(shapes) == 1 else given
    if isinstance(value, list):
        shapes = [option for option in options if "array" in _kinds([option])]
        listed = cast("list[Any]", value)
        return [_mended(item, shapes[0].get("items"), root) for item in listed] if len(shapes) == 1 else listed
    return value


def _mended_object(value: JsonObject, schema: JsonObject, root: JsonObject) -> JsonObject:
    properties: object = schema.get("properties")
    required: Iterable[str] = schema.get("required", ())
    others: object = schema.get("additionalProperties")
    mended: JsonObject = {}
    for name, item in value.items():
        known = isinstance(properties, dict) and name in properties
        field: object = cast("JsonObject", properties)[name] if known else others
        if item is None and known and name not in required:
            kinds = _kinds(list(branches(field, root)))
            if kinds and "null" not in kinds:
                continue
        mended[name] = _mended(item, field, root)
    return mended


def _kinds(options: list[JsonObject]) -> set[str]:
    """The types that are allowed; empty where any is."""
    found: set[str] = set()
    for option in options:
        kind: object = option.get("type")
        if isinstance(kind, str):
            found.add(kind)
        elif isinstance(kind, list):
            found.update(str(item) for item in cast("list[object]", kind))
        else:
            return set()
    return found


def _read(text: str, kinds: set[str]) -> JsonValue:
    """The JSON in ``text`` where that is what is wanted and text is not; else ``text``."""
    if "string" in kinds:
        return text
    wanted = {kind for name in kinds for kind in _KINDS.get(name, ())}
    try:
        value: JsonValue = repair_json(json.loads(text))
    except (ValueError, RecursionError):
        return text
    # A bool is an int to Python, but to nobody else.
    return value if type(value) in wanted and is_storable(value) else text
