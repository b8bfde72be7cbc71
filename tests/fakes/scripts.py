"""Builders of scripted replies.

The same builder answers all three protocols: it is rendered when the request comes, in the protocol of its path.

    fake.script(
        reply(thinking("hm"), call("read", {"path": "a.txt"}, id="c1")),
        error(529),
        drop_after("The total is "),
        text("41", ".").hold(gate, before=1),
    )
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from tests.fakes.wire import Drip, End, Wire

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one reply. `input` is the uncached part; `output` includes `reasoning`."""

    input: int = 10
    output: int = 5
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0
    searches: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Citation:
    url: str
    title: str
    cited_text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    deltas: tuple[str, ...]
    citations: tuple[Citation, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Thinking:
    """`signature` None: made by the fake; "" is sent as it is, as gateways do. `sealed` False: nothing encrypted."""

    deltas: tuple[str, ...]
    signature: str | None = None
    sealed: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Redacted:
    data: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    name: str
    pieces: tuple[str, ...]
    id: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Search:
    """A web search run by the service. `sources` are (url, title); `finished` False leaves out its result."""

    query: str
    sources: tuple[tuple[str, str], ...] = ()
    id: str | None = None
    error: str | None = None
    finished: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search that an earlier, paused reply left open."""

    id: str
    sources: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    deltas: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """A block (Messages) or output item (Responses) sent as it is, for types a client doesn't know."""

    data: Json


Part = Text | Thinking | Redacted | Call | Search | SearchResult | Refusal | Block


@dataclasses.dataclass(frozen=True, slots=True)
class Quirks:
    """Deviations of compatible servers."""

    event_lines: bool = True
    done_line: bool = True
    call_index: Literal["real", "missing", "zero"] = "real"
    usage_choices: Literal["empty", "null"] = "empty"
    usage_in: Literal["asked", "always", "every", "finish", "never"] = "asked"
    reasoning_field: Literal["reasoning_content", "reasoning", "both"] = "reasoning_content"
    usage_extra: tuple[tuple[str, Any], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer(Wire):
    """A model's reply. `stop`: end, tool_use, length, stop_sequence, pause, refusal, overflow, filter, or the
    protocol's own word; None is derived from the parts."""

    parts: tuple[Part, ...] = ()
    stop: str | None = None
    usage: Usage | None = dataclasses.field(default_factory=Usage)
    interleave: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    as_json: bool = False
    failure: "StreamError | None" = None
    terminal: bool = True
    quirks: Quirks = dataclasses.field(default_factory=Quirks)

    def stopping(self, stop: str) -> Self:
        return dataclasses.replace(self, stop=stop)

    def using(self, input: int = 10, output: int = 5, **rest: int) -> Self:
        """Set the usage: `using(11, 2, cached=3, cache_write=4, reasoning=1, searches=1)`."""
        return dataclasses.replace(self, usage=Usage(input, output, **rest))

    def without_usage(self) -> Self:
        return dataclasses.replace(self, usage=None)

    def interleaved(self, order: Sequence[int], stops: Sequence[int]) -> Self:
        """All blocks start first; then one delta each in `order` (block numbers), then the block ends as in `stops`."""
        return dataclasses.replace(self, interleave=(tuple(order), tuple(stops)))

    def as_json_body(self) -> Self:
        """One JSON document in place of a stream, as servers that ignore `stream` send."""
        return dataclasses.replace(self, as_json=True, framing="length")

    def without_terminal(self, end: End | Drip = "done") -> Self:
        """All blocks complete, but no event that ends the message."""
        return dataclasses.replace(self, terminal=False, end=end)

    def data_only(self) -> Self:
        return self.quirky(event_lines=False)

    def quirky(self, **changes: Any) -> Self:
        """Change fields of `Quirks`: `quirky(call_index="zero", done_line=False)`."""
        return dataclasses.replace(self, quirks=dataclasses.replace(self.quirks, **changes))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Raw(Wire):
    """Exact bytes; every chunk counts as one delta for `hold` and `cut`."""

    chunks: tuple[bytes, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Error(Wire):
    """A status with the protocol's error body; None fields take what the service sends for that status."""

    message: str | None = None
    type: str | None = None
    code: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class StreamError:
    """An error event inside a 200. `kind`: overloaded, rate_limit, server, overflow or the service's own type."""

    kind: str
    message: str | None = None
    failed_event: bool = False
    wrapped: bool = False


Reply = Answer | Raw | Error
PartLike = Part | str


def _single(part: Part, stop: str | None = None) -> Answer:
    """A one-part builder gives a whole reply; `reply(...)` takes the parts out again."""
    return Answer(parts=(part,), stop=stop)


def text(*deltas: str, cite: Sequence[tuple[str, str, str]] = ()) -> Answer:
    """Text in the given deltas; `cite` holds (url, title, cited text)."""
    return _single(Text(deltas, tuple(Citation(*entry) for entry in cite)))


def thinking(*deltas: str, signature: str | None = None, sealed: bool = True) -> Answer:
    """Thinking (Messages), a reasoning item (Responses), reasoning_content (Chat). Without text: a display omitted."""
    return _single(Thinking(deltas, signature, sealed))


def redacted(data: str | None = None) -> Answer:
    return _single(Redacted(data))


def call(
    name: str, args: Mapping[str, Any] | str | None = None, *, id: str | None = None, pieces: Sequence[str] = ()
) -> Answer:
    """A tool call. `args` as a mapping, or as the raw argument text; `pieces` gives that text delta by delta."""
    if not pieces:
        raw = args if isinstance(args, str) else json.dumps(args or {}, ensure_ascii=False)
        middle = len(raw) // 2
        pieces = (raw[:middle], raw[middle:]) if middle else (raw,)
    return _single(Call(name, tuple(pieces), id))


def search(
    query: str,
    *sources: tuple[str, str],
    id: str | None = None,
    error: str | None = None,
    finished: bool = True,
) -> Answer:
    return _single(Search(query, sources, id, error, finished))


def search_result(id: str, *sources: tuple[str, str]) -> Answer:
    return _single(SearchResult(id, sources))


def refusal(*deltas: str) -> Answer:
    return _single(Refusal(deltas), stop="refusal")


def block(data: Json) -> Answer:
    return _single(Block(data))


def reply(*parts: "PartLike | Answer", stop: str | None = None, usage: Usage | None = None) -> Answer:
    """Several parts in one reply; a plain string is text."""
    flat: list[Part] = []
    for part in parts:
        if isinstance(part, Answer):
            flat.extend(part.parts)
            stop = stop or part.stop
        else:
            flat.append(Text((part,)) if isinstance(part, str) else part)
    return Answer(parts=tuple(flat), stop=stop, usage=usage or Usage())


def tools(*calls: "PartLike | Answer") -> Answer:
    """A reply of tool calls."""
    return reply(*calls)


def paused(*parts: "PartLike | Answer") -> Answer:
    """A Messages reply that stops with pause_turn."""
    return reply(*parts, stop="pause")


def drop_after(*parts: "PartLike | Answer", end: End | Drip = "done") -> Answer:
    """The stream ends right behind the last delta: the last block is open and nothing says that the message is over."""
    answer = reply(*parts)
    return dataclasses.replace(answer, cut_after=-1, terminal=False, end=end)


def error(
    status: int,
    message: str | None = None,
    *,
    type: str | None = None,
    code: str | None = None,
    retry_after: float | str | None = None,
    **headers: str,
) -> Error:
    """An HTTP error; `retry_after` in seconds or as an HTTP date, other headers by name (`x_should_retry="false"`)."""
    if retry_after is not None:
        headers["retry_after"] = str(retry_after)
    return Error(status=status, message=message, type=type, code=code, framing="length").with_headers(**headers)


def stream_error(
    kind: str = "overloaded",
    message: str | None = None,
    *,
    after: Sequence["PartLike | Answer"] = (),
    failed_event: bool = False,
    wrapped: bool = False,
) -> Answer:
    """HTTP 200 whose stream holds an error, at once or behind the parts in `after`.

    Responses: a bare `error` event, `response.failed` with `failed_event`, or `{"error": …}` with `wrapped`.
    """
    answer = reply(*after)
    return dataclasses.replace(answer, failure=StreamError(kind, message, failed_event, wrapped))


def raw(*chunks: bytes | str, status: int = 200, content_type: str = "text/event-stream", end: End = "done") -> Raw:
    encoded = tuple(chunk.encode() if isinstance(chunk, str) else chunk for chunk in chunks)
    return Raw(chunks=encoded, status=status, headers={"content-type": content_type}, end=end)


def json_reply(document: Any, status: int = 200) -> Raw:
    body = json.dumps(document, ensure_ascii=False)
    return raw(body, status=status, content_type="application/json").framed("length")


def html(body: str = "<html><body>Sign in</body></html>", status: int = 200) -> Raw:
    return raw(body, status=status, content_type="text/html").framed("length")


def silent() -> Raw:
    """Takes the request and never answers."""
    return Raw(head=False, end="silence")


def reset_before_head() -> Raw:
    return Raw(head=False, end="rst")


def close_before_head() -> Raw:
    return Raw(head=False, end="fin")


def reset_after_head() -> Raw:
    return Raw(headers={"content-type": "text/event-stream"}, end="rst")


def drip(interval: float = 0.05, data: bytes = b": keep-alive\n\n") -> Drip:
    """An ending: comments for ever, never an event."""
    return Drip(interval, data)
