"""Prefect's own tasks and flows in the hands of a model."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from agent_nodes import AgentTool, InputValidationError, create_agent_node, prefect_tool
from tests.fakes import FakeServer, call, reply, text
from tests.prefect.conftest import options
from tests.prefect.test_flows import ended, set_state
from tests.prefect.test_publish import flow_run_id

GUARD = 60

pytestmark = [
    pytest.mark.feature("D06"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]


class Box(BaseModel):
    width: int
    height: int = 2


async def task_runs(run: str, *names: str) -> dict[str, Any]:
    """The task runs of these names in the flow run, once all of them are there and have ended."""
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    in_run = FlowRunFilter(id=FlowRunFilterId(any_=[UUID(run)]))
    async with get_client() as client, asyncio.timeout(GUARD):
        while True:
            found = {each.name: each for each in await client.read_task_runs(flow_run_filter=in_run)}
            states = [found[name].state for name in names if name in found]
            if len(states) == len(names) and all(state is not None and state.is_final() for state in states):
                return found
            await asyncio.sleep(0.1)


def results(fake: FakeServer) -> list[str]:
    """What the model was told by the calls of its last round."""
    return [told for _, told in fake.requests[-1].messages()[-1].results]


# -- what it looks like ------------------------------------------------------------------------------------------------


def test_a_task_is_described_as_its_function_is(home: Path) -> None:
    from prefect import flow, task

    @task(name="Area of a box", retries=3)
    def area(box: Box, scale: float = 1.0) -> float:
        """The area of a box.

        Args:
            box: Its sides.
        """
        return box.width * box.height * scale

    @flow(description="Said to the flow.")
    def shipping(country: str) -> str:
        """Said in the docstring."""
        return country

    tool = prefect_tool(area, replay="safe", execution="sequential")
    assert isinstance(tool, AgentTool)
    assert (tool.name, tool.description, tool.replay, tool.execution) == (
        "area",
        "The area of a box.",
        "safe",
        "sequential",
    )
    schema = tool.schema()
    assert schema["required"] == ["box"]
    assert schema["properties"]["box"]["description"] == "Its sides."
    assert schema["properties"]["scale"] == {"type": "number", "default": 1.0}
    assert prefect_tool(shipping).description == "Said to the flow."
    other = prefect_tool(shipping, name="ship", description="Mine.")
    assert (other.name, other.description, other.replay) == ("ship", "Mine.", "never")


def test_what_is_no_task_of_plain_parameters_is_refused(home: Path) -> None:
    from prefect import task

    @task
    def counts(to: int) -> Iterator[int]:
        yield from range(to)

    @task
    async def ticks() -> AsyncIterator[int]:
        yield 1

    @task
    def untyped(what) -> None:  # type: ignore[no-untyped-def]
        return what

    for wrong, said in ((counts, "yields"), (ticks, "yields"), (untyped, "no annotation"), (len, "agent_tool takes")):
        with pytest.raises(InputValidationError, match=said):
            prefect_tool(wrong)  # type: ignore[arg-type]


# -- in a flow run -----------------------------------------------------------------------------------------------------


async def test_a_call_is_a_task_run_of_the_flow_run_with_its_own_retries(fake: FakeServer) -> None:
    from prefect import flow, task
    from prefect.runtime import task_run

    tries: list[str | None] = []

    @task(retries=2, task_run_name="area of {box.width} by {box.height}")
    async def area(box: Box) -> int:
        tries.append(task_run.id)
        if len(tries) == 1:
            raise ConnectionError("the ruler slipped")
        return box.width * box.height

    fake.script(call("area", {"box": {"width": 3}}, id="c1"), text("six"))
    ask = create_agent_node(extra_tools=[prefect_tool(area)], **options(fake))

    @flow
    async def measure() -> str:
        assert (await ask("how large?")).text == "six"
        return flow_run_id()

    run = await asyncio.wait_for(measure(), GUARD)
    assert results(fake) == ["6"]
    found = (await task_runs(run, "area of 3 by 2"))["area of 3 by 2"]
    assert (found.state_name, found.run_count) == ("Completed", 2)
    assert tries == [str(found.id)] * 2


async def test_a_plain_task_runs_in_a_thread_and_one_of_a_submitted_node_too(threaded: FakeServer) -> None:
    from prefect import flow, task
    from prefect.runtime import flow_run

    threads: list[tuple[str, bool, str | None]] = []

    @task
    def look(where: str) -> str:
        threads.append((where, threading.current_thread() is threading.main_thread(), flow_run.id))
        return f"nothing {where}"

    def answer(request: Any) -> Any:
        last = request.messages()[-1]
        return text(last.results[0][1]) if last.results else call("look", {"where": last.text}, id="c1")

    threaded.respond(answer)
    ask = create_agent_node(
        session_key=lambda given: given.prompt or "", extra_tools=[prefect_tool(look)], **options(threaded)
    )

    @flow
    async def search() -> str:
        there = ask.submit("there")
        assert (await ask("here")).text == "nothing here"
        assert (await asyncio.to_thread(there.result)).text == "nothing there"
        return flow_run_id()

    run = await asyncio.wait_for(search(), GUARD)
    assert sorted(threads) == [("here", False, run), ("there", False, run)]


async def test_a_flow_is_a_subflow_of_the_flow_run(fake: FakeServer) -> None:
    from prefect import flow, get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId

    @flow(flow_run_name="to {country}")
    async def ship(country: str) -> dict[str, Any]:
        return {"country": country, "run": flow_run_id()}

    @flow(flow_run_name="price to {country}")
    def price(country: str) -> int:
        return len(country)

    fake.script(
        reply(call("ship", {"country": "fr"}, id="c1"), call("price", {"country": "fr"}, id="c2")), text("shipped")
    )
    ask = create_agent_node(extra_tools=[prefect_tool(ship), prefect_tool(price)], **options(fake))

    @flow
    async def sell() -> str:
        await ask("ship it")
        return flow_run_id()

    run = await asyncio.wait_for(sell(), GUARD)
    assert [told.startswith('{"country":') or told == "2" for told in results(fake)] == [True, True]
    below = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[UUID(run)]))
    async with get_client() as client:
        found = await client.read_flow_runs(flow_run_filter=below)
    assert sorted((each.name, each.state_name) for each in found) == [
        ("price to fr", "Completed"),
        ("to fr", "Completed"),
    ]


async def test_a_cached_task_is_not_run_again_and_a_failing_one_is_an_error_that_the_model_hears(
    fake: FakeServer,
) -> None:
    from prefect import flow, task
    from prefect.cache_policies import INPUTS

    runs: list[int] = []

    @task(cache_policy=INPUTS, persist_result=True)
    def square(of: int) -> int:
        runs.append(of)
        return of * of

    @task
    async def fails() -> None:
        raise ValueError("no such luck")

    fake.script(
        call("square", {"of": 3}, id="c1"),
        reply(call("square", {"of": 3}, id="c2"), call("fails", id="c3")),
        text("nine"),
    )
    ask = create_agent_node(extra_tools=[prefect_tool(square), prefect_tool(fails)], **options(fake))

    @flow
    async def reckon() -> str:
        assert (await ask("what is three squared?")).status == "answered"
        return flow_run_id()

    await asyncio.wait_for(reckon(), GUARD)
    assert runs == [3]
    assert results(fake) == ["9", "no such luck"]


async def test_cancelling_the_flow_run_ends_a_call_of_a_task(fake: FakeServer) -> None:
    from prefect import flow, task
    from prefect.states import Cancelling

    begun: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    cancelled = asyncio.Event()

    @task
    async def wait() -> None:
        begun.set_result(flow_run_id())
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    fake.script(call("wait", id="c1"))
    ask = create_agent_node(extra_tools=[prefect_tool(wait)], **options(fake))

    @flow
    async def work() -> None:
        await ask("wait")

    running = asyncio.create_task(work())
    async with asyncio.timeout(GUARD):
        run = await begun
        await set_state(run, Cancelling())
        await ended(running)
        await cancelled.wait()
        payload = await create_agent_node(conversation_id=run, **options(fake))(request_id=f"{run}:agent:0")
    assert payload.status == "aborted"


# -- without one -------------------------------------------------------------------------------------------------------


async def test_outside_of_a_flow_run_it_is_the_plain_function(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect import Flow, Task, flow, task

    @task(retries=2)
    async def area(box: Box) -> int:
        return box.width * box.height

    @flow
    def price(country: str) -> int:
        return len(country)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the engine was asked")

    tools = [prefect_tool(area), prefect_tool(price)]
    fake.script(
        reply(call("area", {"box": {"width": 3}}, id="c1"), call("price", {"country": "fr"}, id="c2")), text("done")
    )
    with monkeypatch.context() as patched:
        patched.setattr(Task, "__call__", never)
        patched.setattr(Flow, "__call__", never)
        assert (await create_agent_node(extra_tools=tools, **options(fake))("go")).text == "done"
    assert results(fake) == ["6", "2"]


async def test_the_tool_itself_can_be_called_as_the_task_is(home: Path) -> None:
    from prefect import flow, task

    @task
    async def double(what: int) -> tuple[int, str]:
        return 2 * what, flow_run_id()

    tool = prefect_tool(double)

    @flow
    async def reckon() -> tuple[int, str]:
        return await tool(4)

    number, run = await asyncio.wait_for(reckon(), GUARD)
    assert number == 8
    assert "double" in "".join(await task_runs(run))
