"""Runs of projects: their sessions, their history, their tools, their models."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from agent_nodes import (
    AbortSignal,
    AgentInput,
    AgentTool,
    InputValidationError,
    SessionBusy,
    SessionFileError,
    create_agent,
    create_agent_node,
)
from agent_nodes.errors import AgentError, StorageError
from agent_nodes.events import AgentStreamEvent
from agent_nodes.host import UsageReport
from agent_nodes.store.conversations import FILE, ConversationHistory, read_conversation
from agent_nodes.store.locate import list_session_files, session_file
from conversation import (
    ConversationExecutorDefinition,
    RunContext,
    create_agent_conversation_project,
    create_agent_project_input,
    define_agent_conversation_executor,
    define_executor,
)
from tests.fakes import FakeServer, call, error, gate, reply, text, tools

Options = dict[str, Any]


def project(model: Options, **options: Any) -> ConversationExecutorDefinition:
    return define_agent_conversation_executor(name="pi", **model, **options)


def history(conversation_id: str = "c", name: str = "pi") -> ConversationHistory:
    found = read_conversation(name, conversation_id)
    assert found is not None
    return found


def said(conversation_id: str = "c") -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in history(conversation_id).messages]


C = RunContext(conversation_id="c", run_id="r-1")


async def weigh(arguments: dict[str, Any], _: object) -> Any:
    return "3 kg"


WEIGH = AgentTool(
    name="weigh",
    description="Weigh a thing.",
    parameters={"type": "object", "properties": {}},
    execute=weigh,
)


# -- a run and its history ---------------------------------------------------------------------------------------------


@pytest.mark.feature("N01", "N04")
async def test_a_run_appends_the_message_and_the_answer(fake: FakeServer, model: Options) -> None:
    fake.script(text("Hello."), text("Again."))
    executor = project(model)
    report = await executor.run(["good", "day"], C)
    assert (report.run_id, report.project, report.conversation_id, report.status) == ("r-1", "pi", "c", "answered")
    assert report.answer.text == "Hello."
    await executor.run({"message": "and now?"}, RunContext(conversation_id="c", run_id="r-2"))
    assert said() == [("user", "good day"), ("assistant", "Hello."), ("user", "and now?"), ("assistant", "Again.")]
    found = history()
    assert (found.summary.title, found.summary.runs) == ("good day", 2)
    assert [(run.run_id, run.status, run.usage["calls"]) for run in found.runs] == [
        ("r-1", "answered", 1),
        ("r-2", "answered", 1),
    ]
    assert [item["part_type"] for item in found.runs[0].items] == ["text"]
    assert list(found.runs[0].items) == report.answer.items
    assert fake.requests[1].messages_text() == [("user", "good day"), ("assistant", "Hello."), ("user", "and now?")]


@pytest.mark.feature("N04")
async def test_text_stands_between_the_rows_of_what_was_done_and_joined_in_the_message(
    fake: FakeServer, model: Options
) -> None:
    fake.script(reply("Let me weigh it.", call("weigh", {}, id="c1")), text("It is 3 kg."))
    report = await project(model, extra_tools=[WEIGH]).run(["how heavy?"], C)
    assert [(item["id"], item["type"], item["part_type"]) for item in report.answer.items] == [
        (f"{report.answer.turn_id}:1", "message", "text"),
        (f"{report.answer.turn_id}:2", "activity", "tool"),
        (f"{report.answer.turn_id}:3", "message", "text"),
    ]
    assert said()[-1] == ("assistant", "Let me weigh it.\n\nIt is 3 kg.")
    assert report.outputs[-1].output.items == report.answer.items
    assert [output.node for output in report.outputs] == ["pi-input", "pi-agent", "pi-output"]


@pytest.mark.feature("N04")
async def test_a_turn_of_tools_alone_has_no_empty_message(fake: FakeServer, model: Options) -> None:
    fake.script(tools(call("weigh", {}, id="c1")), text(""))
    report = await project(model, extra_tools=[WEIGH]).run(["weigh it"], C)
    assert (report.status, report.answer.text) == ("answered", "")
    assert said() == [("user", "weigh it")]
    [run] = history().runs
    assert [item["part_type"] for item in run.items] == ["tool"]


@pytest.mark.feature("N04")
async def test_a_failed_run_keeps_what_was_said_and_why(fake: FakeServer, model: Options) -> None:
    fake.script(reply("Weighing.", call("weigh", {}, id="c1")), error(400, "no money"))
    report = await project(model, extra_tools=[WEIGH]).run(["weigh it"], C)
    assert (report.status, report.answer.reason, report.answer.err_code) == ("failed", "model_error", 1)
    assert said() == [("user", "weigh it"), ("assistant", "Weighing.")]
    [run] = history().runs
    assert (run.status, run.reason) == ("failed", "model_error")
    assert "no money" in run.detail


@pytest.mark.feature("N04")
async def test_a_host_that_keeps_the_history_gets_one_item_and_nothing_is_written(
    fake: FakeServer, model: Options, home: Path
) -> None:
    fake.script(reply("First.", call("weigh", {}, id="c1")), text("Then."))
    executor = project(model, extra_tools=[WEIGH], output_item_id="pi-answer")
    messages = [{"role": "user", "content": "before"}, {"role": "assistant", "content": "yes"}]
    context = RunContext(conversation_id="c", host_input={"messages": messages, "system": "Be brief."})
    report = await executor.run(["and now?"], context)
    assert report.answer.items == [
        {
            "id": "pi-answer",
            "type": "message",
            "part_type": "text",
            "status": "completed",
            "content": {"text": "First.\n\nThen."},
        }
    ]
    assert report.answer.session is None
    assert fake.requests[0].messages_text() == [("user", "before"), ("assistant", "yes"), ("user", "and now?")]
    assert "Be brief." in fake.requests[0].system_text()
    assert list_session_files() == []
    assert not (home / FILE).exists()


@pytest.mark.feature("N04", "N07")
async def test_of_several_agents_none_keeps_what_is_its_hosts(fake: FakeServer, model: Options, home: Path) -> None:
    fake.script(text("a draft"), text("a better one"))
    workflow = create_agent_conversation_project(name="pi", **model)
    workflow = workflow.with_node(create_agent_node("critic", **model), after=["agent"], before=["output"])
    executor = define_executor(workflow=workflow, create_input=create_agent_project_input)
    history = {"messages": [{"role": "user", "content": "before"}, {"role": "assistant", "content": "yes"}]}
    report = await executor.run(["draft it"], RunContext(conversation_id="c", host_input=history))
    assert [(item["id"], item["content"]["text"]) for item in report.answer.items] == [("agent-answer", "a better one")]
    assert report.answer.usage.calls == 2
    assert [len(request.messages_text()) for request in fake.requests] == [3, 1]
    assert list_session_files() == []
    assert not (home / FILE).exists()


@pytest.mark.feature("N04")
async def test_the_one_item_is_there_also_where_nothing_was_said(fake: FakeServer, model: Options) -> None:
    fake.script(tools(call("weigh", {}, id="c1")), text(""))
    executor = project(model, extra_tools=[WEIGH])
    report = await executor.run(["weigh"], RunContext(host_input={"messages": []}))
    assert [(item["id"], item["content"]) for item in report.answer.items] == [("agent-answer", {"text": ""})]


@pytest.mark.feature("N02", "N04")
async def test_an_answer_that_is_not_under_its_id_fails_the_run(fake: FakeServer, model: Options) -> None:
    fake.script(text("hello"))
    workflow = create_agent_conversation_project(name="pi", **model)

    async def other(payload: Any) -> Any:  # fmt: skip
        return payload

    made = define_executor(workflow=workflow, create_input=create_agent_project_input)
    renamed = made.conversation.model_copy(
        update={"openai": made.conversation.openai.model_copy(update={"output_item_id": "x"})}
    )
    object.__setattr__(made, "conversation", renamed)
    with pytest.raises(AgentError, match=r"did not produce the output item 'x'"):
        await made.run(["hi"], RunContext(host_input={"messages": []}))


# -- the same run again ------------------------------------------------------------------------------------------------


@pytest.mark.feature("N05")
async def test_the_same_run_again_gives_what_it_gave(fake: FakeServer, model: Options) -> None:
    fake.script(text("Hello.").using(11, 2))
    executor = project(model)
    first = await executor.run(["hi"], C)
    reports: list[UsageReport] = []
    for args in (["hi"], [], {}):
        again = await executor.run(args, RunContext("r-1", "c", host={"report_usage": reports.append}))
        assert (again.answer.text, again.answer.items) == (first.answer.text, first.answer.items)
        assert again.answer.usage == first.answer.usage
    assert len(fake.requests) == 1
    assert said() == [("user", "hi"), ("assistant", "Hello.")]
    assert len({report.record_id for report in reports}) == 1  # told again, under one id


async def test_a_run_under_a_known_id_says_nothing_else(fake: FakeServer, model: Options) -> None:
    fake.script(text("Hello."))
    executor = project(model)
    await executor.run(["hi"], C)
    with pytest.raises(AgentError, match="another prompt"):
        await executor.run(["something else"], C)


@pytest.mark.parametrize("args", [[], {}, {"message": ""}, {"message": "  "}, [""]])
async def test_a_new_run_needs_a_message(model: Options, args: Any) -> None:
    with pytest.raises(InputValidationError, match="message: missing") as caught:
        await project(model).run(args)
    assert caught.value.field == "message"
    assert list_session_files() == []


async def test_an_unknown_run_without_a_message_is_refused(model: Options) -> None:
    with pytest.raises(InputValidationError, match="not known here"):
        await project(model).run([], C)


@pytest.mark.feature("N05")
async def test_a_failed_run_goes_on_only_where_that_is_said(fake: FakeServer, model: Options) -> None:
    fake.script(error(400, "no money"), text("Hello."))
    executor = project(model)
    assert (await executor.run(["hi"], C)).status == "failed"
    assert (await executor.run(["hi"], C)).status == "failed"
    report = await executor.run(["hi"], RunContext("r-1", "c", reopen=True))
    assert (report.status, report.answer.text) == ("answered", "Hello.")
    assert [run.status for run in history().runs] == ["answered"]
    assert said() == [("user", "hi"), ("assistant", "Hello.")]
    again = await executor.run(["hi"], RunContext("r-1", "c", reopen=True))
    assert again.answer.text == "Hello."
    assert len(fake.requests) == 2


@pytest.mark.feature("N05")
async def test_a_stopped_run_is_an_aborted_one(fake: FakeServer, model: Options) -> None:
    fake.script(text("one ", "two").hold(gate(), before=1))
    signal = AbortSignal()

    def on_event(event: AgentStreamEvent) -> None:
        if event.type == "text_delta":
            signal.set("Enough.")

    async with asyncio.timeout(30):
        host = {"on_event": on_event, "abort_signal": signal}
        report = await project(model).run(["count"], RunContext("r-1", "c", host=host))
    assert (report.status, report.answer.reason, report.answer.text) == ("aborted", "aborted", "one ")
    assert [run.status for run in history().runs] == ["aborted"]


# -- sessions ----------------------------------------------------------------------------------------------------------


@pytest.mark.feature("N05")
async def test_sessions_are_found_by_project_conversation_and_key(fake: FakeServer, model: Options, home: Path) -> None:
    fake.respond(lambda request: text(str(len(request.messages_text()))))
    executor = project(model, session_key="main")
    for context in (
        RunContext(conversation_id="c"),
        RunContext(conversation_id="d"),
        RunContext(conversation_id="c", project="other"),
        RunContext(conversation_id="c"),
    ):
        await executor.run(["hi"], context)
    assert [len(request.messages_text()) for request in fake.requests] == [1, 1, 1, 3]
    expected = [("pi", "c"), ("pi", "d"), ("other", "c")]
    assert list_session_files() == sorted(session_file(*names, "main", home) for names in expected)


async def test_without_names_each_run_is_a_conversation_of_its_own(fake: FakeServer, model: Options) -> None:
    fake.respond(lambda _: text("ok"))
    executor = project(model)
    first, second = await executor.run(["hi"]), await executor.run(["hi"])
    assert first.conversation_id == first.run_id != second.run_id
    assert said(first.conversation_id) == [("user", "hi"), ("assistant", "ok")]


@pytest.mark.feature("N05")
async def test_a_session_that_is_open_elsewhere_stops_the_run(fake: FakeServer, model: Options, home: Path) -> None:
    async with create_agent(database_path=session_file("pi", "c", "agent", home), **model):
        with pytest.raises(SessionBusy):
            await project(model, on_busy="refuse").run(["hi"], C)
        with pytest.raises(SessionBusy):
            await project(model).run(["hi"], RunContext("r-1", "c", on_busy="refuse"))
        report = await project(model).run(["hi"], RunContext("r-1", "c", on_busy="skip"))
        assert (report.status, report.answer.reason, report.answer.err_code) == ("skipped", "session_busy", 0)
    assert fake.requests == []
    assert read_conversation("pi", "c") is None


@pytest.mark.feature("N05")
async def test_a_damaged_session_stops_the_run(fake: FakeServer, model: Options, home: Path) -> None:
    path = session_file("pi", "c", "agent", home)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database, and never was one " * 200)
    with pytest.raises(SessionFileError):
        await project(model).run(["hi"], C)
    assert fake.requests == []


@pytest.mark.feature("N05")
async def test_a_history_that_cannot_be_written_stops_the_run_and_is_written_by_the_next(
    fake: FakeServer, model: Options, home: Path
) -> None:
    fake.script(text("one"), text("two"))
    (home / FILE).mkdir(parents=True)
    executor = project(model)
    with pytest.raises(StorageError, match="history"):
        await executor.run(["first"], C)
    (home / FILE).rmdir()
    await executor.run(["second"], RunContext("r-2", "c"))
    assert said() == [("user", "first"), ("assistant", "one"), ("user", "second"), ("assistant", "two")]
    assert [run.usage["calls"] for run in history().runs] == [1, 1]


@pytest.mark.feature("N05")
async def test_what_was_said_in_the_session_otherwise_is_written_down_too(
    fake: FakeServer, model: Options, home: Path
) -> None:
    fake.script(text("one"), error(400, "no"), text("three"))
    async with create_agent(database_path=session_file("pi", "c", "agent", home), **model) as agent:
        await agent.run({"prompt": "first", "request_id": "own-1"})
        with pytest.raises(AgentError):
            await agent.run({"prompt": "second", "request_id": "own-2"})
    await project(model).run(["third"], C)
    assert [(run.run_id, run.status, run.reason) for run in history().runs] == [
        ("own-1", "answered", None),
        ("own-2", "failed", "model_error"),
        ("r-1", "answered", None),
    ]
    assert said() == [
        ("user", "first"),
        ("assistant", "one"),
        ("user", "second"),
        ("user", "third"),
        ("assistant", "three"),
    ]


# -- hosts -------------------------------------------------------------------------------------------------------------


async def test_a_host_hears_events_usage_outputs_and_sessions(fake: FakeServer, model: Options) -> None:
    fake.script(text("Hel", "lo.").using(11, 2))
    events: list[AgentStreamEvent] = []
    reports: list[UsageReport] = []
    outputs: list[str] = []
    sessions: list[str] = []

    async def on_output(node: str, output: Any) -> None:
        outputs.append(f"{node} {type(output).__name__}")

    host = {"on_event": events.append, "report_usage": reports.append}
    context = RunContext("r-1", "c", host=host, on_output=on_output, on_session=sessions.append)
    report = await project(model).run(["hi"], context)
    assert [event.delta for event in events if event.type == "text_delta"] == ["Hel", "lo."]
    assert [(one.request_id, one.usage) for one in reports] == [("r-1", report.answer.usage)]
    assert outputs == ["pi-input AgentInput", "pi-agent AgentOutputPayload", "pi-output AgentOutputPayload"]
    assert len(sessions) == 1


async def test_each_agent_may_have_a_host_of_its_own(fake: FakeServer, model: Options) -> None:
    fake.respond(lambda request: text(f"re: {request.last_user_text()}"))
    heard: dict[str, str] = {}

    def host_of_node(node: str) -> Any:
        def on_event(event: AgentStreamEvent) -> None:
            if event.type == "text_delta":
                heard[node] = heard.get(node, "") + event.delta

        return {"on_event": on_event}

    workflow = create_agent_conversation_project(name="pi", **model)
    workflow = workflow.with_node(create_agent_node("critic", **model), after=["agent"], before=["output"])
    executor = define_executor(workflow=workflow, create_input=create_agent_project_input)
    await executor.run(["hi"], RunContext("r-1", "c", hosts=host_of_node))
    assert heard == {"pi-agent": "re: hi", "critic": "re: re: hi"}


# -- tools -------------------------------------------------------------------------------------------------------------


@pytest.mark.feature("N02", "H10")
async def test_the_declared_tools_are_those_that_there_are(fake: FakeServer, model: Options) -> None:
    fake.respond(lambda _: text("ok"))
    workflow = create_agent_conversation_project(name="pi", extra_tools=[WEIGH], **model)
    declared = [{"name": "read"}, {"name": "bash", "enabled": False}, {"name": "weigh"}]
    made = define_executor(workflow=workflow, create_input=create_agent_project_input, tools=declared)
    await made.run(["hi"], C)
    assert fake.requests[-1].tool_names() == ["read", "weigh"]
    await made.run(["hi"], RunContext(conversation_id="c", disabled_tools=["weigh", "bash"]))
    assert fake.requests[-1].tool_names() == ["read"]
    nothing = define_executor(workflow=workflow, create_input=create_agent_project_input, tools=[])
    await nothing.run(["hi"], RunContext(conversation_id="c"))
    assert fake.requests[-1].tool_names() == []
    left_out = define_executor(workflow=workflow, create_input=create_agent_project_input)
    await left_out.run(["hi"], RunContext(conversation_id="c"))
    assert set(fake.requests[-1].tool_names()) == {
        *("read", "write", "edit", "bash", "grep", "find", "ls"),
        "weigh",
    }


async def test_a_host_switches_off_only_what_is_declared(model: Options) -> None:
    with pytest.raises(InputValidationError, match=r"'raed' is not declared; did you mean read\?") as caught:
        await project(model).run(["hi"], RunContext(disabled_tools=["raed"]))
    assert caught.value.field == "disabled_tools"


@pytest.mark.feature("N07")
async def test_each_agent_gets_those_of_the_declared_tools_that_it_has(fake: FakeServer, model: Options) -> None:
    fake.respond(lambda _: text("ok"))
    workflow = create_agent_conversation_project(name="pi", **model)
    workflow = workflow.with_node(create_agent_node("scale", extra_tools=[WEIGH], **model), after=["agent"])
    own = create_agent_node("own", tool_definitions=[{"name": "ls"}], **model)
    workflow = workflow.with_node(own, after=["scale"])
    declared = [{"name": "read"}, {"name": "weigh"}]
    made = define_executor(workflow=workflow, create_input=create_agent_project_input, tools=declared)
    await made.run(["hi"], C)
    assert [request.tool_names() for request in fake.requests] == [["read"], ["read", "weigh"], ["ls"]]


# -- several agents ----------------------------------------------------------------------------------------------------


@pytest.mark.feature("N07")
async def test_agents_have_sessions_of_their_own_and_the_run_has_the_usage_of_all(
    fake: FakeServer, model: Options, home: Path
) -> None:
    fake.respond(lambda request: text(f"re: {request.last_user_text()}").using(10, 2))
    workflow = create_agent_conversation_project(name="pi", **model)
    workflow = workflow.with_node(create_agent_node("critic", **model), after=["agent"], before=["output"])
    executor = define_executor(workflow=workflow, create_input=create_agent_project_input)
    for run_id in ("r-1", "r-2"):
        report = await executor.run(["draft it"], RunContext(run_id, "c"))
    assert report.answer.text == "re: re: draft it"
    assert report.answer.usage.calls == 2
    assert list_session_files() == sorted(session_file("pi", "c", key, home) for key in ("agent", "critic"))
    assert [len(request.messages_text()) for request in fake.requests] == [1, 1, 3, 3]
    # What a person said is what stands there, and not what the last agent was told.
    assert said() == [("user", "draft it"), ("assistant", "re: re: draft it")] * 2
    assert [run.usage["calls"] for run in history().runs] == [2, 2]


@pytest.mark.feature("N07", "N05")
async def test_a_run_of_several_agents_is_gone_on_with_where_it_failed(fake: FakeServer, model: Options) -> None:
    fake.script(text("a draft"), error(400, "no money"), text("a better one"))
    workflow = create_agent_conversation_project(name="pi", **model)
    workflow = workflow.with_node(create_agent_node("critic", **model), after=["agent"], before=["output"])
    executor = define_executor(workflow=workflow, create_input=create_agent_project_input)
    assert (await executor.run(["draft it"], C)).status == "failed"
    report = await executor.run([], RunContext("r-1", "c", reopen=True))
    assert (report.status, report.answer.text) == ("answered", "a better one")
    assert len(fake.requests) == 3
    assert said() == [("user", "draft it"), ("assistant", "a better one")]


@pytest.mark.feature("N07")
async def test_independent_agents_run_at_the_same_time(fake: FakeServer, model: Options) -> None:
    """Neither answer goes on before both requests are there."""
    first, second = gate(), gate()
    fake.script(text("one").hold(first, before=0), text("two").hold(second, before=0))
    workflow = create_agent_conversation_project(name="pi", **model)
    workflow = workflow.with_node(create_agent_node("beside", **model))
    executor = define_executor(workflow=workflow, create_input=create_agent_project_input)
    running = asyncio.ensure_future(executor.run(["hi"], C))
    await fake.wait_requests(2)
    first.open()
    second.open()
    async with asyncio.timeout(30):
        report = await running
    outputs = {output.node: output.output for output in report.outputs}
    assert {outputs["pi-agent"].text, outputs["beside"].text} == {"one", "two"}
    assert report.answer.text == outputs["pi-agent"].text
    assert report.answer.usage.calls == 2


@pytest.mark.feature("N07")
async def test_an_agent_beside_that_fails_fails_the_run_and_the_answer_stays(fake: FakeServer, model: Options) -> None:
    fake.respond(lambda request: error(400, "no") if "critic" in request.system_text() else text("hello"))
    workflow = create_agent_conversation_project(name="pi", **model)
    workflow = workflow.with_node(create_agent_node("critic", system_prompt="You are the critic.", **model))
    executor = define_executor(workflow=workflow, create_input=create_agent_project_input)
    report = await executor.run(["hi"], C)
    assert (report.status, report.answer.reason, report.answer.text) == ("failed", "model_error", "hello")
    assert said() == [("user", "hi"), ("assistant", "hello")]
    assert [run.status for run in history().runs] == ["failed"]


# -- own inputs --------------------------------------------------------------------------------------------------------


async def test_an_input_may_be_made_by_an_async_function_and_be_a_dict(fake: FakeServer, model: Options) -> None:
    fake.script(text("ok"))

    async def create_input(args: Any, context: RunContext) -> dict[str, Any]:
        return {"prompt": f"{args.prompt} ({context.run_id})", "effort": "low"}

    workflow = create_agent_conversation_project(name="pi", **model)
    made = define_executor(workflow=workflow, create_input=create_input)
    await made.run(["hi"], C)
    assert fake.requests[0].last_user_text() == "hi (r-1)"


@pytest.mark.parametrize("made", [{"promt": "x"}, 3, {"prompt": ""}])
async def test_a_wrong_input_is_named(model: Options, made: Any) -> None:
    workflow = create_agent_conversation_project(name="pi", **model)
    executor = define_executor(workflow=workflow, create_input=lambda args, context: made)
    with pytest.raises(InputValidationError):
        await executor.run(["hi"])


async def test_pictures_alone_are_a_message(fake: FakeServer, model: Options) -> None:
    fake.script(text("a dot"))
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

    def create_input(args: Any, context: RunContext) -> AgentInput:
        return AgentInput(prompt="", images=({"data": png, "mime_type": "image/png"},))  # type: ignore[arg-type]

    workflow = create_agent_conversation_project(name="pi", model_attributes={"input": ["text", "image"]}, **model)
    made = define_executor(workflow=workflow, create_input=create_input)
    await made.run([], C)
    [user, _] = history().messages
    assert (user.role, user.text, user.images) == ("user", "", 1)


async def test_parameters_reach_the_run(fake: FakeServer, model: Options, tmp_path: Path) -> None:
    fake.respond(lambda request: tools(call("ls", {}, id="c1")) if not request.results() else text("done"))
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "owl.txt").write_text("hoot")
    await project(model).run(["look", "-C", str(tmp_path / "there"), "--permission-policy", "read-only"], C)
    assert "owl.txt" in fake.requests[1].results()["c1"]
    assert "bash" not in fake.requests[0].tool_names()
    assert os.getcwd() == str(tmp_path / "work")  # noqa: PTH109
