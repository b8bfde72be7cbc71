"""`agent-nodes sessions`: what there is and what was said, read from outside."""

import hashlib
import os
from pathlib import Path

import pytest

from agent_nodes.store import _sql
from agent_nodes.store.beside import read_beside
from agent_nodes.store.line import Tx
from agent_nodes.store.locate import session_file
from conversation.host import list_sessions, read_session
from tests.conversation.shell import GUARD, Ask, Shell
from tests.fakes import FakeServer, call, error, gate, reply, text, tools


def contents(folder: Path) -> dict[str, str]:
    """Every file below ``folder`` by its bytes; what SQLite keeps in shared memory is no part of a session."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith("-shm")
    }


@pytest.mark.feature("O01")
def test_the_list_says_what_there_is_the_last_used_first(ask: Ask, shell: Shell, fake: FakeServer) -> None:
    fake.script(text("a"), text("b"), text("c"))
    for key, prompt in (("first", "1"), ("second", "2"), ("first", "3")):
        ask("--session", key, prompt)
    path = Path(shell.state("second")["path"])
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 7200))
    listed = shell("sessions", "list")
    assert listed.status == 0
    rows = [line.split("\t") for line in listed.out.splitlines()]
    assert [row[:3] for row in rows] == [["first", "2", "idle"], ["second", "1", "idle"]]
    assert rows[0][3].endswith(" KB")
    first = shell.state("first")
    assert (first["turns"], first["size"] > 0) == (2, True)


@pytest.mark.feature("O01")
def test_show_tells_the_turns(ask: Ask, shell: Shell, fake: FakeServer) -> None:
    (shell.folder / "a.txt").write_text("alpha")
    fake.script(reply("Let me see.", call("read", {"path": "a.txt"})), text("It says alpha.").using(20, 6))
    ask("--session", "s", "What is in a.txt?")
    fake.script(error(400, "the model is asleep"))
    ask("--session", "s", "And b.txt?")
    shown = shell("sessions", "show", "s")
    assert shown.status == 0
    for piece in (
        "session s: 2 turns, idle",
        "--- turn 1: answered",
        "> What is in a.txt?\n",
        "  read a.txt  5 B\n",
        "Let me see.\n\nIt says alpha.\n",
        "--- turn 2: failed",
        "[model_error: ",
        "\n[go on with the last turn: agent-nodes ask --session s --reopen]\n",
    ):
        assert piece in shown.out
    first, second = shell.turns("s")
    assert first["tools"] == [{"name": "read", "arguments": {"path": "a.txt"}, "result": "alpha", "is_error": False}]
    assert (first["usage"]["calls"], second["usage"]["calls"]) == (2, 0)
    assert (second["status"], second["text"], second["prompt"]) == ("failed", "", "And b.txt?")


@pytest.mark.feature("O01")
def test_a_running_session_is_read_beside_its_owner(shell: Shell, model: list[str], fake: FakeServer) -> None:
    held, tool = gate(), shell.folder / "go"
    fake.script(
        reply("First. ", call("bash", {"command": "while [ ! -e go ]; do sleep 0.05; done"})),
        text("Half of ", "it").hold(held, before=1),
    )
    child = shell.start("ask", *model, "--session", "s", "work")
    child.read("First. ")
    tool.touch()
    held.reached.wait_blocking()
    child.read("Half of ")
    running = shell.state("s")
    assert running["state"] == "running"
    assert running["holder"]["pid"] == child.process.pid
    assert f"running (pid {child.process.pid})" in shell("sessions", "list").out
    while not shell.turns("s")[0]["text"].endswith("Half of "):
        assert child.process.poll() is None
    before = contents(shell.home)
    (turn,) = shell.turns("s")
    assert (turn["status"], turn["text"]) == ("running", "First. \n\nHalf of ")
    assert turn["tools"][0]["result"] is not None
    assert contents(shell.home) == before
    held.open()
    assert child.end().status == 0
    assert shell.state("s")["state"] == "idle"


@pytest.mark.feature("O01")
def test_a_killed_session_is_unfinished_and_reading_changes_nothing(
    shell: Shell, model: list[str], fake: FakeServer
) -> None:
    fake.script(text("one ", "two").hold(gate(), before=1))
    child = shell.start("ask", *model, "--session", "s", "count")
    child.read("one ")
    child.kill()
    before = contents(shell.home)
    state = shell.state("s")
    assert (state["state"], "holder" in state) == ("unfinished", False)
    assert shell.turns("s")[0]["status"] == "unfinished"
    assert shell("sessions", "show", "s").out.endswith(
        "\n[a turn was cut off; go on with: agent-nodes ask --session s]\n"
    )
    assert contents(shell.home) == before


def test_reading_keeps_no_owner_out_and_tells_nothing_out_of_date(shell: Shell, ask: Ask, fake: FakeServer) -> None:
    fake.script(text("a"), text("b"))
    ask("--session", "s", "1")
    statuses: list[int] = []

    def read(tx: Tx) -> int:
        found = tx.rows(_sql.TURN_COUNT, after=0)[0][0]
        if not statuses:
            statuses.append(ask("--session", "s", "2").status)
        return found

    assert read_beside(session_file("default", "s", "agent", shell.home), read) == 2
    assert statuses == [0]


def test_a_file_that_cannot_be_read_hides_no_other(shell: Shell, ask: Ask, fake: FakeServer) -> None:
    fake.script(text("a"))
    ask("--session", "s", "1")
    broken = session_file("default", "broken", "agent", shell.home)
    broken.parent.mkdir()
    broken.write_bytes(b"SQLite format 3\x00" + b"x" * 5000)
    listed = shell("sessions", "list")
    assert listed.status == 0
    assert sorted(line.split("\t")[2] for line in listed.out.splitlines()) == ["idle", "unreadable"]
    assert str(broken) in listed.problem
    shown = shell("sessions", "show", "broken")
    assert shown.status == 1
    assert str(broken) in shown.problem


def test_an_empty_file_is_a_session_in_which_nothing_was_asked(shell: Shell) -> None:
    path = session_file("default", "s", "agent", shell.home)
    path.parent.mkdir(parents=True)
    path.touch()
    shown = shell("sessions", "show", "s")
    assert (shown.status, shown.out) == (0, "session s: 0 turns, idle, 0 B\nnothing was asked in it yet\n")
    listed = shell("sessions", "list")
    assert (listed.out.split("\t")[:3], listed.err) == ([str(path), "", "empty"], "")


def test_no_sessions_is_no_failure(shell: Shell) -> None:
    done = shell("sessions", "list")
    assert (done.status, done.out) == (0, "")
    assert "agent-nodes ask starts one" in done.problem
    assert not shell.home.exists()


@pytest.mark.parametrize(
    "arguments", [["sessions", "list"], ["sessions", "show", "s"], ["ask", "hi"], ["ask", "--reopen"]]
)
def test_a_data_folder_that_is_none_is_one_line_that_names_it(inside: Ask, shell: Shell, arguments: list[str]) -> None:
    shell.home.write_text("a file")
    done = inside(*arguments)
    assert (done.status, done.out) == (1, "")
    assert done.problem.startswith(f"AGENT_NODES_HOME={shell.home} cannot be used for sessions: it is no folder.")


def test_a_data_folder_that_may_not_be_read_is_one_line_that_names_it(
    inside: Ask, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", denied)
    done = inside("sessions", "list")
    assert done.status == 1
    assert done.problem.startswith(f"AGENT_NODES_HOME={shell.home} cannot be used for sessions: Permission denied.")


def test_a_folder_in_it_that_cannot_be_read_is_listed_and_hides_no_other(
    shell: Shell, ask: Ask, inside: Ask, fake: FakeServer
) -> None:
    fake.script(text("a"))
    ask("--session", "s", "1")
    closed = shell.home / "closed"
    closed.symlink_to(closed)
    listed = inside("sessions", "list")
    assert listed.status == 0
    rows = [line.split("\t") for line in listed.out.splitlines()]
    assert sorted(row[2] for row in rows) == ["idle", "unreadable"]
    assert str(closed) in listed.problem


def test_a_reader_that_leaves_early_is_no_failure_of_ours(shell: Shell, ask: Ask, fake: FakeServer) -> None:
    fake.script(text("word " * 30_000))
    ask("--session", "s", "talk")
    child = shell.start("sessions", "show", "s")
    assert child.process.stdout is not None
    child.process.stdout.close()
    assert child.process.wait(GUARD) == 141
    assert child.process.stderr is not None
    assert child.process.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["ask", "--help"], ["sessions", "-h"], ["sessions", "list"], ["sessions", "show", "s"]],
)
def test_a_full_disk_behind_stdout_is_said(
    inside: Ask, shell: Shell, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    assert inside("ask", "--provider", "demo", "--session", "s", "hi").status == 0
    with Path("/dev/full").open("w") as full, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", full)
        patch.setattr("conversation.problems.give_up_stdout", lambda: os.dup2(null, full.fileno()))
        null = os.open(os.devnull, os.O_WRONLY)
        done = inside(*arguments)
        os.close(null)
    assert (done.status, done.problem) == (1, "stdout cannot be written (No space left on device).")


def test_sessions_of_other_projects_are_found_by_their_names(
    tmp_path: Path, shell: Shell, ask: Ask, fake: FakeServer
) -> None:
    fake.script(text("a"))
    ask("--session", "s", "1")
    made = session_file("default", "s", "agent", shell.home)
    other = session_file("default", "s", "reviewer", shell.home)
    other.write_bytes(made.read_bytes())
    assert read_session("s", root=shell.home).summary.path == made
    assert read_session("s", "reviewer", root=shell.home).summary.path == other
    made.unlink()
    assert len(list_sessions(shell.home)) == 1


def test_text_that_a_terminal_would_obey_stays_on_its_line(ask: Ask, shell: Shell, fake: FakeServer) -> None:
    fake.script(tools(call("bash", {"command": "printf 'a\\nb'\n# \x1b[31m"})), text("done"))
    done = ask("--session", "s", "x")
    assert "· bash printf 'a\\nb' # [31m  " in done.err
    assert "  bash printf 'a\\nb' # [31m  " in shell("sessions", "show", "s").out
