"""What every phase works with: the configuration, the line to the disk, the committed state and the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agent_nodes._clock import Clock
from agent_nodes.engine.config import EngineConfig, TurnConfig
from agent_nodes.engine.context import Context
from agent_nodes.engine.projection import Projection
from agent_nodes.engine.scheduler import Definition, Scheduler
from agent_nodes.messages import SystemMessage
from agent_nodes.store.line import Line, Tx
from agent_nodes.store.records import Task, Turn
from agent_nodes.store.writes import append_entry, set_tip
from agent_nodes.tools.background import Background

T = TypeVar("T")


@dataclass(slots=True)
class Engine:
    config: EngineConfig
    line: Line
    projection: Projection
    scheduler: Scheduler
    definitions: Mapping[str, Definition]
    session_id: str
    main_target: int
    background: Background = field(default_factory=Background)
    results: Any = None
    """Collects tool results that come together (see ``tool_task.Results``)."""

    @property
    def clock(self) -> Clock:
        return self.config.clock

    async def commit(self, label: str, fn: Callable[[Tx], T], *, durable: bool = True) -> T:
        return await self.line.commit(label, fn, durable=durable)

    def turn(self, task: Task) -> Turn:
        return self.projection.turns[task.turn_id or 0]

    def setup(self, turn_id: int | None) -> TurnConfig:
        """What a live turn runs with, found once: the session's own, or with the overrides stored in its task.

        Raises ``InputValidationError`` where those cannot be had here and now.
        """
        setups = self.projection.setups
        found = setups.get(turn_id or 0)
        if found is None:
            turn = self.projection.turns[turn_id or 0]
            overrides = self.projection.tasks[turn.task_id or 0].input
            found = setups[turn.id] = self.config.resolve(overrides) if overrides else self.config.base
        return found

    def context(self, target_id: int) -> Context:
        return self.projection.contexts[target_id]

    def wake(self, tx: Tx, task: Task) -> None:
        self.definitions[task.name].wake(self, tx, task)

    def new_system(self, target_id: int, system: SystemMessage) -> SystemMessage | None:
        """``system`` where it is to be stored before the next request, None where the one in force says the same."""
        current = self.context(target_id).system
        return None if current is system or current == system else system


def put_system(tx: Tx, target_id: int, system: SystemMessage | None) -> None:
    if system is not None:
        set_tip(tx, target_id, append_entry(tx, target_id, "system", system))
