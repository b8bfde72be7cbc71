"""Settings of the writing connection, and the way from an older schema to this one."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from agent_nodes.errors import SessionFileError
from agent_nodes.store import schema
from agent_nodes.store.storage import connect, sqlite_storage

NOW = schema.SCHEMA_VERSION


@pytest.fixture
def connection(path) -> Iterator[sqlite3.Connection]:
    sqlite_storage(path).open().release()
    with closing(connect(str(path))) as connection:
        yield connection


def version_of(connection: sqlite3.Connection) -> tuple[int, int]:
    return (
        connection.execute("PRAGMA user_version").fetchone()[0],
        connection.execute("SELECT schema_version FROM meta").fetchone()[0],
    )


def test_the_settings_are_those_of_the_design(connection):
    schema.prepare(connection, "s")
    wanted = {
        "journal_mode": "wal",
        "foreign_keys": 1,
        "busy_timeout": 30000,
        "wal_autocheckpoint": 1000,
        "journal_size_limit": 64 * 1024 * 1024,
        "temp_store": 2,
        "page_size": 2048,
    }
    assert {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in wanted} == wanted


def test_steps_run_in_order_once_and_both_version_numbers_follow(connection):
    migrations = schema.Migrations(NOW + 2)

    @migrations.step(NOW + 2)
    def add_column(connection):
        connection.execute("ALTER TABLE extra ADD COLUMN b")

    @migrations.step(NOW + 1)
    def add_table(connection):
        connection.execute("CREATE TABLE extra (a)")

    for _ in range(2):
        schema.prepare(connection, "s", migrations)
        assert version_of(connection) == (NOW + 2, NOW + 2)
    assert [row[1] for row in connection.execute("PRAGMA table_info(extra)")] == ["a", "b"]


def test_a_step_that_fails_leaves_what_the_one_before_it_made(connection):
    migrations = schema.Migrations(NOW + 2)

    @migrations.step(NOW + 1)
    def good(connection):
        connection.execute("CREATE TABLE extra (a)")

    @migrations.step(NOW + 2)
    def bad(connection):
        connection.execute("DROP TABLE extra")
        raise LookupError("half way")

    with pytest.raises(LookupError):
        schema.prepare(connection, "s", migrations)
    assert not connection.in_transaction
    assert version_of(connection) == (NOW + 1, NOW + 1)
    assert connection.execute("SELECT count(*) FROM extra").fetchone() == (0,)


def test_two_steps_to_one_version_are_a_mistake():
    migrations = schema.Migrations(2)
    migrations.step(2)(lambda connection: None)
    with pytest.raises(ValueError, match="schema version 2"):
        migrations.step(2)(lambda connection: None)


def test_every_version_up_to_this_one_has_its_step():
    assert sorted(schema.MIGRATIONS._steps) == list(range(2, schema.SCHEMA_VERSION + 1))
    assert schema.MIGRATIONS.current == schema.SCHEMA_VERSION


def test_an_empty_database_of_any_kind_gets_the_tables(tmp_path):
    from agent_nodes.store import _empty, generate

    path = tmp_path / "plain.sqlite"
    with closing(connect(str(path))) as connection:
        connection.execute(f"PRAGMA page_size={schema.PAGE_SIZE}")
        schema.prepare(connection, "s")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert generate.contents(path.read_bytes()) == generate.contents(_empty.database())


def test_tables_that_cannot_be_made_leave_an_empty_database():
    with closing(connect(":memory:")) as connection:
        with pytest.raises(sqlite3.Error):
            schema.create(connection, "CREATE TABLE a (b);\nCREATE TABLE a (b);\n")
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        assert connection.execute("PRAGMA user_version").fetchone() == (0,)


def test_a_foreign_database_keeps_its_settings():
    with closing(connect(":memory:")) as connection:
        connection.execute("CREATE TABLE other (a)")
        connection.execute("PRAGMA busy_timeout=7")
        with pytest.raises(SessionFileError) as caught:
            schema.prepare(connection, "there")
        assert caught.value.kind == "foreign"
        assert connection.execute("PRAGMA busy_timeout").fetchone() == (7,)
