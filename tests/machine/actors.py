"""The model and the tools of a process: what they do, and what they check while they do it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agent_nodes import AgentTool
from agent_nodes.messages import Usage, message_to_json
from agent_nodes.providers.base import Failed, Finished, ModelEvent, ModelRequest, UsageUpdate
from agent_nodes.providers.script import Report
from agent_nodes.providers.scripted import call_ids, check_history, play
from agent_nodes.runtime import AgentRuntime
from tests.machine.answers import Answer
from tests.machine.stored import task_of
from tests.support import tool

if TYPE_CHECKING:
    from tests.machine.world import World


@dataclass
class Life:
    """A process that holds the session, from its opening to its end."""

    system: str
    alive: bool = True
    runtime: AgentRuntime | None = None


@dataclass
class Response:
    """One answer of the model as it went out, ``number`` being what it reports as input tokens. ``exact`` says that
    nothing happened that may have kept its bill from the disk."""

    number: int
    answer: Answer
    reported: list[Usage] = field(default_factory=list[Usage])
    ended: bool = False
    exact: bool = False


class Model:
    """The model of one life: as strict as a service, and it looks whether the disk knows of what it is asked."""

    def __init__(self, world: World, life: Life) -> None:
        self.world, self.life = world, life

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent]]:
        response = await self._asked(request)
        steps = [
            Report(replace(step.usage, input_tokens=response.number)) if isinstance(step, Report) else step
            for step in response.answer.steps
        ]
        async for events in play(steps, clock=self.world.clock, ids=call_ids(request.messages)):
            for event in events:
                if isinstance(event, UsageUpdate):
                    response.reported.append(event.usage)
                response.ended |= isinstance(event, Finished | Failed)
            yield events

    async def close(self) -> None:
        pass

    async def _asked(self, request: ModelRequest) -> Response:
        """The next answer, once the request was found to be one that a service takes and the disk knows of."""
        if not self.life.alive:
            await asyncio.Event().wait()
        with self.world.noted():
            self._check(request)
        response = Response(len(self.world.responses) + 1, self.world.next_answer())
        self.world.responses.append(response)
        return response

    def _check(self, request: ModelRequest) -> None:
        mistake = check_history(request.messages)
        assert mistake is None, mistake
        stored = self.world.look()
        assert [message_to_json(m) for m in request.messages] == [message_to_json(m) for m in stored.messages]
        assert [m for m in request.messages if m.role == "system"][-1] == request.system
        assert request.system.sections[0] == self.life.system
        assert [task["phase"] for task in stored.live_tasks] == ["request"], "a request that is not due"


def tools(world: World, life: Life) -> list[AgentTool]:
    """Tools of every kind. Each call is checked against the disk, and its effect noted."""
    numbers = {"turns": {"type": "integer"}, "seconds": {"type": "number"}}

    def made(name: str, **options: Any) -> AgentTool:
        async def execute(arguments: dict[str, Any], context: Any) -> Any:
            if not life.alive:
                await asyncio.Event().wait()
            with world.noted():
                _check_call(world, name, context, options)
            sequential = options.get("execution") == "sequential"
            world.sequential += sequential
            try:
                with world.noted():
                    assert world.sequential <= 1, "two sequential calls at once"
                return await _work(world, name, arguments, context)
            finally:
                world.sequential -= sequential

        return tool(name, execute, properties=numbers, **options)

    return [
        made("pay"),
        made("look", replay="safe"),
        made("step", execution="sequential"),
        made("peek", execution="sequential", replay="safe"),
        made("boom"),
        made("chat"),
        made("deaf"),
        made("stuck"),
    ]


def _check_call(world: World, name: str, context: Any, options: dict[str, Any]) -> None:
    task = world.look().task(task_of(context.tool_call_id))
    assert (task["tool"], task["phase"]) == (name, "execute"), "a tool runs before the disk knows of it"
    assert task["status"] in ("running", "pending")
    replayed = world.interruptions if options.get("replay") == "safe" else 0
    world.effects[name, context.tool_call_id, replayed] += 1
    assert world.effects[name, context.tool_call_id, replayed] == 1, f"{name} ran twice for one call"


async def _work(world: World, name: str, arguments: dict[str, Any], context: Any) -> Any:
    turns, seconds = arguments.get("turns", 0), arguments.get("seconds", 0)
    for _ in range(turns):
        await asyncio.sleep(0)
        if name == "chat":
            context.update(f"{name} ")
    if name == "boom":
        raise LookupError("boom")
    try:
        if seconds:
            await world.clock.sleep(seconds)
    except asyncio.CancelledError:
        if name not in ("deaf", "stuck"):
            raise
        # Longer than a stop waits for a tool, or not.
        await world.clock.sleep(100 if name == "stuck" else 2)
    return f"{name} done"
