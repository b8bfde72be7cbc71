"""The command in a folder of its own, and a model for it."""

import io
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conversation.cli import main
from tests.conversation.shell import Ask, Result, Shell
from tests.conversation.terminal import Seat
from tests.fakes import FakeServer


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    for child in shell.children:
        if child.process.poll() is None:
            child.process.send_signal(signal.SIGKILL)
        child.process.communicate()


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    with FakeServer.in_thread() as server:
        yield server


@pytest.fixture
def model(shell: Shell, fake: FakeServer) -> list[str]:
    """The options that lead to the fake provider; its key is in the environment."""
    shell.environment["OPENAI_API_KEY"] = "sk-test"
    return ["--provider", "openai", "--model", "m", "--base-url", fake.v1, "--api-kind", "openai-completions"]


@pytest.fixture
def seat(shell: Shell, model: list[str]) -> Iterator[Callable[..., Seat]]:
    """Somebody at a terminal who chats with the fake provider, in session `s` unless told otherwise."""
    seats: list[Seat] = []

    def sit(*arguments: str, session: tuple[str, ...] = ("--session", "s"), **more: Any) -> Seat:
        seats.append(Seat(shell, "chat", *model, *session, *arguments, **more))
        return seats[-1]

    yield sit
    for seat in seats:
        seat.close()


@pytest.fixture
def ask(shell: Shell, model: list[str]) -> Ask:
    def run(*arguments: str, **more: Any) -> Result:
        return shell("ask", *model, *arguments, **more)

    return run


@pytest.fixture
def inside(shell: Shell, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """The command in this process, for what ends before there is a turn."""

    def run(*arguments: str) -> Result:
        for name in ("HOME", "AGENT_NODES_HOME"):
            monkeypatch.setenv(name, shell.environment[name])
        monkeypatch.chdir(shell.folder)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
        try:
            status = main(arguments)
        except SystemExit as end:
            status = int(end.code or 0)
        written = capfd.readouterr()
        return Result(status, written.out, written.err)

    return run
