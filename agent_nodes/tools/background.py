"""Commands that go on after their call: to the end of their turn, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Background:
    """What runs in the background of one session, by turn (its request_id). Who ends a turn calls :meth:`end`."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[Any], str] = {}

    def __len__(self) -> int:
        return len(self._running)

    def start(self, turn: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run ``work`` until it ends or is cancelled, at which it must leave nothing behind."""
        task = asyncio.ensure_future(work)
        self._running[task] = turn
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._running[task]
        if not task.cancelled():
            task.exception()  # seen: who waits for the task hears of it, else nobody can do anything about it

    async def end(self, turn: str | None = None) -> None:
        """End what runs for ``turn``, None for everything, and wait until it is gone."""
        tasks = [task for task, of in self._running.items() if turn is None or of == turn]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
