"""Flags and gates that may be set in one thread or loop and awaited in another.

The fake server runs either in the test's loop or in a thread with its own, so plain asyncio events would bind a
test to one of the two ways.
"""

import asyncio
import contextlib
import threading

HANG_GUARD = 30.0


class Flag:
    """A one-way switch; `set` is safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def set(self) -> None:
        with self._lock:
            self._event.set()
            waiters, self._waiters = self._waiters, []
        for loop, future in waiters:
            with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(_finish, future)

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self, timeout: float | None = HANG_GUARD) -> None:
        """Return once set. Raises TimeoutError after `timeout` seconds (None waits for ever)."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._event.is_set():
                return
            future = loop.create_future()
            entry = (loop, future)
            self._waiters.append(entry)
        try:
            async with asyncio.timeout(timeout):
                await future
        finally:
            with self._lock, contextlib.suppress(ValueError):
                self._waiters.remove(entry)

    def wait_blocking(self, timeout: float = HANG_GUARD) -> None:
        """The same for a caller without a loop."""
        if not self._event.wait(timeout):
            raise TimeoutError(f"flag not set within {timeout} s")


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class Gate:
    """A place in a reply where the server stops until the test says `open()`.

    `reached` is set when the server has sent everything before the gate and stands at it.
    """

    def __init__(self) -> None:
        self.reached = Flag()
        self._opened = Flag()

    def open(self) -> None:
        self._opened.set()

    async def passed(self) -> None:
        """Used by the server: note the arrival and wait for the opening."""
        self.reached.set()
        await self._opened.wait(timeout=None)


def gate() -> Gate:
    """A closed gate, to be put into a reply with `reply.hold(gate, before=n)`."""
    return Gate()
