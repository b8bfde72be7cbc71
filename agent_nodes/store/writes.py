"""Plain functions of a transaction: each writes rows and notes in ``tx.changes`` what memory has to know.

A change is the new :class:`Task` or :class:`Turn` itself, an :class:`EntryAdded` or a :class:`UsageRow`. Memory applies
changes in commit order after the commit, never before.
"""

from __future__ import annotations

from dataclasses import replace

from agent_nodes.messages import JsonObject, Message, Usage, UserMessage, message_to_json
from agent_nodes.store import _sql
from agent_nodes.store.kinds import EntryKind, TaskStatus
from agent_nodes.store.line import Tx
from agent_nodes.store.records import EntryAdded, Task, Turn, UsageRow, task_of


def add_receipt(tx: Tx, request_id: str, target_id: int, *, kind: str, digest: str, result: JsonObject) -> None:
    tx.insert(
        _sql.INSERT_RECEIPT,
        request_id=request_id,
        target_id=target_id,
        type=kind,
        digest=digest,
        result=result,
        seq=tx.seq,
    )


def append_entry(
    tx: Tx,
    target_id: int,
    kind: EntryKind,
    message: Message,
    *,
    turn_id: int | None = None,
    task_id: int | None = None,
    stream: str | None = None,
) -> int:
    """Appends to the target's line; the commit's last ``set_tip`` or ``set_context`` records where that line ends."""
    entry_id = tx.new_id()
    tx.insert(
        _sql.INSERT_ENTRY,
        id=entry_id,
        target_id=target_id,
        stream=stream,
        kind=kind,
        turn_id=turn_id,
        task_id=task_id,
        message=message_to_json(message),
        seq=tx.seq,
    )
    tx.changes.append(EntryAdded(target_id, entry_id, message))
    return entry_id


def set_tip(tx: Tx, target_id: int, tip: int) -> None:
    tx.run(_sql.TARGET_TIP, id=target_id, tip_entry=tip)


def set_context(tx: Tx, target_id: int, tip: int, used: int, total: int | None) -> None:
    tx.run(_sql.TARGET_CONTEXT, id=target_id, tip_entry=tip, context_used=used, context_total=total)


def reset_context(tx: Tx, target_id: int) -> None:
    """A marker from which on the target's context begins anew; nothing before it is sent any more, all stays stored."""
    entry_id = tx.new_id()
    marker = UserMessage((), "reset")
    tx.insert(
        _sql.INSERT_ENTRY,
        id=entry_id,
        target_id=target_id,
        kind="reset",
        head=entry_id,
        message=message_to_json(marker),
        seq=tx.seq,
    )
    tx.run(_sql.TARGET_HEAD, id=target_id, head_entry=entry_id, tip_entry=entry_id, context_used=None)
    tx.changes.append(EntryAdded(target_id, entry_id, marker, clears=True))


def add_turn(tx: Tx, turn_id: int, target_id: int, request_id: str, task_id: int) -> Turn:
    tx.insert(
        _sql.INSERT_TURN,
        id=turn_id,
        target_id=target_id,
        request_id=request_id,
        task_id=task_id,
        status="running",
        started_seq=tx.seq,
    )
    turn = Turn(turn_id, target_id, request_id, task_id, "running")
    tx.changes.append(turn)
    return turn


def reopen_turn(tx: Tx, turn: Turn, task_id: int) -> Turn:
    tx.run(_sql.TURN_REOPEN, id=turn.id, task_id=task_id)
    turn = replace(turn, task_id=task_id, status="running", reason=None, detail=None)
    tx.changes.append(turn)
    return turn


def end_turn(tx: Tx, turn: Turn) -> None:
    """``turn`` as it ends: its status, reason, detail, sums, last entry and the size of the context then."""
    tx.run(
        _sql.TURN_END,
        id=turn.id,
        status=turn.status,
        reason=turn.reason,
        detail=turn.detail,
        ended_seq=tx.seq,
        last_entry=turn.last_entry,
        context_used=turn.context_used,
        context_total=turn.context_total,
        total_tokens=turn.usage.total_tokens,
        **_counters(turn.usage),
    )
    tx.changes.append(turn)


def _counters(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "cache_creation_tokens": usage.cache_creation_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "calls": usage.calls,
    }


def add_usage(
    tx: Tx,
    turn: Turn,
    task_id: int,
    *,
    record_id: str,
    provider: str,
    model: str,
    usage: Usage,
    cost: float | None = None,
    ends: bool = False,
) -> Turn:
    """Bills one returned response: its record, the turn's sums and the target's totals, once per ``record_id``.
    ``cost`` is in US dollars, None where no prices are known.

    ``ends``: the turn ends in this very commit, which writes its sums anyway.
    """
    counters = _counters(usage)
    tx.insert(
        _sql.INSERT_USAGE_RECORD,
        record_id=record_id,
        target_id=turn.target_id,
        turn_id=turn.id,
        task_id=task_id,
        provider=provider,
        model=model,
        cost=cost,
        seq=tx.seq,
        **counters,
    )
    tx.run(_sql.USAGE_TOTAL, target_id=turn.target_id, model=model, cost=cost, **counters)
    turn = replace(turn, usage=turn.usage + usage)
    tx.changes.append(UsageRow(record_id, turn.id, provider, model, usage, cost))
    if not ends:
        tx.run(_sql.TURN_USAGE, id=turn.id, total_tokens=usage.total_tokens, **counters)
        tx.changes.append(turn)
    return turn


def add_tool_usage(tx: Tx, turn: Turn, task: Task, usage: Usage) -> None:
    """Bills what a call spent by itself to the target's totals. The turn's sums, which are about its own requests,
    leave it out."""
    counters = _counters(usage)
    row = UsageRow(f"tool:{task.id}", turn.id, "tool", task.tool or "", usage, None)
    tx.insert(
        _sql.INSERT_USAGE_RECORD,
        record_id=row.record_id,
        target_id=turn.target_id,
        turn_id=turn.id,
        task_id=task.id,
        provider=row.provider,
        model=row.model,
        cost=None,
        seq=tx.seq,
        **counters,
    )
    tx.run(_sql.USAGE_TOTAL, target_id=turn.target_id, model=f"tool:{row.model}", cost=None, **counters)
    tx.changes.append(row)


def add_task(tx: Tx, task: Task) -> Task:
    tx.insert(
        _sql.INSERT_TASK,
        id=task.id,
        target_id=task.target_id,
        owner_task=task.owner_task,
        turn_id=task.turn_id,
        name=task.name,
        status=task.status,
        phase=task.phase,
        checkpoint=task.checkpoint or None,
        input=task.input or None,
        call_id=task.call_id,
        tool=task.tool,
        replay=task.replay,
        seq=tx.seq,
    )
    tx.changes.append(task)
    return task


def add_wait(tx: Tx, task_id: int, on_id: int) -> None:
    tx.insert(_sql.INSERT_TASK_WAIT, task_id=task_id, on_id=on_id)


def step_task(
    tx: Tx,
    task: Task,
    phase: str,
    checkpoint: JsonObject,
    *,
    status: TaskStatus = "running",
    wake_at: float | None = None,
) -> Task:
    """The task's next checkpoint, whole; the one before is gone."""
    tx.run(
        _sql.TASK_STEP,
        id=task.id,
        status=status,
        phase=phase,
        checkpoint=checkpoint or None,
        wake_at=wake_at,
        seq=tx.seq,
    )
    task = replace(task, status=status, phase=phase, checkpoint=checkpoint, wake_at=wake_at)
    tx.changes.append(task)
    return task


def mark_abort(tx: Tx, task: Task) -> Task:
    tx.run(_sql.TASK_ABORT, id=task.id)
    task = replace(task, abort_requested=True)
    tx.changes.append(task)
    return task


def end_task(tx: Tx, task: Task, outcome: JsonObject | None = None) -> list[Task]:
    """Ends a task and returns those that waited for it and now wait for nothing; waking them is the caller's."""
    tx.run(_sql.TASK_END, id=task.id, outcome=outcome, seq=tx.seq)
    tx.changes.append(replace(task, status="terminal", phase="end", checkpoint={}))
    waiters = [row[0] for row in tx.rows(_sql.WAITERS, on_id=task.id)]
    if not waiters:
        return []
    tx.run(_sql.WAIT_DONE, on_id=task.id)
    free = [waiter for waiter in waiters if not tx.rows(_sql.WAITS_LEFT, task_id=waiter)]
    return [task_of(row) for waiter in free for row in tx.rows(_sql.TASK, id=waiter)]


def drop_waits(tx: Tx, task: Task) -> None:
    tx.run(_sql.WAITS_DROPPED, task_id=task.id)


def drop_progress(tx: Tx, stream: str) -> None:
    tx.run(_sql.PROGRESS_DONE, stream=stream)


def add_progress(tx: Tx, stream: str, n: int, *, block: int, kind: str, delta: str) -> None:
    tx.insert(_sql.INSERT_PROGRESS, stream=stream, n=n, block=block, kind=kind, delta=delta)


def add_activity(tx: Tx, turn: Turn, kind: str, data: JsonObject | None = None, *, task_id: int | None = None) -> int:
    activity_id = tx.new_id()
    tx.insert(
        _sql.INSERT_ACTIVITY,
        id=activity_id,
        target_id=turn.target_id,
        turn_id=turn.id,
        task_id=task_id,
        seq=tx.seq,
        type=kind,
        data=data,
    )
    return activity_id
