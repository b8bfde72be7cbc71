"""How much a model is asked to think, in the words of each protocol. Pure.

A level that a model does not have becomes the nearest one it has, so that none ever fails a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent_nodes.messages import AgentEffort, EffortLevel, JsonObject
from agent_nodes.providers.base import ModelEntry, ThinkingStyle

LEVELS: tuple[EffortLevel, ...] = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
SHOWN: JsonObject = {"type": "adaptive", "display": "summarized"}
"""Without ``display`` newer models think unseen, and what they say between tool calls is unseen with it."""

LEAST_BUDGET = 1024
_ANSWER = 4096  # tokens that a budget leaves to the answer
BUDGETS: dict[EffortLevel, int] = {"minimal": 1024, "low": 4096, "medium": 10_000, "high": 20_000, "xhigh": 32_000}

# Where nothing else is known of a model: the families that think by default, and those that do when asked.
_THINKS_BY_ITSELF = re.compile(r"claude-[a-z]+-([5-9]|\d{2})(?!\d)")
_ADAPTS = re.compile(r"claude-[a-z]+-4-([6-9]|\d{2})(?!\d)")


def nearest(effort: AgentEffort | None, levels: Iterable[tuple[EffortLevel, str | None]]) -> EffortLevel | None:
    """The level of ``levels`` (as in :class:`ModelEntry`) that stands for ``effort``: itself, else the next lower one,
    else the next higher. None where nobody chose, the model decides, or it has no level at all.

    Thinking is not switched off by this, except that no level at all is nearer to ``minimal`` than ``medium``.
    """
    if not effort:
        return None
    asked: EffortLevel = "max" if effort == "ultra" else effort
    missing = {level for level, value in levels if value is None}
    at = LEVELS.index(asked)
    below, above = list(reversed(LEVELS[1:at])), list(LEVELS[at + 1 :])
    if asked == "minimal":
        above.insert(1, "off")
    return next((level for level in (asked, *below, *above) if level not in missing), None)


def named(effort: AgentEffort | None, entry: ModelEntry) -> str | None:
    """The value that the OpenAI protocols send for ``effort``; None where none is to be sent."""
    level = nearest(effort, entry.levels) if entry.reasoning else None
    return None if level is None else _value(level, entry) or ("none" if level == "off" else level)


def thinking(effort: AgentEffort | None, entry: ModelEntry, limit: int, *, closed: bool) -> JsonObject:
    """The fields ``thinking`` and ``output_config`` of the Messages protocol, as far as they are to be sent.

    ``limit`` is the request's limit of output tokens, which thinking counts against. ``closed``: a round of calls goes
    on that did not begin with thinking, so that services take none in it where it can be switched off.
    """
    if not entry.reasoning:
        return {}
    style = style_of(entry)
    fields = _asked(effort, entry, style, limit)
    if closed and fields and style in {"adaptive", "budget"}:
        return {"thinking": {"type": "disabled"}}
    return fields


def _asked(effort: AgentEffort | None, entry: ModelEntry, style: ThinkingStyle, limit: int) -> JsonObject:
    if effort is None:
        by_itself = style in {"always", "between"} or (style == "adaptive" and _THINKS_BY_ITSELF.search(entry.model))
        return {"thinking": SHOWN} if by_itself else {}
    level = nearest(effort or "off", entry.levels)
    if level is None:
        return {}
    if level == "off":
        return _off(style)
    if style == "budget":
        return _budget(level, entry, limit)
    value = _value(level, entry) or ("low" if level == "minimal" else level)
    config: JsonObject = {"output_config": {"effort": value}}
    return config if style == "effort" else {"thinking": SHOWN, **config}


def budget_below(budget: int, limit: int) -> int | None:
    """``budget``, or as much of it as leaves room for an answer within ``limit``; None where there is no room."""
    if limit < 2 * LEAST_BUDGET:
        return None
    return max(LEAST_BUDGET, min(budget, limit - min(_ANSWER, limit // 2)))


def _off(style: ThinkingStyle) -> JsonObject:
    match style:
        case "always":  # the least there is
            return {"thinking": SHOWN, "output_config": {"effort": "low"}}
        case "between":
            return {"thinking": {"type": "between_tools"}}
        case _:
            return {"thinking": {"type": "disabled"}}


def _budget(level: EffortLevel, entry: ModelEntry, limit: int) -> JsonObject:
    """A number of tokens, and a level beside it only where one is known."""
    budget = budget_below(BUDGETS.get(level, limit), limit)
    if budget is None:
        return {"thinking": {"type": "disabled"}}
    fields: JsonObject = {"thinking": {"type": "enabled", "budget_tokens": budget}}
    if value := _value(level, entry):
        fields["output_config"] = {"effort": value}
    return fields


def _value(level: EffortLevel, entry: ModelEntry) -> str | None:
    return dict(entry.levels).get(level)


def style_of(entry: ModelEntry) -> ThinkingStyle:
    """How thinking is told to the model over the Messages protocol; guessed by its id where nothing is known."""
    adapts = _THINKS_BY_ITSELF.search(entry.model) or _ADAPTS.search(entry.model)
    return entry.thinking or ("adaptive" if adapts else "budget")


def as_level(value: str) -> EffortLevel | None:
    """The level that a value sent to a service stands for."""
    if value == "none":
        return "off"
    return value if value in LEVELS else None
