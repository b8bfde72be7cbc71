"""The agent behind one object: ``create_agent(...)``, ``run()`` and its events, ``close()``."""

from __future__ import annotations

import asyncio
import inspect
import os
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from agent_nodes._aio import finish
from agent_nodes._clock import SYSTEM_CLOCK, Clock
from agent_nodes.engine.config import EngineConfig
from agent_nodes.engine.harness import Harness, SessionNames, Submitted
from agent_nodes.errors import (
    AgentBusy,
    AgentClosed,
    ExecutionAborted,
    InputValidationError,
    RuntimeFailure,
    UpstreamError,
    turn_error,
)
from agent_nodes.events import AgentStreamEvent, TextDelta, ToolEvent
from agent_nodes.host import AgentHost, UsageReport, host_of
from agent_nodes.messages import JsonObject, Usage, repair_text
from agent_nodes.providers.base import ModelEntry, Provider
from agent_nodes.runtime_options import (
    AgentOptionsDict,
    Options,
    agent_options,
    storage_of,
)
from agent_nodes.store.records import Turn, UsageRow
from agent_nodes.store.storage import memory_storage
from agent_nodes.submission import AgentTurnStatus, Submission, submission_of
from agent_nodes.transcript import check_pairs, messages_of, transcript_of
from agent_nodes.turn_config import TurnConfigs

if TYPE_CHECKING:
    from agent_nodes.options import AgentInput

_STOPPED_EARLY = "The turn was stopped before it started."


@dataclass(frozen=True, slots=True)
class AgentRunResult:
    """How a run ended. ``text`` is everything the turn said; the parts before and after a round of tools stand in
    paragraphs of their own. ``replayed``: the turn had ended before this run, nothing was called. ``reason`` and
    ``detail`` say why there is no answer."""

    request_id: str
    turn_id: int | None
    status: AgentTurnStatus
    text: str
    usage: Usage
    reason: str | None = None
    detail: str | None = None
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class ContextUsage:
    """Tokens in the model's context now, of the model's window."""

    used: int
    total: int


@dataclass(frozen=True, slots=True)
class UnfinishedTurn:
    """A turn that was cut off; submitting its ``request_id`` (or anything new) lets it go on."""

    request_id: str
    turn_id: int
    status: str


class Iteration:
    """One pass over a run's events. ``left`` once nobody holds its iterator any more: its closing is under way."""

    def __init__(self) -> None:
        self.started = False
        self.ended = asyncio.Event()
        self.generator: weakref.ref[AsyncGenerator[AgentStreamEvent]] | None = None

    @property
    def left(self) -> bool:
        return self.generator is not None and self.generator() is None


class AgentRun:
    """One run: iterate it for the events, read :attr:`result` after the end.

    A normal end means answered; anything else raises (see :mod:`agent_nodes.errors`). Leaving the loop, closing the
    iterator or setting the abort signal stops the turn for good. Cancelling the task that iterates is a shutdown: the
    turn stays resumable. As an async context manager it has ended one or the other way when the block is left.
    Iterating it again submits the same ``request_id`` again.
    """

    def __init__(self, runtime: AgentRuntime, given: Submission, host: AgentHost, request_id: str) -> None:
        self.request_id = request_id
        self.result: AgentRunResult | None = None
        self.finished_before: tuple[str, ...] = ()
        self._runtime = runtime
        self._input = given
        self._host = host
        self._harness = runtime.harness
        self._iteration: Iteration | None = None
        self._consumer: asyncio.Task[Any] | None = None
        self._cancels = 0
        self._text: list[str] = []
        self._gap = False

    def __aiter__(self) -> AsyncGenerator[AgentStreamEvent]:
        iteration = self._iteration = Iteration()
        generator = self._events(iteration)
        iteration.generator = weakref.ref(generator)
        return generator

    def __await__(self) -> Generator[Any, None, AgentRunResult]:
        """``result = await agent.run(...)``: for who wants the answer and no events."""
        return self._drain().__await__()

    async def _drain(self) -> AgentRunResult:
        async for _ in self:
            pass
        assert self.result is not None  # a run that ends without raising has one
        return self.result

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        iteration = self._iteration
        generator = None if iteration is None or iteration.generator is None else iteration.generator()
        if generator is not None:
            await generator.aclose()
        elif iteration is not None and iteration.started:
            await iteration.ended.wait()

    async def _events(self, iteration: Iteration) -> AsyncGenerator[AgentStreamEvent]:
        runtime, host = self._runtime, self._host
        iteration.started = True
        try:
            await runtime.enter(iteration)
        except BaseException:
            iteration.ended.set()
            raise
        self._reset()
        forget: Callable[[], None] | None = None
        submitted: Submitted | None = None
        try:
            submitted = await self._submit(await self._begin())
            self._harness.start(submitted)
            self.finished_before = tuple(submitted.finished)
            turn = submitted.turn
            if host.abort_signal is not None:
                forget = host.abort_signal.on_set(lambda: self._request_stop(turn.id))
            channel = submitted.sink.channel
            while (batch := await channel.get()) is not None:
                for item in batch:
                    if isinstance(item, UsageRow):
                        await self._report(turn, item)
                        continue
                    self._note(item)
                    if host.on_event is not None:
                        await self._hook(host.on_event, item)
                    yield item
            self._conclude(submitted)
            await self._harness.settled(turn)
            self._raise(submitted)
        except GeneratorExit:
            await finish(self._leave(submitted))
            raise
        except asyncio.CancelledError:
            await finish(self._harness.pause())
            raise
        finally:
            if forget is not None:
                forget()
            if submitted is not None:
                self._conclude(submitted)
                self._harness.engine.projection.unfollow(submitted.turn.id)
            await self._end(iteration)

    def _reset(self) -> None:
        self._consumer = asyncio.current_task()
        self._cancels = 0 if self._consumer is None else self._consumer.cancelling()
        self._text, self._gap, self.result = [], False, None

    async def _end(self, iteration: Iteration) -> None:
        try:
            if self._harness is not self._runtime.harness:
                self._harness = self._runtime.harness
                await finish(self._runtime.close_guest())
        finally:
            self._runtime.leave(iteration)

    async def _begin(self) -> Submission:
        """The input, ready to be submitted to ``_harness``."""
        self._check_start()
        given = await self._runtime.prepared(self._input)
        if given.host_input is not None:
            self._harness = await self._runtime.open_guest(given)
        return given

    def _check_start(self) -> None:
        given = self._input
        if given.err_code:
            self.result = AgentRunResult(
                self.request_id, None, "failed", "", Usage(), reason="upstream", detail=given.err_message
            )
            raise UpstreamError(given.err_code, given.err_message)
        if self._host.abort_signal is not None and self._host.abort_signal.is_set:
            raise self._stopped_early()

    def _stopped_early(self) -> ExecutionAborted:
        self.result = AgentRunResult(
            self.request_id, None, "aborted", "", Usage(), reason="aborted", detail=_STOPPED_EARLY
        )
        return ExecutionAborted(_STOPPED_EARLY)

    def _request_stop(self, turn_id: int) -> None:
        signal = self._host.abort_signal
        self._harness.request_stop(turn_id, (signal and signal.reason) or "The turn was stopped.")

    async def _submit(self, given: Submission) -> Submitted:
        """Submit; the abort signal ends the wait for older turns too, which stay resumable."""
        harness, signal = self._harness, self._host.abort_signal
        work = harness.submit(given, self.request_id)
        if signal is None:
            return await work
        task = asyncio.ensure_future(work)
        forget = signal.on_set(task.cancel)
        submitted: Submitted | None = None
        try:
            submitted = await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if not signal.is_set or (current is not None and current.cancelling() > self._cancels):
                await _cancelled(task)
                raise
        finally:
            forget()
        if signal.is_set:
            submitted = await finish(harness.withdraw(self.request_id, signal.reason or _STOPPED_EARLY)) or submitted
        if submitted is None:
            raise self._stopped_early()
        return submitted

    def _note(self, event: AgentStreamEvent) -> None:
        if type(event) is TextDelta:
            if self._gap:
                self._gap = False
                if self._text:
                    self._text.append("\n\n")
            self._text.append(event.delta)
        elif type(event) is ToolEvent:
            self._gap = True

    async def _report(self, turn: Turn, row: UsageRow) -> None:
        report = self._host.report_usage
        if report is not None:
            harness = self._harness
            # Files of the first schema do not say which provider it was.
            provider = row.provider or harness.engine.config.base.model.provider
            record = f"{harness.engine.session_id}:{row.record_id}"
            await self._hook(
                report, UsageReport(record, self.request_id, turn.id, provider, row.model, row.usage, row.cost)
            )

    async def _hook(self, hook: Callable[[Any], Any], value: Any) -> None:
        """Call a hook of the host; one that raises is a failure of the run, recorded before it is raised here."""
        try:
            outcome = hook(value)
            if inspect.isawaitable(outcome):
                await outcome
        except Exception as error:
            await finish(self._harness.fail(error))
            name = getattr(hook, "__name__", "hook")
            raise RuntimeFailure(f"The host's {name} failed ({_line(error)}); the turn ended.") from error

    async def _leave(self, submitted: Submitted | None) -> None:
        """The loop was left: a stop, unless its task is being cancelled, which is a shutdown."""
        consumer = self._consumer
        if submitted is None or (
            consumer is not None and (consumer.cancelling() > self._cancels or consumer.cancelled())
        ):
            await self._harness.pause()
        else:
            await self._harness.stop(submitted.turn.id, "The run was left before its end.")

    def _conclude(self, submitted: Submitted) -> None:
        """The result, once the turn has ended, however the run did."""
        turn = submitted.sink.turn
        if turn is None or self.result is not None:
            return
        status: AgentTurnStatus = "answered" if turn.status == "answered" else "failed"
        if turn.reason == "aborted":
            status = "aborted"
        self.result = AgentRunResult(
            self.request_id,
            turn.id,
            status,
            "".join(self._text),
            turn.usage,
            turn.reason,
            turn.detail,
            replayed=submitted.turn.status != "running",
        )

    def _raise(self, submitted: Submitted) -> None:
        """What an end without an answer raises."""
        sink = submitted.sink
        if sink.error is not None:
            raise sink.error
        turn = sink.turn
        if turn is None:
            raise RuntimeFailure("The turn's events ended without its end. This is a bug; the session holds its state.")
        if turn.reason is not None:
            raise turn_error(turn.reason, turn.detail or turn.reason)


class AgentRuntime:
    """An open session with its model and tools; made by :func:`create_agent`. One run at a time."""

    def __init__(self, harness: Harness, configs: TurnConfigs, options: Options, clock: Clock) -> None:
        self.harness = harness
        self._configs = configs
        self._options = options
        self._clock = clock
        self._guest: Harness | None = None
        self._active: Iteration | None = None
        self._closing: asyncio.Future[None] | None = None

    @property
    def session_id(self) -> str:
        """The session's own id, the same whenever it is opened."""
        return self.harness.engine.session_id

    def run(self, input: AgentInput | Mapping[str, Any] | str, host: Any = None) -> AgentRun:
        """One turn; nothing happens before the first event is asked for.

        Raises :class:`~agent_nodes.errors.InputValidationError` naming the field that is wrong. ``host`` is an
        :class:`~agent_nodes.AgentHost`, a dict of its members or any object that has some of them.
        """
        given = submission_of(input)
        return AgentRun(self, given, host_of(host), given.request_id or self._clock.new_id())

    def unfinished(self) -> list[UnfinishedTurn]:
        """Turns that were cut off, oldest first."""
        turns = sorted(self.harness.engine.projection.turns.values(), key=lambda turn: turn.id)
        return [UnfinishedTurn(turn.request_id, turn.id, turn.status) for turn in turns]

    def secrets(self) -> Sequence[str]:
        """The keys in use: for whoever shows texts of a turn where they must not be."""
        return self._configs.secrets()

    def get_context_usage(self) -> ContextUsage | None:
        """How full the model's context is; None where its window is not known."""
        engine = (self._guest or self.harness).engine
        meter = engine.projection.meters.get(engine.main_target)
        setups = engine.projection.setups.values()
        unasked = engine.config.base.model.context_window
        asked = meter.total if meter is not None else unasked
        total = next((setup.model.context_window for setup in setups), asked)
        if total is None:
            return None
        return ContextUsage(meter.used if meter is not None else engine.context(engine.main_target).tokens, total)

    async def reset(self) -> None:
        """Begin the model's context anew: the next turn sees nothing of what was said, which stays in the store.

        Raises ``AgentBusy`` while a turn runs or is unfinished, and ``AgentClosed``.
        """
        await self._wait_idle("reset")
        await self.harness.reset()

    async def restore_transcript(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Let the first turn go on from ``messages``, as :meth:`read_transcript` gives them. What only the provider
        that wrote it understands is left out.

        Raises :class:`~agent_nodes.errors.InputValidationError` for a message that is wrong, and for a session in which
        something was said already; ``AgentBusy`` during a run; ``AgentClosed``.
        """
        await self._wait_idle("restore_transcript")
        await self.harness.seed(messages_of(messages, where="messages"))

    def read_transcript(self) -> list[JsonObject]:
        """What the model sees of the session now, as JSON messages (:mod:`agent_nodes.transcript` says how they look).
        The session's store holds all that happened; this is a copy of its context."""
        engine = self.harness.engine
        return transcript_of(engine.context(engine.main_target).messages)

    async def close(self) -> None:
        """End what runs, within seconds, and give the session free. Unfinished turns stay resumable."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await finish(self._closing)

    async def _close(self) -> None:
        active = self._active
        if active is not None and active.left:
            await active.ended.wait()
        try:
            await self.close_guest()
            await self.harness.close()
        finally:
            await self._configs.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # -- for runs ------------------------------------------------------------------------------------------------------

    async def enter(self, iteration: Iteration) -> None:
        await self._wait_idle("This agent is running already: a second run")
        self._active = iteration

    def leave(self, iteration: Iteration) -> None:
        self._active = None
        iteration.ended.set()

    async def _wait_idle(self, what: str) -> None:
        """A run that was left is waited for, any other refused."""
        while self._active is not None and self._active.left:
            await self._active.ended.wait()
        if self._closing is not None:
            raise AgentClosed("The agent is closed. Create it again to go on.")
        if self._active is not None:
            raise AgentBusy(f"{what} has to wait for the end of the run that is under way.")

    async def prepared(self, given: Submission) -> Submission:
        """``given`` with its pictures ready for a model. Raises ``InputValidationError`` naming one that is none."""
        if not given.images and not given.image_files:
            return given
        from agent_nodes.attachments import with_pictures

        return await with_pictures(given, self._options.file_store)

    async def open_guest(self, given: Submission) -> Harness:
        """A memory engine for one turn whose host keeps the history; nothing of it touches the session."""
        history = given.host_input or {}
        unknown = [name for name in history if name not in ("messages", "system")]
        section: Any = history.get("system") or ""
        if unknown or not isinstance(section, str):
            field = f"host_input.{unknown[0] if unknown else 'system'}"
            what = "unknown field; known are messages, system" if unknown else "must be a text"
            raise InputValidationError(f"input.{field}: {what}", field=field)
        section = repair_text(section)
        messages = messages_of(history.get("messages", []), where="host_input.messages")
        check_pairs(messages, where="host_input.messages")
        base = self._configs.of(dict(given.overrides), section=section)
        config = EngineConfig(clock=self._clock, base=base, resolve=lambda _: base)
        guest = self._guest = await Harness.open(config, memory_storage(), SessionNames())
        await guest.seed(messages)
        return guest

    async def close_guest(self) -> None:
        guest, self._guest = self._guest, None
        if guest is not None:
            await guest.close()


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:2_000]


async def _cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel ``task`` and see it end."""
    task.cancel()
    await asyncio.wait([task])


class _Opening:
    """``await`` it for the runtime, or use it as an async context manager that closes it."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"create_agent(...) has no {name!r} before it is open: `agent = await create_agent(...)` "
            "or `async with create_agent(...) as agent:`"
        )

    def __init__(self, opened: Callable[[], Coroutine[Any, Any, AgentRuntime]]) -> None:
        self._open = opened
        self._runtime: AgentRuntime | None = None

    def __await__(self) -> Generator[Any, None, AgentRuntime]:
        return self._open().__await__()

    async def __aenter__(self) -> AgentRuntime:
        runtime = self._runtime = await self._open()
        return runtime

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._runtime is not None:
            await self._runtime.close()


def create_agent(**options: Unpack[AgentOptionsDict]) -> _Opening:
    """An agent over one session: ``await create_agent(...)``, or ``async with create_agent(...) as agent``.

    The options are those of :class:`~agent_nodes.AgentOptions`. Raises
    :class:`~agent_nodes.errors.InputValidationError` before anything is opened, then ``SessionBusy``,
    ``SessionFileError`` or ``StorageError`` from the session's file.
    """
    return _Opening(lambda: open_agent(agent_options(options)))


async def open_agent(
    options: Options,
    *,
    names: SessionNames | None = None,
    clock: Clock = SYSTEM_CLOCK,
    provider: tuple[ModelEntry, Provider] | None = None,
) -> AgentRuntime:
    """:func:`create_agent` with what only hosts and tests decide: the session's names, the clock, the model itself."""
    configs = TurnConfigs(options, clock, os.environ, provider)
    try:
        config = EngineConfig(clock=clock, base=configs.base, resolve=configs.of)
        names = replace(names or SessionNames(), session_id=options.session_id or "")
        harness = await Harness.open(config, storage_of(options), names)
    except BaseException:
        await finish(configs.close())
        raise
    return AgentRuntime(harness, configs, options, clock)
