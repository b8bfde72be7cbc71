"""What came of one submission, against what the reference model says and what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

from agent_nodes.errors import (
    AgentClosed,
    AgentError,
    ExecutionAborted,
    InputValidationError,
    RequestConflict,
    RuntimeFailure,
    StorageError,
    turn_error,
)
from agent_nodes.messages import Usage
from tests.machine.answers import PLAIN, Answer
from tests.machine.reference import Forecast, Standing, forecast
from tests.machine.seen import Seen
from tests.machine.stored import COUNTERS, Row, Stored
from tests.machine.trouble import Course


@dataclass(frozen=True)
class Submission:
    """What is handed in; ``other`` where its prompt is not the one that the request id was used with."""

    values: dict[str, Any]
    other: bool = False

    @property
    def request_id(self) -> str:
        return self.values["request_id"]


class Judge:
    """Compares what came of one submission with what the reference model says. ``replayed`` are then the events of a
    replay, which must be the same each time."""

    replayed: list[str] | None = None

    def __init__(self, submission: Submission, seen: Seen, before: Stored, after: Stored, requests: int) -> None:
        self.submission, self.seen = submission, seen
        self.before, self.after, self.requests = before, after, requests
        self.known = before.turn(submission.request_id)
        self.turn = after.turn(submission.request_id)

    def judge(self, course: Course) -> None:
        if self.known is not None and self.submission.other:
            self.refused(RequestConflict)
        elif self.ended and not self.goes_on:
            self.replay()
        else:
            self.runs(chain(course.answers, repeat(PLAIN)))

    @property
    def ended(self) -> bool:
        return self.known is not None and self.known["status"] in ("answered", "unanswered")

    @property
    def goes_on(self) -> bool:
        if self.known is None or not self.submission.values.get("reopen"):
            return False
        return self.known["status"] == "unanswered" or (self.live and self.before.standing(self.known).stopping)

    @property
    def live(self) -> bool:
        """Whether the turn was unfinished before."""
        return self.known in self.before.live_turns

    def refused(self, kind: type[AgentError]) -> None:
        assert self.requests == 0
        self.nothing_new()
        if not self.seen.disturbed:
            assert isinstance(self.seen.error, kind)

    def nothing_new(self) -> None:
        """Nothing is added to the history; but a stop that the disk kept from its end is settled first, and a host that
        fails ends all unfinished work."""
        stopping = any(task["abort_requested"] for task in self.before.live_tasks)
        failing = self.seen.trouble is not None and self.seen.trouble.what in ("on_event", "report_usage")
        assert stopping or failing or self.after["entry"] == self.before["entry"]

    # -- a replay ------------------------------------------------------------------------------------------------------

    def replay(self) -> None:
        assert self.requests == 0, "a replay asked the model"
        assert self.turn == self.known
        self.nothing_new()
        if self.seen.disturbed:
            self.disturbed()
            return
        self.result()
        assert self.seen.run is not None
        assert self.seen.run.result is not None
        assert self.seen.run.result.replayed
        self.replayed = [str(event) for event in self.seen.events]

    # -- a run ---------------------------------------------------------------------------------------------------------

    def runs(self, given: Iterator[Answer]) -> None:
        if self.known is None and self.submission.values.get("prompt") is None:
            if not self.seen.disturbed:
                assert isinstance(self.seen.error, InputValidationError)
                assert self.turn is None
            return
        if self.seen.disturbed:
            self.disturbed()
            return
        older: list[str] = []
        requests = 0
        for row in self.before.live_turns:
            if row["request_id"] != self.submission.request_id:
                standing = self.before.standing(row)
                told = forecast(standing, given)
                requests += told.requests
                self.is_as_told(row["request_id"], told)
                older += [] if standing.stopping else [row["request_id"]]
        start = Standing()
        if self.goes_on:
            assert self.known is not None
            if self.live:
                forecast(standing := self.before.standing(self.known), given)
                start.talk = standing.talk
            else:
                start.talk = self.before.talk(self.known["id"])
        elif self.known is not None:
            start = self.before.standing(self.known)
        told = forecast(start, given)
        self.is_as_told(self.submission.request_id, told)
        assert self.requests == requests + told.requests
        assert self.seen.retries == told.retries
        assert len(self.seen.tool_events("start")) == len(self.seen.tool_events("end"))
        assert self.seen.run is not None
        assert list(self.seen.run.finished_before) == older
        self.result()
        assert self.seen.run.result is not None
        assert not self.seen.run.result.replayed or start.stopping

    def is_as_told(self, request_id: str, told: Forecast) -> None:
        row = self.after.turn(request_id)
        assert row is not None
        assert (row["status"], row["reason"]) == (told.status, told.reason)
        assert self.after.talk(row["id"]).text == told.text

    def result(self) -> None:
        """A run that came to the end of its turn showed and returned what is stored of it."""
        seen, turn, after = self.seen, self.turn, self.after
        assert turn is not None
        assert seen.run is not None
        result = seen.run.result
        assert result is not None
        assert seen.text == result.text
        said = after.talk(turn["id"]).text
        assert said == seen.text or (seen.faults and seen.text.startswith(said))
        assert result.usage == Usage(*(after.usage(turn["id"])[name] for name in COUNTERS))
        reported = {report.record_id.partition(":")[2] for report in seen.reports.values()}
        assert reported == {row["record_id"] for row in after["usage_record"] if row["turn_id"] == turn["id"]}
        assert (result.request_id, result.turn_id) == (self.submission.request_id, turn["id"])
        assert (result.reason, result.detail) == (turn["reason"], turn["detail"])
        assert sorted(seen.tool_events("end")) == sorted(after.shown_ends(turn["id"])), (seen.events, after["activity"])
        if turn["status"] == "answered":
            assert seen.error is None
            assert seen.finished
            assert result.status == "answered"
        else:
            assert type(seen.error) is type(turn_error(turn["reason"], ""))
            assert str(seen.error) == turn["detail"]
            assert result.status == ("aborted" if turn["reason"] == "aborted" else "failed")

    # -- a run that something happened to ------------------------------------------------------------------------------

    def disturbed(self) -> None:
        seen, turn = self.seen, self.turn
        what = "" if seen.trouble is None else seen.trouble.what
        if what == "crash":
            return
        assert seen.run is not None
        result = seen.run.result
        if self.at_end:
            self.result()
        elif result is not None and result.turn_id is not None:
            assert turn is not None
            assert result.text.startswith(seen.text)
            assert seen.faults or self.after.talk(turn["id"]).text.startswith(result.text)
        if seen.faults:
            assert self.error_fits(what), seen.error
            return
        self.end_fits(what)
        if turn is not None:
            self.nothing_lost(turn)

    @property
    def withdrawn(self) -> bool:
        """Whether it was stopped before it showed anything."""
        return self.seen.events == [] and "before it started" in str(self.seen.error)

    @property
    def at_end(self) -> bool:
        """Whether the run came to the end of its turn's events in spite of all."""
        turn = self.turn
        if turn is None or turn["reason"] is None or self.withdrawn:
            return self.seen.finished
        return isinstance(self.seen.error, AgentError) and str(self.seen.error) == turn["detail"]

    def end_fits(self, what: str) -> None:
        turn, seen = self.turn, self.seen
        live = turn is not None and turn["status"] == "running"
        reason = None if turn is None else turn["reason"]
        assert turn is not None or what in ("abort", "cancel", "close"), "a submission is lost"
        assert seen.run is not None
        match what:
            case "abort" if self.withdrawn:
                assert isinstance(seen.error, ExecutionAborted)
                assert not live or self.known is not None
            case "abort":
                assert not live
                assert isinstance(seen.error, ExecutionAborted) == (reason == "aborted")
            case "leave":
                assert not live
                assert seen.error is None
            case "cancel":
                assert seen.finished or isinstance(seen.error, asyncio.CancelledError | AgentError), seen.error
            case "close":
                assert seen.finished or isinstance(seen.error, AgentError)
                assert not live or isinstance(seen.error, AgentClosed)
            case "on_event" | "report_usage":
                assert not live
                assert isinstance(seen.error, RuntimeFailure)
            case _:
                raise AssertionError(what)

    def error_fits(self, what: str) -> bool:
        error = self.seen.error
        if error is None:
            return self.seen.finished or what == "leave"
        allowed: tuple[type[BaseException], ...] = (StorageError,)
        allowed += {
            "abort": (ExecutionAborted,),
            "cancel": (asyncio.CancelledError,),
            "close": (AgentClosed,),
            "on_event": (RuntimeFailure,),
            "report_usage": (RuntimeFailure,),
        }.get(what, ())
        turn = self.turn
        if turn is not None and turn["reason"] is not None:
            allowed += (type(turn_error(turn["reason"], "")),)
        return isinstance(error, allowed)

    def nothing_lost(self, turn: Row) -> None:
        """All that was shown is stored, also where the run did not see the end of its turn."""
        talk = self.after.talk(turn["id"])
        if turn["status"] == "running":
            talk.say(self.after.standing(turn).cut or "")
        assert talk.text.startswith(self.seen.text), (talk.text, self.seen.text)
