"""Every statement that runs on a session, as SQLAlchemy Core beside the tables. Nothing here runs while a session does:
``./dev gen`` turns each upper-case name into a :class:`Statement` of the same name in ``_sql.py``.

To add one, write it and run ``./dev gen``. ``param("name")`` is a parameter; a plain Python value is written into the
SQL text, which a read through a partial index needs: SQLite matches the condition of the index by its text. The inserts
of all tables are generated without being listed here.
"""

from typing import Any

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Delete,
    Table,
    Update,
    bindparam,
    delete,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlmodel import SQLModel

from agent_nodes.store import tables

_of = SQLModel.metadata.tables

meta, target, entry, turn, receipt, inbox = (
    _of[name] for name in ("meta", "target", "entry", "turn", "receipt", "inbox")
)
task, task_wait, memo, progress, decision = (
    _of[name] for name in ("task", "task_wait", "memo", "progress", "decision")
)
usage_record, usage_total, activity = (_of[name] for name in ("usage_record", "usage_total", "activity"))
document, document_past, record, catalog = (_of[name] for name in ("document", "document_past", "record", "catalog"))

COUNTER_NAMES = [
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "cache_creation_tokens",
    "reasoning_tokens",
    "calls",
]


def param(name: str, of: Column[Any] | None = None) -> BindParameter[Any]:
    """The parameter ``name``. ``of`` names the column that gives its type, for where it is compared with none."""
    return bindparam(name, type_=None if of is None else of.type)


def mine(table: Table) -> ColumnElement[bool]:
    """Rows of this session, for tables whose key is no id of ours."""
    return table.c.sid == bindparam("sid", 1, type_=tables.Id)


def by(table: Table, *keys: str) -> list[ColumnElement[bool]]:
    """``key = :key`` for each of ``keys``; where that is no id of ours, of this session only."""
    conditions = [table.c[key] == param(key) for key in keys]
    return [mine(table), *conditions] if "sid" in table.c and "id" not in keys else conditions


def update_by(table: Table, key: str, *columns: str) -> Update:
    """Sets ``columns`` of the row with that ``key``; all of them are parameters of the same name."""
    return update(table).where(*by(table, key)).values({name: param(name, table.c[name]) for name in columns})


def delete_by(table: Table, *keys: str) -> Delete:
    return delete(table).where(*by(table, *keys))


# -- ownership ---------------------------------------------------------------------------------------------------------

COUNTERS = select(meta.c.seq, meta.c.next_id).where(mine(meta))
OWN = update(meta).where(mine(meta)).values(owner_id=param("owner_id"))
FENCE = (
    update(meta)
    .where(mine(meta), meta.c.owner_id == param("me"), meta.c.seq == param("was"))
    .values(seq=param("now"), next_id=param("nid"))
)
ABOUT = select(*[column for column in meta.c if column.name not in ("sid", "next_id")]).where(mine(meta))

# -- what opening reads ------------------------------------------------------------------------------------------------

SESSION = select(meta).where(mine(meta))
SESSION_CREATE = (
    update(meta)
    .where(mine(meta))
    .values({name: param(name) for name in ["session_id", "project", "conversation_id", "session_key", "created_at"]})
)
TARGET = select(target).where(*by(target, "id"))
CONTEXT = (
    select(entry.c.id, entry.c.message)
    .where(entry.c.target_id == param("target_id"), entry.c.id >= param("head"))
    .order_by(entry.c.id)
)
_TASK_COLUMNS = [
    task.c[name]
    for name in [
        "id",
        "target_id",
        "owner_task",
        "turn_id",
        "name",
        "status",
        "phase",
        "checkpoint",
        "input",
        "call_id",
        "tool",
        "replay",
        "abort_requested",
        "wake_at",
    ]
]
_TURN_COLUMNS = [
    turn.c[name]
    for name in [
        "id",
        "target_id",
        "request_id",
        "task_id",
        "status",
        "reason",
        "detail",
        *COUNTER_NAMES,
        "last_entry",
        "context_used",
        "context_total",
    ]
]
LIVE_TASKS = select(*_TASK_COLUMNS).where(literal_column("status <> 'terminal'")).order_by(task.c.id)
TURN = select(*_TURN_COLUMNS).where(*by(turn, "id"))

# -- the turn ----------------------------------------------------------------------------------------------------------

RECEIPT = select(receipt.c.type, receipt.c.digest, receipt.c.result).where(*by(receipt, "request_id"))
TURN_END = update_by(
    turn,
    "id",
    *["status", "reason", "detail", "ended_seq", "last_entry", "context_used", "context_total"],
    *[*COUNTER_NAMES, "total_tokens"],
)
TURN_REOPEN = (
    update(turn)
    .where(*by(turn, "id"))
    .values(status="running", reason=None, detail=None, ended_seq=None, task_id=param("task_id", turn.c.task_id))
)
TURN_USAGE = (
    update(turn)
    .where(*by(turn, "id"))
    .values({name: turn.c[name] + param(name, turn.c[name]) for name in [*COUNTER_NAMES, "total_tokens"]})
)
_total = sqlite_insert(usage_total).values(
    {name: param(name) for name in ["target_id", "model", *COUNTER_NAMES, "cost"]}
)
USAGE_TOTAL = _total.on_conflict_do_update(
    index_elements=[usage_total.c.target_id, usage_total.c.model],
    set_={name: usage_total.c[name] + _total.excluded[name] for name in [*COUNTER_NAMES, "cost"]},
)
TARGET_TIP = update_by(target, "id", "tip_entry")
TARGET_HEAD = update_by(target, "id", "head_entry", "tip_entry", "context_used")
TARGET_CONTEXT = update_by(target, "id", "tip_entry", "context_used", "context_total")

# -- tasks -------------------------------------------------------------------------------------------------------------

TASK = select(*_TASK_COLUMNS).where(*by(task, "id"))
TASK_STEP = update_by(task, "id", "status", "phase", "checkpoint", "wake_at", "seq")
TASK_END = (
    update(task)
    .where(*by(task, "id"))
    .values(
        status="terminal",
        phase="end",
        checkpoint=None,
        wake_at=None,
        outcome=param("outcome", task.c.outcome),
        seq=param("seq", task.c.seq),
    )
)
TASK_ABORT = update(task).where(*by(task, "id")).values(abort_requested=True)
TASKS_PENDING = (
    update(task).where(literal_column("status <> 'terminal'"), task.c.status == "running").values(status="pending")
)
WAITERS = select(task_wait.c.task_id).where(task_wait.c.on_id == param("on_id")).order_by(task_wait.c.task_id)
WAITS_LEFT = select(task_wait.c.on_id).where(task_wait.c.task_id == param("task_id")).limit(1)
WAIT_DONE = delete_by(task_wait, "on_id")
WAITS_DROPPED = delete_by(task_wait, "task_id")
PROGRESS = (
    select(progress.c.block, progress.c.kind, progress.c.delta).where(*by(progress, "stream")).order_by(progress.c.n)
)
PROGRESS_DONE = delete_by(progress, "stream")

# -- what a repeated request, hosts and other processes read -----------------------------------------------------------

TURN_ENTRIES = (
    select(entry.c.id, entry.c.task_id, entry.c.message)
    .where(entry.c.target_id == param("target_id"), entry.c.id > param("after"), entry.c.id <= param("last"))
    .where(entry.c.turn_id == param("turn_id"))
    .order_by(entry.c.id)
)
TURN_ACTIVITY = (
    select(activity.c.id, activity.c.task_id, activity.c.type, activity.c.data)
    .where(activity.c.turn_id == param("turn_id"))
    .order_by(activity.c.id)
)
TURN_RECORDS = select(usage_record).where(*by(usage_record, "turn_id")).order_by(usage_record.c.seq)

# -- what lists of sessions and reports about one read -----------------------------------------------------------------

TURNS = select(*_TURN_COLUMNS).where(turn.c.id > param("after")).order_by(turn.c.id)
TURN_COUNT = select(func.count()).select_from(turn).where(turn.c.id > param("after"))
LAST_TURN = select(*_TURN_COLUMNS).where(turn.c.id > param("after")).order_by(turn.c.id.desc()).limit(1)
ENTRIES = (
    select(entry.c.turn_id, entry.c.message)
    .where(entry.c.target_id == param("target_id"), entry.c.id > param("after"))
    .order_by(entry.c.id)
)
