"""Stop against shutdown: what leaving, aborting, cancelling and closing do to a turn, and what can go on after each."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from agent_nodes import AbortSignal, AgentBusy, AgentClosed, AgentHost, ExecutionAborted
from agent_nodes.events import TextDelta
from agent_nodes.messages import TextBlock, ToolResultMessage, Usage, UserMessage
from agent_nodes.providers.base import BlockStart, Finished, ModelEvent, ModelRequest, UsageUpdate
from agent_nodes.providers.scripted import check_history
from tests.fakes.clock import FakeClock
from tests.support import model_of, scripted, take, tool, until


class Held:
    """A model that says ``words``, then waits for ``go`` before it ends; every later request is answered at once."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.go = asyncio.Event()
        self.reached = asyncio.Event()
        self.requests: list[Sequence[Any]] = []
        self.open = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        self.requests.append(tuple(request.messages))
        assert check_history(request.messages) is None
        first = len(self.requests) == 1
        words = self.words if first else ("again",)
        self.open += 1
        try:
            yield [BlockStart(0, "text"), UsageUpdate(Usage(7, 1))]
            for word in words:
                yield [TextDelta(word, 0)]
            if first:
                self.reached.set()
                await self.go.wait()
            yield [UsageUpdate(Usage(7, 9)), Finished("end")]
        finally:
            self.open -= 1

    async def close(self) -> None:
        pass


@pytest.mark.feature("F05")
async def test_leaving_the_loop_is_a_stop_that_keeps_what_was_said_and_spent():
    model = Held("one ", "two ")
    async with scripted(provider=model) as agent:
        reports: list[Any] = []
        run = agent.run({"prompt": "go", "request_id": "r"}, AgentHost(report_usage=reports.append))
        async for event in run:
            if event.type == "text_delta" and event.delta == "two ":  # type: ignore[union-attr]
                break
        again = await take(agent.run({"prompt": "go", "request_id": "r"}, AgentHost(report_usage=reports.append)))
        assert isinstance(again.error, ExecutionAborted)
        assert again.text == "one two "
        assert again.run.result is not None
        assert again.run.result.usage == Usage(7, 1, calls=1)
        assert [report.usage.input_tokens for report in reports] == [7]
        assert model.open == 0
        after = await take(agent.run("next"))
        assert after.text == "again"


@pytest.mark.feature("E03")
async def test_the_abort_signal_stops_the_turn_from_any_thread():
    model = Held("one ")
    signal = AbortSignal()
    async with scripted(provider=model) as agent:
        task = asyncio.ensure_future(take(agent.run("go", AgentHost(abort_signal=signal))))
        await model.reached.wait()
        await asyncio.to_thread(signal.set, "enough")
        outcome = await task
        assert isinstance(outcome.error, ExecutionAborted)
        assert "enough" in str(outcome.error)
        assert outcome.run.result is not None
        assert outcome.run.result.status == "aborted"
        assert agent.unfinished() == []


async def test_a_signal_set_before_the_run_starts_nothing():
    async with scripted("text: x") as agent:
        signal = AbortSignal()
        signal.set()
        outcome = await take(agent.run("go", AgentHost(abort_signal=signal)))
        assert isinstance(outcome.error, ExecutionAborted)
        assert model_of(agent).requests == []


async def test_re_05_a_stop_during_the_wait_between_attempts_ends_at_once():
    clock = FakeClock()
    signal = AbortSignal()
    async with scripted("status: 503", "text: never", clock=clock) as agent:
        outcomes: list[Any] = []

        def on_event(event: Any) -> None:
            outcomes.append(event)
            signal.set()

        outcome = await take(agent.run("go", AgentHost(abort_signal=signal, on_event=on_event)))
        assert isinstance(outcome.error, ExecutionAborted)
        assert len(model_of(agent).requests) == 1
        clock.advance(100)
        await asyncio.sleep(0)
        assert len(model_of(agent).requests) == 1


async def test_hi_01_a_stop_during_tools_leaves_a_history_that_goes_on():
    started = asyncio.Event()
    ended: list[str] = []

    async def long(arguments: dict[str, Any], context: Any) -> str:
        started.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("long")
        return "never"

    async def quick(arguments: dict[str, Any], context: Any) -> str:
        return "quick"

    signal = AbortSignal()
    own = [
        tool("long", long),
        tool("quick", quick),
        tool("later", quick, execution="sequential"),
        tool("last", quick, execution="sequential"),
    ]
    async with scripted("call: long\ncall: quick", "text: hi", extra_tools=own) as agent:
        task = asyncio.ensure_future(take(agent.run("go", AgentHost(abort_signal=signal))))
        await started.wait()
        signal.set()
        outcome = await task
        assert isinstance(outcome.error, ExecutionAborted)
        assert ended == ["long"]
        after = await take(agent.run("hi"))
        assert after.text == "hi"
        results = {m.name: m for m in model_of(agent).requests[-1].messages if isinstance(m, ToolResultMessage)}
        assert set(results) == {"long", "quick"}
        assert results["long"].is_error
        assert "stopped" in results["long"].text


async def test_calls_that_had_not_started_say_so():
    started = asyncio.Event()

    async def long(arguments: dict[str, Any], context: Any) -> str:
        started.set()
        await asyncio.sleep(3600)
        return "never"

    signal = AbortSignal()
    own = [tool("a", long, execution="sequential"), tool("b", long, execution="sequential")]
    async with scripted("call: a\ncall: b", "text: hi", extra_tools=own) as agent:
        task = asyncio.ensure_future(take(agent.run("go", AgentHost(abort_signal=signal))))
        await started.wait()
        signal.set()
        outcome = await task
        starts = [event.name for event in outcome.of("tool") if event.phase == "start"]
        assert starts == ["a"]
        assert [event.name for event in outcome.of("tool") if event.phase == "end"] == ["a"]
        await take(agent.run("hi"))
        results = {m.name: m.text for m in model_of(agent).requests[-1].messages if isinstance(m, ToolResultMessage)}
        assert "not run" in results["b"]


@pytest.mark.feature("A03", "I10")
async def test_cancelling_the_reader_is_a_shutdown_that_can_be_resumed():
    model = Held("one ", "two ")
    async with scripted(provider=model) as agent:
        task = asyncio.ensure_future(take(agent.run({"prompt": "go", "request_id": "r"})))
        await model.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert model.open == 0
        assert [turn.request_id for turn in agent.unfinished()] == ["r"]
        again = await take(agent.run({"prompt": "go", "request_id": "r"}))
        assert again.error is None
        assert again.text == "one two again"
        assert (
            again.brief() == ["retry:recovery:1", "text_delta", "context_usage"] or "retry:recovery:1" in again.brief()
        )
        last = model.requests[-1][-1]
        assert isinstance(last, UserMessage)
        assert last.kind == "continuation"


@pytest.mark.feature("A03")
async def test_close_during_a_run_ends_it_resumable(tmp_path):
    path = tmp_path / "s.sqlite"
    model = Held("one ")
    async with scripted(provider=model, database_path=path) as agent:
        task = asyncio.ensure_future(take(agent.run({"prompt": "go", "request_id": "r"})))
        await model.reached.wait()
        await agent.close()
        outcome = await task
        assert isinstance(outcome.error, AgentClosed)
        refused = await take(agent.run("more"))
        assert isinstance(refused.error, AgentClosed)
    async with scripted("text: two", database_path=path) as agent:
        assert [turn.request_id for turn in agent.unfinished()] == ["r"]
        outcome = await take(agent.run({"request_id": "r"}))
        assert outcome.text == "one two"


@pytest.mark.feature("A03")
async def test_a_tool_cut_by_close_is_not_run_again(tmp_path):
    path = tmp_path / "s.sqlite"
    runs: list[str] = []
    started = asyncio.Event()

    async def pay(arguments: dict[str, Any], context: Any) -> str:
        runs.append("pay")
        context.update("paying")
        started.set()
        await asyncio.sleep(3600)
        return "never"

    async def look(arguments: dict[str, Any], context: Any) -> str:
        runs.append("look")
        return "seen"

    own = [tool("pay", pay), tool("look", look, replay="safe")]
    async with scripted("call: pay", database_path=path, extra_tools=own) as agent:
        task = asyncio.ensure_future(take(agent.run({"prompt": "go", "request_id": "r"})))
        await started.wait()
        await agent.close()
        await task
    async with scripted("text: done", database_path=path, extra_tools=own) as agent:
        outcome = await take(agent.run({"request_id": "r"}))
        assert outcome.text == "done"
        assert runs == ["pay"]
        result = next(m for m in model_of(agent).requests[-1].messages if isinstance(m, ToolResultMessage))
        assert "interrupted" in result.text
        assert "paying" in result.text


@pytest.mark.feature("A02")
async def test_one_run_at_a_time():
    model = Held("one ")
    async with scripted(provider=model) as agent:
        task = asyncio.ensure_future(take(agent.run("go")))
        await model.reached.wait()
        second = await take(agent.run("too"))
        assert isinstance(second.error, AgentBusy)
        model.go.set()
        assert (await task).text == "one "
        assert (await take(agent.run("too"))).text == "again"


async def test_a_run_may_follow_one_that_was_just_left():
    model = Held("one ")
    async with scripted(provider=model) as agent:
        async for _ in agent.run("go"):
            break
        assert (await take(agent.run("next"))).text == "again"


async def test_the_block_form_has_ended_the_run_when_it_is_left():
    model = Held("one ")
    async with scripted(provider=model) as agent:
        async with agent.run("go") as run:
            async for _ in run:
                break
        assert model.open == 0
        assert agent.unfinished() == []
        assert run.result is not None
        assert (run.result.status, run.result.text) == ("aborted", "one ")


@pytest.mark.feature("I13")
async def test_a_new_request_lets_an_older_unfinished_turn_end_first():
    model = Held("one ")
    async with scripted(provider=model) as agent:
        task = asyncio.ensure_future(take(agent.run({"prompt": "go", "request_id": "old"})))
        await model.reached.wait()
        task.cancel()
        await asyncio.wait([task])
        outcome = await take(agent.run("new"))
        assert outcome.run.finished_before == ("old",)
        assert outcome.text == "again"
        users = [m.content[0] for m in model.requests[-1] if isinstance(m, UserMessage) and m.kind == "user"]
        assert users == [TextBlock("go"), TextBlock("new")]
        old = await take(agent.run({"request_id": "old"}))
        assert old.text == "one again"


async def test_nothing_is_left_behind():
    before = len(asyncio.all_tasks())
    model = Held("one ")
    async with scripted(provider=model) as agent:
        async for _ in agent.run("go"):
            break
        await take(agent.run("next"))
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == before


async def test_a_stop_shows_what_was_said_once():
    model = Held("one ", "two ")
    signal = AbortSignal()
    async with scripted(provider=model) as agent:
        task = asyncio.ensure_future(take(agent.run("go", AgentHost(abort_signal=signal))))
        await model.reached.wait()
        signal.set()
        outcome = await task
        assert outcome.text == "one two "


async def test_the_block_form_of_a_run_that_cannot_start_ends_with_its_error():
    async with scripted("text: x") as agent:
        await agent.close()
        with pytest.raises(AgentClosed):
            async with agent.run("go") as run:
                async for _ in run:
                    pass


async def test_a_stop_while_an_older_turn_is_finished_leaves_that_turn_resumable():
    model = Held("one ")
    signal = AbortSignal()
    async with scripted(provider=model) as agent:
        task = asyncio.ensure_future(take(agent.run({"prompt": "go", "request_id": "old"})))
        await model.reached.wait()
        task.cancel()
        await asyncio.wait([task])
        release = asyncio.Event()

        async def held(request: ModelRequest) -> Any:
            await release.wait()
            yield []

        stream, model.stream = model.stream, held  # type: ignore[method-assign, assignment]
        task = asyncio.ensure_future(
            take(agent.run({"prompt": "new", "request_id": "new"}, AgentHost(abort_signal=signal)))
        )
        await until(lambda: agent.harness.engine.line.commits >= 5)
        signal.set()
        outcome = await asyncio.wait_for(task, 10)
        assert isinstance(outcome.error, ExecutionAborted)
        assert outcome.events == []
        assert [turn.request_id for turn in agent.unfinished()] == ["old"]
        model.stream = stream  # type: ignore[method-assign]
        assert (await take(agent.run({"request_id": "old"}))).text == "one again"
        assert (await take(agent.run({"request_id": "new", "prompt": "new"}))).text == "again"


async def test_a_stop_at_the_very_moment_of_admission_is_never_resumed():
    async with scripted("text: never", "text: next") as agent:
        signal = AbortSignal()
        line = agent.harness.engine.line
        line.subscribe(lambda label, changes, seq: signal.set() if label == "admit+intent" else None)
        outcome = await take(agent.run({"prompt": "go", "request_id": "r"}, AgentHost(abort_signal=signal)))
        assert isinstance(outcome.error, ExecutionAborted)
        assert agent.unfinished() == []
        again = await take(agent.run({"prompt": "go", "request_id": "r"}))
        assert isinstance(again.error, ExecutionAborted)


async def test_closing_twice_at_once_waits_for_the_same_end(tmp_path):
    path = tmp_path / "s.sqlite"
    model = Held("one ")
    async with scripted(provider=model, database_path=path) as agent:
        task = asyncio.ensure_future(take(agent.run({"prompt": "go", "request_id": "r"})))
        await model.reached.wait()
        first = asyncio.ensure_future(agent.close())
        await asyncio.sleep(0)
        await agent.close()
        assert first.done()
        await task
    async with scripted("text: two", database_path=path) as agent:
        assert (await take(agent.run({"request_id": "r"}))).text == "one two"


async def test_hung_plain_tools_hold_up_neither_the_stop_nor_later_turns_nor_built_in_tools(tmp_path):
    hold = threading.Event()

    def hangs(arguments: dict[str, Any], context: Any) -> str:
        hold.wait(60)
        return "late"

    calls = "\n".join(["call: hangs"] * 40)
    signal = AbortSignal()
    try:
        async with scripted(
            calls, "call: ls", "text: fine", extra_tools=[tool("hangs", hangs)], workdir=tmp_path
        ) as agent:
            task = asyncio.ensure_future(take(agent.run("go", AgentHost(abort_signal=signal))))
            await until(lambda: threading.active_count() > 40)
            signal.set()
            assert isinstance((await asyncio.wait_for(task, 20)).error, ExecutionAborted)
            assert (await asyncio.wait_for(take(agent.run("next")), 20)).text == "fine"
    finally:
        hold.set()


async def test_closing_the_iterator_gives_the_result_of_a_stop():
    model = Held("one ")
    async with scripted(provider=model) as agent:
        run = agent.run("go")
        events = aiter(run)
        await anext(events)
        await events.aclose()
        assert run.result is not None
        assert run.result.status == "aborted"


async def test_the_words_of_a_stop_are_one_line():
    model = Held("one ")
    signal = AbortSignal()
    async with scripted(provider=model) as agent:
        task = asyncio.ensure_future(take(agent.run("go", AgentHost(abort_signal=signal))))
        await model.reached.wait()
        signal.set("first\nsecond " + "x" * 10_000)
        outcome = await task
        assert str(outcome.error).startswith("first second")
        assert len(str(outcome.error)) <= 2_000


async def test_a_task_that_once_swallowed_a_cancel_still_stops_by_leaving():
    current = asyncio.current_task()
    assert current is not None
    current.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    model = Held("one ")
    async with scripted(provider=model) as agent:
        async with agent.run("go") as run:
            async for _ in run:
                break
        assert run.result is not None
        assert run.result.status == "aborted"
        assert agent.unfinished() == []
