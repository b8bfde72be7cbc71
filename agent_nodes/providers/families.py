"""What the published tables lack, by the beginnings of ids: how a family thinks, which effort it takes, and guesses for
ids that come later.

Figures are those the services publish (end of 2026). A row counts for every id that begins so, field by field: what a
longer beginning says comes first, and at the same length what stands here comes before the generated list. Name, price,
search and maker count for the whole id alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypedDict

from agent_nodes.messages import EffortLevel
from agent_nodes.providers.base import ModelCost, ThinkingStyle

Levels: TypeAlias = tuple[tuple[EffortLevel, str | None], ...]


class Facts(TypedDict, total=False):
    """Fields of :class:`~agent_nodes.providers.known.KnownModel`."""

    window: int
    output: int | None
    images: bool
    reasoning: bool
    name: str
    cost: ModelCost | None
    thinking: ThinkingStyle | None
    levels: Levels
    web_search: bool | None
    maker: str


# The makers whose models others serve too, at prices of their own, and the hosts at which the maker's prices hold.
# What anybody else made is at its maker's price wherever it is reached.
OPEN_MAKERS: Mapping[str, tuple[str, ...]] = {
    "deepseek": ("api.deepseek.com",),
    "qwen": ("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"),
    "zai": ("api.z.ai",),
    "moonshot": ("api.moonshot.ai", "api.moonshot.cn"),
    "mistral": ("api.mistral.ai",),
    "minimax": ("api.minimax.io",),
    "gpt-oss": (),
}

_LEVELS: tuple[EffortLevel, ...] = ("off", "minimal", "low", "medium", "high", "xhigh", "max")


def only(values: str) -> Levels:
    """The levels of a model that takes these ``values`` (as they are sent) and no others."""
    taken = values.split()
    sent = {level: "none" if level == "off" else level for level in _LEVELS}
    return tuple((level, None) for level in _LEVELS if sent[level] not in taken)


_LOW_TO_MAX: Levels = (("minimal", None),)
_ALWAYS: Levels = (("off", None), ("minimal", None))
_NO_XHIGH: Levels = (("minimal", None), ("xhigh", None))
# Budgets of tokens, and beside them an effort that ends at high.
_BUDGET_AND_EFFORT: Levels = (("minimal", "low"), ("low", "low"), ("medium", "medium"), ("high", "high"),
                              ("xhigh", "high"), ("max", "high"))  # fmt: skip

_NO_EFFORT = Facts(reasoning=False, thinking=None, levels=())

FAMILIES: Mapping[str, Facts] = {
    # Anthropic
    "claude-": Facts(window=200_000, output=32_000, thinking="adaptive", levels=_LOW_TO_MAX),
    "claude-fable-": Facts(window=1_000_000, output=128_000, thinking="always", levels=_ALWAYS),
    "claude-mythos-": Facts(window=1_000_000, output=128_000, thinking="always", levels=_ALWAYS),
    "claude-fable-5-2": Facts(web_search=True),
    "claude-mythos-5-2": Facts(web_search=True),
    "claude-opus-5": Facts(window=1_000_000, output=128_000),
    "claude-opus-5-5": Facts(thinking="always", levels=_ALWAYS),
    "claude-sonnet-5": Facts(window=1_000_000, output=128_000),
    "claude-sonnet-5-5": Facts(thinking="between"),
    "claude-haiku-5": Facts(window=1_000_000, output=128_000),
    "claude-opus-4-6": Facts(thinking="adaptive", levels=_NO_XHIGH),
    "claude-sonnet-4-6": Facts(thinking="adaptive", levels=_NO_XHIGH),
    "claude-opus-4-5": Facts(thinking="budget", levels=_BUDGET_AND_EFFORT),
    "claude-sonnet-4": Facts(output=64_000, thinking="budget", levels=()),
    "claude-sonnet-4-7": Facts(thinking="adaptive", levels=_LOW_TO_MAX),
    "claude-haiku-4": Facts(thinking="budget", levels=()),
    "claude-opus-4": Facts(output=32_000, thinking="budget", levels=()),
    "claude-opus-4-7": Facts(thinking="adaptive", levels=_LOW_TO_MAX),
    "claude-opus-4-8": Facts(thinking="adaptive", levels=_LOW_TO_MAX),
    "claude-3": Facts(output=4_096, reasoning=False, thinking=None, levels=()),
    "claude-3-5": Facts(output=8_192),
    "claude-3-7": Facts(output=64_000, reasoning=True, thinking="budget", levels=()),
    # OpenAI
    "gpt-": Facts(window=128_000, thinking="effort"),
    "gpt-6": Facts(window=922_000, output=128_000, levels=only("none low medium high xhigh max")),
    "gpt-6-astra": Facts(levels=only("low medium high xhigh max")),
    "gpt-6.1-sol": Facts(levels=only("low medium high xhigh max")),
    "gpt-6.2": Facts(levels=only("low medium high xhigh max")),
    "gpt-6.2-astra": Facts(name="GPT-6.2 Astra", cost=ModelCost(8, 40, 0.8, 10), web_search=True, maker="openai"),
    "gpt-6.2-sol": Facts(name="GPT-6.2 Sol", cost=ModelCost(2, 10, 0.1, 2.5), web_search=True, maker="openai"),
    "gpt-5.6": Facts(window=922_000, output=128_000, levels=only("none low medium high xhigh max")),
    "gpt-5.5": Facts(window=922_000, output=128_000, levels=only("none low medium high xhigh")),
    "gpt-5.5-pro": Facts(levels=only("medium high xhigh")),
    "gpt-5.4": Facts(window=922_000, output=128_000, levels=only("none low medium high xhigh"), web_search=True),
    "gpt-5.4-pro": Facts(levels=only("medium high xhigh")),
    "gpt-5.4-mini": Facts(window=272_000),
    "gpt-5.4-nano": Facts(window=272_000),
    "gpt-5.3": Facts(levels=only("none low medium high xhigh")),
    "gpt-5.3-codex": Facts(levels=only("low medium high xhigh")),
    "gpt-5.3-chat": _NO_EFFORT,
    "gpt-5.2": Facts(levels=only("none low medium high xhigh")),
    "gpt-5.2-pro": Facts(levels=only("medium high xhigh")),
    "gpt-5.2-chat": _NO_EFFORT,
    "gpt-5.1": Facts(levels=only("none low medium high")),
    "gpt-5.1-codex": Facts(levels=only("low medium high")),
    "gpt-5.1-codex-max": Facts(levels=only("low medium high xhigh")),
    "gpt-5.1-chat": _NO_EFFORT,
    "gpt-5": Facts(window=272_000, output=128_000, levels=only("minimal low medium high")),
    "gpt-5-codex": Facts(levels=only("low medium high")),
    "gpt-5-pro": Facts(levels=only("high")),
    "gpt-5-chat": _NO_EFFORT,
    "gpt-4": Facts(window=128_000, reasoning=False, thinking=None),
    "gpt-oss": Facts(window=131_072, images=False, thinking="effort", levels=only("low medium high")),
    "o1": Facts(window=200_000, output=100_000, thinking="effort", levels=only("low medium high")),
    "o3": Facts(window=200_000, output=100_000, thinking="effort", levels=only("low medium high")),
    "o4-mini": Facts(window=200_000, output=100_000, thinking="effort", levels=only("low medium high")),
    # Others; where no levels stand here, what a service sends back decides
    "gemini-": Facts(window=1_000_000, thinking="effort", levels=only("low medium high")),
    "gemini-2.5-flash": Facts(levels=only("none low medium high")),
    "deepseek": Facts(window=128_000, images=False),
    "devstral": Facts(window=128_000),
    "gemma": Facts(window=128_000),
    "glm-": Facts(window=128_000),
    "glm-4.5": Facts(reasoning=True),
    "grok-": Facts(window=256_000),
    "kimi-": Facts(window=256_000),
    "llama": Facts(window=128_000),
    "minimax": Facts(window=200_000),
    "mistral": Facts(window=128_000),
    "qwen": Facts(window=128_000),
}
