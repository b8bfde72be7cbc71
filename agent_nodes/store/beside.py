"""Reading a session beside whoever owns it: no lock is taken, nothing is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from agent_nodes.store import faults, files, schema
from agent_nodes.store.line import Tx

T = TypeVar("T")


def read_beside(path: Path, read: Callable[[Tx], T]) -> T:
    """Run ``read`` in one read transaction on the session at ``path``, whether somebody has it open or not.

    Raises ``SessionFileError`` for what is no session of a known schema, ``StorageError`` where it cannot be read.
    """
    label = str(path)
    real = files.real_path(path)
    try:
        real.stat()
    except OSError as error:
        raise faults.file_error(error, label) from error
    try:
        # A session at rest has no log, and an ordinary reader would leave one behind.
        try:
            return _read(real, label, read, immutable=files.log_size(real) == 0)
        except sqlite3.DatabaseError:
            # Only an owner that came in between moves pages under a reader that takes no locks.
            if files.log_size(real) == 0:
                raise
            return _read(real, label, read, immutable=False)
    except sqlite3.Error as error:
        raise faults.database_error(error, label) or faults.damaged(label, str(error)) from error


def _read(path: Path, label: str, read: Callable[[Tx], T], *, immutable: bool) -> T:
    with closing(files.reading(path, immutable=immutable)) as connection:
        application_id = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        schema.check_marks(label, application_id, version)
        connection.execute("BEGIN")
        tx = Tx(connection.execute, 0, 0, writes=False)
        try:
            return read(tx)
        finally:
            tx.end()
