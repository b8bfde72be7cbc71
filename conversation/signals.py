"""How a command that runs turns is ended from outside."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, Self

from agent_nodes._aio import AbortSignal
from conversation.render import Output

if TYPE_CHECKING:
    from types import FrameType

STOPPED, UNREAD = 130, 141
SHUTDOWNS = (143, 129)  # by SIGTERM and SIGHUP


class Driver(Protocol):
    """What runs turns. ``close`` ends it and keeps the turns resumable, ``kill_tools`` works from a signal handler."""

    async def close(self) -> None: ...
    def kill_tools(self) -> None: ...


class Signals:
    """Ctrl-C is a stop, SIGTERM and SIGHUP (the terminal is gone) a shutdown; the same one again ends the program at
    once, with whatever its tools have started. A signal that was ignored when the program began stays ignored.

    ``outputs`` wait for their readers no more after the first signal. ``caught`` is set by every signal. ``interrupt``
    is called in place of the stop, ``closing`` when a shutdown begins, ``last`` before the program ends at once.
    """

    def __init__(
        self,
        host: Driver,
        *outputs: Output,
        interrupt: Callable[[], object] | None = None,
        closing: Callable[[], object] | None = None,
        last: Callable[[], object] | None = None,
    ) -> None:
        self.stop = AbortSignal()
        self.shutdown: int | None = None
        self.caught = asyncio.Event()
        self._host = host
        self._outputs = outputs
        self._interrupt = interrupt
        self._on_closing = closing
        self._last = last
        self._loop = asyncio.get_running_loop()
        self._seen: set[int] = set()
        self._before: dict[int, Any] = {}
        self._closing: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._catch)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def renew(self) -> AbortSignal:
        """What Ctrl-C has stopped is over: the next one is a first one again, and has the stop that is returned."""
        self._seen.discard(signal.SIGINT)
        if self.shutdown is None:
            self.caught.clear()
        self.stop = AbortSignal()
        return self.stop

    def end_at_once(self, number: int) -> None:
        """What a signal that came twice does."""
        self._host.kill_tools()
        if self._last is not None:
            self._last()
        os._exit(128 + number)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        if number in self._seen:
            self.end_at_once(number)
        self._seen.add(number)
        act: Callable[[], None] = self._stop if number == signal.SIGINT else lambda: self._shut_down(number)
        self._loop.call_soon_threadsafe(act)

    def _stop(self) -> None:
        self._release()
        if self._interrupt is not None:
            self._interrupt()
        else:
            self.stop.set("Stopped by Ctrl-C.")

    def _shut_down(self, number: int) -> None:
        self._release()
        self.shutdown = number
        self._closing = asyncio.ensure_future(self._host.close())
        if self._on_closing is not None:
            self._on_closing()

    def _release(self) -> None:
        """A reader that takes nothing must not hold up the end."""
        self.caught.set()
        for output in self._outputs:
            output.release()
