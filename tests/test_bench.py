"""The measurements run, and the history that they make in bulk is what real turns leave; nothing here asserts speed."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_nodes.engine import progress
from bench.bulk import add_turns
from bench.common import BY_PROMPT, Watch
from bench.counts import counts
from bench.ours import FILE, Ours
from bench.processes import ROOT, fake_model

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
