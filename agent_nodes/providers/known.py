"""What is known about models by their ids, and guessed where an id is new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_nodes.messages import EffortLevel
from agent_nodes.providers.base import ModelCost, ThinkingStyle


@dataclass(frozen=True, slots=True)
class KnownModel:
    """``window`` is what one request may hold; where a service counts its input limit apart from the output, it is that
    limit. ``output`` is the longest output. The other fields are as in :class:`~agent_nodes.ModelEntry`."""

    window: int
    output: int | None = None
    images: bool = True
    reasoning: bool = True
    name: str = ""
    cost: ModelCost | None = None
    thinking: ThinkingStyle | None = None
    levels: tuple[tuple[EffortLevel, str | None], ...] = ()
    web_search: bool | None = None

    @property
    def asked(self) -> int | None:
        """How many tokens of output are asked for where the protocol demands a number. Models of the small windows
        refuse a request whose input and output limit together exceed the window: of those less is asked."""
        small = self.window <= 200_000
        return min(self.output, 32_000) if self.output is not None and small else self.output


# By the beginning of the id, the longest that fits. Rows of a whole family are guesses for ids that came later.
_MODELS: Mapping[str, KnownModel] = {
    "claude-fable-5": KnownModel(1_000_000, 128_000),
    "claude-mythos-5": KnownModel(1_000_000, 128_000),
    "claude-opus-5": KnownModel(1_000_000, 128_000),
    "claude-sonnet-5": KnownModel(1_000_000, 128_000),
    "claude-haiku-5": KnownModel(1_000_000, 128_000),
    "claude-opus-4-8": KnownModel(1_000_000, 128_000),
    "claude-opus-4-7": KnownModel(1_000_000, 128_000),
    "claude-opus-4-6": KnownModel(1_000_000, 128_000),
    "claude-sonnet-4-6": KnownModel(1_000_000, 128_000),
    "claude-opus-4-5": KnownModel(200_000, 32_000),
    "claude-sonnet-4-5": KnownModel(200_000, 32_000),
    "claude-haiku-4-5": KnownModel(200_000, 32_000),
    "claude-3": KnownModel(200_000, 4_096, reasoning=False),
    "claude-": KnownModel(200_000, 32_000),
    "gpt-6": KnownModel(922_000, 128_000),
    "gpt-5.6": KnownModel(922_000, 128_000),
    "gpt-5.5": KnownModel(922_000, 128_000),
    "gpt-5.4": KnownModel(922_000, 128_000),
    "gpt-5.4-mini": KnownModel(272_000, 128_000),
    "gpt-5.4-nano": KnownModel(272_000, 128_000),
    "gpt-5": KnownModel(272_000, 128_000),
    "gpt-4.1": KnownModel(1_000_000, 32_000, reasoning=False),
    "gpt-4o": KnownModel(128_000, 16_000, reasoning=False),
    "gpt-4": KnownModel(128_000, reasoning=False),
    "gpt-oss": KnownModel(131_072, images=False),
    "gpt-": KnownModel(128_000),
    "o1": KnownModel(200_000, 100_000),
    "o3": KnownModel(200_000, 100_000),
    "o4-mini": KnownModel(200_000, 100_000),
    "gemini-": KnownModel(1_000_000),
    "deepseek": KnownModel(128_000, images=False),
    "devstral": KnownModel(128_000),
    "gemma": KnownModel(128_000),
    "glm-": KnownModel(128_000),
    "grok-": KnownModel(256_000),
    "kimi-": KnownModel(256_000),
    "llama": KnownModel(128_000),
    "minimax": KnownModel(200_000),
    "mistral": KnownModel(128_000),
    "qwen": KnownModel(128_000),
}


def known(model: str) -> KnownModel | None:
    """What is published about ``model``, or guessed from how its id begins; None where nothing fits.

    A vendor in front of the id (``anthropic/…``, ``us.anthropic.…``) does not matter.
    """
    name = model.lower().rpartition("/")[2]
    name = name.partition("anthropic.")[2] or name
    prefix = max((prefix for prefix in _MODELS if name.startswith(prefix)), key=len, default=None)
    return _MODELS[prefix] if prefix is not None else None
