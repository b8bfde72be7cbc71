"""The reference model: what a turn comes to, told from where it stood and from what the model answers.

It knows the rules of a turn and nothing of how the engine keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.machine.answers import Answer

CONNECTION_LIMIT = 10
LENGTH_LIMIT = 2


@dataclass
class Talk:
    """What a turn says; ``gap`` that a round of tools lies between it and what comes next."""

    text: str = ""
    gap: bool = False

    def say(self, more: str) -> None:
        if more:
            self.text += "\n\n" + more if self.gap and self.text else more
            self.gap = False


@dataclass
class Standing:
    """Where an unfinished turn was left, or a new one begins. ``cut`` is what a broken request had said until then,
    None where no request was under way."""

    talk: Talk = field(default_factory=Talk)
    connection: int = 0
    length: int = 0
    cut: str | None = None
    stopping: bool = False


@dataclass
class Forecast:
    """How a run ends that nobody disturbs, after ``requests`` requests and the ``retries`` it tells of."""

    status: str
    reason: str | None
    text: str
    requests: int
    retries: list[tuple[str, int]]
    calls: int


def forecast(start: Standing, answers: Iterator[Answer]) -> Forecast:
    told = Forecast("unanswered", None, "", 0, [], 0)
    told.status, told.reason = _play(start, answers, told)
    told.text = start.talk.text
    return told


def _play(start: Standing, answers: Iterator[Answer], told: Forecast) -> tuple[str, str | None]:
    talk, connection, length = start.talk, start.connection, start.length
    if start.cut is not None:
        talk.say(start.cut)
    if start.stopping:
        return "unanswered", "aborted"
    if start.cut is not None:
        if connection == CONNECTION_LIMIT:
            return "unanswered", "retries_exhausted"
        connection += 1
        told.retries.append(("recovery", connection))
    for answer in answers:
        told.requests += 1
        talk.say(answer.text)
        match answer.meaning:
            case "answer":
                return "answered", None
            case "calls":
                connection = length = 0
                told.calls += answer.calls
                talk.gap = True
            case "length":
                if length == LENGTH_LIMIT:
                    return "unanswered", "output_limit"
                length += 1
                told.retries.append(("length", length))
            case "fail":
                return "unanswered", answer.reason
            case kind:
                if connection == CONNECTION_LIMIT:
                    return "unanswered", "lost_call" if kind == "lost-call" else "retries_exhausted"
                connection += 1
                told.retries.append((kind, connection))
    raise AssertionError("the answers end only with the run")
