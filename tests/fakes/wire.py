"""How a reply goes over the socket: head, framing, splits, holds and the way it ends.

A reply is first rendered to `Frame`s (one server-sent event each, or one raw chunk) and then laid out as a plain
list of steps: bytes to write, gates to wait at, seconds to pause. Every option is a method returning a changed copy,
so that a script reads as one expression: `text("a", "b").hold(g, before=1).split(1)`.
"""

import dataclasses
from collections.abc import Mapping
from http import HTTPStatus
from typing import Literal, NamedTuple, Self

from tests.fakes.flags import Gate

Step = bytes | Gate | float
"""bytes are written, a gate is waited at, a float is a pause in seconds."""
Position = int | Literal["head", "stop", "tail"]
"""A number n: before the n-th delta (from 0). "head": before the response head. "stop": right after the last delta.
"tail": after the last byte of the body, before the ending."""
End = Literal["done", "fin", "rst", "silence"]


class Frame(NamedTuple):
    """One piece of a body; `delta` marks the ones that `hold` and `cut` count."""

    data: bytes
    delta: bool


class Drip(NamedTuple):
    """An ending: write `data` every `interval` seconds until the client leaves."""

    interval: float
    data: bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wire:
    """What all replies share.

    `framing`: "chunked", "length" (Content-Length) or "close" (neither; the body ends with the connection).
    `end`: "done" is a complete HTTP body and a kept connection, "fin" closes without ending the body, "rst" resets,
    "silence" leaves the connection open without another byte.
    """

    status: int = 200
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    framing: Literal["chunked", "length", "close"] = "chunked"
    head: bool = True
    end: End | Drip = "done"
    split_size: int | None = None
    cut_after: int | None = None
    extra_length: int = 0
    holds: tuple[tuple[Position, Step], ...] = ()

    def with_headers(self, **headers: str) -> Self:
        """Add response headers; an underscore in a name stands for a hyphen."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return dataclasses.replace(self, headers={**self.headers, **named})

    def split(self, size: int = 1) -> Self:
        """Send the body in writes of `size` bytes, each one an HTTP chunk of its own."""
        return dataclasses.replace(self, split_size=size)

    def hold(self, gate: Gate, before: Position = "stop") -> Self:
        """Stop at `gate` before the given position."""
        return self._insert(before, gate)

    def pause(self, seconds: float, before: Position = 0) -> Self:
        return self._insert(before, float(seconds))

    def insert(self, data: bytes, before: Position = 0) -> Self:
        """Put raw bytes (a comment, a ping, a broken event) into the body."""
        return self._insert(before, data)

    def comment(self, text: str = "keep-alive", before: Position = 0) -> Self:
        return self.insert(f": {text}\n\n".encode(), before)

    def cut(self, after: int, end: End | Drip = "done") -> Self:
        """Send nothing behind the `after`-th delta (-1: the last); `end="done"` makes the HTTP body end cleanly."""
        return dataclasses.replace(self, cut_after=after, end=end)

    def ending(self, end: End | Drip) -> Self:
        return dataclasses.replace(self, end=end)

    def framed(self, framing: Literal["chunked", "length", "close"]) -> Self:
        return dataclasses.replace(self, framing=framing)

    def short_length(self, missing: int = 10) -> Self:
        """Promise `missing` bytes more than come, then close."""
        return dataclasses.replace(self, framing="length", extra_length=missing, end="fin")

    def _insert(self, position: Position, step: Step) -> Self:
        return dataclasses.replace(self, holds=(*self.holds, (position, step)))


def lay_out(wire: Wire, frames: list[Frame], base_headers: Mapping[str, str]) -> list[Step]:
    """The whole reply as steps, head and chunk framing included."""
    body = _place_holds(wire, _cut(frames, wire.cut_after))
    steps: list[Step] = [step for position, step in wire.holds if position == "head"]
    if not wire.head:
        return steps
    length = sum(len(step) for step in body if isinstance(step, bytes))
    steps.append(_head(wire, length + wire.extra_length, base_headers))
    for step in body:
        if not isinstance(step, bytes):
            steps.append(step)
        elif step:
            pieces = _pieces(step, wire.split_size)
            steps.extend(map(_chunk, pieces) if wire.framing == "chunked" else pieces)
    if wire.framing == "chunked" and wire.end == "done":
        steps.append(b"0\r\n\r\n")
    return steps if wire.split_size else _joined(steps)


def _cut(frames: list[Frame], after: int | None) -> list[Frame]:
    if after is None:
        return frames
    if after < 0:
        after = sum(frame.delta for frame in frames)
    kept: list[Frame] = []
    for frame in frames:
        if after == 0 and (frame.delta or (kept and kept[-1].delta)):
            break
        kept.append(frame)
        after -= frame.delta
    return kept


def _place_holds(wire: Wire, frames: list[Frame]) -> list[Step]:
    total = sum(frame.delta for frame in frames)
    numbered: dict[int, list[Step]] = {}
    tail: list[Step] = []
    for position, step in wire.holds:
        if position == "tail":
            tail.append(step)
        elif position != "head":
            numbered.setdefault(total if position == "stop" else position, []).append(step)
    if beyond := [position for position in numbered if position > total]:
        raise ValueError(f"a hold before delta {beyond[0]}, but the reply has {total} deltas")
    steps: list[Step] = []
    seen = 0
    for frame in frames:
        if frame.delta or seen == total:
            steps.extend(numbered.pop(seen, ()))
        steps.append(frame.data)
        seen += frame.delta
    steps.extend(numbered.pop(seen, ()))
    return [*steps, *tail]


def _head(wire: Wire, length: int, base_headers: Mapping[str, str]) -> bytes:
    phrase = HTTPStatus(wire.status).phrase if wire.status in HTTPStatus._value2member_map_ else "Overloaded"
    headers = {**base_headers, **{name.lower(): value for name, value in wire.headers.items()}}
    if wire.framing == "chunked":
        headers["transfer-encoding"] = "chunked"
    elif wire.framing == "length":
        headers["content-length"] = str(length)
    else:
        headers["connection"] = "close"
    lines = [f"HTTP/1.1 {wire.status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _pieces(data: bytes, size: int | None) -> list[bytes]:
    return [data] if size is None else [data[at : at + size] for at in range(0, len(data), size)]


def _joined(steps: list[Step]) -> list[Step]:
    """Neighbouring bytes become one write: 5,000 deltas then cost one system call instead of 5,000."""
    result: list[Step] = []
    run: list[bytes] = []
    for step in steps:
        if isinstance(step, bytes):
            run.append(step)
            continue
        if run:
            result.append(b"".join(run))
            run = []
        result.append(step)
    if run:
        result.append(b"".join(run))
    return result
