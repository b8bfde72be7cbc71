"""Pure: the budgets of a turn, the waits between attempts, and the words that ask a model to carry on.

Budgets count consecutive failures. Connection losses of every kind (nothing arrived, cut, recovery, lost call) share
one of ten; the output limit has its own of two. A complete response resets both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from agent_nodes.messages import AssistantMessage, JsonObject, TextBlock, ThinkingBlock, UserMessage

ContinuationKind: TypeAlias = Literal["dropped", "recovery", "length", "lost-call"]

CONNECTION_LIMIT = 10
LENGTH_LIMIT = 2
MAX_DELAY = 8.0
FIRST_DELAY = 0.5


@dataclass(frozen=True, slots=True)
class Budgets:
    """Failures in a row so far; ``lost`` is how many of the connection ones were lost calls."""

    connection: int = 0
    length: int = 0
    lost: int = 0

    def spend(self, kind: ContinuationKind) -> Budgets:
        if kind == "length":
            return replace(self, length=self.length + 1)
        return replace(self, connection=self.connection + 1, lost=self.lost + (kind == "lost-call"))

    def attempt(self, kind: ContinuationKind) -> int:
        return self.length if kind == "length" else self.connection

    def left(self, kind: ContinuationKind) -> bool:
        return self.attempt(kind) < limit(kind)

    def to_json(self) -> JsonObject:
        return {"connection": self.connection, "length": self.length, "lost": self.lost}

    @staticmethod
    def from_json(data: JsonObject) -> Budgets:
        return Budgets(data["connection"], data["length"], data["lost"])


def limit(kind: ContinuationKind) -> int:
    return LENGTH_LIMIT if kind == "length" else CONNECTION_LIMIT


def delay(attempt: int, retry_after: float | None, jitter: float) -> float:
    """Seconds to wait before attempt ``attempt`` (1 for the first repeat): doubling from half a second, at most eight.

    ``retry_after`` is honoured up to the same cap; ``jitter`` is a random number in [0, 1).
    """
    wait = min(MAX_DELAY, FIRST_DELAY * 2.0 ** (attempt - 1)) * (0.75 + 0.25 * jitter)
    return wait if retry_after is None else min(MAX_DELAY, max(wait, retry_after))


_CAUSE: dict[ContinuationKind, str] = {
    "dropped": "The connection broke while you were answering.",
    "recovery": "The program that runs you was interrupted while you were answering and has been started again.",
    "length": "Your answer hit the output limit of this request.",
    "lost-call": "Your answer said that it calls a tool, but no call arrived.",
}

_SEEN = "The user has already seen the text in your message above; go on right where it stops and repeat none of it."
_NOTHING = "None of your answer's text arrived."

_TASK: dict[ContinuationKind, str] = {
    "dropped": "A tool call you were composing did not arrive and was not run; make it again if it is still needed.",
    "recovery": (
        "A tool call you were composing did not arrive and was not run; make it again if it is still needed. "
        "If your answer was already complete, add nothing."
    ),
    "length": (
        "Send the action you were composing now: the tool call alone, with no text around it. "
        "Keep the output short; split large content over several calls."
    ),
    "lost-call": "Make the call again, as a proper tool call.",
}


def continuation(kind: ContinuationKind, kept: AssistantMessage) -> UserMessage:
    """The message that asks the model to carry on after ``kept``; reasoning that is not sent back (all of a cut answer,
    unsigned in any) is quoted."""
    parts = [_CAUSE[kind], _SEEN if kept.text.strip() else _NOTHING]
    lost = "\n".join(
        block.text
        for block in kept.content
        if isinstance(block, ThinkingBlock) and (kept.interrupted or not (block.signature or block.raw))
    ).strip()
    if lost:
        quoted = "\n".join(f"> {line}" for line in lost.splitlines())
        parts.append(f"Your reasoning up to there, which you cannot see any more:\n{quoted}\n")
    parts.append(_TASK[kind])
    return UserMessage((TextBlock("[" + " ".join(parts) + "]"),), "continuation")


def reopened() -> UserMessage:
    """Asks for more after a turn was stopped or failed in the middle of an answer and its caller wants it to go on."""
    text = "[The turn was interrupted here and now goes on. Continue the task from where it stands.]"
    return UserMessage((TextBlock(text),), "continuation")


def exhausted(kind: ContinuationKind, budgets: Budgets, reason: str) -> str:
    """The detail of a turn whose budget is spent: how often, and the last cause."""
    if kind == "length":
        return (
            f"The answer hit the output limit {budgets.length + 1} times in a row. "
            "Raise max_tokens, or ask for a shorter result."
        )
    if kind == "lost-call":
        lost = budgets.lost + 1
        return f"The model announced tool calls that never arrived ({lost} went missing). Last cause: {reason}"
    return (
        f"The model's answer was cut off or failed {budgets.connection + 1} times in a row and the "
        f"{CONNECTION_LIMIT} retries are used up. Last cause: {reason}"
    )
