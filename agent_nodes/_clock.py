"""The only source of time, ids and randomness, so that tests decide all three."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """Seconds everywhere. ``now`` is wall time since the epoch, ``monotonic`` never goes back."""

    def now(self) -> float: ...
    def monotonic(self) -> float: ...
    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer: ...
    async def sleep(self, delay: float) -> None: ...
    def new_id(self) -> str: ...
    def random(self) -> float: ...


class SystemClock:
    """The real thing: timers run on the current event loop, ids are random UUIDs in hex."""

    __slots__ = ()

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(delay, callback)

    async def sleep(self, delay: float) -> None:
        await asyncio.sleep(delay)

    def new_id(self) -> str:
        return uuid.uuid4().hex

    def random(self) -> float:
        return random.random()


SYSTEM_CLOCK: Clock = SystemClock()
