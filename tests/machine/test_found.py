"""What the state machine once found, played again: short sessions that each broke one promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from agent_nodes.providers.script import Call, Drop, LoseCall, Say, Status, Stop, Wait
from tests.machine.answers import Answer
from tests.machine.test_session import PROMPTS, SYSTEMS, Session
from tests.machine.trouble import Course, Fault, Trouble

CUT = Answer((Say("text", "ja ja "), Drop()))
DROPPED = Answer((Drop(),))
FAILED = Answer((Status(401),))
SLOW = Answer((Say("text", "ja "), Wait(1.0), Say("text", "no")))


def calls(*names: str, seconds: float = 0) -> Answer:
    return Answer(tuple(Call(name, f'{{"seconds": {seconds}}}', {"seconds": seconds}) for name in names))


class Replayed:
    """A session whose promises are looked at after each step, as the machine does."""

    def __init__(self, *, in_place: bool) -> None:
        self.session = Session()
        self.session.begin(system=SYSTEMS[0], in_place=in_place)

    def submit(
        self, *answers: Answer, trouble: Trouble | None = None, fault: Fault | None = None, **rest: object
    ) -> None:
        course = Course(answers, trouble, fault, **rest)  # type: ignore[arg-type]
        self.session.submit(prompt=PROMPTS[0], course=course)
        self.session.holds()

    def again(self, which: int, how: str, *answers: Answer, trouble: Trouble | None = None) -> None:
        self.session.submit_again(which=which, how=how, course=Course(answers, trouble))
        self.session.holds()

    def between(self, how: str, system: str = SYSTEMS[0]) -> None:
        self.session.between_runs(how=how, system=system, course=Course())
        self.session.holds()


@pytest.fixture(params=[False, True], ids=["thread", "in-place"])
def replayed(request: pytest.FixtureRequest) -> Iterator[Replayed]:
    found = Replayed(in_place=request.param)
    try:
        yield found
    finally:
        found.session.teardown()


def at_turns(what: str, turns: range) -> list[Trouble]:
    return [Trouble(what, "turn", turn) for turn in turns]  # type: ignore[arg-type]


@pytest.mark.parametrize("drift", [0.01, 0.02, 0.03])
@pytest.mark.parametrize("pace", [(0,), (1,), (2, 3), (3, 2)])
def test_a_batch_of_progress_never_follows_the_entry_of_its_response(replayed, drift, pace):
    for words in range(1, 9):
        replayed.submit(Answer((Say("text", "ja " * words),)), pace=pace, drift=drift)


def test_closing_during_a_submission_starts_nothing(replayed):
    for trouble in at_turns("close", range(1, 12)):
        replayed.submit(SLOW, trouble=trouble)


def test_closing_during_a_submission_starts_no_older_turn(replayed):
    for pace in ((0,), (1,), (3,)):
        for trouble in at_turns("close", range(1, 6)):
            # Its wait is over, so that it would ask at once.
            replayed.submit(DROPPED, trouble=Trouble("crash", "commit", 3))
            replayed.submit(trouble=trouble, pace=pace)


@pytest.mark.parametrize("commit", range(2, 6))
def test_a_stop_that_cannot_be_stored_is_told_and_holds(replayed, commit):
    for turn in (2, 4, 6, 9):
        replayed.submit(SLOW, trouble=Trouble("abort", "turn", turn), fault=Fault(commit))
        replayed.again(0, "same")


def test_a_stop_is_not_forgotten_for_a_step_that_was_under_way(replayed):
    for commit in range(1, 6):
        stop = Trouble("abort", "commit", 3)
        replayed.submit(DROPPED, DROPPED, trouble=stop, fault=Fault(commit + 2))
        replayed.submit()


def test_a_reopened_turn_waits_for_the_unfinished_one(replayed):
    replayed.submit(FAILED)
    replayed.submit(SLOW, trouble=Trouble("cancel", "event", 1))
    replayed.again(1, "reopen")
    replayed.submit(FAILED)
    replayed.submit(calls("pay", seconds=1), trouble=Trouble("cancel", "event", 1))
    replayed.again(1, "reopen")


@pytest.mark.parametrize("what", ["abort", "cancel"])
def test_who_stops_waiting_for_an_older_turn_leaves_its_end_to_others(replayed, what):
    for trouble in at_turns(what, range(1, 9)):
        replayed.submit(SLOW, trouble=Trouble("cancel", "event", 1))
        replayed.submit(SLOW, trouble=trouble)
        replayed.submit()


@pytest.mark.parametrize(
    "left",
    [
        lambda found: found.submit(DROPPED, trouble=Trouble("crash", "commit", 2, "committed")),
        lambda found: found.submit(calls("pay", "look"), trouble=Trouble("crash", "commit", 2, "committed")),
        lambda found: found.submit(CUT, trouble=Trouble("crash", "commit", 2, "committed")),
    ],
    ids=["backoff", "tools", "cut"],
)
def test_a_turn_goes_on_with_the_prompt_of_now(replayed, left: Callable[[Replayed], None]):
    left(replayed)
    replayed.between("open", SYSTEMS[1])
    replayed.submit()


def test_a_tool_that_was_given_up_ends_late_and_changes_nothing(replayed):
    for what in ("abort", "cancel"):
        replayed.submit(calls("stuck", "deaf", seconds=1), trouble=Trouble(what, "event", 2), after=200.0)  # type: ignore[arg-type]
        replayed.again(0, "same")


def test_a_stopped_answer_is_shown_once(replayed):
    for event in (1, 2):
        replayed.submit(SLOW, trouble=Trouble("abort", "event", event))
        replayed.again(0, "same")
        replayed.again(0, "reopen")


@pytest.mark.parametrize("what", ["abort", "cancel"])
def test_a_halt_knows_the_commits_that_were_under_way(replayed, what):
    """A round that opens, or an answer that settles, just when the turn is halted."""
    for trouble in at_turns(what, range(10, 46, 2)):
        replayed.submit(calls("pay", "step", "step"), trouble=trouble, pace=(9,))
        replayed.again(0, "same")


@pytest.mark.parametrize("broken", [DROPPED, CUT, Answer((Say("text", "ja "), Stop("length"))), Answer((LoseCall(),))])
def test_budgets_end_where_they_should_and_come_back_after_a_round(replayed, broken):
    limit = 2 if broken.meaning == "length" else 10
    replayed.submit(*[broken] * (limit + 1))
    replayed.submit(*[broken] * limit, calls("look"), *[broken] * limit)
