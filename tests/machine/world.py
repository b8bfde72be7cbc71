"""One session, the process that holds it, its disk, and all that may go wrong with them."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any
from unittest.mock import patch

from agent_nodes import AbortSignal, AgentHost, UsageReport
from agent_nodes.errors import AgentBusy, AgentError, StorageError
from agent_nodes.runtime import AgentRuntime, open_agent
from agent_nodes.runtime_options import agent_options
from agent_nodes.store import line, pool
from agent_nodes.store.storage import AgentStorage, Point, sqlite_storage
from tests.fakes.clock import FakeClock
from tests.machine.actors import Life, Model, Response, tools
from tests.machine.answers import PLAIN, Answer
from tests.machine.loop import Killed, Loop
from tests.machine.seen import Seen
from tests.machine.stored import Stored, copy_session
from tests.machine.trouble import Course, disk_full
from tests.support import ENTRY

# Nothing here tests the disk: a folder in memory saves a millisecond a commit.
FAST = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


class HostFailure(Exception):
    """Raised by hooks of the host."""


class Watched:
    """The session's file, with an observer at every commit."""

    def __init__(self, world: World, life: Life, path: Path) -> None:
        self.world, self.life, self.path = world, life, path
        self.label = str(path)

    def open(self) -> AgentStorage:
        storage = sqlite_storage(self.path).open()
        storage.observe = lambda point, label: self.world.at_commit(self.life, point, label)
        return storage


class World:
    """``in_place``: commits run where they are asked for, as on a fast disk, not in a writer thread."""

    def __init__(self, *, in_place: bool) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="machine-", dir=FAST)
        self.clock = FakeClock()
        self.loop = Loop(self.clock)
        self._patches = [
            patch.object(pool, "submit", self.loop.write),
            patch.object(line, "IN_PLACE_SECONDS", float("inf") if in_place else 0.0),
        ]
        for each in self._patches:
            each.start()
        self._files = count(1)
        self.path = Path(self.folder.name, "session-0.sqlite")
        self.life: Life | None = None
        self.responses: list[Response] = []
        self.effects: Counter[tuple[str, str, int]] = Counter()
        self.mistakes: list[AssertionError] = []
        self.interruptions = 0
        self.sequential = 0
        # The last look, as long as no commit came after it.
        self._seen_disk: Stored | None = None
        self._quiet()

    def _quiet(self) -> None:
        """Nothing goes wrong."""
        self._follow(Course())
        self._counts: Counter[str] = Counter()
        self._seen = Seen("")
        self._consumer: asyncio.Task[None] | None = None
        self._signal = AbortSignal()
        self._others: list[asyncio.Task[Any]] = []

    # -- a process -----------------------------------------------------------------------------------------------------

    def _follow(self, course: Course) -> None:
        self._course, self._trouble = course, course.trouble
        self._answers = chain(course.answers, repeat(PLAIN))
        self.loop.pace(course.pace)
        self.loop.drift = course.drift

    def open(self, system: str, course: Course | None = None) -> Seen:
        """Become the owner, unless that fails or the process dies meanwhile."""
        self._quiet()
        self._follow(course or Course())
        seen = self._seen
        life = self.life = Life(system)
        try:
            life.runtime = self._do(self._opened(life, self.path))
        except Killed:
            self.life = None
        except AgentError as error:
            self.life, seen.error = None, error
        self._quiet()
        return seen

    async def _opened(self, life: Life, path: Path) -> AgentRuntime:
        options = {
            "storage": Watched(self, life, path),
            "tools": [],
            "extra_tools": tools(self, life),
            "system_prompt": life.system,
        }
        return await open_agent(agent_options(options), clock=self.clock, provider=(ENTRY, Model(self, life)))

    def intrude(self) -> AgentError | None:
        """What a second owner hears."""
        try:
            self._do(self._opened(Life("Be brief."), self.path))
        except AgentError as error:
            return error
        return None

    def close(self, pace: tuple[int, ...] = (0,)) -> None:
        """End the process in order."""
        life, self.life = self.life, None
        assert life is not None
        assert life.runtime is not None
        self.interruptions += 1
        self._follow(Course(pace=pace))
        self._do(life.runtime.close())
        self._left_alone()

    def _left_alone(self) -> None:
        """Nothing is left of a process that was closed, once the last tool that does not listen has ended."""
        self.loop.pump(lambda: not asyncio.all_tasks(self.loop))
        self.loop.rest()
        self._seen_disk = None

    def crash(self) -> None:
        """From here on nothing of the process counts; the next one finds what the disk holds now."""
        life = self.life
        assert life is not None
        left = self.path
        self.path = Path(self.folder.name, f"session-{next(self._files)}.sqlite")
        copy_session(left, self.path)
        life.alive = False
        self.loop.dead = True
        self.interruptions += 1

    def bury(self, life: Life) -> None:
        """Clear away what Python keeps of a process that has died."""
        self.life = None
        self.loop.dead = False
        consumer, self._consumer = self._consumer, None
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            if consumer is task or life.runtime is None:
                task.cancel()
        if life.runtime is not None:
            ending = self.loop.create_task(life.runtime.close())
            self.loop.pump(ending.done)
            with suppress(Exception, asyncio.CancelledError):
                ending.result()
        self.loop.pump(lambda: not asyncio.all_tasks(self.loop))
        self.loop.rest()
        self.loop.unhandled.clear()

    def end(self) -> None:
        try:
            if self.life is not None:
                self.close()
        finally:
            for each in self._patches:
                each.stop()
            self.loop.close()
            self.folder.cleanup()

    # -- a run ---------------------------------------------------------------------------------------------------------

    def run(self, given: dict[str, Any], course: Course | None = None) -> Seen:
        """One submission by the open runtime to its end, or to the end of the process."""
        life = self.life
        assert life is not None
        assert life.runtime is not None
        self._quiet()
        self._follow(course or Course())
        seen = self._seen = Seen(given["request_id"])
        host = AgentHost(report_usage=self._report, abort_signal=self._signal, on_event=self._hook())
        seen.run = life.runtime.run(given, host)
        first = len(self.responses)
        self._consumer = self.loop.create_task(self._consume(seen))
        try:
            self.loop.pump(self._over, self._turn)
            self.loop.rest()
        except Killed:
            self.bury(life)
        else:
            self._settle(life)
            self.pass_time(self._course.after)
        for response in self.responses[first:]:
            response.exact = life.alive and not seen.faults
        if seen.disturbed:
            self.interruptions += 1
        self._quiet()
        return seen

    def _over(self) -> bool:
        life = self.life
        assert life is not None
        assert life.runtime is not None
        assert self._consumer is not None
        return self._consumer.done() and life.runtime._active is None and all(task.done() for task in self._others)

    def _settle(self, life: Life) -> None:
        assert self._consumer is not None
        if self._consumer.cancelled():  # before it had begun, or in its last step
            self._seen.error = None if self._seen.finished else asyncio.CancelledError()
        else:
            self._consumer.result()
        for task in self._others:
            if not (self._seen.faults and isinstance(task.exception(), StorageError)):
                task.result()
        if self._trouble is not None and self._trouble.what == "close" and self._seen.trouble is not None:
            self.life = None
            self._left_alone()

    async def _consume(self, seen: Seen) -> None:
        assert seen.run is not None
        leaving = self._trouble.how if self._trouble is not None and self._trouble.what == "leave" else ""
        try:
            if leaving == "block":
                async with seen.run:
                    await self._read(seen, seen.run)
            elif leaving == "aclose":
                events = aiter(seen.run)
                try:
                    await self._read(seen, events)
                finally:
                    await events.aclose()
            else:
                await self._read(seen, seen.run)
        except (Exception, asyncio.CancelledError) as error:
            seen.error = error.with_traceback(None)

    async def _read(self, seen: Seen, events: Any) -> None:
        async for event in events:
            seen.events.append(event)
            if self._happens("event") and self._trouble is not None:
                if self._trouble.what == "leave":
                    seen.trouble, seen.left = self._trouble, True
                    return
                if self._trouble.what != "on_event":
                    self._strike()
        seen.finished = True

    def _hook(self) -> Any:
        trouble = self._trouble

        def plain(event: object) -> None:
            if trouble is not None and trouble.what == "on_event" and self._happens("hook", trouble.at):
                self._seen.trouble = trouble
                raise HostFailure("on_event")

        async def slow(event: object) -> None:
            await asyncio.sleep(0)
            plain(event)

        return slow if trouble is not None and trouble.how == "async" else plain

    def _report(self, report: UsageReport) -> None:
        known = self._seen.reports.setdefault(report.record_id, report)
        assert known == report, "a record is reported again with other numbers"
        if self._happens("report"):
            self._seen.trouble = self._trouble
            raise HostFailure("report_usage")

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def _happens(self, when: str, at: int | None = None, point: Point = "begin") -> bool:
        """Count one more ``when``; whether the trouble is due at it."""
        trouble = self._trouble
        if point == "begin":
            self._counts[when] += 1
        due = at if at is not None else trouble.at if trouble is not None and trouble.when == when else 0
        return trouble is not None and self._counts[when] == due and (when != "commit" or trouble.point == point)

    def _turn(self) -> None:
        if self._happens("turn"):
            self._strike()

    def at_commit(self, life: Life, point: Point, label: str) -> None:
        if not life.alive or life is not self.life:
            return
        self._seen_disk = None
        due = self._happens("commit", point=point)
        fault = self._course.fault
        if fault is not None and fault.hits(self._counts["commit"], point):
            self._seen.faults += 1
            raise disk_full()
        if due:
            self._strike()

    def _strike(self) -> None:
        trouble, life = self._trouble, self.life
        assert trouble is not None
        assert life is not None
        if trouble.what != "crash" and (life.runtime is None or self._consumer is None or self._consumer.done()):
            return
        self._seen.trouble = trouble
        match trouble.what:
            case "crash":
                self.crash()
            case "abort":
                self._signal.set("enough")
            case "cancel":
                assert self._consumer is not None
                self._consumer.cancel()
            case "close":
                assert life.runtime is not None
                self._others.append(self.loop.create_task(life.runtime.close()))
            case "second_run":
                assert life.runtime is not None
                self._seen.trouble = None  # it disturbs nothing
                if life.runtime._active is not None:
                    self._others.append(self.loop.create_task(self._second(life.runtime, trouble.how)))
            case _:
                raise AssertionError(trouble)

    async def _second(self, runtime: AgentRuntime, how: str) -> None:
        if runtime._active is None:
            return
        run = runtime.run("me too")
        busy = False
        try:
            if how == "block":
                async with run:
                    async for _ in run:
                        raise AssertionError("a second run went on beside the first")
            else:
                async for _ in run:
                    raise AssertionError("a second run went on beside the first")
        except AgentBusy:
            busy = True
        assert busy

    # -- looking -------------------------------------------------------------------------------------------------------

    def next_answer(self) -> Answer:
        return next(self._answers)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """A mistake found inside the engine, which handles what tools and providers raise."""
        try:
            yield
        except AssertionError as error:
            self.mistakes.append(error)
            raise

    def unhandled(self, seen: Seen | None) -> list[dict[str, Any]]:
        """What went wrong unseen. Of a full disk a loop that was just left cannot hear in another way, nor one whose
        commit was not waited for."""

        def told(context: dict[str, Any]) -> bool:
            error = context.get("exception")
            unwaited = "after its caller was cancelled" in context["message"]
            if seen is not None and seen.faults > 0 and isinstance(error, StorageError):
                return seen.left or unwaited
            return unwaited and type(error).__name__ in ("_KnownRequest", "InputValidationError")

        found = [context for context in self.loop.unhandled if not told(context)]
        self.loop.unhandled.clear()
        return found

    def look(self) -> Stored:
        """What the disk holds."""
        if self._seen_disk is None:
            copy = Path(self.folder.name, "look.sqlite")
            copy_session(self.path, copy)
            self._seen_disk = Stored.read(copy)
        return self._seen_disk

    def fresh(self, system: str) -> tuple[AgentRuntime, Stored]:
        """A runtime opened on a copy, closed again, and the copy's rows."""
        copy = Path(self.folder.name, "fresh.sqlite")
        copy_session(self.path, copy)
        runtime = self._do(self._opened(Life(system), copy))
        self._do(runtime.close())
        return runtime, Stored.read(copy)

    def pass_time(self, seconds: float) -> None:
        self.loop.call_soon(self.clock.advance, seconds)
        self.loop.rest()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        task = self.loop.create_task(work)
        try:
            self.loop.pump(task.done, self._turn)
        except Killed:
            life = self.life
            assert life is not None
            self.bury(life)
            raise
        return task.result()
