"""The measurements run, and the history that they make in bulk is what real turns leave; nothing here asserts speed."""

import json
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_nodes.engine import progress
from bench.bulk import add_turns
from bench.common import BY_PROMPT, Subject, Watch
from bench.counts import counts
from bench.figures import FIGURES, OURS, STEP, Row, Taken
from bench.floor import Floor
from bench.memory import bytes_a_session, resident
from bench.nodes import Nodes
from bench.ours import FILE, Ours
from bench.processes import ROOT, fake_model, structure_of
from bench.worker import Batches

DELTAS = 20
# Different in every session, or known only to a real model.
CHANCE = {"owner_id", "session_id", "created_at", "request_id"}
TOKENS = {"input_tokens", "total_tokens", "context_used"}


def test_a_figure_and_its_floors_are_measured(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    command = ["-m", "bench", "--rounds", "1", "--only", "turn", "--only", "floor-turn", "--json", str(file)]
    child = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert child.returncode == 0, child.stderr
    (batches,) = json.loads(file.read_text())["rounds"]["text"]
    assert set(batches) == {"ours", "raw", "raw-step"}
    assert all(numbers["wall"] > numbers["first"] > 0 < numbers["cpu"] for numbers in batches.values())
    heading, _, *lines = [line.split("|")[1:-1] for line in child.stdout.splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in heading][:4] == ["figure", "floor", "target", "reached"]
    assert [line[0].strip() for line in lines] == ["text turn, 50 deltas", "floor raw-step: text turn"]


async def test_a_node_is_measured_beside_a_plain_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_NODES_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("bench.nodes.COUNT", 2)
    with fake_model() as address:
        numbers = await Nodes(address + "/v1", tmp_path).batch_node()
    assert all(numbers[name] > numbers[f"{name}-first"] > 0 < numbers[f"{name}-cpu"] for name in ("plain", "node"))


def test_a_node_may_take_a_tenth_more_and_in_a_flow_little_more_than_a_task() -> None:
    one = {"plain": 10.0, "node": 10.5, "plain-cpu": 4.0, "node-cpu": 5.0}
    flow = {**one, "task": 0.5, "task-cpu": 0.5, "plain-first": 6.0, "node-first": 6.1}
    taken = Taken(rounds={"node": [{OURS: one}] * 3, "flow": [{OURS: flow}] * 3})
    rows = [row(key, taken) for key in ("node", "flow", "flow-first")]
    assert [each.reached for each in rows] == ["1.05x", "1.00x", "0.20x"]
    assert [each.cpu for each in rows] == ["1.25x", "2.00x", "2.00x"]
    assert all(each.ok for each in rows)
    assert not row("node", Taken(rounds={"node": [{OURS: {**one, "node": 11.1}}]})).ok


@pytest.fixture(params=[OURS, STEP])
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    with fake_model() as address:
        url = address + "/v1"
        yield Ours(url) if request.param == OURS else Floor(url, steps=True)


async def test_sessions_take_their_turns_at_the_same_time(subject: Subject, tmp_path: Path) -> None:
    numbers = await Batches(subject, tmp_path).crowd(sessions=3)
    assert numbers["rate"] == pytest.approx(12 / numbers["wall"])
    assert numbers["cpu"] > 0


async def test_many_sessions_are_open_while_their_memory_is_measured(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs: list[int] = []  # a log lies beside each session that is open

    def counted() -> int:
        logs.append(len(list(tmp_path.glob("*/session.db-wal"))))
        return 5_000 * (len(logs) - 1)

    assert 0 < resident() < 2**40
    monkeypatch.setattr("bench.memory.resident", counted)
    assert await bytes_a_session(subject, tmp_path, sessions=5) == 1_000
    assert logs == [0, 5]


def row(key: str, taken: Taken) -> Row:
    return next(figure for figure in FIGURES if figure.key == key).row(taken)


def test_more_turns_a_second_and_less_memory_are_better() -> None:
    rounds = {
        "crowd": [{OURS: {"rate": 90.0, "cpu": 2.0}, STEP: {"rate": 100.0, "cpu": 1.0}}],
        "memory": [{OURS: {"bytes": 2.5e6}, STEP: {"bytes": 0.5e6}}],
    }
    sessions, memory = row("sessions", Taken(rounds)), row("memory", Taken(rounds))
    assert (sessions.target, sessions.reached, sessions.ok) == ("≥ 0.8x", "0.90x", True)
    assert (memory.target, memory.reached, memory.ok) == ("≤ 1 MB more", "2.00 MB (2.50 - 0.50)", False)


def test_the_command_is_measured_over_projects_that_it_reads(tmp_path: Path) -> None:
    assert structure_of(tmp_path) > 0
    assert list(tmp_path.iterdir()) == []


def test_a_limit_of_open_files_that_is_too_low_is_told_before_anything_runs() -> None:
    command = f"ulimit -n 300 && exec {shlex.quote(sys.executable)} -m bench --only memory"
    child = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (child.returncode, child.stdout) == (2, "")
    assert "needs 1064 open files (ulimit -n), no more than 300 are allowed" in child.stderr


@pytest.fixture
def no_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stops for a moment in mid-answer adds a batch of progress; here it does not."""
    monkeypatch.setattr(progress, "BATCH_SECONDS", 3600)


@pytest.mark.usefixtures("no_stall")
async def test_a_late_turn_takes_the_commits_and_statements_of_an_early_one(tmp_path: Path) -> None:
    with fake_model() as address:
        ours = Ours(address + "/v1")
        early, late = [await counts(ours, tmp_path / f"turn-{number}", number) for number in (3, 300)]
    assert early == late
    assert 0 < early["text"][0] < early["round"][0]
    assert all(commits < statements for commits, statements in early.values())


@pytest.mark.usefixtures("no_stall")
async def test_turns_made_in_bulk_have_the_rows_of_real_ones(tmp_path: Path) -> None:
    real, bulk = tmp_path / "real", tmp_path / "bulk"
    with fake_model() as address:
        ours = Ours(address + "/v1")
        for folder, turns in ((real, 3), (bulk, 1)):
            folder.mkdir()
            async with ours.session(folder, BY_PROMPT) as turn:
                for _ in range(turns):
                    await turn(f"text-{DELTAS}", Watch())
    add_turns(bulk / FILE, 2, DELTAS)
    assert rows(bulk / FILE) == rows(real / FILE)


def rows(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Of each table, without what chance decides; sorted, since some tables are kept by random ids."""
    hidden = CHANCE | TOKENS
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = lambda cursor, row: {
            column[0]: value for column, value in zip(cursor.description, row, strict=True) if column[0] not in hidden
        }
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        names = [table["name"] for table in tables]
        return {name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for name in names}
