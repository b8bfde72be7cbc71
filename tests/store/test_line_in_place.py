"""Transactions in place: while the disk answers fast, none is handed to a thread, and nothing else changes."""

from __future__ import annotations

import asyncio
import threading
from itertools import count
from types import SimpleNamespace

import pytest

from agent_nodes.store import line as line_module


@pytest.fixture(autouse=True)
def by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """This module's own: every transaction counts as fast."""
    monkeypatch.setattr(line_module, "IN_PLACE_SECONDS", 1e9)


async def used(line) -> threading.Thread:
    """Who runs a commit, once the thread that ran the one before has let go."""
    while line._working:  # noqa: ASYNC110  # the writer thread tells nobody
        await asyncio.sleep(0)
    return await line.commit("who", lambda tx: threading.current_thread())


async def test_a_fast_disk_is_written_on_the_loop_itself(open_line):
    line = await open_line()
    assert await used(line) is threading.current_thread()


async def test_a_slow_disk_goes_back_to_the_threads_and_a_fast_one_returns(open_line, monkeypatch):
    line = await open_line()
    monkeypatch.setattr(line_module, "IN_PLACE_SECONDS", 0.0)
    assert await used(line) is not threading.current_thread()
    monkeypatch.setattr(line_module, "IN_PLACE_SECONDS", 1e9)
    assert await used(line) is threading.current_thread()


async def test_what_is_fast_for_one_session_is_slow_beside_others(open_line, path, monkeypatch):
    seconds = count()
    clock = SimpleNamespace(monotonic=lambda: next(seconds))  # every transaction takes one
    monkeypatch.setattr(line_module, "SYSTEM_CLOCK", clock)
    monkeypatch.setattr(line_module, "IN_PLACE_SECONDS", 1.5)
    line = await open_line(path)
    await used(line)
    assert await used(line) is threading.current_thread()
    other = await open_line(path.with_name("other.sqlite"))
    assert await used(line) is not threading.current_thread()
    await other.close()
    assert await used(line) is threading.current_thread()


async def test_the_order_is_kept_where_a_subscriber_commits_in_turn(open_line):
    line = await open_line()
    order: list[str] = []
    tasks: list[asyncio.Future[None]] = []

    def follow(label: str, changes: list[object], seq: int) -> None:
        order.append(label)
        if label == "first":
            tasks.append(asyncio.ensure_future(line.commit("second", lambda tx: None)))

    line.subscribe(follow)
    await line.commit("first", lambda tx: None)
    await line.commit("third", lambda tx: None)
    await asyncio.gather(*tasks)
    assert sorted(order) == ["first", "second", "third"]
    assert order[0] == "first"
    assert line.seq == 3


async def test_a_failure_reaches_its_waiter_and_the_line_goes_on(open_line):
    line = await open_line()
    with pytest.raises(ZeroDivisionError):
        await line.commit("bad", lambda tx: 1 / 0)
    assert await used(line) is threading.current_thread()


async def test_commits_queued_behind_a_thread_keep_their_order(open_line, monkeypatch):
    line = await open_line()
    monkeypatch.setattr(line_module, "IN_PLACE_SECONDS", 0.0)
    seen: list[int] = []
    first = asyncio.ensure_future(line.commit("0", lambda tx: seen.append(0)))
    await asyncio.sleep(0)
    monkeypatch.setattr(line_module, "IN_PLACE_SECONDS", 1e9)
    rest = [asyncio.ensure_future(line.commit(str(n), lambda tx, n=n: seen.append(n))) for n in range(1, 5)]
    await asyncio.gather(first, *rest)
    assert seen == [0, 1, 2, 3, 4]


async def test_a_commit_on_the_loop_does_not_overtake_what_a_thread_has_stored(open_line, monkeypatch):
    """Between a thread's COMMIT and the loop hearing of it there is a moment in which nothing is under way."""
    line, heard, go = await open_line(), list[str](), threading.Event()
    line.subscribe(lambda label, changes, seq: heard.append(label))
    monkeypatch.setattr(line_module, "IN_PLACE_SECONDS", 0.0)
    first = asyncio.ensure_future(line.commit("first", lambda tx: go.wait(10)))
    await asyncio.sleep(0)
    go.set()
    while line._working:  # the loop stands still meanwhile
        pass
    monkeypatch.setattr(line_module, "IN_PLACE_SECONDS", 1e9)
    await line.commit("second", lambda tx: None)
    await first
    assert heard == ["first", "second"]
