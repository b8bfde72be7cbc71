"""Effort: which level stands for which, and what each protocol says for it; the strict service takes every one."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_nodes.messages import AgentEffort, EffortLevel, TextBlock, ThinkingBlock, ToolCall, ToolResultMessage
from agent_nodes.providers.base import ModelEntry
from agent_nodes.providers.efforts import LEVELS, as_level, budget_below, nearest
from tests.providers.protocols import body, entry, refusal, request, said, user

EFFORTS: tuple[AgentEffort | None, ...] = (None, *get_args(AgentEffort))
Levels = tuple[tuple[EffortLevel, str | None], ...]


def only(values: str) -> Levels:
    """The levels of a model that takes these and no others."""
    return tuple((level, None) for level in LEVELS if level not in values.split())


@pytest.mark.parametrize(
    ("effort", "levels", "found"),
    [
        (None, "off minimal low medium high xhigh max", None),
        ("", "off minimal low medium high xhigh max", None),
        ("ultra", "low medium high xhigh max", "max"),
        ("max", "off low medium high xhigh", "xhigh"),
        ("ultra", "off low medium high", "high"),
        ("xhigh", "low medium high max", "high"),
        ("high", "medium", "medium"),
        ("low", "medium high xhigh", "medium"),
        ("low", "off high", "high"),
        ("medium", "high", "high"),
        ("minimal", "off low medium", "low"),
        ("minimal", "off medium", "off"),
        ("minimal", "medium high", "medium"),
        ("off", "minimal low", "minimal"),
        ("off", "low medium", "low"),
        ("off", "high", "high"),
        ("off", "off low", "off"),
        ("high", "", None),
    ],
)
@pytest.mark.feature("C04")
def test_a_level_that_is_missing_becomes_the_nearest(
    effort: AgentEffort | None, levels: str, found: str | None
) -> None:
    assert nearest(effort, only(levels)) == found


@given(st.sampled_from(EFFORTS), st.lists(st.tuples(st.sampled_from(LEVELS), st.sampled_from([None, "x"]))))
def test_any_effort_becomes_a_level_of_the_model_or_none(effort: AgentEffort | None, levels: list[Any]) -> None:
    missing = {level for level, value in levels if value is None}
    found = nearest(effort, levels)
    assert found is None or found not in missing
    if effort and not missing >= set(LEVELS[1:]):
        assert found is not None
        assert nearest(found, levels) == found, "a level that is there stays"
    if effort not in (None, "", "off", "minimal"):
        assert found != "off", "a model is not kept from thinking"


# OpenAI.

ASTRA = only("low medium high xhigh max")
GPT_52 = only("off low medium high xhigh")
GPT_5 = only("minimal low medium high")
PRO = only("medium high xhigh")


@pytest.mark.parametrize(
    ("model", "levels", "sent"),
    [
        ("gpt-6.1-sol", ASTRA, "low low low medium high xhigh max max"),
        ("gpt-5.6-sol", only("off low medium high xhigh max"), "none low low medium high xhigh max max"),
        ("gpt-5.2", GPT_52, "none low low medium high xhigh xhigh xhigh"),
        ("gpt-5.1", only("off low medium high"), "none low low medium high high high high"),
        ("gpt-5", GPT_5, "minimal minimal low medium high high high high"),
        ("gpt-5.4-pro", PRO, "medium medium medium medium high xhigh xhigh xhigh"),
        ("gpt-5-pro", only("high"), "high high high high high high high high"),
        ("o3", only("low medium high"), "low low low medium high high high high"),
        ("my-own", (), "none minimal low medium high xhigh max max"),
        ("my-own", (("minimal", "low"), ("max", "xhigh"), ("off", "disable")), None),
    ],
)
def test_openai_levels(model: str, levels: Levels, sent: str | None) -> None:
    efforts: tuple[AgentEffort, ...] = ("off", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
    words = "disable low low medium high xhigh xhigh xhigh" if sent is None else sent
    for effort, word in zip(efforts, words.split(), strict=True):
        chat = request(entry("openai-completions", model=model, levels=levels), [user("hi")], effort=effort)
        responses = request(entry("openai-responses", model=model, levels=levels), [user("hi")], effort=effort)
        assert body(chat)["reasoning_effort"] == word
        assert body(responses)["reasoning"]["effort"] == word
        if sent is not None:
            assert refusal(chat) is None and refusal(responses) is None


@pytest.mark.parametrize("effort", [None, ""])
@pytest.mark.parametrize("api", ["openai-responses", "openai-completions"])
def test_openai_names_no_level_where_none_was_chosen(api: str, effort: AgentEffort | None) -> None:
    sent = body(request(entry(api, model="gpt-5.5"), [user("hi")], effort=effort))
    assert "reasoning_effort" not in sent
    assert sent.get("reasoning") == ({"summary": "auto"} if api == "openai-responses" else None)


@pytest.mark.parametrize(
    ("model", "effort", "summary"),
    [("gpt-5.5", "low", True), ("gpt-5.5", "off", False), ("openai/gpt-6-luna", "max", True), ("qwen-3", "low", False)],
)
def test_a_summary_is_asked_for_where_it_exists(model: str, effort: AgentEffort, summary: bool) -> None:
    sent = body(request(entry("openai-responses", model=model), [user("hi")], effort=effort))
    assert (sent["reasoning"].get("summary") == "auto") is summary


@pytest.mark.parametrize("api", ["anthropic-messages", "openai-responses", "openai-completions"])
@pytest.mark.parametrize("effort", EFFORTS)
def test_a_model_that_does_not_reason_is_told_nothing(api: str, effort: AgentEffort | None) -> None:
    asked = request(entry(api, model="gpt-4.1", reasoning=False), [user("hi")], effort=effort)
    assert not {"reasoning", "reasoning_effort", "thinking", "output_config", "include"} & body(asked).keys()
    assert refusal(asked) is None


# Anthropic.

ALWAYS, FIVE, FOUR_SIX = (
    only("low medium high xhigh max"),
    only("off low medium high xhigh max"),
    only("off low medium high max"),
)
OPUS_45: Levels = (
    ("minimal", "low"),
    ("low", "low"),
    ("medium", "medium"),
    ("high", "high"),
    ("xhigh", "high"),
    ("max", "high"),
)
SHOWN = {"type": "adaptive", "display": "summarized"}
OFF = {"type": "disabled"}
LIMIT = 60_000

# Model, style, levels, and for each effort from off to max: the thinking and the level beside it.
FAMILIES: list[Any] = [
    ("claude-opus-5-5", "always", ALWAYS, [(SHOWN, "low"), (SHOWN, "low")], [(SHOWN, None), (SHOWN, "low")]),
    ("claude-fable-5-2", "always", ALWAYS, [(SHOWN, "low"), (SHOWN, "low")], [(SHOWN, None), (SHOWN, "low")]),
    ("claude-sonnet-5-5", "between", FIVE, [({"type": "between_tools"}, None), (SHOWN, "low")], [(SHOWN, None), None]),
    ("claude-haiku-5-5", "adaptive", FIVE, [(OFF, None), (SHOWN, "low")], [(SHOWN, None), None]),
    ("claude-opus-4-8", "adaptive", FIVE, [(OFF, None), (SHOWN, "low")], [(None, None), None]),
    ("claude-sonnet-4-6", "adaptive", FOUR_SIX, [(OFF, None), (SHOWN, "low")], [(None, None), None]),
]


def told(asked: Any) -> tuple[Any, Any]:
    sent = body(asked)
    return sent.get("thinking"), sent.get("output_config", {}).get("effort")


@pytest.mark.parametrize(("model", "style", "levels", "first", "unset"), FAMILIES)
@pytest.mark.feature("C04")
def test_adaptive_families(model: str, style: Any, levels: Levels, first: Any, unset: Any) -> None:
    known = entry("anthropic-messages", model=model, thinking=style, levels=levels)
    xhigh = "high" if levels is FOUR_SIX else "xhigh"
    rest = [(SHOWN, level) for level in ("low", "medium", "high", xhigh, "max", "max")]
    automatic = unset[1] or first[0]
    for effort, expected in zip(EFFORTS, [unset[0], *first, *rest, automatic], strict=True):
        asked = request(known, [user("hi")], effort=effort)
        assert told(asked) == expected, effort
        assert refusal(asked) is None


@pytest.mark.parametrize(("model", "levels"), [("claude-opus-4-5", OPUS_45), ("claude-haiku-4-5", ())])
def test_budget_families(model: str, levels: Levels) -> None:
    known = entry("anthropic-messages", model=model, thinking="budget", levels=levels)
    budgets = [None, None, 1024, 4096, 10_000, 20_000, 32_000, LIMIT - 4096, LIMIT - 4096, None]
    for effort, budget in zip(EFFORTS, budgets, strict=True):
        asked = request(known, [user("hi")], effort=effort, max_tokens=LIMIT)
        thinking = {"type": "enabled", "budget_tokens": budget} if budget else OFF
        level = dict(levels).get("max" if effort == "ultra" else effort) if budget else None  # type: ignore[arg-type]
        assert told(asked) == ((thinking, level) if effort is not None else (None, None)), effort
        assert refusal(asked) is None


@given(st.integers(1, 200_000), st.integers(1024, 200_000))
def test_a_budget_leaves_room_for_an_answer(limit: int, budget: int) -> None:
    found = budget_below(budget, limit)
    if found is None:
        assert limit < 2048
    else:
        assert 1024 <= found <= budget and limit - found >= min(4096, limit // 2)


@pytest.mark.parametrize("limit", [1, 1024, 2047, 2048, 5000, 30_000])
@pytest.mark.parametrize("effort", EFFORTS)
def test_a_small_limit_is_taken_with_every_effort(limit: int, effort: AgentEffort | None) -> None:
    known = entry("anthropic-messages", model="claude-haiku-4-5", thinking="budget")
    assert refusal(request(known, [user("hi")], effort=effort, max_tokens=limit)) is None


@pytest.mark.parametrize(
    ("model", "high", "unset"),
    [
        ("claude-haiku-5-9", (SHOWN, "high"), (SHOWN, None)),
        ("claude-opus-4-9", (SHOWN, "high"), (None, None)),
        ("claude-sonnet-4", ({"type": "enabled", "budget_tokens": 20_000}, None), (None, None)),
        ("kimi-k3", ({"type": "enabled", "budget_tokens": 20_000}, None), (None, None)),
    ],
)
def test_the_style_of_an_unknown_model_is_guessed_by_its_id(model: str, high: Any, unset: Any) -> None:
    known = entry("anthropic-messages", model=model, max_tokens=LIMIT)
    assert told(request(known, [user("hi")], effort="high")) == high
    assert told(request(known, [user("hi")])) == unset


def test_a_level_of_ones_own_is_sent_as_it_is() -> None:
    known = entry("anthropic-messages", model="mine", thinking="adaptive", levels=(("max", "xhigh"), ("off", None)))
    assert told(request(known, [user("hi")], effort="ultra")) == (SHOWN, "xhigh")
    assert told(request(known, [user("hi")], effort="off")) == (SHOWN, "low")
    named = entry("anthropic-messages", model="mine", thinking="effort")
    assert told(request(named, [user("hi")], effort="high")) == (None, "high")
    nothing = entry("anthropic-messages", model="mine", thinking="adaptive", levels=only(""))
    assert told(request(nothing, [user("hi")], effort="high")) == (None, None)


# A round of calls that began without thinking.


def round_of(known: ModelEntry, *before: Any) -> list[Any]:
    return [user("go"), said(known, *before, ToolCall("a", "read", {})), ToolResultMessage("a", "read", ())]


def test_a_round_that_began_without_thinking_goes_on_without_it() -> None:
    known = entry("anthropic-messages", model="claude-haiku-4-5", thinking="budget")
    for before in ((), (TextBlock("so"),), (ThinkingBlock("unsigned"),), (TextBlock("so"), ThinkingBlock("x", "s"))):
        asked = request(known, round_of(known, *before), effort="high", max_tokens=LIMIT)
        assert told(asked)[0] == OFF
    asked = request(known, round_of(known), max_tokens=LIMIT)
    assert told(asked) == (None, None), "nobody chose"
    opened = round_of(known, TextBlock(" "), ThinkingBlock("x", "s"))
    assert told(request(known, opened, effort="high", max_tokens=LIMIT))[0]["type"] == "enabled"
    assert told(request(known, opened, effort="high", max_tokens=LIMIT, reasoning_from=2))[0] == OFF
    nothing_left = [*round_of(known), said(known, ThinkingBlock("x"), interrupted=True)]
    assert told(request(known, nothing_left, effort="high", max_tokens=LIMIT))[0] == OFF
    paused = said(known, TextBlock("so"), stop="pause")
    joined = [user("go"), paused, *round_of(known, ThinkingBlock("x", "s"))[1:]]
    assert told(request(known, joined, effort="high", max_tokens=LIMIT))[0] == OFF, "neighbours are one turn"
    over = [*round_of(known), said(known, TextBlock("done")), user("next")]
    assert told(request(known, over, effort="high", max_tokens=LIMIT))[0]["type"] == "enabled"


def test_adaptive_thinking_stays_on_in_such_a_round() -> None:
    known = entry("anthropic-messages", model="claude-sonnet-5", thinking="adaptive", levels=FIVE)
    asked = request(known, round_of(known), effort="high")
    assert told(asked) == (SHOWN, "high")
    assert refusal(asked) is None


def test_values_are_levels() -> None:
    assert [as_level(value) for value in ("none", "low", "max", "disable", "off")] == ["off", "low", "max", None, "off"]
