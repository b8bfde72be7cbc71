"""What the results of own tools do to a turn: end it, bill it, show structured content; and tools that are gone."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_nodes import AgentHost, AgentTool, AgentToolResult, Usage, UsageReport
from agent_nodes.errors import AgentClosed
from agent_nodes.messages import ToolResultMessage
from agent_nodes.nodes.items import read_turns
from agent_nodes.runtime import AgentRuntime
from tests.fakes import FakeServer, call, reply, text
from tests.support import Outcome, model_of, online, png, scripted, take, tool

pytestmark = pytest.mark.feature("D04")

GO = {"prompt": "go", "request_id": "r"}


def labels_of(agent: AgentRuntime) -> list[str]:
    labels: list[str] = []
    agent.harness.engine.line.subscribe(lambda label, changes, seq: labels.append(label))
    return labels


def ending(name: str, *, then: asyncio.Event | None = None, **options: Any) -> AgentTool:
    """A tool whose result ends the turn; it waits for ``then``."""

    async def execute(arguments: dict[str, Any], context: Any) -> AgentToolResult:
        if then is not None:
            await then.wait()
        return AgentToolResult(f"{name}: done", terminate=True)

    return tool(name, execute, **options)


async def plain(arguments: dict[str, Any], context: Any) -> str:
    return "plain"


def ends(outcome: Outcome) -> dict[str, Any]:
    return {event.name: event.result for event in outcome.of("tool") if event.phase == "end"}


# -- terminate ---------------------------------------------------------------------------------------------------------


async def test_a_round_of_results_that_all_end_the_turn_ends_it_in_the_commit_of_the_last(tmp_path: Path):
    own, path = [ending("a"), ending("b")], tmp_path / "s.sqlite"
    async with scripted(
        "text: I do both.\ncall: a\ncall: b", "text: next", extra_tools=own, database_path=path
    ) as agent:
        labels = labels_of(agent)
        first = await take(agent.run(GO))
        assert first.error is None
        assert labels == ["admit+intent", "round.open+intent", "tool.result+settle"]
        result = first.run.result
        assert result is not None
        assert (result.status, result.text, result.usage.calls) == ("answered", "I do both.", 1)
        assert ends(first) == {"a": "a: done", "b": "b: done"}
        assert agent.unfinished() == []
        again = await take(agent.run(GO))
        assert labels == ["admit+intent", "round.open+intent", "tool.result+settle"]
        assert (await take(agent.run("and then?"))).text == "next"
        assert [m.text for m in model_of(agent).requests[-1].messages if isinstance(m, ToolResultMessage)] == [
            "a: done",
            "b: done",
        ]
    async with scripted("text: unused", extra_tools=own, database_path=path) as agent:
        reopened = await take(agent.run(GO))
    for later in (again, reopened):
        assert later.run.result is not None
        assert (later.run.result.status, later.text, later.run.result.replayed) == ("answered", "I do both.", True)
        assert later.of("tool") == first.of("tool")


@pytest.mark.parametrize("calls", ["call: a\ncall: plain", "call: plain\ncall: a", "call: a\ncall: unknown"])
async def test_one_result_that_goes_on_lets_the_turn_go_on(calls: str):
    own = [ending("a"), tool("plain", plain)]
    async with scripted(calls, "text: on", extra_tools=own) as agent:
        assert (await take(agent.run("go"))).text == "on"


async def test_results_that_come_one_by_one_are_counted():
    gate = asyncio.Event()
    own = [
        ending("late", then=gate),
        ending("first", execution="sequential"),
        ending("second", execution="sequential"),
    ]
    async with scripted("call: late\ncall: first\ncall: second", extra_tools=own) as agent:
        labels = labels_of(agent)
        outcome = Outcome(agent.run("go"), [])
        async for event in outcome.run:
            outcome.events.append(event)
            if event.type == "tool" and event.phase == "end" and event.name == "second":
                gate.set()
        assert list(ends(outcome)) == ["first", "second", "late"]
        assert labels[1:] == ["round.open+intent", "tool.result+intent", "tool.result", "tool.result+settle"]
        assert outcome.run.result is not None
        assert outcome.run.result.status == "answered"


async def test_an_error_may_end_the_turn_too_and_the_count_begins_anew_with_each_round():
    async def stop(arguments: dict[str, Any], context: Any) -> AgentToolResult:
        return AgentToolResult("enough", is_error=True, terminate=True)

    own = [tool("stop", stop), tool("plain", plain)]
    async with scripted("call: stop\ncall: plain", "call: plain\ncall: stop", "call: stop", extra_tools=own) as agent:
        outcome = await take(agent.run("go"))
        assert outcome.run.result is not None
        assert (outcome.run.result.status, outcome.run.result.usage.calls) == ("answered", 3)


async def test_what_ended_before_a_shutdown_still_counts_after_it(tmp_path: Path):
    path, hold = tmp_path / "s.sqlite", asyncio.Event()
    scripts = "call: quick\ncall: slow"
    own = [ending("quick"), ending("slow", then=hold, replay="safe")]
    async with scripted(scripts, database_path=path, extra_tools=own) as agent:
        run = agent.run(GO)
        cut = Outcome(run, [])
        with pytest.raises(AgentClosed):
            async for event in run:
                cut.events.append(event)
                if event.type == "tool" and event.phase == "end":
                    asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(agent.close()))
        assert list(ends(cut)) == ["quick"]
    hold.set()
    async with scripted("text: unused", database_path=path, extra_tools=own) as agent:
        outcome = await take(agent.run(GO))
        assert outcome.error is None
        assert model_of(agent).requests == []
        assert list(ends(outcome)) == ["quick", "slow"]


@pytest.mark.parametrize("kind", ["anthropic-messages", "openai-responses", "openai-completions"])
async def test_every_service_takes_the_history_of_a_turn_that_its_calls_ended(kind: str):
    own = [ending("a"), ending("b")]
    async with FakeServer() as fake, online(fake, kind, extra_tools=own) as agent:
        fake.script(reply(call("a", {}), call("b", {})), text("next"))
        first = await take(agent.run("go"))
        assert first.run.result is not None
        assert (first.run.result.status, first.text) == ("answered", "")
        assert (await take(agent.run("and then?"))).text == "next"
        assert len(fake.requests) == 2
        fake.assert_accepted()


# -- usage -------------------------------------------------------------------------------------------------------------


async def test_what_a_tool_spent_is_billed_to_the_conversation_and_reported_and_not_part_of_the_turn(tmp_path: Path):
    spent = Usage(input_tokens=100, output_tokens=20, reasoning_tokens=5, calls=2)

    async def ask(arguments: dict[str, Any], context: Any) -> AgentToolResult:
        return AgentToolResult("asked", usage=spent)

    path, reports = tmp_path / "s.sqlite", list[UsageReport]()
    host = AgentHost(report_usage=reports.append)
    script = "call: ask\ncall: ask\nusage: 10 5"
    async with scripted(script, "text: done\nusage: 20 5", database_path=path, extra_tools=[tool("ask", ask)]) as agent:
        first = await take(agent.run(GO, host))
        assert first.run.result is not None
        assert first.run.result.usage == Usage(30, 10, calls=2)
        told = list(reports)
        own = [report for report in told if report.provider == "tool"]
        assert [(report.model, report.usage, report.cost) for report in own] == [("ask", spent, None)] * 2
        assert len({report.record_id for report in told}) == len(told) == 4
        assert all(f"{agent.session_id}:tool:" in report.record_id for report in own)
        assert {report.request_id for report in told} == {"r"}
        usage = agent.get_context_usage()
        assert usage is not None
        assert usage.used == 25
        reports.clear()
        assert (await take(agent.run(GO, host))).run.result.usage == Usage(30, 10, calls=2)  # type: ignore[union-attr]
        assert {report.record_id: report for report in reports} == {report.record_id: report for report in told}
    with closing(sqlite3.connect(path)) as rows:
        totals = rows.execute(
            "SELECT model, input_tokens, output_tokens, calls FROM usage_total ORDER BY model"
        ).fetchall()
        assert totals == [("scripted-1", 30, 10, 2), ("tool:ask", 200, 40, 4)]


async def test_what_a_tool_spent_counts_also_where_its_result_cannot_be_used():
    async def ask(arguments: dict[str, Any], context: Any) -> AgentToolResult:
        return AgentToolResult(structured_content={"n": "x"}, usage=Usage(input_tokens=7))

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    reports: list[UsageReport] = []
    async with scripted("call: ask", "text: done", extra_tools=[tool("ask", ask, output_schema=schema)]) as agent:
        outcome = await take(agent.run("go", AgentHost(report_usage=reports.append)))
        assert 'n: "x" is not of type "integer"' in ends(outcome)["ask"]
    assert [report.usage.input_tokens for report in reports if report.provider == "tool"] == [7]


# -- structured content ------------------------------------------------------------------------------------------------


async def test_programs_get_structured_content_and_the_model_the_text(tmp_path: Path):
    beds = {"beds": [{"name": "south", "plants": 3}]}

    async def look(arguments: dict[str, Any], context: Any) -> AgentToolResult:
        return AgentToolResult("one bed", structured_content=beds)

    async def draw(arguments: dict[str, Any], context: Any) -> AgentToolResult:
        return AgentToolResult([png()], structured_content=[1])

    path, own = tmp_path / "s.sqlite", [tool("look", look), tool("draw", draw)]
    async with scripted("call: look\ncall: draw", "text: done", database_path=path, extra_tools=own) as agent:
        first = await take(agent.run(GO))
        assert ends(first) == {"look": beds, "draw": [1]}
        sent = [m for m in model_of(agent).requests[-1].messages if isinstance(m, ToolResultMessage)]
        assert {message.name: message.text for message in sent} == {"look": "one bed", "draw": ""}
        messages = agent.read_transcript()
    async with scripted("text: more", database_path=path, extra_tools=own) as agent:
        again = await take(agent.run(GO))
        assert again.of("tool") == first.of("tool")
        assert agent.read_transcript() == messages
    shown = {
        item["content"]["name"]: item["content"]["result"]
        for item in read_turns(path, "r")[-1].items
        if item["part_type"] == "tool"
    }
    assert shown == {"look": beds, "draw": [1]}
    async with scripted("text: more") as agent:
        await agent.restore_transcript(messages)
        await take(agent.run("next"))
        results = [message for message in agent.read_transcript() if message["role"] == "tool_result"]
        assert results == [message for message in messages if message["role"] == "tool_result"]


# -- tools that are gone -----------------------------------------------------------------------------------------------


@pytest.mark.feature("D03", "D04")
@pytest.mark.parametrize("how", ["removed", "not declared", "disabled"])
async def test_a_call_that_may_be_repeated_is_not_when_its_tool_is_offered_no_more(tmp_path: Path, how: str):
    path, runs = tmp_path / "s.sqlite", list[str]()
    hold = asyncio.Event()

    def counted(name: str, **options: Any) -> AgentTool:
        async def execute(arguments: dict[str, Any], context: Any) -> str:
            runs.append(name)
            hold.set()
            await asyncio.Event().wait()
            return name

        return tool(name, execute, **options)

    own = [
        counted("look", replay="safe"),
        counted("pay", execution="sequential"),
        counted("more", execution="sequential"),
    ]
    calls = 'call: look\ncall: pay\ncall: more\ncall: bash {"command": "touch made"}'
    async with scripted(calls, database_path=path, extra_tools=own, workdir=tmp_path) as agent:
        task = asyncio.ensure_future(take(agent.run(GO)))
        await hold.wait()
    await task
    before = list(runs)
    narrowed: dict[str, Any] = {"permission_policy": "read-only", "workdir": tmp_path}
    if how != "removed":
        narrowed["extra_tools"] = own
        names = [item.name for item in own] if how == "disabled" else []
        narrowed["tool_definitions"] = [{"name": "read"}, *({"name": name, "enabled": False} for name in names)]
    async with scripted("text: done", database_path=path, **narrowed) as agent:
        outcome = await take(agent.run(GO))
        assert outcome.text == "done"
        said = ends(outcome)
    assert runs == before
    assert not (tmp_path / "made").exists()
    gone = "is not offered any more."
    assert said["look"].startswith(f"[not permitted] The tool 'look' {gone} The program stopped while this call was ")
    assert said["look"].endswith(", and it was not run again.")
    assert said["pay"].startswith("[interrupted]")
    for name in ("more", "bash"):
        assert said[name] == f"[not permitted] The tool '{name}' {gone} This call was not run."


@pytest.mark.parametrize("count", [10**30, -1, 1.5])
async def test_a_count_that_no_store_holds_is_an_error_of_the_call(count: Any):
    async def ask(arguments: dict[str, Any], context: Any) -> AgentToolResult:
        return AgentToolResult("asked", usage=Usage(input_tokens=count))

    async with scripted("call: ask", "text: done", extra_tools=[tool("ask", ask)]) as agent:
        outcome = await take(agent.run("go"))
        assert "no Usage of whole numbers" in ends(outcome)["ask"]
        assert outcome.text == "done"


# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.feature("D02")
@pytest.mark.parametrize("prepare", [None, lambda arguments: arguments])
async def test_what_a_tool_does_to_its_arguments_is_no_part_of_the_call(prepare: Any):
    async def spoil(arguments: dict[str, Any], context: Any) -> str:
        arguments["at"].append(object())
        return "fine"

    own = tool("spoil", spoil, properties={"at": {"type": "array"}}, prepare_arguments=prepare)
    async with FakeServer() as fake, online(fake, "openai-completions", extra_tools=[own]) as agent:
        fake.script(call("spoil", {"at": [1]}), text("done"), text("next"))
        first = await take(agent.run("go"))
        assert [event.arguments for event in first.of("tool") if event.phase == "start"] == [{"at": [1]}]
        first.of("tool")[0].arguments["at"].append(2)
        assert (await take(agent.run("on"))).text == "next"
        called = [m for m in fake.requests[-1].json["messages"] if m.get("tool_calls")]
        assert called[0]["tool_calls"][0]["function"]["arguments"] in ('{"at":[1]}', '{"at": [1]}')
