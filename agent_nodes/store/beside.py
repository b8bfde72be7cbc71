"""Reading a session beside whoever owns it: no lock is taken, nothing is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from agent_nodes.store import locate
from agent_nodes.store.line import Tx

T = TypeVar("T")


def read_beside(path: Path, read: Callable[[Tx], T]) -> T:
    """Run ``read`` in one read transaction on the session at ``path``, whether somebody has it open or not. It may be
    called a second time.

    Raises ``SessionFileError`` for what is no session of a known schema, ``StorageError`` where it cannot be read.
    """

    def run(connection: sqlite3.Connection) -> T:
        tx = Tx(connection.execute, 0, 0, writes=False)
        try:
            return read(tx)
        finally:
            tx.end()

    return locate.look(path, run)
