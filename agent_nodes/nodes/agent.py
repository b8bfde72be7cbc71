"""The middle node: one durable turn, its events handed on while they happen, its outcome returned as a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, Unpack

from agent_nodes._aio import finish
from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.engine.harness import SessionNames
from agent_nodes.engine.inbox import turn_of
from agent_nodes.errors import AgentError, ExecutionAborted, InputValidationError, TurnFailed
from agent_nodes.host import AgentHost, both_hosts, host_of
from agent_nodes.nodes.dispatch import ALONE, AgentNode, Surroundings, TaskOptions
from agent_nodes.nodes.scope import Scope, current_scope
from agent_nodes.options import AgentInput, agent_input
from agent_nodes.runtime import AgentRun, AgentRuntime, open_agent
from agent_nodes.runtime_options import AgentOptionsDict, Options, agent_options
from agent_nodes.store import reads
from agent_nodes.store.line import Tx
from agent_nodes.store.locate import session_file
from agent_nodes.store.records import Turn
from agent_nodes.submission import AgentOutputPayload, SessionRef

SessionKey: TypeAlias = str | Callable[[AgentInput], str]

PROJECT = "default"
FAILED = 1
ABORTED = 130
"""``err_code`` of a turn that ended without an answer; the exit statuses of the command line."""

CANCELLED = "The flow run was cancelled."


@dataclass(frozen=True, slots=True)
class _Spec:
    """What an agent node is made of, checked when it is made."""

    options: Options
    host: AgentHost
    project: str | None
    conversation_id: str | None
    session_key: SessionKey
    raise_on_failure: bool | None

    def session(self, given: AgentInput, around: Surroundings) -> SessionRef:
        key = self.session_key(given) if callable(self.session_key) else self.session_key
        if not isinstance(key, str) or not key:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputValidationError("session_key: must be a text that is not empty", field="session_key")
        scope = current_scope()
        conversation_id = self.conversation_id or (scope and scope.conversation_id) or around.run_id
        project = self.project or (scope and scope.project) or PROJECT
        return SessionRef(project, conversation_id or SYSTEM_CLOCK.new_id(), key)

    def raises(self, around: Surroundings) -> bool:
        return around.run_id is not None if self.raise_on_failure is None else self.raise_on_failure


async def run_agent(
    given: AgentInput | dict[str, Any] | str,
    host: Any = None,
    *,
    project: str | None = None,
    conversation_id: str | None = None,
    session_key: SessionKey = "agent",
    raise_on_failure: bool = False,
    **create_agent_options: Unpack[AgentOptionsDict],
) -> AgentOutputPayload:
    """One turn in the session of these names; its events go to the ``on_event`` of ``host`` while they happen.

    Without a ``conversation_id`` a new one is made; it is in the payload's ``session``. What ends without an answer is
    a payload too (``status`` failed or aborted, with ``reason``, ``err_code`` and ``err_message``), unless
    ``raise_on_failure``: then a failed turn raises its :class:`~agent_nodes.errors.TurnFailed`.

    Raises :class:`~agent_nodes.errors.InputValidationError` naming what is wrong, ``RequestConflict``,
    ``SessionBusy`` with the owner's pid, ``SessionFileError``, ``SessionLost`` and ``StorageError``: in these cases the
    turn was not made, or can be gone on with by the same ``request_id``.
    """
    options = _options(create_agent_options)
    spec = _Spec(options, host_of(host), project, conversation_id, session_key, raise_on_failure)
    return await _run(spec, given, ALONE)


def create_agent_node(
    name: str = "agent",
    *,
    session_key: SessionKey | None = None,
    host: Any = None,
    wait: str = "return",
    on_busy: str = "refuse",
    project: str | None = None,
    conversation_id: str | None = None,
    raise_on_failure: bool | None = None,
    **create_agent_options: Unpack[AgentOptionsDict],
) -> AgentNode[AgentInput | dict[str, Any] | str, AgentOutputPayload]:
    """A node that runs one turn a call; see :func:`run_agent` for what it returns and raises.

    ``session_key`` (default: the node's name) is a string or a function of the input; with ``project`` and
    ``conversation_id`` it names the session. Without ``conversation_id`` that is the flow run's id, and outside a flow
    a new one each time. Inside a flow run the ``request_id`` is made of the flow run's id, the node and the number of
    the call, so that a retry, a run started again after a crash and a second process meet the same turn; concurrent
    branches give one themselves. ``raise_on_failure`` is on inside a flow run, where the next try of the task or the
    flow takes up the failed turn, and off elsewhere. ``host``'s hooks are called in whichever thread the node runs.
    """
    for option, value, only in (("wait", wait, "return"), ("on_busy", on_busy, "refuse")):
        if value != only:
            raise InputValidationError(
                f"create_agent_node: {option}: {value!r} is not available; use {only!r}", field=option
            )
    for option, value in (("name", name), ("project", PROJECT if project is None else project)):
        if not isinstance(value, str) or not value:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputValidationError(f"create_agent_node: {option}: must be a text that is not empty", field=option)
    key = name if session_key is None else session_key
    if not callable(key) and (not isinstance(key, str) or not key):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputValidationError(
            "create_agent_node: session_key: must be a text that is not empty, or a function of the input",
            field="session_key",
        )
    options = _options(create_agent_options)
    spec = _Spec(options, host_of(host), project, conversation_id, key, raise_on_failure)

    async def body(given: AgentInput | dict[str, Any] | str, around: Surroundings) -> AgentOutputPayload:
        return await _run(spec, given, around)

    return AgentNode(name, body)


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
    names, options = SessionNames(), _opening(spec.options, given, scope)
    if session is not None:
        names = SessionNames(session.project, session.conversation_id, session.session_key)
        options = replace(options, database_path=session_file(*_names(session)))
    host = spec.host if scope is None else both_hosts(spec.host, host_of(scope.host))
    async with await open_agent(options, names=names) as agent:
        if around.again and given.request_id is not None and _to_reopen(await _stored(agent, given.request_id)):
            given = given.model_copy(update={"reopen": True})
        run = agent.run(given, host)
        try:
            return await _answer(run, session)
        except (TurnFailed, ExecutionAborted) as error:
            if isinstance(error, TurnFailed) and spec.raises(around):
                raise
            return await _without_answer(agent, run, session, error)
        except BaseException as error:
            if not isinstance(error, Exception):
                await finish(_stop_if_cancelled(agent, run.request_id, around))
            raise


def _names(session: SessionRef) -> tuple[str, str, str]:
    return session.project, session.conversation_id, session.session_key


def _opening(options: Options, given: AgentInput, scope: Scope | None) -> Options:
    """The options to open with: an agent without a model of its own has that of its input, and one without a registry
    that of the run."""
    if options.models is None and scope is not None:
        options = replace(options, models=scope.models)
    if options.provider or options.client is not None or options.resolved_model is not None:
        return options
    names = ("provider", "model", "base_url", "api_kind")
    return replace(options, **{name: getattr(given, name) for name in names if getattr(given, name) is not None})


async def _answer(run: AgentRun, session: SessionRef | None) -> AgentOutputPayload:
    async for _ in run:
        pass
    result = run.result
    if result is None:
        raise AssertionError("a run that ended has a result")
    return AgentOutputPayload(
        status=result.status,
        text=result.text,
        request_id=result.request_id,
        turn_id=result.turn_id,
        session=session,
        usage=result.usage,
    )


async def _stored(agent: AgentRuntime, request_id: str) -> Turn | None:
    def read(tx: Tx) -> Turn | None:
        receipt = reads.receipt(tx, request_id)
        return None if receipt is None else turn_of(tx, receipt)

    return await agent.harness.engine.line.read(read)


def _to_reopen(turn: Turn | None) -> bool:
    """Whether a repeated run lets this turn go on: it failed, or was stopped only because its flow run was cancelled
    (somebody has started that again). What a person stopped stays stopped."""
    if turn is None or turn.status != "unanswered":
        return False
    return turn.reason != "aborted" or turn.detail == CANCELLED


async def _without_answer(
    agent: AgentRuntime, run: AgentRun, session: SessionRef | None, error: AgentError
) -> AgentOutputPayload:
    aborted = isinstance(error, ExecutionAborted)
    payload = AgentOutputPayload(
        status="aborted" if aborted else "failed",
        request_id=run.request_id,
        session=session,
        reason="aborted" if aborted else error.code,
        err_code=ABORTED if aborted else FAILED,
        err_message=error.message,
    )
    turn = await _stored(agent, run.request_id)
    if turn is not None:
        payload.turn_id, payload.usage = turn.id, turn.usage
    if run.result is not None:
        payload.text = run.result.text
    return payload


async def _stop_if_cancelled(agent: AgentRuntime, request_id: str, around: Surroundings) -> None:
    """The run has paused the turn already, so whatever happens from here on it can be gone on with."""
    if around.cancelling is None or not await around.cancelling():
        return
    for turn in agent.unfinished():
        if turn.request_id == request_id:
            await agent.harness.stop(turn.turn_id, CANCELLED)
