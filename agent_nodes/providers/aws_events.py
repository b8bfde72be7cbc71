"""The binary event stream that Bedrock answers with, turned into the server-sent events of the protocol inside."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncGenerator, AsyncIterable
from zlib import crc32

from agent_nodes.messages import JsonObject
from agent_nodes.providers.payload import as_object, dumps
from agent_nodes.providers.sse import EVENT_LIMIT, loads

CONTENT_TYPE = "application/vnd.amazon.eventstream"

_PRELUDE = 12  # length of the message, length of its headers, checksum of the two
_CHECKSUM = 4
# Sizes of the values of headers, by the number of their kind; kinds 6 and 7 bring a length of their own.
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


async def as_sse(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """The events as server-sent ones. Raises ``ValueError`` on what is no such stream; half a message is dropped."""
    buffer = bytearray()
    async for chunk in chunks:
        buffer += chunk
        out = bytearray()
        while (message := _take(buffer)) is not None:
            out += _event(message)
        if out:
            yield bytes(out)


def _take(buffer: bytearray) -> bytes | None:
    if len(buffer) < _PRELUDE:
        return None
    size = int.from_bytes(buffer[:4])
    if crc32(buffer[:8]) != int.from_bytes(buffer[8:_PRELUDE]) or not _PRELUDE + _CHECKSUM <= size <= EVENT_LIMIT:
        raise ValueError("the event stream is damaged")
    if len(buffer) < size:
        return None
    message = bytes(buffer[:size])
    del buffer[:size]
    if crc32(message[:-_CHECKSUM]) != int.from_bytes(message[-_CHECKSUM:]):
        raise ValueError("the event stream is damaged")
    return message


def _event(message: bytes) -> bytes:
    end = _PRELUDE + int.from_bytes(message[4:8])
    headers, payload = _headers(message[_PRELUDE:end]), message[end:-_CHECKSUM]
    if headers.get(":message-type") in {"exception", "error"}:
        return _sse(_error(headers, payload))
    if headers.get(":event-type") != "chunk":
        return b""
    try:
        return _sse(base64.b64decode(_object(payload)["bytes"]))
    except (KeyError, TypeError, binascii.Error) as error:
        raise ValueError("the event stream holds an event that cannot be read") from error


def _headers(data: bytes) -> dict[str, str]:
    """Those whose value is text."""
    found: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            name = data[at + 1 : at + 1 + data[at]].decode()
            at += 1 + data[at]
            kind = data[at]
            at += 1
            size = _SIZES.get(kind)
            if size is None:
                size = int.from_bytes(data[at : at + 2])
                at += 2
            if kind == 7:
                found[name] = data[at : at + size].decode()
            at += size
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError("the event stream is damaged") from error
    return found


def _error(headers: dict[str, str], payload: bytes) -> bytes:
    said = _object(payload)
    kind = headers.get(":exception-type") or headers.get(":error-code") or "error"
    text = said.get("message") or said.get("Message") or headers.get(":error-message") or kind
    return dumps({"type": "error", "error": {"type": kind, "message": text}})


def _object(payload: bytes) -> JsonObject:
    return as_object(loads(payload)) if payload else {}


def _sse(payload: bytes) -> bytes:
    return b"data: " + payload.replace(b"\n", b" ") + b"\n\n"
