"""Every statement that runs on a session, as SQLAlchemy Core beside the tables. Nothing here runs while a session does:
``./dev gen`` turns each upper-case name into a :class:`Statement` of the same name in ``_sql.py``.

To add one, write it and run ``./dev gen``. ``param("name")`` is a parameter; a plain Python value is written into the
SQL text, which a read through a partial index needs: SQLite matches the condition of the index by its text. The inserts
of all tables are generated without being listed here.
"""

from typing import Any

from sqlalchemy import BindParameter, Column, ColumnElement, Delete, Table, Update, bindparam, delete, select, update
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

OWN = update(meta).where(mine(meta)).values(owner_id=param("owner_id"))
FENCE = (
    update(meta)
    .where(mine(meta), meta.c.owner_id == param("me"), meta.c.seq == param("was"))
    .values(seq=param("now"), next_id=param("nid"))
)
META = select(meta).where(mine(meta))

# -- hot reads: one index each, whatever the length of the history -----------------------------------------------------

TURN_LIVE = select(turn).where(turn.c.status.in_(["running", "waiting"])).order_by(turn.c.id)
TURN_OF_REQUEST = select(turn).where(*by(turn, "request_id"))
RECEIPT = select(receipt).where(*by(receipt, "request_id"))
TASK_LIVE = select(task).where(task.c.status != "terminal").order_by(task.c.id)
TASK_WAITERS = select(task_wait.c.task_id).where(*by(task_wait, "on_id"))
INBOX_QUEUED = (
    select(inbox).where(inbox.c.target_id == param("target_id"), inbox.c.state == "queued").order_by(inbox.c.id)
)
ENTRY_HEAD = (
    select(entry.c.id, entry.c.head)
    .where(entry.c.target_id == param("target_id"), entry.c.id <= param("ceiling"), entry.c.head.is_not(None))
    .order_by(entry.c.id.desc())
    .limit(1)
)
ENTRY_RANGE = (
    select(entry)
    .where(entry.c.target_id == param("target_id"), entry.c.id.between(param("first"), param("last")))
    .order_by(entry.c.id)
)
PROGRESS_OF_STREAM = select(progress).where(*by(progress, "stream")).order_by(progress.c.n)
ACTIVITY_OF_TURN = select(activity).where(*by(activity, "turn_id")).order_by(activity.c.id)
