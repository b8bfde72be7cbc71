"""The projects of this repository: each reads well, and does what its page says with a model."""

import sys
from pathlib import Path
from typing import Any

import pytest

from agent_nodes import InputValidationError
from agent_nodes.store.conversations import read_conversation
from conversation import RunContext, RunReport, check_structure, read_structure
from conversation.loading import LoadedProject, load_project
from tests.fakes import FakeServer, call, text, tools

PROJECTS = Path(__file__).parents[3] / "projects"
NAMES = sorted(file.parent.name for file in PROJECTS.glob("*/project.py"))

DIFF = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"


@pytest.fixture(autouse=True)
def no_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What importing a project leaves behind is the test's own."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", sys.modules | {})
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def loaded(name: str) -> LoadedProject:
    return load_project(str(PROJECTS / name))


async def run(name: str, *words: str, model: FakeServer | None = None, **values: Any) -> RunReport:
    """A run of the project in the current folder: with the demo, or with the fake model by its configuration."""
    context = RunContext(conversation_id="c", provider="demo")
    if model is not None:
        Path("agent-nodes.toml").write_text(
            f'[models.fake]\nprovider = "gateway"\nmodel = "m"\nbase_url = "{model.v1}"\napi_key_env = "FAKE_KEY"\n'
        )
        context = RunContext(conversation_id="c", config=Path.cwd(), environ={"FAKE_KEY": "k"})
    args: Any = list(words) if words else values
    return await loaded(name).executor.run(args, context)


def test_there_are_three() -> None:
    assert NAMES == ["assistant", "researcher", "reviewer"]
    assert all((PROJECTS / name / "README.md").is_file() for name in NAMES)


@pytest.mark.feature("N06")
@pytest.mark.parametrize("name", NAMES)
def test_it_is_read_without_running_it(name: str) -> None:
    assert check_structure(PROJECTS / name) == []
    [project] = read_structure(PROJECTS / name)
    executor = loaded(name).executor
    assert project.conversation == executor.conversation.model_dump(mode="json")
    assert project.params == [param.model_dump(mode="json") for param in executor.params]
    assert project.tools == [tool.model_dump(mode="json") for tool in executor.tools or ()]
    assert executor.name == name


@pytest.mark.parametrize("name", NAMES)
async def test_it_answers_with_the_demo(name: str) -> None:
    Path("README.md").write_text("# Garden\n\nTomatoes go into the south bed.\n")
    report = await run(name, "What is in this folder?")
    assert (report.status, report.project) == ("answered", name)
    assert "demo model" in report.answer.text
    assert ("Tomatoes" in report.answer.text) == (name != "researcher")  # whose folder is its own
    history = read_conversation(name, "c")
    assert history is not None and history.messages[0].text == "What is in this folder?"


async def test_the_assistant_works_in_its_folder(fake: FakeServer) -> None:
    fake.script(
        tools(call("write", {"path": "plan.md", "content": "beans\n"}, id="c1")),
        tools(call("bash", {"command": "cat plan.md"}, id="c2")),
        text("Done."),
    )
    report = await run("assistant", "plan the beds", model=fake)
    assert (report.status, Path("plan.md").read_text()) == ("answered", "beans\n")
    assert "beans" in fake.requests[2].results()["c2"]
    assert set(fake.requests[0].tool_names()) == {"read", "write", "edit", "bash", "grep", "find", "ls"}


async def test_the_assistant_may_be_read_only(fake: FakeServer) -> None:
    fake.script(text("Done."))
    await run("assistant", "look", "--permission-policy", "read-only", model=fake)
    assert set(fake.requests[0].tool_names()) == {"read", "grep", "find", "ls"}


async def test_the_reviewer_takes_a_diff_and_changes_nothing(fake: FakeServer) -> None:
    Path("x.py").write_text("a = 2\n")
    fake.script(
        tools(call("read", {"path": "x.py"}, id="c1"), call("write", {"path": "x.py", "content": ""}, id="c2")),
        text("x.py:1: a was 1."),
    )
    report = await run("reviewer", message=DIFF, focus="bugs", model=fake)
    first, second = fake.requests
    assert first.last_user_text() == f"Review this change.\n\n{DIFF}"
    assert set(first.tool_names()) == {"read", "grep", "find", "ls"}
    assert "You review code." in first.system_text() and "goes wrong when it runs" in first.system_text()
    assert second.results()["c1"].strip() == "a = 2"
    assert Path("x.py").read_text() == "a = 2\n"
    assert report.answer.text == "x.py:1: a was 1."
    history = read_conversation("reviewer", "c")
    assert history is not None and history.messages[0].text == DIFF


async def test_the_reviewer_takes_names_and_questions_as_they_are(fake: FakeServer) -> None:
    fake.script(text("Fine."), text("Because."))
    await run("reviewer", "x.py", "and", "its", "tests", model=fake)
    await run("reviewer", "why?", model=fake)
    assert [request.last_user_text() for request in fake.requests] == ["x.py and its tests", "why?"]
    assert fake.requests[0].json["reasoning_effort"] == "high"


async def test_the_reviewer_knows_its_focuses() -> None:
    with pytest.raises(InputValidationError, match="focus: 'speed' must be one of 'all', 'bugs', 'security', 'tests'"):
        await run("reviewer", "x.py", "--focus", "speed")


async def test_the_researcher_writes_in_its_folder_alone(fake: FakeServer, tmp_path: Path) -> None:
    fake.script(
        tools(
            call("write", {"path": "index.md", "content": "owls.md: owls\n"}, id="c1"),
            call("write", {"path": "../outside.md", "content": "x"}, id="c2"),
            call("bash", {"command": "touch ../outside.md"}, id="c3"),
            call("read", {"path": str(tmp_path / "secret.txt")}, id="c4"),
        ),
        text("Noted."),
    )
    (tmp_path / "secret.txt").write_text("hidden words")
    report = await run("researcher", "owls", "-C", "notes/birds", model=fake)
    assert report.status == "answered"
    assert Path("notes/birds/index.md").read_text() == "owls.md: owls\n"
    assert not list(tmp_path.rglob("outside.md"))
    results = fake.requests[1].results()
    assert "outside of the folders" in results["c2"]
    assert "hidden words" not in results["c4"]
    assert "bash" not in fake.requests[0].tool_names()


async def test_the_researchers_folder_is_below_the_current_one(fake: FakeServer) -> None:
    fake.script(tools(call("ls", {}, id="c1")), text("Empty."))
    await run("researcher", "what do we know?", model=fake)
    assert Path("research").is_dir()
