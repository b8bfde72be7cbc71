"""What an open session runs with: checked options as the engine needs them, unchangeable while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from agent_nodes._clock import Clock
from agent_nodes.messages import AgentEffort, JsonObject, SystemMessage
from agent_nodes.providers.base import ModelEntry, Provider
from agent_nodes.tools.base import AgentTool


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnConfig:
    """What one turn runs with. ``system`` holds the prompt sections and tools as they go to the model; ``roots`` None
    means no limit; ``effort`` and ``max_tokens`` None leave the choice to the model's service."""

    model: ModelEntry
    provider: Provider
    system: SystemMessage
    tools: Mapping[str, AgentTool]
    workdir: Path
    roots: tuple[Path, ...] | None
    effort: AgentEffort | None = None
    max_tokens: int | None = None


Resolve: TypeAlias = Callable[[JsonObject], TurnConfig]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """``base`` is what a turn without overrides runs with. ``resolve`` makes that of a turn with some out of what is
    stored of them; it raises ``InputValidationError`` where they cannot be had here and now."""

    clock: Clock
    base: TurnConfig
    resolve: Resolve
