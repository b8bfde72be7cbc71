"""One turn a call: live events, an outcome as a value, a session that its names lead to."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from agent_nodes import (
    AbortSignal,
    AgentHost,
    AgentInput,
    AgentStreamEvent,
    InputValidationError,
    RequestConflict,
    SessionBusy,
    create_agent,
    create_agent_node,
    run_agent,
)
from agent_nodes.errors import ModelError
from agent_nodes.store.locate import list_session_files, read_meta, session_file
from agent_nodes.submission import SessionRef
from tests.fakes import FakeServer, error, gate, text

Options = dict[str, Any]


@pytest.mark.feature("P01", "E03")
async def test_the_third_delta_is_read_before_the_model_has_sent_the_fourth(fake: FakeServer, model: Options) -> None:
    held = gate()
    fake.script(text("a", "b", "c", "d").hold(held, before=3))
    heard: list[str] = []

    def on_event(event: AgentStreamEvent) -> None:
        if event.type == "text_delta":
            heard.append(event.delta)
            if "".join(heard) == "abc":
                held.open()

    node = create_agent_node(host=AgentHost(on_event=on_event), **model)
    async with asyncio.timeout(30):
        payload = await node("go")
    assert (payload.status, payload.text) == ("answered", "abcd")
    assert "".join(heard) == payload.text


@pytest.mark.feature("P01")
async def test_the_payload_names_its_session_and_its_turn(fake: FakeServer, model: Options, home: Path) -> None:
    fake.script(text("hello").using(10, 2), text("again"))
    payload = await create_agent_node(project="shop", conversation_id="c-1", session_key="k", **model)(
        prompt="hi", request_id="r-1"
    )
    assert payload.session == SessionRef("shop", "c-1", "k")
    assert (payload.request_id, payload.turn_id is not None) == ("r-1", True)
    assert (payload.usage.input_tokens, payload.usage.output_tokens, payload.usage.calls) == (10, 2, 1)
    assert (payload.err_code, payload.err_message, payload.reason) == (0, "", None)
    [path] = list_session_files()
    assert path == session_file("shop", "c-1", "k", home)
    meta = read_meta(path)
    assert (meta.project, meta.conversation_id, meta.session_key) == ("shop", "c-1", "k")


async def test_a_conversation_goes_on_where_it_is_named_and_begins_anew_where_not(
    fake: FakeServer, model: Options
) -> None:
    fake.respond(lambda _: text("ok"))
    named, unnamed = create_agent_node(conversation_id="c", **model), create_agent_node(**model)
    for node in (named, named, unnamed, unnamed):
        await node("hi")
    users = [[m.text for m in request.messages() if m.role == "user"] for request in fake.requests]
    assert users == [["hi"], ["hi", "hi"], ["hi"], ["hi"]]
    first, second = await unnamed("hi"), await unnamed("hi")
    assert first.session != second.session
    assert first.session is not None
    assert first.session.session_key == "agent"


async def test_the_session_key_may_depend_on_the_input(fake: FakeServer, model: Options) -> None:
    fake.respond(lambda _: text("ok"))
    node = create_agent_node(conversation_id="c", session_key=lambda given: f"about {given.prompt}", **model)
    async with asyncio.TaskGroup() as group:
        payloads = [group.create_task(node(topic)) for topic in ("cats", "dogs")]
    keys = [payload.result().session.session_key for payload in payloads]  # type: ignore[union-attr]
    assert keys == ["about cats", "about dogs"]


async def test_the_same_request_id_meets_the_same_turn(fake: FakeServer, model: Options) -> None:
    fake.script(text("once"))
    node = create_agent_node(conversation_id="c", **model)
    given = AgentInput(prompt="hi", request_id="r")
    assert await node(given) == await node(given)
    assert len(fake.requests) == 1
    with pytest.raises(RequestConflict):
        await node(prompt="something else", request_id="r")


async def test_a_failed_turn_is_a_value_and_can_be_raised(fake: FakeServer, model: Options) -> None:
    fake.script(error(400, "no such model"), error(400, "no such model"))
    payload = await create_agent_node(**model)("hi")
    assert (payload.status, payload.reason, payload.err_code) == ("failed", "model_error", 1)
    assert "no such model" in payload.err_message
    with pytest.raises(ModelError, match="no such model"):
        await create_agent_node(raise_on_failure=True, **model)("hi")


async def test_a_failed_turn_stays_failed_until_it_is_reopened(fake: FakeServer, model: Options) -> None:
    fake.script(error(400), text("now it works"))
    node = create_agent_node(conversation_id="c", **model)
    first = await node(prompt="hi", request_id="r")
    again = await node(prompt="hi", request_id="r")
    assert (first.status, again) == ("failed", first)
    reopened = await node(prompt="hi", request_id="r", reopen=True)
    assert (reopened.status, reopened.text, reopened.turn_id) == ("answered", "now it works", first.turn_id)


async def test_the_key_is_in_no_text_of_a_failure(fake: FakeServer, model: Options) -> None:
    fake.script(error(401, "Incorrect API key provided: k-secret-1"))
    model["api_key"] = "k-secret-1"
    payload = await create_agent_node(**model)("hi")
    assert payload.status == "failed"
    assert "k-secret-1" not in repr(payload)


async def test_a_stop_is_a_value_with_what_was_said_until_then(fake: FakeServer, model: Options) -> None:
    held = gate()
    fake.script(text("half ", "an answer").hold(held, before=1))
    signal = AbortSignal()

    def on_event(event: AgentStreamEvent) -> None:
        if event.type == "text_delta":
            signal.set("enough")

    payload = await create_agent_node(host=AgentHost(on_event=on_event, abort_signal=signal), **model)("hi")
    assert (payload.status, payload.reason, payload.err_code, payload.text) == ("aborted", "aborted", 130, "half ")
    assert payload.err_message == "enough"
    held.open()


async def test_a_run_stopped_before_its_start_leaves_no_turn(model: Options) -> None:
    signal = AbortSignal()
    signal.set()
    payload = await create_agent_node(host={"abort_signal": signal}, **model)("hi")
    assert (payload.status, payload.turn_id) == ("aborted", None)


async def test_a_hook_that_raises_ends_the_turn_with_its_reason(fake: FakeServer, model: Options) -> None:
    fake.script(text("hello"))

    def on_event(_: AgentStreamEvent) -> None:
        raise ValueError("the screen is gone")

    payload = await create_agent_node(host=AgentHost(on_event=on_event), **model)("hi")
    assert (payload.status, payload.reason) == ("failed", "runtime_failure")
    assert payload.turn_id is not None
    assert "the screen is gone" in payload.err_message


@pytest.mark.feature("A10")
async def test_an_error_is_passed_on_without_a_model_or_a_session(fake: FakeServer, model: Options) -> None:
    node = create_agent_node(raise_on_failure=True, **model)
    payload = await node(err_code=7, err_message="disk gone")
    assert (payload.status, payload.reason) == ("failed", "upstream")
    assert (payload.err_code, payload.err_message) == (7, "disk gone")
    assert fake.requests == []
    assert list_session_files() == []


async def test_a_busy_session_is_refused_with_its_owners_pid(fake: FakeServer, model: Options, home: Path) -> None:
    path = session_file("default", "c", "agent", home)
    async with create_agent(database_path=path, **model):
        with pytest.raises(SessionBusy, match=str(os.getpid())) as caught:
            await create_agent_node(conversation_id="c", on_busy="refuse", **model)("hi")
    assert caught.value.pid == os.getpid()
    assert fake.requests == []


async def test_cancelling_the_task_leaves_the_turn_to_be_gone_on_with(fake: FakeServer, model: Options) -> None:
    held = gate()
    fake.script(text("half ", "an answer").hold(held, before=1), text("and the rest"))
    node = create_agent_node(conversation_id="c", **model)
    task = asyncio.create_task(node(prompt="hi", request_id="r"))
    await held.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    payload = await node(request_id="r")
    held.open()
    assert payload.status == "answered"
    assert payload.text.endswith("and the rest")


async def test_the_plain_function_does_the_same(fake: FakeServer, model: Options) -> None:
    fake.script(text("hello"), error(400))
    heard: list[AgentStreamEvent] = []
    payload = await run_agent("hi", {"on_event": heard.append}, conversation_id="c", session_key="k", **model)
    assert (payload.status, payload.text, payload.session) == ("answered", "hello", SessionRef("default", "c", "k"))
    assert [event.type for event in heard if event.type == "text_delta"] == ["text_delta"]
    with pytest.raises(ModelError):
        await run_agent("hi", raise_on_failure=True, **model)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"on_busy": "queue"}, "on_busy"),
        ({"busy_timeout": 0}, "busy_timeout"),
        ({"busy_timeout": "long"}, "busy_timeout"),
        ({"wait": "pause"}, "wait"),
        ({"create_tools": list}, "create_tools"),
        ({"plan": True}, "plan"),
        ({"database_path": "x.sqlite"}, "database_path"),
        ({"storage": object()}, "storage"),
        ({"host": {"on_events": print}}, "host"),
        ({"name": " "}, "name"),
        ({"max_tokens": 0}, "max_tokens"),
    ],
)
def test_what_a_node_cannot_do_is_refused_by_name_when_it_is_made(options: Options, field: str) -> None:
    with pytest.raises(InputValidationError) as caught:
        create_agent_node(**options)
    assert caught.value.field == field
    assert field in str(caught.value)


async def test_an_empty_session_key_is_refused_before_anything_is_opened(model: Options) -> None:
    with pytest.raises(InputValidationError, match="session_key"):
        await create_agent_node(session_key=lambda _: "", **model)("hi")
    assert list_session_files() == []


def test_an_option_of_the_task_is_sent_where_it_belongs():
    with pytest.raises(InputValidationError, match="with_options"):
        create_agent_node(provider="demo", retries=2)  # type: ignore[call-arg]
