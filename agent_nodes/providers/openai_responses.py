"""The OpenAI Responses protocol, stateless: a context as one request, a stream of events as model events.

One output item is one block, under its output index. Items are replayed without their ids, which only servers that keep
responses understand; a reasoning item is replayed as it came, with its encrypted content.
"""

from __future__ import annotations

import re
from typing import Any

from agent_nodes.events import TextDelta, ThinkingDelta
from agent_nodes.messages import (
    AgentEffort,
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
    BlockKind,
    BlockStart,
    Finished,
    ModelEntry,
    ModelEvent,
    ModelRequest,
    UsageUpdate,
)
from agent_nodes.providers.decoder import BaseDecoder
from agent_nodes.providers.efforts import named
from agent_nodes.providers.history import AssistantGroup, Group, UserGroup, encoded
from agent_nodes.providers.openai_common import OFFICIAL, cache_key, headers, newer
from agent_nodes.providers.payload import Draft, as_list, as_object, as_text, count, dumps, place, storable, tool_call

__all__ = ["Decoder", "draft", "headers", "path"]

path = "/responses"
MIN_OUTPUT_TOKENS = 16

_KINDS: dict[str, BlockKind] = {
    "message": "text",
    "reasoning": "thinking",
    "function_call": "tool_call",
    "custom_tool_call": "tool_call",
}
# The whole request is echoed in these, which may be hundreds of kilobytes that nobody needs.
_ECHOES = re.compile(rb'\{\s*"type"\s*:\s*"response\.(created|in_progress|queued)"')
_ECHO_SIZE = 1024


def draft(request: ModelRequest) -> Draft:
    """The body; the messages that were encoded for an earlier request are taken from ``request.prefix``."""
    entry, system = request.model, request.system
    body: JsonObject = {"model": entry.model, "stream": True, "store": False}
    limit = request.max_tokens or entry.max_tokens
    if limit:
        body["max_output_tokens"] = max(limit, MIN_OUTPUT_TOKENS)
    if entry.reasoning:
        body["include"] = ["reasoning.encrypted_content"]
        if reasoning := _reasoning(request.effort, entry):
            body["reasoning"] = reasoning
    if request.cache_key:
        body["prompt_cache_key"] = cache_key(request.cache_key)
    if entry.provider == OFFICIAL:
        body["stream_options"] = {"include_obfuscation": False}
    if system.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in system.tools
        ]
    instructions = "\n\n".join(section for section in system.sections if section.strip())
    if instructions:
        body["instructions"] = instructions
    return Draft(body, "input", encoded(request, _render))


def _reasoning(effort: AgentEffort | None, entry: ModelEntry) -> JsonObject:
    """The level, and that a summary of the reasoning is wanted, without which nothing of it is seen."""
    level = named(effort, entry)
    reasoning: JsonObject = {"effort": level} if level is not None else {}
    if level != "none" and newer(entry):
        reasoning["summary"] = "auto"
    return reasoning


def _render(group: Group) -> bytes:
    if isinstance(group, UserGroup):
        return dumps({"role": "user", "content": _content(group.content)})
    return dumps([*_items(group), *map(_output, group.results)])[1:-1]


def _content(content: tuple[ContentBlock, ...]) -> str | list[JsonObject]:
    if len(content) == 1 and isinstance(content[0], TextBlock):
        return content[0].text
    return [
        {"type": "input_text", "text": block.text}
        if isinstance(block, TextBlock)
        else {
            "type": "input_image",
            "detail": "auto",
            "image_url": f"data:{block.mime_type};base64,{block.data}",
        }
        for block in content
    ]


def _items(group: AssistantGroup) -> list[JsonObject]:
    # Reasoning and the native items that follow from it go together or not at all.
    items: list[JsonObject] = []
    for block in group.blocks:
        match block:
            case TextBlock():
                items.append({"role": "assistant", "content": block.text, **(block.raw or {})})
            case ToolCall():
                arguments = dumps(block.arguments).decode()
                call = {"type": "function_call", "call_id": block.id, "name": block.name, "arguments": arguments}
                items.append(call)
            case ThinkingBlock() | NativeBlock():
                if block.raw and not group.thinned:
                    items.append(block.raw)
    return items


def _output(result: ToolResultMessage) -> JsonObject:
    return {"type": "function_call_output", "call_id": result.call_id, "output": _content(result.content)}


class Decoder(BaseDecoder):
    """Responses events. ``response.completed``, ``.incomplete``, ``.failed`` or ``error`` ends a response."""

    def __init__(self, entry: ModelEntry) -> None:
        super().__init__()
        self._items: dict[int, _Item] = {}
        self._events = {
            "response.output_text.delta": self._text_delta,
            "response.refusal.delta": self._refusal_delta,
            "response.function_call_arguments.delta": self._args_delta,
            "response.custom_tool_call_input.delta": self._args_delta,
            "response.reasoning_summary_text.delta": self._summary_delta,
            "response.reasoning_summary_part.added": self._summary_part,
            "response.reasoning_text.delta": self._reasoning_delta,
            "response.output_item.added": self._added,
            "response.output_item.done": self._item_done,
            "response.completed": self._completed,
            "response.incomplete": self._completed,
            "response.failed": self._failed,
            "response.cancelled": self._failed,
            "error": self.fail,
        }

    def feed(self, payload: bytes, out: list[ModelEvent]) -> None:
        if len(payload) < _ECHO_SIZE or not _ECHOES.match(payload):
            super().feed(payload, out)

    def event(self, event: JsonObject, out: list[ModelEvent]) -> None:
        kind: Any = event.get("type")
        handler = self._events.get(kind)
        if handler is not None:
            handler(event, out)
        elif kind is None and "error" in event:
            self.fail(event, out)

    def _text_delta(self, event: JsonObject, out: list[ModelEvent]) -> None:
        index = place(event["output_index"])
        text = self.clean(index, event["delta"])
        if text:
            self._item(index, "message", out).length += len(text)
            out.append(TextDelta(text, index))

    def _refusal_delta(self, event: JsonObject, out: list[ModelEvent]) -> None:
        self._item(place(event["output_index"]), "message", out).refused = True
        self._text_delta(event, out)

    def _args_delta(self, event: JsonObject, out: list[ModelEvent]) -> None:
        index = place(event["output_index"])
        text = self.clean(index, event["delta"])
        item = self._items.get(index)
        if text and item is not None:
            item.arguments.append(text)
            out.append(ArgsDelta(index, text))

    def _summary_delta(self, event: JsonObject, out: list[ModelEvent]) -> None:
        self._think(place(event["output_index"]), "summary", event["delta"], out)

    def _reasoning_delta(self, event: JsonObject, out: list[ModelEvent]) -> None:
        self._think(place(event["output_index"]), "content", event["delta"], out)

    def _summary_part(self, event: JsonObject, out: list[ModelEvent]) -> None:
        item = self._items.get(place(event["output_index"]))
        if item is not None and item.length:
            self._think(place(event["output_index"]), "summary", "\n\n", out)

    def _think(self, index: int, source: str, delta: str, out: list[ModelEvent]) -> None:
        """Reasoning comes as a summary or in full; a server that sends both is taken at its first word."""
        item = self._item(index, "reasoning", out)
        item.source = item.source or source
        text = self.clean(index, delta) if item.source == source else ""
        if text:
            item.length += len(text)
            out.append(ThinkingDelta(text, index))

    def _item(self, index: int, kind: str, out: list[ModelEvent]) -> _Item:
        item = self._items.get(index)
        if item is None:
            item = self._items[index] = _Item(kind)
            out.append(BlockStart(index, item.block))
        return item

    def _added(self, event: JsonObject, out: list[ModelEvent]) -> None:
        started = event["item"]
        item = self._item(place(event["output_index"]), as_text(started.get("type")), out)
        if item.block in {"text", "tool_call"}:  # of the others only the final form is worth keeping
            item.done = started

    def _item_done(self, event: JsonObject, out: list[ModelEvent]) -> None:
        index, done = place(event["output_index"]), event["item"]
        item = self._item(index, as_text(done.get("type")), out)
        # Encrypted content may come with the last event only.
        if item.kind == "reasoning" and not done.get("encrypted_content"):
            item.done = done
        else:
            self._finish_item(index, item, done, out)

    def _finish_item(self, index: int, item: _Item, done: JsonObject, out: list[ModelEvent]) -> None:
        if item.ended:
            return
        item.ended = True
        rest = self.rest(index)
        match item.block:
            case "text":
                self._finish_text(index, item, done, rest, out)
            case "thinking":
                self._finish_thinking(index, item, done, rest, out)
            case "tool_call":
                given = as_text(done.get("arguments") or done.get("input"))
                arguments = given or "".join(item.arguments) + rest
                id = as_text(done.get("call_id")) or as_text(done.get("id"))
                out.append(BlockEnd(index, tool_call(id, as_text(done.get("name")), arguments)))
            case "native":
                if raw := storable(done):
                    out.append(BlockEnd(index, NativeBlock(raw)))

    def _finish_text(self, index: int, item: _Item, done: JsonObject, rest: str, out: list[ModelEvent]) -> None:
        parts = [as_object(part) for part in as_list(done.get("content"))]
        item.refused = item.refused or any(part.get("type") == "refusal" for part in parts)
        texts = [as_text(part.get("text") or part.get("refusal")) for part in parts]
        text = rest + self._missing(item, rest, texts, "")
        if text:
            out.append(TextDelta(text, index))
        phase = as_text(done.get("phase"))
        out.append(BlockEnd(index, raw={"phase": phase} if phase else None))

    def _finish_thinking(self, index: int, item: _Item, done: JsonObject, rest: str, out: list[ModelEvent]) -> None:
        summary = [as_text(as_object(part).get("text")) for part in as_list(done.get("summary"))]
        full = [as_text(as_object(part).get("text")) for part in as_list(done.get("content"))]
        parts = {"summary": summary, "content": full}.get(item.source, summary or full)
        text = rest + self._missing(item, rest, parts, "\n\n" if parts is summary else "")
        if text:
            out.append(ThinkingDelta(text, index))
        raw = None
        if done.get("encrypted_content"):
            raw = storable({name: value for name, value in done.items() if value is not None})
        out.append(BlockEnd(index, raw=raw))

    def _missing(self, item: _Item, rest: str, parts: list[str], between: str) -> str:
        """The end of the text that no delta brought."""
        return between.join(parts)[item.length + len(rest) :]

    def _completed(self, event: JsonObject, out: list[ModelEvent]) -> None:
        response = event["response"]
        output = [as_object(item) for item in as_list(response.get("output"))]
        if not self._items:  # a server that streams nothing but the result
            for index, done in enumerate(output):
                self._added({"output_index": index, "item": done}, out)
        for index, done in enumerate(output):
            item = self._items.get(index)
            if item is not None and item.kind == done.get("type"):
                self._finish_item(index, item, done, out)
        for index, item in sorted(self._items.items()):
            self._finish_item(index, item, item.done, out)
        self._count(response.get("usage"), out)
        reason = as_text(as_object(response.get("incomplete_details")).get("reason"))
        if response.get("status") == "incomplete" and reason not in {"max_output_tokens", "content_filter"}:
            message = f"The response was left incomplete: {reason or 'no reason given'}"
            self.fail({"code": "server_error", "message": message}, out)
            return
        calls = sum(item.block == "tool_call" for item in self._items.values())
        claimed = sum(_KINDS.get(as_text(done.get("type"))) == "tool_call" for done in output)
        self.done = True
        out.append(Finished(self._stop(reason, max(calls, claimed)), claimed_calls=max(calls, claimed)))

    def _stop(self, reason: str, calls: int) -> StopReason:
        if reason == "max_output_tokens":
            return "length"
        if reason == "content_filter" or any(item.refused for item in self._items.values()):
            return "refusal"
        return "tool_use" if calls else "end"

    def _failed(self, event: JsonObject, out: list[ModelEvent]) -> None:
        response = as_object(event.get("response"))
        self._count(response.get("usage"), out)
        message = f"The response ended as {as_text(response.get('status')) or 'failed'}."
        self.fail(as_object(response.get("error")) or {"code": "server_error", "message": message}, out)

    def _count(self, usage: Any, out: list[ModelEvent]) -> None:
        """The service counts cached and cache-writing tokens as input, too; ours leave them out."""
        counts = as_object(usage)
        if not counts:
            return
        details = as_object(counts.get("input_tokens_details"))
        cached, written = count(details.get("cached_tokens")), count(details.get("cache_write_tokens"))
        reasoning = count(as_object(counts.get("output_tokens_details")).get("reasoning_tokens"))
        fresh = max(count(counts.get("input_tokens")) - cached - written, 0)
        out.append(UsageUpdate(Usage(fresh, count(counts.get("output_tokens")), cached, written, reasoning)))

    def end(self, out: list[ModelEvent]) -> None:
        """Nothing but the last event says that a response is whole."""

    def whole(self, answer: JsonObject, out: list[ModelEvent]) -> None:
        """A JSON document in place of a stream; nothing is appended if it is no response."""
        status = answer.get("status")
        if status in {"failed", "cancelled"}:
            self._failed({"response": answer}, out)
        elif isinstance(answer.get("output"), list):
            self._completed({"response": answer}, out)


class _Item:
    """An output item under construction. ``length`` counts the characters its deltas brought."""

    __slots__ = ("arguments", "block", "done", "ended", "kind", "length", "refused", "source")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.block: BlockKind = _KINDS.get(kind, "native")
        self.arguments: list[str] = []
        self.done: JsonObject = {}
        self.ended = False
        self.length = 0
        self.refused = False
        self.source = ""
