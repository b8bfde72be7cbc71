"""What the options and the stored turns make of a request, of a call's arguments and of the session's sums."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support import model_of, scripted, take, tool


async def test_max_tokens_reaches_the_request():
    async with scripted("text: x", max_tokens=7) as agent:
        await take(agent.run("go"))
        assert model_of(agent).requests[0].max_tokens == 7


async def test_the_system_prompt_reaches_the_request():
    async with scripted("text: x", system_prompt="Speak like a pirate.") as agent:
        await take(agent.run("go"))
        assert any("Speak like a pirate." in part for part in model_of(agent).requests[0].system.sections)


@pytest.mark.parametrize(
    ("options", "names"),
    [({"permission_policy": "read-only"}, ["read", "grep", "find", "ls"]), ({"tools": ["read"]}, ["read"])],
)
async def test_the_policy_and_the_narrowing_decide_what_the_model_is_offered(options: dict[str, Any], names: list[str]):
    async with scripted("text: x", **options) as agent:
        await take(agent.run("go"))
        assert [tool.name for tool in model_of(agent).requests[0].system.tools] == names


async def test_allowed_directories_open_folders_beside_the_working_directory(tmp_path: Path):
    beside, work = tmp_path / "beside", tmp_path / "work"
    beside.mkdir()
    work.mkdir()
    (beside / "note").write_text("found it")
    for allowed, found in ([], False), ([str(beside)], True):
        call = f'call: read {{"path": "{beside}/note"}}'
        async with scripted(call, "text: x", workdir=work, allowed_directories=allowed) as agent:
            outcome = await take(agent.run("go"))
        assert ("found it" in str(outcome.of("tool")[-1])) is found


async def test_a_tool_gets_the_checked_arguments_and_not_the_models_own():
    got: list[Any] = []
    own = tool("own", lambda arguments, context: got.append(arguments), properties={"n": {"type": "integer"}})
    async with scripted('call: own {"n": "3"}', "text: x", extra_tools=[own]) as agent:
        await take(agent.run("go"))
    assert got == [{"n": 3}]


async def test_the_conversations_totals_grow_with_each_turn(tmp_path: Path):
    path = tmp_path / "s.sqlite"
    async with scripted("text: a\nusage: 3 4", "text: b\nusage: 3 4", database_path=path) as agent:
        await take(agent.run("go"))
        await take(agent.run("go on"))
    with closing(sqlite3.connect(path)) as connection:
        sums = connection.execute("SELECT input_tokens, output_tokens, calls FROM usage_total").fetchall()
    assert sums == [(6, 8, 2)]
