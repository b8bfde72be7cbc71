"""`agent-nodes chat` without a terminal: lines in, answers out."""

import base64
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.conversation.shell import Child, Result, Shell
from tests.fakes import FakeServer, call, error, gate, reply, text, thinking
from tests.support import png
from tests.test_imports import loaded_by

pytestmark = pytest.mark.feature("O01")

Chat = Callable[..., Result]


@pytest.fixture
def chat(shell: Shell, model: list[str]) -> Chat:
    """A conversation in session `s` whose lines are given at once."""

    def run(*lines: str, options: tuple[str, ...] = ("--session", "s"), **environment: str) -> Result:
        typed = "".join(f"{line}\n" for line in lines)
        return shell("chat", *model, *options, stdin=typed.encode(), **environment)

    return run


@pytest.fixture
def talking(shell: Shell, model: list[str]) -> Iterator[Callable[[], Child]]:
    """A conversation whose lines are still to be typed."""
    yield lambda: shell.start("chat", *model, "--session", "s", stdin=subprocess.PIPE)


def typed(child: Child, text: str) -> None:
    assert child.process.stdin is not None
    child.process.stdin.write(text.encode())
    child.process.stdin.flush()


def test_each_line_is_a_turn(chat: Chat, fake: FakeServer, shell: Shell) -> None:
    fake.script(text("One", "."), reply("Let me see.", call("find", {"pattern": "*"})), text("Two.\n"), text("한글"))
    done = chat("1", "", "2", "3 한글")
    assert done.status == 0, done.err
    assert done.out == "One.\n\nLet me see.\n\nTwo.\n\n한글\n"
    assert done.err.startswith("· find *  ")
    assert [turn["prompt"] for turn in shell.turns("s")] == ["1", "2", "3 한글"]
    assert not (shell.home / "chat-history").exists()


def test_a_last_line_needs_no_end_and_windows_ends_are_ends(shell: Shell, model: list[str], fake: FakeServer) -> None:
    fake.script(text("a"), text("b"))
    done = shell("chat", *model, "--session", "s", stdin="\ufeffone\r\ntwo".encode())
    assert (done.status, done.out) == (0, "a\n\nb\n")
    assert [turn["prompt"] for turn in shell.turns("s")] == ["one", "two"]


def test_nothing_typed_makes_no_turn(chat: Chat, fake: FakeServer) -> None:
    done = chat("", "  ")
    assert (done.status, done.out) == (0, "")
    assert not fake.requests


def test_a_failed_turn_does_not_end_the_others_and_goes_on(chat: Chat, fake: FakeServer, shell: Shell) -> None:
    fake.script(error(400, "no such thing"), text("Two."))
    done = chat("1", "2")
    assert (done.status, done.out.strip()) == (0, "Two.")
    assert "no such thing" in done.err
    assert "go on with this turn: agent-nodes ask --session s --provider openai" in done.err
    fake.script(error(400, "no such thing"))
    assert chat("3").status == 1
    fake.script(text("Three."))
    done = chat("/retry")
    assert (done.status, done.out) == (0, "Three.\n")
    assert [turn["status"] for turn in shell.turns("s")] == ["failed", "answered", "answered"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/usgae", "There is no command /usgae; did you mean /usage? There are /help, /model, "),
        ("/modle m-2", "There is no command /modle; did you mean /model? There are /help, /model, "),
        ("/model m-2 please", "/model: 'm-2 please' is no id of a model: it holds a blank."),
        ("/effort hihg", "/effort: 'hihg' is none of off, minimal, low"),
        ("/show 3", "/show: no tool was called yet."),
        ("/thinking maybe", "/thinking: 'maybe' is neither on nor off."),
        ("/usage now", "/usage takes nothing behind it."),
        ("/retry", "/retry: nothing was asked in this session yet."),
        ("/queue what", "/queue: 'what' is not understood"),
    ],
)
def test_wrong_usage_ends_it(chat: Chat, fake: FakeServer, line: str, said: str) -> None:
    done = chat(line, "never sent")
    assert done.status == 2
    assert done.problem.startswith(said)
    assert not fake.requests


def test_commands_are_lines_too(chat: Chat, fake: FakeServer) -> None:
    fake.script(
        reply(thinking("Hm."), call("bash", {"command": "echo hello"})).using(100, 7, cached=50),
        text("Done.").using(200, 3),
        text("More."),
    )
    done = chat("hi", "/usage", "/show", "/thinking", "/thinking on", "/queue", "/help", "more", "/exit", "never sent")
    assert (done.status, done.out) == (0, "Done.\n\nMore.\n")
    lines = done.err.splitlines()
    assert "last turn  2 model calls, 350 tokens in (50 cached), 10 out" in lines
    assert "session    1 turn, 2 model calls, 350 tokens in (50 cached), 10 out" in lines
    assert "command: echo hello" in lines
    at = next(n for n, line in enumerate(lines) if line.startswith("result ("))
    assert lines[at + 1] == "hello"
    assert "Hm." in lines
    assert "no prompt is waiting" in lines
    assert any(line.startswith("/model [ID]") for line in lines)


def test_another_model_answers_from_the_next_turn_on(chat: Chat, fake: FakeServer, shell: Shell) -> None:
    (shell.folder / "agent-nodes.toml").write_text(
        f'[models.fast]\nprovider = "here"\nmodel = "small"\nbase_url = "{fake.v1}"\neffort = "low"\n'
        f'[models.far]\nprovider = "there"\nmodel = "big"\nbase_url = "{fake.v1}"\napi_key_env = "FAR_KEY"\n'
    )
    fake.respond(lambda request: text("Yes."))
    done = chat("1", "/model fast", "2", "/model n", "3", "/effort high", "4", "/model")
    assert done.status == 0, done.err
    asked = [(request.json["model"], request.json.get("reasoning_effort")) for request in fake.requests]
    assert asked == [("m", None), ("small", "low"), ("n", None), ("n", "high")]
    lines = done.err.splitlines()
    assert lines[0] == "the next turns go to fast of here"
    assert lines[-1].startswith("model n of openai; another for the next turns: /model ID, such as fast, far, ")
    refused = chat("/model far", FAR_KEY="sk-far")
    assert refused.status == 2
    assert "come back with: agent-nodes chat --session s --model far" in refused.problem


def test_a_model_of_the_other_provider_needs_its_key(chat: Chat, fake: FakeServer) -> None:
    done = chat("/model claude-opus-5")
    assert done.status == 2
    assert done.problem == "/model: 'claude-opus-5' is a model of anthropic, which needs a key: set ANTHROPIC_API_KEY."
    fake.script(text("Yes."))
    done = chat("/model claude-opus-5", "hi", ANTHROPIC_API_KEY="sk-test", ANTHROPIC_BASE_URL=fake.url)
    assert (done.status, done.out) == (0, "Yes.\n"), done.err
    assert fake.requests[0].path == "/v1/messages"


def test_the_demo_has_models_of_its_own(shell: Shell) -> None:
    done = shell("chat", "--provider", "demo", "--session", "s", stdin=b"/model demo-slow\n/model\n/model big\n")
    assert done.status == 2
    lines = done.err.splitlines()
    assert lines[1] == "model demo-slow of demo; another for the next turns: /model ID, such as demo, demo-slow"
    assert "'big'" in lines[2]


def test_the_model_can_begin_anew(chat: Chat, fake: FakeServer, shell: Shell) -> None:
    fake.respond(lambda request: text("Yes."))
    done = chat("1", "2", "/clear", "3")
    assert done.status == 0, done.err
    assert [len(request.json["messages"]) for request in fake.requests] == [2, 4, 2]
    assert len(shell.turns("s")) == 3


def test_a_picture_goes_with_the_next_prompt(chat: Chat, fake: FakeServer, shell: Shell) -> None:
    (shell.folder / "my beds.png").write_bytes(base64.b64decode(png(3, 2).data))
    fake.respond(lambda request: text("Green."))
    done = chat("/image my beds.png", "/image 'my beds.png'", "/image", "What is this?", "And now?")
    assert done.status == 0, done.err
    first, second = (request.json["messages"][-1]["content"] for request in fake.requests)
    assert [part["type"] for part in first] == ["image_url", "image_url", "text"]
    assert isinstance(second, str) or [part["type"] for part in second] == ["text"]
    assert "with the next prompt: my beds.png, 'my beds.png'; /image PATH adds one" in done.err
    (shell.folder / "no.png").write_text("beans")
    assert chat("/image no.png").problem.startswith("/image: no.png ")
    assert chat("/image none.png").problem == "/image: 'none.png' cannot be read: No such file or directory."


def test_what_looks_like_a_path_is_a_prompt(chat: Chat, fake: FakeServer, shell: Shell) -> None:
    fake.respond(lambda request: text("Yes."))
    done = chat("/etc/hosts is what?", "//help", "/model-less talk", "/etc/hosts")
    assert done.status == 0, done.err
    assert [turn["prompt"] for turn in shell.turns("s")] == [
        *["/etc/hosts is what?", "/help", "/model-less talk", "/etc/hosts"]
    ]


def test_reasoning_is_told_when_asked_for(chat: Chat, fake: FakeServer) -> None:
    fake.script(reply(thinking("Beans like sun."), "South."))
    done = chat("/thinking on", "Where?")
    assert done.out == "South.\n"
    assert "Beans like sun." in done.err.splitlines()


def test_an_older_turn_is_finished_first(chat: Chat, fake: FakeServer, talking: Callable[[], Child]) -> None:
    fake.script(text("one ", "two").hold(gate(), before=1))
    child = talking()
    typed(child, "count\n")
    child.read("one ")
    child.kill()
    fake.script(text("two"), text("New."))
    done = chat("something new")
    assert (done.status, done.out) == (0, "New.\n")
    assert "was cut off; it is finished first" in done.err


def test_cl_03_ctrl_c_ends_it(fake: FakeServer, talking: Callable[[], Child], shell: Shell) -> None:
    fake.script(text("one ", "two").hold(gate(), before=1))
    child = talking()
    typed(child, "count\nnever sent\n")
    child.read("one ")
    child.signal(signal.SIGINT)
    done = child.end()
    assert (done.status, done.out) == (130, "\n")
    assert "agent-nodes: stopped\nagent-nodes: go on with this turn: agent-nodes ask --session s" in done.err
    assert [turn["status"] for turn in shell.turns("s")] == ["aborted"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_it_ends_also_while_it_waits_for_a_line(
    fake: FakeServer, talking: Callable[[], Child], number: int, status: int
) -> None:
    fake.script(text("Yes."))
    child = talking()
    typed(child, "hi\n")
    child.read("Yes.\n")
    child.signal(number)
    done = child.end()
    assert done.status == status
    assert "Traceback" not in done.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_shutdown_leaves_a_turn_that_goes_on(
    fake: FakeServer, talking: Callable[[], Child], shell: Shell, number: int
) -> None:
    fake.script(text("one ", "two").hold(gate(), before=1))
    child = talking()
    typed(child, "count\n")
    child.read("one ")
    child.signal(number)
    done = child.end()
    assert done.status == 128 + number
    assert "the turn can go on; come back with: agent-nodes chat --session s" in done.err
    assert shell.state("s")["state"] == "unfinished"


def test_a_closed_stdout_stops_the_turn(fake: FakeServer, talking: Callable[[], Child], shell: Shell) -> None:
    held = gate()
    fake.script(text("one ", "two ", "three").hold(held, before=1).hold(gate(), before=2))
    child = talking()
    typed(child, "count\n")
    child.read("one ")
    assert child.process.stdout is not None
    child.process.stdout.close()
    held.open()
    assert child.process.wait(60) == 141
    assert child.process.stderr is not None
    assert "Traceback" not in child.process.stderr.read().decode()
    assert shell.turns("s")[0]["status"] == "aborted"


def test_a_new_session_is_told_and_the_demo_says_what_it_is(shell: Shell) -> None:
    (shell.folder / "seeds.txt").write_text("beans\n")
    done = shell("chat", stdin=b"What is in this folder?\n")
    assert done.status == 0
    assert "`seeds.txt`" in done.out
    first, second, *_ = done.err.splitlines()
    assert first.startswith("agent-nodes: session ")
    assert f"agent-nodes chat --session {first.split()[2].rstrip(';')}" in first
    assert second.startswith("agent-nodes: no key is set (ANTHROPIC_API_KEY or OPENAI_API_KEY)")


def test_cl_04_what_is_wrong_with_the_options_is_one_line(inside: Callable[..., Result]) -> None:
    assert inside("chat", "--session", "s", "--modle", "x").problem.startswith("unrecognized arguments: --modle x; did")
    assert inside("chat", "--project", "p").problem.startswith("--project and --session-key need the --session")
    assert inside("chta").problem == "There is no command 'chta'; did you mean chat? See agent-nodes --help."


@pytest.mark.parametrize("encoding", ["ascii", "cp1252:strict", "utf-8"])
def test_cl_01_letters_that_a_stream_lacks_are_replaced(chat: Chat, fake: FakeServer, encoding: str) -> None:
    fake.script(reply(call("find", {"pattern": "*한글*"})), text("✓ 한글"))
    done = chat("hi", PYTHONIOENCODING=encoding)
    assert done.status == 0, done.err
    assert done.out == {"utf-8": "✓ 한글\n"}.get(encoding, "? ??\n")


HEAVY = {"prefect", "pydantic", "sqlmodel", "sqlalchemy", "anthropic", "openai", "starlette", "PIL"}


def test_a_conversation_loads_nothing_that_it_does_not_use(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_NODES_HOME", str(shell.home))
    monkeypatch.chdir(shell.folder)
    typed = "import io, sys; sys.stdin = io.TextIOWrapper(io.BytesIO(b''))"
    run = "from conversation.cli import main; main(['chat', '--provider', 'demo', '--session', 's'])"
    loaded = loaded_by(f"{typed}; {run}")
    assert loaded.isdisjoint({*HEAVY, "prompt_toolkit", "rich"})
    loaded = loaded_by("import conversation.chat_terminal")
    assert "prompt_toolkit" in loaded
    assert loaded.isdisjoint({*HEAVY, "rich", "markdown_it"})
