"""``agent-nodes run`` as a user has it: projects by name and path, their flags, answers, signals and going on."""

import contextlib
import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_nodes.store.conversations import read_conversation
from tests.conversation.shell import GUARD, Child, Result, Shell
from tests.fakes import FakeServer, call, error, gate, reply, text, tools

PROJECT = """\
from agent_nodes import AgentOutputPayload, create_agent_node
from conversation import (
    create_agent_conversation_project, create_agent_project_input, create_agent_project_param_resolver, define_executor
)
from helper import LABEL

MODEL = {MODEL}
workflow = create_agent_conversation_project(name="notes", **MODEL)

async def shout(given):
    return given

executor = define_executor(
    workflow={WORKFLOW},
    project_name=LABEL,
    create_input=create_agent_project_input,
    resolve_params=create_agent_project_param_resolver(),
    params=[
        {"name": "workdir", "flags": ["-C", "--workdir"], "type": "path", "description": "where it works, 100% of it"},
        {"name": "model", "flags": ["-m", "--model"], "group": "Quick"},
        {"name": "provider", "flags": ["--provider"]},
        {"name": "effort", "flags": ["--effort"], "choices": ["", "low", "high"], "default": "low", "group": "Quick"},
        {"name": "hidden", "flags": ["--hidden"], "hidden": True},
    ],
)
"""

Write = Callable[..., Path]


@pytest.fixture
def write(shell: Shell, fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a project into ./projects; its agents have the fake's model unless told."""
    shell.environment["OPENAI_API_KEY"] = "sk-test"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    options = {"provider": "openai", "model": "m", "base_url": fake.v1, "api_kind": "openai-completions"}

    def write(name: str = "notes", *, workflow: str = "workflow", **model: Any) -> Path:
        folder = shell.folder / "projects" / name
        folder.mkdir(parents=True)
        (folder / "helper.py").write_text('LABEL = "Notes"\n')
        given = {**options, **model}
        source = PROJECT.replace("{MODEL}", repr({key: value for key, value in given.items() if value is not None}))
        (folder / "project.py").write_text(source.replace("{WORKFLOW}", workflow))
        return folder

    return write


CRITIC = 'workflow.with_node(create_agent_node("critic", **MODEL), after=["agent"], before=["output"])'
BESIDE = 'workflow.with_node(create_agent_node("critic", system_prompt="You are the critic.", **MODEL))'


# -- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.feature("O01", "N03")
def test_the_answer_is_on_stdout_and_all_else_on_stderr(shell: Shell, write: Write, fake: FakeServer) -> None:
    write()
    fake.script(reply("Let me look.", call("ls", {}, id="c1")), text("Nothing ", "here."))
    done = shell("run", "notes", "what", "is", "--effort", "high", "here?", "--session", "s")
    assert (done.status, done.out) == (0, "Let me look.\n\nNothing here.\n")
    assert done.err == "- ls  0 B\n".replace("0 B", done.err.rpartition("  ")[2].strip()).replace("-", "·")
    assert fake.requests[0].last_user_text() == "what is here?"
    assert fake.requests[0].json["reasoning_effort"] == "high"
    fake.assert_accepted()


@pytest.mark.feature("O01")
def test_a_project_is_a_name_a_folder_or_a_file(shell: Shell, write: Write, fake: FakeServer) -> None:
    folder = write()
    fake.respond(lambda _: text("ok"))
    for given in ("notes", "projects/notes", str(folder), "projects/notes/project.py", str(folder / "project.py")):
        done = shell("run", given, "hi")
        assert (done.status, done.out) == (0, "ok\n"), done.err


@pytest.mark.feature("O01")
def test_a_conversation_goes_on_by_its_key_and_is_in_the_history(shell: Shell, write: Write, fake: FakeServer) -> None:
    write()
    fake.script(text("one"), text("two"))
    first = shell("run", "notes", "first", "--session", "s")
    second = shell("run", "notes", "second", "--session=s")
    assert (first.out, second.out, first.err, second.err) == ("one\n", "two\n", "", "")
    assert [text for _, text in fake.requests[1].messages_text()] == ["first", "one", "second"]
    found = read_conversation("notes", "s", shell.home)
    assert found is not None
    assert [message.text for message in found.messages] == ["first", "one", "second", "two"]


def test_a_new_conversation_is_named_with_the_command_that_goes_on(
    shell: Shell, write: Write, fake: FakeServer
) -> None:
    write()
    fake.respond(lambda _: text("ok"))
    done = shell("run", "notes", "hi", "-C", "my folder", "--effort", "")
    (shell.folder / "my folder").mkdir()
    done = shell("run", "notes", "hi", "-C", "my folder", "--effort", "")
    assert done.status == 0
    line = done.err.splitlines()[0]
    assert line.startswith("agent-nodes: session ")
    key = line.split()[2].rstrip(";")
    assert line.endswith(f"go on with: agent-nodes run notes --session {key} --workdir 'my folder' --effort '' \"…\"")


@pytest.mark.feature("O01")
def test_the_prompt_may_come_by_stdin_alone_and_behind_the_words(shell: Shell, write: Write, fake: FakeServer) -> None:
    write()
    fake.respond(lambda _: text("ok"))
    shell("run", "notes", "--session", "s", stdin=b"from stdin\n")
    shell("run", "notes", "explain:", "-", "--session", "s", stdin=b"a diff")
    shell("run", "notes", "--session", "s", "--", "--effort", "is a word")
    assert [request.last_user_text() for request in fake.requests] == [
        "from stdin",
        "explain:\n\na diff",
        "--effort is a word",
    ]


@pytest.mark.feature("O01")
def test_json_has_a_line_an_event_with_its_node_and_the_result_at_the_end(
    shell: Shell, write: Write, fake: FakeServer
) -> None:
    write()
    fake.script(text("Hel", "lo."))
    done = shell("run", "notes", "hi", "--json", "--session", "s", "--request-id", "r-1")
    assert done.status == 0
    *events, result = done.lines
    assert [(event["type"], event["node"], event["delta"]) for event in events[:2]] == [
        ("text_delta", "notes-agent", "Hel"),
        ("text_delta", "notes-agent", "lo."),
    ]
    assert (result["type"], result["status"], result["text"], result["request_id"]) == (
        "result",
        "answered",
        "Hello.",
        "r-1",
    )
    assert result["session"] == {"project": "notes", "conversation_id": "s", "session_key": "agent"}
    assert (result["usage"]["calls"], result["replayed"], result["reason"]) == (1, False, None)


@pytest.mark.feature("O01", "N05")
def test_a_known_run_gives_its_answer_again(shell: Shell, write: Write, fake: FakeServer) -> None:
    write()
    fake.script(text("Hello."))
    shell("run", "notes", "hi", "--session", "s", "--request-id", "r-1")
    for more in (["hi"], []):
        done = shell("run", "notes", *more, "--session", "s", "--request-id", "r-1")
        assert (done.status, done.out) == (0, "Hello.\n")
    again = shell("run", "notes", "--session", "s", "--request-id", "r-1", "--json")
    assert again.lines[-1]["replayed"] is True
    assert len(fake.requests) == 1


# -- several agents ----------------------------------------------------------------------------------------------------


@pytest.mark.feature("N07")
def test_of_several_agents_only_the_answering_one_is_on_stdout(shell: Shell, write: Write, fake: FakeServer) -> None:
    write(workflow=CRITIC)
    fake.script(reply("A draft.", call("ls", {}, id="c1")), text("Drafted."), text("Better."))
    done = shell("run", "notes", "write it", "--session", "s")
    assert (done.status, done.out) == (0, "Better.\n")
    assert done.err == "· notes-agent: ls  done\n"


@pytest.mark.feature("N07")
def test_where_a_function_has_the_last_word_the_answer_comes_at_the_end(
    shell: Shell, write: Write, fake: FakeServer
) -> None:
    folder = write(workflow='workflow.with_node(shout, after=["agent"], before=["output"])')
    source = (folder / "project.py").read_text()
    shout = "from dataclasses import replace\n    return replace(given, text=given.text.upper())"
    (folder / "project.py").write_text(source.replace("return given", shout))
    fake.script(text("hello ", "there"))
    assert shell("run", "notes", "hi", "--session", "s").out == "HELLO THERE\n"


@pytest.mark.feature("N07")
def test_an_agent_beside_that_fails_fails_the_run(shell: Shell, write: Write, fake: FakeServer) -> None:
    write(workflow=BESIDE)
    fake.respond(lambda request: error(400, "no money") if "critic" in request.system_text() else text("hello"))
    done = shell("run", "notes", "hi", "--session", "s")
    assert (done.status, done.out) == (1, "hello\n")
    assert "no money" in done.err and "--reopen" in done.err


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.feature("O01")
def test_a_failed_run_says_why_and_how_to_go_on(shell: Shell, write: Write, fake: FakeServer) -> None:
    write()
    fake.script(error(400, "no money"), text("Hello."))
    done = shell("run", "notes", "hi", "--session", "s", "--effort", "high")
    assert (done.status, done.out) == (1, "")
    problem, hint = done.err.splitlines()
    assert "no money" in problem
    command = hint.partition("go on with this run: ")[2].split()
    assert command[:5] == ["agent-nodes", "run", "notes", "--session", "s"]
    assert command[-2:] == ["--effort", "high"]
    again = shell(*command[1:])
    assert (again.status, again.out) == (0, "Hello.\n")


@pytest.mark.feature("O01")
def test_reopen_means_the_last_run(shell: Shell, write: Write, fake: FakeServer) -> None:
    write()
    fake.script(error(400, "no money"), text("Hello."))
    shell("run", "notes", "hi", "--session", "s")
    assert shell("run", "notes", "other", "--session", "s", "--reopen").status == 2
    assert shell("run", "notes", "hi", "--session", "s", "--reopen").out == "Hello.\n"
    done = shell("run", "notes", "--reopen")
    assert (done.status, done.problem) == (2, "--reopen: there is no run to go on with; say which with --session.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nots", "hi"], "There is no project 'nots'; did you mean notes?"),
        (["zzz", "hi"], "There is no project 'zzz'; ./projects has notes."),
        (["projects", "hi"], "projects: the folder holds no project.py."),
        (["--session", "s"], "run: say first which project: agent-nodes run PROJECT ..."),
        (["notes"], "prompt: missing. Give it as words, or pipe it in."),
        (["notes", "--session", "s"], "prompt: missing, and 's' has no run to go on with."),
        (["notes", "--session", " ", "hi"], "--session: empty; give the key of a conversation."),
        (["notes", "hi", "--efort", "low"], "--efort: unknown flag; did you mean --effort?"),
        (["notes", "hi", "--effort", "wild"], "--effort: 'wild' must be one of '', 'low', 'high'"),
        (["notes", "hi", "--session"], "--session: a value is missing"),
        (["notes", "hi", "--reopen=maybe"], "--reopen: 'maybe' is no value of type boolean"),
        (["notes", "--session", "s", "--request-id", "r"], "prompt: missing; --request-id 'r' is not known here"),
        (["notes", "hi", "-C", "nowhere"], "--workdir: "),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(
    inside: Callable[..., Result],
    write: Write,
    fake: FakeServer,
    arguments: list[str],
    said: str,
) -> None:
    write()
    done = inside("run", *arguments)
    assert (done.status, done.out) == (2, "")
    assert "Traceback" not in done.err
    assert said in done.err.splitlines()[-1]
    assert fake.requests == []
    as_json = inside("run", *arguments, "--json")
    assert as_json.status == 2
    assert (as_json.lines[-1]["type"], as_json.lines[-1]["status"]) == ("result", "failed")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = (\n", "project.py:1: cannot be imported (SyntaxError: "),
        ("\nimport nothing_of_that_name\n", "project.py:2: cannot be imported (ModuleNotFoundError: "),
        ("raise SystemExit(4)\n", "project.py:1: cannot be imported (SystemExit: 4)."),
        ("x = 1\n", "a project is one executor under a name of the module, and there is none"),
        ("from conversation import define_agent_conversation_executor as d\na, b = d(name='a'), d(name='b')\n",
         "there is several (a, b)"),
        ("from conversation import define_executor\nexecutor = define_executor(workflow=1, create_input=print)\n",
         "project.py:2: workflow: must be a Workflow"),
    ],
)  # fmt: skip
def test_a_project_that_cannot_be_had_says_why(
    shell: Shell, inside: Callable[..., Result], source: str, said: str
) -> None:
    (shell.folder / "project.py").write_text(source)
    done = inside("run", "project.py", "hi")
    assert done.status == 2
    assert said in done.problem


def test_the_helper_is_a_project_too_and_an_executor_may_have_two_names(shell: Shell) -> None:
    source = "from conversation import define_agent_conversation_executor as d\nexecutor = other = d(provider='demo')\n"
    (shell.folder / "project.py").write_text(source)
    done = shell("run", "project.py", "hello", "--session", "s")
    assert done.status == 0
    assert "demo model" in done.out


@pytest.mark.feature("O01")
def test_a_session_that_somebody_has_is_not_waited_for(shell: Shell, write: Write, fake: FakeServer) -> None:
    write()
    child = streaming(shell, fake)
    done = shell("run", "notes", "me too", "--session", "s")
    assert done.status == 1
    assert "session 's'" in done.err and str(child.process.pid) in done.err
    child.signal(signal.SIGTERM)
    child.end()


# -- models ------------------------------------------------------------------------------------------------------------


@pytest.mark.feature("N03", "O01")
def test_without_a_key_the_demo_answers_and_says_so(shell: Shell, write: Write) -> None:
    write(provider=None, model=None, base_url=None, api_kind=None)
    del shell.environment["OPENAI_API_KEY"]
    done = shell("run", "notes", "what is here?", "--session", "s")
    assert done.status == 0
    assert "demo model" in done.out
    assert done.err.splitlines()[0].startswith("agent-nodes: no key is set")
    named = shell("run", "notes", "and now?", "--session", "s", "--provider", "demo")
    assert "no key is set" not in named.err


@pytest.mark.feature("N03", "O01")
def test_a_conversation_with_a_real_model_is_not_handed_to_the_demo(
    shell: Shell, write: Write, fake: FakeServer
) -> None:
    folder = write(provider=None, model=None, base_url=None, api_kind=None)
    (folder / "agent-nodes.toml").write_text(
        f'[models.fast]\nprovider = "gateway"\nmodel = "m"\nbase_url = "{fake.v1}"\napi_key_env = "FAST_KEY"\n'
    )
    del shell.environment["OPENAI_API_KEY"]
    fake.respond(lambda _: text("ok"))
    assert shell("run", "notes", "hi", "--session", "s", FAST_KEY="k").out == "ok\n"
    (folder / "agent-nodes.toml").unlink()
    done = shell("run", "notes", "hi", "--session", "s")
    assert (done.status, done.out) == (2, "")
    assert "is with gateway (m)" in done.problem


@pytest.mark.feature("N03", "O01")
def test_a_configured_model_is_chosen_by_its_id_and_its_key_is_not_for_commands(
    shell: Shell, write: Write, fake: FakeServer
) -> None:
    folder = write()
    entry = '[models.{0}]\nprovider = "gateway"\nmodel = "{0}-1"\nbase_url = "{1}"\napi_key_env = "{2}"\n'
    (folder / "agent-nodes.toml").write_text(
        entry.format("fast", fake.v1, "FAST_KEY") + entry.format("deep", fake.v1, "DEEP_KEY")
    )
    fake.script(tools(call("bash", {"command": "echo [$DEEP_KEY$FAST_KEY]"}, id="c1")), text("ok"), text("ok"))
    done = shell("run", "notes", "hi", "-m", "deep", FAST_KEY="k-fast", DEEP_KEY="k-deep")
    assert (done.status, done.out) == (0, "ok\n")
    assert fake.requests[0].model == "deep-1"
    assert fake.requests[0].headers["authorization"] == "Bearer k-deep"
    assert fake.requests[1].results()["c1"].startswith("[]")
    shell("run", "notes", "hi", FAST_KEY="k-fast")
    assert fake.requests[2].model == "fast-1"
    lacking = shell("run", "notes", "hi", "-m", "deep", FAST_KEY="k-fast")
    assert lacking.status == 2
    assert "DEEP_KEY is not set" in lacking.problem


# -- help --------------------------------------------------------------------------------------------------------------


@pytest.mark.feature("O01", "N03")
def test_each_project_has_a_help_of_its_own(shell: Shell, write: Write, inside: Callable[..., Result]) -> None:
    folder = write()
    shown = inside("run", "notes", "--help")
    assert (shown.status, shown.err) == (0, "")
    assert "Notes" in shown.out
    assert "-C WORKDIR, --workdir WORKDIR" in shown.out
    assert "100% of it" in shown.out
    assert "one of '', low, high; default: low" in " ".join(shown.out.split())
    assert "--hidden" not in shown.out
    assert shown.out.index("quick:") < shown.out.index("auxiliary:") < shown.out.index("of every project:")
    for flag in ("--session KEY", "--request-id ID", "--reopen", "--json"):
        assert flag in shown.out
    (folder / "agent-nodes.toml").write_text('[models.fast]\nprovider = "demo"\n')
    configured = inside("run", "notes", "go", "-h").out
    assert "one of fast; default: fast" in " ".join(configured.split())
    assert "--provider" not in configured


def test_the_general_help_names_the_projects_here(shell: Shell, write: Write, inside: Callable[..., Result]) -> None:
    write("b")
    write("a")
    shown = inside("run", "--help")
    assert (shown.status, shown.err) == (0, "")
    assert "projects here: a, b" in shown.out
    nothing = inside("run")
    assert (nothing.status, nothing.out) == (2, "")
    assert nothing.err == shown.out


# -- signals -----------------------------------------------------------------------------------------------------------


def streaming(shell: Shell, fake: FakeServer, *more: str) -> Child:
    """A run of which the first words are there and the rest never comes."""
    fake.script(text("one ", "two ", "three").hold(gate(), before=2))
    child = shell.start("run", "notes", "count", "--session", "s", *more)
    assert child.read("two ") == "one two "
    return child


@pytest.mark.feature("O01")
def test_ctrl_c_stops_the_run_for_good(shell: Shell, write: Write, fake: FakeServer) -> None:
    write()
    child = streaming(shell, fake)
    child.signal(signal.SIGINT)
    done = child.end()
    assert (done.status, done.out) == (130, "\n")
    stopped, hint = done.err.splitlines()
    assert stopped == "agent-nodes: stopped"
    assert hint.endswith("--reopen")
    found = read_conversation("notes", "s", shell.home)
    assert found is not None
    assert [run.status for run in found.runs] == ["aborted"]
    fake.script(text("Yes."))
    assert shell("run", "notes", "Are you there?", "--session", "s").out == "Yes.\n"


@pytest.mark.feature("O01", "N05")
@pytest.mark.parametrize("more", [["count"], []])
def test_a_shutdown_keeps_the_run_and_the_same_prompt_or_none_goes_on(
    shell: Shell, write: Write, fake: FakeServer, more: list[str]
) -> None:
    write()
    child = streaming(shell, fake)
    child.signal(signal.SIGTERM)
    done = child.end()
    assert (done.status, done.out) == (143, "\n")
    said, hint = done.err.splitlines()
    assert said == "agent-nodes: shut down by SIGTERM; the run can go on"
    assert hint.startswith("agent-nodes: go on with: agent-nodes run notes --session s --request-id ")
    fake.script(text("three"))
    again = shell("run", "notes", *more, "--session", "s")
    assert (again.status, again.out) == (0, "one two three\n")
    assert again.err.splitlines()[0] == "agent-nodes: going on with the run that was cut off"
    found = read_conversation("notes", "s", shell.home)
    assert found is not None
    assert [message.text for message in found.messages] == ["count", "one two three"]


@pytest.mark.feature("O01", "N05")
def test_another_prompt_finishes_the_one_that_was_cut_off(shell: Shell, write: Write, fake: FakeServer) -> None:
    write()
    child = streaming(shell, fake)
    child.signal(signal.SIGTERM)
    child.end()
    fake.script(text("three"), text("Later."))
    done = shell("run", "notes", "and now?", "--session", "s")
    assert (done.status, done.out) == (0, "Later.\n")
    assert "an earlier run of this session was cut off; it is finished first" in done.err
    found = read_conversation("notes", "s", shell.home)
    assert found is not None
    assert [message.text for message in found.messages] == ["count", "one two three", "and now?", "Later."]


@pytest.mark.feature("O01")
def test_the_result_of_a_shutdown_is_the_last_line_of_json(shell: Shell, write: Write, fake: FakeServer) -> None:
    write()
    fake.script(text("one ", "two").hold(gate(), before=1))
    child = shell.start("run", "notes", "count", "--session", "s", "--json")
    child.read("}\n")
    child.signal(signal.SIGTERM)
    done = child.end()
    result = json.loads(done.out.splitlines()[-1])
    assert (done.status, result["status"]) == (143, "unfinished")
    assert result["session"] == {"project": "notes", "conversation_id": "s", "session_key": "agent"}


@pytest.mark.feature("O01")
def test_ctrl_c_twice_ends_the_program_and_what_it_started(shell: Shell, write: Write, fake: FakeServer) -> None:
    write()
    fake.script(tools(call("bash", {"command": "trap '' TERM; echo $$ > pid; while :; do sleep 1; done"})))
    child = shell.start("run", "notes", "work", "--session", "s")
    pid = wait_pid(shell.folder / "pid")
    child.signal(signal.SIGINT)
    time.sleep(0.05)  # the first one is seen
    child.signal(signal.SIGINT)
    assert child.end().status == 130
    assert gone(pid)


@pytest.mark.feature("O01")
def test_a_reader_that_goes_away_stops_the_run(shell: Shell, write: Write, fake: FakeServer) -> None:
    write()
    held = gate()
    fake.script(text("one ", "two ", "three").hold(held, before=1).hold(gate(), before=2))
    child = shell.start("run", "notes", "count", "--session", "s")
    assert child.process.stdout is not None
    child.read("one ")
    child.process.stdout.close()
    held.open()
    child.process.wait(timeout=GUARD)
    assert child.process.returncode == 141
    found = read_conversation("notes", "s", shell.home)
    assert found is not None
    assert [run.status for run in found.runs] == ["aborted"]


def wait_pid(path: Path) -> int:
    end = time.monotonic() + GUARD
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            return int(path.read_text())
        time.sleep(0.01)
    raise AssertionError("the command never started")


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
