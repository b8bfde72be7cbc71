"""The history that hosts show: conversations, their runs, messages and rows, in a database of its own.

It is written from what sessions hold and keyed by run, so that writing it again changes nothing. Each run says up to
which turn of its session it goes: whoever writes the next one finds those in between whose process died before this.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, cast

import orjson

from agent_nodes.errors import InputValidationError, SessionFileError, StorageError
from agent_nodes.messages import JsonObject
from agent_nodes.store import faults
from agent_nodes.store.locate import data_dir

T = TypeVar("T")

FILE = "conversations.sqlite"
VERSION = 1
APPLICATION_ID = 0x41474E43
BUSY_SECONDS = 30.0
TITLE_LENGTH = 80

Role: TypeAlias = Literal["user", "assistant"]

_SCRIPT = """
CREATE TABLE conversation (
    project TEXT NOT NULL, conversation_id TEXT NOT NULL, title TEXT NOT NULL, created_at REAL NOT NULL,
    updated_at REAL NOT NULL, PRIMARY KEY (project, conversation_id)
) WITHOUT ROWID;
CREATE TABLE run (
    project TEXT NOT NULL, conversation_id TEXT NOT NULL, run_id TEXT NOT NULL, number INTEGER NOT NULL,
    session_key TEXT NOT NULL, turn_id INTEGER NOT NULL, status TEXT NOT NULL, reason TEXT, detail TEXT NOT NULL,
    usage TEXT NOT NULL, written_at REAL NOT NULL, updated_at REAL NOT NULL,
    PRIMARY KEY (project, conversation_id, run_id)
) WITHOUT ROWID;
CREATE TABLE message (
    project TEXT NOT NULL, conversation_id TEXT NOT NULL, run_id TEXT NOT NULL, role TEXT NOT NULL,
    text TEXT NOT NULL, images INTEGER NOT NULL, PRIMARY KEY (project, conversation_id, run_id, role)
) WITHOUT ROWID;
CREATE TABLE item (
    project TEXT NOT NULL, conversation_id TEXT NOT NULL, run_id TEXT NOT NULL, item_id TEXT NOT NULL,
    place INTEGER NOT NULL, item TEXT NOT NULL, PRIMARY KEY (project, conversation_id, run_id, item_id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX run_number ON run (project, conversation_id, number);
CREATE INDEX run_turn ON run (project, conversation_id, session_key, turn_id);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What one run of a conversation leaves in its history. ``answer`` is "" where nothing was said; ``images`` is how
    many pictures came with the prompt. ``items`` are rows ``{id, type, part_type, status, content}``. ``session_key``
    and ``turn_id`` name the turn that answered. ``in_other_words``: the prompt is what the agent got, and not known to
    be what a person said, so it takes the place of nothing that is."""

    project: str
    conversation_id: str
    run_id: str
    session_key: str
    turn_id: int
    prompt: str
    answer: str
    status: str
    reason: str | None = None
    detail: str = ""
    images: int = 0
    usage: JsonObject
    items: Sequence[JsonObject] = ()
    in_other_words: bool = False


@dataclass(frozen=True, slots=True)
class HistoryMessage:
    run_id: str
    role: Role
    text: str
    images: int = 0


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """``usage`` and ``items`` are as they were written; times, of the first and the last time that it was, are in
    seconds since the epoch."""

    run_id: str
    session_key: str
    turn_id: int
    status: str
    reason: str | None
    detail: str
    usage: JsonObject
    written_at: float
    updated_at: float
    items: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class ConversationSummary:
    project: str
    conversation_id: str
    title: str
    runs: int
    created_at: float
    updated_at: float


@dataclass(frozen=True, slots=True)
class ConversationHistory:
    """One conversation whole: its messages and runs, oldest first."""

    summary: ConversationSummary
    messages: tuple[HistoryMessage, ...]
    runs: tuple[HistoryRun, ...]


def history_file(root: Path | None = None) -> Path:
    """Where the history is: beside the sessions."""
    return (data_dir() if root is None else root) / FILE


def append_runs(records: Sequence[RunRecord], now: float, root: Path | None = None) -> None:
    """Write runs, all or none; writing one again replaces what was known of it and keeps its place. ``now`` is in
    seconds since the epoch. The first prompt of a conversation gives its title.

    Raises ``StorageError`` or ``SessionFileError``.
    """

    def write(connection: sqlite3.Connection) -> None:
        for record in records:
            _append(connection, record, now)

    _changed(history_file(root), write)


def _append(connection: sqlite3.Connection, record: RunRecord, now: float) -> None:
    key = (record.project, record.conversation_id)
    connection.execute(
        "INSERT INTO conversation VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET updated_at = excluded.updated_at, "
        "title = CASE WHEN title = '' THEN excluded.title ELSE title END",
        (*key, title_of(record.prompt), now, now),
    )
    run = (*key, record.run_id)
    turn = (record.session_key, record.turn_id, record.status, record.reason, record.detail, _json(record.usage))
    connection.execute(
        "INSERT INTO run VALUES (?, ?, ?, "
        "(SELECT 1 + coalesce(max(number), 0) FROM run WHERE project = ? AND conversation_id = ?), "
        "?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET session_key = excluded.session_key, turn_id = excluded.turn_id, "
        "status = excluded.status, reason = excluded.reason, detail = excluded.detail, usage = excluded.usage, "
        "updated_at = excluded.updated_at",
        (*run, *key, *turn, now, now),
    )
    _put_message(connection, run, "user", record.prompt, images=record.images, keep=record.in_other_words)
    _put_message(connection, run, "assistant", record.answer)
    connection.execute("DELETE FROM item WHERE project = ? AND conversation_id = ? AND run_id = ?", run)
    connection.executemany(
        "INSERT INTO item VALUES (?, ?, ?, ?, ?, ?)",
        [(*run, str(item["id"]), n, _json(item)) for n, item in enumerate(record.items)],
    )


def _put_message(
    connection: sqlite3.Connection,
    run: tuple[str, str, str],
    role: Role,
    text: str,
    *,
    images: int = 0,
    keep: bool = False,
) -> None:
    """An empty message is none. ``keep``: one that is there stays."""
    which = "project = ? AND conversation_id = ? AND run_id = ? AND role = ?"
    if not keep:
        connection.execute(f"DELETE FROM message WHERE {which}", (*run, role))
    if text.strip() or images:
        connection.execute("INSERT OR IGNORE INTO message VALUES (?, ?, ?, ?, ?, ?)", (*run, role, text, images))


def _json(value: JsonObject) -> str:
    return orjson.dumps(value).decode()


def newest_turn(project: str, conversation_id: str, session_key: str, root: Path | None = None) -> int:
    """Up to which turn of a session the history goes, 0 for none of them."""

    def read(connection: sqlite3.Connection) -> int:
        newest = "SELECT max(turn_id) FROM run WHERE project = ? AND conversation_id = ? AND session_key = ?"
        return connection.execute(newest, (project, conversation_id, session_key)).fetchone()[0] or 0

    return _read(history_file(root), read, 0)


def title_of(prompt: str) -> str:
    """The first line of a prompt, as far as a title goes."""
    line = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"


def set_title(project: str, conversation_id: str, title: str, root: Path | None = None) -> bool:
    """Give a conversation another title; whether there is such a conversation. Raises ``InputValidationError`` for an
    empty one."""
    if not title.strip():
        raise InputValidationError("title: must not be empty", field="title")

    def write(connection: sqlite3.Connection) -> bool:
        change = "UPDATE conversation SET title = ? WHERE project = ? AND conversation_id = ?"
        return connection.execute(change, (title.strip(), project, conversation_id)).rowcount > 0

    return _changed(history_file(root), write)


def remove_conversation(project: str, conversation_id: str, root: Path | None = None) -> bool:
    """Take a conversation out of the history; its sessions stay. Whether there was one."""

    def write(connection: sqlite3.Connection) -> bool:
        key = (project, conversation_id)
        found = False
        for table in ("item", "message", "run", "conversation"):
            removed = connection.execute(f"DELETE FROM {table} WHERE project = ? AND conversation_id = ?", key).rowcount
            found = found or removed > 0
        return found

    return _changed(history_file(root), write)


def list_conversations(project: str | None = None, root: Path | None = None) -> list[ConversationSummary]:
    """All conversations, of one project where it is given, the one that changed last first."""

    def read(connection: sqlite3.Connection) -> list[ConversationSummary]:
        where = "" if project is None else "WHERE c.project = ?"
        rows = connection.execute(
            f"{_SUMMARY} {where} GROUP BY c.project, c.conversation_id ORDER BY c.updated_at DESC, c.conversation_id",
            () if project is None else (project,),
        )
        return [ConversationSummary(*row) for row in rows]

    return _read(history_file(root), read, [])


_SUMMARY = (
    "SELECT c.project, c.conversation_id, c.title, count(r.run_id), c.created_at, c.updated_at FROM conversation c "
    "LEFT JOIN run r ON r.project = c.project AND r.conversation_id = c.conversation_id"
)


def read_conversation(project: str, conversation_id: str, root: Path | None = None) -> ConversationHistory | None:
    """A conversation whole, None where there is none. Raises ``StorageError`` or ``SessionFileError``."""
    key = (project, conversation_id)

    def read(connection: sqlite3.Connection) -> ConversationHistory | None:
        of_it = "project = ? AND conversation_id = ?"
        found = connection.execute(f"{_SUMMARY} WHERE c.project = ? AND c.conversation_id = ? GROUP BY 1, 2", key)
        row = found.fetchone()
        if row is None:
            return None
        items: dict[str, list[JsonObject]] = {}
        for run_id, item in connection.execute(f"SELECT run_id, item FROM item WHERE {of_it} ORDER BY place", key):
            items.setdefault(run_id, []).append(orjson.loads(item))
        runs = tuple(
            _run(row, items)
            for row in connection.execute(
                "SELECT run_id, session_key, turn_id, status, reason, detail, usage, written_at, updated_at FROM run "
                f"WHERE {of_it} ORDER BY number",
                key,
            )
        )
        messages = tuple(
            HistoryMessage(run_id, cast("Role", role), text, images)
            for run_id, role, text, images in connection.execute(
                "SELECT m.run_id, m.role, m.text, m.images FROM message m JOIN run r ON r.project = m.project AND "
                "r.conversation_id = m.conversation_id AND r.run_id = m.run_id "
                "WHERE m.project = ? AND m.conversation_id = ? ORDER BY r.number, m.role = 'assistant'",
                key,
            )
        )
        return ConversationHistory(ConversationSummary(*row), messages, runs)

    return _read(history_file(root), read, None)


def _run(row: tuple[Any, ...], items: Mapping[str, Sequence[JsonObject]]) -> HistoryRun:
    run_id, session_key, turn_id, status, reason, detail, usage, written_at, updated_at = row
    rows = tuple(items.get(run_id, ()))
    about = (status, reason, detail, orjson.loads(usage))
    return HistoryRun(run_id, session_key, turn_id, *about, written_at, updated_at, rows)


# -- the file ----------------------------------------------------------------------------------------------------------


def _changed(path: Path, write: Callable[[sqlite3.Connection], T]) -> T:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise faults.file_error(error, _label(path)) from error
    with _opened(path) as connection:
        connection.execute("BEGIN")
        _check(connection, path)
        connection.execute("COMMIT")
        _log_mode(connection)
        connection.execute("BEGIN IMMEDIATE")
        try:
            _prepare(connection, path)
            result = write(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result


def _log_mode(connection: sqlite3.Connection) -> None:
    """Readers and a writer do not wait for each other in it. While somebody else is at work it cannot be changed, and
    no wait helps; whoever writes next tries again."""
    try:
        connection.execute("PRAGMA journal_mode=WAL")
    except sqlite3.OperationalError as error:
        if faults.primary_code(error) != sqlite3.SQLITE_BUSY:
            raise


def _read(path: Path, read: Callable[[sqlite3.Connection], T], nothing: T) -> T:
    if not path.is_file() or not path.stat().st_size:
        return nothing
    with _opened(path) as connection:
        connection.execute("BEGIN")
        if not _check(connection, path):
            return nothing
        return read(connection)


@contextmanager
def _opened(path: Path) -> Generator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise faults.database_error(error, _label(path)) or StorageError(f"The {_label(path)}: {error}") from error


def _label(path: Path) -> str:
    """As the texts about sessions call it: the session …"""
    return f"history {path}"


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    if not _check(connection, path):
        path.chmod(0o600)
        for statement in _SCRIPT.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={VERSION}")


def _check(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the tables are there; in a transaction, as somebody else may be making them. Raises ``SessionFileError``
    for another database, and for a newer version."""
    application_id: int = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if application_id == version == 0 and not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        return False
    if application_id != APPLICATION_ID:
        raise SessionFileError(f"{path} is no history of conversations; nothing was changed.", kind="foreign")
    if version > VERSION:
        raise SessionFileError(
            f"{path} has version {version}, newer than {VERSION}; nothing was changed.", kind="newer"
        )
    return True
