"""From a reply to the steps that the server walks through."""

import hashlib
from typing import NamedTuple

from tests.fakes import render_anthropic, render_chat, render_responses
from tests.fakes.errors import error_body
from tests.fakes.render import Context, Rendered, dump, frames
from tests.fakes.requests import Protocol, Request
from tests.fakes.scripts import Answer, Error, Raw, Reply
from tests.fakes.wire import Drip, End, Frame, Step, lay_out

RENDERERS = {
    "anthropic": render_anthropic.render,
    "responses": render_responses.render,
    "completions": render_chat.render,
}
ID_HEADERS = {"anthropic": "request-id", "responses": "x-request-id", "completions": "x-request-id"}


class Play(NamedTuple):
    """`rendered` is there for answers only: what the model said, for the memory of the strict checks."""

    status: int
    steps: list[Step]
    end: End | Drip
    keep: bool
    rendered: Rendered | None


def play(reply: Reply, request: Request) -> Play:
    """Render `reply` for the protocol of `request`. Raises ValueError where the protocol cannot carry it."""
    headers = {ID_HEADERS.get(request.protocol or "", "x-request-id"): f"req_{request.number:05d}"}
    rendered: Rendered | None = None
    if isinstance(reply, Raw):
        pieces = [Frame(chunk, True) for chunk in reply.chunks]
    elif isinstance(reply, Error):
        headers["content-type"] = "application/json"
        pieces = [Frame(dump(error_body(request.protocol, reply)), True)]
    else:
        pieces, rendered = _answer(reply, request, headers)
    keep = reply.end == "done" and reply.framing != "close" and reply.head
    return Play(reply.status, lay_out(reply, pieces, headers), reply.end, keep, rendered)


def _answer(reply: Answer, request: Request, headers: dict[str, str]) -> tuple[list[Frame], Rendered]:
    if request.protocol is None:
        raise ValueError(f"no protocol lives at {request.path}: only raw replies and errors can be played there")
    seed = hashlib.sha256(request.raw).hexdigest()
    rendered = RENDERERS[request.protocol](reply, Context(request.json, request.number, seed))
    if reply.as_json:
        headers["content-type"] = "application/json"
        return [Frame(dump(rendered.document), True)], rendered
    headers |= {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
    pieces = frames(rendered.events, reply.quirks.event_lines)
    whole = reply.terminal and reply.failure is None
    if request.protocol == "completions" and whole and reply.quirks.done_line:
        pieces.append(Frame(b"data: [DONE]\n\n", False))
    return pieces, rendered


def prerendered(reply: Answer, protocol: Protocol, model: str = "fake-model") -> Raw:
    """Fixed bytes of an answer, for measurements: playing it again costs one write.

    Its ids are the same each time, and thinking in it was never handed out as far as the strict checks know.
    """
    path = {"anthropic": "/v1/messages", "responses": "/v1/responses", "completions": "/v1/chat/completions"}[protocol]
    body = dump(
        {"model": model, "stream_options": {"include_usage": True}} if protocol == "completions" else {"model": model}
    )
    headers: dict[str, str] = {}
    pieces, _rendered = _answer(reply, Request(0, "POST", path, headers={}, raw=body, at=0.0), headers)
    return Raw(chunks=tuple(piece.data for piece in pieces), headers=headers)
