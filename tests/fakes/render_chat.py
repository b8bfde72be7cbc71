"""Replies of the Chat Completions protocol and of servers that only resemble it."""

from typing import Any

from tests.fakes.render import BlockEvents, Context, Event, Rendered, arrange, derived_stop
from tests.fakes.render_responses import CREATED, STREAM_ERRORS
from tests.fakes.scripts import Answer, Call, Json, Part, Refusal, StreamError, Text, Thinking, Usage

STOPS = {"end": "stop", "tool_use": "tool_calls", "filter": "content_filter", "refusal": "stop"}


def render(answer: Answer, context: Context) -> Rendered:
    message: Json = {"role": "assistant", "content": None, "refusal": None}
    blocks: list[BlockEvents] = []
    for part in answer.parts:
        blocks.append(_block(part, answer, context, message))
    asked = bool((context.body.get("stream_options") or {}).get("include_usage"))
    chunks = _Chunks(answer, context, asked)
    first: Json = {"role": "assistant", "content": "" if message["content"] else None, "refusal": None}
    events = [chunks.wrap(Event("", first)), *map(chunks.wrap, arrange(answer, blocks))]
    stop = derived_stop(answer, "tool_calls" in message)
    if answer.failure is not None:
        events.append(_failure(answer.failure))
    elif answer.terminal:
        events += chunks.closing(STOPS.get(stop, stop))
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": STOPS.get(stop, stop)}
    document: Json = {**chunks.base, "object": "chat.completion", "choices": [choice]}
    if answer.usage is not None:
        document["usage"] = final_usage(answer)
    return Rendered(events, [message], document)


def final_usage(answer: Answer) -> Json:
    usage = answer.usage or Usage()
    total = usage.input + usage.cached + usage.cache_write
    details: Json = {"cached_tokens": usage.cached, "audio_tokens": 0}
    if usage.cache_write:
        details["cache_write_tokens"] = usage.cache_write
    return {
        "prompt_tokens": total,
        "completion_tokens": usage.output,
        "total_tokens": total + usage.output,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        **dict(answer.quirks.usage_extra),
    }


class _Chunks:
    """Wraps deltas into chunks and places the usage where this server puts it."""

    def __init__(self, answer: Answer, context: Context, asked: bool) -> None:
        place = answer.quirks.usage_in
        self.answer = answer
        self.usage = final_usage(answer) if answer.usage is not None and place != "never" else None
        self.place = ("always" if asked else "never") if place == "asked" else place
        self.base: Json = {
            "id": context.ident("chatcmpl-", 0),
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": context.model,
            "service_tier": "default",
            "system_fingerprint": "fp_fake",
        }

    def wrap(self, event: Event) -> Event:
        return event._replace(data=self._chunk(event.data, None))

    def closing(self, reason: str) -> list[Event]:
        last = self._chunk({}, reason)
        if self.place == "finish":
            last["usage"] = self.usage
        events = [Event("", last)]
        if self.place == "always" and self.usage is not None:
            choices: list[Any] | None = None if self.answer.quirks.usage_choices == "null" else []
            events.append(Event("", {**self.base, "choices": choices, "usage": self.usage}))
        return events

    def _chunk(self, delta: Json, reason: str | None) -> Json:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        chunk = {**self.base, "choices": [choice]}
        if self.place == "every":
            chunk["usage"] = self.usage
        elif self.place == "always":
            chunk["usage"] = None
        return chunk


def _block(part: Part, answer: Answer, context: Context, message: Json) -> BlockEvents:
    """The events hold bare deltas; `_Chunks.wrap` completes them. `message` collects the whole."""
    match part:
        case Text(deltas):
            message["content"] = (message["content"] or "") + "".join(deltas)
            return BlockEvents([], [Event("", {"content": piece}, delta=True) for piece in deltas], [])
        case Refusal(deltas):
            message["refusal"] = "".join(deltas)
            return BlockEvents([], [Event("", {"refusal": piece}, delta=True) for piece in deltas], [])
        case Thinking(deltas):
            field = answer.quirks.reasoning_field
            names = ("reasoning_content", "reasoning") if field == "both" else (field,)
            for name in names:
                message[name] = message.get(name, "") + "".join(deltas)
            return BlockEvents([], [Event("", dict.fromkeys(names, piece), delta=True) for piece in deltas], [])
        case Call():
            return _call(part, answer, context, message)
        case _:
            raise ValueError(f"the Chat Completions protocol cannot carry {type(part).__name__}")


def _call(part: Call, answer: Answer, context: Context, message: Json) -> BlockEvents:
    calls: list[Json] = message.setdefault("tool_calls", [])
    number = len(calls)
    place: Json = {"real": {"index": number}, "zero": {"index": 0}, "missing": {}}[answer.quirks.call_index]
    id = part.id if part.id is not None else context.ident("call_", number)
    calls.append({"id": id, "type": "function", "function": {"name": part.name, "arguments": "".join(part.pieces)}})

    def delta(fields: Json, counted: bool) -> Event:
        return Event("", {"tool_calls": [{**place, **fields}]}, delta=counted)

    if answer.quirks.call_index == "real":
        start = [delta({"id": id, "type": "function", "function": {"name": part.name, "arguments": ""}}, False)]
        return BlockEvents(start, [delta({"function": {"arguments": piece}}, True) for piece in part.pieces], [])
    # Without a usable index a server can only send each call whole, so that its id tells it from the one before.
    function = {"name": part.name, "arguments": "".join(part.pieces)}
    return BlockEvents([], [delta({"id": id, "type": "function", "function": function}, True)], [])


def _failure(failure: StreamError) -> Event:
    code, message = STREAM_ERRORS.get(failure.kind, (failure.kind, failure.kind))
    if failure.wrapped:
        return Event("", {"error": failure.message or message})
    return Event("", {"error": {"message": failure.message or message, "type": code, "param": None, "code": code}})
