"""Replies of the Messages protocol."""

import base64
import hashlib
import json
from typing import Any

from tests.fakes.render import BlockEvents, Context, Event, Rendered, arrange, derived_stop
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

STOPS = {
    "end": "end_turn",
    "length": "max_tokens",
    "pause": "pause_turn",
    "overflow": "model_context_window_exceeded",
}
STREAM_ERRORS = {
    "overloaded": ("overloaded_error", "Overloaded"),
    "rate_limit": ("rate_limit_error", "This request would exceed the rate limit of your organization."),
    "server": ("api_error", "Internal server error"),
    "overflow": ("invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"),
}


def render(answer: Answer, context: Context) -> Rendered:
    content: list[Json] = []
    blocks: list[BlockEvents] = []
    for part in answer.parts:
        for block, deltas in _blocks(part, context, len(content)):
            blocks.append(_events(len(content), block, deltas))
            content.append(block)
    has_calls = any(block["type"] == "tool_use" for block in content)
    stop = derived_stop(answer, has_calls)
    reason = STOPS.get(stop, stop)
    message = _message(answer, context)
    events = [Event("message_start", {"type": "message_start", "message": message})]
    if blocks:
        blocks[0].start.append(Event("ping", {"type": "ping"}))
    events += arrange(answer, blocks)
    details = {"type": "refusal", "category": None, "explanation": None} if reason == "refusal" else None
    if answer.failure is not None:
        events.append(_failure(answer.failure))
    elif answer.terminal:
        delta: Json = {"stop_reason": reason, "stop_sequence": None, "stop_details": details, "container": None}
        closing: Json = {"type": "message_delta", "delta": delta}
        if answer.usage is not None:
            closing["usage"] = final_usage(answer.usage)
        events += [Event("message_delta", closing), Event("message_stop", {"type": "message_stop"})]
    document = {**message, "content": content, "stop_reason": reason, "stop_details": details}
    if answer.usage is not None:
        document["usage"] = final_usage(answer.usage)
    return Rendered(events, content, document)


def sign(context: Context, index: int, value: str) -> str:
    """A signature (or redacted data) that the same request and text always get."""
    digest = hashlib.sha256(f"{context.model}|{context.seed}|{index}|{value}".encode("utf-8", "surrogatepass")).digest()
    return base64.b64encode(b"fake" + digest * 2).decode()


def _message(answer: Answer, context: Context) -> Json:
    message: Json = {
        "id": context.ident("msg_", 0),
        "type": "message",
        "role": "assistant",
        "model": context.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
    }
    if answer.usage is not None:
        message["usage"] = {**_input_usage(answer.usage), "output_tokens": 1, "service_tier": "standard"}
    return message


def _input_usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached,
        "cache_creation": {"ephemeral_5m_input_tokens": usage.cache_write, "ephemeral_1h_input_tokens": 0},
    }


def final_usage(usage: Usage) -> Json:
    counts = _input_usage(usage)
    del counts["cache_creation"]
    counts["output_tokens"] = usage.output
    counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    if usage.searches:
        counts["server_tool_use"] = {"web_search_requests": usage.searches, "web_fetch_requests": 0}
    return counts


def _blocks(part: Part, context: Context, index: int) -> list[tuple[Json, list[Json]]]:
    """Each block of a part as (block in its final form, its deltas)."""
    match part:
        case Text(deltas, citations):
            return [_text(deltas, citations, context, index)]
        case Refusal(deltas):
            return [_text(deltas, (), context, index)]
        case Thinking(deltas, signature):
            full = "".join(deltas)
            seal = sign(context, index, full) if signature is None else signature
            thoughts: list[Json] = [{"type": "thinking_delta", "thinking": piece} for piece in deltas]
            thoughts.append({"type": "signature_delta", "signature": seal})
            return [({"type": "thinking", "thinking": full, "signature": seal}, thoughts)]
        case Redacted(data):
            return [({"type": "redacted_thinking", "data": data or sign(context, index, "redacted")}, [])]
        case Call(name, pieces, id):
            use: Json = {"type": "tool_use", "id": id or context.ident("toolu_", index), "name": name}
            return [({**use, "input": _parsed("".join(pieces))}, _json_deltas(pieces))]
        case Search():
            return _search(part, context, index)
        case SearchResult(id, sources):
            return [(_search_result(id, sources, context, index), [])]
        case Block(data):
            return [(data, [])]


def _text(
    deltas: tuple[str, ...], citations: tuple[Citation, ...], context: Context, index: int
) -> tuple[Json, list[Json]]:
    marks: list[Json] = [
        {
            "type": "web_search_result_location",
            "url": citation.url,
            "title": citation.title,
            "cited_text": citation.cited_text,
            "encrypted_index": sign(context, index, citation.url),
        }
        for citation in citations
    ]
    block: Json = {"type": "text", "text": "".join(deltas)}
    if marks:
        block["citations"] = marks
    pieces: list[Json] = [{"type": "text_delta", "text": piece} for piece in deltas]
    return block, pieces + [{"type": "citations_delta", "citation": mark} for mark in marks]


def _search(part: Search, context: Context, index: int) -> list[tuple[Json, list[Json]]]:
    id = part.id or context.ident("srvtoolu_", index)
    query: Json = {"query": part.query}
    use: Json = {"type": "server_tool_use", "id": id, "name": "web_search", "input": query}
    blocks = [(use, _json_deltas((json.dumps(query, ensure_ascii=False),)))]
    if part.error is not None:
        failure = {"type": "web_search_tool_result_error", "error_code": part.error}
        blocks.append(({"type": "web_search_tool_result", "tool_use_id": id, "content": failure}, []))
    elif part.finished:
        blocks.append((_search_result(id, part.sources, context, index + 1), []))
    return blocks


def _search_result(id: str, sources: tuple[tuple[str, str], ...], context: Context, index: int) -> Json:
    results: list[Json] = [
        {
            "type": "web_search_result",
            "url": url,
            "title": title,
            "encrypted_content": sign(context, index, url + title),
            "page_age": None,
        }
        for url, title in sources
    ]
    return {"type": "web_search_tool_result", "tool_use_id": id, "content": results}


def _json_deltas(pieces: tuple[str, ...]) -> list[Json]:
    return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return {}


def _events(index: int, block: Json, deltas: list[Json]) -> BlockEvents:
    start = dict(block)
    emptied = {"text": "text", "thinking": "thinking", "tool_use": "input", "server_tool_use": "input"}.get(
        start["type"]
    )
    if emptied is not None:
        start[emptied] = {} if emptied == "input" else ""
    if start["type"] == "thinking":
        start["signature"] = ""
    if "citations" in start:
        start["citations"] = []
    counted = ("text_delta", "thinking_delta", "input_json_delta")
    return BlockEvents(
        [Event("content_block_start", {"type": "content_block_start", "index": index, "content_block": start})],
        [
            Event(
                "content_block_delta",
                {"type": "content_block_delta", "index": index, "delta": delta},
                delta["type"] in counted,
            )
            for delta in deltas
        ],
        [Event("content_block_stop", {"type": "content_block_stop", "index": index})],
    )


def _failure(failure: StreamError) -> Event:
    type, message = STREAM_ERRORS.get(failure.kind, (failure.kind, failure.kind))
    error = {"type": type, "message": failure.message or message, "details": None}
    return Event("error", {"type": "error", "error": error, "request_id": "req_fake"})
