"""A clock that moves only when a test says so."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count


class _Timer:
    def __init__(self, due: float, callback: Callable[[], object]) -> None:
        self.due, self.callback, self.cancelled = due, callback, False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """``advance`` moves time and runs what is due; ids count up, randomness is a constant."""

    def __init__(self, start: float = 1_800_000_000.0, *, random: float = 0.5) -> None:
        self._start = self._time = start
        self._random = random
        self._heap: list[tuple[float, int, _Timer]] = []
        self._order = count()
        self._ids = count(1)
        self.slept: list[float] = []

    def now(self) -> float:
        return self._time

    def monotonic(self) -> float:
        return self._time - self._start

    def call_later(self, delay: float, callback: Callable[[], object]) -> _Timer:
        timer = _Timer(self._time + delay, callback)
        heapq.heappush(self._heap, (timer.due, next(self._order), timer))
        return timer

    async def sleep(self, delay: float) -> None:
        self.slept.append(delay)
        done = asyncio.get_running_loop().create_future()
        timer = self.call_later(delay, lambda: done.done() or done.set_result(None))
        try:
            await done
        finally:
            timer.cancel()

    def new_id(self) -> str:
        return f"id-{next(self._ids)}"

    def random(self) -> float:
        return self._random

    @property
    def pending(self) -> int:
        return sum(not timer.cancelled for _, _, timer in self._heap)

    def next_due(self) -> float | None:
        """Seconds until the next timer, None without one."""
        while self._heap and self._heap[0][2].cancelled:
            heapq.heappop(self._heap)
        return self._heap[0][0] - self._time if self._heap else None

    def advance(self, seconds: float) -> None:
        end = self._time + seconds
        while self._heap and self._heap[0][0] <= end:
            due, _, timer = heapq.heappop(self._heap)
            if not timer.cancelled:
                self._time = max(self._time, due)
                timer.callback()
        self._time = end

    async def wait_timer(self) -> float:
        """Let the loop run until something waits on this clock; returns the seconds until it is due."""
        while (due := self.next_due()) is None:  # noqa: ASYNC110  # timers are set by code that knows no test
            await asyncio.sleep(0.001)
        return due
