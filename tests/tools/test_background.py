"""Commands that run on after their call, to the end of the turn."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path

import pytest

from agent_nodes.tools import processes, shell
from tests.tools.test_outputs import place_of

pytestmark = pytest.mark.feature("D01")

GUARD = 60


@pytest.fixture(autouse=True)
def at_once(monkeypatch) -> None:
    """Nothing settles here but what the tests wait for."""
    monkeypatch.setattr(shell, "SETTLE", 0.01)
    monkeypatch.setattr(processes, "GRACE", 0.2)


async def until(path: Path, wanted: str) -> str:
    async with asyncio.timeout(GUARD):
        while not (path.exists() and wanted in (text := path.read_text())):  # noqa: ASYNC110  # another process writes it
            await asyncio.sleep(0.01)
    return text


def group_of(text: str) -> int:
    found = re.search(r"`kill -- -(\d+)` ends it", text)
    assert found, text
    return int(found[1])


async def test_a_command_runs_on_after_its_call_and_ends_with_the_turn(bench, running) -> None:
    text = await bench.call("bash", command="echo up; echo $$ > pid; exec sleep 300", background=True)
    assert "running in the background until the turn ends" in text
    pid = int(await until(bench.workdir / "pid", "\n"))
    assert await until(place_of(text), "up\n") == "up\n"
    assert await bench.call("bash", command="echo beside") == "beside\n[exit code 0]"
    assert running(pid)
    assert len(bench.background) == 1
    await bench.background.end("another turn")
    assert running(pid)
    await bench.background.end("turn-1")
    assert not running(pid)
    assert len(bench.background) == 0
    assert place_of(text).read_text() == "up\n[stopped; the command and all that it started were ended]\n"


async def test_a_server_can_be_asked_while_it_runs(bench) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    bench.write("page.txt", "hello from the server")
    command = f"exec python3 -m http.server {port} --bind 127.0.0.1"
    text = await bench.call("bash", command=command, background=True)
    python = (
        "import sys, time, urllib.request\n"
        "for _ in range(600):\n"
        "    try: print(urllib.request.urlopen(sys.argv[1]).read().decode()); break\n"
        "    except OSError: time.sleep(0.05)\n"
    )
    bench.write("ask.py", python)
    answer = await bench.call("bash", command=f"python3 ask.py http://127.0.0.1:{port}/page.txt")
    assert answer.startswith("hello from the server\n")
    assert "GET /page.txt" in await until(place_of(text), "GET /page.txt")
    await bench.background.end()


async def test_what_it_started_elsewhere_ends_too(bench, running) -> None:
    command = "setsid sh -c 'echo $$ > pid; trap \"\" TERM HUP; while :; do sleep 1; done' & wait"
    await bench.call("bash", command=command, background=True)
    pid = int(await until(bench.workdir / "pid", "\n"))
    await bench.background.end()
    assert not running(pid)


async def test_one_that_ends_at_once_is_an_ordinary_call(bench, monkeypatch) -> None:
    monkeypatch.setattr(shell, "SETTLE", GUARD)
    assert await bench.call("bash", command="echo quick", background=True) == "quick\n[exit code 0]"
    text = await bench.refused("bash", command="echo no such server >&2; exit 7", background=True)
    assert text == "no such server\n[exit code 7]"
    assert "NUL" in await bench.refused("bash", command="echo \x00", background=True)
    assert len(bench.background) == 0


async def test_how_it_ended_stands_in_its_file(bench) -> None:
    text = await bench.call("bash", command="until [ -e go ]; do sleep 0.02; done; echo bye; exit 4", background=True)
    assert "kill" in text
    bench.write("go", "")
    assert await until(place_of(text), "exit code") == "bye\n[exit code 4]\n"

    text = await bench.call("bash", command="sleep 300", background=True, timeout=0.1)
    assert await until(place_of(text), "timed out") == (
        "[timed out after 0.1 s; the command and all that it started were ended]\n"
    )


async def test_the_model_can_end_it(bench, running) -> None:
    text = await bench.call("bash", command="echo $$ > pid; sleep 300 & wait", background=True)
    pid = int(await until(bench.workdir / "pid", "\n"))
    assert group_of(text) == pid
    await bench.call("bash", command=f"kill -- -{pid}")
    await until(place_of(text), "ended by signal SIGTERM")
    assert not running(pid)


async def test_a_stop_ends_it(bench, running) -> None:
    text = await bench.call("bash", command="echo $$ > pid; sleep 300", background=True)
    pid = int(await until(bench.workdir / "pid", "\n"))
    bench.signal.set("enough")
    await until(place_of(text), "[stopped")
    async with asyncio.timeout(GUARD):
        while len(bench.background):  # noqa: ASYNC110  # nothing tells
            await asyncio.sleep(0.01)
    assert not running(pid)


async def test_a_call_cancelled_while_it_settles_leaves_nothing(bench, running, monkeypatch) -> None:
    monkeypatch.setattr(shell, "SETTLE", GUARD)
    task = asyncio.create_task(bench.call("bash", command="echo $$ > pid; sleep 300", background=True))
    pid = int(await until(bench.workdir / "pid", "\n"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not running(pid)
    assert len(bench.background) == 0


async def test_there_is_a_limit_and_a_place_where_nothing_can(bench, monkeypatch) -> None:
    monkeypatch.setattr(shell, "MAX_BACKGROUND", 2)
    for _ in range(2):
        await bench.call("bash", command="sleep 300", background=True)
    assert "2 commands run" in await bench.refused("bash", command="sleep 300", background=True)
    await bench.background.end()
    await bench.call("bash", command="sleep 300", background=True)
    await bench.background.end()
    bench.background = None
    assert "Nothing can run in the background" in await bench.refused("bash", command="true", background=True)


async def test_a_session_that_is_opened_again_ends_what_a_crash_left(bench, running) -> None:
    """The markers of all calls of a session begin with its id."""
    pids = []
    for number, marker in enumerate(["s-one:7", "s-one:12", "s-one2:7", "s-one:2:7"]):
        bench.environment = {"AGENT_NODES_CALL": marker}
        await bench.call("bash", command=f"echo $$ > pid{number}; exec sleep 300", background=True)
        pids.append(int(await until(bench.workdir / f"pid{number}", "\n")))
    assert processes.sweep_session("s-one") == 2
    assert [running(pid) for pid in pids] == [False, False, True, True]
    assert processes.sweep_session("") == 0
    await bench.background.end()
    assert not any(map(running, pids))


async def test_output_of_a_call_that_is_over_is_shown_to_nobody(bench) -> None:
    text = await bench.call("bash", command="echo one; until [ -e go ]; do sleep 0.02; done; echo two", background=True)
    await until(place_of(text), "one\n")
    before = list(bench.updates)
    bench.write("go", "")
    await until(place_of(text), "two\n[exit code 0]")
    assert bench.updates == before


async def test_files_of_ours_do_not_add_up(bench) -> None:
    async def one() -> None:
        await bench.call("bash", command="sleep 300", background=True)
        await bench.background.end()

    await one()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        await one()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
