"""Projects whose process is killed: the same run goes on, and the history holds everything once."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_nodes.store.conversations import FILE, read_conversation
from conversation import RunContext, define_agent_conversation_executor
from tests.fakes import FakeServer, call, gate, reply, text

Options = dict[str, Any]

CHILD = """
import asyncio, json, os, signal, sys
from agent_nodes.nodes import output
from conversation import RunContext, define_agent_conversation_executor

model, prompt, run_id, dies = json.loads(sys.argv[1])
if dies:
    output.append_runs = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
executor = define_agent_conversation_executor(name="pi", **model)
report = asyncio.run(executor.run([prompt], RunContext(run_id, "c")))
print(report.answer.text)
"""


class Children:
    def __init__(self, model: Options) -> None:
        self.model = model
        self.all: list[subprocess.Popen[str]] = []

    def start(self, prompt: str, run_id: str, *, dies: bool = False) -> "subprocess.Popen[str]":
        """A run in a process of its own, which ``dies`` as it is about to write the history."""
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, json.dumps([self.model, prompt, run_id, dies])],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.all.append(child)
        return child

    async def killed(self, child: "subprocess.Popen[str]") -> None:
        _, err = await asyncio.to_thread(child.communicate, timeout=60)
        assert (child.returncode, err) == (-signal.SIGKILL, "")


@pytest.fixture
def children(model: Options, monkeypatch: pytest.MonkeyPatch) -> Iterator[Children]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    found = Children(model)
    yield found
    for child in found.all:
        if child.poll() is None:
            child.kill()
        child.communicate()


def said() -> list[tuple[str, str, str]]:
    found = read_conversation("pi", "c")
    assert found is not None
    return [(message.run_id, message.role, message.text) for message in found.messages]


@pytest.mark.feature("N05")
async def test_a_run_killed_in_the_middle_of_its_answer_goes_on(
    fake: FakeServer, model: Options, children: Children, home: Path
) -> None:
    held = gate()
    fake.script(text("The total ", "is 41.").hold(held, before=1), text("is 41."))
    child = children.start("add it up", "r-1")
    await held.reached.wait()
    await stored(home, "The total ")
    child.kill()
    await children.killed(child)
    assert not (home / FILE).exists()
    executor = define_agent_conversation_executor(name="pi", **model)
    report = await executor.run(["add it up"], RunContext("r-1", "c"))
    assert (report.status, report.answer.text) == ("answered", "The total is 41.")
    assert said() == [("r-1", "user", "add it up"), ("r-1", "assistant", "The total is 41.")]
    again = await executor.run(["add it up"], RunContext("r-1", "c"))
    assert again.answer == report.answer
    assert len(fake.requests) == 2
    assert len(said()) == 2


async def stored(home: Path, words: str) -> None:
    """Wait until what was streamed is on disk."""
    from agent_nodes.store.inspect import view
    from agent_nodes.store.locate import session_file
    from tests.support import until

    path = session_file("pi", "c", "agent", home)
    await until(lambda: [turn.text for turn in view(path).turns] == [words])


@pytest.mark.feature("N04", "N05")
async def test_a_run_killed_between_its_answer_and_the_history_is_written_by_itself(
    fake: FakeServer, model: Options, children: Children, home: Path
) -> None:
    fake.script(text("Hello."))
    await children.killed(children.start("hi", "r-1", dies=True))
    assert not (home / FILE).exists()
    report = await define_agent_conversation_executor(name="pi", **model).run([], RunContext("r-1", "c"))
    assert report.answer.text == "Hello."
    assert said() == [("r-1", "user", "hi"), ("r-1", "assistant", "Hello.")]
    assert len(fake.requests) == 1


@pytest.mark.feature("N04", "N05")
async def test_runs_killed_before_the_history_are_written_by_the_next_one(
    fake: FakeServer, model: Options, children: Children
) -> None:
    fake.script(text("one"), reply("Looking.", call("ls", {}, id="c1")), text("two"), text("three"))
    await children.killed(children.start("first", "r-1", dies=True))
    await children.killed(children.start("second", "r-2", dies=True))
    done = children.start("third", "r-3")
    out, err = await asyncio.to_thread(done.communicate, timeout=60)
    assert (done.returncode, out, err) == (0, "three\n", "")
    assert said() == [
        ("r-1", "user", "first"),
        ("r-1", "assistant", "one"),
        ("r-2", "user", "second"),
        ("r-2", "assistant", "Looking.\n\ntwo"),
        ("r-3", "user", "third"),
        ("r-3", "assistant", "three"),
    ]
    found = read_conversation("pi", "c")
    assert found is not None
    assert [[item["part_type"] for item in run.items] for run in found.runs] == [
        ["text"],
        ["text", "tool", "text"],
        ["text"],
    ]
    # The one that wrote for them comes back late: nothing is there twice.
    executor = define_agent_conversation_executor(name="pi", **model)
    for run_id in ("r-1", "r-2"):
        await executor.run([], RunContext(run_id, "c"))
    assert len(said()) == 6


@pytest.mark.feature("N05")
async def test_a_new_run_finishes_the_one_that_was_cut_off_and_writes_both(
    fake: FakeServer, model: Options, children: Children, home: Path
) -> None:
    held = gate()
    fake.script(text("one ", "two").hold(held, before=1), text("two"), text("later"))
    child = children.start("count", "r-1")
    await held.reached.wait()
    await stored(home, "one ")
    child.kill()
    await children.killed(child)
    await define_agent_conversation_executor(name="pi", **model).run(["and now?"], RunContext("r-2", "c"))
    assert said() == [
        ("r-1", "user", "count"),
        ("r-1", "assistant", "one two"),
        ("r-2", "user", "and now?"),
        ("r-2", "assistant", "later"),
    ]
