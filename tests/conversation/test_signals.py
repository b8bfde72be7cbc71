"""How a turn on the command line is ended before its end, and how it goes on after that."""

import contextlib
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conversation.shell import COMMAND, GUARD, Ask, Child, Shell
from tests.fakes import FakeServer, call, gate, text, tools

SLEEP = "echo $$ > pid; exec sleep 60"
# A shell that asks to be killed, with a child that does not hear of it.
DEAF = "trap '' TERM; echo $$ > pid; while :; do sleep 1; done"


def running_tool(shell: Shell, model: list[str], fake: FakeServer, command: str = SLEEP) -> tuple[Child, int]:
    """A turn whose command runs, and the command's pid."""
    fake.script(tools(call("bash", {"command": command})), text("Done."))
    child = shell.start("ask", *model, "--session", "s", "work")
    return child, wait_pid(shell.folder / "pid")


def wait_pid(path: Path) -> int:
    end = time.monotonic() + GUARD
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            return int(path.read_text())
        time.sleep(0.01)
    raise AssertionError("the command never started")


def gone(pid: int) -> bool:
    """Whether the process has ended; one that nobody waited for counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def streaming(shell: Shell, model: list[str], fake: FakeServer, *more: str) -> Child:
    """A turn of which the first words are there and the rest never comes."""
    fake.script(text("one ", "two ", "three").hold(gate(), before=2))
    child = shell.start("ask", *model, "--session", "s", *more, "count")
    assert child.read("two ") == "one two "
    return child


@pytest.mark.feature("O01")
def test_cl_03_ctrl_c_during_a_stream_stops_the_turn_for_good(
    shell: Shell, model: list[str], ask: Ask, fake: FakeServer
) -> None:
    child = streaming(shell, model, fake)
    child.signal(signal.SIGINT)
    done = child.end()
    assert done.status == 130
    assert done.out == "\n"
    assert done.err.startswith("agent-nodes: stopped\n")
    assert "--session s" in done.err and "--reopen" in done.err
    (turn,) = shell.turns("s")
    assert (turn["status"], turn["text"]) == ("aborted", "one two ")
    fake.script(text("Yes."))
    assert ask("--session", "s", "Are you there?").out == "Yes.\n"
    fake.assert_accepted()


@pytest.mark.feature("O01")
@pytest.mark.parametrize("command", [SLEEP, DEAF], ids=["sleep", "deaf"])
def test_cl_03_ctrl_c_during_a_command_leaves_no_process(
    shell: Shell, model: list[str], ask: Ask, fake: FakeServer, command: str
) -> None:
    child, pid = running_tool(shell, model, fake, command)
    child.signal(signal.SIGINT)
    done = child.end()
    assert done.status == 130, done.err
    assert gone(pid)
    assert shell.turns("s")[0]["status"] == "aborted"
    fake.script(text("Yes."))
    assert ask("--session", "s", "Are you there?").status == 0
    fake.assert_accepted()


@pytest.mark.feature("O01")
@pytest.mark.parametrize("pause", [0.0, 0.2])
def test_cl_03_ctrl_c_twice_ends_the_program_and_what_it_started(
    shell: Shell, model: list[str], ask: Ask, fake: FakeServer, pause: float
) -> None:
    child, pid = running_tool(shell, model, fake, DEAF)
    child.signal(signal.SIGINT)
    time.sleep(pause)
    child.signal(signal.SIGINT)
    assert child.end().status == 130
    assert gone(pid)
    fake.script(text("Yes."))
    assert ask("--session", "s", "--reopen", "work").status == 0
    fake.assert_accepted()


def test_ctrl_c_is_the_last_line_of_json(shell: Shell, model: list[str], fake: FakeServer) -> None:
    fake.script(text("one ", "two").hold(gate(), before=1))
    child = shell.start("ask", *model, "--session", "s", "--json", "count")
    child.read("\n")
    child.signal(signal.SIGINT)
    done = child.end()
    assert done.status == 130
    result = done.lines[-1]
    assert (result["type"], result["status"], result["reason"]) == ("result", "aborted", "aborted")


@pytest.mark.feature("O01")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_shutdown_leaves_a_turn_that_goes_on(
    shell: Shell, model: list[str], ask: Ask, fake: FakeServer, number: int
) -> None:
    child = streaming(shell, model, fake)
    child.signal(number)
    done = child.end()
    assert done.status == 128 + number
    hint = done.err.splitlines()[-1]
    assert hint.startswith("agent-nodes: go on with: agent-nodes ask --session s --provider")
    assert "…" not in hint
    assert shell.state("s")["state"] == "unfinished"
    fake.script(text("three"))
    again = ask("--session", "s", "--json")
    assert again.status == 0, again.err
    assert again.lines[-1]["text"] == "one two three"
    (turn,) = shell.turns("s")
    assert (turn["status"], turn["prompt"]) == ("answered", "count")
    fake.assert_accepted()


def test_a_shutdown_ends_the_command_that_runs(shell: Shell, model: list[str], fake: FakeServer) -> None:
    child, pid = running_tool(shell, model, fake)
    child.signal(signal.SIGTERM)
    done = child.end()
    assert done.status == 143
    assert gone(pid)
    assert shell.state("s")["state"] == "unfinished"


def test_a_shutdown_is_unfinished_in_json(shell: Shell, model: list[str], fake: FakeServer) -> None:
    fake.script(text("one ", "two").hold(gate(), before=1))
    child = shell.start("ask", *model, "--session", "s", "--json", "count")
    child.read("\n")
    child.signal(signal.SIGTERM)
    done = child.end()
    assert done.status == 143
    assert (done.lines[-1]["status"], done.lines[-1]["reason"]) == ("unfinished", "agent_closed")


@pytest.mark.feature("O01")
def test_the_prompt_of_a_turn_that_was_cut_off_means_that_turn(
    shell: Shell, model: list[str], ask: Ask, fake: FakeServer
) -> None:
    streaming(shell, model, fake).kill()
    fake.script(text("three"))
    done = ask("--session", "s", "count")
    assert done.status == 0
    assert done.out.endswith("three\n")
    assert len(shell.turns("s")) == 1
    assert len(fake.requests) == 2


@pytest.mark.feature("O01")
def test_another_prompt_waits_until_the_turn_that_was_cut_off_has_ended(
    shell: Shell, model: list[str], ask: Ask, fake: FakeServer
) -> None:
    streaming(shell, model, fake).kill()
    fake.script(text("three"), text("new answer"))
    done = ask("--session", "s", "something new")
    assert (done.status, done.out) == (0, "new answer\n")
    assert "was cut off; it is finished first" in done.err
    assert "it is answered; to read it: agent-nodes sessions show s\n" in done.err
    assert [turn["status"] for turn in shell.turns("s")] == ["answered", "answered"]


def test_ctrl_c_while_an_older_turn_is_finished_stops_that_and_starts_nothing(
    shell: Shell, model: list[str], fake: FakeServer
) -> None:
    streaming(shell, model, fake).kill()
    held = gate()
    fake.script(text("three").hold(held, before=0))
    child = shell.start("ask", *model, "--session", "s", "something new")
    fake.wait_requests_blocking(2)
    held.reached.wait_blocking()
    child.signal(signal.SIGINT)
    assert child.end().status == 130
    (turn,) = shell.turns("s")
    assert (turn["status"], turn["prompt"]) == ("aborted", "count")


@pytest.mark.feature("O01")
def test_a_closed_stdout_stops_the_turn(shell: Shell, model: list[str], fake: FakeServer) -> None:
    held = gate()
    fake.script(text("one ", "two ", "three").hold(held, before=1).hold(gate(), before=2))
    child = shell.start("ask", *model, "--session", "s", "count")
    child.read("one ")
    assert child.process.stdout is not None
    child.process.stdout.close()
    held.open()
    assert child.process.wait(GUARD) == 141
    assert child.process.stderr is not None
    assert "Traceback" not in child.process.stderr.read().decode()
    assert shell.turns("s")[0]["status"] == "aborted"


def test_a_stdout_that_was_never_open_asks_no_model(shell: Shell, model: list[str], fake: FakeServer) -> None:
    command = shlex.join([str(COMMAND), "ask", *model, "hi"])
    status = subprocess.run(
        ["sh", "-c", f"exec {command} >&-"], cwd=shell.folder, env=shell.environment, timeout=GUARD, check=False
    )
    assert status.returncode == 141
    assert not fake.requests


def test_a_reader_that_takes_nothing_holds_up_no_shutdown(shell: Shell, model: list[str], fake: FakeServer) -> None:
    fake.script(text(*["word " * 1000] * 100).hold(gate(), before="stop"))
    child = shell.start("ask", *model, "--session", "s", "talk")
    child.read("word ")
    time.sleep(0.2)
    child.signal(signal.SIGTERM)
    assert child.process.wait(GUARD) == 143


def test_a_full_disk_under_stdout_is_said(shell: Shell, model: list[str], fake: FakeServer) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    fake.script(text("one"))
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [str(COMMAND), "ask", *model, "--session", "s", "hi"],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=shell.folder,
            env=shell.environment,
            timeout=GUARD,
            check=False,
        )
    assert done.returncode == 1
    assert b"cannot be written (No space left on device)" in done.stderr


def test_a_signal_that_was_ignored_stays_ignored(shell: Shell, model: list[str], fake: FakeServer) -> None:
    held = gate()
    fake.script(text("one ", "two").hold(held, before=1))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = shell.start("ask", *model, "--session", "s", "count")
    finally:
        signal.signal(signal.SIGINT, before)
    child.read("one ")
    child.signal(signal.SIGINT)
    held.open()
    assert child.end().status == 0
