"""What a person sees: on terminals of every size, in encodings that lack letters, in pipes."""

import asyncio
import fcntl
import io
import os
import re
import signal
import struct
import subprocess
import termios
from pathlib import Path

import pytest

from conversation.render import Notes, Output
from conversation.text import width
from tests.conversation.shell import COMMAND, GUARD, Ask, Shell
from tests.fakes import FakeServer, call, gate, reply, text, thinking, tools

ANSWER = "✓ 한글 — done"


def on_terminal(shell: Shell, *arguments: str, columns: int = 80) -> str:
    """What a terminal of that many columns is sent by a command."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [str(COMMAND), *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=shell.folder,
        env={"TERM": "xterm", **shell.environment},
    )
    os.close(theirs)
    data = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        data += piece
    os.close(ours)
    assert process.wait(GUARD) == 0, data
    return data.decode()


def screen(sent: str) -> list[str]:
    """The lines that stand there in the end."""
    return [
        re.sub(r"\x1b\[[0-9;]*m", "", line.rpartition("\x1b[K")[2]) for line in sent.replace("\r\n", "\n").split("\n")
    ]


# -- encodings ---------------------------------------------------------------------------------------------------------


@pytest.mark.feature("O01")
@pytest.mark.parametrize("encoding", ["ascii", "ascii:strict", "cp1252:strict", "utf-8"])
def test_cl_01_letters_that_a_stream_lacks_are_replaced(ask: Ask, fake: FakeServer, encoding: str) -> None:
    fake.script(reply(call("find", {"pattern": "*한글*"})), text(ANSWER))
    done = ask("--session", "s", "hi", PYTHONIOENCODING=encoding)
    assert done.status == 0
    assert "Traceback" not in done.err
    expected = {"utf-8": ANSWER, "cp1252:strict": "? ?? \ufffd done"}.get(encoding, "? ?? ? done")
    assert done.out == expected + "\n"
    assert "find" in done.err


@pytest.mark.parametrize("encoding", ["ascii", "cp1252:strict"])
def test_cl_01_help_and_errors_are_written_too(shell: Shell, encoding: str) -> None:
    assert shell("ask", "--help", PYTHONIOENCODING=encoding).status == 0
    done = shell("ask", "--provider", "한글", "hi", PYTHONIOENCODING=encoding)
    assert done.status == 2
    assert "'\\ud55c\\uae00'" in done.problem  # stderr's own way to replace


def test_cl_01_json_is_whole_in_every_encoding(ask: Ask, fake: FakeServer) -> None:
    fake.script(text(ANSWER))
    assert ask("--session", "s", "--json", "hi", PYTHONIOENCODING="ascii").lines[-1]["text"] == ANSWER


# -- terminals ---------------------------------------------------------------------------------------------------------


@pytest.mark.feature("O01")
@pytest.mark.parametrize("columns", [40, 80])
def test_tool_lines_fit_the_terminal(shell: Shell, model: list[str], fake: FakeServer, columns: int) -> None:
    name = "아주-긴-이름-" * 12 + ".txt"
    fake.script(
        reply("Let me see.\n\n", call("read", {"path": name}), call("bash", {"command": "echo " + "x" * 100})),
        text("Fine."),
    )
    lines = screen(on_terminal(shell, "ask", *model, "--session", "s", "hi", columns=columns))
    tools = [line for line in lines if line.startswith("· ") and not line.startswith("· waiting")]
    assert [line.split()[1] for line in tools] == ["read", "bash"]
    assert all(width(line) <= columns for line in tools)
    assert lines[0] == "Let me see."
    assert lines[lines.index(tools[-1]) + 1 :][:2] == ["", "Fine."]


def test_what_is_waited_for_is_shown_and_wiped(shell: Shell, model: list[str], fake: FakeServer) -> None:
    fake.script(reply(thinking("hm"), "Yes."))
    sent = on_terminal(shell, "ask", *model, "--session", "s", "hi")
    assert "· waiting for m" in sent
    lines = screen(sent)
    assert lines[0] == "Yes."
    assert lines[1].startswith("1 model call · 10 tokens in, 5 out")
    assert lines[1].endswith("session s")


def test_a_terminal_does_not_obey_the_model(shell: Shell, model: list[str], fake: FakeServer) -> None:
    fake.script(text("a\x1b[2Jb\rc\x07d\n", "\te\n"))
    sent = on_terminal(shell, "ask", *model, "--session", "s", "hi")
    assert "a[2Jbcd\r\n" in sent
    assert "\te" in sent
    assert "\x1b[2J" not in sent and "\x07" not in sent


def test_a_turn_that_goes_on_keeps_its_sentence_on_a_line(shell: Shell, model: list[str], fake: FakeServer) -> None:
    fake.script(tools(call("bash", {"command": "true"})), text("The total ", "is 41.").hold(gate(), before=1))
    child = shell.start("ask", *model, "--session", "s", "hi")
    child.read("The total ")
    child.signal(signal.SIGTERM)
    assert child.end().status == 143
    fake.script(text("is 42."))
    lines = screen(on_terminal(shell, "ask", *model, "--session", "s"))
    assert lines[0] == "agent-nodes: going on with the turn that was cut off"
    assert "The total is 42." in lines


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_switched_off(shell: Shell, model: list[str], fake: FakeServer, setting: dict[str, str]) -> None:
    fake.script(text("Yes."))
    shell.environment |= setting
    sent = on_terminal(shell, "ask", *model, "hi")
    assert not re.search(r"\x1b\[[0-9;]*m", sent)
    if "TERM" in setting:
        assert "\x1b" not in sent


def test_the_list_is_a_table_on_a_terminal(shell: Shell, ask: Ask, fake: FakeServer) -> None:
    fake.script(text("a"))
    ask("--session", "[red]회의", "1")
    lines = screen(on_terminal(shell, "sessions", "list"))
    assert lines[0].split() == ["session", "turns", "state", "size", "last", "used"]
    assert lines[1].startswith("[red]회의 ")


def test_a_slow_reader_gets_everything_while_the_loop_goes_on(tmp_path: Path) -> None:
    """Written to a pipe that nobody reads at first: the loop still turns, and nothing is lost."""
    reader, writer = os.pipe()
    content = "한글 " * 50_000

    async def run() -> int:
        with os.fdopen(writer, "w", encoding="utf-8") as stream:
            output = Output(stream)
            writing = asyncio.ensure_future(output.write(content))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not writing.done()
            got = bytearray()
            while not writing.done():
                got += await asyncio.to_thread(os.read, reader, 4096)
            await writing
        while piece := os.read(reader, 65536):
            got += piece
        os.close(reader)
        assert got.decode() == content
        return len(got)

    assert asyncio.run(run()) == len(content.encode())


async def test_a_stream_without_a_file_is_written_to_as_well() -> None:
    stream = io.StringIO()
    await Output(stream).write("한글")
    assert stream.getvalue() == "한글"


async def test_notes_that_nobody_can_read_are_no_failure() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w")
    notes = Notes(Output(stream), {})
    await notes.line("hello")
    stream.close()
