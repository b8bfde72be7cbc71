"""The tool bash, on real processes."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_nodes.tools import processes, shell
from agent_nodes.tools.bounds import MAX_BYTES

pytestmark = pytest.mark.feature("D01")

# Hang guard of the tests: far above what any of them takes, far below the sleeps in their commands.
GUARD = 60


@pytest.fixture
def pid_in(bench):
    """Waits for a file into which a command writes its process id."""

    async def wait(name: str) -> int:
        path = bench.workdir / name
        async with asyncio.timeout(GUARD):
            while not (path.exists() and path.read_text().endswith("\n")):  # noqa: ASYNC110  # another process writes it
                await asyncio.sleep(0.01)
        return int(path.read_text())

    return wait


@pytest.fixture
def silent_stdin() -> Iterator[None]:
    """Our own standard input is one that never says anything and never ends."""
    before = os.dup(0)
    reader, writer = os.pipe()
    os.dup2(reader, 0)
    yield
    os.dup2(before, 0)
    for fd in (before, reader, writer):
        os.close(fd)


async def test_output_of_both_kinds_and_the_exit_code_come_back(bench) -> None:
    bench.write("a.txt", "x")
    assert await bench.call("bash", command="ls; echo err >&2; pwd") == f"a.txt\nerr\n{bench.workdir}\n[exit code 0]"
    assert await bench.refused("bash", command="printf part; exit 3") == "part\n[exit code 3]"
    assert "ended by signal SIGKILL" in await bench.refused("bash", command="kill -9 $$")
    assert "exit code 127" in await bench.refused("bash", command="no-such-command-here")


@pytest.mark.parametrize(
    "command",
    [
        "sleep 300 & echo $! > pid; echo done",
        "(while :; do echo x; sleep 0.01; done) & echo $! > pid; echo done",
        "trap '' TERM; sleep 300 & echo $! > pid; echo done",
        "setsid sleep 300 & echo $! > pid; echo done",
        "setsid sh -c 'echo $$ > pid; trap \"\" TERM HUP; while :; do sleep 1; done' & "
        "until [ -s pid ]; do sleep 0.01; done; echo done",
    ],
)
async def test_ba_01_a_child_in_the_background_neither_holds_the_call_nor_outlives_it(
    bench, running, monkeypatch, command
) -> None:
    monkeypatch.setattr(processes, "GRACE", 0.2)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticking = asyncio.create_task(tick())
    async with asyncio.timeout(GUARD):
        text = await bench.call("bash", command=command)
    ticking.cancel()
    assert "done\n" in text
    assert text.endswith("[exit code 0]")
    assert ticks > 1
    assert not running(int((bench.workdir / "pid").read_text()))


async def test_ba_03_a_timeout_ends_the_whole_group_and_keeps_the_output(bench, running) -> None:
    command = "echo before; bash -c 'echo $$ > pid; sleep 300; touch late.txt' | cat"
    async with asyncio.timeout(GUARD):
        text = await bench.refused("bash", command=command, timeout=1)
    assert text == "before\n[timed out after 1 s; the command and all that it started were ended]"
    assert not running(int((bench.workdir / "pid").read_text()))
    assert not (bench.workdir / "late.txt").exists()


async def test_ba_03_what_ignores_the_request_to_end_is_killed(bench, running, monkeypatch) -> None:
    monkeypatch.setattr(processes, "GRACE", 0.2)
    command = "trap '' TERM; echo $$ > pid; while :; do sleep 1; done"
    async with asyncio.timeout(GUARD):
        await bench.refused("bash", command=command, timeout=0.5)
    assert not running(int((bench.workdir / "pid").read_text()))


@pytest.mark.parametrize(
    ("command", "output"),
    [("read -p 'name? ' x; echo \"[$x]\"", "[]\n"), ("cat", "[no output]\n")],
)
async def test_ba_05_nothing_waits_for_input(bench, silent_stdin, command, output) -> None:
    assert await bench.call("bash", command=command, timeout=20) == f"{output}[exit code 0]"


async def test_ba_05_nobody_is_asked_for_credentials(bench) -> None:
    command = "echo prompt=$GIT_TERMINAL_PROMPT; (: < /dev/tty) 2>&1 | grep -c tty"
    assert (await bench.call("bash", command=command)).startswith("prompt=0\n1\n")


async def test_ba_05_nothing_is_paged_or_edited_by_hand(bench, monkeypatch) -> None:
    monkeypatch.setenv("PAGER", "less")
    names = ["PAGER", "GIT_PAGER", "GIT_EDITOR", "MANPAGER", "TERM", "SSH_ASKPASS_REQUIRE"]
    text = await bench.call("bash", command=" ".join(["echo", *(f"${name}" for name in names)]))
    assert text == "cat cat true cat dumb never\n[exit code 0]\n".rstrip()
    bench.environment = {"PAGER": "more"}
    assert (await bench.call("bash", command="echo $PAGER")).startswith("more\n")


async def test_what_is_meant_for_a_terminal_is_left_out(bench) -> None:
    command = r"printf '\033[31mred\033[0m\n 10%%\r 60%%\r100%%\nplain\r\nhalf \033[1'"
    assert await bench.call("bash", command=command) == "red\n100%\nplain\nhalf \n[exit code 0]"
    shown = "".join(bench.updates)
    assert shown.startswith("red\n") and "\x1b" not in shown and "\r" not in shown


async def test_a_progress_bar_is_shown_as_it_grows(bench) -> None:
    command = r"printf '10%%'; until [ -e go ]; do sleep 0.02; done; printf '\r20%%\r30%%'"
    task = asyncio.create_task(bench.call("bash", command=command))
    async with asyncio.timeout(GUARD):
        while not bench.updates:  # noqa: ASYNC110  # updates come without a signal
            await asyncio.sleep(0.01)
        bench.write("go", "")
        assert await task == "30%\n[exit code 0]"
    assert "".join(bench.updates) == "10%\n30%"


async def test_a_command_sees_no_key_of_a_model(bench, monkeypatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-one")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-two")
    monkeypatch.setenv("OTHER", "seen")
    text = await bench.call("bash", command="env")
    assert "OTHER=seen" in text
    assert "sk-secret" not in text


async def test_ba_08_a_flood_is_counted_and_only_its_end_is_kept(bench) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = await bench.call("bash", command="yes 0123456789 | head -c 200000000; echo END")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < 64_000_000
    assert len(text.encode()) <= MAX_BYTES
    assert text.endswith("END\n[exit code 0]")
    left_out = re.match(r"\[the first ([\d,]+) of 200,000,004 bytes are left out; the whole output is in \S+ \(", text)
    assert left_out
    shown = text.partition("]\n")[2].removesuffix("[exit code 0]")
    assert int(left_out[1].replace(",", "")) + len(shown) == 200_000_004
    assert await bench.refused("bash", command="exit 1") == "[no output]\n[exit code 1]"


async def test_ba_08_at_most_two_thousand_whole_lines_are_kept(bench) -> None:
    text = await bench.call("bash", command="seq 1 5000")
    note, *lines, outcome = text.split("\n")
    assert lines == [str(n) for n in range(3_001, 5_001)]
    assert note.startswith(f"[the first {len(''.join(f'{n} ' for n in range(1, 3_001))):,} of")
    assert outcome == "[exit code 0]"
    wide = await bench.call("bash", command="yes ääää | tr -d '\\n' | head -c 300000")
    assert set(wide.partition("\n")[2].partition("\n")[0]) == {"ä"}


async def test_output_without_end_ends_the_command(bench, monkeypatch) -> None:
    monkeypatch.setattr(shell, "FLOOD_BYTES", 10_000_000)
    async with asyncio.timeout(GUARD):
        assert "of output]" in await bench.refused("bash", command="yes")


async def test_output_opened_anew_by_the_script_loses_nothing(bench) -> None:
    text = await bench.call("bash", command="echo one; echo two > /dev/stderr; echo three > /dev/stdout; echo four")
    assert text == "one\ntwo\nthree\nfour\n[exit code 0]"


async def test_broken_text_and_half_characters_are_repaired(bench) -> None:
    text = await bench.call("bash", command=r"printf 'a\xffb\0c\xc3'")
    assert text == "a\ufffdb\ufffdc\ufffd\n[exit code 0]"


async def test_output_is_shown_while_the_command_runs(bench) -> None:
    task = asyncio.create_task(
        bench.call("bash", command="echo first; until [ -e go ]; do sleep 0.05; done; echo last")
    )
    async with asyncio.timeout(GUARD):
        while "first\n" not in "".join(bench.updates):  # noqa: ASYNC110  # updates come without a signal
            await asyncio.sleep(0.01)
        assert not task.done()
        bench.write("go", "")
        assert await task == "first\nlast\n[exit code 0]"
    assert "".join(bench.updates) == "first\nlast\n"


async def test_much_new_output_is_shown_by_its_end(bench) -> None:
    await bench.call("bash", command="yes 0123456789 | head -c 20000000; echo END")
    assert all(len(update) < 5_000 for update in bench.updates)
    assert "bytes not shown" in bench.updates[0]
    assert bench.updates[-1].endswith("END\n")


async def test_a_stop_ends_the_command_and_keeps_the_output(bench, running, pid_in) -> None:
    task = asyncio.create_task(bench.result("bash", command="echo before; sleep 300 & echo $! > pid; wait"))
    pid = await pid_in("pid")
    bench.signal.set("enough")
    async with asyncio.timeout(GUARD):
        result = await task
    assert result.is_error
    assert result.blocks()[0].text == "before\n[stopped; the command and all that it started were ended]"
    assert not running(pid)


@pytest.mark.parametrize("start", ["", "setsid "])
async def test_a_cancelled_call_leaves_no_process(bench, running, pid_in, start) -> None:
    command = f"{start}sh -c 'echo $$ > pid; sleep 300' & wait"
    task = asyncio.create_task(bench.result("bash", command=command))
    pid = await pid_in("pid")
    task.cancel()
    async with asyncio.timeout(GUARD):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not running(pid)


async def test_no_file_of_ours_is_open_in_the_command(bench) -> None:
    with (bench.workdir / "ours.txt").open("w"):
        text = await bench.call("bash", command="ls -l /proc/self/fd")
    assert "ours.txt" not in text
    assert len(re.findall(r" -> ", text)) == 4  # stdin, stdout, stderr, the listed folder itself


async def test_files_of_ours_do_not_add_up(bench) -> None:
    await bench.call("bash", command="true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        await bench.call("bash", command="true")
        await bench.refused("bash", command="sleep 300", timeout=0.05)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_a_command_that_cannot_start_is_an_error(bench) -> None:
    assert "NUL" in await bench.refused("bash", command="echo \x00")
    assert "file" in await bench.refused("bash", command=f": {'x' * 200_000}")
    bench.workdir.rmdir()
    message = await bench.refused("bash", command="echo hi")
    assert "No such file" in message
    assert str(bench.workdir) in message


async def test_the_marker_of_the_call_is_in_the_environment(bench) -> None:
    bench.environment = {"AGENT_NODES_CALL": "call-77", "OWN": "value"}
    assert (await bench.call("bash", command="echo $AGENT_NODES_CALL $OWN")).startswith("call-77 value\n")


def test_sweep_ends_what_a_crash_left_behind_and_nothing_else(running) -> None:
    def start(marker: str) -> subprocess.Popen[bytes]:
        # In a session of its own, and it starts a child that knows nothing but the environment.
        code = (
            "import subprocess, time; p = subprocess.Popen(['sleep', '300']); print(p.pid, flush=True); time.sleep(300)"
        )
        return subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "AGENT_NODES_CALL": marker},
            start_new_session=True,
            stdout=subprocess.PIPE,
        )

    # Of this run alone: the whole machine is swept, and another run of the tests may be on it.
    mine = f"call-{uuid.uuid4().hex}"
    left, other = start(mine), start(f"{mine}1")
    try:
        assert left.stdout
        assert other.stdout
        child, other_child = int(left.stdout.readline()), int(other.stdout.readline())
        assert processes.sweep(mine) == 2
        assert left.wait(GUARD) == -9
        assert not running(child)
        assert running(other.pid)
        assert running(other_child)
        assert processes.sweep(mine) == 0
        assert processes.sweep("") == 0
        assert processes.sweep(f"{mine}1") == 2
    finally:
        for process in (left, other):
            process.kill()
            process.wait(GUARD)
            if process.stdout:
                process.stdout.close()


async def test_the_replacement_character_can_be_written_in_the_way_that_the_refusal_names(bench) -> None:
    assert "$'\\xef\\xbf\\xbd'" in await bench.refused("bash", command="printf \ufffd")
    assert (await bench.call("bash", command="printf $'\\xef\\xbf\\xbd'")).startswith("\ufffd")
