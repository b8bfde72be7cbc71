"""Whole turns over the three protocols against the strict fake service: broken streams, valid histories."""

from __future__ import annotations

import asyncio
import email.utils
import json
from typing import Any

import pytest

from agent_nodes import AbortSignal, AgentHost, ExecutionAborted
from agent_nodes.errors import ModelError, OutputLimit
from agent_nodes.events import TextDelta, ThinkingDelta
from agent_nodes.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCall
from tests.fakes import (
    FakeServer,
    call,
    close_before_head,
    drip,
    drop_after,
    error,
    raw,
    reply,
    reset_after_head,
    reset_before_head,
    silent,
    stream_error,
    text,
    thinking,
    tools,
)
from tests.fakes.clock import FakeClock
from tests.support import online, passing, take, tool, until

KINDS = ["anthropic-messages", "openai-responses", "openai-completions"]
every_kind = pytest.mark.parametrize("kind", KINDS)
FINAL = "점심 🍜 끝"


def stored(agent: Any) -> list[AssistantMessage]:
    return [m for m in agent.harness.engine.context(1).messages if isinstance(m, AssistantMessage)]


async def ok(arguments: dict[str, Any], context: Any) -> str:
    return "ok"


@every_kind
@pytest.mark.feature("C01", "E02")
async def test_st_01_a_character_cut_by_the_network_stays_whole(kind):
    async with FakeServer() as fake, online(fake, kind) as agent:
        fake.script(text(FINAL).split(1))
        outcome = await take(agent.run("lunch?"))
        assert outcome.text == FINAL
        assert stored(agent)[-1].text == FINAL
        fake.assert_accepted()


@every_kind
async def test_st_03_half_an_answer_is_never_the_answer(kind):
    clock = FakeClock()
    async with FakeServer() as fake, online(fake, kind, clock) as agent, passing(clock):
        fake.script(drop_after("The total is "), text("41."))
        outcome = await take(agent.run("sum?"))
        assert outcome.text == "The total is 41."
        retries = outcome.of("retry")
        assert [(e.kind, e.attempt, e.max_attempts) for e in retries] == [("dropped", 1, 10)]
        assert len(fake.requests) == 2
        sent = fake.requests[1].messages_text()
        assert sum("The total is" in said for role, said in sent if role == "assistant") == 1
        assert sent[-1][0] == "user"
        fake.assert_accepted()


@every_kind
async def test_st_05_an_overload_inside_a_good_status_is_the_same_request_again(kind):
    clock = FakeClock()
    async with FakeServer() as fake, online(fake, kind, clock) as agent, passing(clock):
        fake.script(stream_error("overloaded"), text("ok"))
        outcome = await take(agent.run("go"))
        assert outcome.text == "ok"
        assert len(fake.requests) == 2
        assert fake.requests[0].raw == fake.requests[1].raw


@pytest.mark.parametrize("index", ["missing", "zero"])
async def test_st_07_calls_without_a_true_index_stay_two_calls(index, tmp_path):
    (tmp_path / "a.txt").write_text("first file")
    (tmp_path / "b.txt").write_text("second file")
    async with FakeServer() as fake, online(fake, KINDS[2], workdir=tmp_path) as agent:
        calls = tools(call("read", {"path": "a.txt"}, id="c1"), call("read", {"path": "b.txt"}, id="c2"))
        fake.script(calls.quirky(call_index=index), text("done"))
        outcome = await take(agent.run("read both"))
        assert outcome.text == "done"
        results = fake.requests[1].results()
        assert list(results) == ["c1", "c2"]
        assert "first file" in results["c1"]
        assert "second file" in results["c2"]
        starts = [e.arguments for e in outcome.of("tool") if e.phase == "start"]
        assert starts == [{"path": "a.txt"}, {"path": "b.txt"}]


@every_kind
async def test_st_09_an_empty_argument_text_is_an_empty_object(kind, tmp_path):
    async with FakeServer() as fake, online(fake, kind, workdir=tmp_path, extra_tools=[tool("ping", ok)]) as agent:
        fake.script(tools(call("ping", "", id="c1"), call("write", "", id="c2")), text("done"))
        outcome = await take(agent.run("go"))
        assert outcome.text == "done"
        ends = {e.name: e for e in outcome.of("tool") if e.phase == "end"}
        assert ends["ping"].result == "ok"
        assert ends["write"].is_error
        assert "path" in ends["write"].result
        assert list(tmp_path.iterdir()) == []
        fake.assert_accepted()


@pytest.mark.parametrize("choices", ["empty", "null", None])
async def test_st_10_usage_comes_in_any_chunk_or_in_none(choices):
    answer = text("done").using(11, 2)
    answer = answer.quirky(usage_choices=choices) if choices else answer.quirky(usage_in="never")
    async with FakeServer() as fake, online(fake, KINDS[2], context_window=1000) as agent:
        fake.script(answer)
        outcome = await take(agent.run("go"))
        assert outcome.text == "done"
        assert outcome.run.result is not None
        usage = outcome.run.result.usage
        wanted = (11, 2, 13, 1) if choices else (0, 0, 0, 1)
        assert (usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.calls) == wanted
        assert (outcome.of("context_usage")[-1].used == 13) is bool(choices)
        assert outcome.of("context_usage")[-1].used > 0


@every_kind
async def test_st_11_a_silent_stream_is_given_up_and_asked_again(kind):
    clock = FakeClock()
    async with FakeServer() as fake, online(fake, kind, clock, stall_timeout=60) as agent, passing(clock):
        fake.script(drop_after("half ", end=drip(0.01)), text("whole"))
        task = asyncio.ensure_future(take(agent.run("go")))
        await until(lambda: agent.harness.engine.line.commits >= 3)
        clock.advance(60)
        outcome = await asyncio.wait_for(task, 20)
        assert outcome.text == "half whole"
        assert [e.kind for e in outcome.of("retry")] == ["dropped"]
        assert "60 seconds" in outcome.of("retry")[0].reason


async def test_st_11_a_stop_reaches_a_silent_stream():
    signal = AbortSignal()
    async with FakeServer() as fake, online(fake, KINDS[0]) as agent:
        fake.script(silent())
        task = asyncio.ensure_future(take(agent.run("go", AgentHost(abort_signal=signal))))
        await fake.wait_requests(1)
        signal.set()
        outcome = await asyncio.wait_for(task, 10)
        assert isinstance(outcome.error, ExecutionAborted)
        assert len(fake.requests) == 1


async def test_st_13_mixed_deltas_end_up_in_their_blocks_in_order():
    answer = reply(thinking("a", "b"), text("c", "d"), call("ping", {"x": 1}, id="c1"))
    async with FakeServer() as fake, online(fake, KINDS[0], extra_tools=[tool("ping", ok)]) as agent:
        fake.script(answer.interleaved((1, 0, 2, 1, 0), (2, 0, 1)), text("done"))
        outcome = await take(agent.run("go"))
        assert outcome.error is None
        blocks = stored(agent)[0].content
        assert [type(block) for block in blocks] == [ThinkingBlock, TextBlock, ToolCall]
        assert blocks[0].text == "ab"  # type: ignore[union-attr]
        assert blocks[1].text == "cd"  # type: ignore[union-attr]
        assert blocks[2].arguments == {"x": 1}  # type: ignore[union-attr]
        indices = [(e.type, e.index) for e in outcome.events if isinstance(e, TextDelta | ThinkingDelta)][:4]
        assert indices == [("text_delta", 1), ("thinking_delta", 0), ("text_delta", 1), ("thinking_delta", 0)]


@every_kind
@pytest.mark.feature("F03")
async def test_st_14_a_call_cut_by_the_output_limit_never_runs(kind, tmp_path):
    seen: list[bool] = []
    cut = call("write", '{"path":"plan.md"', id="c1").stopping("length")
    async with FakeServer() as fake, online(fake, kind, workdir=tmp_path) as agent:
        fake.script(cut, tools(call("write", {"path": "plan.md", "content": "x"}, id="c2")), text("done"))

        def on_event(event: Any) -> None:
            if event.type == "retry":
                seen.append((tmp_path / "plan.md").exists())

        outcome = await take(agent.run("plan", AgentHost(on_event=on_event)))
        assert outcome.text == "done"
        assert seen == [False]
        assert [(e.kind, e.attempt, e.max_attempts) for e in outcome.of("retry")] == [("length", 1, 2)]
        assert (tmp_path / "plan.md").read_text() == "x"
        fake.script(cut, cut, cut)
        outcome = await take(agent.run("again"))
        assert isinstance(outcome.error, OutputLimit)
        assert "max_tokens" in str(outcome.error)
        fake.assert_accepted()


@every_kind
async def test_hi_03_results_of_parallel_calls_go_back_together_in_call_order(kind):
    async def boom(arguments: dict[str, Any], context: Any) -> str:
        raise ValueError("boom")

    later = asyncio.Event()

    async def slow(arguments: dict[str, Any], context: Any) -> str:
        await later.wait()
        return "slow"

    async def quick(arguments: dict[str, Any], context: Any) -> str:
        later.set()
        return "quick"

    own = [tool("t1", slow), tool("t2", boom), tool("t3", quick)]
    async with FakeServer() as fake, online(fake, kind, extra_tools=own) as agent:
        calls = [call(name, {}, id=f"c{n}") for n, name in enumerate(["t1", "t2", "t3", "unknown"])]
        fake.script(tools(*calls), text("done"))
        outcome = await take(agent.run("go"))
        assert outcome.text == "done"
        results = fake.requests[1].results()
        assert list(results) == ["c0", "c1", "c2", "c3"]
        assert (results["c0"], results["c2"]) == ("slow", "quick")
        assert "boom" in results["c1"]
        assert "unknown" in results["c3"]
        fake.assert_accepted()


@every_kind
async def test_hi_04_a_turn_of_calls_alone_survives_reopening(kind, tmp_path):
    path = tmp_path / "s.sqlite"
    async with FakeServer() as fake:
        async with online(fake, kind, database_path=path, extra_tools=[tool("ping", ok)]) as agent:
            fake.script(tools(call("ping", {}, id="c1")), text("done"))
            await take(agent.run("go"))
        async with online(fake, kind, database_path=path, extra_tools=[tool("ping", ok)]) as agent:
            fake.script(text("on"))
            assert (await take(agent.run("go on"))).text == "on"
        fake.assert_accepted()


@pytest.mark.parametrize("kind", KINDS[:2])
async def test_hi_06_signed_reasoning_of_another_model_is_not_sent(kind, tmp_path):
    path = tmp_path / "s.sqlite"
    async with FakeServer() as fake:
        for model, said in (("m-a", "one"), ("m-b", "two"), ("m-a", "three")):
            async with online(fake, kind, database_path=path, model=model) as agent:
                fake.script(reply(thinking(f"thought {said}"), text(said)))
                assert (await take(agent.run(f"turn {said}"))).text == said
        fake.assert_accepted()
        assert "thought one" not in fake.requests[1].raw.decode()
        assert ("assistant", "one") in fake.requests[1].messages_text()


async def test_hi_06_signed_reasoning_of_the_same_prefix_goes_back_unchanged(tmp_path):
    path = tmp_path / "s.sqlite"
    async with FakeServer() as fake:
        for said in ("one", "two"):
            async with online(fake, KINDS[0], database_path=path) as agent:
                fake.script(reply(thinking(f"thought {said}"), text(said)))
                await take(agent.run(f"turn {said}"))
        fake.assert_accepted()
        assert len(fake.requests[1].thinking()) == 1


async def test_hi_08_ids_of_one_service_are_fit_for_the_next(tmp_path):
    path = tmp_path / "s.sqlite"
    async with FakeServer() as fake:
        async with online(fake, KINDS[1], database_path=path, extra_tools=[tool("ping", ok)]) as agent:
            fake.script(tools(call("ping", {}, id="call_7|fc_93_"), call("ping", {}, id="call_7|fc_94_")), text("done"))
            assert (await take(agent.run("go"))).text == "done"
        for kind in (KINDS[0], KINDS[2]):
            async with online(fake, kind, database_path=path, extra_tools=[tool("ping", ok)]) as agent:
                fake.script(text("on"))
                assert (await take(agent.run("go on"))).text == "on"
            ids = fake.requests[-1].call_ids()
            assert len(set(ids)) == 2
        fake.assert_accepted()


@every_kind
async def test_hi_11_half_a_character_is_replaced_where_it_enters(kind, tmp_path):
    path = tmp_path / "s.sqlite"
    broken = '{"path":"n.txt","content":"가\\ud99c나"}'
    async with FakeServer() as fake:
        async with online(fake, kind, database_path=path, workdir=tmp_path) as agent:
            fake.script(tools(call("write", broken, id="c1")), text("done"))
            assert (await take(agent.run("go"))).text == "done"
        assert (tmp_path / "n.txt").read_bytes() == "가\ufffd나".encode()
        async with online(fake, kind, database_path=path, workdir=tmp_path) as agent:
            fake.script(text("on"))
            assert (await take(agent.run("go on"))).text == "on"
        fake.assert_accepted()


@every_kind
@pytest.mark.parametrize("broken", ["\\u0000", "\\ud800"], ids=["nul", "half"])
async def test_pa_06_what_no_path_and_no_command_can_hold_reaches_no_file_and_no_shell(kind, broken, tmp_path):
    (tmp_path / "kept.txt").write_text("kept")
    calls = [
        ("write", f'{{"path":"a{broken}.txt","content":"x"}}'),
        ("write", f'{{"path":"new{broken}/a.txt","content":"x"}}'),
        ("edit", f'{{"path":"kept.txt{broken}","edits":[{{"old_text":"kept","new_text":"lost"}}]}}'),
        ("read", f'{{"path":"kept.txt{broken}"}}'),
        ("bash", f'{{"command":"touch made{broken}"}}'),
        ("bash", f'{{"command":"touch made{broken}","background":true}}'),
    ]
    async with FakeServer() as fake, online(fake, kind, workdir=tmp_path) as agent:
        fake.script(tools(*(call(name, arguments) for name, arguments in calls)), text("done"))
        outcome = await take(agent.run("go"))
        ended = [event for event in outcome.of("tool") if event.phase == "end"]
        assert [event.is_error for event in ended] == [True] * len(calls)
        assert all("U+FFFD" in str(event.result) for event in ended)
        fake.assert_accepted()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("kept.txt", "kept")]


@every_kind
@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_re_01_the_wait_the_service_asks_for_is_kept(kind, form):
    clock = FakeClock()
    asked = 3 if form == "seconds" else email.utils.formatdate(clock.now() + 3, usegmt=True)
    async with FakeServer() as fake, online(fake, kind, clock) as agent, passing(clock):
        fake.script(error(429, retry_after=asked), text("ok"))
        assert (await take(agent.run("go"))).text == "ok"
        assert len(clock.slept) == 1
        assert 3.0 <= clock.slept[0] <= 8.0


@every_kind
async def test_re_03_an_empty_account_is_told_at_once(kind):
    async with FakeServer() as fake, online(fake, kind) as agent:
        fake.script(error(429, "no credit left", code="insufficient_quota"))
        outcome = await take(agent.run("go"))
        assert isinstance(outcome.error, ModelError)
        assert "no credit left" in str(outcome.error)
        assert outcome.of("retry") == []
        assert len(fake.requests) == 1


@every_kind
@pytest.mark.parametrize("how", ["reset_after_head", "reset_before_head", "close", "short", "refused"])
async def test_re_06_a_broken_connection_is_asked_again(kind, how):
    clock = FakeClock()
    broken = {
        "reset_after_head": reset_after_head(),
        "reset_before_head": reset_before_head(),
        "close": close_before_head(),
        "short": drop_after("half ").short_length(),
    }
    async with FakeServer() as fake, online(fake, kind, clock) as agent, passing(clock):
        if how == "refused":
            await fake.deafen()
            task = asyncio.ensure_future(take(agent.run("go")))
            await until(lambda: bool(clock.slept))
            fake.script(text("ok"))
            await fake.listen()
            outcome = await task
        else:
            fake.script(broken[how], text("ok"))
            outcome = await take(agent.run("go"))
        assert outcome.error is None
        assert outcome.text.endswith("ok")
        assert len(outcome.of("retry")) >= 1


async def test_no_text_anywhere_holds_the_key(tmp_path, capfd):
    path = tmp_path / "s.sqlite"
    async with FakeServer() as fake, online(fake, KINDS[0], database_path=path) as agent:
        fake.script(error(401, "invalid x-api-key k-secret-1"))
        outcome = await take(agent.run("go"))
        assert isinstance(outcome.error, ModelError)
        assert "k-secret-1" not in str(outcome.error)
        assert "k-secret-1" not in repr(agent.harness.engine.config)
    assert b"k-secret-1" not in path.read_bytes()


@every_kind
@pytest.mark.feature("I12")
async def test_a_call_id_used_again_in_another_turn_keeps_each_call_its_own(kind):
    async def echo(arguments: dict[str, Any], context: Any) -> str:
        return f"echo:{arguments['n']}"

    own = [tool("echo", echo, properties={"n": {"type": "integer"}})]
    async with FakeServer() as fake, online(fake, kind, extra_tools=own) as agent:
        shown: list[list[dict[str, Any]]] = []
        for n in (1, 2):
            fake.script(tools(call("echo", {"n": n}, id="same")), text(f"done {n}"))
            outcome = await take(agent.run({"prompt": f"turn {n}", "request_id": f"r{n}"}))
            assert outcome.text == f"done {n}"
            shown.append([event.to_dict() for event in outcome.of("tool")])
        for n in (1, 2):
            again = await take(agent.run({"request_id": f"r{n}"}))
            tools_again = [event.to_dict() for event in again.of("tool")]
            assert tools_again == shown[n - 1]
            assert tools_again[0]["arguments"] == {"n": n}
            assert tools_again[1]["result"] == f"echo:{n}"
        assert shown[0][0]["tool_call_id"] != shown[1][0]["tool_call_id"]
        fake.assert_accepted()


@pytest.mark.parametrize("usage", [[1, 2], "many", 5, {"prompt_tokens": "three"}, {"prompt_tokens": -4}])
async def test_usage_that_is_no_usage_costs_no_answer(usage):
    async with FakeServer() as fake, online(fake, KINDS[2]) as agent:
        chunks = [
            {"choices": [{"index": 0, "delta": {"content": "done"}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage},
        ]
        fake.script(raw(*[f"data: {json.dumps(chunk)}\n\n" for chunk in chunks], "data: [DONE]\n\n"))
        outcome = await take(agent.run("go"))
        assert outcome.text == "done"
        assert outcome.of("retry") == []


@pytest.mark.parametrize("index", [None, "x", [], {}])
@pytest.mark.parametrize("kind", KINDS[:2])
async def test_a_block_without_a_number_is_an_event_that_cannot_be_read(kind, index):
    clock = FakeClock()
    if kind == KINDS[0]:
        start = {"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}}
        odd = {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}
    else:
        start = {"type": "response.created", "response": {}}
        odd = {"type": "response.output_item.added", "output_index": index, "item": {"type": "message", "content": []}}
    async with FakeServer() as fake, online(fake, kind, clock) as agent, passing(clock):
        fake.script(raw(*[f"data: {json.dumps(event)}\n\n" for event in (start, odd)]), text("ok"))
        outcome = await take(agent.run("go"))
        assert outcome.text == "ok"
        assert [event.kind for event in outcome.of("retry")] == ["dropped"]
