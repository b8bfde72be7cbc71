"""The few asyncio pieces that the standard library lacks: an abort signal and a channel of batches."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


async def finish(work: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:
    """Run ``work`` to its end although the caller is cancelled (again) meanwhile; that is raised after it."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


def run_in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run ``work`` in a thread of its own. One that never ends holds up nothing else, nor the end of the program."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:  # no future can carry the first two
            odd = isinstance(error, StopIteration | GeneratorExit)
            future.set_exception(RuntimeError(f"{type(error).__name__}: {error}") if odd else error)

    def run() -> None:
        result, error = None, None
        try:
            result = context.run(work)
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="agent-nodes-call", daemon=True).start()
    return future


class AbortSignal:
    """Asks for a stop; ``set`` may be called from any thread, any number of times, and the first reason stays."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set = False
        self._reason: str | None = None
        self._callbacks: dict[int, tuple[asyncio.AbstractEventLoop, Callable[[], object]]] = {}
        self._next = 0

    @property
    def is_set(self) -> bool:
        return self._set

    @property
    def reason(self) -> str | None:
        return self._reason

    def set(self, reason: str | None = None) -> None:
        with self._lock:
            if self._set:
                return
            self._set, self._reason = True, reason
            callbacks, self._callbacks = list(self._callbacks.values()), {}
        for loop, callback in callbacks:
            with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(callback)

    def on_set(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Run ``callback`` on the running loop once the signal is set; the returned function takes it back."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if not self._set:
                key, self._next = self._next, self._next + 1
                self._callbacks[key] = (loop, callback)
                return lambda: self._forget(key)
        handle = loop.call_soon(callback)
        return handle.cancel

    def _forget(self, key: int) -> None:
        with self._lock:
            self._callbacks.pop(key, None)

    async def wait(self) -> str | None:
        """Wait until the signal is set; returns its reason."""
        event = asyncio.Event()
        forget = self.on_set(event.set)
        try:
            await event.wait()
        finally:
            forget()
        return self._reason


class EitherSignal(AbortSignal):
    """Set as soon as one of two signals is."""

    def __init__(self, first: AbortSignal, second: AbortSignal) -> None:
        super().__init__()
        self._sources = (first, second)

    @property
    def is_set(self) -> bool:
        return super().is_set or any(source.is_set for source in self._sources)

    @property
    def reason(self) -> str | None:
        return next((source.reason for source in self._sources if source.is_set), super().reason)

    def on_set(self, callback: Callable[[], object]) -> Callable[[], None]:
        forgets = [super().on_set(callback), *(source.on_set(callback) for source in self._sources)]

        def forget() -> None:
            for each in forgets:
                each()

        return forget


class Channel(Generic[T]):
    """Batches from one producer side to one consumer on one loop: a wake-up a batch, not an item.

    ``limit`` bounds what may lie unread: :meth:`room` waits while more is pending.
    """

    def __init__(self, limit: int = 4096) -> None:
        self._items: list[T] = []
        self._limit = limit
        self._closed = False
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    def put(self, items: Sequence[T]) -> None:
        if self._closed or not items:
            return
        self._items.extend(items)
        self._readable.set()
        if len(self._items) > self._limit:
            self._writable.clear()

    async def room(self) -> None:
        await self._writable.wait()

    @property
    def full(self) -> bool:
        return not self._writable.is_set()

    def close(self) -> None:
        """No more items; what lies there can still be read."""
        self._closed = True
        self._readable.set()
        self._writable.set()

    async def get(self) -> list[T] | None:
        """All pending items, or None when the channel is closed and empty."""
        await self._readable.wait()
        items, self._items = self._items, []
        self._writable.set()
        if not self._closed:
            self._readable.clear()
        elif not items:
            return None
        return items
