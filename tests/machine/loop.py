"""An event loop in which everything is decided by the test: time, the writer thread's pace, and when a process dies.

Time is the fake clock's and passes only when nothing else can go on (plus ``drift`` a turn of the loop). What would run
in threads runs in the loop, some turns later, so that one example always plays the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import cycle
from typing import Any

from tests.fakes.clock import FakeClock

TURNS = 200_000
# A due time that was rounded down must still be reached.
ROUNDING = 1e-5


class Killed(Exception):
    """The process has died in this turn of the loop. What it did in the rest of it counts for nothing."""


class Stuck(AssertionError):
    """Nothing can go on and no timer is set."""


class InLoop(ThreadPoolExecutor):
    """Runs what is sent to a thread at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


class Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        super().__init__()
        self.set_default_executor(InLoop(1))
        self.set_exception_handler(lambda _, context: self.unhandled.append(context))
        self.unhandled: list[dict[str, Any]] = []
        self.drift = 0.0
        self.dead = False
        self._pace = cycle([0])
        # Of the base class: what is due now, and the loop's own timers.
        self._ready: Any
        self._scheduled: Any

    def time(self) -> float:
        return self.clock.monotonic()

    def pace(self, turns: Sequence[int]) -> None:
        """How many turns of the loop each job of the writer waits, over and over. One that waits none follows the job
        before it so closely that the loop has heard nothing of that one yet."""
        self._pace = cycle(turns)

    def write(self, job: Callable[[], bool]) -> None:
        """In place of the pool of writer threads."""
        self._wait(job, next(self._pace))

    def _wait(self, job: Callable[[], bool], turns: int) -> None:
        if turns > 1:
            self.call_soon(self._wait, job, turns - 1)
        else:
            self.call_soon(self._work, job)

    def _work(self, job: Callable[[], bool]) -> None:
        while job():
            wait = next(self._pace)
            if wait:
                self._wait(job, wait)
                return

    def pump(self, until: Callable[[], bool], each: Callable[[], None] = lambda: None) -> None:
        """Turn until ``until`` holds; ``each`` is called before every turn. Raises :class:`Killed`, :class:`Stuck`."""
        for _ in range(TURNS):
            if until():
                return
            each()
            self._turn()
            if self.dead:
                raise Killed
            if not self._ready:
                if until():
                    return
                self._pass(self._due())
            elif self.drift:
                self._pass(self.drift)
        raise AssertionError("the loop turns for ever")

    def rest(self) -> None:
        """Turn until nothing can go on without time passing."""
        self._turn()
        while self._ready:
            self._turn()

    def _turn(self) -> None:
        self.call_soon(self.stop)
        self.run_forever()

    def _pass(self, seconds: float) -> None:
        self.call_soon(self.clock.advance, seconds)

    def _due(self) -> float:
        timers = [timer._when - self.time() for timer in self._scheduled if not timer._cancelled]
        due = self.clock.next_due()
        if due is not None:
            timers.append(due)
        if not timers:
            raise Stuck("nothing can go on, and no timer is set")
        return max(0.0, min(timers)) + ROUNDING
