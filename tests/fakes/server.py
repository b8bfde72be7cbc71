"""The fake provider: a loopback HTTP/1.1 server that plays scripted replies and refuses what real services refuse.

In the test's own loop:

    async with FakeServer() as fake:
        fake.script(text("hello"))

In a thread with its own loop, for tests whose clients are child processes or blocking code:

    with FakeServer.in_thread() as fake: ...

Start child processes by exec, not by a bare fork of the process that runs the server: a forked child would hold the
server's sockets open, and a scripted reset or close would not reach the client.

As a process of its own: `python -m tests.fakes --port 8080 [--respond package.module:function]`.
"""

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Self

from tests.fakes import strict as checks
from tests.fakes.connection import Connection
from tests.fakes.flags import HANG_GUARD, Flag
from tests.fakes.issued import Issued
from tests.fakes.play import Play, play
from tests.fakes.requests import Request
from tests.fakes.scripts import Reply, error, json_reply

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
        self.connections: set[Connection] = set()
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
        return len(self.connections)

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
        self._server = await loop.create_server(lambda: Connection(self), self._host, self._port, reuse_address=True)
        self._port = self._server.sockets[0].getsockname()[1]

    async def deafen(self) -> None:
        """Refuse new connections; those open live on."""
        if self._server is not None:
            self._server.close()
            self._server = None
            await asyncio.sleep(0)  # the socket is closed by the loop, one round later

    async def close(self) -> None:
        await self.deafen()
        tasks = [connection.task for connection in self.connections]
        for connection in list(self.connections):
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

    def log(self, method: str, path: str, headers: dict[str, str], raw: bytes) -> Request:
        request = Request(len(self.requests) + 1, method, path, headers=headers, raw=raw, at=time.monotonic())
        with self._lock:
            self.requests.append(request)
            due = [flag for count, flag in self._waiters if count <= len(self.requests)]
            self._waiters = [(count, flag) for count, flag in self._waiters if count > len(self.requests)]
        for flag in due:
            flag.set()
        return request

    def answer(self, request: Request) -> Play:
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
