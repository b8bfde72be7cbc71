"""Agents on the scripted model, for tests of everything above the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from agent_nodes import AgentTool
from agent_nodes._clock import SYSTEM_CLOCK, Clock
from agent_nodes.events import AgentStreamEvent
from agent_nodes.providers.base import ModelEntry, Provider
from agent_nodes.providers.scripted import ScriptedProvider
from agent_nodes.runtime import AgentRun, AgentRuntime, open_agent
from agent_nodes.runtime_options import agent_options

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
    provider = runtime.harness.engine.config.provider
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
    execute: Callable[[dict[str, Any], Any], Awaitable[Any]],
    *,
    properties: dict[str, Any] | None = None,
    required: Sequence[str] = (),
    **options: Any,
) -> AgentTool:
    parameters = {"type": "object", "properties": properties or {}, "required": list(required)}
    return AgentTool(name=name, description=name, parameters=parameters, execute=execute, **options)
