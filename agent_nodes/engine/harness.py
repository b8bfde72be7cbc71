"""An open session: opens and reconciles it, takes submissions, stops, pauses, fails and closes.

Opening calls no model. A turn that was cut off goes on when somebody submits to the session, by the very code that runs
a fresh one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from agent_nodes.engine import generation, inbox, recovery, tool_task
from agent_nodes.engine.config import EngineConfig
from agent_nodes.engine.context import Context
from agent_nodes.engine.core import Engine
from agent_nodes.engine.projection import ContextMeter, Projection, TurnSink
from agent_nodes.engine.replay import StoredTurn, stored_turn
from agent_nodes.engine.scheduler import Scheduler
from agent_nodes.engine.turn import NAME, Checkpoint, Ending, close_turn
from agent_nodes.errors import (
    AgentBusy,
    AgentClosed,
    AgentError,
    InputValidationError,
    SessionFileError,
    SessionLost,
    StorageError,
)
from agent_nodes.messages import Message, repair_text
from agent_nodes.providers.base import ModelEntry
from agent_nodes.store import _sql, reads
from agent_nodes.store.kinds import EntryKind
from agent_nodes.store.line import Line, Tx
from agent_nodes.store.records import Task, Turn
from agent_nodes.store.storage import AgentStorageFactory
from agent_nodes.store.writes import append_entry, drop_progress, drop_waits, mark_abort, reset_context, set_tip
from agent_nodes.submission import Submission
from agent_nodes.tools.processes import sweep_session

_ENTRY_KINDS: dict[str, EntryKind] = {"user": "user", "assistant": "assistant", "tool_result": "tool_result"}

DEFINITIONS = {NAME: generation.DEFINITION, tool_task.NAME: tool_task.DEFINITION}


@dataclass(frozen=True, slots=True)
class SessionNames:
    """What a session file says about itself when it is made. ``session_id`` must also be that of one that is there."""

    project: str = ""
    conversation_id: str = ""
    session_key: str = ""
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A submission's turn as it stood then, followed by ``sink``, which first gets what the turn had put out before.
    ``finished`` are the request ids of older turns that had to end before."""

    turn: Turn
    sink: TurnSink
    finished: Sequence[str]


class Harness:
    """Made by :meth:`open`. One submission is followed at a time; the runtime above sees to that."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._closed = False
        self._unsettled = False
        self._halting: asyncio.Task[None] | None = None

    @property
    def engine(self) -> Engine:
        return self._engine

    @classmethod
    async def open(cls, config: EngineConfig, storage: AgentStorageFactory, names: SessionNames) -> Harness:
        """Take the session, load its context and live work, settle stops that were cut off.

        Raises ``SessionBusy``, ``SessionFileError`` or ``StorageError``; nothing is held then.
        """
        line = await Line.open(storage, owner_id=config.clock.new_id())
        try:
            return await cls._load(config, line, names)
        except BaseException:
            await line.close()
            raise

    @classmethod
    async def _load(cls, config: EngineConfig, line: Line, names: SessionNames) -> Harness:
        scheduler = Scheduler(DEFINITIONS)
        projection = Projection(scheduler.put)
        main = 1
        session_id, state, tasks, turns = await line.read(lambda tx: (reads.session_id(tx), *_live(tx, main)))
        if not session_id:
            session_id = await _create(line, config, names)
        elif names.session_id not in ("", session_id):
            raise InputValidationError(
                f"session_id: the session has the id {session_id!r}, not {names.session_id!r}; leave it out, or give "
                "another file",
                field="session_id",
            )
        context = projection.contexts[main] = Context()
        for message in state.messages:
            context.add(message)
        if state.context_used is not None:
            projection.meters[main] = ContextMeter(main, state.context_used, state.context_total)
        projection.tasks.update({task.id: task for task in tasks})
        projection.turns.update({turn.id: turn for turn in turns})
        if line.storage.taken_over:
            await asyncio.to_thread(sweep_session, session_id)
        line.subscribe(projection.apply)
        engine = Engine(config, line, projection, scheduler, DEFINITIONS, session_id, main)
        engine.results = tool_task.Results(engine)
        harness = cls(engine)
        scheduler.start(engine, projection.tasks, harness.fault)
        await harness.reconcile()
        return harness

    # -- submissions ---------------------------------------------------------------------------------------------------

    async def submit(self, given: Submission, request_id: str) -> Submitted:
        """Admit, join, reopen or find the submission; older unfinished turns end first when it is new or reopened.
        Its own turn waits for :meth:`start`, so that a stop which came meanwhile finds it where it was.

        Raises as :func:`inbox.admit` does, and whatever the storage raises.
        """
        self._check_open()
        engine = self._engine
        if self._halting is not None:
            await asyncio.wait([self._halting])
            self._halting = None
        if self._unsettled:
            await self.reconcile()
        finished: list[str] = []
        setup = engine.config.base
        if engine.projection.turns or given.overrides:
            known = await self._find(given, request_id)
            if known is not None and not _reopens(given, known):
                return await self._again(given, known, ())
            if known is None:
                inbox.check_content(given, request_id)
                if given.overrides:
                    setup = engine.config.resolve(dict(given.overrides))
            finished = await self._finish_older()
        admitted = await inbox.admit(engine, given, request_id, setup)
        if isinstance(admitted, inbox.Known):
            return await self._again(given, admitted.turn, finished)
        return self._follow(admitted, None, finished)

    async def _find(self, given: Submission, request_id: str) -> Turn | None:
        def read(tx: Tx) -> Turn | None:
            receipt = reads.receipt(tx, request_id)
            if receipt is None:
                return None
            return inbox.check_known(given, request_id, receipt, inbox.turn_of(tx, receipt))

        return await self._engine.line.read(read)

    async def _again(self, given: Submission, turn: Turn, finished: Sequence[str]) -> Submitted:
        stored = await self._stored(turn)
        if _reopens(given, turn):
            turn = await inbox.reopen(self._engine, turn, given)
        return self._follow(turn, stored, finished)

    async def _stored(self, turn: Turn) -> StoredTurn:
        return await self._engine.line.read(lambda tx: stored_turn(tx, turn))

    def _follow(self, turn: Turn, stored: StoredTurn | None, finished: Sequence[str]) -> Submitted:
        self._check_open()  # it may have been closed during the submission
        projection = self._engine.projection
        sink = projection.follow(turn.id)
        if stored is not None:
            sink.channel.put([*stored.usage, *stored.events()])
        if turn.id not in projection.turns:
            sink.finish(turn)
        return Submitted(turn, sink, finished)

    def start(self, submitted: Submitted) -> None:
        """Let the turn go on, if it has not ended. Raises ``AgentClosed``, and ``InputValidationError`` where what the
        turn asked for cannot be had here and now; it then stays as it is."""
        if submitted.turn.id in self._engine.projection.turns:
            self._activate(submitted.turn.id)

    async def settled(self, turn: Turn) -> None:
        """The turn has ended: what it has left running in the background ends too."""
        await self._engine.background.end(turn.request_id)

    def _activate(self, turn_id: int) -> None:
        self._check_open()  # what starts behind the halt of a close nobody would end
        self._engine.setup(turn_id)
        self._engine.scheduler.activate(turn_id)

    def _check_open(self) -> None:
        if self._closed:
            raise AgentClosed("The agent is closed. Create it again to go on.")

    async def withdraw(self, request_id: str, detail: str) -> Submitted | None:
        """A submission was stopped while it was under way: nothing of it goes on, older turns stay resumable. Returns
        its turn, ended, None where it has none."""
        await self._engine.line.read(lambda _: None)  # its commit may be under way: behind it, all is known
        await self.pause()
        for turn in list(self._engine.projection.turns.values()):
            if turn.request_id == request_id:
                end = self._engine.projection.end_of(turn.id)
                await self.stop(turn.id, detail)
                ended = await end
                return replace(self._follow(ended, await self._stored(ended), ()), turn=turn)
        return None

    async def _finish_older(self) -> list[str]:
        """Let every unfinished turn run to its end, oldest first; what becomes of them is in the store."""
        engine = self._engine
        finished: list[str] = []
        for turn in sorted(engine.projection.turns.values(), key=lambda turn: turn.id):
            end = engine.projection.end_of(turn.id)
            try:
                self._activate(turn.id)
            except InputValidationError as error:  # nobody here can go on with it, and what is new must not wait
                await self._settle_turns([turn.id], "failure.settle", Ending("runtime_failure", error.message))
            await asyncio.shield(end)  # a waiter that is cancelled must not take the turn's end with it
            await self.settled(turn)
            finished.append(turn.request_id)
        return finished

    # -- the context ---------------------------------------------------------------------------------------------------

    async def reset(self) -> None:
        """Begin the context anew; what was said stays in the store. Raises ``AgentBusy`` while a turn is unfinished."""
        self._check_open()
        engine = self._engine
        if engine.projection.turns:
            named = ", ".join(repr(turn.request_id) for turn in engine.projection.turns.values())
            raise AgentBusy(
                f"The context cannot be reset while a turn is unfinished ({named}); finish or stop it first."
            )
        await engine.commit("reset", lambda tx: reset_context(tx, engine.main_target))

    async def seed(self, messages: Sequence[Message]) -> None:
        """Put ``messages`` into a session in which nothing was ever said. Raises ``InputValidationError``."""
        self._check_open()
        engine = self._engine
        target_id = engine.main_target

        def seed(tx: Tx) -> None:
            if engine.context(target_id).messages or tx.rows(_sql.TURN_COUNT, after=0)[0][0]:
                raise InputValidationError(
                    "restore_transcript: the session has a history, which is never overwritten; use a new session",
                    field="messages",
                )
            for message in messages:
                set_tip(tx, target_id, append_entry(tx, target_id, _ENTRY_KINDS[message.role], message))

        await engine.commit("seed", seed)

    # -- stop, pause, fail, close --------------------------------------------------------------------------------------

    async def stop(self, turn_id: int, detail: str) -> None:
        """The user's stop: marked first, then everything of the turn ends, then that is recorded. Never resumed by
        itself. Where it cannot be stored the work ends all the same, and who follows the turn hears why."""
        engine = self._engine
        detail = _line(detail)
        task = self._generation(turn_id)
        if task is None:
            return
        try:
            await engine.commit("abort.mark", lambda tx: _mark(tx, task.id))
            engine.projection.signal(turn_id).set(detail)
            await self._halt(turn_id)
            await self._settle_turns([turn_id], "abort.settle", Ending("aborted", detail))
        except AgentError as error:
            self._break_off(error)
            await self._halt(None)
            raise

    async def pause(self) -> None:
        """Shutdown: everything ends where it is, nothing is marked, every turn stays resumable."""
        for turn_id in list(self._engine.projection.turns):
            self._engine.projection.signal(turn_id).set("shutdown")
            self._engine.projection.signals.pop(turn_id, None)
        self._unsettled = True
        await self._halt(None)
        await self.reconcile()

    async def fail(self, error: Exception) -> None:
        """A failure of the runtime or the host: all unfinished work of this owner ends, with the cause kept."""
        ending = Ending("runtime_failure", _line(f"{type(error).__name__}: {error}"))
        for turn_id in list(self._engine.projection.turns):
            self._engine.projection.signal(turn_id).set(ending.detail)
        await self._halt(None)
        try:
            await self._settle_turns(list(self._engine.projection.turns), "failure.settle", ending)
        except AgentError as worse:
            self._break_off(worse)
            raise

    def fault(self, task: Task, error: Exception) -> None:
        """A phase raised. A broken store can record nothing: whoever follows is told, and the turn stays as it is."""
        if isinstance(error, StorageError | SessionLost | SessionFileError | AgentClosed):
            self._break_off(error)
            self._halting = self._engine.scheduler.spawn(self._halt(None))
        else:
            self._engine.scheduler.spawn(_told(self.fail(error)))

    def _break_off(self, error: AgentError) -> None:
        """What is in memory goes on no further; the next submission first makes it resumable."""
        self._unsettled = True
        self._engine.projection.break_off(error)

    def request_stop(self, turn_id: int, detail: str) -> None:
        """:meth:`stop` in the background."""
        self._engine.scheduler.spawn(_told(self.stop(turn_id, detail)))

    async def close(self) -> None:
        """Pause and give the session free. The lock is free when this returns or raises."""
        if self._closed:
            return
        self._closed = True
        self._engine.projection.break_off(
            AgentClosed("The agent was closed during the run; the turn goes on when its request_id is submitted again.")
        )
        try:
            await self.pause()
        finally:
            await self._engine.scheduler.drain()
            await self._engine.line.close()

    async def _halt(self, turn_id: int | None) -> None:
        engine = self._engine
        await engine.scheduler.halt(turn_id)
        await engine.results.idle()
        turn = None if turn_id is None else engine.projection.turns.get(turn_id)
        await engine.background.end(None if turn is None else turn.request_id)
        with suppress(AgentError):  # a dead line has nothing more to tell
            await engine.line.read(lambda _: None)  # commits that were under way are known now

    async def reconcile(self) -> None:
        """Make what an owner left running ready to be taken over, and finish stops that it did not."""
        projection = self._engine.projection
        left = [task for task in projection.tasks.values() if task.status == "running"]
        if left:
            await self._engine.commit("open.reconcile", lambda tx: _make_pending(tx, left))
        stopped = [t.turn_id for t in projection.tasks.values() if t.abort_requested and t.turn_id is not None]
        if stopped:
            detail = "The turn was stopped."
            await self._settle_turns(stopped, "abort.settle", Ending("aborted", detail))
        self._unsettled = False

    async def _settle_turns(self, turn_ids: Sequence[int], label: str, ending: Ending) -> None:
        if any(turn_id in self._engine.projection.turns for turn_id in turn_ids):
            await self._engine.commit(label, lambda tx: self._settle(tx, turn_ids, ending))

    def _settle(self, tx: Tx, turn_ids: Sequence[int], ending: Ending) -> None:
        """Ends turns whose work has been halted: partial text stays, open calls get a result that says so."""
        engine = self._engine
        for turn_id in turn_ids:
            task = self._generation(turn_id)
            if task is None:
                continue
            for call in [t for t in engine.projection.tasks.values() if t.owner_task == task.id]:
                drop_progress(tx, tool_task.output_stream(call))
                # A call that never started is not shown: the model alone is told what became of it.
                shown = call.status != "waiting"
                entry, _ = tool_task.settle(engine, tx, call, tool_task.stopped_result(call), shown=shown)
                drop_waits(tx, call)
                set_tip(tx, call.target_id, entry)
            drop_waits(tx, task)
            if task.phase == "request":
                kept = recovery.kept_of(self._model(turn_id), reads.progress(tx, Checkpoint.of(task).stream))
                recovery.abandon(engine, tx, task, kept, ending)
            else:
                close_turn(engine, tx, engine.turn(task), ending, tip=None)

    def _model(self, turn_id: int) -> ModelEntry:
        """The turn's model; the session's own where the turn's cannot be had any more."""
        try:
            return self._engine.setup(turn_id).model
        except InputValidationError:
            return self._engine.config.base.model

    def _generation(self, turn_id: int) -> Task | None:
        turn = self._engine.projection.turns.get(turn_id)
        return None if turn is None else self._engine.projection.tasks.get(turn.task_id or 0)


def _line(text: str) -> str:
    """A cause in someone else's words as one line of bounded length."""
    return " ".join(repair_text(text).split())[:2_000]


def _reopens(given: Submission, turn: Turn) -> bool:
    """Whether the submission lets an ended turn go on: new work, which older unfinished turns go before."""
    return turn.status == "unanswered" and given.reopen


async def _told(work: Coroutine[Any, Any, None]) -> None:
    """For work whose failure was told to everyone it concerns."""
    with suppress(AgentError):
        await work


def _live(tx: Tx, target_id: int) -> tuple[reads.TargetState, list[Task], list[Turn]]:
    """The context, and the live work: every live turn has a live task."""
    tasks = reads.live_tasks(tx)
    turns = [reads.turn(tx, turn_id) for turn_id in sorted({task.turn_id for task in tasks if task.turn_id})]
    return reads.target_state(tx, target_id), tasks, turns


def _mark(tx: Tx, task_id: int) -> None:
    """Nothing to mark when the turn ended just before."""
    task = reads.task(tx, task_id)
    if task.status != "terminal":
        mark_abort(tx, task)


def _make_pending(tx: Tx, tasks: Sequence[Task]) -> None:
    tx.run(_sql.TASKS_PENDING)
    tx.changes.extend(replace(task, status="pending") for task in tasks)


async def _create(line: Line, config: EngineConfig, names: SessionNames) -> str:
    """Give a new session its id and its names."""
    session_id = names.session_id or config.clock.new_id()

    def create(tx: Tx) -> None:
        tx.run(
            _sql.SESSION_CREATE,
            session_id=session_id,
            project=names.project,
            conversation_id=names.conversation_id,
            session_key=names.session_key,
            created_at=config.clock.now(),
        )

    await line.commit("open.create", create, durable=False)  # nothing hangs on it before the first turn's commit
    return session_id
