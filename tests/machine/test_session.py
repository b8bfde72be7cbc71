"""One session over many runs, stops, faults, crashes and reopenings, against a small reference model.

``AGENT_NODES_MACHINE`` may name another profile than the quick one that always plays the same examples: ``long`` looks
for new ones.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent_nodes.errors import SessionBusy, StorageError, UpstreamError
from agent_nodes.messages import Usage
from agent_nodes.store.records import Task
from tests.machine.judge import Judge, Submission
from tests.machine.seen import Seen
from tests.machine.stored import COUNTERS, Row, Stored, check, check_step
from tests.machine.trouble import Course, courses, openings
from tests.machine.world import World

PROMPTS = ("go", "weiter", "계속 \ud800")
SYSTEMS = ("Be brief.", "Be polite.")

PROFILES = {
    "quick": settings(max_examples=70, stateful_step_count=30, derandomize=True, database=None),
    "long": settings(max_examples=3000, stateful_step_count=40),
}


class Session(RuleBasedStateMachine):
    world: World

    def __init__(self) -> None:
        super().__init__()
        self.prompts: dict[str, str] = {}
        self.replays: dict[str, list[str]] = {}
        self.stored: Stored | None = None
        self.reopened: str | None = None
        self.seen: Seen | None = None

    def teardown(self) -> None:
        self.world.end()

    # -- rules ---------------------------------------------------------------------------------------------------------

    @initialize(system=st.sampled_from(SYSTEMS), in_place=st.booleans())
    def begin(self, system: str, in_place: bool) -> None:
        self.world = World(in_place=in_place)
        self.world.open(system)

    @rule(prompt=st.sampled_from(PROMPTS), course=courses)
    def submit(self, prompt: str, course: Course) -> None:
        """Something new."""
        request_id = f"r{len(self.prompts)}"
        self.prompts[request_id] = prompt
        self.play(Submission({"request_id": request_id, "prompt": prompt}), course)

    @rule(
        which=st.sampled_from([0, 0, 1, 1, 2, 3]),
        how=st.sampled_from(["same", "same", "id alone", "reopen", "reopen", "other prompt"]),
        course=courses,
    )
    def submit_again(self, which: int, how: str, course: Course) -> None:
        """A request id that was used before; the newest are 0, 1 …"""
        if not self.prompts:
            self.submit(PROMPTS[which % len(PROMPTS)], course)
            return
        request_id = f"r{max(0, len(self.prompts) - 1 - which)}"
        values: dict[str, Any] = {"request_id": request_id, "prompt": self.prompts[request_id]}
        if how == "id alone":
            del values["prompt"]
        elif how == "other prompt":
            values["prompt"] += "!"
        elif how == "reopen":
            values["reopen"] = True
        self.play(Submission(values, how == "other prompt"), course)

    @rule(
        how=st.sampled_from(["close", "close", "crash", "crash", "second owner", "upstream error"]),
        system=st.sampled_from(SYSTEMS),
        course=openings,
    )
    def between_runs(self, how: str, system: str, course: Course) -> None:
        """A process that ends, or one that begins where there is none."""
        world, life = self.world, self.world.life
        if life is None:
            seen = world.open(system, course)
            assert seen.error is None or (seen.faults and isinstance(seen.error, StorageError)), seen.error
        elif how == "close":
            world.close(course.pace)
        elif how == "crash":
            world.crash()
            world.bury(life)
        else:
            before, requests = world.look(), len(world.responses)
            if how == "second owner":
                assert isinstance(world.intrude(), SessionBusy)
            else:
                seen = world.run({"request_id": "never", "err_code": 3, "err_message": "earlier"})
                assert isinstance(seen.error, UpstreamError)
            assert (world.look(), len(world.responses)) == (before, requests)

    def play(self, submission: Submission, course: Course) -> None:
        """One submission, by a process that is opened for it where there is none."""
        world = self.world
        if world.life is None:
            assert world.open(SYSTEMS[len(self.prompts) % 2]).error is None
        before, requests = world.look(), len(world.responses)
        seen = self.seen = world.run(submission.values, course)
        if world.mistakes:
            raise world.mistakes[0]
        after = world.look()
        if before.turn(seen.request_id) is None and after.turn(seen.request_id) is not None:
            self.prompts[seen.request_id] = submission.values["prompt"]
        judge = Judge(submission, seen, before, after, len(world.responses) - requests)
        judge.judge(course)
        self.reopened = seen.request_id if submission.values.get("reopen") else None
        if judge.replayed is not None:
            known = self.replays.setdefault(str(after.turn(seen.request_id)), judge.replayed)
            assert known == judge.replayed, "a replay shows something else"

    # -- what always holds ---------------------------------------------------------------------------------------------

    @invariant()
    def holds(self) -> None:
        now = self.world.look()
        check(now)
        self.check_bills(now)
        if self.stored is not None:
            check_step(self.stored, now, self.reopened)
        if now != self.stored:
            self.check_memory(now)
        assert self.world.unhandled(self.seen) == []
        self.stored, self.reopened, self.seen = now, None, None

    def check_bills(self, now: Stored) -> None:
        """Each response of the model is billed once, with what it last reported; a lost one at most once."""
        billed: dict[int, Row] = {}
        silent = 0
        for row in now["usage_record"]:
            if row["input_tokens"]:
                assert row["input_tokens"] not in billed, "a response is billed twice"
                billed[row["input_tokens"]] = row
            else:
                silent += 1
        least = most = 0
        for response in self.world.responses:
            row = billed.pop(response.number, None)
            if row is not None:
                assert Usage(*(row[name] for name in COUNTERS)) in [_once(usage) for usage in response.reported]
            if response.reported:
                assert row is not None or not response.exact, "a response is not billed"
                if row is not None and response.exact:
                    assert Usage(*(row[name] for name in COUNTERS)) == _once(response.reported[-1])
            elif response.ended and response.answer.whole:
                most += 1
                least += response.exact
        assert billed == {}, "a bill for no response"
        assert least <= silent <= most

    def check_memory(self, now: Stored) -> None:
        """What a process has in memory is what a new one would load."""
        life = self.world.life
        fresh, settled = self.world.fresh(SYSTEMS[0] if life is None else life.system)
        check(settled)
        assert fresh.harness.engine.context(1).messages == now.messages or len(settled.entries) > len(now.entries)
        if life is None:
            return
        assert life.runtime is not None
        engine, other = life.runtime.harness.engine, fresh.harness.engine
        stopping = any(task["abort_requested"] for task in now.live_tasks)
        if stopping:
            return
        for name in ("messages", "system", "reasoning_from", "tokens"):
            assert getattr(engine.context(1), name) == getattr(other.context(1), name), name
        assert life.runtime.unfinished() == fresh.unfinished()
        assert life.runtime.get_context_usage() == fresh.get_context_usage()
        assert engine.projection.turns == other.projection.turns
        assert _resumable(engine.projection.tasks) == _resumable(other.projection.tasks)


def _resumable(tasks: dict[int, Task]) -> dict[int, Task]:
    """Tasks as a new owner finds them; one that lost its disk says so only at the next submission."""
    return {key: replace(task, status="pending") if task.status == "running" else task for key, task in tasks.items()}


def _once(usage: Usage) -> Usage:
    return replace(usage, calls=1)


# A step is many requests and commits, and draws a whole course of a run.
LARGE = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)

TestSessionAgainstTheModel = Session.TestCase
TestSessionAgainstTheModel.settings = settings(
    PROFILES[os.environ.get("AGENT_NODES_MACHINE", "quick")], deadline=None, suppress_health_check=LARGE
)
