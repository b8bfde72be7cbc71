"""Where a session's rows live: a way to connect, a label for messages, and what to give back at the end.

A factory is anything with a ``label`` and ``open() -> AgentStorage`` (plain or async). ``open`` makes the caller the
one owner or raises ``SessionBusy``; the storage's ``release`` gives that back after the connection was closed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from agent_nodes.store import faults, files
from agent_nodes.store.lock import OwnerLock

Point: TypeAlias = Literal["begin", "commit", "committed"]
Observer: TypeAlias = Callable[[Point, str], None]


def _nothing() -> None:
    pass


@dataclass(slots=True)
class AgentStorage:
    """``connect`` gives the one writing connection: autocommit (``isolation_level=None``) and usable from any thread.

    ``observe(point, label)`` is called in the writing thread at each commit: ``begin`` before its transaction,
    ``commit`` when all its statements have run, ``committed`` afterwards. What it raises at the first two fails the
    commit. ``discard`` is called before ``release`` where nothing was committed: it takes away what ``open`` has made.
    ``taken_over``: the owner before ended without giving the session back.
    """

    label: str
    connect: Callable[[], sqlite3.Connection]
    release: Callable[[], None] = _nothing
    discard: Callable[[], None] = _nothing
    dialect: Literal["sqlite"] = "sqlite"
    path: Path | None = None
    observe: Observer | None = None
    taken_over: bool = False


class AgentStorageFactory(Protocol):
    @property
    def label(self) -> str: ...

    def open(self) -> AgentStorage | Awaitable[AgentStorage]: ...


@dataclass(frozen=True, slots=True)
class SqliteStorage:
    """Factory for one file; see :func:`sqlite_storage`."""

    path: Path

    @property
    def label(self) -> str:
        return str(self.path)

    def open(self) -> AgentStorage:
        path = files.real_path(self.path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise faults.file_error(error, str(path)) from error
        files.refuse_foreign(path)  # before a lock file is laid beside it
        lock = OwnerLock.acquire(path)
        try:
            made = files.prepare(path)
        except BaseException:
            lock.release()
            raise
        discard = (lambda: files.discard(path)) if made else _nothing
        return AgentStorage(
            str(path), lambda: connect(str(path)), lock.release, discard, path=path, taken_over=lock.taken_over
        )


@dataclass(frozen=True, slots=True)
class MemoryStorage:
    """Factory for sessions that end with their runtime; each ``open`` begins an empty one."""

    label: str = "in memory"

    def open(self) -> AgentStorage:
        return AgentStorage(self.label, _connect_memory)


def sqlite_storage(path: str | os.PathLike[str]) -> SqliteStorage:
    """Sessions in the file at ``path``, made with its folders when it is missing or empty.

    ``open`` raises ``SessionBusy`` when another owner has it, ``SessionFileError`` when it is no session, damaged or of
    a newer schema, ``StorageError`` when the file system refuses. Nothing is changed then.
    """
    return SqliteStorage(Path(path))


def memory_storage() -> MemoryStorage:
    return MemoryStorage()


def connect(database: str) -> sqlite3.Connection:
    """A connection as the write line needs it."""
    return sqlite3.connect(database, isolation_level=None, check_same_thread=False, cached_statements=256)


def _connect_memory() -> sqlite3.Connection:
    from agent_nodes.store import _empty

    connection = connect(":memory:")
    connection.deserialize(in_memory(_empty.database()))
    return connection


def in_memory(database: bytes) -> bytes:
    """The same database without its mark for a write-ahead log, which one in memory cannot have."""
    return database[:18] + b"\x01\x01" + database[20:]
