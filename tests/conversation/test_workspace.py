"""Models configured in agent-nodes.toml: what is read, who wins, and that every mistake is named by its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_nodes import AgentModelAttributes, InputValidationError
from agent_nodes.runtime_options import agent_options
from conversation.workspace import CONFIG, FILE, ConfiguredModel, load_models, options_of

WHOLE = """
[models.fast]
provider = "my-gateway"
model = "vendor/model-1"
base_url = "http://127.0.0.1:8080/v1"
api_kind = "openai-responses"
api_key_env = "GATEWAY_KEY"
effort = "low"
context_window = 100_000
max_tokens = 4_000

[models.fast.attributes]
name = "Vendor Model 1"
input = ["text"]
cost = { input = 0.4, output = 1.6, cache_read = 0, cache_write = 0.5 }
thinking_level_map = { minimal = false, max = "xhigh" }

[models."anthropic/best"]
provider = "anthropic"
"""


@pytest.fixture(autouse=True)
def no_file_of_the_developer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def written(folder: Path, text: str, name: str = FILE) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def mistake(folder: Path, text: str | bytes) -> InputValidationError:
    (folder / FILE).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputValidationError) as caught:
        load_models(folder)
    assert caught.value.message.startswith(f"{folder / FILE}: ")
    return caught.value


@pytest.mark.feature("C06")
def test_an_entry_is_read_with_all_its_fields(tmp_path: Path) -> None:
    file = written(tmp_path, WHOLE)
    fast, best = load_models(tmp_path)
    assert fast == ConfiguredModel(
        id="fast",
        file=file,
        provider="my-gateway",
        model="vendor/model-1",
        base_url="http://127.0.0.1:8080/v1",
        api_kind="openai-responses",
        api_key_env="GATEWAY_KEY",
        effort="low",
        context_window=100_000,
        max_tokens=4_000,
        attributes=AgentModelAttributes(
            name="Vendor Model 1",
            input=["text"],
            cost={"input": 0.4, "output": 1.6, "cache_read": 0, "cache_write": 0.5},
            thinking_level_map={"minimal": None, "max": "xhigh"},
        ),
    )
    assert best == ConfiguredModel(id="anthropic/best", file=file, provider="anthropic")


@pytest.mark.feature("C06")
def test_an_entry_becomes_options_that_an_agent_takes(tmp_path: Path) -> None:
    written(tmp_path, WHOLE)
    fast, best = load_models(tmp_path)
    options = options_of(fast, {"GATEWAY_KEY": " k-1\n"})
    assert options == {
        "provider": "my-gateway",
        "model": "vendor/model-1",
        "base_url": "http://127.0.0.1:8080/v1",
        "api_kind": "openai-responses",
        "api_key": "k-1",
        "effort": "low",
        "context_window": 100_000,
        "max_tokens": 4_000,
        "model_attributes": fast.attributes,
    }
    assert agent_options(options).model_attributes is fast.attributes
    assert options_of(best, {}) == {"provider": "anthropic"}


def test_a_variable_that_is_not_set_is_named(tmp_path: Path) -> None:
    file = written(tmp_path, WHOLE)
    for environ in ({}, {"GATEWAY_KEY": " "}):
        with pytest.raises(InputValidationError) as caught:
            options_of(load_models(tmp_path)[0], environ)
        assert str(caught.value).startswith(f"{file}: models.fast.api_key_env: the variable GATEWAY_KEY is not set")


@pytest.mark.feature("C06")
def test_the_project_wins_over_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    ours = written(project, '[models.a]\nprovider = "demo"\n[models.b]\nprovider = "openai"')
    theirs = written(
        tmp_path / "config" / "agent-nodes", '[models.c]\nprovider = "openai"\n[models.a]\nprovider = "openai"'
    )
    found = [(model.id, model.provider, model.file) for model in load_models(project)]
    assert found == [("a", "demo", ours), ("b", "openai", ours), ("c", "openai", theirs)]
    assert [model.file for model in load_models(tmp_path)] == [theirs, theirs], "only this folder's own file counts"
    named = written(tmp_path, '[models.d]\nprovider = "openai"', "mine.toml")
    monkeypatch.setenv(CONFIG, str(named))
    assert [model.id for model in load_models(project)] == ["a", "b", "d"]


def test_no_file_is_no_model_but_a_named_one_must_be_there(tmp_path: Path) -> None:
    assert load_models(tmp_path) == []
    with pytest.raises(InputValidationError, match=r"gone\.toml: cannot be read \(No such file"):
        load_models(tmp_path, {CONFIG: str(tmp_path / "gone.toml")})
    assert load_models(tmp_path, {CONFIG: ""}) == []


@pytest.mark.feature("C06")
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("pipe", "is no regular file"),
        ("endless", "is no regular file"),
        ("folder", "is no regular file"),
        ("looping", "cannot be read (Too many levels of symbolic links)"),
        ("leading nowhere", "cannot be read (No such file"),
        ("large", "is larger than 1,000,000 bytes"),
    ],
)
def test_a_file_that_cannot_be_read_to_its_end_is_named_and_never_waited_for(
    tmp_path: Path, kind: str, said: str
) -> None:
    file = tmp_path / FILE
    match kind:
        case "pipe":
            os.mkfifo(file)
        case "endless":
            file.symlink_to("/dev/zero")
        case "folder":
            file.mkdir()
        case "looping":
            file.symlink_to(FILE)
        case "leading nowhere":
            file.symlink_to("gone")
        case _:
            file.write_text("#" * 1_000_001)
    for folder, environ in ((tmp_path, {}), (tmp_path.parent, {CONFIG: str(file)})):
        with pytest.raises(InputValidationError) as caught:
            load_models(folder, environ)
        assert caught.value.message.startswith(f"{file}: {said}")


def test_a_file_without_models_and_one_with_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    written(tmp_path, "")
    assert load_models(tmp_path) == []
    written(tmp_path, '\ufeff[models.a]\r\nprovider = "demo"\r\n')
    assert [model.id for model in load_models(tmp_path)] == ["a"]


@pytest.mark.feature("C06")
@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ("[model.a]", "model", "did you mean models?"),
        ("models = 5", "models", "[models.ID]"),
        ("[models]\na = 5", "models.a", "must be a table"),
        ('[models.""]\nprovider = "demo"', "models.''", "must be a name"),
        ("[models.a]", "models.a.provider", "missing"),
        ("[models.a]\nprovider = 5", "models.a.provider", "a name"),
        ('[models.a]\nprovider = " "', "models.a.provider", "a name"),
        ('[models.a]\nprovider = "demo"\nbase_ulr = "x"', "models.a.base_ulr", "did you mean base_url?"),
        ('[models.a]\nprovider = "demo"\nbaseUrl = "x"', "models.a.baseUrl", "did you mean base_url?"),
        ('[models.a]\nprovider = "demo"\ncolour = "x"', "models.a.colour", "known: provider, model"),
        ('[models.a]\nprovider = "demo"\neffort = "huge"', "models.a.effort", "off, minimal"),
        ('[models.a]\nprovider = "demo"\ncontext_window = true', "models.a.context_window", "whole number"),
        ('[models.a]\nprovider = "demo"\nmax_tokens = 0', "models.a.max_tokens", "whole number"),
        ('[models.a]\nprovider = "demo"\nbase_url = "http://x"', "models.a.base_url", "no endpoint"),
        ('[models.a]\nprovider = "openai"\napi_kind = "soap"', "models.a.api_kind", "none of"),
        ('[models.a]\nprovider = "mine"\nmodel = "m"', "models.a.base_url", "missing"),
        ('[models.a]\nprovider = "mine"\nbase_url = "http://x"', "models.a.model", "missing"),
        ('[models.a]\nprovider = "mine"\nmodel = "m"\nbase_url = "x"', "models.a.base_url", "http://"),
        ('[models."a b"]\nprovider = 5', "models.'a b'.provider", "a name"),
        ("[models.a]\nprovider = \"demo\"\nattributes = 'x'", "models.a.attributes", "must be a table"),
        (
            '[models.a]\nprovider = "demo"\nattributes = { contextWindwo = 5 }',
            "models.a.attributes.contextWindwo",
            "did you mean context_window?",
        ),
        (
            '[models.a]\nprovider = "demo"\nattributes = { thinking_level_map = { ultra = false } }',
            "models.a.attributes.thinking_level_map.ultra",
            "map max instead",
        ),
        (
            '[models.a]\nprovider = "demo"\nattributes = { thinking_level_map = { max = true } }',
            "models.a.attributes.thinking_level_map.max",
            "string",
        ),
        (
            '[models.a]\nprovider = "demo"\nattributes = { max_tokens = inf }',
            "models.a.attributes.max_tokens",
            "integer",
        ),
    ],
)
def test_a_mistake_is_named_by_file_entry_and_field(tmp_path: Path, text: str, field: str, said: str) -> None:
    error = mistake(tmp_path, text)
    assert error.field == field
    assert f": {field}: " in error.message
    assert said in error.message


@pytest.mark.feature("C06")
def test_a_key_in_the_file_is_refused_and_not_shown(tmp_path: Path) -> None:
    entry = '[models.a]\nprovider = "openai"\n'
    error = mistake(tmp_path, entry + 'api_key = "sk-hush"')
    assert error.field == "models.a.api_key"
    assert 'api_key_env = "MY_KEY"' in error.message
    assert "hush" not in error.message
    for value in ("sk-hush", "skhush123", "$MY_KEY", "hush"):
        error = mistake(tmp_path, f'{entry}api_key_env = "{value}"')
        assert error.field == "models.a.api_key_env"
        assert "never the key itself" in error.message
        assert value not in error.message
    error = mistake(tmp_path, '[models.a]\nprovider = "mine"\nmodel = "m"\nbase_url = "http://me:hush@x"')
    assert "hush" not in error.message


@pytest.mark.feature("C06")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[models.a\n", "no TOML"),
        ('[models.a]\nprovider = "x\n', "line 2"),
        ("[models.a]\n[models.a]\n", "line 2"),
        (b"[models.a]\nprovider = '\xff'", "no UTF-8 text (byte 24)"),
        ("x = " + "[" * 100_000, "no TOML: it is nested too deeply"),
    ],
)
def test_what_is_no_toml_is_said_with_its_line(tmp_path: Path, text: str | bytes, said: str) -> None:
    assert said in mistake(tmp_path, text).message
