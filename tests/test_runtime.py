"""The doors of the runtime: options, inputs, storage, owners."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import agent_nodes
from agent_nodes import (
    AgentInput,
    AgentTool,
    InputValidationError,
    SessionBusy,
    SessionFileError,
    SessionLost,
    StorageError,
    ToolPermissionDefinition,
    create_agent,
    memory_storage,
    sqlite_storage,
)
from agent_nodes.errors import UpstreamError
from tests.support import ENTRY, model_of, scripted, take, tool


def own_tool(**changes: Any) -> AgentTool:
    async def execute(arguments: dict[str, Any], context: Any) -> str:
        return "x"

    given = {"name": "own", "description": "d", "parameters": {"type": "object"}, "execute": execute}
    return AgentTool(**{**given, **changes})


@pytest.mark.feature("A01")
@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"modle": "x"}, "modle"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"database_path": ""}, "database_path"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"context_window": -1}, "context_window"),
        ({"stall_timeout": 0}, "stall_timeout"),
        ({"permission_policy": "root"}, "permission_policy"),
        ({"api_kind": "soap"}, "api_kind"),
        ({"tools": ["raed"]}, "tools"),
        ({"tools": "read"}, "tools"),
        ({"workdir": "/no/such/folder"}, "workdir"),
        ({"workdir": "a\0b"}, "workdir"),
        ({"workdir": "\ud800"}, "workdir"),
        ({"workdir": 5}, "workdir"),
        ({"allowed_directories": [5]}, "allowed_directories.0"),
        ({"bad key\n": 1}, "'bad key\\n'"),
        ({"allowed_directories": ["/no/such/folder"]}, "allowed_directories"),
        ({"extra_tools": ["read"]}, "extra_tools"),
        ({"database_path": "a.sqlite", "storage": memory_storage()}, "storage"),
        ({"storage": "sqlite"}, "storage"),
        ({"storage": Path("s.sqlite")}, "database_path"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"context_window": 10**30}, "context_window"),
        *(({name: "\ud800"}, name) for name in ("model", "provider", "base_url", "api_key", "system_prompt")),
        ({"effort": "hihg"}, "effort"),
        ({"session_id": " "}, "session_id"),
        ({"session_id": "a\0b"}, "session_id"),
        ({"session_id": "\ud800"}, "session_id"),
        ({"session_id": "x" * 201}, "session_id"),
        ({"file_store": object()}, "file_store"),
        ({"models": {}}, "models"),
        ({"resolved_model": "m"}, "resolved_model"),
        ({"resolved_model": replace(ENTRY, api="soap"), "provider": None}, "resolved_model: api"),
        ({"resolved_model": replace(ENTRY, context_window=10**30), "provider": None}, "resolved_model: context_window"),
        ({"resolved_model": ENTRY, "model": "m", "provider": None}, "model"),
        ({"tool_definitions": [{"name": "raed"}]}, "tool_definitions.0.name"),
        ({"tool_definitions": [{"name": "read"}, {"name": "read"}]}, "tool_definitions.1.name"),
        ({"tool_definitions": [{"name": "read", "enabeld": False}]}, "tool_definitions.0.enabeld"),
        ({"tool_definitions": "read"}, "tool_definitions"),
        ({"session": {}}, "session"),
        ({"web_search": True}, "web_search"),
        ({"model_attributes": {"nmae": "x"}}, "model_attributes.nmae"),
        ({"provider": "own", "model": "m"}, "base_url"),
    ],
)
async def test_a_wrong_option_is_named_before_anything_is_opened(options, field, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"provider": "demo", "database_path": tmp_path / "s.sqlite", **options}
    if "storage" in options:
        given.pop("database_path", None)
        given |= options
    with pytest.raises(InputValidationError) as caught:
        await create_agent(**given)
    assert field in str(caught.value)
    assert caught.value.code == "input_validation"
    assert "\n" not in str(caught.value)
    assert "lax" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.feature("A08")
async def test_without_a_model_the_library_says_what_to_set():
    with pytest.raises(InputValidationError) as caught:
        await create_agent()
    assert caught.value.field == "provider"
    with pytest.raises(InputValidationError) as caught:
        await create_agent(provider="anthropic")
    assert "ANTHROPIC_API_KEY" in str(caught.value)


@pytest.mark.feature("A08")
async def test_keys_and_addresses_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-from-env")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    async with create_agent(provider="anthropic") as agent:
        entry = agent.harness.engine.config.base.model
        assert (entry.base_url, entry.api) == ("http://127.0.0.1:9", "anthropic-messages")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    async with create_agent(provider="openai") as agent:
        assert agent.harness.engine.config.base.model.api == "openai-responses"


def test_the_key_is_not_shown_by_the_options():
    from agent_nodes.runtime_options import agent_options

    assert "sk-very" not in repr(agent_options({"api_key": "sk-very-secret"}))


@pytest.mark.feature("A01")
async def test_the_agent_is_awaited_or_used_as_a_block(tmp_path):
    path = tmp_path / "s.sqlite"
    agent = await create_agent(provider="demo", database_path=path, workdir=tmp_path)
    assert (await take(agent.run("hi"))).run.result is not None
    await agent.close()
    await agent.close()
    async with create_agent(provider="demo", database_path=path, workdir=tmp_path) as agent:
        assert agent.session_id


WRONG_INPUTS = [
    "",
    " \n",
    {"prompt": ""},
    {},
    {"promt": "x"},
    {"prompt": 5},
    {"request_id": " "},
    {"request_id": "a\ud800"},
    5,
]


@pytest.mark.parametrize("given", WRONG_INPUTS)
@pytest.mark.feature("B01")
async def test_a_wrong_input_is_named(given):
    async with scripted("text: x") as agent:
        with pytest.raises(InputValidationError):
            agent.run(given)
        assert model_of(agent).requests == []


@pytest.mark.parametrize("name", ["compact", "plan_resume", "ask_resume", "agent", "web_search"])
async def test_an_input_field_that_does_not_work_yet_is_refused_by_name(name):
    async with scripted("text: x") as agent:
        with pytest.raises(InputValidationError) as caught:
            agent.run({"prompt": "x", name: "y"})
        assert name in str(caught.value)


async def test_a_wrong_host_is_named():
    async with scripted("text: x") as agent:
        for host in ({"on_evnt": print}, {"on_event": 5}, {"abort_signal": True}, 5):
            with pytest.raises(InputValidationError) as caught:
                agent.run("x", host)
            assert "host" in str(caught.value)


@pytest.mark.feature("A10")
async def test_an_error_of_an_earlier_node_is_passed_on_without_a_model():
    async with scripted("text: x") as agent:
        outcome = await take(agent.run(AgentInput(prompt="go", err_code=7, err_message="upstream broke")))
        assert isinstance(outcome.error, UpstreamError)
        assert (outcome.error.err_code, outcome.error.err_message) == (7, "upstream broke")
        assert outcome.run.result is not None
        assert outcome.run.result.status == "failed"
        assert model_of(agent).requests == []


@pytest.mark.feature("D04")
@pytest.mark.parametrize(
    "changes",
    [
        {"name": "no spaces"},
        {"name": ""},
        {"name": "a" * 65},
        {"name": 5},
        {"description": 5},
        {"parameters": {"type": "object", "x": {1, 2}}},
        {"parameters": {"type": "string"}},
        {"execute": 5},
        {"replay": "always"},
        {"execution": "random"},
    ],
)
def test_a_wrong_tool_is_named_when_it_is_made(changes):
    with pytest.raises(InputValidationError) as caught:
        own_tool(**changes)
    assert next(iter(changes)) in (caught.value.field, str(caught.value))


@pytest.mark.feature("D04")
async def test_a_tool_may_not_take_a_built_in_name():
    with pytest.raises(InputValidationError, match="read"):
        await create_agent(provider="demo", extra_tools=[own_tool(name="read")])


@pytest.mark.feature("M01")
async def test_a_session_in_memory_ends_with_its_runtime_and_keeps_its_turns_until_then():
    async with scripted("text: one", "text: two", storage=memory_storage()) as agent:
        await take(agent.run({"prompt": "a", "request_id": "r"}))
        await take(agent.run("b"))
        assert (await take(agent.run({"request_id": "r"}))).text == "one"


@pytest.mark.feature("M01")
async def test_a_storage_factory_takes_the_place_of_a_path_and_is_released(tmp_path):
    path = tmp_path / "s.sqlite"
    async with scripted("text: one", storage=sqlite_storage(path)) as agent:
        await take(agent.run({"prompt": "a", "request_id": "r"}))
    async with scripted("text: never", database_path=str(path)) as agent:
        assert (await take(agent.run({"request_id": "r"}))).text == "one"


@pytest.mark.feature("M01")
async def test_du_03_a_second_owner_is_refused_and_told_who_has_it(tmp_path):
    path = tmp_path / "s.sqlite"
    link = tmp_path / "link.sqlite"
    async with scripted("text: one", database_path=path) as agent:
        link.symlink_to(path)
        before = path.read_bytes()
        for way in (path, link, Path(os.path.relpath(path))):
            script = (
                "import asyncio, sys\n"
                "from agent_nodes import create_agent, SessionBusy\n"
                "async def main():\n"
                "    try:\n"
                f"        await create_agent(provider='demo', database_path={str(way)!r})\n"
                "    except SessionBusy as error:\n"
                "        print(error.pid, error)\n"
                "asyncio.run(main())\n"
            )
            done = await asyncio.to_thread(
                subprocess.run, [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True
            )
            assert done.stdout.startswith(f"{os.getpid()} ")
        with pytest.raises(SessionBusy):
            await create_agent(provider="demo", database_path=path)
        assert path.read_bytes() == before
        assert (await take(agent.run("go"))).text == "one"


@pytest.mark.feature("M04")
@pytest.mark.parametrize("what", ["text", "noise", "newer"])
async def test_du_07_a_file_that_is_no_sound_session_is_refused_untouched(what, tmp_path):
    path = tmp_path / "s.sqlite"
    if what == "text":
        path.write_text("just some notes\n" * 400)
    else:
        async with scripted("text: one", database_path=path) as agent:
            for n in range(5):
                model_of(agent)._scripts = ["text: " + "word " * 300]  # type: ignore[attr-defined]
                await take(agent.run(f"prompt {n} " + "x" * 2000))
        if what == "noise":
            with path.open("r+b") as file:
                file.seek(4096)
                file.write(os.urandom(4096))
        else:
            connection = sqlite3.connect(path)
            connection.execute("PRAGMA user_version = 999")
            connection.commit()
            connection.close()
    before = path.read_bytes()
    with pytest.raises(SessionFileError) as caught:
        await create_agent(provider="demo", database_path=path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    if what == "text":
        assert list(tmp_path.iterdir()) == [path]
    async with scripted("text: fine", database_path=tmp_path / "other.sqlite") as agent:
        assert (await take(agent.run("go"))).text == "fine"


async def test_du_07_an_empty_file_is_a_new_session(tmp_path):
    path = tmp_path / "s.sqlite"
    path.touch()
    async with scripted("text: fine", database_path=path) as agent:
        assert (await take(agent.run("go"))).text == "fine"


async def test_du_11_a_full_disk_stops_the_run_before_the_tool(tmp_path):
    paid: list[str] = []

    async def pay(arguments: dict[str, Any], context: Any) -> str:
        paid.append("pay")
        return "paid"

    path = tmp_path / "s.sqlite"
    own = [tool("pay", pay)]
    script = ["text: " + "long " * 2_000 + "\ncall: pay", "text: done"]
    async with scripted(*script, database_path=path, extra_tools=own) as agent:
        connection = agent.harness.engine.line._connection
        assert connection is not None

        def limit(label: str, changes: object, seq: int) -> None:
            if label == "admit+intent":
                now = connection.execute("PRAGMA page_count").fetchone()[0]
                connection.execute(f"PRAGMA max_page_count={now}")

        agent.harness.engine.line.subscribe(limit)
        outcome = await take(agent.run({"prompt": "go", "request_id": "r"}))
        assert isinstance(outcome.error, StorageError)
        assert paid == []
        connection.execute("PRAGMA max_page_count=1000000")
    async with scripted(*script, database_path=path, extra_tools=own) as agent:
        outcome = await take(agent.run({"prompt": "go", "request_id": "r"}))
        assert outcome.text.endswith("done")
        assert paid == ["pay"]


async def test_a_storage_fault_leaves_an_agent_that_goes_on_when_it_is_over(tmp_path):
    path = tmp_path / "s.sqlite"
    async with scripted("text: one", "text: two", database_path=path) as agent:
        storage = agent.harness.engine.line.storage
        broken = True

        def observe(point: str, label: str) -> None:
            if broken and label == "answer.settle":
                raise StorageError("database or disk is full")

        storage.observe = observe
        outcome = await take(agent.run({"prompt": "go", "request_id": "r"}))
        assert isinstance(outcome.error, StorageError)
        assert [turn.request_id for turn in agent.unfinished()] == ["r"]
        broken = False
        outcome = await take(agent.run({"prompt": "go", "request_id": "r"}))
        assert outcome.error is None
        assert outcome.text.endswith("two")


def test_the_public_names_are_these():
    assert agent_nodes.__all__ == sorted(agent_nodes.__all__)
    listed = set((Path(__file__).parent / "public_names.txt").read_text().split())
    assert set(agent_nodes.__all__) == listed
    for name in agent_nodes.__all__:
        assert getattr(agent_nodes, name) is not None


@pytest.mark.feature("C06")
async def test_the_demo_model_answers_from_the_files_it_read(tmp_path):
    (tmp_path / "README.md").write_text("# Harbour lights\nA list of lamps along the quay.\n")
    async with create_agent(provider="demo", workdir=tmp_path) as agent:
        outcome = await take(agent.run("What is in this folder?"))
        assert outcome.error is None
        assert "README.md" in outcome.text
        assert "lamps along the quay" in outcome.text
        assert "start:ls" in outcome.brief()
        assert "start:read" in outcome.brief()


async def test_an_agent_that_was_not_awaited_says_so():
    with pytest.raises(AttributeError, match="await create_agent"):
        create_agent(provider="demo").run("hi")  # type: ignore[attr-defined]


async def test_a_misspelt_option_is_told_what_it_is_close_to():
    with pytest.raises(InputValidationError, match="did you mean provider"):
        await create_agent(provder="demo")  # type: ignore[call-arg]


async def test_a_tool_knows_its_session_turn_and_call_by_names_that_are_unique_everywhere(tmp_path):
    seen: list[Any] = []

    async def look(arguments: dict[str, Any], context: Any) -> str:
        seen.append(context)
        return "x"

    for name in ("a", "b"):
        async with scripted(
            "call: look", "text: done", database_path=tmp_path / name, extra_tools=[tool("look", look)]
        ) as agent:
            outcome = await take(agent.run({"prompt": "go", "request_id": "r"}))
            assert seen[-1].session_id == agent.session_id
            assert outcome.of("tool")[0].tool_call_id == seen[-1].tool_call_id
    assert [context.request_id for context in seen] == ["r", "r"]
    assert seen[0].tool_call_id != seen[1].tool_call_id


@pytest.mark.parametrize("how", ["deleted", "renamed", "replaced"])
async def test_a_session_file_that_goes_away_ends_the_run_instead_of_losing_it(how, tmp_path):
    path = tmp_path / "s.sqlite"
    async with scripted("text: one", "text: two", database_path=path) as agent:
        await take(agent.run("first"))
        if how == "deleted":
            path.unlink()
        elif how == "renamed":
            path.rename(tmp_path / "other")
        else:
            (tmp_path / "copy").write_bytes(path.read_bytes())
            (tmp_path / "copy").replace(path)
        outcome = await take(agent.run("second"))
        assert isinstance(outcome.error, SessionLost)
        assert str(path) in str(outcome.error)


@pytest.mark.parametrize("address", ["http://a b/", "http://h/\nx", "http://h/\ud800"])
async def test_an_address_that_none_can_be_is_refused(address):
    with pytest.raises(InputValidationError, match="base_url"):
        await create_agent(provider="own", model="m", base_url=address)


async def test_a_hard_link_is_no_second_door(tmp_path):
    path = tmp_path / "s.sqlite"
    async with scripted("text: one", database_path=path) as agent:
        await take(agent.run("first"))
    (tmp_path / "other.sqlite").hardlink_to(path)
    for name in ("s.sqlite", "other.sqlite"):
        with pytest.raises(StorageError, match="hard link"):
            await create_agent(provider="demo", database_path=tmp_path / name)


@pytest.mark.feature("D03")
async def test_declared_tools_are_all_there_are_and_a_run_cannot_widen_them():
    declared: list[Any] = [{"name": "read"}, {"name": "bash", "enabled": False}, ToolPermissionDefinition("own")]
    options: dict[str, Any] = {"tool_definitions": declared, "extra_tools": [own_tool()]}
    async with scripted('call: bash {"command": "ls"}\n---\ntext: x', **options) as agent:
        outcome = await take(agent.run({"prompt": "go", "permission_policy": "auto"}))
        assert outcome.of("tool")[-1].is_error
        assert [spec.name for spec in model_of(agent).requests[0].system.tools] == ["read", "own"]
    async with scripted("text: x", **options, tools=["read"]) as agent:
        await take(agent.run("go"))
        assert [spec.name for spec in model_of(agent).requests[0].system.tools] == ["read", "own"]
    async with scripted("text: x", tool_definitions=[]) as agent:
        await take(agent.run("go"))
        assert model_of(agent).requests[0].system.tools == ()
