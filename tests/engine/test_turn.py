"""A turn on the scripted model: rounds, retries, continuations, usage, replay."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from agent_nodes import AgentHost, AgentToolResult, RequestConflict, UsageReport
from agent_nodes.errors import (
    InputValidationError,
    LostCall,
    ModelError,
    OutputLimit,
    RetriesExhausted,
    RuntimeFailure,
)
from agent_nodes.messages import ToolResultMessage, Usage, UserMessage
from tests.fakes.clock import FakeClock
from tests.support import model_of, scripted, take, tool

ECHO = {"text": {"type": "string"}}


async def echo(arguments: dict[str, Any], context: Any) -> str:
    return f"echo:{arguments['text']}"


def turns_of_time(clock: FakeClock) -> asyncio.Task[None]:
    """Lets every wait on the clock pass at once, so that backoffs cost nothing."""

    async def pass_time() -> None:
        while True:
            due = await clock.wait_timer()
            clock.advance(due)
            await asyncio.sleep(0)

    return asyncio.ensure_future(pass_time())


@pytest.mark.feature("A02", "B01", "E01", "E05")
async def test_a_text_turn_streams_settles_and_counts():
    async with scripted("think: hm\ntext: hello there\nusage: 10 5 3") as agent:
        outcome = await take(agent.run("hi"))
        assert outcome.error is None
        assert outcome.brief() == ["thinking_delta", "text_delta", "context_usage"]
        result = outcome.run.result
        assert result is not None
        assert (result.status, result.text, result.replayed) == ("answered", "hello there", False)
        assert result.usage == Usage(10, 5, 3, 0, 0, 1)
        usage = agent.get_context_usage()
        assert usage is not None
        assert (usage.used, usage.total) == (18, 1000)
        assert outcome.of("context_usage")[-1].used == 18


async def test_a_text_turn_is_two_commits_and_a_round_two_more():
    own = [tool("echo", echo, properties=ECHO)]
    async with scripted(
        "text: a", 'call: echo {"text": "x"}\ncall: echo {"text": "y"}', "text: b", extra_tools=own
    ) as agent:
        line = agent.harness.engine.line
        labels: list[str] = []
        line.subscribe(lambda label, changes, seq: labels.append(label))
        await take(agent.run("first"))
        assert labels == ["admit+intent", "answer.settle"]
        labels.clear()
        await take(agent.run("second"))
        assert labels == ["admit+intent", "round.open+intent", "tool.result+intent", "answer.settle"]


@pytest.mark.feature("D04")
async def test_calls_of_a_round_run_together_and_their_results_go_back_in_call_order():
    second = asyncio.Event()

    async def slow(arguments: dict[str, Any], context: Any) -> str:
        await second.wait()
        return "slow"

    async def quick(arguments: dict[str, Any], context: Any) -> str:
        second.set()
        return "quick"

    async with scripted(
        "call: slow\ncall: quick", "text: done", extra_tools=[tool("slow", slow), tool("quick", quick)]
    ) as agent:
        outcome = await take(agent.run("go"))
        assert outcome.text == "done"
        assert [word for word in outcome.brief() if word.startswith("start")] == ["start:slow", "start:quick"]
        sent = model_of(agent).requests[-1].messages
        results = [m.text for m in sent if isinstance(m, ToolResultMessage)]
        assert sorted(results) == ["quick", "slow"]


async def test_sequential_calls_start_one_after_the_other_in_order():
    log: list[str] = []

    def logged(name: str) -> Any:
        async def run(arguments: dict[str, Any], context: Any) -> str:
            log.append(f"+{name}")
            await asyncio.sleep(0)
            log.append(f"-{name}")
            return name

        return tool(name, run, execution="sequential")

    async with scripted(
        "call: a\ncall: b\ncall: c", "text: done", extra_tools=[logged("a"), logged("b"), logged("c")]
    ) as agent:
        outcome = await take(agent.run("go"))
        assert outcome.text == "done"
    assert log == ["+a", "-a", "+b", "-b", "+c", "-c"]


async def test_hi_03_one_failing_call_leaves_the_others_their_results():
    async def ok(arguments: dict[str, Any], context: Any) -> str:
        return "fine"

    async def boom(arguments: dict[str, Any], context: Any) -> str:
        raise ValueError("boom")

    async with scripted(
        "call: t1\ncall: t2\ncall: t3\ncall: t4",
        "text: done",
        extra_tools=[tool("t1", ok), tool("t2", boom), tool("t3", ok)],
    ) as agent:
        outcome = await take(agent.run("go"))
        assert outcome.text == "done"
        ends = {event.name: event for event in outcome.of("tool") if event.phase == "end"}
        assert [name for name, event in ends.items() if event.is_error] == ["t4", "t2"]
        assert ends["t2"].result == "boom"
        assert "t4" in ends["t4"].result


async def test_a_tool_starts_only_after_its_intent_is_on_disk():
    seen: list[list[str]] = []
    async with scripted("call: probe", "text: done", extra_tools=[]) as agent:
        engine = agent.harness.engine

        async def probe(arguments: dict[str, Any], context: Any) -> str:
            seen.append([task.phase for task in engine.projection.tasks.values() if task.tool == "probe"])
            return "x"

        engine.config.base.tools["probe"] = tool("probe", probe)  # type: ignore[index]
        await take(agent.run("go"))
    assert seen == [["execute"]]


@pytest.mark.feature("F01")
async def test_what_produced_nothing_is_asked_again_and_each_try_is_told():
    clock = FakeClock()
    async with scripted("status: 529", "status: 503", "text: ok", clock=clock) as agent:
        time = turns_of_time(clock)
        outcome = await take(agent.run("go"))
        time.cancel()
        assert outcome.text == "ok"
        assert outcome.brief() == ["retry:dropped:1", "retry:dropped:2", "text_delta", "context_usage"]
        requests = model_of(agent).requests
        assert [len(request.messages) for request in requests] == [2, 2, 2]
        assert clock.slept == [0.4375, 0.875]


@pytest.mark.feature("F05")
async def test_re_07_a_success_in_between_gives_the_whole_budget_back():
    clock = FakeClock()
    scripts = [part for n in range(12) for part in ("status: 503", f'call: echo {{"text": "{n}"}}')]
    async with scripted(
        *scripts, "text: done", clock=clock, extra_tools=[tool("echo", echo, properties=ECHO)]
    ) as agent:
        time = turns_of_time(clock)
        outcome = await take(agent.run("go"))
        time.cancel()
        assert outcome.text == "done"
        assert [(event.attempt, event.max_attempts) for event in outcome.of("retry")] == [(1, 10)] * 12


@pytest.mark.feature("F01")
async def test_ten_repeats_then_the_cause():
    clock = FakeClock()
    async with scripted(*["status: 503"] * 11, clock=clock) as agent:
        time = turns_of_time(clock)
        outcome = await take(agent.run("go"))
        time.cancel()
        assert isinstance(outcome.error, RetriesExhausted)
        assert [event.attempt for event in outcome.of("retry")] == list(range(1, 11))
        assert "503" in str(outcome.error)
        assert outcome.run.result is not None
        assert (outcome.run.result.status, outcome.run.result.reason) == ("failed", "retries_exhausted")


@pytest.mark.feature("F01")
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
async def test_what_repeating_cannot_cure_is_not_repeated(status):
    async with scripted(f"status: {status}", "text: never") as agent:
        outcome = await take(agent.run("go"))
        assert isinstance(outcome.error, ModelError)
        assert outcome.of("retry") == []
        assert len(model_of(agent).requests) == 1


@pytest.mark.feature("F02")
async def test_a_cut_answer_is_kept_and_carried_on():
    clock = FakeClock()
    async with scripted('text: "The total is "\ndrop', "text: 41.", clock=clock) as agent:
        time = turns_of_time(clock)
        outcome = await take(agent.run("go"))
        time.cancel()
        assert outcome.text == "The total is 41."
        assert outcome.brief() == ["text_delta", "retry:dropped:1", "text_delta", "context_usage"]
        last = model_of(agent).requests[-1].messages[-1]
        assert isinstance(last, UserMessage)
        assert last.kind == "continuation"


@pytest.mark.feature("F03")
async def test_the_output_limit_has_a_budget_of_two_and_names_max_tokens():
    async with scripted(*['text: part\ncall-cut: echo {"text": "x'] * 3, extra_tools=[tool("echo", echo)]) as agent:
        outcome = await take(agent.run("go"))
        assert isinstance(outcome.error, OutputLimit)
        assert "max_tokens" in str(outcome.error)
        assert [(e.kind, e.attempt, e.max_attempts) for e in outcome.of("retry")] == [
            ("length", 1, 2),
            ("length", 2, 2),
        ]
        assert outcome.of("tool") == []


@pytest.mark.feature("F04")
async def test_a_lost_call_is_asked_for_again():
    async with scripted(
        "text: I will look\nlost-call", 'call: echo {"text": "x"}', "text: done", extra_tools=[tool("echo", echo)]
    ) as agent:
        outcome = await take(agent.run("go"))
        assert outcome.error is None
        assert [e.kind for e in outcome.of("retry")] == ["lost-call"]
        assert "start:echo" in outcome.brief()


@pytest.mark.feature("F04")
async def test_calls_that_never_come_end_the_turn_with_their_number():
    async with scripted(*["text: calling\nlost-call"] * 11) as agent:
        outcome = await take(agent.run("go"))
        assert isinstance(outcome.error, LostCall)
        assert "11 went missing" in str(outcome.error)


@pytest.mark.feature("B02")
async def test_du_05_a_resend_is_answered_from_the_store(tmp_path):
    path = tmp_path / "s.sqlite"
    reports: list[UsageReport] = []
    async with scripted("text: one\nusage: 3 4", database_path=path) as agent:
        first = await take(agent.run({"prompt": "hello", "request_id": "r1"}, AgentHost(report_usage=reports.append)))
        again = await take(agent.run({"prompt": "hello", "request_id": "r1"}, AgentHost(report_usage=reports.append)))
        bare = await take(agent.run({"request_id": "r1"}))
        other = await take(agent.run({"prompt": "bye", "request_id": "r1"}))
        assert isinstance(other.error, RequestConflict)
        assert len(model_of(agent).requests) == 1
    async with scripted("text: never", database_path=path) as agent:
        later = await take(agent.run({"prompt": "hello", "request_id": "r1"}, AgentHost(report_usage=reports.append)))
        assert model_of(agent).requests == []
    assert first.run.result is not None
    for outcome in (again, bare, later):
        result = outcome.run.result
        assert result is not None
        assert result.replayed
        assert (result.text, result.usage, result.turn_id) == ("one", Usage(3, 4, calls=1), first.run.result.turn_id)
        assert outcome.brief() == ["text_delta", "context_usage"]
    assert len(reports) == 3
    assert len({report.record_id for report in reports}) == 1


@pytest.mark.feature("B02")
async def test_a_request_id_alone_must_be_known():
    async with scripted("text: x") as agent:
        outcome = await take(agent.run({"request_id": "never-seen"}))
        assert isinstance(outcome.error, InputValidationError)
        assert "prompt" in str(outcome.error)
        assert (await take(agent.run({"request_id": "never-seen", "prompt": "now"}))).text == "x"


async def test_a_replay_shows_tools_in_their_place_under_the_same_ids():
    async with scripted(
        'text: look\ncall: echo {"text": "x"}', "text: done", extra_tools=[tool("echo", echo)]
    ) as agent:
        first = await take(agent.run({"prompt": "go", "request_id": "r"}))
        again = await take(agent.run({"prompt": "go", "request_id": "r"}))
        shown = [event.to_dict() for event in first.events if event.type == "tool"]
        assert [event.to_dict() for event in again.events if event.type == "tool"] == shown
        assert first.text == again.text == "look\n\ndone"
        assert [word for word in first.brief() if word != "context_usage"] == again.brief()[:-1]


@pytest.mark.feature("I13")
async def test_a_failed_turn_stays_failed_until_it_is_reopened():
    async with scripted("status: 401", "text: better") as agent:
        assert isinstance((await take(agent.run({"prompt": "go", "request_id": "r"}))).error, ModelError)
        assert isinstance((await take(agent.run({"prompt": "go", "request_id": "r"}))).error, ModelError)
        assert len(model_of(agent).requests) == 1
        outcome = await take(agent.run({"prompt": "go", "request_id": "r", "reopen": True}))
        assert outcome.text == "better"
        asked = next(m for m in model_of(agent).requests[-1].messages if isinstance(m, UserMessage))
        assert asked.content[0].text == "go"  # type: ignore[union-attr]
        assert (await take(agent.run({"prompt": "go", "request_id": "r"}))).text == "better"


@pytest.mark.feature("E03")
async def test_events_reach_the_host_before_the_loop_and_in_order():
    heard: list[str] = []

    async def on_event(event: Any) -> None:
        await asyncio.sleep(0)
        heard.append(event.type)

    async with scripted("text: a b c") as agent:
        seen: list[str] = []
        async for event in agent.run("go", AgentHost(on_event=on_event)):
            seen.append(event.type)
            assert heard == seen


@pytest.mark.feature("E03", "I11")
@pytest.mark.parametrize("hook", ["on_event", "report_usage"])
async def test_a_hook_that_raises_ends_the_turn_with_the_cause_kept(hook):
    def fail(value: object) -> None:
        raise LookupError("host is broken")

    async with scripted("text: a b\nusage: 1 1", "text: later") as agent:
        outcome = await take(agent.run({"prompt": "go", "request_id": "r"}, {hook: fail}))
        assert isinstance(outcome.error, RuntimeFailure)
        assert "host is broken" in str(outcome.error)
        assert outcome.run.result is not None
        if hook == "on_event":
            again = await take(agent.run({"prompt": "go", "request_id": "r"}))
            assert isinstance(again.error, RuntimeFailure)
            assert "host is broken" in str(again.error)
        assert agent.unfinished() == []
        assert (await take(agent.run("next"))).text == "later"


async def test_a_tool_result_of_blocks_and_objects_reaches_the_model_as_text():
    async def typed(arguments: dict[str, Any], context: Any) -> Any:
        return {"n": 1}

    async def refused(arguments: dict[str, Any], context: Any) -> Any:
        return AgentToolResult("no", is_error=True)

    async with scripted(
        "call: typed\ncall: refused", "text: done", extra_tools=[tool("typed", typed), tool("refused", refused)]
    ) as agent:
        outcome = await take(agent.run("go"))
        ends = {event.name: event for event in outcome.of("tool") if event.phase == "end"}
        assert '"n"' in ends["typed"].result
        assert ends["refused"].is_error


async def test_tool_output_is_shown_while_the_call_runs():
    async def chatty(arguments: dict[str, Any], context: Any) -> str:
        context.update("one\n")
        context.update("two\n")
        return "end"

    async with scripted("call: chatty", "text: done", extra_tools=[tool("chatty", chatty)]) as agent:
        outcome = await take(agent.run("go"))
        updates = [event.output for event in outcome.of("tool") if event.phase == "update"]
        assert updates == ["one\n", "two\n"]


async def test_a_tool_that_fails_with_a_flood_of_words_does_not_flood_the_context():
    async def boom(arguments: dict[str, Any], context: Any) -> str:
        raise ValueError("x" * 1_000_000)

    async with scripted("call: boom", "text: done", extra_tools=[tool("boom", boom)]) as agent:
        outcome = await take(agent.run("go"))
        end = next(event for event in outcome.of("tool") if event.phase == "end")
        assert end.is_error
        assert len(end.result) < 60_000


async def test_a_plain_function_is_a_tool_too_and_runs_beside_the_loop():
    async def beat() -> str:
        await asyncio.sleep(0)
        return "beat"

    def plain(arguments: dict[str, Any], context: Any) -> str:
        context.update("from a thread")
        return asyncio.run_coroutine_threadsafe(beat(), loop).result(20)

    class Callable:
        async def __call__(self, arguments: dict[str, Any], context: Any) -> str:
            return "object"

    loop = asyncio.get_running_loop()
    own = [tool("plain", plain), tool("object", Callable())]  # type: ignore[arg-type]
    async with scripted("call: plain\ncall: object", "text: done", extra_tools=own) as agent:
        outcome = await take(agent.run("go"))
        ends = {event.name: event.result for event in outcome.of("tool") if event.phase == "end"}
        assert ends == {"plain": "beat", "object": "object"}
        assert [event.output for event in outcome.of("tool") if event.phase == "update"] == ["from a thread"]


async def test_a_run_can_be_awaited_for_its_result():
    async with scripted("text: one", "status: 401") as agent:
        assert (await agent.run("go")).text == "one"
        with pytest.raises(ModelError):
            await agent.run("again")


class Odd(BaseException):
    pass


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize("threaded", [False, True])
@pytest.mark.parametrize("error", [StopIteration("x"), GeneratorExit("x"), SystemExit(3), Odd("odd"), Mute()])
async def test_whatever_a_tool_raises_is_a_result(error, threaded):
    async def waits(arguments: dict[str, Any], context: Any) -> str:
        raise error

    def plain(arguments: dict[str, Any], context: Any) -> str:
        raise error

    own = [tool("bad", plain if threaded else waits)]  # type: ignore[arg-type]
    async with scripted("call: bad", "text: done", extra_tools=own) as agent:
        outcome = await asyncio.wait_for(take(agent.run("go")), 20)
        assert outcome.text == "done"
        assert next(event for event in outcome.of("tool") if event.phase == "end").is_error


async def test_a_tool_that_cancels_itself_is_an_error_result_and_the_turn_goes_on():
    async def quits(arguments: dict[str, Any], context: Any) -> str:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        await asyncio.sleep(3600)
        return "never"

    async with scripted("call: quits", "text: done", extra_tools=[tool("quits", quits)]) as agent:
        outcome = await asyncio.wait_for(take(agent.run("go")), 20)
        assert outcome.text == "done"


async def test_what_a_tool_puts_out_after_its_end_goes_nowhere():
    late: list[Any] = []

    async def leaves(arguments: dict[str, Any], context: Any) -> str:
        late.append(context)
        return "gone"

    async with scripted("call: leaves", "text: done", extra_tools=[tool("leaves", leaves)]) as agent:
        outcome = await take(agent.run("go"))
        late[0].update("too late")
        assert [event for event in outcome.of("tool") if event.phase == "update"] == []
        assert agent.harness.engine.line.seq == (await agent.harness.engine.line.read(lambda tx: tx.seq))


async def test_tools_run_in_the_context_of_who_runs_the_turn_in_every_round(monkeypatch, tmp_path):
    monkeypatch.setattr("agent_nodes.store.line.IN_PLACE_SECONDS", 0.0)  # commits are told from another thread
    here: ContextVar[str] = ContextVar("here", default="nowhere")
    seen: list[str] = []

    async def look(arguments: dict[str, Any], context: Any) -> str:
        seen.append(here.get())
        here.set("changed by a tool")
        return "ok"

    tools = [tool("look", look), tool("look_later", look, execution="sequential")]
    scripts = ("call: look\ncall: look_later\ncall: look_later", "call: look", "text: done")
    async with scripted(*scripts, *scripts, database_path=tmp_path / "s.db", extra_tools=tools) as agent:
        for place in ("first", "second"):
            here.set(place)
            await take(agent.run("go"))
    assert seen == ["first"] * 4 + ["second"] * 4
