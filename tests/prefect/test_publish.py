"""What the server has of a turn afterwards: lines, events and artifacts, and no key."""

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agent_nodes import AbortSignal, AgentHost, AgentTool, RequestConflict, create_agent_node
from agent_nodes.errors import ModelError, RuntimeFailure
from agent_nodes.nodes.prefect.pages import artifact_key
from agent_nodes.submission import SessionRef
from tests.fakes import FakeServer, call, drop_after, error, gate, reply, text, thinking
from tests.prefect.conftest import options
from tests.prefect.shown import logged, server_database, shown

GUARD = 60
KEY = "k-secret-of-the-service-1"

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def lines(server: str) -> Iterator[None]:
    with logged():
        yield


def flow_run_id() -> str:
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    assert context is not None
    assert context.flow_run is not None
    return str(context.flow_run.id)


def tool(name: str, execute: Any) -> AgentTool:
    return AgentTool(name=name, description="", parameters={"type": "object"}, execute=execute)


@pytest.mark.feature("P05")
async def test_a_run_shows_the_transcript_the_usage_the_events_and_a_few_lines(fake: FakeServer) -> None:
    from prefect import flow

    async def weigh(_: Any, __: object) -> str:
        return "3 kg\n```\nnet\n```"

    fake.script(
        reply(thinking("a scale"), "Let me weigh it.", call("weigh", id="c1")).using(10, 5),
        text(*["It ", "is "] * 500, "3 kg.").using(20, 6),
    )
    ask = create_agent_node("scales", extra_tools=[tool("weigh", weigh)], conversation_id="cat", **options(fake))

    @flow
    async def talk() -> str:
        await ask("How heavy\nis it?")
        return flow_run_id()

    run = await asyncio.wait_for(talk(), GUARD)
    found = await shown(run, lambda now: len(now.artifacts) == len(now.events) == 2 and now.says("Turn answered"))

    page = found.data("markdown")
    assert "> How heavy\n> is it?" in page
    assert "> a scale" in page
    assert "## Tool weigh (completed)" in page
    assert "````\n3 kg\n```\nnet\n```\n````" in page
    assert page.index("Let me weigh it.") < page.index("## Tool weigh") < page.index("It is It is")
    table = json.loads(found.data("table"))
    assert [(row["response"], row["input"], row["output"]) for row in table] == [
        ("1", 10, 5),
        ("2", 20, 6),
        ("all", 30, 11),
    ]
    session = SessionRef("default", "cat", "scales")
    assert {a.key for each in found.artifacts.values() for a in each} == {
        artifact_key("transcript", session),
        artifact_key("usage", session),
    }

    assert found.happened == ["started", "answered"]
    answered = found.events[-1]
    assert answered["resource"]["prefect.resource.id"].startswith("agent_nodes.session.default-")
    roles = {each["prefect.resource.role"] for each in answered["related"]}
    assert {"flow-run", "task-run", "flow"} <= roles
    payload = answered["payload"]
    assert (payload["node"], payload["session_key"], payload["conversation_id"]) == ("scales", "scales", "cat")
    assert payload["usage"]["output_tokens"] == 11
    assert "3 kg" not in json.dumps(found.events)

    ours = [line for line in found.lines if line.startswith(("Turn", "Tool"))]
    assert [line.partition(":")[0] for line in ours[1:]] == ["Tool weigh starts.", "Turn answered"]
    assert "2 responses, 1 tool call, 30 tokens in, 11 out" in ours[2]


@pytest.mark.feature("P05")
async def test_the_artifacts_of_a_session_are_versions_of_one(fake: FakeServer) -> None:
    from prefect import flow, get_client

    fake.respond(lambda request: text(f"re: {request.messages()[-1].text}"))
    ask = create_agent_node(conversation_id="versions", **options(fake))

    @flow
    async def talk() -> str:
        await ask("one")
        await ask("two")
        return flow_run_id()

    run = await asyncio.wait_for(talk(), GUARD)
    found = await shown(run, lambda now: len(now.artifacts.get("markdown", [])) == 2)
    key = artifact_key("transcript", SessionRef("default", "versions", "agent"))
    assert [artifact.key for artifact in found.artifacts["markdown"]] == [key, key]
    client: Any
    async with get_client() as client:
        latest = (await client.request("GET", f"/artifacts/{key}/latest")).json()
    assert "re: two" in latest["data"]


@pytest.mark.feature("P05")
async def test_the_progress_says_what_the_turn_is_doing_while_it_does_it(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect import flow

    monkeypatch.setattr("agent_nodes.nodes.prefect.publish.SHOW_AFTER", 0.0)
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()
    held = gate()

    async def wait(_: Any, __: object) -> str:
        await leave.wait()
        return "waited"

    fake.script(call("wait", id="c1"), text("do", "ne").hold(held, before=1))
    ask = create_agent_node(extra_tools=[tool("wait", wait)], **options(fake))

    @flow
    async def talk() -> None:
        told.set_result(flow_run_id())
        await ask("wait for it")

    async with asyncio.timeout(GUARD):
        running = asyncio.create_task(talk())
        run = await told

        def doing(what: str) -> Any:
            return shown(run, lambda now: any(what in a.description for a in now.artifacts.get("progress", [])))

        first = (await doing("runs wait; 1 tool call")).artifacts["progress"]
        leave.set()
        await doing("the model answers; 1 tool call")
        held.open()
        await running
        last = (await doing("answered: 2 responses")).artifacts["progress"]
    assert [artifact.id for artifact in first] == [artifact.id for artifact in last]
    assert (first[0].data, last[0].data) == (0, 100)


@pytest.mark.feature("P05")
async def test_a_retry_a_failure_a_stop_and_a_replay_are_events_of_their_own(fake: FakeServer) -> None:
    from prefect import flow

    fake.script(
        drop_after("half"), error(400, "too long"), text("fine"), text("never ", "heard").hold(gate(), before=1)
    )
    ask = create_agent_node(raise_on_failure=False, **options(fake))
    signal = AbortSignal()

    def stop(_: object) -> None:
        signal.set("enough")

    stopped = create_agent_node("stopped", host=AgentHost(on_event=stop, abort_signal=signal), **options(fake))

    @flow
    async def talk() -> str:
        await ask("fails")
        await ask(prompt="works", request_id="r")
        await ask(request_id="r")
        await stopped("is stopped")
        return flow_run_id()

    run = await asyncio.wait_for(talk(), GUARD)
    found = await shown(run, lambda now: len(now.events) == 9)
    assert found.happened == [
        *("started", "retry", "failed"),
        *("started", "answered"),
        *("started", "replayed"),
        *("started", "aborted"),
    ]
    retry, failed = found.events[1]["payload"], found.events[2]["payload"]
    assert (retry["kind"], retry["attempt"]) == ("dropped", 1)
    assert failed["reason"] == "model_error"
    assert "too long" in failed["detail"]
    assert found.events[8]["payload"]["detail"] == "enough"


@pytest.mark.feature("P03", "P05")
async def test_a_run_shows_who_waits_for_a_session_and_who_is_left_out(fake: FakeServer) -> None:
    from prefect import flow

    held = gate()
    fake.script(text("first").hold(held, before=0), text("second"))
    waits = create_agent_node(conversation_id="busy", **options(fake))
    skips = create_agent_node("skips", session_key="agent", conversation_id="busy", on_busy="skip", **options(fake))

    @flow
    async def talk() -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(waits(prompt="one", request_id="1"))
            await held.reached.wait()
            group.create_task(waits(prompt="two", request_id="2"))
            assert (await skips(prompt="three", request_id="3")).status == "skipped"
            await shown(flow_run_id(), lambda now: now.says("The session is busy"))
            held.open()
        return flow_run_id()

    run = await asyncio.wait_for(talk(), GUARD)
    found = await shown(run, lambda now: len(now.events) == 5)
    assert sorted(found.happened) == ["answered", "answered", "skipped", "started", "started"]
    [waiting] = [line for line in found.lines if line.startswith("The session is busy")]
    assert "in use in this process" in waiting
    [skipped] = [event for event in found.events if event["event"].endswith("skipped")]
    assert skipped["payload"]["reason"] == "session_busy"


@pytest.mark.feature("P05")
async def test_a_call_that_makes_no_turn_is_a_failure_too(fake: FakeServer) -> None:
    from prefect import flow

    fake.script(text("ok"))
    ask = create_agent_node(**options(fake))
    runs: list[str] = []

    @flow
    async def talk() -> None:
        runs.append(flow_run_id())
        await ask(prompt="hi", request_id="r")
        await ask(prompt="something else", request_id="r")

    with pytest.raises(RequestConflict):
        await asyncio.wait_for(talk(), GUARD)
    found = await shown(runs[0], lambda now: len(now.events) == 4)
    assert found.happened == ["started", "answered", "started", "failed"]
    assert found.events[-1]["payload"]["reason"] == "request_conflict"


# -- keys --------------------------------------------------------------------------------------------------------------


@pytest.mark.feature("P05")
async def test_the_key_is_nowhere_in_what_the_server_keeps(fake: FakeServer, caplog: pytest.LogCaptureFixture) -> None:
    from prefect import flow

    async def look(_: Any, __: object) -> str:
        raise ValueError(f"the scale is broken, and the key is {KEY}")

    def listen(event: Any) -> None:
        if event.type == "text_delta" and event.delta == "loud":
            raise ValueError(f"nobody wants to hear {KEY}")

    fake.script(
        *(call("look", id="c1"), text(f"the scale says {KEY}")),
        error(401, f"no such key as {KEY}"),
        *(error(500, f"{KEY} is too much for me"), error(400, f"{KEY} is wrong")),
        text("loud"),
    )
    model = {**options(fake), "api_key": KEY}
    ask = create_agent_node(extra_tools=[tool("look", look)], host=AgentHost(on_event=listen), **model)
    runs: list[str] = []

    @flow
    async def talk(prompt: str) -> None:
        runs.append(flow_run_id())
        await ask(prompt)

    async with asyncio.timeout(GUARD):
        await talk("works")
        for kind in (ModelError, ModelError, RuntimeFailure):
            with pytest.raises(kind) as caught:
                await talk(f"ends with a {kind.__name__}")
            assert KEY not in str(caught.getrepr(chain=True, style="native"))
        await shown(runs[0], lambda now: "markdown" in now.artifacts and len(now.events) == 2)
        for run in runs[1:]:
            await shown(run, lambda now: now.says("Finished in state Failed"))
            await shown(run, lambda now: "failed" in now.happened and "markdown" in now.artifacts)
    kept = server_database()
    assert b"the scale is broken, and the key is ***" in kept
    assert b"no such key as ***" in kept
    assert b"nobody wants to hear ***" in kept
    assert KEY.encode() not in kept
    assert KEY not in caplog.text


# -- behind the turn ---------------------------------------------------------------------------------------------------


@pytest.mark.feature("P05")
async def test_a_server_that_refuses_everything_fails_no_turn(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from prefect import flow

    from agent_nodes.nodes.prefect.background import Background

    asked = threading.Event()

    def refuse(*_: object, **__: object) -> None:
        asked.set()
        raise ConnectionError("the server is gone")

    monkeypatch.setattr("agent_nodes.nodes.prefect.background.Api.create", refuse)
    monkeypatch.setattr("agent_nodes.nodes.prefect.publish.emit_event", refuse)
    behind = Background()
    monkeypatch.setattr("agent_nodes.nodes.prefect.publish.background", lambda: behind)
    fake.respond(lambda _: text("ok"))
    ask = create_agent_node(**options(fake))

    @flow
    async def talk() -> list[str]:
        return [(await ask("hi")).status, (await ask("hi again")).status]

    with caplog.at_level(logging.WARNING, "agent_nodes"):
        assert await asyncio.wait_for(talk(), GUARD) == ["answered", "answered"]
        assert await asyncio.to_thread(behind.drain, GUARD)
    assert asked.is_set()
    assert [record.message for record in caplog.records if record.name.startswith("agent_nodes")] == [
        "Something of a turn could not be shown in Prefect (ConnectionError)."
    ]


def test_work_behind_a_turn_is_bounded_and_waited_for_only_so_long() -> None:
    from agent_nodes.nodes.prefect.background import MOST_JOBS, Background

    behind = Background()
    stuck, done = threading.Event(), list[int]()

    def take(number: int) -> Any:
        return lambda _: done.append(number)

    behind.put(lambda _: stuck.wait(GUARD))
    for number in range(MOST_JOBS + 10):
        behind.put(take(number))
    assert not behind.drain(0.01)
    assert done == []
    stuck.set()
    assert behind.drain(GUARD)
    assert done == list(range(len(done)))
    assert MOST_JOBS - 1 <= len(done) <= MOST_JOBS


def test_who_follows_is_asked_until_he_leaves() -> None:
    from agent_nodes.nodes.prefect.background import Background

    behind = Background(tick_seconds=0.001)
    asked = threading.Semaphore(0)
    behind.follow(behind, lambda _: asked.release())
    assert all(asked.acquire(timeout=GUARD) for _ in range(3))
    behind.unfollow(behind)
    assert behind.drain(GUARD)


async def test_outside_of_a_flow_run_nothing_is_shown(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect import flow

    def never(*_: object) -> None:
        raise AssertionError("shows something")

    monkeypatch.setattr("agent_nodes.nodes.prefect.publish.TurnPublisher.__init__", never)
    fake.respond(lambda _: text("ok"))
    ask = create_agent_node(**options(fake))

    @flow
    async def talk() -> str:
        return (await ask.fn("hi")).status

    assert (await ask("hi")).status == "answered"
    assert await asyncio.wait_for(talk(), GUARD) == "answered"


def test_keys_of_artifacts_are_what_prefect_takes_and_differ_for_every_session() -> None:
    from prefect.client.schemas.actions import ArtifactCreate

    names = ("a", "A", "ä", "日本", "x" * 300, "a/b", "a b")
    keys = {artifact_key("usage", SessionRef("p", "c", name)) for name in names}
    assert len(keys) == len(names)
    assert {ArtifactCreate(key=key).key for key in keys} == keys
