"""The pure part of a turn: what a response means, how long to wait, what a model is told."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_nodes.engine.classify import Answer, CallTools, Continue, Fail, Retry, classify
from agent_nodes.engine.continuation import CONNECTION_LIMIT, LENGTH_LIMIT, Budgets, continuation, delay
from agent_nodes.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCall
from agent_nodes.providers.base import Failed, Failure, Finished

CALL = ToolCall("c1", "read", {"path": "a"})


def message(*blocks: object) -> AssistantMessage:
    return AssistantMessage(tuple(blocks), "openai-completions", "p", "m")  # type: ignore[arg-type]


def failed(kind: str = "dropped", *, retryable: bool = True, retry_after: float | None = None) -> Failed:
    return Failed(Failure(kind, "cause", retryable, None, retry_after))  # type: ignore[arg-type]


FRESH = Budgets()


@pytest.mark.parametrize(
    ("end", "blocks", "produced", "budgets", "wanted"),
    [
        (Finished("end"), [TextBlock("hi")], True, FRESH, Answer()),
        (Finished("end"), [], False, FRESH, Answer()),
        (Finished("tool_use", 1), [CALL], True, FRESH, CallTools((CALL,))),
        (Finished("end"), [CALL], True, FRESH, CallTools((CALL,))),
        (Finished("tool_use", 1), [TextBlock("I call")], True, FRESH, Continue("lost-call", "x")),
        (Finished("tool_use", 1), [], True, Budgets(CONNECTION_LIMIT, 0, 3), Fail("lost_call", "x")),
        (Finished("length"), [TextBlock("half")], True, FRESH, Continue("length", "x")),
        (Finished("length"), [TextBlock("half")], True, Budgets(0, LENGTH_LIMIT), Fail("output_limit", "x")),
        (Finished("overflow"), [TextBlock("half")], True, FRESH, Fail("context_overflow", "x")),
        (Finished("refusal"), [TextBlock("no")], True, FRESH, Fail("refused", "no")),
        (failed(), [], False, FRESH, Retry("cause", None)),
        (failed(retry_after=3), [], False, FRESH, Retry("cause", 3)),
        (failed(), [TextBlock("half")], True, FRESH, Continue("dropped", "cause")),
        (failed(), [], False, Budgets(CONNECTION_LIMIT), Fail("retries_exhausted", "x")),
        (failed(), [TextBlock("half")], True, Budgets(CONNECTION_LIMIT), Fail("retries_exhausted", "x")),
        (failed("auth", retryable=False), [], False, FRESH, Fail("model_error", "cause")),
        (failed("quota", retryable=False), [TextBlock("half")], True, FRESH, Fail("model_error", "cause")),
        (failed("overflow", retryable=False), [], False, FRESH, Fail("context_overflow", "x")),
    ],
)
@pytest.mark.feature("F01", "F02", "F03", "F04")
def test_a_response_means_one_thing(end, blocks, produced, budgets, wanted):
    outcome = classify(end, message(*blocks), produced=produced, budgets=budgets)
    assert type(outcome) is type(wanted)
    for name in ("kind", "retry_after", "calls"):
        assert getattr(outcome, name, None) == getattr(wanted, name, None)
    if isinstance(wanted, Fail):
        assert isinstance(outcome, Fail)
        assert outcome.reason == wanted.reason


def test_spent_budgets_say_how_often_and_why():
    lost = classify(Finished("tool_use", 1), message(), produced=True, budgets=Budgets(10, 0, 4))
    assert isinstance(lost, Fail)
    assert "5 went missing" in lost.detail
    length = classify(Finished("length"), message(), produced=True, budgets=Budgets(0, 2))
    assert isinstance(length, Fail)
    assert "max_tokens" in length.detail
    cut = classify(failed(), message(), produced=True, budgets=Budgets(10))
    assert isinstance(cut, Fail)
    assert "11 times" in cut.detail
    assert "cause" in cut.detail


@given(st.integers(1, 40), st.none() | st.floats(0, 1e6), st.floats(0, 1, exclude_max=True))
def test_a_wait_is_never_longer_than_eight_seconds_and_never_shorter_than_asked_below_that(attempt, after, jitter):
    wait = delay(attempt, after, jitter)
    assert 0 < wait <= 8.0
    if after is not None:
        assert wait >= min(after, 8.0)


def test_waits_grow():
    assert [delay(n, None, 0.999) for n in range(1, 6)] == sorted(delay(n, None, 0.999) for n in range(1, 6))


def test_the_budgets_are_apart_and_count_their_own():
    budgets = FRESH.spend("dropped").spend("recovery").spend("lost-call").spend("length")
    assert (budgets.connection, budgets.length, budgets.lost) == (3, 1, 1)
    assert Budgets.from_json(budgets.to_json()) == budgets


@pytest.mark.parametrize("kind", ["dropped", "recovery", "length", "lost-call"])
def test_a_continuation_says_whether_the_model_sees_its_own_words(kind):
    seen = continuation(kind, message(TextBlock("half"))).content[0]
    unseen = continuation(kind, message(ThinkingBlock("secret plan"))).content[0]
    assert isinstance(seen, TextBlock)
    assert isinstance(unseen, TextBlock)
    assert "already seen" in seen.text
    assert "> secret plan" not in seen.text
    assert "None of your answer" in unseen.text
    assert "> secret plan" in unseen.text


def test_reasoning_is_quoted_where_it_is_not_sent_back():
    whole = message(ThinkingBlock("plan", signature="s"), TextBlock("half"))
    cut = replace(whole, interrupted=True)
    sent_back, quoted = continuation("lost-call", whole).content[0], continuation("dropped", cut).content[0]
    assert isinstance(sent_back, TextBlock)
    assert isinstance(quoted, TextBlock)
    assert "plan" not in sent_back.text
    assert "> plan" in quoted.text


def test_each_kind_has_words_of_its_own():
    texts = [continuation(kind, message()).content[0] for kind in ("dropped", "recovery", "length", "lost-call")]
    for one, other in itertools.combinations(texts, 2):
        assert one != other
