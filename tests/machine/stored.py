"""A session's rows as a crash now would leave them, and what must hold of them at any time."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from agent_nodes.messages import AssistantMessage, Message, TextBlock, ToolResultMessage, UserMessage, message_from_json
from agent_nodes.providers.scripted import check_history
from tests.machine.reference import CONNECTION_LIMIT, LENGTH_LIMIT, Standing, Talk

TABLES = (
    "target",
    "entry",
    "turn",
    "receipt",
    "task",
    "task_wait",
    "progress",
    "usage_record",
    "usage_total",
    "activity",
)
APPEND_ONLY = {"entry": "id", "receipt": "request_id", "usage_record": "record_id", "activity": "id"}
COUNTERS = (
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "cache_creation_tokens",
    "reasoning_tokens",
    "calls",
)

Row = dict[str, Any]


def task_of(tool_call_id: str) -> int:
    """The task behind the id of a call that hosts and tools see."""
    return int(tool_call_id.rpartition("-")[2])


def copy_session(source: Path, target: Path) -> None:
    """What the disk holds: the file and its log, without the shared memory of whoever writes. A session that was never
    begun may have no file."""
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            Path(f"{target}{suffix}").unlink()
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError):
            shutil.copyfile(f"{source}{suffix}", f"{target}{suffix}")


@dataclass(frozen=True)
class Stored:
    tables: dict[str, list[Row]]

    @staticmethod
    def read(path: Path) -> Stored:
        """``path`` is a copy that nobody else uses."""
        if not path.exists():
            return Stored({name: [] for name in TABLES})
        with closing(sqlite3.connect(path)) as connection:
            connection.row_factory = sqlite3.Row
            return Stored({name: [dict(row) for row in connection.execute(f"SELECT * FROM {name}")] for name in TABLES})

    def __getitem__(self, table: str) -> list[Row]:
        return self.tables[table]

    @cached_property
    def messages(self) -> list[Message]:
        return [message_from_json(orjson.loads(row["message"])) for row in self.entries]

    @cached_property
    def entries(self) -> list[Row]:
        return sorted(self["entry"], key=lambda row: row["id"])

    @property
    def live_turns(self) -> list[Row]:
        return [row for row in self["turn"] if row["status"] in ("running", "waiting")]

    @property
    def live_tasks(self) -> list[Row]:
        return [row for row in self["task"] if row["status"] != "terminal"]

    def turn(self, request_id: str) -> Row | None:
        return next((row for row in self["turn"] if row["request_id"] == request_id), None)

    def task(self, task_id: int) -> Row:
        return next(row for row in self["task"] if row["id"] == task_id)

    def usage(self, turn_id: int) -> dict[str, int]:
        rows = [row for row in self["usage_record"] if row["turn_id"] == turn_id]
        return {name: sum(row[name] for row in rows) for name in COUNTERS}

    def talk(self, turn_id: int) -> Talk:
        """What the turn has said in its entries."""
        talk = Talk()
        for row, message in zip(self.entries, self.messages, strict=True):
            if row["turn_id"] == turn_id and isinstance(message, AssistantMessage):
                talk.say(message.text)
            elif row["turn_id"] == turn_id and isinstance(message, ToolResultMessage):
                talk.gap = True
        return talk

    def shown_ends(self, turn_id: int) -> list[int]:
        """The tasks of the turn's calls whose end was shown."""
        return [r["task_id"] for r in self["activity"] if r["turn_id"] == turn_id and r["type"] == "tool_end"]

    def standing(self, turn: Row) -> Standing:
        """Where an unfinished turn stands, for the reference model."""
        task = self.task(turn["task_id"])
        checkpoint = orjson.loads(task["checkpoint"])
        pieces = [row for row in self["progress"] if row["stream"] == checkpoint["stream"] and row["kind"] == "text"]
        talk = self.talk(turn["id"])
        in_round = task["phase"] == "tools"  # a whole response led to it, which gives the budgets back
        talk.gap = talk.gap or in_round
        cut = "".join(row["delta"] for row in sorted(pieces, key=lambda row: (row["block"], row["n"])))
        return Standing(
            talk,
            0 if in_round else checkpoint["connection"],
            0 if in_round else checkpoint["length"],
            cut if task["phase"] == "request" else None,
            bool(task["abort_requested"]),
        )


def check(now: Stored) -> None:
    """Everything that holds of the rows of one session, whatever happened to it."""
    _check_turns(now)
    _check_tasks(now)
    _check_calls(now)
    _check_usage(now)
    tip = now.entries[-1]["id"] if now.entries else None
    assert all(row["tip_entry"] == tip for row in now["target"]), "the tip is another entry"
    _check_history(now)


def _check_turns(now: Stored) -> None:
    assert len(now.live_turns) <= 1, f"{len(now.live_turns)} turns are unfinished at once"
    receipts = {row["request_id"]: orjson.loads(row["result"]) for row in now["receipt"]}
    assert receipts == {row["request_id"]: {"turn_id": row["id"]} for row in now["turn"]}
    for row in now["turn"]:
        assert (row["status"] == "unanswered") == (row["reason"] is not None), row


def _check_tasks(now: Stored) -> None:
    live = {row["id"]: row for row in now.live_tasks}
    main = {row["task_id"] for row in now.live_turns}
    assert {key for key, row in live.items() if row["name"] == "generation"} == main
    assert all(row["owner_task"] in main for row in live.values() if row["name"] == "tool")
    assert all(row["task_id"] in live and row["on_id"] in live for row in now["task_wait"]), "a wait for an ended task"
    streams = {orjson.loads(row["checkpoint"])["stream"] for row in live.values() if row["name"] == "generation"}
    streams |= {f"call-{key}" for key, row in live.items() if row["name"] == "tool"}
    left = {row["stream"] for row in now["progress"]} - streams
    assert not left, f"progress rows of ended streams {left}"
    for row in live.values():
        if row["name"] == "generation":
            checkpoint = orjson.loads(row["checkpoint"])
            assert checkpoint["connection"] <= CONNECTION_LIMIT
            assert checkpoint["length"] <= LENGTH_LIMIT
            assert (row["phase"] == "tools") == (len(live) > 1), "a round without calls, or calls without a round"


def _check_calls(now: Stored) -> None:
    """Every call has one task, and every ended task one result."""
    calls = [call.id for message in now.messages if isinstance(message, AssistantMessage) for call in message.calls]
    tasks = [row for row in now["task"] if row["name"] == "tool"]
    assert sorted(calls) == sorted(row["call_id"] for row in tasks)
    ended = sorted(row["id"] for row in tasks if row["status"] == "terminal")
    assert sorted(row["task_id"] for row in now.entries if row["kind"] == "tool_result") == ended


def _check_usage(now: Stored) -> None:
    for row in now["turn"]:
        summed = now.usage(row["id"])
        assert summed == {name: row[name] for name in COUNTERS}, "the turn's sum is not that of its records"
        parts = ("input_tokens", "cached_input_tokens", "cache_creation_tokens", "output_tokens")
        assert row["total_tokens"] == sum(row[name] for name in parts)
    totals = {name: sum(row[name] for row in now["usage_total"]) for name in COUNTERS}
    records = {name: sum(row[name] for row in now["usage_record"]) for name in COUNTERS}
    assert totals == records, "the target's total is not that of its records"
    assert all(row["calls"] == 1 for row in now["usage_record"])


def _check_history(now: Stored) -> None:
    """What is stored can be sent: as it is where a request is due, with another prompt where nothing is."""
    tasks = [row for row in now.live_tasks if row["name"] == "generation"]
    if any(row["phase"] == "tools" for row in tasks):
        return
    messages = list(now.messages)
    if not tasks:
        messages.append(UserMessage((TextBlock("next"),)))
    mistake = check_history(messages)
    assert mistake is None, mistake


def check_step(before: Stored, now: Stored, reopened: str | None) -> None:
    """What was there stays as it was. Only the turn ``reopened`` may have gone on after its end."""
    for table, key in APPEND_ONLY.items():
        rows = {row[key]: row for row in now[table]}
        for row in before[table]:
            assert rows.get(row[key]) == row, f"a row of {table} has changed"
    for row in before["turn"]:
        after = now.turn(row["request_id"])
        assert after is not None
        if row["status"] == "answered" or (row["status"] == "unanswered" and row["request_id"] != reopened):
            assert after == row, "an ended turn went on by itself"
            assert now.talk(row["id"]) == before.talk(row["id"]), "an ended turn says something else"
