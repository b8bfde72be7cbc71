"""The OpenAI Chat Completions protocol, as OpenAI and the many servers that resemble it speak it."""

from __future__ import annotations

from typing import Any

from agent_nodes.events import TextDelta, ThinkingDelta
from agent_nodes.messages import (
    ContentBlock,
    ImageBlock,
    JsonObject,
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
from agent_nodes.providers.chat_calls import CallParts, Calls
from agent_nodes.providers.decoder import BaseDecoder
from agent_nodes.providers.efforts import named
from agent_nodes.providers.history import AssistantGroup, Group, UserGroup, encoded
from agent_nodes.providers.openai_common import OFFICIAL, cache_key, headers, newer
from agent_nodes.providers.payload import Draft, as_list, as_object, as_text, count, dumps, storable, tool_call
from agent_nodes.providers.think_tag import Split, ThinkTag

__all__ = ["Decoder", "draft", "headers", "path"]

path = "/chat/completions"

# A response is one text, one reasoning text and some calls; these are their places.
_THINKING, _TEXT, _CALLS = 0, 1, 2
_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
_REPLAYED_FIELDS = _REASONING_FIELDS[:2]
_FULL = 0.99  # of the window; an empty answer to so long an input was cut by it

_STOPS: dict[str, StopReason] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "refusal",
    "refusal": "refusal",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "tool_use": "tool_use",
    "model_context_window_exceeded": "overflow",
    "model_length": "overflow",
    "malformed_function_call": "tool_use",
    "safety": "refusal",
    "sensitive": "refusal",
    "recitation": "refusal",
    "prohibited_content": "refusal",
}
# Reasons that mean the service broke off by itself, which is no answer.
_BROKEN_OFF = frozenset({"error", "abort", "aborted", "cancelled", "network_error", "insufficient_system_resource"})


def draft(request: ModelRequest) -> Draft:
    """The body; the messages that were encoded for an earlier request are taken from ``request.prefix``."""
    entry, system = request.model, request.system
    official = entry.provider == OFFICIAL
    body: JsonObject = {"model": entry.model, "stream": True, "stream_options": {"include_usage": True}}
    limit = request.max_tokens or entry.max_tokens
    if limit:
        body["max_completion_tokens" if newer(entry) else "max_tokens"] = limit
    if (level := named(request.effort, entry)) is not None:
        body["reasoning_effort"] = level
    if official and request.cache_key:
        body["prompt_cache_key"] = cache_key(request.cache_key)
    if system.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in system.tools
        ]
    messages = encoded(request, _render)
    instructions = "\n\n".join(section for section in system.sections if section.strip())
    if instructions:
        first = dumps({"role": "system", "content": instructions})
        messages = first + b"," + messages if messages else first
    return Draft(body, "messages", messages)


def _render(group: Group) -> bytes:
    if isinstance(group, UserGroup):
        return dumps({"role": "user", "content": _content(group.content)})
    reply = _assistant(group)
    if not group.results:
        return dumps(reply) if reply else b""
    messages = [reply, *map(_tool, group.results)]
    shown = [(result, image) for result in group.results for image in result.content if isinstance(image, ImageBlock)]
    if shown:  # no picture may stand in a tool message
        content: list[ContentBlock] = []
        for result, image in shown:
            content += [TextBlock(f"Picture from the result of {result.name} ({result.call_id}):"), image]
        messages.append({"role": "user", "content": _content(tuple(content))})
    return dumps([message for message in messages if message])[1:-1]


def _content(content: tuple[ContentBlock, ...]) -> str | list[JsonObject]:
    if len(content) == 1 and isinstance(content[0], TextBlock):
        return content[0].text
    return [
        {"type": "text", "text": block.text}
        if isinstance(block, TextBlock)
        else {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}
        for block in content
    ]


def _assistant(group: AssistantGroup) -> JsonObject:
    """Empty where nothing but reasoning is left."""
    text = "".join(block.text for block in group.blocks if isinstance(block, TextBlock))
    calls = [_call(block) for block in group.calls]
    if not text and not calls:
        return {}
    message: JsonObject = {"role": "assistant"}
    if text:
        message["content"] = text
    if calls:
        message["tool_calls"] = calls
        # Some models want their reasoning back while they work with tools; elsewhere older ones refuse it.
        for block in group.blocks:
            if isinstance(block, ThinkingBlock) and block.raw:
                message |= _reasoning(block, block.raw)
    return message


def _reasoning(block: ThinkingBlock, raw: JsonObject) -> JsonObject:
    if raw.get("details"):
        return {"reasoning_details": raw["details"]}
    return {raw["field"]: block.text} if raw.get("field") and block.text else {}


def _call(call: ToolCall) -> JsonObject:
    function = {"name": call.name, "arguments": dumps(call.arguments).decode()}
    return {"id": call.id, "type": "function", "function": function, **(call.raw or {})}


def _tool(result: ToolResultMessage) -> JsonObject:
    texts = [block.text for block in result.content if isinstance(block, TextBlock)]
    content = "\n".join(texts) or "(see the picture below)"
    return {"role": "tool", "tool_call_id": result.call_id, "content": content}


class Decoder(BaseDecoder):
    """Chunks of a completion. ``[DONE]``, or the end of the body behind a finish reason, ends a response."""

    def __init__(self, entry: ModelEntry) -> None:
        super().__init__()
        self._window = entry.context_window
        self._tag = ThinkTag() if entry.provider != OFFICIAL else None
        self._calls = Calls()
        self._text = self._refused = self._thinking = False
        self._field = ""
        self._details: list[JsonObject] = []
        self._reason = ""
        self._usage: Usage | None = None

    def feed(self, payload: bytes, out: list[ModelEvent]) -> None:
        if payload.strip() == b"[DONE]":
            if self._reason or self._plausible():
                self._finish(out)
            return
        super().feed(payload, out)

    def event(self, event: JsonObject, out: list[ModelEvent]) -> None:
        if event.get("error"):
            self.fail(event, out)
            return
        choices = event.get("choices")
        if choices:
            self._choice(choices[0], out)
        elif event.get("object") == "error":
            self.fail(event, out)
        if isinstance(event.get("usage"), dict) and not self.done:
            self._count(event["usage"], out)

    def _choice(self, choice: JsonObject, out: list[ModelEvent]) -> None:
        delta = as_object(choice.get("delta") or choice.get("message"))
        content: Any = delta.get("content")
        if content:
            self._content(content if isinstance(content, str) else _parts_text(content), out)
        if len(delta) > 1 or not content:
            self._others(delta, out)
        if isinstance(choice.get("usage"), dict):
            self._count(choice["usage"], out)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason.lower() in _BROKEN_OFF:
            said = {"code": "server_error", "message": f"The service broke off the answer ({reason})."}
            self.fail(as_object(choice.get("error")) or said, out)
        elif reason:
            self._reason = as_text(reason).lower()

    def _others(self, delta: JsonObject, out: list[ModelEvent]) -> None:
        """What is not plain content, in the order in which models make it."""
        for name in _REASONING_FIELDS:
            if isinstance(value := delta.get(name), str) and value:
                self._think(name, value, out)
                break
        details = [as_object(detail) for detail in as_list(delta.get("reasoning_details"))]
        if not self._field:  # else they repeat it
            for detail in details:
                self._think("", as_text(detail.get("text") or detail.get("summary")), out)
        self._details += details
        if isinstance(refusal := delta.get("refusal"), str) and refusal:
            self._refused = True
            self._say(refusal, out)
        for call in as_list(delta.get("tool_calls")):
            self._call(call, out)
        if delta.get("function_call"):
            self._call({"index": 0, "function": delta["function_call"]}, out)

    def _content(self, content: str, out: list[ModelEvent]) -> None:
        """Text, with the reasoning that some servers leave in front of it; not where they tell the two apart."""
        if self._tag is None or self._tag.over or self._field:
            self._say(content, out)
        else:
            self._apart(self._tag.split(content), out)

    def _apart(self, parts: Split, out: list[ModelEvent]) -> None:
        self._think("", parts.thinking, out)
        if parts.text:
            self._say(parts.text, out)

    def _say(self, text: str, out: list[ModelEvent]) -> None:
        if not self._text:
            self._text = True
            out.append(BlockStart(_TEXT, "text"))
        if text := self.clean(_TEXT, text):
            out.append(TextDelta(text, _TEXT))

    def _think(self, field: str, text: str, out: list[ModelEvent]) -> None:
        if not text:
            return
        if not self._thinking:
            self._thinking = True
            out.append(BlockStart(_THINKING, "thinking"))
        self._field = self._field or field
        if text := self.clean(_THINKING, text):
            out.append(ThinkingDelta(text, _THINKING))

    def _call(self, delta: JsonObject, out: list[ModelEvent]) -> None:
        parts = CallParts.of(delta)
        started, call = self._calls.place(parts)
        index = _CALLS + call.number
        if started:
            out.append(BlockStart(index, "tool_call"))
        text = self.clean(index, parts.arguments)
        if text:
            call.arguments.append(text)
            out.append(ArgsDelta(index, text))

    def _count(self, usage: JsonObject, out: list[ModelEvent]) -> None:
        """The services count cached and cache-writing tokens as input, too; ours leave them out."""
        details = as_object(usage.get("prompt_tokens_details"))
        cached = count(details.get("cached_tokens")) or count(usage.get("prompt_cache_hit_tokens"))
        written = count(details.get("cache_write_tokens"))
        fresh = max(count(usage.get("prompt_tokens")) - cached - written, 0)
        reasoning = count(as_object(usage.get("completion_tokens_details")).get("reasoning_tokens"))
        self._usage = Usage(fresh, count(usage.get("completion_tokens")), cached, written, reasoning)
        out.append(UsageUpdate(self._usage))

    def _plausible(self) -> bool:
        """Whether what came can be a response though no finish reason said so."""
        return (self._text or bool(self._calls.all)) and self._calls.complete

    def _finish(self, out: list[ModelEvent]) -> None:
        if self._tag is not None:
            self._apart(self._tag.rest(), out)
        if self._thinking or self._details:
            if not self._thinking:
                out.append(BlockStart(_THINKING, "thinking"))
            if rest := self.rest(_THINKING):
                out.append(ThinkingDelta(rest, _THINKING))
            out.append(BlockEnd(_THINKING, raw=self._reasoning_raw()))
        if self._text:
            if rest := self.rest(_TEXT):
                out.append(TextDelta(rest, _TEXT))
            out.append(BlockEnd(_TEXT))
        calls = self._calls.named()
        for call in calls:
            arguments = "".join(call.arguments) + self.rest(_CALLS + call.number)
            raw = storable(call.extras) if call.extras else None
            out.append(BlockEnd(_CALLS + call.number, tool_call(call.id, call.name, arguments, raw)))
        self.done = True
        claimed = int(_STOPS.get(self._reason) == "tool_use")
        out.append(Finished(self._stop(bool(calls)), claimed_calls=claimed))

    def _stop(self, calls: bool) -> StopReason:
        stop = _STOPS.get(self._reason, "end")
        if stop == "end" and self._refused:
            return "refusal"
        if stop == "end" and calls:
            return "tool_use"
        usage, nothing = self._usage, not (self._text or calls)
        if stop == "length" and nothing and usage is not None and self._window and not usage.output_tokens:
            held = usage.input_tokens + usage.cached_input_tokens + usage.cache_creation_tokens
            return "overflow" if held >= self._window * _FULL else "length"
        return stop

    def _reasoning_raw(self) -> JsonObject | None:
        raw: JsonObject = {"field": self._field} if self._field in _REPLAYED_FIELDS else {}
        if self._details:
            raw["details"] = _merged(self._details)
        return storable(raw) if raw else None

    def end(self, out: list[ModelEvent]) -> None:
        """The body ended in order: many servers leave out ``[DONE]``, none the finish reason of a whole reply."""
        if self._reason:
            self._finish(out)

    def whole(self, answer: JsonObject, out: list[ModelEvent]) -> None:
        """A JSON document in place of a stream; nothing is appended if it is no completion."""
        self.event(answer, out)
        if not self.done and (self._reason or self._plausible()):
            self._finish(out)


def _parts_text(content: Any) -> str:
    return "".join(as_text(as_object(part).get("text")) for part in as_list(content))


def _merged(details: list[JsonObject]) -> list[JsonObject]:
    """The pieces of each reasoning detail put together: texts joined, of everything else the last word."""
    merged: list[JsonObject] = []
    for piece in details:
        last = merged[-1] if merged else None
        if last is None or (last.get("type"), last.get("index")) != (piece.get("type"), piece.get("index")):
            merged.append(dict(piece))
            continue
        for name, value in piece.items():
            if name in {"text", "summary", "data"} and isinstance(value, str) and isinstance(last.get(name), str):
                last[name] += value
            elif value is not None:
                last[name] = value
    return merged
