"""Results on the way out of a tool: one form for all that a tool may return, checked, repaired and cut."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from typing import Any, cast

import orjson

from agent_nodes.messages import (
    ContentBlock,
    ImageBlock,
    JsonObject,
    JsonValue,
    TextBlock,
    Usage,
    repair_json,
    repair_text,
)
from agent_nodes.tools.base import AgentToolResult
from agent_nodes.tools.bounds import MAX_BYTES, MAX_LINES, NOTE_BYTES, NOTE_LINES, start_of
from agent_nodes.tools.environment import ToolError
from agent_nodes.tools.schemas import BadSchema, mistakes, model_mistakes

MAX_STRUCTURED = 1 << 20
"""Bytes of JSON."""
MAX_SPENT = 1_000_000_000_000
"""Tokens or calls that one call of a tool may say it spent."""


def result_of(value: object, output_schema: Any = None) -> AgentToolResult:
    """What a tool returned, as a result: an :class:`AgentToolResult`, a string, None, content blocks, or anything
    JSON-able (pydantic models too). With ``output_schema`` the structured content is checked against it; it is the
    value itself unless that is an :class:`AgentToolResult`.

    Text is repaired and cut to 2,000 lines or 50 KB. What cannot be used as it is becomes an error result that says
    why; what the call spent counts all the same.
    """
    given = value if isinstance(value, AgentToolResult) else AgentToolResult()
    try:
        usage = _usage(given.usage)
    except ToolError as error:
        return _error(error)
    try:
        given = given if given is value else _returned(value, structured=output_schema is not None)
        structured = given.structured_content
        if output_schema is not None and not given.is_error:
            structured = _fitting(structured, output_schema)
        elif structured is not None:
            structured = _plain_json(structured)
        blocks = _blocks(given.content)
        for name in ("is_error", "terminate"):
            if not isinstance(getattr(given, name), bool):
                raise ToolError(f"The call ran, but {name} of its result is neither True nor False.")
    except ToolError as error:
        return replace(_error(error), usage=usage)
    if structured is not None and not any(not isinstance(block, TextBlock) or block.text.strip() for block in blocks):
        blocks = (TextBlock(json.dumps(structured, ensure_ascii=False)),)
    return AgentToolResult(
        _bounded(blocks),
        structured_content=structured,
        is_error=given.is_error,
        terminate=given.terminate,
        usage=usage,
    )


def _error(error: ToolError) -> AgentToolResult:
    return AgentToolResult(_bounded((TextBlock(str(error)),)), is_error=True)


def _returned(value: object, *, structured: bool) -> AgentToolResult:
    if structured:
        return AgentToolResult(structured_content=value)
    if isinstance(value, str):
        return AgentToolResult(value)
    if value is None:
        return AgentToolResult()
    blocks = content_blocks(value)
    return AgentToolResult(_as_json(value)) if blocks is None else AgentToolResult(blocks)


def content_blocks(value: Any) -> tuple[ContentBlock, ...] | None:
    """``value`` where it is a content block or some of them, else None."""
    items = tuple(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else (value,)
    return items if items and all(isinstance(item, TextBlock | ImageBlock) for item in items) else None


# -- structured content ------------------------------------------------------------------------------------------------


def _fitting(structured: object, schema: Any) -> JsonValue:
    """``structured`` as JSON of the shape that the tool declares."""
    if structured is None:
        raise ToolError("The call ran, but gave no structured content, which its output_schema asks for.")
    if not isinstance(schema, dict):
        return _plain_json(_by_model(structured, schema))
    plain = _plain_json(structured)
    try:
        wrong = mistakes(cast("JsonObject", schema), plain)
    except BadSchema as error:
        raise ToolError(f"The call ran, but its output_schema is no usable JSON Schema: {error}") from error
    if wrong:
        raise _unfitting(wrong)
    return plain


def _by_model(structured: object, schema: Any) -> JsonValue:
    """``schema`` is a pydantic model class or a TypeAdapter."""
    from pydantic import TypeAdapter, ValidationError
    from pydantic_core import PydanticSerializationError

    adapter: Any = schema if hasattr(schema, "validate_python") else TypeAdapter(schema)
    try:
        return adapter.dump_python(adapter.validate_python(structured), mode="json", by_alias=True, warnings="error")
    except ValidationError as error:
        raise _unfitting(model_mistakes(error)) from error
    except PydanticSerializationError as error:  # an instance whose fields were set to something else
        raise _unfitting([str(error)]) from error


def _unfitting(wrong: list[str]) -> ToolError:
    return ToolError(
        "\n".join(["The call ran, but its structured content does not fit the tool's output_schema:", *wrong])
    )


def _plain_json(value: object) -> JsonValue:
    """``value`` as JSON that comes back from the store as it is."""
    text = _as_json(value, allow_nan=False)
    if len(text) > MAX_STRUCTURED:
        raise ToolError(
            f"The call ran, but its structured content is {len(text):,} bytes of JSON; {MAX_STRUCTURED >> 20} MB is "
            "the limit. Keep large data in a file and give its path."
        )
    try:
        plain = repair_json(json.loads(text))
        orjson.dumps(plain)
    except (TypeError, RecursionError) as error:
        raise ToolError(f"The call ran, but its structured content cannot be stored ({error}).") from error
    return plain


def _as_json(value: object, *, allow_nan: bool = True) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain, allow_nan=allow_nan)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(
            f"The tool returned {type(value).__name__}, which is neither text nor JSON ({error})."
        ) from error


def _plain(value: object) -> object:
    dump: Callable[..., object] | None = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, type):
        return dump(mode="json")
    raise TypeError(f"{type(value).__name__} is not JSON-able")


# -- content -----------------------------------------------------------------------------------------------------------


def _usage(usage: object) -> Usage | None:
    if usage is None:
        return None
    if not isinstance(usage, Usage) or not all(
        type(count) is int and 0 <= count <= MAX_SPENT for count in astuple(usage)
    ):
        raise ToolError(f"The call ran, but its usage is no Usage of whole numbers from 0 to {MAX_SPENT:,}.")
    return usage


def _blocks(content: object) -> tuple[ContentBlock, ...]:
    if isinstance(content, str):
        return (TextBlock(content),)
    if not isinstance(content, list | tuple):
        raise ToolError(f"The content of a result is text or a list of TextBlock and ImageBlock, not {_kind(content)}.")
    blocks: list[ContentBlock] = []
    for block in cast("Sequence[object]", content):
        if isinstance(block, TextBlock) and isinstance(block.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            blocks.append(TextBlock(block.text))
        elif isinstance(block, ImageBlock):
            check_image(block)
            blocks.append(block)
        else:
            raise ToolError(f"The content of a result holds TextBlock and ImageBlock only, not {_kind(block)}.")
    return tuple(blocks)


def _kind(value: object) -> str:
    return type(value).__name__


def check_image(block: ImageBlock) -> None:
    """A picture that a service refuses would stand in every request from now on."""
    from agent_nodes.tools.image_header import SENDABLE, BrokenPicture, image_kind, read_header
    from agent_nodes.tools.pictures import MAX_DATA, MAX_SIDE

    if block.mime_type not in SENDABLE:
        raise ToolError(f"A picture of type {block.mime_type!r} cannot be sent; use one of {', '.join(SENDABLE)}.")
    if not isinstance(block.data, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolError(f"The data of a picture is base64 text, not {_kind(block.data)}.")
    try:
        data = base64.b64decode(block.data, validate=True)
        if image_kind(data[:64]) != block.mime_type:
            raise ToolError(f"The data of a picture is no {block.mime_type}.")
        header = read_header(data, block.mime_type)
    except (binascii.Error, ValueError) as error:
        raise ToolError(f"The data of a picture is no base64 ({error}).") from error
    except BrokenPicture as error:
        raise ToolError(f"A picture ({block.mime_type}) {error}.") from error
    if len(data) > MAX_DATA or max(header.width, header.height) > MAX_SIDE:
        raise ToolError(
            f"A picture of {header.width:,}×{header.height:,} px and {len(data):,} bytes is more than the {MAX_SIDE:,} "
            f"px a side and {MAX_DATA:,} bytes that models take; make it smaller first."
        )


def _bounded(blocks: Sequence[ContentBlock]) -> tuple[ContentBlock, ...]:
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
            out.append(TextBlock(text))
    return tuple(out) or (TextBlock("[no output]"),)
