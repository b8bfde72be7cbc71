"""Pure and total: what one ended model response means for the turn. Nothing else decides that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from agent_nodes.engine.continuation import Budgets, ContinuationKind, exhausted
from agent_nodes.messages import AssistantMessage, ToolCall
from agent_nodes.providers.base import Failed, Failure, Finished


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete response without a call."""


@dataclass(frozen=True, slots=True)
class CallTools:
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Retry:
    """Nothing had arrived: the same request again, after a wait."""

    reason: str
    retry_after: float | None


@dataclass(frozen=True, slots=True)
class Continue:
    """Something had arrived: keep it and ask for the rest."""

    kind: ContinuationKind
    reason: str
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    reason: str
    detail: str


Outcome: TypeAlias = Answer | CallTools | Retry | Continue | Fail


def classify(end: Finished | Failed, message: AssistantMessage, *, produced: bool, budgets: Budgets) -> Outcome:
    """``message`` is what the response amounts to, ``produced`` whether anything of it may have been seen.

    Order: overflow, failures (nothing produced, something produced), output limit, lost call, calls, answer.
    """
    if isinstance(end, Failed):
        return _failed(end.failure, produced, budgets)
    if end.stop == "overflow":
        return Fail("context_overflow", "The answer ran into the model's context window. Start a shorter session.")
    if end.stop == "refusal":
        return Fail("refused", message.text.strip() or "The model's provider refused to answer this request.")
    if end.stop == "pause":
        return Fail("model_error", "The model paused for a server-side tool that this run did not offer.")
    if end.stop == "length":
        return _continue(Continue("length", "output limit reached"), "output_limit", budgets)
    calls = message.calls
    if end.claimed_calls and not calls:
        lost = Continue("lost-call", "the response claimed a tool call, none arrived")
        return _continue(lost, "lost_call", budgets)
    return CallTools(calls) if calls else Answer()


def _failed(failure: Failure, produced: bool, budgets: Budgets) -> Outcome:
    if failure.kind == "overflow":
        return Fail("context_overflow", f"{failure.message} Shorten the input or start a new session.")
    if failure.kind == "refused":
        return Fail("refused", failure.message)
    if not failure.retryable:
        return Fail("model_error", failure.message)
    if not budgets.left("dropped"):
        return Fail("retries_exhausted", exhausted("dropped", budgets, failure.message))
    if produced:
        return Continue("dropped", failure.message, failure.retry_after)
    return Retry(failure.message, failure.retry_after)


def _continue(wanted: Continue, reason: str, budgets: Budgets) -> Outcome:
    if budgets.left(wanted.kind):
        return wanted
    return Fail(reason, exhausted(wanted.kind, budgets, wanted.reason))
