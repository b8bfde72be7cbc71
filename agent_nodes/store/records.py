"""Frozen views of rows, and what a commit tells memory: nothing of the database library leaves this floor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent_nodes.messages import JsonObject, Message, Usage
from agent_nodes.store.kinds import TaskStatus, TurnStatus
from agent_nodes.store.statement import decode

NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Task:
    id: int
    target_id: int
    owner_task: int | None
    turn_id: int | None
    name: str
    status: TaskStatus
    phase: str
    checkpoint: JsonObject
    input: JsonObject
    call_id: str | None = None
    tool: str | None = None
    replay: str | None = None
    abort_requested: bool = False
    wake_at: float | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    id: int
    target_id: int
    request_id: str
    task_id: int | None
    status: TurnStatus
    reason: str | None = None
    detail: str | None = None
    usage: Usage = NO_USAGE
    last_entry: int | None = None
    context_used: int | None = None
    context_total: int | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    type: str
    digest: str
    result: Any


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One returned response: what it cost, and whose it is."""

    record_id: str
    turn_id: int | None
    provider: str
    model: str
    usage: Usage
    cost: float | None


@dataclass(frozen=True, slots=True)
class EntryAdded:
    """A commit appended ``message`` to the context of ``target_id``, as all that is left of it where it ``clears``."""

    target_id: int
    entry_id: int
    message: Message
    clears: bool = False


def task_of(row: tuple[Any, ...]) -> Task:
    """A row of the TASK and LIVE_TASKS statements."""
    (id_, target, owner, turn, name, status, phase, checkpoint, given, call_id, tool, replay, abort, wake_at) = row
    return Task(
        id_,
        target,
        owner,
        turn,
        name,
        status,
        phase,
        decode(checkpoint) if checkpoint else {},
        decode(given) if given else {},
        call_id=call_id,
        tool=tool,
        replay=replay,
        abort_requested=bool(abort),
        wake_at=wake_at,
    )


def turn_of(row: tuple[Any, ...]) -> Turn:
    """A row of the TURN statement."""
    id_, target_id, request_id, task_id, status, reason, detail, *counters = row[:13]
    return Turn(id_, target_id, request_id, task_id, status, reason, detail, Usage(*counters), *row[13:])
