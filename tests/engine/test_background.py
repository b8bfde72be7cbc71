"""What bash runs in the background lasts as long as its turn, however that ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_nodes.tools.processes import sweep_session
from tests.support import scripted, take, tool, until

SERVER = 'call: bash {"command": "echo $$ > server.pid; exec sleep 300", "background": true}'


def pid_of(folder: Path) -> int:
    return int((folder / "server.pid").read_text())


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


@pytest.mark.feature("D01")
async def test_it_is_there_for_the_next_round_and_gone_with_the_turn(tmp_path):
    lived: list[bool] = []
    probe = tool("probe", lambda arguments, context: lived.append(runs(pid_of(tmp_path))))
    script = f"{SERVER}\n---\ncall: probe {{}}\n---\ntext: done"
    async with scripted(script, workdir=tmp_path, extra_tools=[probe]) as agent:
        assert (await take(agent.run("go"))).text == "done"
        assert lived == [True]
        assert not runs(pid_of(tmp_path))


@pytest.mark.feature("D01", "A03")
@pytest.mark.parametrize("end", ["stop", "close", "cancel"])
async def test_a_stop_and_a_shutdown_take_it_along(tmp_path, end):
    async with scripted(f"{SERVER}\n---\ntext: a\nwait: 600000", workdir=tmp_path) as agent:
        shown = asyncio.Event()

        async def consume() -> None:
            async for event in agent.run("go"):
                if event.type == "text_delta":
                    shown.set()
                    if end == "stop":
                        break

        task = asyncio.ensure_future(consume())
        await shown.wait()
        if end == "close":
            await agent.close()
        elif end == "cancel":
            task.cancel()
        await asyncio.wait([task])
        await until(lambda: not runs(pid_of(tmp_path)))


CHILD = """
import asyncio, sys
from tests.support import scripted, take
async def main():
    script = 'call: bash {"command": "echo $$ > server.pid; exec sleep 300", "background": true}'
    place = {"workdir": sys.argv[1], "database_path": sys.argv[1] + "/s.sqlite"}
    async with scripted(script, "text: a\\nwait: 600000", **place) as agent:
        async for event in agent.run({"prompt": "go", "request_id": "r"}):
            if event.type == "text_delta":
                print("ready", flush=True)
asyncio.run(main())
"""


@pytest.mark.feature("D01", "I10")
def test_what_a_killed_process_left_behind_ends_when_the_session_is_opened_again(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    pid = pid_of(tmp_path)
    assert runs(pid)

    async def reopen() -> None:
        async with scripted("text: b", workdir=tmp_path, database_path=tmp_path / "s.sqlite") as agent:
            assert not runs(pid)
            assert sweep_session(agent.session_id) == 0
            assert [turn.request_id for turn in agent.unfinished()] == ["r"]

    asyncio.run(reopen())
