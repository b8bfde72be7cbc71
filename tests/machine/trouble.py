"""What goes wrong in a run, and when: drawn in advance, so that an example says it all."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st

from agent_nodes.store.storage import Point
from tests.machine.answers import Answer, answers, sometimes

What = Literal["abort", "leave", "cancel", "close", "crash", "on_event", "report_usage", "second_run"]
When = Literal["turn", "event", "commit", "report"]


@dataclass(frozen=True)
class Trouble:
    """``what`` happens at the ``at``-th (from 1) turn of the loop, event, commit or report of usage. ``how`` tells
    apart ways to do the same thing."""

    what: What
    when: When
    at: int
    point: Point = "begin"
    how: str = ""


@dataclass(frozen=True)
class Fault:
    """The disk is full at ``point`` of the ``at``-th commit and the ``times - 1`` after it."""

    at: int
    point: Point = "begin"
    times: int = 1

    def hits(self, commit: int, point: Point) -> bool:
        return point == self.point and self.at <= commit < self.at + self.times


@dataclass(frozen=True)
class Course:
    """How a run goes: what the model answers, what goes wrong, the turns of the loop that the writer's jobs wait, the
    seconds that each turn takes, and those that pass after the run."""

    answers: tuple[Answer, ...] = ()
    trouble: Trouble | None = None
    fault: Fault | None = None
    pace: tuple[int, ...] = (0,)
    drift: float = 0.0
    after: float = 0.0


def disk_full() -> sqlite3.Error:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    error.sqlite_errorname = "SQLITE_FULL"
    return error


_turns = st.integers(1, 60)
_events = st.integers(1, 8)
_commits = st.integers(1, 7)
_points = st.sampled_from(["begin", "commit", "committed"])


def _at(what: What, when: When, at: st.SearchStrategy[int], how: tuple[str, ...] = ("",)) -> st.SearchStrategy[Trouble]:
    points = _points if when == "commit" else st.just("begin")
    return st.builds(Trouble, st.just(what), st.just(when), at, points, st.sampled_from(how))


_crashes = st.one_of(_at("crash", "commit", _commits), _at("crash", "turn", _turns))
_troubles = st.one_of(
    _crashes,
    _at("abort", "turn", _turns),
    _at("abort", "event", _events),
    _at("abort", "commit", _commits),
    _at("leave", "event", _events, ("break", "aclose", "block")),
    _at("cancel", "turn", _turns),
    _at("cancel", "event", _events),
    _at("close", "turn", _turns),
    _at("close", "event", _events),
    _at("on_event", "event", _events, ("plain", "async")),
    _at("report_usage", "report", st.integers(1, 3)),
    _at("second_run", "turn", _turns, ("plain", "block")),
)
_faults = st.builds(Fault, _commits, st.sampled_from(["begin", "commit"]), st.sampled_from([1, 1, 2, 5]))
_rare_faults = sometimes(_faults, 15, None)

paces = st.lists(st.sampled_from([0, 0, 1, 2, 3, 9]), min_size=1, max_size=4).map(tuple)
openings = st.builds(Course, trouble=sometimes(_crashes, 30, None), fault=_rare_faults, pace=paces)
courses = st.builds(
    Course,
    answers,
    sometimes(_troubles, 65, None),
    _rare_faults,
    paces,
    st.sampled_from([0.0, 0.0, 0.01, 0.03]),
    st.sampled_from([0.0, 0.0, 3.0, 200.0]),
)
