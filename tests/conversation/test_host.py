"""The driver itself: which turn an input means, stop and shutdown, what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent_nodes.errors import AgentClosed, ExecutionAborted, InputValidationError, ModelError, SessionBusy
from agent_nodes.events import TextDelta
from conversation.host import ConversationHost, ConversationRun, list_sessions, read_session
from tests.fakes import FakeServer, call, error, gate, text, tools

MakeHost = Callable[..., ConversationHost]


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    async with FakeServer() as server:
        yield server


@pytest.fixture
def host(tmp_path: Path, fake: FakeServer) -> MakeHost:
    def make(conversation_id: str = "c", **options: Any) -> ConversationHost:
        model = {"provider": "fake", "model": "m", "base_url": fake.v1, "api_key": "k", "workdir": tmp_path}
        return ConversationHost("p", conversation_id, options={**model, **options}, root=tmp_path / "home")

    return make


async def words(run: ConversationRun) -> str:
    return "".join([event.delta async for event in run.events() if isinstance(event, TextDelta)])


async def leave_unfinished(host: ConversationHost, fake: FakeServer, prompt: str) -> str:
    """A turn that is shut down in the middle of its answer; its request_id."""
    held = gate()
    fake.script(text("one ", "two").hold(held, before=1))
    async with host:
        run = await host.start(prompt)
        task = asyncio.create_task(words(run))
        await held.reached.wait()
        await host.close()
        with pytest.raises(AgentClosed):
            await task
    return run.request_id


async def test_a_turn_is_answered_and_read_back(host: MakeHost, fake: FakeServer, tmp_path: Path) -> None:
    fake.script(text("Hello."))
    async with host() as conversation:
        assert conversation.last_model is None
        run = await conversation.start("hi")
        assert (await words(run), run.resumed) == ("Hello.", False)
        assert run.result is not None and run.result.status == "answered"
        assert conversation.last_model == conversation.model == ("fake", "m")
    (session,) = list_sessions(tmp_path / "home")
    assert (session.project, session.conversation_id, session.session_key) == ("p", "c", "agent")
    assert read_session("c", root=tmp_path / "home").turns[0].text == "Hello."


@pytest.mark.parametrize("given", ["count", None, {"prompt": "count"}, {"reopen": True}])
async def test_a_turn_that_was_cut_off_is_meant_by_its_prompt_and_by_none(
    host: MakeHost, fake: FakeServer, given: Any
) -> None:
    request_id = await leave_unfinished(host(), fake, "count")
    fake.script(text("two"))
    async with host() as conversation:
        assert [turn.prompt for turn in await conversation.unfinished()] == ["count"]
        run = await conversation.start(given)
        assert (run.request_id, run.resumed) == (request_id, True)
        assert await words(run) == "one two"
        assert await conversation.unfinished() == []
    fake.assert_accepted()


async def test_another_prompt_or_request_id_is_another_turn(host: MakeHost, fake: FakeServer) -> None:
    request_id = await leave_unfinished(host(), fake, "count")
    async with host() as conversation:
        for given in ("count!", {"prompt": "count", "request_id": "new"}):
            run = await conversation.start(given)
            assert (run.request_id != request_id, run.resumed) == (True, False)


async def test_reopen_means_the_last_turn(host: MakeHost, fake: FakeServer) -> None:
    fake.script(error(400, "asleep"), text("awake"))
    async with host() as conversation:
        with pytest.raises(ModelError):
            await words(await conversation.start("hi"))
        with pytest.raises(InputValidationError, match="reopen"):
            await conversation.start({"prompt": "other", "reopen": True})
        run = await conversation.start({"prompt": "hi", "reopen": True})
        assert (await words(run), run.resumed) == ("awake", True)


@pytest.mark.parametrize("given", [None, {}, {"reopen": True}, "", {"prompt": 5}, {"promt": "hi", "prompt": "hi"}])
async def test_what_starts_nothing_is_refused(host: MakeHost, given: Any) -> None:
    async with host() as conversation:
        with pytest.raises(InputValidationError):
            await conversation.start(given)


async def test_stop_ends_the_turn_for_good(host: MakeHost, fake: FakeServer) -> None:
    held = gate()
    fake.script(text("one ", "two").hold(held, before=1))
    async with host() as conversation:
        run = await conversation.start("count")
        task = asyncio.create_task(words(run))
        await held.reached.wait()
        await asyncio.to_thread(run.stop, "enough")
        with pytest.raises(ExecutionAborted, match="enough"):
            await task
        assert run.result is not None and run.result.status == "aborted"
        assert await conversation.unfinished() == []


@pytest.mark.parametrize("point", ["begin", "commit", "committed"])
async def test_a_stop_while_the_turn_is_admitted_leaves_nothing_unfinished(
    host: MakeHost, fake: FakeServer, point: str
) -> None:
    fake.respond(lambda _: text("Hello."))
    async with host() as conversation:
        run = await conversation.start("hi")

        def observe(at: str, label: str) -> None:
            if label == "admit+intent" and at == point:
                run.stop()

        conversation.runtime.harness.engine.line.storage.observe = observe
        with pytest.raises(ExecutionAborted):
            await words(run)
        assert await conversation.unfinished() == []


async def test_everybody_who_closes_waits_until_the_session_is_free(host: MakeHost, fake: FakeServer) -> None:
    held = gate()
    fake.script(text("one ", "two").hold(held, before=1))
    conversation = host()
    await conversation.open()
    task = asyncio.create_task(words(await conversation.start("count")))
    await held.reached.wait()
    first = asyncio.create_task(conversation.close())
    await asyncio.sleep(0)
    await conversation.close()
    async with host():
        pass
    await first
    with pytest.raises(AgentClosed):
        await task


async def test_closing_while_it_opens_leaves_nothing_open(host: MakeHost) -> None:
    conversation = host()
    opening = asyncio.create_task(conversation.open())
    await asyncio.sleep(0)
    await conversation.close()
    with pytest.raises(AgentClosed):
        await opening
    async with host():
        pass


async def test_a_closed_conversation_says_so(host: MakeHost) -> None:
    conversation = host()
    with pytest.raises(AgentClosed):
        await conversation.start("hi")
    await conversation.close()
    with pytest.raises(AgentClosed):
        await conversation.open()


async def test_a_second_driver_is_refused(host: MakeHost) -> None:
    async with host():
        with pytest.raises(SessionBusy):
            await host().open()


@pytest.mark.parametrize("option", ["database_path", "storage", "modle"])
def test_wrong_options_are_named_before_anything_is_opened(host: MakeHost, tmp_path: Path, option: str) -> None:
    with pytest.raises(InputValidationError, match=option):
        host(**{option: tmp_path / "x"})
    assert not (tmp_path / "home").exists()


async def test_tools_can_be_killed_at_once(host: MakeHost, fake: FakeServer, tmp_path: Path) -> None:
    fake.script(tools(call("bash", {"command": "trap '' TERM; touch up; sleep 60"})), text("Killed."))
    async with host() as conversation:
        task = asyncio.create_task(words(await conversation.start("work")))
        async with asyncio.timeout(30):
            while not (tmp_path / "up").exists():  # noqa: ASYNC110 - the command knows no event of ours
                await asyncio.sleep(0.01)
        conversation.kill_tools()
        assert await task == "Killed."
    assert "ended by signal SIGKILL" in fake.requests[1].results().popitem()[1]


async def test_a_name_alone_finds_the_only_session(host: MakeHost, fake: FakeServer, tmp_path: Path) -> None:
    root = tmp_path / "home"
    fake.script(text("a"))
    async with host() as conversation:
        await words(await conversation.start("hi"))
    assert read_session("c", root=root).summary.project == "p"
    for name, project in (("d", None), ("c", "q")):
        with pytest.raises(InputValidationError, match="no session"):
            read_session(name, project=project, root=root)
    async with ConversationHost("q", "c", options={"provider": "demo", "workdir": tmp_path}, root=root) as other:
        await words(await other.start("hi"))
    with pytest.raises(InputValidationError, match="'p/c/agent'") as raised:
        read_session("c", root=root)
    assert "'q/c/agent'" in raised.value.message
    assert read_session("p/c/agent", root=root).summary.project == "p"
    assert read_session("q/c/agent", root=root).summary.project == "q"
    assert read_session("c", project="q", root=root).summary.project == "q"
