"""What commits of a turn are made of: its checkpoint, the intent of a request, retries, and its end."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent_nodes.engine.continuation import Budgets, ContinuationKind, continuation, limit
from agent_nodes.engine.core import Engine
from agent_nodes.engine.projection import ContextMeter, Show
from agent_nodes.events import AgentStreamEvent, RetryEvent, TextDelta, ThinkingDelta
from agent_nodes.messages import AssistantMessage, JsonObject, TextBlock, ThinkingBlock, Usage
from agent_nodes.providers.base import ModelEntry
from agent_nodes.store.line import Tx
from agent_nodes.store.records import EntryAdded, Task, Turn
from agent_nodes.store.writes import add_activity, add_task, add_usage, append_entry, end_task, end_turn, step_task

NAME = "generation"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """``step`` counts the turn's requests that led on, ``stream`` names this attempt (its progress, entry and bill)."""

    step: int
    stream: str
    budgets: Budgets

    def to_json(self) -> JsonObject:
        return {"step": self.step, "stream": self.stream, **self.budgets.to_json()}

    @staticmethod
    def of(task: Task) -> Checkpoint:
        data = task.checkpoint
        return Checkpoint(data["step"], data["stream"], Budgets.from_json(data))


@dataclass(frozen=True, slots=True)
class OpenRound:
    """The round whose results the turn's task waits for, kept beside its checkpoint: how many calls it has, and how
    many of their results so far say that the turn ends with it."""

    calls: int
    ending: int = 0

    @property
    def ends(self) -> bool:
        """Whether every result says so."""
        return self.ending == self.calls

    def beside(self, task: Task) -> JsonObject:
        """The task's checkpoint with this round in it."""
        return {**task.checkpoint, "calls": self.calls, "ending": self.ending}

    @staticmethod
    def of(task: Task) -> OpenRound:
        """A round of an older file says nothing, and does not end its turn."""
        data = task.checkpoint
        return OpenRound(data.get("calls", -1), data.get("ending", 0))


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a turn ends without an answer; None in place of one means answered."""

    reason: str
    detail: str


def begin(tx: Tx, turn: Turn, task_id: int, overrides: JsonObject) -> Task:
    """A turn's generation task, its first request intended in the same commit. ``overrides`` are its input: what the
    turn asked for in place of the session's own options, for whoever has to go on with it."""
    checkpoint = Checkpoint(1, str(tx.new_id()), Budgets())
    task = Task(task_id, turn.target_id, None, turn.id, NAME, "running", "request", checkpoint.to_json(), overrides)
    return add_task(tx, task)


def intend(tx: Tx, task: Task, step: int, budgets: Budgets) -> Task:
    """The next request is due: a new attempt with a stream of its own."""
    checkpoint = Checkpoint(step, str(tx.new_id()), budgets)
    return step_task(tx, task, "request", checkpoint.to_json())


def ask_to_continue(tx: Tx, task: Task, kind: ContinuationKind, kept: AssistantMessage) -> int:
    message = continuation(kind, kept)
    return append_entry(tx, task.target_id, "continuation", message, turn_id=task.turn_id, task_id=task.id)


def note_retry(tx: Tx, turn: Turn, kind: ContinuationKind, budgets: Budgets, reason: str) -> None:
    event = RetryEvent(budgets.attempt(kind), limit(kind), reason, kind)
    data = {"attempt": event.attempt, "max_attempts": event.max_attempts, "reason": reason, "kind": kind}
    add_activity(tx, turn, "retry", data)
    tx.changes.append(Show(turn.id, [event]))


def bill(tx: Tx, turn: Turn, task: Task, *, model: ModelEntry, usage: Usage, ends: bool = False) -> Turn:
    """Usage of one returned response, with what it costs where that is known."""
    cost = None if model.cost is None else model.cost.of(usage)
    return add_usage(
        tx,
        turn,
        task.id,
        record_id=Checkpoint.of(task).stream,
        provider=model.provider,
        model=model.model,
        usage=usage,
        cost=cost,
        ends=ends,
    )


def close_turn(engine: Engine, tx: Tx, turn: Turn, ending: Ending | None, *, tip: int | None) -> None:
    """Ends the turn and its task; the turn remembers its last entry and how full the context was."""
    meter = engine.projection.meters.get(turn.target_id)
    for change in tx.changes:
        if isinstance(change, ContextMeter):
            meter = change
    end_task(tx, engine.projection.tasks[turn.task_id or 0])
    ended = replace(
        turn,
        status="answered" if ending is None else "unanswered",
        reason=None if ending is None else ending.reason,
        detail=None if ending is None else ending.detail,
        last_entry=tip,
        context_used=None if meter is None else meter.used,
        context_total=None if meter is None else meter.total,
    )
    end_turn(tx, ended)


def newest_entry(tx: Tx, target_id: int) -> int | None:
    """The last entry that this commit appends to the target's line."""
    added = [item for item in tx.changes if isinstance(item, EntryAdded) and item.target_id == target_id]
    return added[-1].entry_id if added else None


def shown_again(message: AssistantMessage) -> list[AgentStreamEvent]:
    """A stored answer's text and reasoning as one delta a block."""
    out: list[AgentStreamEvent] = []
    for index, block in enumerate(message.content):
        if isinstance(block, TextBlock):
            out.append(TextDelta(block.text, index))
        elif isinstance(block, ThinkingBlock) and block.text:
            out.append(ThinkingDelta(block.text, index))
    return out
