"""A context as JSON and back: what ``read_transcript`` gives and ``restore_transcript`` and ``host_input`` take.

A message is ``{"role": "user", "content": …}``, ``{"role": "assistant", "content": …}`` or ``{"role": "tool_result",
"call_id": …, "name": …, "content": …}``; content is a text or a list of blocks: ``{"type": "text", "text": …}``,
``{"type": "image", "data": …, "mime_type": …}`` and, of an assistant, ``{"type": "thinking", "text": …}`` and
``{"type": "tool_call", "id": …, "name": …, "arguments": {…}}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import (
    ApiKind,
    AssistantBlock,
    AssistantMessage,
    ContentBlock,
    ImageBlock,
    JsonObject,
    Message,
    NativeBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserKind,
    UserMessage,
    is_storable,
    message_to_json,
    repair_json,
)

_CONTENT = ("text", "image")
_SAID = ("text", "thinking", "tool_call", "native")
_TEXTS: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "image": ("data", "mime_type"),
    "thinking": ("text",),
    "tool_call": ("id", "name"),
    "native": (),
}


def transcript_of(messages: Sequence[Message]) -> list[JsonObject]:
    """The model-visible messages of a context as JSON."""
    return [
        message_to_json(message) for message in messages if not isinstance(message, SystemMessage) and message.content
    ]


def messages_of(value: Any, *, where: str) -> tuple[Message, ...]:
    """Messages out of their JSON, without what only their provider understands (signatures, sealed reasoning, searches
    it ran).

    Raises :class:`InputValidationError` naming the place, ``where.3.content.0``.
    """
    if not isinstance(value, list | tuple):
        raise _wrong(where, "must be a list of messages")
    return tuple(_message(item, f"{where}.{n}") for n, item in enumerate(cast("Sequence[Any]", value)))


def check_pairs(messages: Sequence[Message], *, where: str) -> None:
    """Every call has exactly one result, before the next message of the user or the assistant, and no result is without
    its call. Raises :class:`InputValidationError` naming the message that breaks the rule."""
    waiting: dict[str, int] = {}
    for n, message in enumerate(messages):
        if isinstance(message, ToolResultMessage):
            if waiting.pop(message.call_id, None) is None:
                raise _wrong(f"{where}.{n}", f"a result without its call ({message.call_id!r})")
            continue
        _check_answered(waiting, where)
        if isinstance(message, AssistantMessage):
            for call in message.calls:
                if call.id in waiting:
                    raise _wrong(f"{where}.{n}", f"two calls with the id {call.id!r}")
                waiting[call.id] = n
    _check_answered(waiting, where)


def _check_answered(waiting: Mapping[str, int], where: str) -> None:
    for call_id, n in waiting.items():
        raise _wrong(f"{where}.{n}", f"a call without its result ({call_id!r})")


def _message(value: Any, where: str) -> Message:
    if not isinstance(value, Mapping):
        raise _wrong(where, "must be a message, an object with role and content")
    data = _storable(cast("Mapping[str, Any]", value), where)
    role = data.get("role")
    if role == "user":
        kind = _one_of(data.get("kind", "user"), get_args(UserKind), f"{where}.kind")
        return UserMessage(cast("tuple[ContentBlock, ...]", _blocks(data, _CONTENT, where)), cast("UserKind", kind))
    if role == "assistant":
        api = _one_of(data.get("api", "openai-completions"), get_args(ApiKind), f"{where}.api")
        return AssistantMessage(
            tuple(block for block in _blocks(data, _SAID, where) if not isinstance(block, ImageBlock)),
            cast("ApiKind", api),
            _text(data.get("provider", ""), f"{where}.provider"),
            _text(data.get("model", ""), f"{where}.model"),
            interrupted=data.get("interrupted") is True,
        )
    if role == "tool_result":
        return ToolResultMessage(
            _text(data.get("call_id"), f"{where}.call_id"),
            _text(data.get("name", ""), f"{where}.name"),
            cast("tuple[ContentBlock, ...]", _blocks(data, _CONTENT, where)),
            data.get("is_error") is True,
            data.get("structured"),
        )
    raise _wrong(f"{where}.role", f"must be user, assistant or tool_result, not {role!r}")


def _storable(value: Mapping[str, Any], where: str) -> JsonObject:
    try:
        data = cast("JsonObject", repair_json(dict(value)))
    except RecursionError:
        data = None
    if data is None or not is_storable(data):
        raise _wrong(
            where, "cannot be stored as JSON: it is nested too deeply or holds a number that is not finite or too large"
        )
    return data


def _blocks(data: JsonObject, known: Sequence[str], where: str) -> tuple[AssistantBlock | ContentBlock, ...]:
    content: Any = data.get("content")
    if isinstance(content, str):
        return (TextBlock(content),) if content else ()
    if not isinstance(content, list | tuple):
        raise _wrong(f"{where}.content", "must be a text or a list of blocks")
    made = [_block(item, known, f"{where}.content.{n}") for n, item in enumerate(cast("Sequence[Any]", content))]
    return tuple(block for block in made if not isinstance(block, NativeBlock))


def _block(value: Any, known: Sequence[str], where: str) -> AssistantBlock | ContentBlock:
    data = cast("JsonObject", value if isinstance(value, dict) else {})
    kind = _one_of(data.get("type"), known, f"{where}.type")
    texts = [_text(data.get(name), f"{where}.{name}") for name in _TEXTS[kind]]
    match kind:
        case "text":
            return TextBlock(texts[0])
        case "image":
            return _picture(ImageBlock(texts[0], texts[1]), where)
        case "thinking":
            return ThinkingBlock(texts[0])
        case "tool_call":
            arguments: Any = data.get("arguments")
            if not isinstance(arguments, dict):
                raise _wrong(f"{where}.arguments", "must be an object")
            return ToolCall(texts[0], texts[1], cast("JsonObject", arguments), data.get("invalid"))
        case _:
            return NativeBlock({})


def _picture(block: ImageBlock, where: str) -> ImageBlock:
    from agent_nodes.tools.environment import ToolError
    from agent_nodes.tools.results import check_image

    try:
        check_image(block)
    except ToolError as error:
        raise _wrong(where, str(error)) from error
    return block


def _one_of(value: Any, known: Sequence[str], where: str) -> str:
    if value not in known:
        raise _wrong(where, f"must be one of {', '.join(known)}, not {value!r}")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(where, "missing" if value is None else "must be a text")
    return value


def _wrong(where: str, what: str) -> InputValidationError:
    return InputValidationError(f"{where}: {what}", field=where)
