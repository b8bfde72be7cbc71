"""Encoding and decoding without a network: requests shown to the strict checks, replies of the fake as payloads."""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from agent_nodes.events import TextDelta, ThinkingDelta
from agent_nodes.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolSpec,
    Usage,
    UserMessage,
)
from agent_nodes.providers import anthropic_messages, openai_completions, openai_responses
from agent_nodes.providers.base import (
    BlockEnd,
    EncodedPrefix,
    Failed,
    Finished,
    Fold,
    ModelEntry,
    ModelEvent,
    ModelRequest,
)
from tests.fakes import render_anthropic, render_chat, render_responses, strict
from tests.fakes.issued import Issued
from tests.fakes.render import Context, Event, dump
from tests.fakes.scripts import Answer

CODECS: dict[str, ModuleType] = {
    "anthropic-messages": anthropic_messages,
    "openai-responses": openai_responses,
    "openai-completions": openai_completions,
}
APIS = tuple(CODECS)
RENDERERS = {
    "anthropic-messages": render_anthropic.render,
    "openai-responses": render_responses.render,
    "openai-completions": render_chat.render,
}
TOOLS = (ToolSpec("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}}),)
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def entry(api: str, **changes: Any) -> ModelEntry:
    fields: dict[str, Any] = {"provider": "mine", "model": "m-a", "api": api, "base_url": "http://127.0.0.1:1"}
    return ModelEntry(**{**fields, **changes})


def system(model: ModelEntry, *sections: str, tools: Sequence[ToolSpec] = TOOLS) -> SystemMessage:
    return SystemMessage(sections or ("Be kind.",), tuple(tools), model.api, model.provider, model.model)  # type: ignore[arg-type]


def request(model: ModelEntry, messages: Sequence[Message], **changes: Any) -> ModelRequest:
    fields: dict[str, Any] = {"reasoning_from": 0, "prefix": EncodedPrefix()}
    return ModelRequest(model, changes.pop("system", system(model)), messages, **{**fields, **changes})


def user(text: str) -> UserMessage:
    return UserMessage((TextBlock(text),))


def said(model: ModelEntry, *blocks: Any, **changes: Any) -> AssistantMessage:
    """A message that ``model`` itself made."""
    return AssistantMessage(blocks, model.api, model.provider, model.model, **changes)  # type: ignore[arg-type]


def body(asked: ModelRequest) -> dict[str, Any]:
    return json.loads(CODECS[asked.model.api].draft(asked).encode())


def sent(asked: ModelRequest) -> list[dict[str, Any]]:
    """The messages or input items of a request, without its system message."""
    found = body(asked)
    items = found.get("input") or found["messages"]
    return [item for item in items if item.get("role") != "system"]


def refusal(asked: ModelRequest, issued: Issued | None = None) -> Any:
    """What the strict service says against a request; None where it takes it."""
    codec = CODECS[asked.model.api]
    headers = {"content-type": "application/json", "authorization": "Bearer k", "anthropic-version": "2026-10-21"}
    return strict.check(f"/v1{codec.path.removeprefix('/v1')}", headers, codec.draft(asked).encode(), issued)


@dataclass
class Decoded:
    message: AssistantMessage
    events: list[ModelEvent]
    usage: Usage | None

    @property
    def last(self) -> ModelEvent:
        return self.events[-1]

    @property
    def blocks(self) -> tuple[Any, ...]:
        return self.message.content

    def shown(self, kind: type[TextDelta] | type[ThinkingDelta]) -> str:
        return "".join(event.delta for event in self.events if isinstance(event, kind))


def decode(model: ModelEntry, payloads: Iterable[bytes | dict[str, Any]], *, ended: bool = True) -> Decoded:
    """All payloads through a new decoder; the contract of events is checked on the way."""
    decoder = CODECS[model.api].Decoder(model)
    events: list[ModelEvent] = []
    for payload in payloads:
        assert not decoder.done
        decoder.feed(payload if isinstance(payload, bytes) else json.dumps(payload).encode(), events)
        if decoder.done:
            break
    if ended and not decoder.done:
        decoder.end(events)
    return decoded(model, events, decoder.done)


def decode_whole(model: ModelEntry, document: dict[str, Any]) -> Decoded:
    decoder = CODECS[model.api].Decoder(model)
    events: list[ModelEvent] = []
    decoder.whole(document, events)
    return decoded(model, events, decoder.done)


def decoded(model: ModelEntry, events: list[ModelEvent], done: bool) -> Decoded:
    terminal = [event for event in events if isinstance(event, Finished | Failed)]
    assert terminal == (events[-1:] if done else []), "one terminal event, and it is the last"
    fold = Fold()
    for event in events:
        fold.add(event)
    stop = terminal[0].stop if terminal and isinstance(terminal[0], Finished) else "end"
    result = Decoded(fold.message(model, stop), events, fold.usage)
    for block in [event.block for event in events if isinstance(event, BlockEnd)]:
        assert not isinstance(block, TextBlock) and not (isinstance(block, ThinkingBlock) and block.text)
    return result


def rendered(api: str, answer: Answer, model: str = "m-a") -> tuple[list[Event], dict[str, Any]]:
    """(events, the same reply as one document) as the fake service sends them."""
    asked = {"model": model, "stream_options": {"include_usage": True}, "messages": [{"role": "user", "content": "x"}]}
    result = RENDERERS[api](answer, Context(asked, 1, "seed"))
    return result.events, result.document


def payloads(api: str, answer: Answer) -> list[bytes]:
    found = [dump(event.data) for event in rendered(api, answer)[0]]
    return [*found, b"[DONE]"] if api == "openai-completions" and answer.failure is None else found


def shuffled(queues: Sequence[Sequence[Any]], seed: int) -> list[Any]:
    """One order in which the queues may be mixed, each keeping its own."""
    choose = random.Random(seed)
    waiting = [list(queue) for queue in queues if queue]
    order: list[Any] = []
    while waiting:
        queue = choose.choice(waiting)
        order.append(queue.pop(0))
        waiting = [queue for queue in waiting if queue]
    return order
