"""What a later owner may do with work that an earlier one left: stops stay stops, calls need leave to run again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_nodes import AbortSignal, AgentHost, ExecutionAborted, StorageError
from agent_nodes.tools.base import ReplayPolicy
from tests.engine.test_stop import Held
from tests.support import scripted, take, tool


async def test_a_stop_that_was_marked_but_not_settled_is_never_resumed(tmp_path: Path):
    model, path, signal = Held("one "), tmp_path / "s.sqlite", AbortSignal()

    def fail_at_settling(point: str, label: str) -> None:
        if label == "abort.settle":
            raise StorageError("the disk is gone")

    with contextlib.suppress(StorageError):
        async with scripted(provider=model, database_path=path) as agent:
            run = agent.run({"prompt": "go", "request_id": "r"}, AgentHost(abort_signal=signal))
            task = asyncio.ensure_future(take(run))
            await model.reached.wait()
            agent.harness.engine.line.storage.observe = fail_at_settling
            signal.set("enough")
            assert isinstance((await task).error, StorageError)
    async with scripted("text: no", database_path=path) as agent:
        assert agent.unfinished() == []
        assert isinstance((await take(agent.run({"request_id": "r"}))).error, ExecutionAborted)


@pytest.mark.parametrize(
    ("before", "after", "times"),
    [("never", "safe", 1), ("safe", "never", 1), ("never", "never", 1), ("safe", "safe", 2)],
)
async def test_a_call_is_repeated_only_where_the_tool_of_then_and_that_of_now_allow_it(
    before: ReplayPolicy, after: ReplayPolicy, times: int, tmp_path: Path
):
    path, started, runs = tmp_path / "s.sqlite", asyncio.Event(), list[str]()

    async def pay(arguments: dict[str, Any], context: Any) -> None:
        runs.append("pay")
        started.set()
        if len(runs) == 1:
            await asyncio.Event().wait()

    async with scripted("call: pay", database_path=path, extra_tools=[tool("pay", pay, replay=before)]) as agent:
        task = asyncio.ensure_future(take(agent.run({"prompt": "go", "request_id": "r"})))
        await started.wait()
    await task
    async with scripted("text: done", database_path=path, extra_tools=[tool("pay", pay, replay=after)]) as agent:
        assert (await take(agent.run({"request_id": "r"}))).text == "done"
    assert len(runs) == times


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found by their environment, in /proc")
async def test_what_a_cut_call_left_running_is_ended_before_the_turn_goes_on(tmp_path: Path):
    path, started, left = tmp_path / "s.sqlite", asyncio.Event(), list[subprocess.Popen[bytes]]()

    async def leave(arguments: dict[str, Any], context: Any) -> None:
        left.append(subprocess.Popen(["sleep", "60"], env={**os.environ, **context.environment}))
        started.set()
        await asyncio.Event().wait()

    try:
        async with scripted("call: leave", database_path=path, extra_tools=[tool("leave", leave)]) as agent:
            task = asyncio.ensure_future(take(agent.run({"prompt": "go", "request_id": "r"})))
            await started.wait()
        await task
        async with scripted("text: done", database_path=path, extra_tools=[tool("leave", leave)]) as agent:
            await take(agent.run({"request_id": "r"}))
        assert left[0].wait(timeout=10) == -9
    finally:
        for process in left:
            process.kill()
            process.wait()
