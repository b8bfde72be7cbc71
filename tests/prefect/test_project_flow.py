"""A project as a flow of a real server, run in this process."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from agent_nodes import AgentHost, AgentInput, AgentOutputPayload, AgentStreamEvent, create_agent_node
from agent_nodes._aio import AbortSignal
from agent_nodes.errors import InputValidationError, ModelError, SessionBusy
from agent_nodes.store.inspect import view
from agent_nodes.store.locate import session_file
from conversation import define_agent_conversation_executor, define_executor
from conversation.agent_executor import create_agent_project_input
from conversation.executor import create_agent_conversation_project
from tests.fakes import FakeServer, call, error, gate, text
from tests.prefect.conftest import options
from tests.prefect.test_flows import GUARD, alive, ended, set_state, within

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")

STYLE = {
    "name": "style",
    "label": "Reply style",
    "description": "How it answers.",
    "choices": [{"value": "short", "label": "one sentence"}, "long"],
    "default": "short",
}
BEDS = {"name": "beds", "type": "integer", "label": "Beds", "required": True}


def project(model: FakeServer, **more: Any) -> Any:
    return define_agent_conversation_executor(name="garden", **options(model), **more)


async def last_run(flow: Any) -> Any:
    """The newest run of the flow on the server."""
    from prefect import get_client
    from prefect.client.schemas.filters import FlowFilter, FlowFilterName
    from prefect.client.schemas.sorting import FlowRunSort

    async with get_client() as client:
        found = await client.read_flow_runs(
            flow_filter=FlowFilter(name=FlowFilterName(any_=[flow.name])), sort=FlowRunSort.START_TIME_DESC, limit=1
        )
    return found[0]


async def task_names(run: UUID, wanted: set[str]) -> set[str]:
    """The names of the run's task runs, once ``wanted`` are there; the server hears of them a little later."""
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    names: set[str] = set()
    async with get_client() as client, asyncio.timeout(GUARD):
        while not wanted <= names:
            found = await client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[run])))
            names = {task.name for task in found}
            await asyncio.sleep(0.1)
    return names


# -- what it takes and returns -----------------------------------------------------------------------------------------


@pytest.mark.feature("N01", "P03")
async def test_a_run_of_the_project_is_a_flow_run_whose_nodes_are_tasks(fake: FakeServer) -> None:
    fake.script(text("beans"))
    flow = project(fake).flow
    answer = await within(GUARD, flow("what grows?"))
    assert isinstance(answer, AgentOutputPayload)
    assert (answer.status, answer.text) == ("answered", "beans")
    run = await last_run(flow)
    assert run.state_name == "Completed"
    assert run.parameters["message"] == "what grows?"
    assert answer.request_id == str(run.id)
    assert answer.session is not None
    assert (answer.session.project, answer.session.conversation_id) == ("garden", str(run.id))
    wanted = {"garden-input-0", "garden-agent-0", "garden-output-0"}
    assert await task_names(run.id, wanted) == wanted


@pytest.mark.feature("P03")
def test_the_parameters_are_the_projects_with_types_titles_and_choices(home: object) -> None:
    from prefect.utilities.callables import parameter_schema

    workflow = create_agent_conversation_project(provider="demo")
    executor = define_executor(
        workflow=workflow,
        create_input=lambda args, _: create_agent_project_input(args),
        params=[STYLE, BEDS, {"name": "loud", "type": "boolean"}, {"name": "price", "type": "number", "default": 1.5}],
    )
    schema = parameter_schema(executor.flow).model_dump()
    assert schema["required"] == ["message", "beds"]
    found = schema["properties"]
    assert list(found) == ["message", "style", "beds", "loud", "price", "conversation_id"]
    assert (found["message"]["title"], found["message"]["type"]) == ("Message", "string")
    assert found["style"]["enum"] == ["short", "long"]
    assert found["style"]["default"] == "short"
    assert found["style"]["title"] == "Reply style"
    assert found["style"]["description"] == "How it answers.\n'short': one sentence"
    assert (found["beds"]["type"], found["beds"]["title"]) == ("integer", "Beds")
    assert [kind["type"] for kind in found["loud"]["anyOf"]] == ["boolean", "null"]
    assert (found["price"]["type"], found["price"]["default"]) == ("number", 1.5)


@pytest.mark.feature("N01", "P03")
@pytest.mark.parametrize("name", ["assistant", "researcher", "reviewer"])
def test_a_project_that_comes_with_the_repository_is_found_by_a_worker(
    name: str, home: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.flows import load_flow_from_entrypoint
    from prefect.utilities.callables import parameter_schema

    monkeypatch.chdir(Path(__file__).parents[2])
    flow = load_flow_from_entrypoint(f"projects/{name}/project.py:executor.flow")
    assert flow.name == name
    schema = parameter_schema(flow).model_dump()
    assert schema["required"] == ["message"]
    assert {"model", "conversation_id"} <= set(schema["properties"])


async def test_what_is_set_reaches_the_project_and_what_is_left_out_is_its_own_affair(fake: FakeServer) -> None:
    seen: list[Any] = []

    def create_input(args: Any, _: Any) -> AgentInput:
        seen.append(dict(args.params))
        return AgentInput(prompt=args.prompt)

    def resolve(params: Any, _: Any) -> Any:
        return [param.model_copy(update={"default": "long"}) if param.name == "style" else param for param in params]

    fake.respond(lambda _: text("ok"))
    executor = define_executor(
        name="styled",
        workflow=create_agent_conversation_project(**options(fake)),
        create_input=create_input,
        resolve_params=resolve,
        params=[STYLE, BEDS],
    )
    await within(GUARD, executor.flow("go", beds=2))
    assert seen == [{"style": "long", "beds": 2}]


@pytest.mark.feature("P03")
async def test_a_conversation_goes_on_from_run_to_run(fake: FakeServer) -> None:
    fake.script(text("one"), text("two"))
    flow = project(fake).flow
    first = await within(GUARD, flow("first", conversation_id="beds"))
    second = await within(GUARD, flow("second", conversation_id="beds"))
    assert first.session == second.session
    assert first.request_id != second.request_id
    assert [message.text for message in fake.requests[1].messages()][-3:] == ["first", "one", "second"]


async def test_without_a_flow_run_the_function_gives_the_same_without_a_server(fake: FakeServer) -> None:
    fake.script(text("beans"), error(401, "no"))
    flow = project(fake).flow
    assert (await within(GUARD, flow.fn("what grows?"))).text == "beans"
    assert (await within(GUARD, flow.fn("what grows?"))).status == "failed"


@pytest.mark.feature("N07")
async def test_nodes_that_depend_on_nothing_of_each_other_run_at_the_same_time(fake: FakeServer) -> None:
    from prefect import task

    held = gate()
    fake.script(text("beans").hold(held))

    @task
    async def look_elsewhere(_: Any) -> str:
        held.open()  # the agent's answer waits for it
        return "looked"

    async def join(both: dict[str, Any]) -> AgentOutputPayload:
        return both["garden-agent"]

    workflow = create_agent_conversation_project(name="garden", **options(fake))
    workflow = workflow.with_node(look_elsewhere).with_node(join, after=["agent", "look-elsewhere"], before=["output"])
    executor = define_executor(workflow=workflow, create_input=lambda args, _: create_agent_project_input(args))
    answer = await within(GUARD, executor.flow("go"))
    assert answer.text == "beans"
    run = await last_run(executor.flow)
    await task_names(run.id, {"garden-agent-0", "join-0"})


# -- what ends without an answer ---------------------------------------------------------------------------------------


@pytest.mark.feature("P03")
async def test_a_failed_answer_fails_the_run_and_its_retry_takes_the_turn_up(fake: FakeServer) -> None:
    fake.script(call("ls", id="c1"), error(400, "hiccup"), text("beans"))
    flow = project(fake).flow.with_options(retries=1)
    answer = await within(GUARD, flow("what grows?"))
    assert (answer.status, answer.text) == ("answered", "beans")
    run = await last_run(flow)
    assert (run.state_name, run.run_count) == ("Completed", 2)
    assert len(fake.requests) == 3
    [turn] = view(session_file("garden", str(run.id), "agent")).turns
    assert turn.request_id == str(run.id)


async def test_the_reason_of_a_failed_run_holds_no_key(fake: FakeServer) -> None:
    fake.script(error(401, "bad key k-secret-2"))
    flow = define_agent_conversation_executor(name="failing", **{**options(fake), "api_key": "k-secret-2"}).flow
    with pytest.raises(ModelError):
        await within(GUARD, flow("go"))
    run = await last_run(flow)
    assert run.state_name == "Failed"
    assert "ModelError" in run.state.message
    assert "bad key ***" in run.state.message


async def test_a_turn_that_somebody_stops_cancels_the_run(fake: FakeServer) -> None:
    from prefect.exceptions import CancelledRun

    signal = AbortSignal()
    held = gate()
    fake.script(text("half ", "an answer").hold(held, before=1))

    def on_event(event: AgentStreamEvent) -> None:
        if event.type == "text_delta":
            signal.set("enough")

    flow = project(fake, host=AgentHost(on_event=on_event, abort_signal=signal)).flow
    with pytest.raises(CancelledRun):
        await within(GUARD, flow("go"))
    held.open()
    run = await last_run(flow)
    assert (run.state_name, run.state.message) == ("Cancelled", "enough")


async def test_a_turn_that_is_skipped_completes_the_run_under_another_name(fake: FakeServer) -> None:
    held = gate()
    fake.script(text("busy ", "still").hold(held, before=1))
    busy = create_agent_node("busy", session_key="agent", conversation_id="beds", project="garden", **options(fake))
    first = asyncio.create_task(busy.fn("long work"))
    await within(GUARD, fake.wait_requests(1))
    flow = project(fake, on_busy="skip").flow
    answer = await within(GUARD, flow("go", conversation_id="beds"))
    assert answer.status == "skipped"
    run = await last_run(flow)
    assert (run.state_name, run.state.type.value) == ("Skipped", "COMPLETED")
    refusing = project(fake, on_busy="refuse").flow
    with pytest.raises(SessionBusy):
        await within(GUARD, refusing("go", conversation_id="beds"))
    held.open()
    assert (await within(GUARD, first)).status == "answered"


async def test_a_run_that_waits_for_a_person_completes_under_another_name(fake: FakeServer) -> None:
    fake.script(text("May I?"))

    async def wait(payload: AgentOutputPayload) -> AgentOutputPayload:
        return replace(payload, status="waiting")

    workflow = create_agent_conversation_project(name="garden", **options(fake))
    workflow = workflow.with_node(wait, after=["agent"], before=["output"])
    flow = define_executor(workflow=workflow, create_input=lambda args, _: create_agent_project_input(args)).flow
    answer = await within(GUARD, flow("go"))
    assert (answer.status, answer.text) == ("waiting", "May I?")
    run = await last_run(flow)
    assert (run.state_name, run.state.type.value) == ("Waiting", "COMPLETED")


@pytest.mark.feature("P03")
async def test_cancelling_the_run_stops_its_turn_and_its_commands(fake: FakeServer, tmp_path: Any) -> None:
    from prefect.states import Cancelling

    pidfile = tmp_path / "pid"
    fake.script(call("bash", {"command": f"echo $$ > {pidfile}; sleep 60"}, id="c1"))
    flow = project(fake, permission_policy="auto").flow
    running = asyncio.create_task(flow("work for long"))
    async with asyncio.timeout(GUARD):
        while not (pidfile.exists() and pidfile.read_text().strip()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    run = await last_run(flow)
    await set_state(str(run.id), Cancelling())
    await ended(running)
    assert not alive(int(pidfile.read_text()))
    [turn] = view(session_file("garden", str(run.id), "agent")).turns
    assert (turn.status, turn.detail) == ("aborted", "The flow run was cancelled.")


# -- where it is found -------------------------------------------------------------------------------------------------


async def test_a_flow_that_no_file_names_cannot_be_served(home: object) -> None:
    executor = define_agent_conversation_executor(provider="demo")
    with pytest.raises(InputValidationError, match="module level"):
        await executor.flow.ato_deployment("nightly")


async def test_a_deployment_leads_to_the_name_that_the_flow_has_in_its_file(
    home: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = sys.modules[__name__]
    executor = define_agent_conversation_executor(provider="demo")
    monkeypatch.setattr(here, "garden", executor, raising=False)
    bare = await executor.flow.ato_deployment("nightly")
    assert bare.entrypoint.endswith("test_project_flow.py:garden.flow")
    monkeypatch.setattr(here, "tended", executor.flow, raising=False)
    found = await executor.flow.ato_deployment("nightly")
    assert found.entrypoint.endswith("test_project_flow.py:tended")
    retried = executor.flow.with_options(retries=2)
    with pytest.raises(InputValidationError, match="module level"):  # served as the project's own it had no retries
        await retried.ato_deployment("nightly")
    monkeypatch.setattr(here, "retried", retried, raising=False)
    found = await retried.ato_deployment("nightly")
    assert found.entrypoint.endswith("test_project_flow.py:retried")
