"""What the tests of reader, wire and stream share: a decoder of a dozen lines, and a wire without a network."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from agent_nodes._clock import SYSTEM_CLOCK, Clock
from agent_nodes.events import TextDelta
from agent_nodes.messages import JsonObject
from agent_nodes.providers.base import Failed, Failure, Finished, ModelEvent
from agent_nodes.providers.failures import error_failure
from agent_nodes.providers.sse import loads
from agent_nodes.providers.stream import stream_response
from agent_nodes.providers.wire import Wire
from tests.fakes.server import FakeServer


class WireTo(Protocol):
    """Makes a wire to a fake service, under a path of its own if told so."""

    def __call__(self, fake: FakeServer, clock: Clock = SYSTEM_CLOCK, base: str = "") -> Wire: ...


KEY = "sk-test-0123456789"
PATH = "/v1/messages"
REQUEST = json.dumps(
    {"model": "m", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
).encode()


class MiniDecoder:
    """Text and ends of the Messages protocol, and nothing else."""

    def __init__(self, *, lenient: bool = False) -> None:
        self.done = False
        self.payloads: list[bytes] = []
        self._lenient = lenient

    def feed(self, payload: bytes, out: list[ModelEvent]) -> None:
        self.payloads.append(payload)
        event = loads(payload)
        match event["type"]:
            case "content_block_delta":
                out.append(TextDelta(event["delta"]["text"], event["index"]))
            case "message_stop":
                self._finish(Finished("end"), out)
            case "error":
                self._finish(Failed(error_failure(event)), out)

    def end(self, out: list[ModelEvent]) -> None:
        if self._lenient:
            self._finish(Finished("end"), out)

    def whole(self, answer: JsonObject, out: list[ModelEvent]) -> None:
        if answer["type"] == "message":
            out.append(TextDelta("".join(block["text"] for block in answer["content"]), 0))
            self._finish(Finished("end"), out)

    def _finish(self, event: ModelEvent, out: list[ModelEvent]) -> None:
        self.done = True
        out.append(event)


class QueueWire:
    """A wire whose answer is what the test puts into ``chunks``: bytes, an exception to raise, or None for the end."""

    origin = "http://models.test"

    def __init__(self, *chunks: bytes | Exception | None, status: int = 200, **headers: str) -> None:
        self.chunks: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        for chunk in chunks:
            self.chunks.put_nowait(chunk)
        self.status = status
        self.headers: Mapping[str, str] = {name.replace("_", "-"): value for name, value in headers.items()}
        self.finished = self.left = False

    def secrets(self) -> list[str]:
        return [KEY]

    @asynccontextmanager
    async def open(self, path: str, body: bytes, headers: Mapping[str, str]) -> AsyncIterator["QueueWire"]:
        try:
            yield self
        finally:
            self.left = True

    def finish(self) -> None:
        self.finished = True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (chunk := await self.chunks.get()) is not None:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk
            self.chunks.task_done()  # asked for the next one

    async def close(self) -> None: ...

    async def taken(self) -> None:
        """Wait until every chunk was read and worked on."""
        await self.chunks.join()


def delta(text: str, index: int = 0) -> bytes:
    data = {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}
    return b"event: content_block_delta\ndata: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
PING = b'event: ping\ndata: {"type":"ping"}\n\n'


def open_stream(wire: Wire, decoder: MiniDecoder | None = None, *, clock: Clock = SYSTEM_CLOCK, stall: float = 300.0):
    return stream_response(wire, PATH, REQUEST, {}, decoder or MiniDecoder(), clock=clock, stall_timeout=stall)


async def collect(wire: Wire, decoder: MiniDecoder | None = None, **options: Any) -> list[ModelEvent]:
    """All events of one request. Raises AssertionError unless exactly one terminal event came, as the last."""
    events = [event for batch in [b async for b in open_stream(wire, decoder, **options)] for event in batch]
    assert [isinstance(event, Finished | Failed) for event in events] == [False] * (len(events) - 1) + [True]
    return events


def text_of(events: list[ModelEvent]) -> str:
    return "".join(event.delta for event in events if isinstance(event, TextDelta))


def failure_of(events: list[ModelEvent]) -> Failure:
    last = events[-1]
    assert isinstance(last, Failed), last
    return last.failure
