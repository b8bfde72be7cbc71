"""Properties of the turn's pure pieces: partial answers out of stored pieces, budgets, waits, continuations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_nodes.engine.classify import Answer, CallTools, Continue, Fail, Retry, classify
from agent_nodes.engine.continuation import (
    CONNECTION_LIMIT,
    FIRST_DELAY,
    LENGTH_LIMIT,
    MAX_DELAY,
    Budgets,
    ContinuationKind,
    continuation,
    delay,
)
from agent_nodes.engine.progress import Progress
from agent_nodes.engine.recovery import kept_of
from agent_nodes.events import TextDelta, ThinkingDelta
from agent_nodes.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCall, UserMessage
from agent_nodes.providers.base import Failed, Failure, Finished, Fold
from agent_nodes.providers.scripted import check_history
from tests.fakes.clock import FakeClock
from tests.support import ENTRY

_pieces = st.sampled_from(["a", "한", " ", "\n", "e\u0301"])
# A block is of one kind from its start on.
_deltas = st.lists(
    st.one_of(
        st.builds(TextDelta, _pieces, st.sampled_from([0, 2])),
        st.builds(ThinkingDelta, _pieces, st.sampled_from([1, 3])),
    ),
    max_size=12,
)


class Rows:
    """Keeps progress rows as the store does, in the order they were committed."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.scheduler = self
        self.rows: list[tuple[int, str, str]] = []
        self.numbers: list[int] = []

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.ensure_future(work)

    async def commit(self, label: str, fn: Callable[[Any], None], *, durable: bool) -> None:
        assert (label, durable) == ("progress", False)
        fn(SimpleNamespace(insert=self.insert))
        await asyncio.sleep(0)

    def insert(self, _: object, *, stream: str, n: int, block: int, kind: str, delta: str) -> None:
        assert stream == "s"
        self.numbers.append(n)
        self.rows.append((block, kind, delta))


@given(deltas=_deltas, cuts=st.lists(st.booleans(), min_size=12, max_size=12))
def test_stored_pieces_make_the_same_partial_answer_however_they_were_batched(deltas, cuts):
    """``cuts`` says after which delta time passes, so that a batch goes to disk."""
    rows, whole = Rows(), Fold()

    async def stream() -> None:
        progress = Progress(rows, "s")  # type: ignore[arg-type]
        for delta, cut in zip(deltas, cuts, strict=False):
            whole.add(delta)
            progress.add([delta])
            if cut:
                rows.clock.advance(0.05)
                await asyncio.sleep(0)
        await progress.finish()

    asyncio.run(stream())
    assert kept_of(ENTRY, rows.rows) == whole.partial(ENTRY)
    assert rows.numbers == list(range(1, len(rows.numbers) + 1))


def _message(kind: str) -> AssistantMessage:
    blocks = {"calls": (ToolCall("c", "look", {}),), "text": (TextBlock("x"),)}.get(kind, ())
    return AssistantMessage(blocks, "openai-completions", "p", "m")


_ends = st.sampled_from(
    [
        (Failed(Failure("dropped", "cut", retryable=True)), "nothing"),
        (Failed(Failure("dropped", "cut", retryable=True)), "text"),
        (Finished("length"), "text"),
        (Finished("tool_use", 1), "nothing"),
        (Finished("tool_use", 1), "calls"),
    ]
)


@given(ends=st.lists(_ends, max_size=60))
def test_budgets_let_no_more_through_than_their_limit_and_a_whole_answer_gives_them_back(ends):
    budgets, connection, length = Budgets(), 0, 0
    for end, kind in ends:
        outcome = classify(end, _message(kind), produced=kind != "nothing", budgets=budgets)
        match outcome:
            case CallTools():
                budgets, connection, length = Budgets(), 0, 0
            case Continue(kind="length"):
                budgets, length = budgets.spend("length"), length + 1
            case Continue() | Retry():
                spent: ContinuationKind = outcome.kind if isinstance(outcome, Continue) else "dropped"
                budgets, connection = budgets.spend(spent), connection + 1
            case Fail():
                assert connection == CONNECTION_LIMIT or length == LENGTH_LIMIT
                return
            case Answer():
                raise AssertionError("none of these is an answer")
        assert connection <= CONNECTION_LIMIT
        assert length <= LENGTH_LIMIT
        assert Budgets.from_json(budgets.to_json()) == budgets


@given(
    attempt=st.integers(1, CONNECTION_LIMIT),
    asked=st.one_of(st.none(), st.floats(0, 1e6)),
    jitter=st.floats(0, 1, exclude_max=True),
)
def test_a_wait_is_never_long_and_never_nothing(attempt, asked, jitter):
    wait = delay(attempt, asked, jitter)
    assert 0.75 * FIRST_DELAY <= wait <= MAX_DELAY
    assert wait >= delay(attempt, None, jitter)


@pytest.mark.parametrize("kind", ["dropped", "recovery", "length", "lost-call"])
@given(
    blocks=st.lists(
        st.one_of(st.builds(TextBlock, _pieces), st.builds(ThinkingBlock, _pieces, st.sampled_from([None, "s"]))),
        max_size=3,
    ),
    interrupted=st.booleans(),
)
def test_a_continuation_can_be_sent_behind_whatever_was_kept(kind, blocks, interrupted):
    kept = AssistantMessage(tuple(blocks), "openai-completions", "p", "m", interrupted=interrupted)
    asked = continuation(kind, kept)
    assert check_history([UserMessage((TextBlock("go"),)), kept, asked]) is None
    text = asked.content[0].text  # type: ignore[union-attr]
    for block in blocks:
        if isinstance(block, ThinkingBlock) and block.text.strip() and not block.signature:
            assert block.text.strip() in text, "reasoning that is not sent back is quoted"
