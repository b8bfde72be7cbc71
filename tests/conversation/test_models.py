"""`agent-nodes models`, and the models of agent-nodes.toml on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_nodes.providers.known import listed
from tests.conversation.shell import Ask, Shell
from tests.conversation.test_terminal import on_terminal, screen
from tests.fakes import FakeServer, call, error, text, tools

KEY = "sk-gateway-very-secret-0123456789"

FILE = """
[models.fast]
provider = "my-gateway"
model = "vendor/model-1"
base_url = "{address}"
api_key_env = "GATEWAY_KEY"
attributes = {{ name = "Vendor One", context_window = 9000, input = ["text"] }}

[models.deep]
provider = "anthropic"
model = "claude-opus-5-5"
effort = "max"
"""


@pytest.fixture
def configured(shell: Shell, fake: FakeServer) -> Path:
    """A file with two models, one of them at the fake service."""
    file = shell.folder / "agent-nodes.toml"
    file.write_text(FILE.format(address=fake.v1))
    shell.environment["GATEWAY_KEY"] = KEY
    return file


# -- the list ----------------------------------------------------------------------------------------------------------


@pytest.mark.feature("C06")
def test_configured_models_come_first_then_the_built_in_ones_by_maker(inside: Ask, configured: Path) -> None:
    done = inside("models")
    assert (done.status, done.err) == (0, "")
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert rows[0] == ["fast", "my-gateway", "vendor/model-1", "9000", "", "", "", "", "", "", "no"]
    assert rows[1][:5] == ["deep", "anthropic", "claude-opus-5-5", "1000000", "128000"]
    assert [row[0] for row in rows[2:]] == [id for _, id, _ in listed()]
    makers = [row[1] for row in rows[2:]]
    assert list(dict.fromkeys(makers)) == [maker for n, maker in enumerate(makers) if n == 0 or makers[n - 1] != maker]
    opus = next(row for row in rows if row[0] == "claude-opus-5")
    efforts = "off low medium high xhigh max"
    assert opus[1:] == ["anthropic", "claude-opus-5", "1000000", "128000", "5", "25", "0.5", "6.25", efforts, "yes"]


@pytest.mark.feature("C06")
def test_json_is_one_line_a_model(inside: Ask, configured: Path) -> None:
    lines = inside("models", "--json").lines
    assert lines[0] == {
        "id": "fast",
        "file": str(configured),
        "provider": "my-gateway",
        "model": "vendor/model-1",
        "name": "Vendor One",
        "context_window": 9000,
        "max_tokens": None,
        "cost": None,
        "efforts": None,
        "images": False,
        "reasoning": True,
        "web_search": None,
    }
    by_id = {line["id"]: line for line in lines}
    assert by_id["gpt-4.1"]["efforts"] == []
    assert by_id["gpt-5"]["efforts"] == ["minimal", "low", "medium", "high"]
    assert by_id["gpt-5"]["cost"] == {"input": 1.25, "output": 10, "cache_read": 0.125, "cache_write": 1.25}
    assert len(lines) == 2 + len(list(listed()))


def test_a_word_narrows_the_list(inside: Ask, configured: Path) -> None:
    ids = [line.split("\t")[0] for line in inside("models", "OPUS-5").out.splitlines()]
    assert ids == ["deep", "claude-opus-5", "claude-opus-5-5"], "in the id of its model too"
    assert [line.split("\t")[0] for line in inside("models", "vendor one").out.splitlines()] == ["fast"]
    done = inside("models", "nothing-like-it")
    assert (done.status, done.out) == (0, "")
    assert "'nothing-like-it'" in done.problem
    assert (inside("models", "nothing-like-it", "--json").out) == ""


@pytest.mark.parametrize("columns", [40, 64, 120])
def test_the_table_fits_the_terminal(shell: Shell, configured: Path, columns: int) -> None:
    lines = screen(on_terminal(shell, "models", columns=columns))
    assert max(len(line) for line in lines) <= columns
    assert lines[0].split()[:2] == ["model", "window"]
    row = next(line for line in lines if line.startswith("claude-haiku-4-5"))
    assert row.split()[:4] == ["claude-haiku-4-5", "200k", "1", "5"]
    assert ("64k" in row, "off minimal low" in row) == (columns >= 64, columns >= 96)
    assert [line.strip() for line in lines if line.strip() in ("configured", "anthropic", "openai")] == [
        "configured",
        "anthropic",
        "openai",
    ]


def test_a_mistake_in_the_file_is_told_in_its_own_words(inside: Ask, configured: Path) -> None:
    configured.write_text('[models.a]\nprovider = "x"\nbase_ulr = "y"')
    for arguments in (["models"], ["ask", "-m", "a", "hi"]):
        done = inside(*arguments)
        assert done.status == 2
        assert done.problem == f"{configured}: models.a.base_ulr: unknown; did you mean base_url?"


def test_wrong_usage_of_models_is_one_line(inside: Ask) -> None:
    assert inside("models", "--jsn").status == 2
    assert "did you mean models?" in inside("model").problem
    assert inside("models", "--help").out.startswith("usage: agent-nodes models")


# -- ask ---------------------------------------------------------------------------------------------------------------


@pytest.mark.feature("C06")
def test_a_configured_model_answers_under_its_id(shell: Shell, fake: FakeServer, configured: Path) -> None:
    fake.script(text("hello"))
    done = shell("ask", "-m", "fast", "--session", "s", "hi")
    assert (done.status, done.out) == (0, "hello\n"), done.err
    request = fake.requests[0]
    assert (request.path, request.model) == ("/v1/chat/completions", "vendor/model-1")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert f"fast is my-gateway at {fake.v1}, by {configured}" in done.err
    assert KEY not in done.out + done.err


@pytest.mark.feature("C06")
def test_the_effort_of_an_entry_is_used_and_what_is_given_comes_first(shell: Shell, fake: FakeServer) -> None:
    (shell.folder / "agent-nodes.toml").write_text(
        '[models.deep]\nprovider = "openai"\nmodel = "gpt-6.1-sol"\neffort = "max"\n'
    )
    shell.environment |= {"OPENAI_API_KEY": "sk-o", "OPENAI_BASE_URL": fake.v1}
    for options, effort in (((), "max"), (("--effort", "low"), "low")):
        fake.script(text("hello"))
        done = shell("ask", "-m", "deep", *options, "hi")
        assert done.status == 0, done.err
        assert fake.requests[-1].json["reasoning"]["effort"] == effort
        assert "by " not in done.err, "the service's own address needs no word"


def test_the_key_of_the_file_goes_to_no_other_address(shell: Shell, fake: FakeServer, configured: Path) -> None:
    with FakeServer.in_thread(strict=False) as other:
        other.script(text("other"))
        done = shell("ask", "-m", "fast", "--base-url", other.v1, "hi")
        assert (done.status, done.out) == (0, "other\n"), done.err
        assert KEY not in json.dumps(other.requests[0].headers)
        assert configured.name not in done.err
    assert fake.requests == []


def test_at_another_provider_the_id_is_that_providers_model(shell: Shell, configured: Path) -> None:
    with FakeServer.in_thread(strict=False) as other:
        other.script(text("hello"))
        done = shell("ask", "-m", "fast", "--provider", "other", "--base-url", other.v1, "hi")
        assert done.status == 0, done.err
        assert other.requests[0].model == "fast"
        assert "authorization" not in other.requests[0].headers


def test_a_key_that_is_not_there_is_named_by_its_variable(shell: Shell, fake: FakeServer, configured: Path) -> None:
    done = shell("ask", "-m", "fast", "hi", GATEWAY_KEY="")
    assert done.status == 2
    assert "models.fast.api_key_env: the variable GATEWAY_KEY is not set" in done.problem
    assert fake.requests == []
    assert not shell.home.exists()


def test_a_configured_key_is_never_printed_or_stored(shell: Shell, fake: FakeServer, configured: Path) -> None:
    fake.script(error(401, f"the key {KEY} is wrong"))
    done = shell("ask", "--json", "-m", "fast", "hi")
    assert done.status == 1
    assert KEY not in done.out + done.err
    assert not [path for path in shell.home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_commands_of_a_configured_model_do_not_see_its_key(shell: Shell, fake: FakeServer, configured: Path) -> None:
    fake.script(tools(call("bash", {"command": "env; echo done"}, id="c1")), text("seen"))
    assert shell("ask", "-m", "fast", "hi").status == 0
    output = fake.requests[1].results()["c1"]
    assert "done" in output
    assert "AGENT_NODES_HOME" in output
    assert KEY not in output


def test_the_line_that_goes_on_names_the_configured_model(shell: Shell, fake: FakeServer, configured: Path) -> None:
    fake.script(error(400, "the model is asleep"), text("awake"))
    done = shell("ask", "-m", "fast", "--session", "s", "hi")
    assert "agent-nodes ask --session s --model fast --reopen" in done.err
    assert shell("ask", "--session", "s", "--model", "fast", "--reopen").out == "awake\n"


@pytest.mark.feature("C02")
def test_cl_04_a_wrong_attribute_is_named_before_anything_is_sent(shell: Shell, fake: FakeServer) -> None:
    shell.environment |= {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": fake.v1}
    done = shell("ask", "--model-attributes", '{"contextWindwo":5}', "hi")
    assert done.status == 2
    assert done.problem == "--model-attributes: contextWindwo: unknown field; did you mean context_window?"
    assert KEY not in done.err
    assert fake.requests == []
    assert not shell.home.exists()


@pytest.mark.feature("C02")
def test_attributes_and_effort_are_given_on_the_command_line(shell: Shell, fake: FakeServer) -> None:
    shell.environment |= {"OPENAI_API_KEY": "sk-o", "OPENAI_BASE_URL": fake.v1}
    fake.script(text("hello"))
    attributes = '{"context_window": 9000, "thinking_level_map": {"low": "medium"}}'
    done = shell("ask", "--json", "-m", "m", "--effort", "low", "--model-attributes", attributes, "hi")
    assert done.status == 0, done.err
    assert fake.requests[0].json["reasoning"]["effort"] == "medium"
    assert next(line for line in done.lines if line["type"] == "context_usage")["total"] == 9000
    done = shell("ask", "--effort", "huge", "hi")
    assert (done.status, "'huge'" in done.problem) == (2, True)


def test_a_turn_without_a_model_option_reads_no_file(shell: Shell, configured: Path) -> None:
    configured.write_text("broken")
    assert shell("ask", "--provider", "demo", "hi").status == 0
