"""The committed state in memory, and what the world is shown of it.

The line calls :meth:`Projection.apply` after each commit, in commit order, before whoever made the commit goes on. What
has consequences is shown only here; text and reasoning deltas are shown by :meth:`Projection.show` as they come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from agent_nodes._aio import AbortSignal, Channel
from agent_nodes.engine.config import TurnConfig
from agent_nodes.engine.context import Context
from agent_nodes.errors import AgentError
from agent_nodes.events import AgentStreamEvent
from agent_nodes.store.records import EntryAdded, Task, Turn, UsageRow

Shown: TypeAlias = AgentStreamEvent | UsageRow


@dataclass(frozen=True, slots=True)
class Show:
    """A change that is nothing but events of a turn, to be shown once their commit is done."""

    turn_id: int
    events: Sequence[AgentStreamEvent]


@dataclass(frozen=True, slots=True)
class ContextMeter:
    """A change of how full a target's context is; ``total`` None where the model's window is unknown."""

    target_id: int
    used: int
    total: int | None


class TurnSink:
    """Where a followed turn's events and usage go; ``turn`` is its end, ``error`` what broke it off."""

    def __init__(self) -> None:
        self.channel: Channel[Shown] = Channel()
        self.turn: Turn | None = None
        self.error: AgentError | None = None

    def finish(self, turn: Turn) -> None:
        self.turn = turn
        self.channel.close()

    def break_off(self, error: AgentError) -> None:
        if self.turn is None and self.error is None:
            self.error = error
            self.channel.close()


@dataclass(slots=True)
class Projection:
    """``tasks`` and ``turns`` are the live ones only; ``setups`` what those of them run with that have been asked."""

    on_task: Callable[[Task], None]
    contexts: dict[int, Context] = field(default_factory=dict[int, Context])
    meters: dict[int, ContextMeter] = field(default_factory=dict[int, ContextMeter])
    tasks: dict[int, Task] = field(default_factory=dict[int, Task])
    turns: dict[int, Turn] = field(default_factory=dict[int, Turn])
    setups: dict[int, TurnConfig] = field(default_factory=dict[int, TurnConfig])
    sinks: dict[int, TurnSink] = field(default_factory=dict[int, TurnSink])
    signals: dict[int, AbortSignal] = field(default_factory=dict[int, AbortSignal])
    _ends: dict[int, asyncio.Future[Turn]] = field(default_factory=dict[int, "asyncio.Future[Turn]"])

    def apply(self, label: str, changes: Sequence[Any], seq: int) -> None:
        ended: list[Turn] = []
        for change in changes:
            match change:
                case EntryAdded():
                    if change.clears:
                        self.contexts[change.target_id] = Context()
                        self.meters.pop(change.target_id, None)
                    self.contexts[change.target_id].add(change.message)
                case Task():
                    self._task(change)
                case Turn():
                    if self._turn(change):
                        ended.append(change)
                case Show():
                    self.show(change.turn_id, change.events)
                case UsageRow():
                    self._usage(change)
                case ContextMeter():
                    self.meters[change.target_id] = change
                case _:
                    raise TypeError(f"unknown change {change!r} in commit {label!r} ({seq})")
        for turn in ended:
            self._end(turn)

    def show(self, turn_id: int, events: Sequence[AgentStreamEvent]) -> None:
        sink = self.sinks.get(turn_id)
        if sink is not None:
            sink.channel.put(events)

    async def room(self, turn_id: int) -> None:
        """Wait while the turn's reader is far behind."""
        sink = self.sinks.get(turn_id)
        if sink is not None and sink.channel.full:
            await sink.channel.room()

    def follow(self, turn_id: int) -> TurnSink:
        sink = self.sinks[turn_id] = TurnSink()
        return sink

    def unfollow(self, turn_id: int) -> None:
        self.sinks.pop(turn_id, None)

    def signal(self, turn_id: int) -> AbortSignal:
        """The turn's own abort signal, which its tools see."""
        found = self.signals.get(turn_id)
        if found is None:
            found = self.signals[turn_id] = AbortSignal()
        return found

    def end_of(self, turn_id: int) -> asyncio.Future[Turn]:
        """A future of the turn's end; the turn must be live."""
        found = self._ends.get(turn_id)
        if found is None:
            found = self._ends[turn_id] = asyncio.get_running_loop().create_future()
        return found

    def break_off(self, error: AgentError) -> None:
        """Tell everyone who follows a turn that it will not go on here."""
        for sink in self.sinks.values():
            sink.break_off(error)
        for future in self._ends.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever awaits it sees it; nobody may be
        self._ends.clear()

    def _task(self, task: Task) -> None:
        known = self.tasks.get(task.id)
        if known is not None and known.abort_requested:  # a step under way when the stop came knows nothing of it
            task = replace(task, abort_requested=True)
        if task.status == "terminal":
            self.tasks.pop(task.id, None)
        else:
            self.tasks[task.id] = task
        self.on_task(task)

    def _turn(self, turn: Turn) -> bool:
        if turn.status in ("running", "waiting"):
            self.turns[turn.id] = turn
            return False
        self.turns.pop(turn.id, None)
        return True

    def _usage(self, row: UsageRow) -> None:
        sink = self.sinks.get(row.turn_id or 0)
        if sink is not None:
            sink.channel.put((row,))

    def _end(self, turn: Turn) -> None:
        self.signals.pop(turn.id, None)
        self.setups.pop(turn.id, None)
        future = self._ends.pop(turn.id, None)
        if future is not None and not future.done():
            future.set_result(turn)
        sink = self.sinks.get(turn.id)
        if sink is not None:
            sink.finish(turn)
