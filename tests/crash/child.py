"""What one forked process does: open the session, submit, play to the end, and report what it saw."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

from agent_nodes import AgentHost, AgentRun, AgentRunResult, AgentRuntime, UsageReport
from agent_nodes.errors import AgentError
from agent_nodes.events import AgentStreamEvent, TextDelta, ToolEvent
from agent_nodes.providers.base import ModelEntry, Provider
from agent_nodes.providers.connect import connect
from agent_nodes.runtime import open_agent
from agent_nodes.runtime_options import agent_options
from agent_nodes.store.storage import sqlite_storage
from tests.crash import checks
from tests.crash.points import FILE, Action, Observed, Points, committed, trace
from tests.crash.scenes import AFTER, ANSWER_BEFORE, BEFORE, Run, Scene
from tests.crash.world import PLANNED, PlannedModel, Probe, World

Report = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """One process of a case. ``wire`` is (api kind, base URL) where the model is behind HTTP."""

    scene: Scene
    run: Run
    folder: Path
    number: int
    at: str | None = None
    action: Action = "kill"
    wire: tuple[str, str] | None = None


def play(order: Order) -> Report:
    """One run; what was on disk before it is part of the report, and known also when it is killed."""
    before = checks.snapshot(order.folder) if order.number else None
    (order.folder / f"before-{order.number}").write_text(json.dumps(before))
    report = asyncio.run(_one(order))
    report["before"] = before
    report["trace"] = trace(order.folder, order.number)
    return report


def ask_again(order: Order, expected: Report) -> Report:
    """The same submission once more, then a new one, then a look into the file: everything that is wrong."""
    wrong: list[str] = []
    again = asyncio.run(
        _one(dataclasses.replace(order, run=dataclasses.replace(order.run, reopen=False, resets=False)))
    )
    stored = committed(trace(order.folder, order.number))
    if again["requests"]:
        wrong.append("asking again called the model")
    if stored:
        wrong.append(f"asking again stored {stored}")
    if not again["result"]["replayed"]:
        wrong.append("the result of asking again is not marked as replayed")
    for name in ("raised", "text", "tools", "results", "usage"):
        if again[name] != expected[name]:
            wrong.append(f"asking again, {name}: {again[name]!r} instead of {expected[name]!r}")
    for name, value in expected["result"].items():
        if name != "replayed" and again["result"][name] != value:
            wrong.append(f"asking again, {name}: {again['result'][name]!r} instead of {value!r}")
    more = asyncio.run(_one(dataclasses.replace(order, run=Run(AFTER, "R-after"), number=order.number + 1)))
    if more["text"] != "Nothing more." or more["raised"] is not None or more["unfinished"]:
        wrong.append(f"the session does not go on: {more}")
    wrong += more["complaints"]
    return {"wrong": [*wrong, *checks.file_at_rest(order.folder)]}


async def _one(order: Order) -> Report:
    points = Points(order.folder, order.number, order.at, order.action)
    brisk = order.action in ("stop", "close", "cancel")
    world = World(order.scene, order.run, order.folder, points, order.number, brisk=brisk)
    entry, model = _model(order, world)
    options = agent_options(
        {
            "storage": Observed(sqlite_storage(order.folder / FILE), points),
            "tools": order.scene.builtin,
            "extra_tools": world.tools(),
            "workdir": order.folder,
            "system_prompt": order.run.system,
        }
    )
    agent = world.agent = await open_agent(options, clock=world.clock, provider=(entry, Probe(world, model)))
    await _prepare(agent, order.run)
    seen = Seen()
    run = _start(world, seen)
    reader = asyncio.ensure_future(_read(world, run, seen))
    _on_interrupt(order, world, reader)
    await asyncio.wait([reader])
    if reader.cancelled():
        seen = Seen()
        run = _start(world, seen)
        await _read(world, run, seen)
    else:
        reader.result()
    if world.closing is not None:
        await world.closing
    await agent.close()
    return _report(world, run, seen)


@dataclasses.dataclass(slots=True)
class Seen:
    """What a run showed."""

    events: list[AgentStreamEvent] = dataclasses.field(default_factory=list[AgentStreamEvent])
    reports: list[UsageReport] = dataclasses.field(default_factory=list[UsageReport])
    raised: str | None = None


async def _prepare(agent: AgentRuntime, run: Run) -> None:
    if run.seeds and not agent.read_transcript():
        said = ANSWER_BEFORE[0].text
        await agent.restore_transcript([{"role": "user", "content": BEFORE}, {"role": "assistant", "content": said}])
    if run.resets and not agent.unfinished():
        await agent.reset()


def _start(world: World, seen: Seen) -> AgentRun:
    assert world.agent is not None
    report = _fail if world.run.act == "raise" else seen.reports.append
    return world.agent.run(
        {"prompt": world.run.prompt, "request_id": world.run.request, "reopen": world.run.reopen, **world.run.asks},
        AgentHost(report_usage=report, abort_signal=world.signal),
    )


async def _read(world: World, run: AgentRun, seen: Seen) -> None:
    try:
        async for event in run:
            seen.events.append(event)
            if isinstance(event, ToolEvent) and event.phase == "update" and event.name == "bash":
                world.points.reach("tool bash output")
    except AgentError as error:
        seen.raised = type(error).__name__


def _on_interrupt(order: Order, world: World, reader: asyncio.Future[None]) -> None:
    """What happens at the chosen point, in whichever thread that is reached."""
    loop = asyncio.get_running_loop()
    match order.action:
        case "stop":
            world.points.interrupt = lambda: world.signal.set("enough")
        case "close":
            world.points.interrupt = lambda: loop.call_soon_threadsafe(world.close)
        case "cancel":
            world.points.interrupt = lambda: loop.call_soon_threadsafe(reader.cancel)
        case _:
            pass


def _fail(report: UsageReport) -> None:
    raise OSError("the host's own book of usage is closed")


def _model(order: Order, world: World) -> tuple[ModelEntry, Provider]:
    if order.wire is None:
        return PLANNED, PlannedModel(world)
    api, url = order.wire
    entry = ModelEntry("fake", "fake-1", api, url, context_window=100_000, max_tokens=4_000)  # type: ignore[arg-type]
    return entry, connect(entry, "key", clock=world.clock, stall_timeout=3_600.0)


def _report(world: World, run: AgentRun, seen: Seen) -> Report:
    result = run.result
    assert world.agent is not None
    return {
        "raised": seen.raised,
        "result": None if result is None else _result(result),
        "finished": list(run.finished_before),
        "text": _text(seen.events),
        "tools": [
            [e.phase, e.tool_call_id, e.name] for e in seen.events if isinstance(e, ToolEvent) and e.phase != "update"
        ],
        "results": [[e.tool_call_id, e.result] for e in seen.events if isinstance(e, ToolEvent) and e.phase == "end"],
        "usage": sorted({report.record_id for report in seen.reports}),
        "requests": world.requests,
        "complaints": world.complaints,
        "unfinished": [turn.request_id for turn in world.agent.unfinished()],
    }


def _result(result: AgentRunResult) -> dict[str, Any]:
    return json.loads(json.dumps(dataclasses.asdict(result)))


def _text(events: list[AgentStreamEvent]) -> str:
    """What a reader of the events has seen: a paragraph before and after tools."""
    text, gap = "", False
    for event in events:
        if isinstance(event, TextDelta):
            text += ("\n\n" if gap and text else "") + event.delta
            gap = False
        elif isinstance(event, ToolEvent):
            gap = True
    return text
