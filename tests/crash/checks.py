"""What must hold: of a file that nobody owns, of one run's report, and of a whole case."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.crash.model import whole_text
from tests.crash.points import FILE
from tests.crash.scenes import Run, Scene

COUNTERS = (
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "cache_creation_tokens",
    "reasoning_tokens",
    "calls",
)

ERRORS = {
    "answered": None,
    "aborted": "ExecutionAborted",
    "failed": "ModelError",
    "broken": "RuntimeFailure",
    "closed": "AgentClosed",
}

Rows = Callable[..., list[tuple[Any, ...]]]

CALL = "'call-' || session_id || '-' || task.id"
"""What tools and hosts see as the id of a call, from the tables task and meta."""


@contextmanager
def _opened(path: Path) -> Iterator[Rows]:
    with closing(sqlite3.connect(path)) as connection:
        yield lambda sql, *values: connection.execute(sql, values).fetchall()


# -- what a killed process left ----------------------------------------------------------------------------------------


def snapshot(folder: Path) -> dict[str, Any]:
    """What was committed, read from a copy so that the file itself stays as the kill left it.

    ``text`` by request id; ``live`` and ``stopped`` request ids; ``unknown``: calls of ``never`` tools under way;
    ``wrong``: what must hold after every commit and does not.
    """
    nothing: dict[str, Any] = {"text": {}, "live": [], "stopped": [], "unknown": [], "wrong": []}
    if not (folder / FILE).exists() or not (folder / FILE).stat().st_size:
        return nothing
    look = folder / "look"
    look.mkdir(exist_ok=True)
    for suffix in ("", "-wal"):
        if (folder / f"{FILE}{suffix}").exists():
            shutil.copy(folder / f"{FILE}{suffix}", look)
    try:
        with _opened(look / FILE) as rows:
            turns = rows("SELECT id, request_id, status, reason, task_id FROM turn")
            marked = {row[0] for row in rows("SELECT id FROM task WHERE abort_requested")}
            unknown = rows(
                f"SELECT {CALL} FROM task, meta WHERE name='tool' AND phase='execute' AND replay='never'"
                " AND status IN ('running', 'pending')"
            )
            return {
                "text": {request: _committed_text(rows, turn) for turn, request, *_ in turns},
                "live": [request for _, request, status, *_ in turns if status in ("running", "waiting")],
                "stopped": [request for _, request, _, reason, task in turns if reason == "aborted" or task in marked],
                "unknown": [row[0] for row in unknown],
                "wrong": [f"after the kill: {text}" for text in [*_tips(rows), *_usage(rows)]],
            }
    finally:
        shutil.rmtree(look)


def _committed_text(rows: Rows, turn: int) -> str:
    text, gap = "", False
    for kind, message in rows("SELECT kind, message FROM entry WHERE turn_id=? ORDER BY id", turn):
        if kind == "tool_result":
            gap = True
        said = "".join(block["text"] for block in json.loads(message)["content"] if block["type"] == "text")
        if kind == "assistant" and said:
            text, gap = text + ("\n\n" if gap and text else "") + said, False
    stream = rows("SELECT checkpoint ->> 'stream' FROM task WHERE turn_id=? AND name='generation'", turn)[-1][0]
    pieces = rows("SELECT delta FROM progress WHERE stream=? AND kind='text' ORDER BY n", stream)
    said = "".join(row[0] for row in pieces)
    return text + ("\n\n" if said and gap and text else "") + said


def processes(folder: Path) -> list[int]:
    """Those that work in ``folder``: what the tool bash has started, and not those that have ended."""
    found: list[int] = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if link.readlink() == folder:
                found.append(int(link.parent.name))
        except OSError:  # ended, or of somebody else
            continue
    return found


# -- one run -----------------------------------------------------------------------------------------------------------


def run(scene: Scene, order: Run, report: dict[str, Any], *, ends: str) -> list[str]:
    """``ends`` is how it had to end."""
    wrong: list[str] = list(report["complaints"])
    result, text, whole = report["result"], report["text"], whole_text(scene.plan(order.prompt))
    if ends == "settled":
        ends = "answered" if report["raised"] is None else "failed"
    if report["raised"] != ERRORS[ends]:
        wrong.append(f"raised {report['raised']}, not {ERRORS[ends]} ({result})")
    if ends not in ("closed", "broken") and (result is None or result["status"] != ends or result["text"] != text):
        wrong.append(f"the result is {result} where the events said {text!r}")
    if ends == "answered" and not same(text, whole, scene):
        wrong.append(f"the answer is {text!r}, not {whole!r}")
    if not (same(text, whole, scene) or whole.startswith(text)):
        wrong.append(f"the text {text!r} is no part of {whole!r}")
    before = report["before"] or {"live": [], "text": {}}
    others = [request for request in before["live"] if request != order.request]
    left = [order.request] if ends == "closed" else others if order.request in before["text"] else []
    late = ends == "closed" and not report["unfinished"]  # it had just been settled
    if report["unfinished"] != left and not late:
        wrong.append(f"unfinished afterwards: {report['unfinished']}, not {left}")
    wrong += _tool_events(report["tools"], ends)
    if report["before"] is not None:
        wrong += _after(order, report, before, others)
    return wrong


def _after(order: Run, report: dict[str, Any], before: dict[str, Any], others: list[str]) -> list[str]:
    """What a run owes to what it found on disk."""
    wrong: list[str] = list(before["wrong"])
    kept = before["text"].get(order.request, "")
    if not report["text"].startswith(kept):
        wrong.append(f"committed text is lost: {kept!r} was on disk, the run shows {report['text']!r}")
    if order.request in before["stopped"] and not order.reopen and report["requests"]:
        wrong.append("a stopped turn was gone on with")
    if order.request not in before["text"] and report["finished"] != others:
        wrong.append(f"finished before: {report['finished']}, where {others} were under way")
    return wrong


def same(text: str, whole: str, scene: Scene) -> bool:
    """Over a real wire blanks at the seam of a continued answer may get lost."""
    return text == whole or (scene.name == "wire" and text.split() == whole.split())


def _tool_events(tools: Sequence[Sequence[str]], ends: str) -> list[str]:
    counts = Counter((phase, call) for phase, call, _ in tools)
    wrong = [f"event {key} comes {count} times" for key, count in counts.items() if count > 1]
    started: set[str] = set()
    for phase, call, name in tools:
        if phase == "start":
            started.add(call)
        elif call not in started:
            wrong.append(f"{name} ({call}) ended and had not started")
    if ends == "answered" and counts.total() != 2 * len(started):
        wrong.append(f"calls without an end: {tools}")
    return wrong


# -- the file ----------------------------------------------------------------------------------------------------------


def file_at_rest(folder: Path) -> list[str]:
    """What must hold of a session in which nothing runs."""
    with _opened(folder / FILE) as rows:
        wrong = [f"integrity: {row[0]}" for row in rows("PRAGMA integrity_check") if row[0] != "ok"]
        for table, condition in (
            ("task", "status <> 'terminal'"),
            ("task_wait", "1"),
            ("progress", "1"),
            ("turn", "status NOT IN ('answered', 'unanswered')"),
        ):
            left = rows(f"SELECT * FROM {table} WHERE {condition}")
            if left:
                wrong.append(f"left in {table}: {left}")
        wrong += _tips(rows)
        turns = rows(
            "SELECT request_id, (SELECT count(*) FROM entry WHERE turn_id=turn.id AND kind='user'),"
            " (SELECT count(*) FROM receipt WHERE receipt.request_id=turn.request_id) FROM turn"
        )
        wrong += [f"turn {name}: user entries and receipts {counts}" for name, *counts in turns if counts != [1, 1]]
        return [*wrong, *_pairs(rows), *_usage(rows), *_activity(rows)]


def _tips(rows: Rows) -> list[str]:
    tips = rows("SELECT tip_entry, (SELECT max(id) FROM entry WHERE target_id=target.id) FROM target")
    return [f"the tip is entry {tip}, the newest is {newest}" for tip, newest in tips if tip != newest]


def _pairs(rows: Rows) -> list[str]:
    """Every call has one result, behind it and before the next message of the other side."""
    wrong: list[str] = []
    pending: set[str] = set()
    calls: Counter[str] = Counter()
    results: Counter[str] = Counter()
    for entry, kind, text in rows("SELECT id, kind, message FROM entry ORDER BY id"):
        message = json.loads(text)
        if kind == "tool_result":
            results[message["call_id"]] += 1
            pending.discard(message["call_id"])
        elif pending and kind != "system":
            wrong.append(f"entry {entry} ({kind}) comes before the results of {sorted(pending)}")
        if kind == "assistant":
            ids = [block["id"] for block in message["content"] if block["type"] == "tool_call"]
            calls.update(ids)
            pending |= set(ids)
    if calls != results:
        wrong.append(f"calls {dict(calls)}, results {dict(results)}")
    return wrong


def _usage(rows: Rows) -> list[str]:
    tables = ("usage_record", "usage_total", "turn")
    sums = ", ".join(f"coalesce(sum({name}), 0)" for name in COUNTERS)
    records, totals, turns = (rows(f"SELECT {sums} FROM {table}")[0] for table in tables)
    tools = rows(f"SELECT {sums} FROM usage_record WHERE provider='tool'")[0]
    both = tuple(turn + tool for turn, tool in zip(turns, tools, strict=True))
    wrong = [] if records == totals == both else [f"usage: records {records}, totals {totals}, turns and tools {both}"]
    for turn, *own in rows(f"SELECT id, {', '.join(COUNTERS)} FROM turn"):
        billed = rows(f"SELECT {sums} FROM usage_record WHERE turn_id=? AND provider<>'tool'", turn)[0]
        if tuple(own) != billed:
            wrong.append(f"usage of turn {turn}: {own}, its records say {billed}")
    twice = rows("SELECT record_id, count(*) FROM usage_record GROUP BY record_id HAVING count(*) > 1")
    return [*wrong, *(f"usage record {row}" for row in twice)]


def _activity(rows: Rows) -> list[str]:
    """Calls start and end once; what a stop kept from starting does neither."""
    starts, ends = (
        Counter(row[0] for row in rows("SELECT task_id FROM activity WHERE type=?", kind))
        for kind in ("tool_start", "tool_end")
    )
    wrong = [f"call {task} has started {n} times" for task, n in starts.items() if n > 1]
    return wrong if starts == ends else [*wrong, f"starts of calls {dict(starts)}, ends {dict(ends)}"]


# -- a whole case ------------------------------------------------------------------------------------------------------


def calls(folder: Path) -> dict[str, dict[str, Any]]:
    """Every tool task by its id: tool, replay policy and the text of its result."""
    with _opened(folder / FILE) as rows:
        found = rows(
            f"SELECT {CALL}, tool, replay, message FROM meta, task JOIN entry ON entry.task_id=task.id"
            " WHERE name='tool' AND entry.kind='tool_result' ORDER BY task.id"
        )
    return {
        task: {"tool": tool, "replay": replay, "result": json.loads(message)["content"][0]["text"]}
        for task, tool, replay, message in found
    }


def effects(done: dict[str, dict[str, Any]], ledger: Sequence[dict[str, Any]], unknown: set[str] | None) -> list[str]:
    """``done`` as :func:`calls` gives it, ``unknown`` the ``never`` calls that a process found under way, if known."""
    wrong: list[str] = []
    times = Counter((line["task"], line["tool"]) for line in ledger)
    for task, tool in times:
        if done.get(task, {}).get("tool") != tool:
            wrong.append(f"{tool} ran as {task}, which the session does not know as such")
    for task, call in done.items():
        count = times[(task, call["tool"])]
        never, result = call["replay"] == "never", call["result"]
        if never and count > 1:
            wrong.append(f"{call['tool']} ({task}) took effect {count} times")
        if result.endswith(": done") and not count:
            wrong.append(f"{call['tool']} ({task}) has a result and never ran")
        if result.startswith("[not run]") and count:
            wrong.append(f"{call['tool']} ({task}) ran, its result says {result!r}")
        if unknown is None or result.startswith("[stopped]"):
            continue
        if result.startswith("[interrupted]") != (task in unknown):
            wrong.append(f"{call['tool']} ({task}): {result!r}, under way at a kill: {task in unknown}")
    return wrong


def billing(folder: Path, scene: Scene, requests: Sequence[dict[str, Any]], killed: set[int]) -> list[str]:
    """Each response names its request in its usage: billed once, and always where its process lived on. What tools
    say they spent is billed with each of their results."""
    with _opened(folder / FILE) as rows:
        billed = Counter(row[0] - 1000 for row in rows("SELECT input_tokens FROM usage_record WHERE provider<>'tool'"))
        spent = rows("SELECT record_id, model FROM usage_record WHERE provider='tool' ORDER BY record_id")
        told = rows(
            "SELECT 'tool:' || task.id, tool FROM task JOIN entry ON entry.task_id=task.id"
            " WHERE kind='tool_result' AND message -> 'structured' IS NOT NULL ORDER BY 1"
        )
    wrong = [] if spent == told else [f"tools were billed {spent}, their results are {told}"]
    wrong += [f"request {number} was billed {count} times" for number, count in billed.items() if count > 1]
    for number, line in enumerate(requests, start=1):
        free = scene.faults.get(number) in ("overloaded", "invalid")
        if line["process"] not in killed and (number in billed) == free:
            wrong.append(f"request {number} of process {line['process']}: billed {number in billed}")
    return wrong
