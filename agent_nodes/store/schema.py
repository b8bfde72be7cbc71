"""What every session database has in common: its marks, its settings, and the steps from older schemas to this one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeAlias

from agent_nodes.errors import SessionFileError

# In the header of every session file (bytes 68-71), so that a file of another program is told at once.
APPLICATION_ID = 0x41474E53
SCHEMA_VERSION = 2
PAGE_SIZE = 2048

_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=NORMAL",
    "foreign_keys=ON",
    "busy_timeout=30000",
    "wal_autocheckpoint=1000",
    f"journal_size_limit={64 * 1024 * 1024}",
    "temp_store=MEMORY",
)

Step: TypeAlias = Callable[[sqlite3.Connection], None]


def configure(connection: sqlite3.Connection) -> None:
    """The settings of the writing connection; the first commit that needs it raises ``synchronous`` to FULL."""
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def create(connection: sqlite3.Connection, script: str) -> None:
    """Make all tables and first rows in an empty database, in one transaction."""
    marks = f"PRAGMA application_id={APPLICATION_ID};\nPRAGMA user_version={SCHEMA_VERSION};\n"
    try:
        connection.executescript(f"BEGIN IMMEDIATE;\n{marks}{script}COMMIT;")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


class Migrations:
    """Steps from one schema version to the next, each registered for the version it leads to."""

    def __init__(self, current: int) -> None:
        self.current = current
        self._steps: dict[int, Step] = {}

    def step(self, version: int) -> Callable[[Step], Step]:
        """Decorator: the function turns a database of ``version - 1`` into one of ``version``."""

        def register(function: Step) -> Step:
            if version in self._steps:
                raise ValueError(f"two migrations lead to schema version {version}")
            self._steps[version] = function
            return function

        return register

    def run(self, connection: sqlite3.Connection, version: int) -> None:
        """Bring a database of ``version`` to the current one. A step and its version number are one transaction."""
        for number in range(version + 1, self.current + 1):
            step = self._steps[number]
            connection.execute("BEGIN IMMEDIATE")
            try:
                step(connection)
                connection.execute("UPDATE meta SET schema_version = ?", (number,))
                connection.execute(f"PRAGMA user_version={number}")
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


MIGRATIONS = Migrations(SCHEMA_VERSION)


@MIGRATIONS.step(2)
def _name_the_provider(connection: sqlite3.Connection) -> None:
    """A turn may go to another provider than the session's: its bill says which. Older records do not know."""
    connection.execute("ALTER TABLE usage_record ADD COLUMN provider VARCHAR DEFAULT '' NOT NULL")


def check_marks(label: str, application_id: int, version: int, current: int = SCHEMA_VERSION) -> None:
    """Raises ``SessionFileError`` for a database of another program or of a newer schema."""
    if application_id != APPLICATION_ID or version < 1:
        raise SessionFileError(
            f"{label} is an SQLite database, but not an agent session. Nothing was changed; give another path.",
            kind="foreign",
        )
    if version > current:
        raise SessionFileError(
            f"{label} has schema version {version}, this program knows versions up to {current}. "
            "Nothing was changed; open it with a newer release of prefect-agent-nodes.",
            kind="newer",
        )


def prepare(connection: sqlite3.Connection, label: str, migrations: Migrations = MIGRATIONS) -> None:
    """Make the database behind ``connection`` a session of the current schema: settings, tables when it is empty,
    migrations when it is older. Raises ``SessionFileError`` (foreign, newer) with nothing changed."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    application_id: int = connection.execute("PRAGMA application_id").fetchone()[0]
    empty = version == 0 and application_id == 0 and not connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    if not empty:
        check_marks(label, application_id, version, migrations.current)
    configure(connection)
    if empty:
        from agent_nodes.store import _sql

        create(connection, _sql.DDL)
    elif version < migrations.current:
        migrations.run(connection, version)
