"""All tables of a session, declared once. Nothing here runs while a session does: SQL text is generated from it.

Ids come from ``meta.next_id`` (one counter for every table, so entry order is id order), never from the database. Rows
carry the ``seq`` of the commit that wrote them. ``sid`` tells the sessions of a shared database apart, in a file it is
1. Times are seconds since the epoch. An index is declared together with the first statement that reads through it.
"""

import re
from typing import Any

from sqlalchemy import BigInteger, Dialect, Index, Integer, Text, text
from sqlalchemy.orm import declared_attr
from sqlalchemy.types import TypeDecorator
from sqlmodel import AutoString, Field, SQLModel

from agent_nodes.store import kinds
from agent_nodes.store.statement import encode

# BIGINT would be no rowid alias in SQLite, which costs one hidden index more a table.
Id = BigInteger().with_variant(Integer, "sqlite")

NO_ROWID = {"sqlite_with_rowid": False}


class CanonicalJson(TypeDecorator[Any]):
    """JSON as TEXT on every backend: a JSONB column would reorder keys, and stored messages are sent byte for byte."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else encode(value)


def _key() -> Any:
    return Field(sa_type=Id, primary_key=True, sa_column_kwargs={"autoincrement": False})


def _sid(*, key: bool = False) -> Any:
    return Field(default=1, sa_type=Id, primary_key=key, sa_column_kwargs={"autoincrement": False} if key else {})


def _int(**options: Any) -> Any:
    return Field(sa_type=Id, **options)


def _json(**options: Any) -> Any:
    return Field(sa_type=CanonicalJson, **options)


def _word(**options: Any) -> Any:
    """A text column that holds one of a few words."""
    return Field(sa_type=AutoString, **options)


def _where(name: str, *columns: str, where: str) -> Index:
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


class Row(SQLModel):
    @declared_attr.directive
    def __tablename__(cls) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__.removesuffix("Row")).lower()


class MetaRow(Row, table=True):
    sid: int = _sid(key=True)
    schema_version: int
    next_id: int = _int()
    seq: int = _int(default=0)
    owner_id: str = ""
    session_id: str = ""
    project: str = ""
    conversation_id: str = ""
    session_key: str = ""
    main_target: int = _int()
    environment_id: str = ""
    created_at: float = 0.0


class TargetRow(Row, table=True):
    """``ancestry`` is the flattened list of ``[target id, highest entry id]`` a fork reads through."""

    id: int = _key()
    kind: kinds.TargetKind = _word()
    parent_id: int | None = _int(default=None)
    fork_entry: int | None = _int(default=None)
    owner_task: int | None = _int(default=None)
    ancestry: list[Any] = _json(default=[])
    head_entry: int | None = _int(default=None)
    tip_entry: int | None = _int(default=None)
    model: dict[str, Any] | None = _json(default=None)
    effort: str | None = None
    config_version: int = 0
    provider_session: str | None = None
    context_used: int | None = _int(default=None)
    context_total: int | None = _int(default=None)
    deleted: bool = False


class EntryRow(Row, table=True):
    """``head`` (of a marker) is the first entry that stays in the context; ``stream`` names the attempt behind it."""

    __table_args__ = (Index("entry_target", "target_id", "id"),)
    id: int = _key()
    target_id: int = _int()
    stream: str | None = None
    kind: kinds.EntryKind = _word()
    turn_id: int | None = _int(default=None)
    task_id: int | None = _int(default=None)
    head: int | None = _int(default=None)
    tokens: int | None = _int(default=None)
    message: dict[str, Any] = _json()
    seq: int = _int()


class TurnRow(Row, table=True):
    """Found by id: a request's receipt names it, and each live turn has a live task. ``last_entry`` and the context's
    size are those at its end."""

    sid: int = _sid()
    id: int = _key()
    target_id: int = _int()
    request_id: str
    task_id: int | None = _int(default=None)
    status: kinds.TurnStatus = _word()
    reason: str | None = None
    detail: str | None = None
    input_tokens: int = _int(default=0)
    output_tokens: int = _int(default=0)
    total_tokens: int = _int(default=0)
    cached_input_tokens: int = _int(default=0)
    cache_creation_tokens: int = _int(default=0)
    reasoning_tokens: int = _int(default=0)
    calls: int = _int(default=0)
    started_seq: int = _int()
    ended_seq: int | None = _int(default=None)
    last_entry: int | None = _int(default=None)
    context_used: int | None = _int(default=None)
    context_total: int | None = _int(default=None)


class ReceiptRow(Row, table=True):
    """Every request id is inserted here first, in the commit of its effect: the guard against a second effect."""

    __table_args__ = NO_ROWID
    sid: int = _sid(key=True)
    request_id: str = Field(primary_key=True)
    target_id: int = _int()
    type: str
    digest: str
    result: Any = _json(default=None, nullable=True)
    seq: int = _int()


class InboxRow(Row, table=True):
    sid: int = _sid()
    id: int = _key()
    target_id: int = _int()
    request_id: str
    mode: str
    state: kinds.InboxState = _word()
    content: Any = _json()
    turn_id: int | None = _int(default=None)


class TaskRow(Row, table=True):
    """One unit of live work. ``checkpoint`` is replaced whole at each step; ``phase`` says what comes next."""

    __table_args__ = (_where("task_live", "id", where="status <> 'terminal'"),)
    id: int = _key()
    target_id: int = _int()
    owner_task: int | None = _int(default=None)
    turn_id: int | None = _int(default=None)
    name: str
    version: int = 1
    status: kinds.TaskStatus = _word()
    phase: str
    checkpoint: Any = _json(default=None, nullable=True)
    input: Any = _json(default=None, nullable=True)
    outcome: Any = _json(default=None, nullable=True)
    call_id: str | None = None
    tool: str | None = None
    replay: kinds.Replay | None = _word(default=None)
    background: bool = False
    abort_requested: bool = False
    wait_policy: kinds.WaitPolicy | None = _word(default=None)
    wake_at: float | None = None
    seq: int = _int()


class TaskWaitRow(Row, table=True):
    __table_args__ = (Index("task_wait_on", "on_id"), NO_ROWID)
    task_id: int = _key()
    on_id: int = _key()


class MemoRow(Row, table=True):
    """Named results of a task's own steps; removed when the task ends."""

    __table_args__ = NO_ROWID
    task_id: int = _key()
    name: str = Field(primary_key=True)
    value: Any = _json(default=None, nullable=True)


class ProgressRow(Row, table=True):
    """Streamed pieces that no entry holds yet; the commit that writes the entry of ``stream`` removes them."""

    __table_args__ = NO_ROWID
    stream: str = Field(primary_key=True)
    n: int = _key()
    block: int
    kind: kinds.ProgressKind = _word()
    delta: str


class DecisionRow(Row, table=True):
    sid: int = _sid()
    id: int = _key()
    request_id: str
    target_id: int = _int()
    turn_id: int | None = _int(default=None)
    task_id: int | None = _int(default=None)
    kind: kinds.DecisionKind = _word()
    prompt: Any = _json()
    state: kinds.DecisionState = _word()
    answer: Any = _json(default=None, nullable=True)
    seq: int = _int()


class UsageRecordRow(Row, table=True):
    """Keyed by turn first, so that a turn's records lie together; ``turn_id`` 0 is work outside any turn."""

    __table_args__ = NO_ROWID
    sid: int = _sid(key=True)
    turn_id: int = _key()
    record_id: str = Field(primary_key=True)
    target_id: int = _int()
    task_id: int | None = _int(default=None)
    model: str
    input_tokens: int = _int(default=0)
    output_tokens: int = _int(default=0)
    cached_input_tokens: int = _int(default=0)
    cache_creation_tokens: int = _int(default=0)
    reasoning_tokens: int = _int(default=0)
    calls: int = _int(default=0)
    cost: float | None = None
    seq: int = _int()
    provider: str = Field(default="", sa_column_kwargs={"server_default": ""})


class UsageTotalRow(Row, table=True):
    """Raised in the commit that inserts the record."""

    __table_args__ = NO_ROWID
    target_id: int = _key()
    model: str = Field(primary_key=True)
    input_tokens: int = _int(default=0)
    output_tokens: int = _int(default=0)
    cached_input_tokens: int = _int(default=0)
    cache_creation_tokens: int = _int(default=0)
    reasoning_tokens: int = _int(default=0)
    calls: int = _int(default=0)
    cost: float | None = None


class DocumentRow(Row, table=True):
    id: int = _key()
    scope: kinds.DocumentScope = _word()
    owner_id: int = _int()
    kind: str
    key: str
    version: int = 1
    value: Any = _json(default=None, nullable=True)
    seq: int = _int()


class DocumentPastRow(Row, table=True):
    """Earlier values, only of kinds that are read as of a commit (the plan)."""

    __table_args__ = NO_ROWID
    document_id: int = _key()
    seq: int = _key()
    value: Any = _json(default=None, nullable=True)


class RecordRow(Row, table=True):
    """Digests and versions of what a session ran with; never a credential."""

    id: int = _key()
    target_id: int = _int()
    kind: kinds.RecordKind = _word()
    data: Any = _json()
    seq: int = _int()


class CatalogRow(Row, table=True):
    __table_args__ = NO_ROWID
    sid: int = _sid(key=True)
    catalog_id: str = Field(primary_key=True)
    fingerprint: str
    tools: Any = _json()


class ActivityRow(Row, table=True):
    """One small row per event with consequences, in the commit that makes it true; nothing reads it at open."""

    __table_args__ = (Index("activity_turn", "turn_id"),)
    id: int = _key()
    target_id: int = _int()
    turn_id: int | None = _int(default=None)
    task_id: int | None = _int(default=None)
    seq: int = _int()
    type: str
    data: Any = _json(default=None, nullable=True)
