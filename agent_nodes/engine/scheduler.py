"""Runs tasks: one driver per live task of an active turn, phase after phase, until the task waits or ends.

A phase must commit the task's next state; what it returns means nothing. Fresh work and recovered work enter by the
same door: a task found ``pending`` was taken over from an owner that is gone, and its phase decides what that means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any

from agent_nodes.errors import AgentClosed
from agent_nodes.store.records import Task

HALT_LIMIT = 5.0


@dataclass(frozen=True, slots=True)
class Definition:
    """A kind of task: its phases by name, and ``wake``, the synchronous step that puts it to work again, inside the
    commit that ends the last thing it waited for."""

    phases: Mapping[str, Callable[[Any, Task], Awaitable[None]]]
    wake: Callable[[Any, Any, Task], None]


class PhaseFault(Exception):
    """A phase came back without committing anything: a bug in its definition."""


class Scheduler:
    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        self._definitions = definitions
        self._tasks: Mapping[int, Task] = {}
        self._on_fault: Callable[[Task, Exception], None] | None = None
        self._active: dict[int, Context] = {}
        self._halting: set[int] = set()
        self._drivers: dict[int, asyncio.Task[None]] = {}
        self._helpers: set[asyncio.Task[Any]] = set()
        self._engine: Any = None

    def start(self, engine: Any, tasks: Mapping[int, Task], on_fault: Callable[[Task, Exception], None]) -> None:
        """``tasks`` is the live, changing map of committed states; ``on_fault`` hears what a phase raised."""
        self._engine, self._tasks, self._on_fault = engine, tasks, on_fault

    def activate(self, turn_id: int) -> None:
        """Let the turn's tasks run from now on, in the context of the caller; those that can start at once."""
        self._active[turn_id] = copy_context()
        for task in list(self._tasks.values()):
            self.put(task)

    def put(self, task: Task) -> None:
        """A committed state of a task; starts its driver where it is due and has none."""
        if task.status == "terminal" and task.owner_task is None:
            self._active.pop(task.turn_id or 0, None)
        context = self._active.get(task.turn_id or 0)
        if context is not None and task.status in ("running", "pending") and task.id not in self._drivers:
            # What is committed is often told from a writer's thread, which knows nothing of who runs the turn.
            self._drivers[task.id] = asyncio.create_task(
                self._drive(task.id), name=f"{task.name}:{task.id}", context=context.copy()
            )

    def drives(self, task_id: int) -> bool:
        """Whether the current asyncio task is the driver in charge of ``task_id`` (not one that was given up)."""
        return self._drivers.get(task_id) is asyncio.current_task()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A helper of the engine's own that is waited for at close."""
        task = asyncio.create_task(work)
        self._helpers.add(task)
        task.add_done_callback(self._helpers.discard)
        return task

    async def _drive(self, task_id: int) -> None:
        task = self._tasks.get(task_id)
        try:
            while task is not None and task.status in ("running", "pending"):
                definition = self._definitions[task.name]
                await definition.phases[task.phase](self._engine, task)
                after = self._tasks.get(task_id)
                if after is task:
                    raise PhaseFault(f"phase {task.phase!r} of task {task.name!r} committed nothing")
                task = after
        except Exception as error:  # a fault ends the turn with its cause, it must not vanish in a task
            self._told(task, error)
        except asyncio.CancelledError:
            if task_id not in self._halting:
                self._told(task, AgentClosed("The work was cancelled from outside; the turn stays resumable."))
            raise
        finally:
            if self.drives(task_id):
                del self._drivers[task_id]

    def _told(self, task: Task | None, error: Exception) -> None:
        if task is not None and self._on_fault is not None and self.drives(task.id):
            self._on_fault(task, error)

    async def halt(self, turn_id: int | None = None) -> None:
        """Cancel the drivers of one turn (or all) and wait for them, at most :data:`HALT_LIMIT` seconds.

        A driver that does not end by then is given up: it can commit nothing any more.
        """
        chosen = [key for key in self._drivers if turn_id is None or _turn_of(self._tasks.get(key)) == turn_id]
        drivers = [self._drivers[key] for key in chosen]
        self._active = {key: value for key, value in self._active.items() if turn_id is not None and key != turn_id}
        self._halting.update(chosen)
        for driver in drivers:
            driver.cancel()
        if drivers:
            await asyncio.wait(drivers, timeout=HALT_LIMIT)
        self._halting.difference_update(chosen)
        for key in chosen:
            self._drivers.pop(key, None)

    async def drain(self) -> None:
        """Wait for the engine's helpers (commits under way)."""
        while self._helpers:
            await asyncio.wait(self._helpers)


def _turn_of(task: Task | None) -> int | None:
    return None if task is None else task.turn_id
