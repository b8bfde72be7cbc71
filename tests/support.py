"""Agents on the scripted model, for tests of everything above the wire."""

from __future__ import annotations

import asyncio
import base64
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from agent_nodes import AgentTool
from agent_nodes._clock import SYSTEM_CLOCK, Clock
from agent_nodes.events import AgentStreamEvent
from agent_nodes.messages import ImageBlock
from agent_nodes.providers.base import ModelEntry, Provider
from agent_nodes.providers.scripted import ScriptedProvider
from agent_nodes.runtime import AgentRun, AgentRuntime, open_agent
from agent_nodes.runtime_options import agent_options
from tests.fakes import FakeServer
from tests.fakes.clock import FakeClock

ENTRY = ModelEntry("scripted", "scripted-1", "openai-completions", "", context_window=1000)


@asynccontextmanager
async def scripted(
    *scripts: str,
    clock: Clock = SYSTEM_CLOCK,
    provider: Provider | None = None,
    entry: ModelEntry = ENTRY,
    **options: Any,
) -> AsyncIterator[AgentRuntime]:
    """An agent that plays ``scripts`` (answers divided by ``---``), in memory unless ``database_path`` says else."""
    model = provider or ScriptedProvider("\n---\n".join(scripts), clock=clock)
    runtime = await open_agent(agent_options(options), clock=clock, provider=(entry, model))
    try:
        yield runtime
    finally:
        await runtime.close()


def model_of(runtime: AgentRuntime) -> ScriptedProvider:
    provider = runtime.harness.engine.config.base.provider
    assert isinstance(provider, ScriptedProvider)
    return provider


@dataclass
class Outcome:
    run: AgentRun
    events: list[AgentStreamEvent]
    error: BaseException | None = None

    @property
    def text(self) -> str:
        assert self.run.result is not None
        return self.run.result.text

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.type == kind]

    def brief(self) -> list[str]:
        """One word an event, a tool's with its phase, deltas joined."""
        out: list[str] = []
        for event in self.events:
            word = event.type
            if event.type == "tool":
                word = f"{event.phase}:{event.name}"  # type: ignore[union-attr]
            elif event.type == "retry":
                word = f"retry:{event.kind}:{event.attempt}"  # type: ignore[union-attr]
            if not out or out[-1] != word or event.type not in ("text_delta", "thinking_delta"):
                out.append(word)
        return out


async def take(run: AgentRun) -> Outcome:
    """Run to the end; an error of the run is kept, not raised."""
    outcome = Outcome(run, [])
    try:
        async for event in run:
            outcome.events.append(event)
    except Exception as error:
        outcome.error = error
    return outcome


def tool(
    name: str,
    execute: Callable[[dict[str, Any], Any], Awaitable[Any] | Any],
    *,
    properties: dict[str, Any] | None = None,
    required: Sequence[str] = (),
    **options: Any,
) -> AgentTool:
    parameters = {"type": "object", "properties": properties or {}, "required": list(required)}
    return AgentTool(name=name, description=name, parameters=parameters, execute=execute, **options)


def png(width: int = 1, height: int = 1) -> ImageBlock:
    """A grey picture, as small as it can be."""
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(bytes((width + 1) * height))),
        (b"IEND", b""),
    )
    chunks = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    ]
    return ImageBlock(base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode(), "image/png")


@asynccontextmanager
async def passing(clock: FakeClock, limit: float = 10.0) -> AsyncIterator[None]:
    """Lets every wait of at most ``limit`` seconds on the clock pass at once: backoffs, not the silence of a server."""

    async def pass_time() -> None:
        while True:
            due = await clock.wait_timer()
            if due <= limit:
                clock.advance(due)
            await asyncio.sleep(0.001)

    task = asyncio.ensure_future(pass_time())
    try:
        yield
    finally:
        task.cancel()


@asynccontextmanager
async def online(
    fake: FakeServer, kind: str, clock: Clock = SYSTEM_CLOCK, **options: Any
) -> AsyncIterator[AgentRuntime]:
    """An agent that speaks protocol ``kind`` to the fake service."""
    given = {
        "provider": "fake",
        "model": "m-a",
        "base_url": fake.url if kind == "anthropic-messages" else fake.v1,
        "api_key": "k-secret-1",
        "api_kind": kind,
        **options,
    }
    runtime = await open_agent(agent_options(given), clock=clock)
    try:
        yield runtime
    finally:
        await runtime.close()


async def until(reached: Callable[[], bool]) -> None:
    """Wait for what no event tells; the test's own limit ends a wait that would not end."""
    while not reached():  # noqa: ASYNC110  # the code under test knows of no test
        await asyncio.sleep(0.002)
