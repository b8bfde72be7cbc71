"""Nodes inside flow runs of a real server, run in this process."""

import asyncio
import os
import threading
from collections.abc import Awaitable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from agent_nodes import (
    AgentHost,
    AgentInput,
    AgentOutputPayload,
    AgentStreamEvent,
    AgentTool,
    InputValidationError,
    create_agent_node,
    create_input_node,
    create_output_node,
)
from agent_nodes.errors import ModelError
from agent_nodes.tools.base import ToolContext
from bench.nodes import Nodes
from bench.processes import fake_model
from tests.fakes import FakeServer, call, error, gate, silent, text
from tests.prefect.conftest import options
from tests.prefect.shown import shown

GUARD = 60

# Prefect's own clients leave sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


def pay(ledger: Path) -> AgentTool:
    """A tool with an effect in the world: a line in a file a call."""

    async def execute(arguments: dict[str, Any], _: object) -> str:
        with ledger.open("a") as file:
            file.write(f"{arguments['amount']}\n")
        return "paid"

    schema = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
    return AgentTool(name="pay", description="Pay an amount.", parameters=schema, execute=execute)


def lines(ledger: Path) -> list[str]:
    return ledger.read_text().split() if ledger.exists() else []


def flow_run_id() -> str:
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    assert context is not None
    assert context.flow_run is not None
    return str(context.flow_run.id)


async def set_state(run: str, state: Any) -> Any:
    """Force the state upon the flow run; returns the run."""
    from prefect import get_client

    async with get_client() as client:
        await client.set_flow_run_state(UUID(run), state, force=True)
        return await client.read_flow_run(UUID(run))


async def within(seconds: float, what: Awaitable[Any]) -> Any:
    async with asyncio.timeout(seconds):
        return await what


# -- live events, names, values ----------------------------------------------------------------------------------------


@pytest.mark.feature("P01")
async def test_the_third_delta_is_read_before_the_model_has_sent_the_fourth(fake: FakeServer) -> None:
    from prefect import flow

    held = gate()
    fake.script(text("a", "b", "c", "d").hold(held, before=3))
    heard: list[str] = []

    def on_event(event: AgentStreamEvent) -> None:
        if event.type == "text_delta":
            heard.append(event.delta)
            if "".join(heard) == "abc":
                held.open()

    read, write = create_input_node(), create_output_node()
    ask = create_agent_node(host=AgentHost(on_event=on_event), **options(fake))

    @flow
    async def talk() -> tuple[str, AgentOutputPayload]:
        return flow_run_id(), await write(await ask(await read("go")))

    run, payload = await within(GUARD, talk())
    assert (payload.status, payload.text) == ("answered", "abcd")
    assert [item["part_type"] for item in payload.items] == ["text"]
    assert payload.request_id == f"{run}:agent:0"
    assert payload.session is not None
    assert payload.session.conversation_id == run


@pytest.mark.feature("P01")
async def test_the_server_shows_each_node_as_a_task_run_with_a_readable_name(fake: FakeServer) -> None:
    from prefect import flow, get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    fake.respond(lambda _: text("ok"))
    read, ask, write = create_input_node(), create_agent_node("writer", **options(fake)), create_output_node()

    @flow
    async def talk() -> str:
        await write(await ask(await ask.fn(await read("one")) and await read("two")))
        return flow_run_id()

    run = await within(GUARD, talk())
    wanted = {"input-0", "input-1", "writer-0", "output-0"}
    names: set[str] = set()
    async with get_client() as client, asyncio.timeout(GUARD):
        while names != wanted:
            found = await client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[UUID(run)])))
            names = {task.name for task in found}
            await asyncio.sleep(0.1)


@pytest.mark.feature("P01")
async def test_submitted_and_mapped_calls_give_futures_and_their_events_live(threaded: FakeServer) -> None:
    from prefect import flow

    held = gate()
    heard: list[tuple[str, bool]] = []

    def on_event(event: AgentStreamEvent) -> None:
        if event.type == "text_delta":
            heard.append((event.delta, threading.current_thread() is threading.main_thread()))
            if event.delta == "c":
                held.open()

    def answer(request: Any) -> Any:
        asked = request.messages()[-1].text
        return text("a", "b", "c", "d").hold(held, before=3) if asked == "live" else text(f"re: {asked}")

    threaded.respond(answer)
    ask = create_agent_node(
        session_key=lambda given: given.prompt or "", host=AgentHost(on_event=on_event), **options(threaded)
    )

    @flow
    def fan_out() -> list[AgentOutputPayload]:
        first = ask.submit("live").result()
        return [first, *ask.map(["x", {"prompt": "y"}]).result(), asyncio.run(ask("z"))]

    first, *others = await asyncio.to_thread(fan_out)
    assert (first.status, first.text) == ("answered", "abcd")
    assert [payload.text for payload in others] == ["re: x", "re: y", "re: z"]
    assert [payload.request_id.rpartition(":")[2] for payload in (first, *others)] == ["0", "1", "2", "3"]
    assert not any(on_main for _, on_main in heard)


@pytest.mark.feature("P01")
async def test_mapped_calls_are_at_work_as_many_at_a_time_as_they_may(threaded: FakeServer) -> None:
    from prefect import flow

    at_work, most, done = set[str](), list[int](), list[str]()
    changed = threading.Condition()

    async def meet(_: Any, context: ToolContext) -> str:
        """With somebody else, as long as there are others."""
        with changed:
            at_work.add(context.session_id)
            most.append(len(at_work))
            changed.notify_all()
        await asyncio.to_thread(leave, context.session_id)
        return "met"

    def leave(session: str) -> None:
        with changed:
            changed.wait_for(lambda: len(at_work) == 2 or len(done) >= 4, GUARD)
            changed.wait(0.05)  # for a third, who should not come
            at_work.discard(session)
            done.append(session)
            changed.notify_all()

    tool = AgentTool(name="meet", description="", parameters={"type": "object"}, execute=meet)
    threaded.respond(
        lambda r: text("ok") if r.messages()[-1].results else call("meet", id=f"c{len(threaded.requests)}")
    )
    ask = create_agent_node(session_key=lambda given: given.prompt or "", extra_tools=[tool], **options(threaded))

    @flow
    def fan_out() -> list[AgentOutputPayload]:
        return ask.map([str(number) for number in range(5)], limit=2).result()

    payloads = await within(GUARD, asyncio.to_thread(fan_out))
    assert [payload.status for payload in payloads] == ["answered"] * 5
    assert [payload.request_id.rpartition(":")[2] for payload in payloads] == ["0", "1", "2", "3", "4"]
    assert max(most) == 2
    assert len(set(done)) == 5


async def test_a_limit_that_cannot_be_kept_is_refused(home: Path) -> None:
    from prefect import flow
    from prefect.task_runners import ProcessPoolTaskRunner

    ask = create_agent_node(provider="demo")

    @flow
    def wrong() -> None:
        for limit in (0, True, "2"):
            with pytest.raises(InputValidationError, match="limit: must be a whole number above 0"):
                ask.map(["x"], limit=limit)  # type: ignore[arg-type]

    @flow(task_runner=ProcessPoolTaskRunner(max_workers=1))  # type: ignore[arg-type]
    def elsewhere() -> None:
        with pytest.raises(InputValidationError, match="ProcessPoolTaskRunner runs tasks elsewhere"):
            ask.map(["x"], limit=2)

    flows: list[Any] = [wrong, elsewhere]
    for each in flows:
        await within(GUARD, asyncio.to_thread(each))


async def test_a_failed_turn_fails_the_flow_unless_told_otherwise(fake: FakeServer) -> None:
    from prefect import flow

    fake.script(error(401, "bad key k-secret-2"), error(400))
    model = {**options(fake), "api_key": "k-secret-2"}
    ask, ask_gently = create_agent_node(**model), create_agent_node("gentle", raise_on_failure=False, **model)

    @flow
    async def talk() -> None:
        await ask("hi")

    @flow
    async def talk_gently() -> AgentOutputPayload:
        return await ask_gently("hi")

    with pytest.raises(ModelError) as caught:
        await within(GUARD, talk())
    assert "k-secret-2" not in repr(caught.value)
    assert (await within(GUARD, talk_gently())).status == "failed"


@pytest.mark.feature("A10")
async def test_an_error_passes_by_the_agent_to_the_output_without_failing_the_flow(fake: FakeServer) -> None:
    from prefect import flow

    read, ask, write = create_input_node(), create_agent_node(**options(fake)), create_output_node()

    @flow
    async def talk() -> AgentOutputPayload:
        return await write(await ask(await read(err_code=7, err_message="disk gone")))

    payload = await within(GUARD, talk())
    assert (payload.status, payload.err_code, payload.err_message) == ("failed", 7, "disk gone")
    assert fake.requests == []


# -- identity and retries ----------------------------------------------------------------------------------------------


@pytest.mark.feature("P02")
async def test_pr_05_a_flow_retry_repeats_no_model_call_and_no_effect(fake: FakeServer, tmp_path: Path) -> None:
    from prefect import flow

    ledger = tmp_path / "ledger"
    fake.script(call("pay", {"amount": 5}, id="c1"), text("paid 5"))
    ask = create_agent_node(extra_tools=[pay(ledger)], **options(fake))
    payloads: list[AgentOutputPayload] = []

    @flow(retries=2)
    async def shop() -> int:
        payloads.append(await ask("pay five"))
        if len(payloads) < 3:
            raise RuntimeError("something after the payment broke")
        return len(payloads)

    assert await within(GUARD, shop()) == 3
    assert lines(ledger) == ["5"]
    assert len(fake.requests) == 2
    assert payloads[0] == payloads[1] == payloads[2]
    assert payloads[0].text == "paid 5"


@pytest.mark.feature("P02")
async def test_pr_05_two_calls_with_equal_arguments_are_two_turns(fake: FakeServer, tmp_path: Path) -> None:
    from prefect import flow

    ledger = tmp_path / "ledger"
    fake.script(*[call("pay", {"amount": 5}, id="c1"), text("paid 5")] * 2)
    ask = create_agent_node(extra_tools=[pay(ledger)], **options(fake))

    @flow
    async def shop() -> list[AgentOutputPayload]:
        return [await ask("pay five"), await ask("pay five")]

    first, second = await within(GUARD, shop())
    assert lines(ledger) == ["5", "5"]
    assert (first.request_id[-2:], second.request_id[-2:]) == (":0", ":1")
    assert first.session == second.session


@pytest.mark.feature("P02")
async def test_pr_05_a_task_retry_takes_up_the_failed_turn_where_it_stands(fake: FakeServer, tmp_path: Path) -> None:
    from prefect import flow

    ledger = tmp_path / "ledger"
    fake.script(call("pay", {"amount": 5}, id="c1"), error(400, "hiccup"), text("paid 5"))
    ask = create_agent_node(extra_tools=[pay(ledger)], **options(fake)).with_options(retries=1)

    @flow
    async def shop() -> AgentOutputPayload:
        return await ask("pay five")

    payload = await within(GUARD, shop())
    assert (payload.status, payload.request_id[-2:]) == ("answered", ":0")
    assert lines(ledger) == ["5"]
    assert len(fake.requests) == 3


@pytest.mark.feature("P02")
async def test_a_flow_retry_takes_up_the_failed_turn_and_replays_the_one_before(fake: FakeServer) -> None:
    from prefect import flow

    fake.script(text("a plan"), error(400, "hiccup"), text("a building"))
    plan, build = create_agent_node("plan", **options(fake)), create_agent_node("build", **options(fake))

    @flow(retries=1)
    async def work() -> list[str]:
        return [(await plan("plan it")).text, (await build("build it")).text]

    assert await within(GUARD, work()) == ["a plan", "a building"]
    assert len(fake.requests) == 3


@pytest.mark.feature("P02")
async def test_an_explicit_request_id_wins_and_a_turn_somebody_stopped_stays_stopped(fake: FakeServer) -> None:
    from prefect import flow

    from agent_nodes import AbortSignal

    held = gate()
    fake.script(text("half ", "an answer").hold(held, before=1))
    signals = [AbortSignal(), AbortSignal()]

    def on_event(event: AgentStreamEvent) -> None:
        signals[0].set("enough")

    ask = create_agent_node(host=AgentHost(on_event=on_event, abort_signal=signals[0]), **options(fake))
    later = create_agent_node(host=AgentHost(abort_signal=signals[1]), **options(fake))
    payloads: list[AgentOutputPayload] = []

    @flow(retries=1)
    async def work() -> None:
        node = later if payloads else ask
        payloads.append(await node(prompt="go", request_id="mine"))
        if len(payloads) == 1:
            raise RuntimeError("something after it broke")

    await within(GUARD, work())
    held.open()
    assert [(payload.status, payload.request_id) for payload in payloads] == [("aborted", "mine")] * 2
    assert payloads[1].err_message == "enough"
    assert len(fake.requests) == 1


@pytest.mark.feature("P02")
async def test_a_retried_task_around_a_node_and_a_subflow_meet_their_own_turns(fake: FakeServer) -> None:
    from prefect import flow, task

    fake.script(text("one"), text("two"), text("three"), text("below"))
    ask = create_agent_node(**options(fake))
    tries: list[int] = []

    @task(retries=1)
    async def twice() -> list[AgentOutputPayload]:
        payloads = [await ask("first"), await ask("second")]
        tries.append(len(tries))
        if len(tries) == 1:
            raise RuntimeError("something after it broke")
        return payloads

    @flow
    async def below() -> AgentOutputPayload:
        return await ask("deep")

    @flow
    async def work() -> tuple[str, list[AgentOutputPayload]]:
        return flow_run_id(), [*await twice(), await ask("third"), await below()]

    run, payloads = await within(GUARD, work())
    assert [payload.text for payload in payloads] == ["one", "two", "three", "below"]
    assert [payload.request_id for payload in payloads[:3]] == [f"{run}:agent:{n}" for n in range(3)]
    assert payloads[3].request_id.endswith(":agent:0")
    assert not payloads[3].request_id.startswith(run)
    assert len(fake.requests) == 4


@pytest.mark.feature("P02")
async def test_a_task_that_timed_out_goes_on_with_its_turn_at_the_next_try(fake: FakeServer) -> None:
    from prefect import flow

    held = gate()
    fake.script(text("half ", "an answer").hold(held, before=1))
    fake.respond(lambda _: text("and the rest"))
    ask = create_agent_node(**options(fake)).with_options(timeout_seconds=2, retries=3)

    @flow
    async def talk() -> AgentOutputPayload:
        return await ask("go")

    payload = await within(GUARD, talk())
    held.open()
    assert payload.status == "answered"
    assert payload.text.startswith("half ")
    assert payload.text.endswith("and the rest")
    assert len(fake.requests) > 1


@pytest.mark.feature("P02")
async def test_a_task_without_a_flow_meets_its_turn_when_it_is_retried(fake: FakeServer) -> None:
    fake.script(error(400, "hiccup"), text("fine"))
    ask = create_agent_node(**options(fake)).with_options(retries=1)
    payload = await within(GUARD, ask.task("go"))
    assert (payload.status, payload.text) == ("answered", "fine")
    assert len(fake.requests) == 2


async def test_a_mistake_of_the_caller_is_not_tried_again(fake: FakeServer) -> None:
    from prefect import flow

    tries: list[AgentInput] = []

    def session_key(given: AgentInput) -> str:
        tries.append(given)
        return ""

    ask = create_agent_node(session_key=session_key, **options(fake)).with_options(retries=3)

    @flow
    async def talk() -> AgentOutputPayload:
        return await ask("go")

    with pytest.raises(InputValidationError, match="session_key"):
        await within(GUARD, talk())
    assert len(tries) == 1


# -- cancelling --------------------------------------------------------------------------------------------------------


class LongWork:
    """A flow whose one turn has a command of its tools running."""

    def __init__(self, fake: FakeServer, pidfile: Path, *, submitted: bool = False) -> None:
        from prefect import flow

        fake.script(call("bash", {"command": f"echo $$ > {pidfile}; sleep 60"}, id="c1"))
        self.fake, self.pidfile = fake, pidfile
        self.run = ""
        self.ask = create_agent_node(permission_policy="auto", **options(fake))

        @flow
        async def talk() -> AgentOutputPayload:
            self.run = flow_run_id()
            if submitted:
                self.ask.submit("work for long")
                await asyncio.Event().wait()
            return await self.ask("work for long")

        self.flow = talk

    async def working(self) -> int:
        """The process of the command, once it runs."""
        async with asyncio.timeout(GUARD):
            while not (self.pidfile.exists() and self.pidfile.read_text().strip()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        return int(self.pidfile.read_text())

    async def outcome(self) -> AgentOutputPayload:
        """Ask for the turn by its request id, outside of any flow."""
        node = create_agent_node(conversation_id=self.run, permission_policy="auto", **options(self.fake))
        return await node(request_id=f"{self.run}:agent:0")

    async def again(self) -> AgentOutputPayload:
        """Run the same flow run again, as a worker does."""
        from prefect.flow_engine import run_flow_async
        from prefect.states import Scheduled

        run = await set_state(self.run, Scheduled())
        return await within(GUARD, run_flow_async(self.flow, flow_run=run))


async def ended(running: "asyncio.Task[Any]") -> None:
    """What a cancelled flow raises is Prefect's affair; that it ends well within its grace time is ours."""
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=20)
    assert done
    assert running.cancelled() or running.exception() is not None


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


@pytest.mark.feature("P01", "P02")
async def test_a_cancelled_flow_run_stops_the_turn_until_somebody_runs_it_again(
    fake: FakeServer, tmp_path: Path
) -> None:
    from prefect.states import Cancelling

    work = LongWork(fake, tmp_path / "pid")
    running = asyncio.create_task(work.flow())
    pid = await work.working()
    await set_state(work.run, Cancelling())
    await ended(running)
    assert not alive(pid)
    payload = await work.outcome()
    assert (payload.status, payload.err_message) == ("aborted", "The flow run was cancelled.")
    assert len(fake.requests) == 1
    fake.script(text("done after all"))
    payload = await work.again()
    assert (payload.status, payload.text) == ("answered", "done after all")


@pytest.mark.feature("P01")
async def test_cancelling_reaches_a_submitted_call_too(threaded: FakeServer, tmp_path: Path) -> None:
    from prefect.states import Cancelling

    work = LongWork(threaded, tmp_path / "pid", submitted=True)
    running = asyncio.create_task(work.flow())
    pid = await work.working()
    await set_state(work.run, Cancelling())
    await ended(running)
    assert not alive(pid)
    assert (await work.outcome()).status == "aborted"


@pytest.mark.feature("P02")
async def test_a_shutdown_leaves_the_turn_to_be_gone_on_with(fake: FakeServer, tmp_path: Path) -> None:
    work = LongWork(fake, tmp_path / "pid")
    running = asyncio.create_task(work.flow())
    pid = await work.working()
    await ended(running)
    assert not alive(pid)
    assert (await shown(work.run, lambda now: len(now.events) == 2)).happened == ["started", "paused"]
    fake.script(text("done after all"))
    payload = await work.again()
    assert (payload.status, payload.text, payload.request_id) == (
        "answered",
        "done after all",
        f"{work.run}:agent:0",
    )
    assert len(fake.requests) == 2


@pytest.mark.feature("P01")
async def test_a_server_that_does_not_answer_turns_a_cancellation_into_a_shutdown(fake: FakeServer) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from agent_nodes.nodes.prefect.cancel import run_is_cancelling

    fake.respond(lambda _: silent())
    fake.strict = False
    run = "00000000-0000-4000-8000-000000000000"
    with temporary_settings({PREFECT_API_URL: f"{fake.url}/api"}):
        assert await within(20, run_is_cancelling(run)) is False
    assert fake.requests
    await fake.deafen()
    with temporary_settings({PREFECT_API_URL: f"{fake.url}/api"}):
        assert await within(20, run_is_cancelling(run)) is False


# -- what it costs -----------------------------------------------------------------------------------------------------


async def test_what_a_node_adds_in_a_flow_can_be_measured(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.nodes.COUNT", 1)
    with fake_model() as address:
        numbers = await within(GUARD, Nodes(address + "/v1", tmp_path).batch_flow())
    assert {"task", "plain", "node"} <= set(numbers)
    assert all(number > 0 for number in numbers.values())
