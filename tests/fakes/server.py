"""The fake provider: a loopback HTTP/1.1 server that plays scripted replies and refuses what real services refuse.

In the test's own loop:

    async with FakeServer() as fake:
        fake.script(text("hello"))

In a thread with its own loop, for tests whose clients are child processes or blocking code:

    with FakeServer.in_thread() as fake: ...

Start child processes by exec, not by a bare fork of the process that runs the server: a forked child would hold the
server's sockets open, and a scripted reset or close would not reach the client.

As a process of its own: `python -m tests.fakes.server --port 8080 [--respond package.module:function]`.
"""

import argparse
import asyncio
import contextlib
import importlib
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Self

from tests.fakes import strict as checks
from tests.fakes.flags import HANG_GUARD, Flag, Gate
from tests.fakes.issued import Issued
from tests.fakes.play import Play, play
from tests.fakes.requests import Request
from tests.fakes.scripts import Reply, error, json_reply, text
from tests.fakes.wire import Drip, End

Respond = Callable[[Request], Reply]


class FakeServer:
    """`strict=False` switches the checks off; with `api_key` any other key is answered with 401."""

    def __init__(self, *, strict: bool = True, api_key: str | None = None, host: str = "127.0.0.1", port: int = 0):
        self.strict = strict
        self.api_key = api_key
        self.requests: list[Request] = []
        self.failures: list[str] = []
        """Replies that could not be played; raised when the server is left."""
        self.issued = Issued()
        self.connections_made = 0
        self._host, self._port = host, port
        self._queue: deque[Reply] = deque()
        self._respond: Respond | None = None
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: list[tuple[int, Flag]] = []
        self._lock = threading.Lock()

    # What a test says.

    def script(self, *replies: Reply) -> None:
        """Append replies; each request that the checks let through takes the next one."""
        self._queue.extend(replies)

    def respond(self, respond: Respond | None) -> None:
        """Answer with `respond(request)` whenever the queue is empty."""
        self._respond = respond

    # What a test reads.

    @property
    def url(self) -> str:
        """Base address without a path, as Messages clients want it."""
        return f"http://{self._host}:{self._port}"

    @property
    def v1(self) -> str:
        """Base address with `/v1`, as OpenAI clients want it."""
        return f"{self.url}/v1"

    @property
    def port(self) -> int:
        return self._port

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    @property
    def remaining(self) -> int:
        """Scripted replies that no request has taken yet."""
        return len(self._queue)

    @property
    def refused(self) -> list[Request]:
        return [request for request in self.requests if request.refused is not None]

    def assert_accepted(self) -> None:
        """Raise AssertionError with the first refusal, if the checks refused anything."""
        for request in self.refused:
            raise AssertionError(f"{request!r}\n{request.raw.decode(errors='replace')[:4000]}")

    async def wait_requests(self, count: int, timeout: float = HANG_GUARD) -> list[Request]:
        """Wait until `count` requests have come."""
        await self._request_flag(count).wait(timeout)
        return self.requests

    def wait_requests_blocking(self, count: int, timeout: float = HANG_GUARD) -> list[Request]:
        self._request_flag(count).wait_blocking(timeout)
        return self.requests

    def _request_flag(self, count: int) -> Flag:
        flag = Flag()
        with self._lock:
            if len(self.requests) >= count:
                flag.set()
            else:
                self._waiters.append((count, flag))
        return flag

    # Life.

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self.listen()

    async def listen(self) -> None:
        """Accept connections again after `deafen`, on the same port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), self._host, self._port, reuse_address=True)
        self._port = self._server.sockets[0].getsockname()[1]

    async def deafen(self) -> None:
        """Refuse new connections; those open live on."""
        if self._server is not None:
            self._server.close()
            self._server = None
            await asyncio.sleep(0)  # the socket is closed by the loop, one round later

    async def close(self) -> None:
        await self.deafen()
        tasks = [connection.task for connection in self._connections]
        for connection in list(self._connections):
            connection.abort()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def raise_failures(self) -> None:
        if self.failures:
            raise AssertionError("the fake provider could not play:\n" + "\n".join(self.failures))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: object, value: object, trace: object) -> None:
        await self.close()
        if kind is None:
            self.raise_failures()

    @classmethod
    @contextlib.contextmanager
    def in_thread(cls, **options: object) -> Iterator[Self]:
        """The server in a daemon thread. All its methods that aren't coroutines may be called from outside."""
        fake = cls(**options)  # type: ignore[arg-type]
        ready, stop = Flag(), Flag()

        async def main() -> None:
            await fake.start()
            ready.set()
            await stop.wait(timeout=None)
            await fake.close()

        thread = threading.Thread(target=asyncio.run, args=(main(),), name="fake-provider", daemon=True)
        thread.start()
        ready.wait_blocking()
        try:
            yield fake
        finally:
            stop.set()
            thread.join(HANG_GUARD)
        fake.raise_failures()

    # What connections call.

    def _log(self, method: str, path: str, headers: dict[str, str], raw: bytes) -> Request:
        request = Request(len(self.requests) + 1, method, path, headers=headers, raw=raw, at=time.monotonic())
        with self._lock:
            self.requests.append(request)
            due = [flag for count, flag in self._waiters if count <= len(self.requests)]
            self._waiters = [(count, flag) for count, flag in self._waiters if count > len(self.requests)]
        for flag in due:
            flag.set()
        return request

    def _answer(self, request: Request) -> Play:
        try:
            request.refused = self._refusal(request)
            if request.refused is not None:
                status, body = request.refused
                return play(json_reply(body, status), request)
            answer = play(self._next(request), request)
        except Exception as problem:  # the test must see its own mistake, whichever it is
            self.failures.append(f"request {request.number}: {type(problem).__name__}: {problem}")
            return play(error(500, f"fake provider: {problem}", x_should_retry="false"), request)
        if answer.rendered is not None and request.protocol is not None:
            self.issued.note(request.protocol, request.json, answer.rendered.content, answer.rendered.document)
        return answer

    def _refusal(self, request: Request) -> "tuple[int, dict[str, object]] | None":
        if request.method != "POST" or request.protocol is None:
            return (404, checks.not_found(request.path)) if self.strict else None
        if self.api_key is not None and self.api_key not in checks.keys_in(request.headers):
            return checks.wrong_key(request.path)
        return checks.check(request.path, request.headers, request.raw, self.issued) if self.strict else None

    def _next(self, request: Request) -> Reply:
        if self._queue:
            return self._queue.popleft()
        if self._respond is not None:
            return self._respond(request)
        return error(500, "script exhausted: no reply is left for this request", x_should_retry="false")


class _Connection(asyncio.Protocol):
    """One client connection: parses requests one after the other and plays the replies."""

    def __init__(self, fake: FakeServer) -> None:
        self._fake = fake
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
        self._fake._connections.add(self)
        self._fake.connections_made += 1
        self.task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._news.set()

    def eof_received(self) -> bool:
        self._leave()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._fake._connections.discard(self)
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
            self._fake.failures.append(f"no HTTP request: {problem}")
        finally:
            self._transport.close()

    async def _reply(self, request: Request) -> bool:
        """Answer one request; whether the connection may take another."""
        answer = self._fake._answer(request)
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
        return None if body is None else self._fake._log(method, path, headers, body)

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


def echo(request: Request) -> Reply:
    """The reply of a server process started without `--respond`."""
    return text("You said: ", request.last_user_text())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.server", description="fake model provider")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--respond", metavar="MODULE:FUNCTION", help="called with each request, gives the reply")
    parser.add_argument("--no-strict", action="store_true", help="accept every request")
    options = parser.parse_args()
    respond: Respond = echo
    if options.respond:
        module, _colon, name = options.respond.partition(":")
        respond = getattr(importlib.import_module(module), name)

    async def serve() -> None:
        async with FakeServer(strict=not options.no_strict, port=options.port) as fake:
            fake.respond(respond)
            print(fake.url, flush=True)
            await asyncio.Event().wait()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())


if __name__ == "__main__":
    sys.exit(main())
