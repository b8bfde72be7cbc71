"""Server-sent events, bytes in and data payloads out; one reader for every protocol.

Only ``data`` matters: the kind of an event is read from its JSON, because gateways lose ``event:`` lines. Payloads stay
bytes, so a character cut by a network chunk is whole again before anything decodes it.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from agent_nodes.messages import JsonValue

EVENT_LIMIT = 64 * 1024 * 1024
"""Bytes one event may have before the stream is given up."""

_BOM = b"\xef\xbb\xbf"
_DIGITS_AS_0 = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))
_LONG_RUN = b"0" * 19
_LONG_NUMBER = re.compile(rb"[:\[,]\s*-?\d{19}")


class EventTooLarge(ValueError):
    """One event is larger than the reader's limit."""


class SseReader:
    """Cuts a byte stream, in chunks of any size, into the payloads of its events."""

    __slots__ = ("_limit", "_skip_newline", "_started", "_tail")

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        self._tail = bytearray()  # an event of which the end has not come yet
        self._started = False
        self._skip_newline = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads of the events that ``chunk`` completes. Raises :class:`EventTooLarge`."""
        if self._skip_newline or b"\r" in chunk:
            chunk = self._newlines(chunk)
        tail = self._tail
        if tail:
            seen = len(tail) - 1
            tail += chunk
            end = tail.rfind(b"\n\n", seen)  # what was searched before is not searched again
            if end >= 0:
                events = bytes(tail[:end])
                del tail[: end + 2]
                return self._payloads(events)
        else:
            end = chunk.rfind(b"\n\n")
            if end >= 0:
                if end + 2 < len(chunk):
                    tail += chunk[end + 2 :]
                return self._payloads(chunk[:end])
            tail += chunk
        if len(tail) > self._limit:
            raise EventTooLarge(f"one event of the stream is larger than {self._limit} bytes")
        return []

    def end(self) -> list[bytes]:
        """The payload of a last event without its blank line; some servers close right behind the data."""
        rest = bytes(self._tail)
        self._tail.clear()
        return self._payloads(rest)

    def _newlines(self, chunk: bytes) -> bytes:
        """``chunk`` with CR and CRLF as LF. A CR at the end counts at once; the LF that may follow it does not."""
        if self._skip_newline and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._skip_newline = False
        if chunk.endswith(b"\r"):
            self._skip_newline = True
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _payloads(self, events: bytes) -> list[bytes]:
        if not self._started:
            self._started = True
            events = events.removeprefix(_BOM)
        found: list[bytes] = []
        for event in events.split(b"\n\n"):
            # Nearly every event is one data line, or an event line and one data line.
            at = event.find(b"\n") + 1 if event.startswith(b"event:") else 0
            single = event.startswith(b"data: ", at) and event.find(b"\n", at) < 0
            payload = event[at + 6 :] if single else _data(event)
            if payload:
                found.append(payload)
        return found


def _data(event: bytes) -> bytes:
    """The data lines of one event, joined; comments and other fields are dropped."""
    lines: list[bytes] = []
    for line in event.split(b"\n"):
        if line.startswith(b"data:"):
            lines.append(line[5:].removeprefix(b" "))
    return b"\n".join(lines)


def loads(payload: bytes) -> JsonValue:
    """The JSON value of ``payload``. Raises ``ValueError``.

    Integers of any size are exact, lone surrogates pass, bytes that are no UTF-8 become U+FFFD, NaN becomes None.
    """
    # The fast parser rounds integers above 64 bits and refuses the rest of the above. Looking for a run of digits in a
    # masked copy is several times cheaper than the pattern, which only tells numbers from digits in strings.
    if _LONG_RUN not in payload.translate(_DIGITS_AS_0) or _LONG_NUMBER.search(payload) is None:
        try:
            return orjson.loads(payload)
        except orjson.JSONDecodeError:
            pass
    return _loads_anything(payload)


def _loads_anything(payload: bytes) -> Any:
    try:
        return json.loads(payload.decode("utf-8", "replace"), strict=False, parse_constant=lambda _: None)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None
