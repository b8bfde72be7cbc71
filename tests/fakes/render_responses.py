"""Replies of the Responses protocol."""

from typing import Any

from tests.fakes.render import BlockEvents, Context, Event, Rendered, arrange
from tests.fakes.render_anthropic import sign
from tests.fakes.scripts import (
    Answer,
    Block,
    Call,
    Citation,
    Json,
    Part,
    Redacted,
    Refusal,
    Search,
    SearchResult,
    StreamError,
    Text,
    Thinking,
    Usage,
)

CREATED = 1_767_225_600
INCOMPLETE = {"length": "max_output_tokens", "filter": "content_filter"}
STREAM_ERRORS = {
    "overloaded": ("server_error", "Our servers are currently overloaded. Please try again later."),
    "rate_limit": ("rate_limit_exceeded", "Rate limit reached. Please try again in 353ms."),
    "server": ("server_error", "The server had an error while processing your request."),
    "overflow": ("context_length_exceeded", "Your input exceeds the context window of this model."),
}


def render(answer: Answer, context: Context) -> Rendered:
    output: list[Json] = []
    blocks: list[BlockEvents] = []
    for part in answer.parts:
        item, block = _item(part, context, len(output))
        blocks.append(block)
        output.append(item)
    response = _response(context)
    events = [
        Event("response.created", {"response": response}),
        Event("response.in_progress", {"response": response}),
        *arrange(answer, blocks),
    ]
    final = _final(answer, response, output)
    if answer.failure is not None:
        events.append(_failure(answer.failure, response))
    elif answer.terminal:
        events.append(Event(f"response.{final['status']}", {"response": final}))
    return Rendered([_numbered(event, number) for number, event in enumerate(events)], output, final)


def _numbered(event: Event, number: int) -> Event:
    if event.name == "":
        return event
    return event._replace(data={"type": event.name, "sequence_number": number, **event.data})


def _response(context: Context) -> Json:
    body = context.body
    return {
        "id": context.ident("resp_", 0),
        "object": "response",
        "created_at": CREATED,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "model": context.model,
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None, **(body.get("reasoning") or {})},
        "store": body.get("store", True),
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "user": None,
        "metadata": {},
    }


def _final(answer: Answer, response: Json, output: list[Json]) -> Json:
    if answer.stop in ("pause", "stop_sequence"):
        raise ValueError(f"the Responses protocol has no stop reason {answer.stop!r}")
    reason = INCOMPLETE.get(answer.stop or "")
    final = {**response, "status": "incomplete" if reason else "completed", "output": output}
    if reason:
        final["incomplete_details"] = {"reason": reason}
    if answer.usage is not None:
        final["usage"] = final_usage(answer.usage)
        final["tool_usage"] = {"web_search": {"num_requests": answer.usage.searches}}
    return final


def final_usage(usage: Usage) -> Json:
    total = usage.input + usage.cached + usage.cache_write
    return {
        "input_tokens": total,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": total + usage.output,
    }


def _item(part: Part, context: Context, index: int) -> tuple[Json, BlockEvents]:
    match part:
        case Text(deltas, citations):
            return _message(deltas, citations, context, index)
        case Refusal(deltas):
            return _refusal(deltas, context, index)
        case Thinking():
            return _reasoning(part, context, index)
        case Redacted(data):
            item: Json = {"id": context.ident("rs_", index), "type": "reasoning", "summary": []}
            item["encrypted_content"] = data or sign(context, index, "redacted")
            return item, BlockEvents([_added(item, index)], [], [_done(item, index)])
        case Call():
            return _call(part, context, index)
        case Search():
            return _search(part, context, index)
        case Block(data):
            return data, BlockEvents([_added(data, index)], [], [_done(data, index)])
        case SearchResult():
            raise ValueError("the Responses protocol has no search result of its own")


def _added(item: Json, index: int) -> Event:
    return Event("response.output_item.added", {"output_index": index, "item": item})


def _done(item: Json, index: int) -> Event:
    return Event("response.output_item.done", {"output_index": index, "item": item})


def _message(
    deltas: tuple[str, ...], citations: tuple[Citation, ...], context: Context, index: int
) -> tuple[Json, BlockEvents]:
    id = context.ident("msg_", index)
    place: Json = {"item_id": id, "output_index": index, "content_index": 0}
    full = "".join(deltas)
    marks = [_annotation(citation, full) for citation in citations]
    part: Json = {"type": "output_text", "annotations": marks, "logprobs": [], "text": full}
    item: Json = {"id": id, "type": "message", "status": "completed", "content": [part], "role": "assistant"}
    empty: Json = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    start = [
        _added({**item, "status": "in_progress", "content": []}, index),
        Event("response.content_part.added", {**place, "part": empty}),
    ]
    pieces = [
        Event("response.output_text.delta", {**place, "delta": piece, "logprobs": []}, delta=True) for piece in deltas
    ]
    end = [
        Event("response.output_text.annotation.added", {**place, "annotation_index": number, "annotation": mark})
        for number, mark in enumerate(marks)
    ]
    end += [
        Event("response.output_text.done", {**place, "text": full, "logprobs": []}),
        Event("response.content_part.done", {**place, "part": part}),
        _done(item, index),
    ]
    return item, BlockEvents(start, pieces, end)


def _annotation(citation: Citation, full: str) -> Json:
    start = max(full.find(citation.cited_text), 0)
    end = start + len(citation.cited_text)
    return {
        "type": "url_citation",
        "start_index": start,
        "end_index": end,
        "title": citation.title,
        "url": citation.url,
    }


def _refusal(deltas: tuple[str, ...], context: Context, index: int) -> tuple[Json, BlockEvents]:
    id = context.ident("msg_", index)
    place: Json = {"item_id": id, "output_index": index, "content_index": 0}
    part: Json = {"type": "refusal", "refusal": "".join(deltas)}
    item: Json = {"id": id, "type": "message", "status": "completed", "content": [part], "role": "assistant"}
    start = [
        _added({**item, "status": "in_progress", "content": []}, index),
        Event("response.content_part.added", {**place, "part": {"type": "refusal", "refusal": ""}}),
    ]
    pieces = [Event("response.refusal.delta", {**place, "delta": piece}, delta=True) for piece in deltas]
    end = [
        Event("response.refusal.done", {**place, "refusal": part["refusal"]}),
        Event("response.content_part.done", {**place, "part": part}),
        _done(item, index),
    ]
    return item, BlockEvents(start, pieces, end)


def _reasoning(part: Thinking, context: Context, index: int) -> tuple[Json, BlockEvents]:
    id = context.ident("rs_", index)
    place: Json = {"item_id": id, "output_index": index, "summary_index": 0}
    full = "".join(part.deltas)
    summary: list[Json] = [{"type": "summary_text", "text": full}] if part.deltas else []
    item: Json = {"id": id, "type": "reasoning", "summary": summary}
    if part.sealed:
        item["encrypted_content"] = sign(context, index, full) if part.signature is None else part.signature
    started = {**item, "summary": []}
    if part.sealed:
        started["encrypted_content"] = item["encrypted_content"][:8]
    start, pieces, end = [_added(started, index)], list[Event](), list[Event]()
    if summary:
        empty = {"type": "summary_text", "text": ""}
        start.append(Event("response.reasoning_summary_part.added", {**place, "part": empty}))
        pieces = [
            Event("response.reasoning_summary_text.delta", {**place, "delta": piece}, delta=True)
            for piece in part.deltas
        ]
        end = [
            Event("response.reasoning_summary_text.done", {**place, "text": full}),
            Event("response.reasoning_summary_part.done", {**place, "part": summary[0]}),
        ]
    return item, BlockEvents(start, pieces, [*end, _done(item, index)])


def _call(part: Call, context: Context, index: int) -> tuple[Json, BlockEvents]:
    id = context.ident("fc_", index)
    place: Json = {"item_id": id, "output_index": index}
    item: Json = {
        "id": id,
        "type": "function_call",
        "status": "completed",
        "arguments": "".join(part.pieces),
        "call_id": part.id or context.ident("call_", index),
        "name": part.name,
    }
    pieces = [
        Event("response.function_call_arguments.delta", {**place, "delta": piece}, delta=True) for piece in part.pieces
    ]
    end = [
        Event("response.function_call_arguments.done", {**place, "arguments": item["arguments"]}),
        _done(item, index),
    ]
    return item, BlockEvents([_added({**item, "status": "in_progress", "arguments": ""}, index)], pieces, end)


def _search(part: Search, context: Context, index: int) -> tuple[Json, BlockEvents]:
    id = part.id or context.ident("ws_", index)
    place: Json = {"item_id": id, "output_index": index}
    sources = [{"type": "url", "url": url} for url, _title in part.sources]
    action: Json = {"type": "search", "query": part.query, "queries": [part.query], "sources": sources}
    status = "failed" if part.error else "completed"
    item: Json = {"id": id, "type": "web_search_call", "status": status, "action": action}
    start = [
        _added({"id": id, "type": "web_search_call", "status": "in_progress"}, index),
        Event("response.web_search_call.in_progress", place),
        Event("response.web_search_call.searching", place),
    ]
    return item, BlockEvents(start, [], [Event("response.web_search_call.completed", place), _done(item, index)])


def _failure(failure: StreamError, response: Json) -> Event:
    code, message = STREAM_ERRORS.get(failure.kind, (failure.kind, failure.kind))
    error: dict[str, Any] = {"code": code, "message": failure.message or message}
    if failure.failed_event:
        return Event("response.failed", {"response": {**response, "status": "failed", "error": error}})
    if failure.wrapped:
        return Event("", {"error": {**error, "type": code, "param": None}})
    return Event("error", {**error, "param": None})
