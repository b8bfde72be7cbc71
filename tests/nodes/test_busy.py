"""Calls that meet at one session: in turn, one owner at a time, or told who has it."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent_nodes import (
    AbortSignal,
    AgentHost,
    AgentOutputPayload,
    AgentRuntime,
    AgentTool,
    ExecutionAborted,
    SessionBusy,
    create_agent_node,
    create_output_node,
    run_agent,
)
from agent_nodes.nodes.busy import BusyRule, opened_in_turn
from agent_nodes.nodes.gate import Gate
from agent_nodes.store.locate import list_session_files, session_file
from agent_nodes.store.lock import OwnerLock
from tests.fakes import FakeServer, call, gate, text
from tests.fakes.clock import FakeClock
from tests.support import until

Options = dict[str, Any]
GUARD = 30

HOLDER = """
import sys
from pathlib import Path
from agent_nodes.store.lock import OwnerLock

lock = OwnerLock.acquire(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_elsewhere(path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process owns the session at ``path``, until its input is closed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def release(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(GUARD)


@asynccontextmanager
async def in_front(path: Path) -> AsyncIterator[None]:
    """A call that has its turn and does not come to an end."""
    reached = asyncio.Event()

    async def opening() -> AgentRuntime:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    first = asyncio.create_task(take(path, BusyRule(), opening))
    await reached.wait()
    yield
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first


async def take(path: Path, rule: BusyRule, opening: Any = None, **options: Any) -> None:
    async with opened_in_turn(path, opening, rule, **options):
        pass


def asked(fake: FakeServer) -> list[str]:
    return [request.messages()[-1].text for request in fake.requests]


# -- in turn -----------------------------------------------------------------------------------------------------------


@pytest.mark.feature("P03")
async def test_overlapping_calls_take_turns_in_the_order_in_which_they_came(fake: FakeServer, model: Options) -> None:
    held = gate()
    fake.script(text("first").hold(held, before=0))
    fake.respond(lambda request: text(f"re: {request.messages()[-1].text}"))
    node = create_agent_node(conversation_id="c", **model)
    async with asyncio.timeout(GUARD), asyncio.TaskGroup() as group:
        first = group.create_task(node("0"))
        await held.reached.wait()
        later = [group.create_task(node(str(number))) for number in range(1, 5)]
        await asyncio.sleep(0)
        held.open()
    assert [task.result().text for task in (first, *later)] == ["first", "re: 1", "re: 2", "re: 3", "re: 4"]
    assert asked(fake) == ["0", "1", "2", "3", "4"]


@pytest.mark.feature("P03")
def test_calls_of_several_threads_never_have_the_session_together(tmp_path: Path) -> None:
    inside, most = 0, 0

    async def look(_: Any, __: object) -> str:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.01)
        inside -= 1
        return "seen"

    tool = AgentTool(name="look", description="", parameters={"type": "object"}, execute=look)
    with FakeServer.in_thread() as fake:
        fake.respond(lambda r: text("ok") if r.messages()[-1].results else call("look", id=f"c{len(fake.requests)}"))
        node = create_agent_node(
            conversation_id="c",
            provider="fake",
            model="m",
            base_url=fake.v1,
            api_key="k",
            api_kind="openai-completions",
            extra_tools=[tool],
        )
        payloads: list[AgentOutputPayload] = []
        threads = [threading.Thread(target=lambda: payloads.append(asyncio.run(node("hi")))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(GUARD)
    assert [payload.status for payload in payloads] == ["answered"] * 4
    assert most == 1


@pytest.mark.feature("P03")
async def test_a_session_of_another_process_is_waited_for(fake: FakeServer, model: Options, home: Path) -> None:
    fake.script(text("at last"))
    path = session_file("default", "c", "agent", home)
    with held_elsewhere(path) as process:
        waiting = asyncio.create_task(create_agent_node(conversation_id="c", **model)("hi"))
        await asyncio.wait([waiting], timeout=0.3)
        assert fake.requests == []
        release(process)
        async with asyncio.timeout(GUARD):
            payload = await waiting
    assert (payload.status, payload.text) == ("answered", "at last")


async def test_the_tries_at_a_foreign_session_grow_rarer_up_to_the_limit(tmp_path: Path) -> None:
    clock = FakeClock()
    tries: list[float] = []
    told: list[SessionBusy] = []

    async def opening() -> AgentRuntime:
        tries.append(clock.monotonic())
        raise SessionBusy("The session is open in process 7 on this host.", pid=7, host="here")

    waiting = asyncio.create_task(
        take(tmp_path / "s.sqlite", BusyRule(timeout=5), opening, on_wait=told.append, clock=clock)
    )
    async with asyncio.timeout(GUARD):
        while not waiting.done():
            await asyncio.sleep(0)
            if clock.next_due() is not None:
                clock.advance(clock.next_due() or 0)
    with pytest.raises(SessionBusy, match=r"process 7 on this host\. Waited 5 s for it \(busy_timeout\)") as caught:
        await waiting
    assert (caught.value.pid, caught.value.host) == (7, "here")
    assert [round(later - earlier, 2) for earlier, later in pairwise(tries)] == [
        0.05, 0.1, 0.2, 0.4, 0.8, 1, 1, 1, 0.45,
    ]  # fmt: skip
    assert len(told) == 1
    assert clock.pending == 0


async def test_who_waits_in_the_line_has_a_limit_too(tmp_path: Path) -> None:
    clock = FakeClock()
    async with asyncio.timeout(GUARD), in_front(tmp_path / "s.sqlite"):
        second = asyncio.create_task(take(tmp_path / "s.sqlite", BusyRule(timeout=5), clock=clock))
        await clock.wait_timer()
        clock.advance(5)
        with pytest.raises(SessionBusy, match=f"in use in this process \\(pid {os.getpid()}\\).*busy_timeout"):
            await second
    assert clock.pending == 0


async def test_a_call_that_is_cancelled_while_it_waits_leaves_nothing_behind(fake: FakeServer, model: Options) -> None:
    held = gate()
    fake.script(text("first").hold(held, before=0))
    fake.respond(lambda _: text("ok"))
    node = create_agent_node(conversation_id="c", **model)
    async with asyncio.timeout(GUARD):
        first = asyncio.create_task(node("0"))
        await held.reached.wait()
        given_up, last = asyncio.create_task(node("1")), asyncio.create_task(node("2"))
        await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        held.open()
        assert [(await task).status for task in (first, last)] == ["answered"] * 2
    assert asked(fake) == ["0", "2"]


async def test_a_stop_ends_the_wait_at_once(fake: FakeServer, model: Options, home: Path) -> None:
    signal = AbortSignal()
    node = create_agent_node(conversation_id="c", host=AgentHost(abort_signal=signal), **model)
    lock = OwnerLock.acquire(_made(session_file("default", "c", "agent", home)))
    try:
        waiting = asyncio.create_task(node(prompt="hi", request_id="r"))
        await asyncio.sleep(0.01)
        signal.set("enough")
        async with asyncio.timeout(GUARD):
            payload = await waiting
    finally:
        lock.release()
    assert (payload.status, payload.reason, payload.err_code, payload.err_message) == (
        "aborted",
        "aborted",
        130,
        "enough",
    )
    assert (payload.request_id, payload.turn_id) == ("r", None)


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    return path


async def test_a_stop_while_others_are_in_front_ends_the_wait_too(tmp_path: Path) -> None:
    signal = AbortSignal()
    async with asyncio.timeout(GUARD), in_front(tmp_path / "s.sqlite"):
        second = asyncio.create_task(take(tmp_path / "s.sqlite", BusyRule(), signal=signal))
        await asyncio.sleep(0)
        signal.set()
        with pytest.raises(ExecutionAborted):
            await second


# -- skip and refuse ---------------------------------------------------------------------------------------------------


@pytest.mark.feature("P03")
async def test_a_skipped_call_names_who_has_the_session_and_stores_nothing(
    fake: FakeServer, model: Options, home: Path
) -> None:
    fake.script(text("now it is free"))
    path = session_file("default", "c", "agent", home)
    node = create_agent_node(conversation_id="c", on_busy="skip", raise_on_failure=True, **model)
    with held_elsewhere(path) as process:
        payload = await node(prompt="hi", request_id="r")
        assert (payload.status, payload.err_code, payload.reason) == ("skipped", 0, "session_busy")
        assert f"process {process.pid} on this host" in payload.err_message
        assert (payload.request_id, payload.turn_id, payload.text) == ("r", None, "")
        assert await create_output_node()(payload) is payload
        assert list_session_files() == []
        release(process)
    assert (await node(prompt="hi", request_id="r")).text == "now it is free"


@pytest.mark.feature("P03")
async def test_who_does_not_wait_does_not_get_in_between_those_who_do(fake: FakeServer, model: Options) -> None:
    held = gate()
    fake.script(text("first").hold(held, before=0))
    fake.respond(lambda _: text("ok"))
    waits = create_agent_node(conversation_id="c", **model)
    skips = create_agent_node(conversation_id="c", on_busy="skip", **model)
    async with asyncio.timeout(GUARD):
        first = asyncio.create_task(waits("0"))
        await held.reached.wait()
        second = asyncio.create_task(waits("1"))
        await asyncio.sleep(0)
        payload = await skips("2")
        assert payload.status == "skipped"
        assert f"this process (pid {os.getpid()})" in payload.err_message
        with pytest.raises(SessionBusy) as caught:
            await run_agent("3", conversation_id="c", on_busy="refuse", **model)
        assert caught.value.pid == os.getpid()
        held.open()
        assert [(await task).status for task in (first, second)] == ["answered"] * 2
    assert asked(fake) == ["0", "1"]


async def test_a_call_from_inside_its_own_turn_is_refused_instead_of_waiting_for_itself(
    fake: FakeServer, model: Options
) -> None:
    async def again(_: Any, __: object) -> str:
        return (await node("deeper")).text

    tool = AgentTool(name="again", description="", parameters={"type": "object"}, execute=again)
    node = create_agent_node(conversation_id="c", extra_tools=[tool], **model)
    fake.script(call("again", id="c1"), text("as you like"))
    async with asyncio.timeout(GUARD):
        payload = await node("hi")
    assert payload.text == "as you like"
    [(_, outcome)] = fake.requests[1].messages()[-1].results
    assert "the very turn that this call is made from" in outcome


# -- the gate ----------------------------------------------------------------------------------------------------------


async def test_a_gate_lets_in_as_many_as_it_is_made_for_in_their_order() -> None:
    door = Gate(2)
    order: list[int] = []
    leave = asyncio.Event()

    async def enter(number: int) -> None:
        async with door.place():
            order.append(number)
            await leave.wait()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(enter(number)) for number in range(5)]
        await until(lambda: len(order) == 2)
        tasks[2].cancel()
        await asyncio.sleep(0)
        assert order == [0, 1]
        leave.set()
    assert order == [0, 1, 3, 4]
    assert door.empty


def test_a_loop_that_is_gone_holds_up_nobody() -> None:
    door = Gate()
    loop = asyncio.new_event_loop()

    async def arrive() -> None:
        door.arrive()
        door.arrive()

    loop.run_until_complete(arrive())
    loop.close()

    async def enter() -> None:
        async with asyncio.timeout(GUARD), door.place():
            pass

    asyncio.run(enter())
