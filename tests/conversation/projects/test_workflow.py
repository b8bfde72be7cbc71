"""The graph of a project: what may be built, in which order it runs, and how errors pass through it."""

import asyncio
from typing import Any

import pytest
from prefect import task

from agent_nodes import (
    AgentInput,
    AgentOutputPayload,
    InputValidationError,
    create_agent_node,
    create_input_node,
    create_output_node,
)
from agent_nodes.errors import ModelError, StorageError
from agent_nodes.messages import Usage
from agent_nodes.nodes.dispatch import AgentNode, NodeFacts, Surroundings
from agent_nodes.submission import SessionRef
from conversation import Workflow, create_agent_conversation_project
from conversation.workflow import WorkflowNode
from tests.fakes import Flag

PROJECT = create_agent_conversation_project(provider="demo")


def agent(name: str, text: str = "", **fields: Any) -> AgentNode[Any, Any]:
    """A node that looks like an agent's, says ``text`` or repeats the prompt, and remembers what it was given."""

    async def body(given: Any, _: Surroundings) -> Any:
        node.given.append(given)  # type: ignore[attr-defined]
        if isinstance(error := fields.get("raises"), Exception):
            raise error
        return AgentOutputPayload(
            status=fields.get("status", "answered"),
            text=text or f"{name} got {given.prompt}",
            turn_id=1,
            session=SessionRef("p", "c", name),
            usage=Usage(10, 2, calls=1),
            err_code=fields.get("err_code", 0),
            reason=fields.get("reason"),
        )

    node = AgentNode(name, body, facts=NodeFacts("agent", session=(None, None, name)))
    node.given = []  # type: ignore[attr-defined]
    return node


def output() -> AgentNode[Any, Any]:
    async def body(given: Any, _: Surroundings) -> Any:
        return given

    return AgentNode("out", body, facts=NodeFacts("output", output_item_id="agent-answer"))


def graph(main: AgentNode[Any, Any] | None = None) -> Workflow:
    nodes = (
        WorkflowNode(create_input_node("in")),
        WorkflowNode(main or agent("main"), ("in",)),
        WorkflowNode(output(), ("main",)),
    )
    return Workflow("w", nodes, "in", "out")


async def shout(given: Any) -> Any:
    return AgentInput(prompt=given.prompt.upper())


async def broken(given: Any) -> Any:
    raise ValueError("no luck")


# -- what may be built -------------------------------------------------------------------------------------------------


@pytest.mark.feature("N07")
def test_a_node_is_put_before_between_beside_and_after() -> None:
    async def count(given: Any) -> Any:
        return given

    made = graph().with_node(shout, before=["main"]).with_node(agent("second"), after=["main"], before=["out"])
    made = made.with_node(count, name="beside").with_node(count, name="behind", after=["second"])
    assert {node.name: node.after for node in made.nodes} == {
        "in": (),
        "shout": ("in",),
        "main": ("shout",),
        "second": ("main",),
        "beside": ("in",),
        "behind": ("second",),
        "out": ("second", "beside", "behind"),
    }
    assert graph().nodes != made.nodes  # what it was made of stays as it was
    assert [node.name for node in made.agents] == ["main", "second"]


@pytest.mark.feature("N07")
def test_names_may_leave_out_the_prefix() -> None:
    made = PROJECT.with_node(shout, after=["input"], before=["agent"])
    assert {node.name: node.after for node in made.nodes}["agent-agent"] == ("shout",)
    assert made.node("agent") is made.node("agent-agent")


def test_which_agent_answers_is_known_beforehand() -> None:
    assert PROJECT.answering == "agent-agent"
    assert PROJECT.with_node(shout).answering == "agent-agent"
    assert graph().with_node(agent("second"), after=["main"], before=["out"]).answering == "second"
    assert graph().with_node(shout, after=["main"], before=["out"]).answering is None


def nodes(*edges: tuple[Any, tuple[str, ...]]) -> tuple[WorkflowNode, ...]:
    return tuple(WorkflowNode(node, after) for node, after in edges)


IN, A, B, OUT = create_input_node("in"), agent("a"), agent("b"), create_output_node("out")


@pytest.mark.feature("N07")
@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: PROJECT.with_node(shout, name="agent-input"), "two nodes are named 'agent-input'"),
        (lambda: PROJECT.with_node(shout, after=["agnt"]), "there is no node 'agnt'; there are agent-input"),
        (lambda: PROJECT.with_node(shout, before=["x"]), "there is no node 'x'"),
        (lambda: PROJECT.with_node(shout, after="agent"), r"after=\['agent'\]"),
        (lambda: PROJECT.with_node(shout, after=["output"]), "cannot come after the output node"),
        (lambda: PROJECT.with_node(shout, before=["input"]), "cannot come before the input node"),
        (lambda: PROJECT.with_node(shout, after=["agent"], before=["agent"]), "wait for each other in a circle"),
        (lambda: PROJECT.with_node(lambda given: given), "neither a node nor an async function"),
        (lambda: PROJECT.with_node("agent"), "neither a node nor an async function"),  # type: ignore[arg-type]
        (lambda: PROJECT.with_node(create_output_node("more"), after=["agent"]), "a second output node"),
        (lambda: PROJECT.with_node(create_input_node("more")), "a second input node"),
        (lambda: PROJECT.with_node(A, name="other"), "has a name already"),
        (lambda: Workflow("w", nodes((IN, ()), (A, ("in",)), (OUT, ("a",))), "in", "o"), "there is no node 'o'"),
        (lambda: Workflow("w", nodes((IN, ()), (A, ()), (OUT, ("a",))), "in", "out"), "'a' comes after none"),
        (lambda: Workflow("w", nodes((IN, ()), (A, ("x",)), (OUT, ("a",))), "in", "out"), "there is no node 'x'"),
        (lambda: Workflow("w", nodes((IN, ("a",)), (A, ("in",)), (OUT, ("a",))), "in", "out"), "cannot come after"),
        (lambda: Workflow("w", nodes((IN, ()), (A, ("out",)), (OUT, ("in",))), "in", "out"), "nothing can come after"),
        (
            lambda: Workflow("w", nodes((IN, ()), (A, ("in",)), (B, ("in",)), (OUT, ("a",))), "in", "out"),
            "'b' leads nowhere",
        ),
        (
            lambda: Workflow("w", nodes((IN, ()), (A, ("b",)), (B, ("a",)), (OUT, ("a",))), "in", "out"),
            "a, b, out wait for each other",
        ),
        (lambda: Workflow("w", nodes((IN, ()), (OUT, ("in",))), "in", "out"), "no node is an agent"),
        (lambda: Workflow("w", nodes((A, ()), (OUT, ("a",))), "a", "out"), "'a' is no input node"),
        (lambda: Workflow("w", nodes((IN, ()), (A, ("in",))), "in", "a"), "'a' is no output node"),
        (
            lambda: PROJECT.with_node(create_agent_node("again", session_key="agent", provider="demo")),
            "'agent-agent' and 'again' have the same session_key 'agent'",
        ),
    ],
)
def test_what_is_no_graph_is_refused(made: Any, said: str) -> None:
    with pytest.raises(InputValidationError, match=said) as caught:
        made()
    assert caught.value.field == "workflow"


def test_a_function_must_take_one_value() -> None:
    async def none() -> None: ...
    async def two(a: Any, b: Any) -> None: ...
    async def named(*, given: Any) -> None: ...

    for function in (none, two, named):
        with pytest.raises(InputValidationError, match="must take one value"):
            PROJECT.with_node(function)


def test_agents_of_other_conversations_or_with_keys_of_the_input_are_no_clash() -> None:
    other = create_agent_node("other", session_key="agent", conversation_id="elsewhere", provider="demo")
    keyed = create_agent_node("keyed", session_key=lambda given: "agent", provider="demo")
    assert len(PROJECT.with_node(other).with_node(keyed).nodes) == 5


# -- how it runs -------------------------------------------------------------------------------------------------------


@pytest.mark.feature("N07")
async def test_each_node_gets_the_output_of_the_one_before() -> None:
    main, second = agent("main"), agent("second")
    made = graph(main).with_node(shout, before=["main"]).with_node(second, after=["main"], before=["out"])
    heard: list[str] = []
    outputs = await made.run(AgentInput(prompt="hi"), lambda name, _: heard.append(name))
    assert outputs["main"].text == "main got HI"
    assert outputs["out"].text == "second got main got HI"
    assert heard == ["in", "shout", "main", "second", "out"]
    assert outputs["out"].usage == Usage(20, 4, calls=2)
    assert isinstance(second.given[0], AgentInput)  # type: ignore[attr-defined]


@pytest.mark.feature("N07")
async def test_independent_nodes_run_at_the_same_time() -> None:
    """Each of three waits until all three have begun."""
    begun = [Flag(), Flag(), Flag()]

    def meeting(place: int) -> Any:
        async def meet(given: Any) -> Any:
            begun[place].set()
            for flag in begun:
                await flag.wait()
            return place

        return meet

    made = graph()
    for place in range(3):
        made = made.with_node(meeting(place), name=f"n{place}")
    async with asyncio.timeout(30):
        outputs = await made.run(AgentInput(prompt="hi"))
    assert [outputs[f"n{place}"] for place in range(3)] == [0, 1, 2]
    assert outputs["out"].text == "main got hi"


@pytest.mark.feature("N07")
async def test_several_outputs_come_as_one_dict() -> None:
    async def join(given: Any) -> Any:
        return AgentInput(prompt=" and ".join(f"{name}: {one.text}" for name, one in given.items()))

    made = graph(agent("main", "yes")).with_node(agent("other", "no"))
    made = made.with_node(join, after=["main", "other"], before=["out"]).with_node(
        agent("judge"), after=["join"], before=["out"]
    )
    outputs = await made.run(AgentInput(prompt="hi"))
    assert outputs["out"].text == "judge got main: yes and other: no"


@pytest.mark.feature("N07")
async def test_an_agent_behind_several_needs_a_function_between() -> None:
    made = graph().with_node(agent("other")).with_node(agent("judge"), after=["main", "other"], before=["out"])
    answer = (await made.run(AgentInput(prompt="hi")))["out"]
    assert (answer.status, answer.reason) == ("failed", "input_validation")
    assert "a function between main, other and it" in answer.err_message


@pytest.mark.feature("N07")
async def test_an_error_passes_by_to_the_output() -> None:
    later = agent("later")
    made = graph(agent("main", "half", status="failed", err_code=1, reason="model_error"))
    made = made.with_node(later, after=["main"], before=["out"])
    heard: list[str] = []
    outputs = await made.run(AgentInput(prompt="hi"), lambda name, _: heard.append(name))
    assert later.given == []  # type: ignore[attr-defined]
    answer = outputs["out"]
    assert (answer.status, answer.text, answer.reason, answer.err_code) == ("failed", "half", "model_error", 1)
    assert heard == ["in", "main", "later", "out"]
    assert answer.usage.calls == 1


@pytest.mark.feature("N07")
async def test_an_error_that_comes_in_goes_through_without_an_agent() -> None:
    main = agent("main")
    answer = (await graph(main).run(AgentInput(err_code=7, err_message="lost")))["out"]
    assert main.given == []  # type: ignore[attr-defined]
    assert (answer.status, answer.reason, answer.err_code, answer.err_message) == ("failed", "upstream", 7, "lost")


@pytest.mark.feature("N07")
async def test_a_function_may_refuse_the_input() -> None:
    async def refuse(given: Any) -> Any:
        return AgentInput(err_code=3, err_message="not here")

    main = agent("main")
    answer = (await graph(main).with_node(refuse, before=["main"]).run(AgentInput(prompt="hi")))["out"]
    assert main.given == []  # type: ignore[attr-defined]
    assert (answer.err_code, answer.err_message) == (3, "not here")


@pytest.mark.feature("N07")
@pytest.mark.parametrize("place", [{"before": ["main"]}, {"after": ["main"], "before": ["out"]}, {}])
async def test_a_function_that_raises_is_an_error_on_top_of_what_was_said(place: dict[str, Any]) -> None:
    answer = (await graph().with_node(broken, **place).run(AgentInput(prompt="hi")))["out"]
    assert (answer.status, answer.reason, answer.err_code) == ("failed", "runtime_failure", 1)
    assert answer.err_message == "The node broken failed (ValueError: no luck)."
    reached = place.get("before") != ["main"]
    assert answer.text == ("main got hi" if reached else "")
    assert (answer.session is not None, answer.usage.calls) == (reached, int(reached))


@pytest.mark.feature("N07")
async def test_a_failed_turn_that_is_raised_is_an_error_as_well() -> None:
    made = graph().with_node(agent("second", raises=ModelError("no account")), after=["main"], before=["out"])
    answer = (await made.run(AgentInput(prompt="hi")))["out"]
    assert (answer.status, answer.reason, answer.err_message) == ("failed", "model_error", "no account")
    assert answer.text == "main got hi"


@pytest.mark.feature("N07")
async def test_a_stop_of_one_agent_is_the_end_of_the_run() -> None:
    made = graph().with_node(agent("beside", status="aborted", err_code=130, reason="aborted"))
    answer = (await made.run(AgentInput(prompt="hi")))["out"]
    assert (answer.status, answer.reason, answer.err_code, answer.text) == ("aborted", "aborted", 130, "main got hi")


@pytest.mark.feature("N05", "N07")
async def test_a_failure_of_the_store_ends_the_run_and_all_that_is_under_way() -> None:
    begun, ended = Flag(), Flag()

    async def endless(given: Any) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def full(given: Any) -> Any:
        await begun.wait()
        raise StorageError("the disk is full")

    made = graph().with_node(endless).with_node(full)
    async with asyncio.timeout(30):
        with pytest.raises(StorageError, match="the disk is full"):
            await made.run(AgentInput(prompt="hi"))
    assert ended.is_set


async def test_a_run_that_is_cancelled_ends_its_nodes() -> None:
    begun, ended = Flag(), Flag()

    async def endless(given: Any) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.ensure_future(graph().with_node(endless, before=["main"]).run(AgentInput(prompt="hi")))
    async with asyncio.timeout(30):
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert ended.is_set


@pytest.mark.feature("N07")
async def test_a_later_agent_works_where_the_run_works_and_reads_only_where_it_does() -> None:
    second, own = agent("second"), agent("own")

    async def elsewhere(given: Any) -> Any:
        return AgentInput(prompt="go", workdir="/own", permission_policy="auto")

    made = graph().with_node(second, after=["main"]).with_node(elsewhere).with_node(own, after=["elsewhere"])
    given = AgentInput(
        prompt="hi", workdir="/there", allowed_directories=("/more",), permission_policy="read-only", model="m-1"
    )
    await made.run(given)
    [got] = second.given  # type: ignore[attr-defined]
    assert (got.workdir, got.allowed_directories, got.permission_policy) == ("/there", ("/more",), "read-only")
    assert got.model is None
    [got] = own.given  # type: ignore[attr-defined]
    assert (got.workdir, got.permission_policy) == ("/own", "read-only")


async def test_the_output_needs_what_an_agent_put_out() -> None:
    async def words(given: Any) -> str:
        return given.text

    made = Workflow(
        "w",
        nodes((IN, ()), (agent("a"), ("in",)), (AgentNode("words", _body(words)), ("a",)), (OUT, ("words",))),
        "in",
        "out",
    )
    with pytest.raises(InputValidationError, match="expected the AgentOutputPayload of an agent, got str"):
        await made.run(AgentInput(prompt="hi"))


def _body(function: Any) -> Any:
    async def body(given: Any, _: Surroundings) -> Any:
        return await function(given)

    return body


async def test_a_prefect_task_outside_of_a_flow_is_its_function() -> None:
    @task(name="measure")
    async def measure(given: Any) -> Any:
        return AgentInput(prompt=f"{len(given.prompt)} letters")

    made = graph().with_node(measure, before=["main"])
    assert (await made.run(AgentInput(prompt="four")))["out"].text == "main got 4 letters"
    assert [node.name for node in made.nodes][-1] == "measure"
