"""One client connection of the fake provider: HTTP/1.1 in, scripted bytes out."""

import asyncio
import socket
import struct
from collections.abc import Coroutine
from typing import Any, Protocol

from tests.fakes.flags import Gate
from tests.fakes.play import Play
from tests.fakes.requests import Request
from tests.fakes.wire import Drip, End


class Host(Protocol):
    """What a connection needs of its server."""

    connections: "set[Connection]"
    connections_made: int
    failures: list[str]

    def log(self, method: str, path: str, headers: dict[str, str], raw: bytes) -> Request: ...

    def answer(self, request: Request) -> Play: ...


class Connection(asyncio.Protocol):
    """One client connection: parses requests one after the other and plays the replies."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._buffer = bytearray()
        self._news = asyncio.Event()
        self._gone = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._host.connections.add(self)
        self._host.connections_made += 1
        self.task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._news.set()

    def eof_received(self) -> bool:
        self._leave()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._host.connections.discard(self)
        self._leave()
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _leave(self) -> None:
        self._gone.set()
        self._news.set()

    def abort(self) -> None:
        self._transport.abort()

    # The conversation.

    async def _serve(self) -> None:
        try:
            keep = True
            while keep and (request := await self._read_request()) is not None:
                keep = await self._reply(request)
        except ValueError as problem:
            self._host.failures.append(f"no HTTP request: {problem}")
        finally:
            self._transport.close()

    async def _reply(self, request: Request) -> bool:
        """Answer one request; whether the connection may take another."""
        answer = self._host.answer(request)
        request.status = answer.status
        try:
            if not await self._play(answer):
                request.left.set()
        finally:
            request.finished.set()
        return answer.keep and request.headers.get("connection", "").lower() != "close"

    async def _play(self, answer: Play) -> bool:
        """Walk through the steps; False when the client has left before the end."""
        for step in answer.steps:
            if isinstance(step, bytes):
                self._transport.write(step)
                await asyncio.sleep(0)  # lets a client in the same loop read piece by piece, and notices its leaving
                await self._writable.wait()
            elif isinstance(step, Gate):
                await self._unless_gone(step.passed())
            else:
                await self._unless_gone(asyncio.sleep(step))
            if self._gone.is_set():
                return False
        await self._finish(answer.end)
        return answer.end != "silence" and not isinstance(answer.end, Drip)

    async def _finish(self, end: End | Drip) -> None:
        if isinstance(end, Drip):
            while not self._gone.is_set():
                self._transport.write(b"%x\r\n%b\r\n" % (len(end.data), end.data))
                await self._unless_gone(asyncio.sleep(end.interval))
        elif end == "silence":
            await self._gone.wait()
        elif end == "fin":
            self._transport.close()
        elif end == "rst":
            linger = struct.pack("ii", 1, 0)
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._transport.abort()

    async def _unless_gone(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Await `waiting`, or give it up when the client leaves."""
        tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(self._gone.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _read_request(self) -> Request | None:
        """The next request, or None when the client has left."""
        head = await self._take_until(b"\r\n\r\n")
        if head is None:
            return None
        start, *lines = head.decode("latin-1").split("\r\n")
        method, path, _version = start.split(" ", 2)
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _colon, value in pairs}
        if headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "chunked" in headers.get("transfer-encoding", ""):
            body = await self._take_chunks()
        else:
            body = await self._take(int(headers.get("content-length", "0")))
        return None if body is None else self._host.log(method, path, headers, body)

    async def _more(self) -> bool:
        if self._gone.is_set():
            return False
        self._news.clear()
        await self._news.wait()
        return True

    async def _take(self, size: int) -> bytes | None:
        while len(self._buffer) < size:
            if not await self._more():
                return None
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    async def _take_until(self, mark: bytes) -> bytes | None:
        while (at := self._buffer.find(mark)) < 0:
            if not await self._more():
                return None
        taken = await self._take(at + len(mark))
        return None if taken is None else taken[: -len(mark)]

    async def _take_chunks(self) -> bytes | None:
        parts: list[bytes] = []
        while (line := await self._take_until(b"\r\n")) is not None:
            size = int(line.partition(b";")[0], 16)
            data = await self._take(size + 2)
            if data is None:
                return None
            if size == 0:
                return b"".join(parts)
            parts.append(data[:-2])
        return None
