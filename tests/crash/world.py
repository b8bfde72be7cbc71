"""What surrounds the agent in a child process: its clock, its tools with their ledger, and the model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from agent_nodes import AbortSignal, AgentRuntime, AgentTool, AgentToolResult
from agent_nodes.events import TextDelta, ThinkingDelta
from agent_nodes.messages import Usage
from agent_nodes.providers.base import (
    ArgsDelta,
    Failed,
    Failure,
    Finished,
    ModelEntry,
    ModelEvent,
    ModelRequest,
    Provider,
)
from agent_nodes.providers.scripted import call_ids, check_history, play
from agent_nodes.tools.base import ToolContext
from tests.crash.model import Place, Plans, answer, place, seen
from tests.crash.points import Points
from tests.crash.scenes import AFTER, ANSWER_AFTER, Run, Scene
from tests.fakes.clock import FakeClock

REQUESTS = "requests"
LEDGER = "ledger"
SPENT = Usage(input_tokens=3, output_tokens=1, calls=1)
# A little more than a batch of streamed pieces waits for.
TICK = 0.06


class CrashClock(FakeClock):
    """Waits pass at once; ids are the process's own, as random ones would be."""

    def __init__(self, number: int) -> None:
        super().__init__(1_800_000_000.0 + number)
        self._number = number

    async def sleep(self, delay: float) -> None:
        self.slept.append(delay)
        await asyncio.sleep(0)
        self.advance(delay)

    def new_id(self) -> str:
        return f"p{self._number}-{super().new_id()}"


class World:
    """``complaints`` are what the model or a tool found wrong, ``requests`` counts those of this process. With
    ``brisk`` the model does not wait for the disk between its words."""

    def __init__(self, scene: Scene, run: Run, folder: Path, points: Points, number: int, *, brisk: bool) -> None:
        self.scene, self.run, self.folder, self.points, self.number = scene, run, folder, points, number
        self.brisk = brisk
        self.clock = CrashClock(number)
        self.signal = AbortSignal()
        self.agent: AgentRuntime | None = None
        self.closing: asyncio.Task[None] | None = None
        self.complaints: list[str] = []
        self.requests = 0

    @property
    def plans(self) -> Plans:
        return {**self.scene.plans, AFTER: ANSWER_AFTER}

    async def tick(self) -> None:
        """Time passes, and what is due because of it gets done."""
        assert self.agent is not None
        self.clock.advance(TICK)
        await (asyncio.sleep(0) if self.brisk else self.agent.harness.engine.scheduler.drain())

    async def here(self, point: str) -> None:
        """A point outside the commits. Where this run is to be stopped or closed, nothing comes after that."""
        self.points.reach(point)
        if self.run.at != point or self.run.act not in ("abort", "close"):
            return
        assert self.agent is not None
        if self.run.act == "abort":
            self.signal.set("enough")
        else:
            self.close()
        await asyncio.Event().wait()

    def close(self) -> None:
        assert self.agent is not None
        self.closing = asyncio.create_task(self.agent.close())

    def note(self, name: str, line: object) -> int:
        """Append to a file that outlives the process; the number of its lines then."""
        path = self.folder / name
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return len(path.read_text().splitlines())

    def tools(self) -> tuple[AgentTool, ...]:
        return (
            self._tool("pay"),
            self._tool("look", replay="safe"),
            self._tool("slow", then=self._talk),
            self._tool("first", execution="sequential"),
            self._tool("second", execution="sequential"),
            self._tool("late", replay="safe", then=self._wait_for_others),
            self._tool("hang", execution="sequential"),
            self._tool("finish", ends=True, replay="safe"),
            self._tool("shut", ends=True, replay="safe", execution="sequential"),
            self._tool("seal", ends=True, replay="safe", execution="sequential"),
        )

    def _tool(self, name: str, *, then: Any = None, ends: bool = False, **options: Any) -> AgentTool:
        """One that ``ends`` its turn has spent something and says so for programs too."""

        async def execute(arguments: dict[str, Any], context: ToolContext) -> str | AgentToolResult:
            self.points.reach(f"tool {name} start")
            self.note(LEDGER, {"tool": name, "task": context.tool_call_id, "process": self.number})
            self.points.reach(f"tool {name} effect")
            if then is not None:
                await then(name, context)
            if name == "hang":
                await self.here("tool hang wait")
            text = f"{name}: done"
            said = {"done": [name]}
            return AgentToolResult(text, structured_content=said, terminate=True, usage=SPENT) if ends else text

        parameters = {"type": "object", "properties": {"sum": {"type": "integer"}}}
        return AgentTool(name=name, description=f"Does {name}.", parameters=parameters, execute=execute, **options)

    async def _talk(self, name: str, context: ToolContext) -> None:
        for word in ("a ", "b ", "c "):
            context.update(word)
            await self.tick()
            self.points.reach(f"tool {name} said")

    async def _wait_for_others(self, name: str, context: ToolContext) -> None:
        """Until every other call has its result on disk."""
        assert self.agent is not None
        tasks: Mapping[int, Any] = self.agent.harness.engine.projection.tasks

        def others() -> list[int]:
            mine = int(context.tool_call_id.rpartition("-")[2])
            return [id_ for id_, task in tasks.items() if task.name == "tool" and id_ != mine]

        while others():  # noqa: ASYNC110  # nobody tells a tool about another
            await asyncio.sleep(0.001)


def _asked(world: World, where: Place, request: ModelRequest) -> str | None:
    """What is wrong with a request besides the form of its history."""
    scene = world.scene
    history = [message.text for message in seen(request.messages) if message.role == "user"]
    for prompt, times in scene.sees.items():
        if where.prompt != prompt and history.count(prompt) != times:
            return f"{prompt!r} stands {history.count(prompt)} times in the history, not {times}"
    assert world.agent is not None
    asked = [task.input for task in world.agent.harness.engine.projection.tasks.values() if task.name != "tool"]
    limits = [overrides.get("max_tokens") for overrides in asked]
    if request.max_tokens not in limits:
        return f"the output limit is {request.max_tokens}, the turn asked for {limits}"
    return None


class PlannedModel:
    """A provider that plays what :mod:`tests.crash.model` says, as strict about the history as the services are."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent]]:
        world = self._world
        number = world.note(REQUESTS, {"process": world.number})
        where = place(world.plans, seen(request.messages))
        mistake = check_history(request.messages)
        mistake = mistake or (where if isinstance(where, str) else _asked(world, where, request))
        if isinstance(where, str) or mistake is not None:
            world.complaints.append(f"request {number}: {mistake}")
            yield [Failed(Failure("invalid", f"refused: {mistake}", retryable=False))]
            return
        steps = answer(where, number, world.scene.faults.get(number))
        async with aclosing(play(steps, clock=world.clock, ids=call_ids(request.messages))) as playing:
            async for events in playing:
                yield events

    async def close(self) -> None:
        """Nothing is held open."""


class Probe:
    """A provider whose requests are points; after each list of events time passes."""

    def __init__(self, world: World, inner: Provider) -> None:
        self._world, self._inner = world, inner

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent]]:
        world = self._world
        world.requests += 1
        name, deltas = f"request {world.requests}", 0
        await world.here(f"{name} open")
        async with aclosing(self._inner.stream(request)) as stream:
            async for events in stream:
                yield events
                if any(isinstance(event, TextDelta | ThinkingDelta | ArgsDelta) for event in events):
                    deltas += 1
                    await world.here(f"{name} delta {deltas}")
                if any(isinstance(event, Finished | Failed) for event in events):
                    await world.here(f"{name} end")
                await world.tick()

    async def close(self) -> None:
        await self._inner.close()


PLANNED = ModelEntry("planned", "planned-1", "openai-completions", "http://127.0.0.1", context_window=100_000)
