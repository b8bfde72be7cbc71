"""Arguments on the way into a tool, results on the way out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, cast

from agent_nodes.errors import validation_error
from agent_nodes.messages import ContentBlock, JsonObject, TextBlock, repair_text
from agent_nodes.tools.base import AgentTool, AgentToolResult
from agent_nodes.tools.bounds import MAX_BYTES, MAX_LINES, NOTE_BYTES, NOTE_LINES, start_of
from agent_nodes.tools.environment import ToolError

SHOWN_MISTAKES = 5
SHOWN_TEXT = 200
CACHED = 256

# Compiled validators by the identity of the schema, which is kept beside so that the identity stays its own.
_validators: dict[int, tuple[object, Any]] = {}


def check_arguments(tool: AgentTool, arguments: JsonObject, invalid: str | None = None) -> JsonObject:
    """The arguments that ``tool.execute`` gets.

    With a JSON Schema that is an equal dict, in which mistakes that have one meaning are mended: null for an optional
    field is left out, and text that holds the JSON of the wanted type is read. With a pydantic model it is the
    ``model_dump(mode="json")`` of the validated model: defaults are filled in, and values are plain JSON, because a
    call that is run again after a crash gets them from the store. ``invalid`` is what the model sent instead of a JSON
    object.

    Raises :class:`ToolError` with a line for each field that is wrong.
    """
    if invalid is not None:
        raise ToolError(f"The arguments of {tool.name} are {_why_invalid(invalid)}. Nothing was done; send them again.")
    if not isinstance(tool.parameters, dict):
        return _by_model(tool, arguments)
    validator = _validator(tool)
    if validator.is_valid(arguments):
        return dict(arguments)
    mended = _mended(tool.schema(), arguments)
    mistakes = [_mistake(error) for error in validator.iter_errors(mended)]
    if mistakes:
        raise _refused(tool, mistakes)
    return mended


def _refused(tool: AgentTool, mistakes: list[str]) -> ToolError:
    left = len(mistakes) - SHOWN_MISTAKES
    more = [f"and {left} more"] if left > 0 else []
    return ToolError("\n".join([f"Arguments of {tool.name} refused:", *mistakes[:SHOWN_MISTAKES], *more]))


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


def _by_model(tool: AgentTool, arguments: JsonObject) -> JsonObject:
    from pydantic import ValidationError

    try:
        return tool.parameters.model_validate(arguments).model_dump(mode="json")
    except ValidationError as error:
        raise ToolError(str(validation_error(error, where=f"Arguments of {tool.name} refused"))) from error


def _validator(tool: AgentTool) -> Any:
    key = id(tool.parameters)
    known = _validators.get(key)
    if known is not None:
        return known[1]
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(tool.parameters, retriever=_no_retrieval)
    except ValueError as error:
        reason = str(error).partition("\n")[0]
        raise ToolError(f"The parameters of the tool {tool.name} are no usable JSON Schema: {reason}") from error
    while len(_validators) >= CACHED:
        _validators.pop(next(iter(_validators)), None)
    _validators[key] = (tool.parameters, validator)
    return validator


def _no_retrieval(uri: str) -> Any:
    raise ValueError(f"{uri} is elsewhere, and a schema is never fetched; put the definition into $defs")


def _mistake(error: Any) -> str:
    """``field.0.name: what is wrong``; without the value where it is long."""
    path = [str(part) for part in error.instance_path]
    kind = error.kind
    if kind.name == "required":
        return f"{'.'.join([*path, kind.property])}: missing"
    if kind.name == "additionalProperties":
        return "; ".join(f"{'.'.join([*path, name])}: unknown field" for name in kind.unexpected)
    message: str = error.message
    if len(message) > SHOWN_TEXT:
        message = f"{message[: SHOWN_TEXT // 2]} … {message[-SHOWN_TEXT // 2 :]}"
    return f"{'.'.join(path)}: {message}" if path else message


_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def _mended(schema: JsonObject, arguments: JsonObject) -> JsonObject:
    properties: JsonObject = schema.get("properties", {})
    required: Iterable[str] = schema.get("required", ())
    mended: JsonObject = {}
    for name, value in arguments.items():
        field: Any = properties.get(name)
        kind: Any = cast("JsonObject", field).get("type") if isinstance(field, dict) else None
        if value is None and isinstance(kind, str) and kind != "null" and name not in required:
            continue
        mended[name] = _read(value, kind) if isinstance(value, str) else value
    return mended


def _read(text: str, kind: Any) -> Any:
    wanted = _TYPES.get(kind) if isinstance(kind, str) else None
    if wanted is None:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    right = isinstance(value, wanted) and (kind == "boolean" or not isinstance(value, bool))
    return value if right else text


def result_of(value: object) -> AgentToolResult:
    """What a tool returned, as a result: an :class:`AgentToolResult`, a string, None, or anything JSON-able (pydantic
    models too). The text in it is repaired and cut to 2,000 lines or 50 KB.

    Raises :class:`ToolError` when there is no way to show it.
    """
    if isinstance(value, AgentToolResult):
        return AgentToolResult(_bounded(value.blocks()), value.is_error)
    text = value if isinstance(value, str) else "" if value is None else _as_json(value)
    return AgentToolResult(_bounded((TextBlock(text),)))


def _as_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(
            f"The tool returned {type(value).__name__}, which is neither text nor JSON ({error})."
        ) from error


def _plain(value: object) -> object:
    dump: Callable[..., object] | None = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, type):
        return dump(mode="json")
    raise TypeError(f"{type(value).__name__} is not JSON-able")


def _bounded(blocks: Iterable[ContentBlock]) -> tuple[ContentBlock, ...]:
    """The limit counts for all text together; a text that is cut says so, and a result is never blank."""
    out: list[ContentBlock] = []
    room, lines = MAX_BYTES, MAX_LINES + NOTE_LINES
    for block in blocks:
        if not isinstance(block, TextBlock):
            out.append(block)
            continue
        text = repair_text(block.text)
        data = text.encode()
        if len(data) > room or text.count("\n") >= lines:
            shown = start_of(data, max(0, room - NOTE_BYTES), max(0, lines - NOTE_LINES))
            text = f"{shown}\n[cut: the first {len(shown.encode()):,} of {len(data):,} bytes; ask for less at a time]"
            room = lines = 0
        else:
            room -= len(data)
            lines -= text.count("\n") + 1
        if text.strip():
            out.append(TextBlock(text, block.raw))
    return tuple(out) or (TextBlock("[no output]"),)
