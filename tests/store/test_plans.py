"""Every statement finds its rows through a key or an index, without figures about the data, so that its cost does not
grow with the history."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from agent_nodes.store import _sql, generate
from agent_nodes.store.statement import Statement
from agent_nodes.store.storage import connect

# Through which index a hot read goes; the rest only must not walk through a table.
THROUGH = {
    "TASK": "INTEGER PRIMARY KEY",
    "LIVE_TASKS": "task_live",
    "TURN": "INTEGER PRIMARY KEY",
    "TURN_RECORDS": "PRIMARY KEY",
    "RECEIPT": "PRIMARY KEY",
    "WAITERS": "task_wait_on",
    "CONTEXT": "entry_target",
    "PROGRESS": "PRIMARY KEY",
    "TURN_ACTIVITY": "activity_turn",
}

# Indices that hold only the rows they are about: walking through one is walking through what is live.
SMALL = ("task_live",)

# Few rows each, however long the history: the requests of one turn.
SORTED = ("TURN_RECORDS",)


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    with closing(connect(":memory:")) as connection:
        connection.executescript(_sql.DDL)
        yield connection


def plan(database: sqlite3.Connection, statement: Statement) -> list[str]:
    marks = [None] * len(statement.names)
    return [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement.text}", marks)]


@pytest.mark.parametrize("name", sorted(generate.named()))
def test_a_statement_walks_through_no_table_and_sorts_nothing(database, name):
    steps = plan(database, getattr(_sql, name))
    walked = [step for step in steps if step.startswith("SCAN") and not any(index in step for index in SMALL)]
    assert not walked, steps
    if name not in SORTED:
        assert not [step for step in steps if "TEMP B-TREE" in step], steps


@pytest.mark.parametrize("name", sorted(THROUGH))
def test_a_hot_read_goes_through_its_index(database, name):
    steps = plan(database, getattr(_sql, name))
    assert THROUGH[name] in steps[0], steps


def test_every_index_has_a_statement_that_goes_through_it(database):
    made = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql NOT NULL")}
    steps = " ".join(step for name in generate.named() for step in plan(database, getattr(_sql, name)))
    assert {index for index in made if index not in steps} == set()
