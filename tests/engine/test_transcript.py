"""The context as JSON, seeded, begun anew, and kept by a host."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from agent_nodes.errors import AgentBusy, AgentClosed, InputValidationError, RequestConflict
from agent_nodes.messages import AssistantMessage, ToolResultMessage, UserMessage
from tests.fakes import FakeServer, reply, text, thinking
from tests.support import model_of, online, png, scripted, take, tool

CALLS = """
    think: hm
    text: I look.
    call: look {"at": "moon"}
    ---
    text: It is round.
"""


async def look(arguments: dict[str, Any], context: Any) -> str:
    return "round"


LOOK = tool("look", look, properties={"at": {"type": "string"}})


@pytest.mark.feature("A05")
async def test_a_transcript_is_what_the_model_sees_and_another_agent_goes_on_from_it():
    async with scripted(CALLS, extra_tools=[LOOK]) as agent:
        assert agent.read_transcript() == []
        await take(agent.run("What shape?"))
        transcript = agent.read_transcript()
    assert [message["role"] for message in transcript] == ["user", "assistant", "tool_result", "assistant"]
    assert transcript[0]["content"] == [{"type": "text", "text": "What shape?"}]
    async with scripted("text: I said round.", extra_tools=[LOOK]) as agent:
        await agent.restore_transcript(transcript)
        assert [message["role"] for message in agent.read_transcript()] == [m["role"] for m in transcript]
        outcome = await take(agent.run("And again?"))
        assert outcome.text == "I said round."
        (request,) = model_of(agent).requests
        said = [type(message) for message in request.messages if isinstance(message, UserMessage | AssistantMessage)]
        assert said == [UserMessage, AssistantMessage, AssistantMessage, UserMessage]
        assert any(isinstance(m, ToolResultMessage) and m.text == "round" for m in request.messages)


@pytest.mark.feature("A05")
async def test_a_restored_transcript_survives_in_the_file_and_is_never_laid_over_a_history(tmp_path):
    path = tmp_path / "s.sqlite"
    history = [{"role": "user", "content": "I am Kim."}, {"role": "assistant", "content": "Hello Kim."}]
    async with scripted("stop: end", database_path=path) as agent:
        await agent.restore_transcript(history)
        with pytest.raises(InputValidationError, match="never overwritten"):
            await agent.restore_transcript(history)
    async with scripted("text: Kim.", database_path=path) as agent:
        assert [m["content"][0]["text"] for m in agent.read_transcript()] == ["I am Kim.", "Hello Kim."]
        assert (await take(agent.run("Who am I?"))).text == "Kim."
        with pytest.raises(InputValidationError, match="never overwritten"):
            await agent.restore_transcript(history)
        await agent.reset()
        with pytest.raises(InputValidationError, match="never overwritten"):
            await agent.restore_transcript(history)


@pytest.mark.feature("A05")
async def test_what_only_its_provider_understands_is_not_restored():
    async with FakeServer() as fake:
        async with online(fake, "anthropic-messages") as agent:
            fake.script(reply(thinking("hm", signature="sig-a"), "one"))
            await take(agent.run("1"))
            transcript = agent.read_transcript()
            assert "sig-a" in str(transcript)
        async with online(fake, "anthropic-messages") as agent:
            await agent.restore_transcript(transcript)
            assert "sig-a" not in str(agent.read_transcript())
            fake.script(text("two"))
            await take(agent.run("2"))
            assert b"sig-a" not in fake.requests[1].raw
            fake.assert_accepted()


def pictured(data: str, kind: str) -> list[dict[str, Any]]:
    image = {"type": "image", "data": data, "mime_type": kind}
    return [{"role": "user", "content": [{"type": "text", "text": "look"}, image]}]


def called(value: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [{"type": "tool_call", "id": "c", "name": "look", "arguments": {"at": value}}],
    }


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


BROKEN_PICTURES = [
    ("!!!", "image/png"),
    ("iVBORw0KGgo=", "image/png"),
    (png().data, "image/jpeg"),
    ("eA==", "text/html"),
]
UNSTORABLE = [10**40, float("nan"), nested(3000), nested(400)]

WRONG_MESSAGES = [
    ("text", "messages"),
    (["hi"], "messages.0"),
    ([{"content": "x"}], "messages.0.role"),
    ([{"role": "system", "content": "x"}], "messages.0.role"),
    ([{"role": "user"}], "messages.0.content"),
    ([{"role": "user", "content": [{"type": "txt"}]}], "messages.0.content.0.type"),
    ([{"role": "user", "content": [{"type": "text"}]}], "messages.0.content.0.text"),
    ([{"role": "user", "content": [{"type": "image", "data": 5, "mime_type": "x"}]}], "messages.0.content.0.data"),
    (
        [{"role": "assistant", "content": [{"type": "tool_call", "id": "c", "name": "x"}]}],
        "messages.0.content.0.arguments",
    ),
    ([{"role": "user", "content": "x"}, {"role": "tool_result", "content": "x"}], "messages.1.call_id"),
    ([{"role": "assistant", "content": "x", "api": "soap"}], "messages.0.api"),
    *((pictured(data, kind), "messages.0.content.1") for data, kind in BROKEN_PICTURES),
    *(([{"role": "user", "content": "x"}, called(value)], "messages.1") for value in UNSTORABLE),
]


@pytest.mark.feature("A05", "B06")
@pytest.mark.parametrize(("messages", "field"), WRONG_MESSAGES)
async def test_a_wrong_message_is_named(messages, field):
    async with scripted("text: x") as agent:
        with pytest.raises(InputValidationError) as caught:
            await agent.restore_transcript(messages)
        assert caught.value.field == field
        assert agent.read_transcript() == []
        outcome = await take(agent.run({"prompt": "go", "host_input": {"messages": messages}}))
        assert isinstance(outcome.error, InputValidationError)
        assert outcome.error.field == f"host_input.{field}"
        assert model_of(agent).requests == []


@pytest.mark.feature("A05")
async def test_a_reset_context_knows_nothing_of_before_and_the_store_all(tmp_path):
    path = tmp_path / "s.sqlite"
    async with scripted("text: one\n---\ntext: two", database_path=path) as agent:
        await take(agent.run({"prompt": "first", "request_id": "r1"}))
        await agent.reset()
        assert agent.read_transcript() == []
        usage = agent.get_context_usage()
        assert usage is not None
        assert usage.used == 0
        await take(agent.run("second"))
        said = [m for m in model_of(agent).requests[1].messages if isinstance(m, UserMessage) and m.content]
        assert [m.content[0].text for m in said] == ["second"]  # type: ignore[union-attr]
        assert model_of(agent).requests[1].system.sections
    async with scripted("text: three", database_path=path) as agent:
        assert [m["role"] for m in agent.read_transcript()] == ["user", "assistant"]
        assert (await take(agent.run({"request_id": "r1"}))).text == "one"
        await take(agent.run("third"))
        (request,) = model_of(agent).requests
        assert "'first'" not in str(request.messages)
        assert "second" in str(request.messages)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM entry WHERE kind = 'reset'").fetchone() == (1,)


@pytest.mark.feature("A05")
async def test_a_reset_waits_for_the_end_of_what_runs():
    async with scripted("text: a\ncall: look {}\n---\ntext: b", extra_tools=[LOOK]) as agent:
        run = agent.run("go")
        async for _ in run:
            with pytest.raises(AgentBusy):
                await agent.reset()
            with pytest.raises(AgentBusy):
                await agent.restore_transcript([])
            break
        await agent.reset()
    with pytest.raises(AgentClosed):
        await agent.reset()
    with pytest.raises(AgentClosed):
        await agent.restore_transcript([])


@pytest.mark.feature("A05")
async def test_a_session_has_the_id_it_was_given_and_no_other(tmp_path):
    path = tmp_path / "s.sqlite"
    async with scripted("stop: end", database_path=path, session_id="mine") as agent:
        assert agent.session_id == "mine"
    known: list[dict[str, Any]] = [{}, {"session_id": "mine"}]
    for options in known:
        async with scripted("stop: end", database_path=path, **options) as agent:
            assert agent.session_id == "mine"
    with pytest.raises(InputValidationError, match="mine") as caught:
        async with scripted("stop: end", database_path=path, session_id="other"):
            pass
    assert caught.value.field == "session_id"
    async with scripted("stop: end", database_path=path) as agent:
        assert agent.session_id == "mine"


# -- a history that the host keeps -------------------------------------------------------------------------------------

HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Look at the moon."},
    {"role": "assistant", "content": [{"type": "tool_call", "id": "c1", "name": "look", "arguments": {}}]},
    {"role": "tool_result", "call_id": "c1", "name": "look", "content": "round"},
    {"role": "assistant", "content": "It is round."},
]


@pytest.mark.feature("B06")
async def test_a_turn_of_a_hosts_history_leaves_no_trace_in_the_session(tmp_path):
    path = tmp_path / "s.sqlite"
    reports: list[Any] = []
    async with scripted("text: own\n---\ntext: hosted\n---\ntext: own again", database_path=path) as agent:
        await take(agent.run("mine"))
        before = agent.read_transcript()
        given = {"prompt": "And now?", "host_input": {"messages": HISTORY, "system": "Answer as a gateway."}}
        outcome = await take(agent.run(given, {"report_usage": reports.append}))
        assert outcome.text == "hosted"
        assert outcome.run.result is not None
        assert outcome.run.result.status == "answered"
        assert len(reports) == 1
        assert agent.read_transcript() == before
        assert (await take(agent.run("mine again"))).text == "own again"
        hosted, later = model_of(agent).requests[1:]
        assert "mine" not in str(hosted.messages)
        assert "It is round." in str(hosted.messages)
        assert hosted.system.sections[1] == "Answer as a gateway."
        assert "Answer as a gateway." not in later.system.sections
        assert "It is round." not in str(later.messages)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM turn").fetchone() == (2,)


@pytest.mark.feature("B06")
async def test_a_hosts_history_is_what_a_strict_service_accepts():
    picture = {"type": "image", "data": png().data, "mime_type": "image/png"}
    history = [*HISTORY, {"role": "user", "content": [picture, {"type": "text", "text": "this?"}]}]
    for kind in ("anthropic-messages", "openai-responses", "openai-completions"):
        async with FakeServer() as fake, online(fake, kind) as agent:
            fake.script(text("fine"))
            outcome = await take(agent.run({"prompt": "go", "host_input": {"messages": history}}))
            assert outcome.text == "fine"
            fake.assert_accepted()


BROKEN_PAIRS = [
    (HISTORY[:2], "host_input.messages.1"),
    ([HISTORY[0], HISTORY[2]], "host_input.messages.1"),
    ([*HISTORY[:3], HISTORY[2]], "host_input.messages.3"),
    ([*HISTORY[:2], {"role": "user", "content": "wait"}, HISTORY[2]], "host_input.messages.1"),
    ([HISTORY[1], HISTORY[1], HISTORY[2], HISTORY[2]], "host_input.messages.0"),
]


@pytest.mark.feature("B06")
@pytest.mark.parametrize(("messages", "field"), BROKEN_PAIRS)
async def test_a_hosts_call_without_its_result_is_refused_by_place(messages, field):
    async with scripted("text: x") as agent:
        outcome = await take(agent.run({"prompt": "go", "host_input": {"messages": messages}}))
        assert isinstance(outcome.error, InputValidationError)
        assert outcome.error.field == field
        assert model_of(agent).requests == []


@pytest.mark.feature("B06")
@pytest.mark.parametrize(
    ("value", "field"), [({"msgs": []}, "host_input.msgs"), ({"system": 5}, "host_input.system"), ("x", "host_input")]
)
async def test_a_wrong_host_input_is_named(value, field):
    async with scripted("text: x") as agent:
        with pytest.raises(InputValidationError) as caught:
            outcome = await take(agent.run({"prompt": "go", "host_input": value}))
            raise outcome.error or AssertionError("accepted")
        assert caught.value.field == field


@pytest.mark.feature("B06")
async def test_a_hosts_turn_is_stopped_and_closed_as_any_other(tmp_path):
    given = {"prompt": "go", "host_input": {"messages": HISTORY}}
    async with scripted("text: a\nwait: 5000\n---\ntext: b", database_path=tmp_path / "s.sqlite") as agent:
        async for event in agent.run(given):
            if event.type == "text_delta":
                break
        assert agent.unfinished() == []
        assert (await take(agent.run("own"))).text == "b"
    async with scripted("text: a\nwait: 5000", database_path=tmp_path / "t.sqlite") as agent:
        error: Exception | None = None
        try:
            async for event in agent.run(given):
                if event.type == "text_delta":
                    await agent.close()
        except Exception as raised:
            error = raised
        assert isinstance(error, AgentClosed)


@pytest.mark.feature("B06")
async def test_a_hosts_turn_knows_no_request_of_the_session():
    async with scripted("text: own\n---\ntext: hosted") as agent:
        await take(agent.run({"prompt": "one", "request_id": "r"}))
        with pytest.raises(RequestConflict):
            raise (await take(agent.run({"prompt": "two", "request_id": "r"}))).error or AssertionError
        outcome = await take(agent.run({"prompt": "two", "request_id": "r", "host_input": {}}))
        assert outcome.text == "hosted"
