"""The Anthropic Messages protocol: a context as one request, a stream of events as model events."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from agent_nodes.events import TextDelta, ThinkingDelta
from agent_nodes.messages import (
    AssistantBlock,
    ContentBlock,
    JsonObject,
    NativeBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
)
from agent_nodes.providers.base import (
    ArgsDelta,
    BlockEnd,
    BlockStart,
    Finished,
    ModelEntry,
    ModelEvent,
    ModelRequest,
    UsageUpdate,
)
from agent_nodes.providers.decoder import BaseDecoder
from agent_nodes.providers.efforts import style_of, thinking
from agent_nodes.providers.history import Group, UserGroup, encoded, lacks_opening
from agent_nodes.providers.payload import (
    Draft,
    as_object,
    as_text,
    count,
    dumps,
    parse_arguments,
    place,
    storable,
    tool_call,
)

path = "/v1/messages"
OFFICIAL_HOST = "api.anthropic.com"
VERSION = "2026-10-21"
DEFAULT_MAX_TOKENS = 8192
"""Sent where neither caller nor catalogue knows better; the protocol demands a number."""

_STOPS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "max_tokens": "length",
    "tool_use": "tool_use",
    "pause_turn": "pause",
    "refusal": "refusal",
    "model_context_window_exceeded": "overflow",
}


def headers(key: str | None, entry: ModelEntry) -> dict[str, str]:
    """Gateways in front of older clients read only ``x-api-key``, so they get the key both ways."""
    out = {"anthropic-version": VERSION}
    if key:
        out["authorization"] = f"Bearer {key}"
        if urlsplit(entry.base_url).hostname != OFFICIAL_HOST:
            out["x-api-key"] = key
    return out


def draft(request: ModelRequest) -> Draft:
    """The body; the messages that were encoded for an earlier request are taken from ``request.prefix``."""
    entry, system = request.model, request.system
    limit = request.max_tokens or entry.max_tokens or DEFAULT_MAX_TOKENS
    body: JsonObject = {"model": entry.model, "max_tokens": limit, "stream": True}
    body |= thinking(request.effort, entry, limit, closed=_closed(request))
    if entry.provider == "anthropic":
        body["cache_control"] = {"type": "ephemeral"}
    if system.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in system.tools
        ]
    sections = [{"type": "text", "text": section} for section in system.sections if section.strip()]
    if sections:
        body["system"] = sections
    return Draft(body, "messages", encoded(request, _render))


def _closed(request: ModelRequest) -> bool:
    """Whether thinking would be refused: it is budgeted, or part of it had to be taken out of what was said."""
    budgeted = style_of(request.model) == "budget"
    return (budgeted or request.prefix.unsealed > 0) and lacks_opening(request)


def _render(group: Group) -> bytes:
    if isinstance(group, UserGroup):
        return dumps({"role": "user", "content": [_content(block) for block in group.content]})
    reply = dumps({"role": "assistant", "content": [_block(block) for block in group.blocks]})
    if not group.results:
        return reply
    return reply + b"," + dumps({"role": "user", "content": [_result(result) for result in group.results]})


def _content(block: ContentBlock) -> JsonObject:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    return {"type": "image", "source": {"type": "base64", "media_type": block.mime_type, "data": block.data}}


def _block(block: AssistantBlock) -> JsonObject:
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text, **(block.raw or {})}
        case ThinkingBlock():
            return block.raw or {"type": "thinking", "thinking": block.text, "signature": block.signature}
        case ToolCall():
            return {
                "type": "tool_use",
                "id": block.id,
                "name": block.name,
                "input": block.arguments,
                **(block.raw or {}),
            }
        case NativeBlock():
            return block.raw


def _result(result: ToolResultMessage) -> JsonObject:
    out: JsonObject = {
        "type": "tool_result",
        "tool_use_id": result.call_id,
        "content": [_content(block) for block in result.content],
    }
    if result.is_error:
        out["is_error"] = True
    return out


class Decoder(BaseDecoder):
    """Messages events. ``message_stop`` ends a response; a stop reason does too when the body ends right behind it."""

    def __init__(self, entry: ModelEntry) -> None:
        super().__init__()
        self._blocks: dict[int, _Block] = {}
        self._usage: JsonObject = {}
        self._stop: str | None = None
        self._calls = False
        self._events = {
            "content_block_delta": self._delta,
            "content_block_start": self._start,
            "content_block_stop": self._block_stop,
            "message_start": self._message_start,
            "message_delta": self._message_delta,
            "message_stop": self._message_stop,
            "error": self.fail,
        }
        self._deltas = {
            "input_json_delta": self._args_delta,
            "signature_delta": self._signature_delta,
            "citations_delta": self._citations_delta,
        }

    def event(self, event: JsonObject, out: list[ModelEvent]) -> None:
        kind: Any = event.get("type")
        handler = self._events.get(kind)
        if handler is not None:
            handler(event, out)
        elif kind is None and "error" in event:
            self.fail(event, out)

    def _delta(self, event: JsonObject, out: list[ModelEvent]) -> None:
        delta, index = event["delta"], place(event["index"])
        kind = delta["type"]
        if kind == "text_delta":
            text = self.clean(index, delta["text"])
            if text:
                out.append(TextDelta(text, index))
        elif kind == "thinking_delta":
            text = self.clean(index, delta["thinking"])
            if text:
                out.append(ThinkingDelta(text, index))
        elif (handler := self._deltas.get(kind)) is not None and (block := self._blocks.get(index)) is not None:
            handler(index, block, delta, out)

    def _args_delta(self, index: int, block: _Block, delta: JsonObject, out: list[ModelEvent]) -> None:
        text = self.clean(index, delta["partial_json"])
        if text:
            block.arguments.append(text)
            if block.kind == "tool_use":
                out.append(ArgsDelta(index, text))

    def _signature_delta(self, index: int, block: _Block, delta: JsonObject, out: list[ModelEvent]) -> None:
        block.signature = as_text(delta["signature"])

    def _citations_delta(self, index: int, block: _Block, delta: JsonObject, out: list[ModelEvent]) -> None:
        block.citations.append(delta["citation"])

    def _start(self, event: JsonObject, out: list[ModelEvent]) -> None:
        index, start = place(event["index"]), event["content_block"]
        if index in self._blocks and not self._blocks[index].ended:
            self._finish_block(index, out)
        block = self._blocks[index] = _Block(start)
        kind = block.kind
        if kind == "text":
            out.append(BlockStart(index, "text"))
            if text := self.clean(index, as_text(start.get("text"))):
                out.append(TextDelta(text, index))
        elif kind == "thinking":
            out.append(BlockStart(index, "thinking"))
            if text := self.clean(index, as_text(start.get("thinking"))):
                out.append(ThinkingDelta(text, index))
        elif kind == "redacted_thinking":
            out.append(BlockStart(index, "thinking"))
        elif kind == "tool_use":
            self._calls = True
            out.append(BlockStart(index, "tool_call"))
        else:
            out.append(BlockStart(index, "native"))

    def _block_stop(self, event: JsonObject, out: list[ModelEvent]) -> None:
        self._finish_block(place(event["index"]), out)

    def _finish_block(self, index: int, out: list[ModelEvent]) -> None:
        block = self._blocks.get(index)
        rest = self.rest(index)
        if block is None:  # its start got lost; what its deltas said stands
            out.append(BlockEnd(index))
            return
        if block.ended:
            return
        block.ended = True
        kind = block.kind
        if kind == "text":
            if rest:
                out.append(TextDelta(rest, index))
            out.append(BlockEnd(index, raw=block.extras("text")))
        elif kind == "thinking":
            if rest:
                out.append(ThinkingDelta(rest, index))
            out.append(BlockEnd(index, signature=block.signature or None))
        elif kind == "redacted_thinking":
            out.append(BlockEnd(index, ThinkingBlock("", raw=storable(block.start))))
        elif kind == "tool_use":
            id, name = as_text(block.start.get("id")), as_text(block.start.get("name"))
            out.append(
                BlockEnd(index, tool_call(id, name, block.input_text(rest), block.extras("id", "name", "input")))
            )
        elif (raw := storable(block.native(rest))) is not None:
            out.append(BlockEnd(index, NativeBlock(raw)))

    def _message_start(self, event: JsonObject, out: list[ModelEvent]) -> None:
        self._count(as_object(event.get("message")).get("usage"), out)

    def _message_delta(self, event: JsonObject, out: list[ModelEvent]) -> None:
        self._count(event.get("usage"), out)
        self._stop = as_text(as_object(event.get("delta")).get("stop_reason")) or self._stop

    def _count(self, usage: Any, out: list[ModelEvent]) -> None:
        """Counts are cumulative; one that is left out keeps its value."""
        fresh = {name: value for name, value in as_object(usage).items() if value is not None}
        if not fresh:
            return
        counts = self._usage = {**self._usage, **fresh}
        out.append(
            UsageUpdate(
                Usage(
                    input_tokens=count(counts.get("input_tokens")),
                    output_tokens=count(counts.get("output_tokens")),
                    cached_input_tokens=count(counts.get("cache_read_input_tokens")),
                    cache_creation_tokens=count(counts.get("cache_creation_input_tokens")),
                    reasoning_tokens=count(as_object(counts.get("output_tokens_details")).get("thinking_tokens")),
                )
            )
        )

    def _message_stop(self, event: JsonObject, out: list[ModelEvent]) -> None:
        for index in sorted(self._blocks):
            self._finish_block(index, out)
        stop = _STOPS.get(self._stop or "", "end")
        if stop == "end" and self._calls:
            stop = "tool_use"
        self.done = True
        out.append(Finished(stop, claimed_calls=int(self._stop == "tool_use")))

    def end(self, out: list[ModelEvent]) -> None:
        """The body ended in order: some gateways leave out the last event, never the stop reason of a whole reply."""
        if self._stop is not None:
            self._message_stop({}, out)

    def whole(self, answer: JsonObject, out: list[ModelEvent]) -> None:
        """A JSON document in place of a stream; nothing is appended if it is no message."""
        if not isinstance(answer.get("content"), list):
            return
        self._message_start({"message": answer}, out)
        for index, block in enumerate(answer["content"]):
            self._start({"index": index, "content_block": block}, out)
            self._finish_block(index, out)
        self._stop = as_text(answer.get("stop_reason")) or None
        self._message_stop({}, out)


class _Block:
    """A block under construction: its start event's content, and what its deltas add."""

    __slots__ = ("arguments", "citations", "ended", "kind", "signature", "start")

    def __init__(self, start: JsonObject) -> None:
        self.start = start
        self.kind = as_text(start["type"])
        self.arguments: list[str] = []
        self.citations: list[Any] = list(start.get("citations") or [])
        self.signature = as_text(start.get("signature"))
        self.ended = False

    def extras(self, *known: str) -> JsonObject | None:
        """What must come back though our own view has no place for it; None where there is nothing."""
        extra = {
            name: value
            for name, value in self.start.items()
            if name not in {"type", "citations", *known} and value is not None
        }
        if self.citations:
            extra["citations"] = self.citations
        return storable(extra) if extra else None

    def input_text(self, rest: str) -> str:
        """The arguments as JSON text: streamed, or whole in the start event."""
        text = "".join(self.arguments) + rest
        given = self.start.get("input")
        return dumps(given).decode() if not text and given else text

    def native(self, rest: str) -> JsonObject:
        if not self.arguments:
            return self.start
        value, invalid = parse_arguments("".join(self.arguments) + rest)
        return self.start if invalid is not None else {**self.start, "input": value}
