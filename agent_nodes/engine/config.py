"""What an open session runs with: checked options as the engine needs them, unchangeable while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_nodes._clock import Clock
from agent_nodes.messages import SystemMessage
from agent_nodes.providers.base import ModelEntry, Provider
from agent_nodes.tools.base import AgentTool


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """``system`` holds the prompt sections and tools as they go to the model; ``roots`` None means no limit."""

    clock: Clock
    model: ModelEntry
    provider: Provider
    system: SystemMessage
    tools: Mapping[str, AgentTool]
    workdir: Path
    roots: tuple[Path, ...] | None
    max_tokens: int | None = None
