"""The middle node: one durable turn, its events handed on while they happen, its outcome returned as a value."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, Unpack

from agent_nodes._aio import finish
from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.engine.harness import SessionNames
from agent_nodes.engine.inbox import turn_of
from agent_nodes.errors import AgentError, ExecutionAborted, InputValidationError, SessionBusy, TurnFailed
from agent_nodes.host import AgentHost, both_hosts, host_of
from agent_nodes.nodes.busy import BUSY_TIMEOUT, BusyRule, OnBusy, busy_rule, opened_in_turn
from agent_nodes.nodes.connection import Connection, check_connection, connected
from agent_nodes.nodes.dispatch import ALONE, AgentNode, NodeFacts, Surroundings, TaskOptions
from agent_nodes.nodes.scope import Scope, current_scope
from agent_nodes.options import AgentInput, agent_input
from agent_nodes.providers.redaction import redact, seal
from agent_nodes.runtime import AgentRun, AgentRuntime, open_agent
from agent_nodes.runtime_options import AgentOptionsDict, Options, agent_options
from agent_nodes.store import reads
from agent_nodes.store.line import Tx
from agent_nodes.store.locate import session_file
from agent_nodes.store.records import Turn
from agent_nodes.submission import AgentOutputPayload, AgentTurnStatus, SessionRef
from agent_nodes.tools.policy import BUILTIN_NAMES, SESSION_NAMES

SessionKey: TypeAlias = str | Callable[[AgentInput], str]

PROJECT = "default"
FAILED = 1
ABORTED = 130
"""``err_code`` of a turn that ended without an answer; the exit statuses of the command line."""

CANCELLED = "The flow run was cancelled."


@dataclass(frozen=True, slots=True)
class _Spec:
    """What an agent node is made of, checked when it is made."""

    name: str
    options: Options
    host: AgentHost
    project: str | None
    conversation_id: str | None
    session_key: SessionKey
    busy: BusyRule
    raise_on_failure: bool | None
    connection: str | Connection | None = None

    def session(self, given: AgentInput, around: Surroundings) -> SessionRef:
        key = self.session_key(given) if callable(self.session_key) else self.session_key
        if not isinstance(key, str) or not key:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputValidationError("session_key: must be a text that is not empty", field="session_key")
        scope = current_scope()
        conversation_id = self.conversation_id or (scope and scope.conversation_id) or around.run_id
        project = self.project or (scope and scope.project) or PROJECT
        return SessionRef(project, conversation_id or SYSTEM_CLOCK.new_id(), key)

    @property
    def facts(self) -> NodeFacts:
        key = None if callable(self.session_key) else (self.project, self.conversation_id, self.session_key)
        tools = frozenset(tool.name for tool in self.options.extra_tools)
        return NodeFacts("agent", tools, key, _has_model(self.options))

    def raises(self, around: Surroundings) -> bool:
        """In a graph an error is a value that passes by what follows."""
        in_flow = around.run_id is not None and current_scope() is None
        return in_flow if self.raise_on_failure is None else self.raise_on_failure


async def run_agent(
    given: AgentInput | dict[str, Any] | str,
    host: Any = None,
    *,
    project: str | None = None,
    conversation_id: str | None = None,
    session_key: SessionKey = "agent",
    on_busy: OnBusy = "wait",
    busy_timeout: float = BUSY_TIMEOUT,
    raise_on_failure: bool = False,
    **create_agent_options: Unpack[AgentOptionsDict],
) -> AgentOutputPayload:
    """One turn in the session of these names; its events go to the ``on_event`` of ``host`` while they happen.

    Without a ``conversation_id`` a new one is made; it is in the payload's ``session``. What ends without an answer is
    a payload too (``status`` failed or aborted, with ``reason``, ``err_code`` and ``err_message``), unless
    ``raise_on_failure``: then a failed turn raises its :class:`~agent_nodes.errors.TurnFailed`.

    ``on_busy`` says what happens while somebody else has the session: ``wait`` in the order of the calls, at most
    ``busy_timeout`` seconds, ``skip`` the turn (``status`` skipped, no error), or ``refuse`` with ``SessionBusy``.

    Raises :class:`~agent_nodes.errors.InputValidationError` naming what is wrong, ``RequestConflict``,
    ``SessionBusy`` with the owner's pid, ``SessionFileError``, ``SessionLost`` and ``StorageError``: in these cases the
    turn was not made, or can be gone on with by the same ``request_id``.
    """
    options, busy = _options(create_agent_options), busy_rule(on_busy, busy_timeout)
    spec = _Spec("agent", options, host_of(host), project, conversation_id, session_key, busy, raise_on_failure)
    return await _run(spec, given, ALONE)


def create_agent_node(
    name: str = "agent",
    *,
    session_key: SessionKey | None = None,
    host: Any = None,
    wait: str = "return",
    on_busy: OnBusy = "wait",
    busy_timeout: float = BUSY_TIMEOUT,
    project: str | None = None,
    conversation_id: str | None = None,
    raise_on_failure: bool | None = None,
    connection: str | Connection | None = None,
    **create_agent_options: Unpack[AgentOptionsDict],
) -> AgentNode[AgentInput | dict[str, Any] | str, AgentOutputPayload]:
    """A node that runs one turn a call; see :func:`run_agent` for what it returns and raises.

    ``session_key`` (default: the node's name) is a string or a function of the input; with ``project`` and
    ``conversation_id`` it names the session. Without ``conversation_id`` that is the flow run's id, and outside a flow
    a new one each time. Inside a flow run the ``request_id`` is made of the flow run's id, the node and the number of
    the call, so that a retry, a run started again after a crash and a second process meet the same turn; concurrent
    branches give one themselves. ``raise_on_failure`` is on inside a flow run, where the next try of the task or the
    flow takes up the failed turn, and off elsewhere. ``connection`` is a ``ModelConnection`` block, or the name of one,
    which is then read when the node runs in a flow. ``host``'s hooks are called in whichever thread the node runs.
    """
    if wait != "return":
        raise InputValidationError(f"create_agent_node: wait: {wait!r} is not available; use 'return'", field="wait")
    for option, value in (("name", name), ("project", PROJECT if project is None else project)):
        if not isinstance(value, str) or not value:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputValidationError(f"create_agent_node: {option}: must be a text that is not empty", field=option)
    key = name if session_key is None else session_key
    if not callable(key) and (not isinstance(key, str) or not key):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputValidationError(
            "create_agent_node: session_key: must be a text that is not empty, or a function of the input",
            field="session_key",
        )
    connection = check_connection(connection, create_agent_options)
    options, busy = _options(create_agent_options), busy_rule(on_busy, busy_timeout)
    spec = _Spec(name, options, host_of(host), project, conversation_id, key, busy, raise_on_failure, connection)

    async def body(given: AgentInput | dict[str, Any] | str, around: Surroundings) -> AgentOutputPayload:
        return await _run(spec, given, around)

    return AgentNode(name, body, facts=spec.facts)


def _options(given: AgentOptionsDict) -> Options:
    for option in ("database_path", "storage"):
        if given.get(option) is not None:
            raise InputValidationError(
                f"create_agent_node: {option}: a node's session is found by project, conversation_id and session_key, "
                "under AGENT_NODES_HOME; leave this out, or use create_agent",
                field=option,
            )
    for option in given:
        if option in TaskOptions.__annotations__:
            raise InputValidationError(
                f"create_agent_node: {option}: an option of the task; use node.with_options({option}=...)", field=option
            )
    return agent_options(given)


async def _run(spec: _Spec, value: AgentInput | dict[str, Any] | str, around: Surroundings) -> AgentOutputPayload:
    given = agent_input(value)
    scope = current_scope()
    request_id = around.request_id if scope is None else scope.request_id
    if given.request_id is None and request_id is not None:
        given = given.model_copy(update={"request_id": request_id})
    # The history of such a turn is its host's: it has no session.
    session = spec.session(given, around) if given.host_input is None else None
    if given.err_code:
        return AgentOutputPayload(
            status="failed",
            request_id=given.request_id or "",
            session=session,
            reason="upstream",
            err_code=given.err_code,
            err_message=given.err_message,
        )
    call = _Call(spec, given, session, around, scope)
    watch = around.watch
    if watch is not None:
        watch.begins(given.request_id or "", session)
    try:
        payload = await call.payload()
    except BaseException as error:
        seal(error, call.secrets)
        if watch is not None:
            watch.breaks_off(error, call.secrets)
        raise
    payload.err_message = redact(payload.err_message, call.secrets)
    if watch is not None:
        watch.ends(payload, call.secrets, replayed=call.replayed)
    if call.error is not None:
        seal(call.error, call.secrets)
        raise call.error
    return payload


class _Call:
    """One call of an agent node. ``error`` is what it raises besides its payload, ``secrets`` the keys it used;
    ``replayed``: the turn had ended before."""

    def __init__(
        self, spec: _Spec, given: AgentInput, session: SessionRef | None, around: Surroundings, scope: Scope | None
    ) -> None:
        self.error: BaseException | None = None
        self.replayed = False
        self.secrets: Sequence[str] = [spec.options.api_key] if spec.options.api_key else []
        self._given = given
        self._session = session
        self._around = around
        self._scope = scope
        self._busy = spec.busy
        if scope is not None and scope.on_busy is not None:
            self._busy = replace(spec.busy, on_busy=scope.on_busy)
        self._connection = spec.connection
        self._raises = spec.raises(around)
        self._options = _opening(spec.options, given, scope)
        host = spec.host
        if scope is not None and scope.host is not None:
            host = both_hosts(host, host_of(scope.host(spec.name)))
        watch = around.watch
        self._host = host if watch is None else both_hosts(host, AgentHost(report_usage=watch.usage))

    async def payload(self) -> AgentOutputPayload:
        await self._connect()
        try:
            async with self._opened() as agent:
                return await self._turn(agent)
        except SessionBusy as error:
            if self._busy.on_busy != "skip":
                raise
            return self._ended("skipped", error.code, 0, error.message)
        except ExecutionAborted as error:  # while it waited for its session
            return self._ended("aborted", "aborted", ABORTED, error.message)

    async def _connect(self) -> None:
        """Take the model from the connection, which may have to be read first."""
        connection = self._connection
        if isinstance(connection, str):
            if self._around.connection is None:
                raise InputValidationError(
                    f"connection: {connection!r} is the name of a block, which is read inside a flow run; elsewhere "
                    "give the block itself, or provider and api_key",
                    field="connection",
                )
            connection = await self._around.connection(connection)
        if connection is not None:
            key = connection.key()
            self.secrets = [key] if key else []
            self._options = connected(self._options, connection)

    def _opened(self) -> AbstractAsyncContextManager[AgentRuntime]:
        session, options, watch = self._session, self._options, self._around.watch
        if session is None:
            return _opened_alone(options)
        names = SessionNames(session.project, session.conversation_id, session.session_key)
        path = session_file(session.project, session.conversation_id, session.session_key)
        return opened_in_turn(
            path,
            lambda: open_agent(replace(options, database_path=path), names=names),
            self._busy,
            signal=self._host.abort_signal,
            on_wait=None if watch is None else watch.waits,
        )

    async def _turn(self, agent: AgentRuntime) -> AgentOutputPayload:
        given, around, scope = self._given, self._around, self._scope
        if scope is not None and scope.on_session is not None:
            scope.on_session(agent.session_id)
        if given.request_id is not None and await _reopens(agent, given.request_id, around, scope):
            given = given.model_copy(update={"reopen": True})
        run = agent.run(given, self._host)
        if around.watch is not None:
            around.watch.runs(agent.harness.engine.config.base.model.model)
        try:
            return await self._answer(run)
        except (TurnFailed, ExecutionAborted) as error:
            if isinstance(error, TurnFailed) and self._raises:
                self.error = error
            return await self._without_answer(agent, run, error)
        except BaseException as error:
            if isinstance(error, Exception) or not await finish(_stop_if_cancelled(agent, run.request_id, around)):
                raise
            self.error = error
            return await finish(self._without_answer(agent, run, ExecutionAborted(CANCELLED)))
        finally:
            self.secrets = agent.secrets()
            self.replayed = run.result is not None and run.result.replayed

    async def _answer(self, run: AgentRun) -> AgentOutputPayload:
        watch = self._around.watch
        async for event in run:
            if watch is not None:
                watch.event(event)
        result = run.result
        if result is None:
            raise AssertionError("a run that ended has a result")
        return AgentOutputPayload(
            status=result.status,
            text=result.text,
            request_id=result.request_id,
            turn_id=result.turn_id,
            session=self._session,
            usage=result.usage,
        )

    async def _without_answer(self, agent: AgentRuntime, run: AgentRun, error: AgentError) -> AgentOutputPayload:
        if isinstance(error, ExecutionAborted):
            payload = self._ended("aborted", "aborted", ABORTED, error.message)
        else:
            payload = self._ended("failed", error.code, FAILED, error.message)
        payload.request_id = run.request_id
        turn = await _stored(agent, run.request_id)
        if turn is not None:
            payload.turn_id, payload.usage = turn.id, turn.usage
        result = run.result
        if result is not None:
            payload.text = result.text
            if turn is None:  # of a host's own history, in no session
                payload.turn_id, payload.usage = result.turn_id, result.usage
        return payload

    def _ended(self, status: AgentTurnStatus, reason: str, code: int, message: str) -> AgentOutputPayload:
        return AgentOutputPayload(
            status=status,
            request_id=self._given.request_id or "",
            session=self._session,
            reason=reason,
            err_code=code,
            err_message=message,
        )


@asynccontextmanager
async def _opened_alone(options: Options) -> AsyncGenerator[AgentRuntime]:
    async with await open_agent(options) as agent:
        yield agent


def _has_model(options: Options) -> bool:
    return bool(options.provider) or options.client is not None or options.resolved_model is not None


def _opening(options: Options, given: AgentInput, scope: Scope | None) -> Options:
    """The options to open with: an agent without a model of its own has that of its input, and what it does not declare
    itself the run around it does."""
    if scope is not None:
        options = _in_scope(options, scope)
    if _has_model(options):
        return options
    names = ("provider", "model", "base_url", "api_kind")
    found = {name: getattr(given, name) for name in names if getattr(given, name)}
    # Never a guess that sends a key to an address it is not for.
    if scope is not None and scope.provider is not None and not found.keys() & {"provider", "base_url"}:
        found["provider"] = scope.provider
    return replace(options, **found)


def _in_scope(options: Options, scope: Scope) -> Options:
    if scope.models is not None:
        models = scope.models if options.models is None else scope.models.joined(options.models)
        options = replace(options, models=models)
    if scope.tools is not None and options.tool_definitions is None:
        # Each of several agents has tools that the others do not know.
        known = {*BUILTIN_NAMES, *SESSION_NAMES, *(tool.name for tool in options.extra_tools)}
        options = replace(options, tool_definitions=tuple(tool for tool in scope.tools if tool.name in known))
    return options


async def _stored(agent: AgentRuntime, request_id: str) -> Turn | None:
    def read(tx: Tx) -> Turn | None:
        receipt = reads.receipt(tx, request_id)
        return None if receipt is None else turn_of(tx, receipt)

    return await agent.harness.engine.line.read(read)


async def _reopens(agent: AgentRuntime, request_id: str, around: Surroundings, scope: Scope | None) -> bool:
    """Whether a repeated run lets its turn go on: it failed, or was stopped only because its flow run was cancelled
    (somebody has started that again). What a person stopped goes on only where the run says so."""
    asked = scope is not None and scope.reopen
    if not asked and not around.again:
        return False
    turn = await _stored(agent, request_id)
    if turn is None or turn.status != "unanswered":
        return False
    return asked or turn.reason != "aborted" or turn.detail == CANCELLED


async def _stop_if_cancelled(agent: AgentRuntime, request_id: str, around: Surroundings) -> bool:
    """Whether somebody cancelled the flow run, and the turn is stopped for that. The run has paused it already, so
    whatever happens from here on it can be gone on with."""
    if around.cancelling is None or not await around.cancelling():
        return False
    stopped = [turn for turn in agent.unfinished() if turn.request_id == request_id]
    for turn in stopped:
        await agent.harness.stop(turn.turn_id, CANCELLED)
    return bool(stopped)
