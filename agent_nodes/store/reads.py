"""What is read back: the context and live rows at open, a turn's own output, the receipt of a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent_nodes.messages import JsonObject, Message, Usage, message_from_json
from agent_nodes.store import _sql
from agent_nodes.store.line import Tx
from agent_nodes.store.records import Receipt, Task, Turn, UsageRow, task_of, turn_of
from agent_nodes.store.statement import decode


@dataclass(frozen=True, slots=True)
class TargetState:
    """A target's line as it stands: its context, and how full that was after the last response."""

    id: int
    messages: list[Message]
    context_used: int | None
    context_total: int | None


@dataclass(frozen=True, slots=True)
class ActivityRow:
    id: int
    task_id: int | None
    type: str
    data: JsonObject


@dataclass(frozen=True, slots=True)
class EntryRow:
    id: int
    task_id: int | None
    message: Message


def session_id(tx: Tx) -> str:
    """The session's own id; empty in a file that was only just made."""
    return str(dict(zip(_sql.INSERT_META.names, tx.rows(_sql.SESSION)[0], strict=True))["session_id"])


def target_state(tx: Tx, target_id: int) -> TargetState:
    row = tx.rows(_sql.TARGET, id=target_id)[0]
    columns = dict(zip(_sql.INSERT_TARGET.names, row, strict=True))
    entries = tx.rows(_sql.CONTEXT, target_id=target_id, head=columns["head_entry"] or 0)
    messages = [message_from_json(decode(text)) for _, text in entries]
    return TargetState(target_id, messages, columns["context_used"], columns["context_total"])


def live_tasks(tx: Tx) -> list[Task]:
    return [task_of(row) for row in tx.rows(_sql.LIVE_TASKS)]


def turn(tx: Tx, turn_id: int) -> Turn:
    return turn_of(tx.rows(_sql.TURN, id=turn_id)[0])


def turns_between(tx: Tx, target_id: int, after: int, before: int) -> list[Turn]:
    """The target's turns behind ``after`` and before ``before``, oldest first."""
    turns = map(turn_of, tx.rows(_sql.TURNS, after=after))
    return [turn for turn in turns if turn.target_id == target_id and turn.id < before]


def receipt(tx: Tx, request_id: str) -> Receipt | None:
    for kind, digest, result in tx.rows(_sql.RECEIPT, request_id=request_id):
        return Receipt(kind, digest, decode(result) if result else None)
    return None


def task(tx: Tx, task_id: int) -> Task:
    return task_of(tx.rows(_sql.TASK, id=task_id)[0])


def progress(tx: Tx, stream: str) -> list[tuple[int, str, str]]:
    """``(block index, kind, delta)`` in the order they came."""
    return [(row[0], row[1], row[2]) for row in tx.rows(_sql.PROGRESS, stream=stream)]


def turn_activity(tx: Tx, turn_id: int) -> list[ActivityRow]:
    rows = tx.rows(_sql.TURN_ACTIVITY, turn_id=turn_id)
    return [ActivityRow(id_, task_id, kind, decode(data) if data else {}) for id_, task_id, kind, data in rows]


def turn_entries(tx: Tx, turn: Turn, last: int) -> list[EntryRow]:
    """The turn's entries up to entry ``last``, oldest first."""
    rows = tx.rows(_sql.TURN_ENTRIES, target_id=turn.target_id, turn_id=turn.id, after=turn.id, last=last)
    return [EntryRow(id_, task_id, message_from_json(decode(text))) for id_, task_id, text in rows]


def turn_usage(tx: Tx, turn_id: int) -> list[UsageRow]:
    """Every billed response of the turn, in the order they were billed."""
    out: list[UsageRow] = []
    for row in tx.rows(_sql.TURN_RECORDS, turn_id=turn_id):
        found: dict[str, Any] = dict(zip(_sql.INSERT_USAGE_RECORD.names, row, strict=True))
        usage = Usage(
            found["input_tokens"],
            found["output_tokens"],
            found["cached_input_tokens"],
            found["cache_creation_tokens"],
            found["reasoning_tokens"],
            found["calls"],
        )
        out.append(UsageRow(found["record_id"], turn_id, found["provider"], found["model"], usage, found["cost"]))
    return out
