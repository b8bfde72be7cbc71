"""`agent-nodes ask`: what is written where, what the exit status says, how a session goes on."""

import json
import os
import shlex
import socket
import subprocess
import sys

import pytest

from agent_nodes.errors import StorageError
from agent_nodes.store.locate import session_file
from conversation import cli
from conversation.problems import problem
from tests.conversation.shell import Ask, Shell
from tests.fakes import FakeServer, call, drop_after, error, gate, reply, text, tools


@pytest.mark.feature("O01", "C06")
def test_the_first_command_needs_no_key_and_says_who_answers(shell: Shell) -> None:
    (shell.folder / "README.md").write_text("# Llamas\nThey live in the Andes.\n")
    done = shell("ask", "What is in this folder?")
    assert done.status == 0, done.err
    assert "They live in the Andes." in done.out
    assert "agent-nodes: no key is set (ANTHROPIC_API_KEY or OPENAI_API_KEY); the demo answers" in done.err
    assert "· read README.md  32 B" in done.err.splitlines()
    key = shell("sessions", "list").out.split("\t")[0]
    assert f"agent-nodes: session {key}; go on with: agent-nodes ask --session {key}" in done.err


@pytest.mark.feature("O01")
def test_the_answer_is_on_stdout_alone_word_for_word(ask: Ask, fake: FakeServer) -> None:
    fake.script(reply("Let me", " see.", call("ls", {})), text("It is ", "empty."))
    done = ask("--session", "s", "look")
    assert done.status == 0
    assert done.out == "Let me see.\n\nIt is empty.\n"
    assert [line.split("  ")[0] for line in done.err.splitlines()] == ["· ls"]


@pytest.mark.feature("O01")
def test_json_prints_the_events_and_ends_with_the_result(ask: Ask, fake: FakeServer) -> None:
    fake.script(reply("Hm. ", call("ls", {}, id="c1")), text("Empty", ".").using(12, 3))
    done = ask("--session", "s", "--json", "look")
    *events, result = done.lines
    assert [event["type"] for event in events if event["type"] != "context_usage"] == [
        "text_delta",
        "tool",
        "tool",
        "text_delta",
        "text_delta",
    ]
    assert result["type"] == "result"
    assert (result["status"], result["text"]) == ("answered", "Hm. \n\nEmpty.")
    assert result["session"] == {"project": "default", "conversation_id": "s", "session_key": "agent"}
    assert result["usage"]["calls"] == 2
    assert done.err == ""


def test_text_is_written_as_it_comes(shell: Shell, model: list[str], fake: FakeServer) -> None:
    held = gate()
    fake.script(text("one ", "two ", "three").hold(held, before=2))
    child = shell.start("ask", *model, "--session", "s", "count")
    assert child.read("two ") == "one two "
    held.open()
    done = child.end()
    assert (done.status, done.out) == (0, "three\n")


@pytest.mark.parametrize(
    ("words", "stdin", "prompt"),
    [
        (["two", "words"], b"not this", "two words"),
        ([], "쿼리\n".encode(), "쿼리"),
        (["-"], b"\xef\xbb\xbfone\r\ntwo\r\n", "one\ntwo"),
        (["Review", "this:", "-"], b"+ line\n", "Review this:\n\n+ line"),
        (["--", "--session", "-"], b"x", "--session\n\nx"),
        (["--", "-1", "is", "what?"], b"", "-1 is what?"),
    ],
)
def test_the_prompt_is_the_words_or_stdin(
    ask: Ask, fake: FakeServer, words: list[str], stdin: bytes, prompt: str
) -> None:
    fake.script(text("ok"))
    done = ask(*words, stdin=stdin)
    assert done.status == 0, done.err
    assert fake.requests[0].last_user_text() == prompt


def test_stdin_in_another_encoding_is_read_as_the_environment_says(ask: Ask, fake: FakeServer) -> None:
    fake.script(text("ok"))
    assert ask(stdin="café".encode("cp1252"), PYTHONIOENCODING="cp1252").status == 0
    assert fake.requests[0].last_user_text() == "café"


def test_options_and_words_come_in_any_order(shell: Shell, model: list[str], fake: FakeServer) -> None:
    fake.script(text("ok"))
    assert shell("ask", "one", *model, "two", "--session", "s", "three").status == 0
    assert fake.requests[0].last_user_text() == "one two three"


@pytest.mark.feature("O01")
def test_a_session_goes_on_where_it_was(ask: Ask, fake: FakeServer) -> None:
    fake.script(text("Hello Ann."), text("Ann."))
    assert ask("--session", "any name / 회의", "I am Ann").status == 0
    assert ask("--session", "any name / 회의", "Who am I?").out == "Ann.\n"
    said = [message for message in fake.requests[1].messages_text() if message[0] != "system"]
    assert said == [("user", "I am Ann"), ("assistant", "Hello Ann."), ("user", "Who am I?")]


@pytest.mark.feature("O01")
def test_a_request_id_given_again_gives_its_result_without_a_request(ask: Ask, fake: FakeServer) -> None:
    fake.script(text("once"))
    assert ask("--session", "s", "--request-id", "r1", "hi").out == "once\n"
    again = ask("--session", "s", "--request-id", "r1", "--json")
    assert again.lines[-1]["replayed"] is True
    assert again.lines[-1]["text"] == "once"
    assert len(fake.requests) == 1


def test_a_request_id_with_another_prompt_is_refused(ask: Ask, fake: FakeServer) -> None:
    fake.script(text("once"))
    ask("--session", "s", "--request-id", "r1", "hi")
    done = ask("--session", "s", "--request-id", "r1", "something else")
    assert done.status == 1
    assert "'r1'" in done.problem  # and no way to go on with what was never begun


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["ask"], "prompt: missing"),
        (["ask", "   "], "prompt: missing"),
        (["ask", "--session", "unknown"], "there is no session 'unknown'"),
        (["ask", "--session", "", "hi"], "--session"),
        (["ask", "--sessio", "s", "hi"], "unrecognized arguments: --sessio; did you mean --session?"),
        (["ask", "--base_url=http://x", "hi"], "did you mean --base-url?"),
        (["ask", "--frobnicate", "hi"], "unrecognized arguments: --frobnicate. See"),
        (["aks", "hi"], "no command 'aks'; did you mean ask?"),
        (["ask", "--max-tokens", "none", "hi"], "--max-tokens: 'none'"),
        (["ask", "--stall-timeout", "nan", "hi"], "--stall-timeout: 'nan'"),
        (["ask", "--permission-policy", "all", "hi"], "read-only"),
        (["ask", "--api-kind", "soap", "hi"], "openai-responses"),
        (["ask", "--workdir", "nowhere", "hi"], "nowhere' cannot be used"),
        (["ask", "--allow", "nowhere", "hi"], "--allow: 'nowhere' cannot be used"),
        (["ask", "--provider", "mine", "hi"], "give --base-url URL and -m MODEL too"),
        (["ask", "--provider", "mine", "--base-url", "http://127.0.0.1:1", "hi"], "give -m MODEL too"),
        (["ask", "--base-url", "http://127.0.0.1:1", "hi"], "--provider"),
        (["ask", "--provider", "demo", "-m", "big", "hi"], "'big'"),
        (["ask", "--request-id", " ", "hi"], "--request-id: must not be empty"),
        (["ask", "--request-id", "", "hi"], "--request-id: must not be empty"),
        (["ask", "--project", "p", "hi"], "need the --session"),
        (["ask", "--session-key", "look", "hi"], "need the --session"),
        (["ask", "--api-kind", "openai-responses", "--provider", "demo", "hi"], "--api-kind: "),
        (["ask", "--reopen", "hi"], "--reopen: say which session"),
        (["ask", "--reopen"], "--reopen: say which session"),
        (["ask", "--reopen", "--session", "unknown", "hi"], "--reopen: there is no session 'unknown'"),
        (["ask", "--session", "\udcff", "hi"], "--session: holds bytes"),
        (["ask", "--provider", "\udcff", "hi"], "--provider: holds bytes"),
        (["ask", "--model", "\udcff", "hi"], "--model: holds bytes"),
        (["ask", "--base-url", "\udcff", "hi"], "--base-url: holds bytes"),
        (["ask", "--system-prompt", "\udcff", "hi"], "--system-prompt: holds bytes"),
        (["ask", "--workdir", "\udcff", "hi"], "--workdir: holds bytes"),
        (["ask", "--allow", "\udcff", "hi"], "--allow: holds bytes"),
        (["ask", "--request-id", "\udcff", "hi"], "--request-id: holds bytes"),
        (["ask", "--stall-timeout", "\udcff", "hi"], "--stall-timeout: "),
        (["sessions", "show", "\udcff"], "KEY: holds bytes"),
        (["sessions", "show", "--project", "\udcff", "s"], "--project: holds bytes"),
        (["sessions", "show", "--", "-x"], "'-x'"),
        (["sessions", "list", "--", "-x"], "-x"),
        (["talk"], "'talk'"),
        (["sessions"], "sessions: say list or show"),
        (["sessions", "show"], "KEY"),
        (["sessions", "show", "unknown"], "'unknown'"),
    ],
)
def test_wrong_usage_is_one_line_that_names_it(inside: Ask, shell: Shell, arguments: list[str], named: str) -> None:
    done = inside(*arguments)
    assert done.status == 2
    assert done.out == ""
    assert named in done.err.splitlines()[-1]
    assert "Traceback" not in done.err
    assert all(line.startswith("agent-nodes: ") for line in done.err.splitlines())
    assert not shell.home.exists()
    assert "go on with:" not in done.err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--base-url", "http://127.0.0.1:1", "hi"], "--provider"),
        (["--max-tokens", "x", "hi"], "--max-tokens"),
        (["--unknown"], "--unknown"),
        (["--workdir", "nowhere", "hi"], "nowhere"),
        (["--request-id", "", "hi"], "--request-id"),
        ([], "prompt"),
    ],
)
def test_wrong_usage_has_a_result_line_too(inside: Ask, arguments: list[str], named: str) -> None:
    done = inside("ask", "--json", *arguments)
    assert done.status == 2
    (result,) = done.lines
    assert (result["type"], result["status"], result["reason"]) == ("result", "failed", "input_validation")
    assert (result["text"], result["request_id"] or "", result["session"]) == ("", "", None)
    assert named in result["detail"]
    assert f"agent-nodes: {result['detail']}" in done.err.splitlines()


def test_json_behind_two_dashes_is_a_word(inside: Ask) -> None:
    assert inside("ask", "--max-tokens", "x", "--", "--json").out == ""


@pytest.mark.parametrize("raised", [KeyboardInterrupt, AttributeError])
def test_ctrl_c_before_the_turn_is_a_stop_whatever_it_broke_off(
    monkeypatch: pytest.MonkeyPatch, inside: Ask, raised: type[BaseException]
) -> None:
    def broken(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise raised

    monkeypatch.setattr("argparse.ArgumentParser.parse_intermixed_args", broken)
    done = inside("ask", "--json", "hi")
    assert (done.status, done.problem) == (130, "stopped")
    assert (done.lines[-1]["type"], done.lines[-1]["status"]) == ("result", "aborted")


def test_bytes_that_are_no_text_are_replaced_in_a_prompt_and_refused_in_a_key(shell: Shell) -> None:
    done = shell("ask", "--session", b"\xff\xfe", "hi")
    assert (done.status, done.out) == (2, "")
    assert "--session: holds bytes that are no text" in done.problem
    assert not shell.home.exists()
    assert shell("ask", "--session", "s", b"caf\xe9 au lait").status == 0
    assert shell.turns("s")[0]["prompt"] == "caf\N{REPLACEMENT CHARACTER} au lait"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_folders_with_a_name_that_is_no_text_work(shell: Shell) -> None:
    shell.home = shell.home / "h\udcff"
    shell.environment["AGENT_NODES_HOME"] = str(shell.home)
    shell.folder = shell.folder / "w\udcff"
    shell.folder.mkdir()
    assert shell("ask", "--session", "s", "hi").status == 0
    assert shell.turns("s")[0]["status"] == "answered"
    assert shell("sessions", "list").out.startswith("s\t1\tidle\t")


def test_a_session_that_could_not_be_begun_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch, inside: Ask, shell: Shell
) -> None:
    async def broken(*_: object) -> str:
        raise StorageError("no room")

    with monkeypatch.context() as patch:
        patch.setattr("agent_nodes.engine.harness._create", broken)
        done = inside("ask", "--provider", "demo", "--session", "s", "--json", "hi")
        assert (done.status, done.lines[-1]["session"]) == (1, None)
        assert "go on with" not in done.err
    assert [path.name for path in shell.home.rglob("*") if path.is_file() and path.suffix != ".owner"] == []
    assert "there are no sessions" in inside("sessions", "list").problem
    assert inside("ask", "--provider", "demo", "--session", "s", "hi").status == 0


@pytest.mark.parametrize(("provider", "variable"), [("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")])
def test_cl_04_a_missing_key_is_one_line_that_names_it(shell: Shell, provider: str, variable: str) -> None:
    done = shell("ask", "--provider", provider, "hi")
    assert done.status == 2
    assert done.problem == f"the provider {provider!r} needs a key. Set {variable}."
    assert not shell.home.exists()


def test_cl_04_a_model_without_a_key_is_no_reason_for_the_demo(shell: Shell) -> None:
    done = shell("ask", "--model", "gpt-5.5", "hi")
    assert done.status == 2
    assert "'gpt-5.5'" in done.problem
    assert "OPENAI_API_KEY" in done.problem


def test_cl_04_a_session_of_another_model_is_not_answered_by_the_demo(ask: Ask, shell: Shell, fake: FakeServer) -> None:
    fake.script(text("I am real."))
    ask("--session", "s", "hi")
    done = shell("ask", "--session", "s", "and now?", OPENAI_API_KEY="")
    assert done.status == 2
    assert "is with openai (m): set OPENAI_API_KEY" in done.problem
    assert len(shell.turns("s")) == 1


@pytest.mark.feature("A08")
@pytest.mark.parametrize("keys", [("ANTHROPIC_API_KEY",), ("OPENAI_API_KEY",), ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")])
def test_the_key_in_the_environment_decides_who_answers(shell: Shell, fake: FakeServer, keys: tuple[str, ...]) -> None:
    fake.script(text("hello"))
    shell.environment |= {"ANTHROPIC_BASE_URL": fake.url, "OPENAI_BASE_URL": fake.v1, **dict.fromkeys(keys, "sk-abc")}
    done = shell("ask", "hi")
    assert (done.status, done.out) == (0, "hello\n"), done.err
    assert fake.requests[0].path == ("/v1/messages" if "ANTHROPIC_API_KEY" in keys else "/v1/responses")
    assert "demo" not in done.err


def test_a_key_is_never_printed(shell: Shell, fake: FakeServer) -> None:
    key = "sk-ant-very-secret-0123456789"
    fake.script(error(401, f"the key {key} is wrong"))
    done = shell("ask", "--json", "hi", ANTHROPIC_API_KEY=key, ANTHROPIC_BASE_URL=fake.url)
    assert done.status == 1
    assert key not in done.out + done.err
    assert not [path for path in shell.home.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]


def test_a_failed_turn_says_how_to_go_on_and_goes_on(
    ask: Ask, shell: Shell, model: list[str], fake: FakeServer
) -> None:
    fake.script(error(400, "the model is asleep"))
    done = ask("--session", "s", "hi there")
    assert done.status == 1
    assert done.out == ""
    said, hint = done.err.splitlines()
    assert "the model is asleep" in said
    before, command = hint.split("agent-nodes ask ")
    assert before == "agent-nodes: go on with this turn: "
    fake.script(text("awake"))
    again = shell("ask", *shlex.split(command))
    assert (again.status, again.out) == (0, "awake\n")
    assert len(shell.turns("s")) == 1


def test_reopening_needs_a_turn_that_is_meant(ask: Ask, fake: FakeServer) -> None:
    fake.script(error(400, "no"))
    ask("--session", "s", "hi")
    done = ask("--session", "s", "--reopen", "something else")
    assert done.status == 2
    assert done.problem.startswith("--reopen: the session's last turn has another prompt.")


def test_an_ended_turn_that_is_asked_for_again_is_said_to_be_stored(ask: Ask, fake: FakeServer) -> None:
    fake.script(text("yes"))
    assert "stored answer" not in ask("--session", "s", "hi").err
    done = ask("--session", "s", "--reopen", "hi")
    assert (done.status, done.out) == (0, "yes\n")
    assert done.problem == "(this turn had ended before; its stored answer)"


def test_a_session_without_a_turn_has_nothing_to_reopen(ask: Ask, shell: Shell) -> None:
    path = session_file("default", "s", "agent", shell.home)
    path.parent.mkdir(parents=True)
    path.touch()
    done = ask("--session", "s", "--reopen", "hi")
    assert done.status == 2
    assert done.problem == "--reopen: the session has no turn yet; leave --reopen out."


def test_the_hint_of_a_new_session_can_be_run_with_a_prompt_in_its_place(
    shell: Shell, model: list[str], fake: FakeServer
) -> None:
    fake.script(text("a"), text("b"))
    hint = shell("ask", *model, "hi").err.splitlines()[0].partition("go on with: agent-nodes ask ")[2]
    assert hint.endswith(' "…"')
    again = shell("ask", *[word.replace("…", "and now?") for word in shlex.split(hint)])
    assert (again.status, again.out) == (0, "b\n")


def test_hints_name_the_script_that_started_the_command(shell: Shell) -> None:
    shell.environment["AGENT_NODES_DEV"] = "./dev"
    done = shell("ask", "hi")
    key = shell("sessions", "list").out.split("\t")[0]
    assert f'go on with: ./dev run --session {key} "…"' in done.err
    assert "See ./dev run --help." in shell("ask", "--nothing").err
    assert shell("ask", "--help").out.startswith("usage: ./dev run ")


def test_a_node_s_session_is_asked_by_its_names_or_by_what_the_list_calls_it(
    ask: Ask, shell: Shell, fake: FakeServer
) -> None:
    fake.script(text("a"), text("b"), text("c"), error(400, "no"))
    ask("--session", "job7", "--session-key", "look", "1")
    row = shell("sessions", "list").out.split("\t")[0]
    assert row == "default/job7/look"
    ask("--session", row, "2")
    ask("--session", "job7", "--project", "default", "--session-key", "look", "3")
    assert len(shell.turns(row)) == 3
    assert len(shell("sessions", "list").out.splitlines()) == 1
    failed = ask("--session", "job7", "--session-key", "look", "4")
    assert "ask --session job7 --session-key look --provider" in failed.err


def test_a_service_that_is_not_there_was_never_connected(shell: Shell) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        child = shell.start("ask", "--provider", "mine", "-m", "m", "--base-url", url, "hi")
        assert child.process.stderr is not None
        lines = [child.process.stderr.readline().decode() for _ in range(2)]
        child.kill()
    assert "trying again (1 of 10): No connection to " in lines[1]


def test_a_failed_turn_is_the_last_line_of_json(ask: Ask, fake: FakeServer) -> None:
    fake.script(error(400, "the model is asleep"))
    done = ask("--session", "s", "--json", "hi")
    result = done.lines[-1]
    assert (done.status, result["status"], result["reason"]) == (1, "failed", "model_error")
    assert "asleep" in result["detail"]


def test_a_busy_session_names_its_holder(shell: Shell, model: list[str], ask: Ask, fake: FakeServer) -> None:
    held = gate()
    fake.script(text("one ", "two").hold(held, before=1))
    child = shell.start("ask", *model, "--session", "s", "hi")
    child.read("one ")
    done = ask("--session", "s", "me too")
    assert done.status == 1
    assert f"process {child.process.pid}" in done.problem
    assert done.problem.startswith("The session 's' is already open")
    held.open()
    assert child.end().status == 0


def test_retries_are_one_line_each_and_do_not_break_the_answer(ask: Ask, fake: FakeServer) -> None:
    fake.script(drop_after("The total is "), text("41."))
    done = ask("--session", "s", "count")
    assert (done.status, done.out) == (0, "The total is 41.\n")
    assert [line for line in done.err.splitlines() if "connection lost (1 of 10)" in line]


def test_a_tool_that_fails_is_shown_as_failed(ask: Ask, fake: FakeServer) -> None:
    fake.script(tools(call("read", {"path": "no-such-file.txt"})), text("There is none."))
    done = ask("--session", "s", "read it")
    assert done.err.startswith("· read no-such-file.txt  failed: ")


def test_what_nobody_expected_is_one_line_and_a_way_to_see_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object) -> int:
        raise ZeroDivisionError("one\ntwo")

    monkeypatch.setattr("conversation.ask.ask", broken)
    assert cli.main(["ask", "hi"]) == 1
    assert capsys.readouterr().err == (
        "agent-nodes: unexpected ZeroDivisionError: one two. Set AGENT_NODES_DEBUG=1 to see where.\n"
    )
    monkeypatch.setenv("AGENT_NODES_DEBUG", "1")
    assert cli.main(["ask", "hi"]) == 1
    assert "in broken" in capsys.readouterr().err


def test_a_key_in_an_unexpected_error_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " sk-secret ")
    assert problem(ValueError("bad header: sk-secret\x1b")).startswith(
        "unexpected ValueError: bad header: [OPENAI_API_KEY]. "
    )


def test_what_nobody_expected_in_a_turn_is_told_the_same_way(
    monkeypatch: pytest.MonkeyPatch, inside: Ask, shell: Shell
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("conversation.host.ConversationHost.start", broken)
    done = inside("ask", "--provider", "demo", "--session", "s", "hi")
    assert (done.status, "unexpected ZeroDivisionError: oh." in done.problem) == (1, True)
    monkeypatch.setenv("AGENT_NODES_DEBUG", "1")
    assert "in broken" in inside("ask", "--provider", "demo", "--session", "s", "hi").err


def test_a_folder_that_cannot_be_written_is_said(inside: Ask, shell: Shell) -> None:
    shell.home.write_text("a file")
    done = inside("ask", "--provider", "demo", "hi")
    assert done.status == 1
    assert str(shell.home) in done.problem


# -- help --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--help"], "sessions show KEY"),
        (["ask", "--help"], "--permission-policy"),
        (["sessions", "--help"], "list|show"),
        (["sessions", "list", "-h"], "--json"),
        (["sessions", "show", "-h"], "--session-key"),
        (["--version"], "agent-nodes 0."),
    ],
)
def test_help_is_an_answer(inside: Ask, arguments: list[str], shown: str) -> None:
    done = inside(*arguments)
    assert done.status == 0
    assert shown in done.out
    assert done.err == ""


def test_no_command_shows_what_there_is(inside: Ask) -> None:
    done = inside()
    assert (done.status, done.out) == (2, "")
    assert "usage: agent-nodes" in done.err


def test_a_turn_loads_none_of_the_heavy_libraries(shell: Shell) -> None:
    script = (
        "import json, sys\nfrom conversation.cli import main\nlight = set(sys.modules)\nstatus = main(['ask', 'hi'])\n"
        "print(json.dumps([status, sorted(light), sorted(sys.modules)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, **shell.environment},
        cwd=shell.folder,
        timeout=60,
        check=True,
    )
    status, light, loaded = json.loads(done.stdout.splitlines()[-1])
    assert status == 0
    assert not {"asyncio", "pydantic", "sqlite3", "rich"} & set(light)
    heavy = {"prefect", "sqlmodel", "sqlalchemy", "anthropic", "openai", "typer", "rich", "httpx2", "platformdirs"}
    assert not heavy & set(loaded)
