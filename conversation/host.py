"""The one driver of conversations: it opens a session, starts turns and hands on what they show.

Every surface works through it, so that a turn means the same wherever it was started.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agent_nodes._aio import AbortSignal
from agent_nodes.engine.harness import SessionNames
from agent_nodes.errors import AgentClosed, InputValidationError
from agent_nodes.host import AgentHost, host_of
from agent_nodes.messages import repair_text
from agent_nodes.runtime import AgentRun, AgentRunResult, AgentRuntime, ContextUsage, open_agent
from agent_nodes.runtime_options import agent_options
from agent_nodes.store import inspect
from agent_nodes.store.inspect import SessionSummary, SessionUsage, SessionView, TurnView
from agent_nodes.store.locate import is_file, list_session_files, session_file
from agent_nodes.submission import SessionRef, submission_of
from agent_nodes.tools.processes import sweep_session

if TYPE_CHECKING:
    from types import TracebackType

    from agent_nodes.events import AgentStreamEvent
    from agent_nodes.options import AgentInput

PROJECT = "default"
SESSION_KEY = "agent"


class ConversationRun:
    """One turn under way, made by :meth:`ConversationHost.start`. ``resumed`` says that it began in an earlier run."""

    def __init__(self, run: AgentRun, host: AgentHost, *, resumed: bool) -> None:
        self.request_id = run.request_id
        self.resumed = resumed
        self._run = run
        self._host = host

    def events(self) -> AsyncGenerator[AgentStreamEvent]:
        """The turn's events; ends and raises as :class:`~agent_nodes.AgentRun` does. Leaving it is a stop."""
        return self._run.__aiter__()

    @property
    def result(self) -> AgentRunResult | None:
        """How the turn ended, None before its end."""
        return self._run.result

    def stop(self, reason: str | None = None) -> None:
        """Stop the turn for good, from any thread; its events end with ``ExecutionAborted``."""
        if self._host.abort_signal is not None:
            self._host.abort_signal.set(reason)


class ConversationHost:
    """One session and the agent on it, open from :meth:`open` (or ``async with``) to :meth:`close`.

    ``options`` are those of :func:`agent_nodes.create_agent` without ``database_path`` and ``storage``: the session is
    the file that its three names lead to, under ``root`` or the data folder. Raises ``InputValidationError`` for wrong
    options and names before anything is opened.
    """

    def __init__(
        self,
        project: str,
        conversation_id: str,
        session_key: str = SESSION_KEY,
        *,
        options: Mapping[str, Any] | None = None,
        root: Path | None = None,
    ) -> None:
        given = dict(options or {})
        for name in ("database_path", "storage"):
            if given.get(name) is not None:
                raise InputValidationError(
                    f"{name}: a conversation's session has its own file; leave it out.", field=name
                )
        self.session = SessionRef(project, conversation_id, session_key)
        self.path = session_file(project, conversation_id, session_key, root)
        self._options = agent_options({**given, "database_path": self.path})
        self._runtime: AgentRuntime | None = None
        self._closed = False
        self._closing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Take the session; a second call does nothing. No model is called.

        Raises ``SessionBusy``, ``SessionFileError``, ``StorageError``, ``InputValidationError`` or, when it was closed
        meanwhile, ``AgentClosed``.
        """
        if self._closed:
            raise AgentClosed("The conversation is closed.")
        if self._runtime is not None:
            return
        ref = self.session
        names = SessionNames(ref.project, ref.conversation_id, ref.session_key)
        runtime = await open_agent(self._options, names=names)
        if self._closed:  # by close() during the await
            await runtime.close()
            raise AgentClosed("The conversation was closed while it was being opened.")
        self._runtime = runtime

    async def close(self) -> None:
        """End what runs and give the session free. A turn under way raises ``AgentClosed`` and stays resumable."""
        self._closed = True
        if self._runtime is not None:
            # Whoever closes it too waits for the same end.
            self._closing = self._closing or asyncio.ensure_future(self._runtime.close())
            await asyncio.shield(self._closing)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def start(
        self, input: AgentInput | Mapping[str, Any] | str | None = None, host: Any = None
    ) -> ConversationRun:
        """A turn for ``input``; nothing is sent before its first event is asked for.

        Without a ``request_id`` the prompt of a turn that was cut off means that turn, and so does no prompt. With
        ``reopen`` they mean the session's last turn. Anything else is a new turn.

        Raises ``InputValidationError`` when there is nothing to start.
        """
        fields = _fields(input)
        resumed = None
        if fields.get("request_id") is None and not fields.get("err_code"):
            if fields.get("prompt") is not None:
                submission_of(fields)  # what is wrong with it is said first
            resumed = await self._meant(fields.get("prompt"), reopen=fields.get("reopen") is True)
        if resumed is not None:
            fields |= {"prompt": None, "request_id": resumed.request_id}
        checked = host_of(host)
        checked.abort_signal = checked.abort_signal or AbortSignal()
        return ConversationRun(self.runtime.run(fields, checked), checked, resumed=resumed is not None)

    async def unfinished(self) -> list[TurnView]:
        """Turns that were cut off, oldest first, with their prompts."""
        return await self.runtime.harness.engine.line.read(inspect.unfinished)

    async def _meant(self, prompt: str | None, *, reopen: bool) -> TurnView | None:
        """The earlier turn that an input without a request_id means, None for a new one."""
        prompt = None if prompt is None else repair_text(prompt)
        open_turns = await self.unfinished() if self.runtime.unfinished() else []
        found = next((turn for turn in open_turns if prompt in (None, turn.prompt)), None)
        if found is not None:
            return found
        if reopen:
            last = await self.last_turn()
            if last is None or prompt not in (None, last.prompt):
                what = (
                    "the session has no turn yet; leave reopen out"
                    if last is None
                    else "the session's last turn has another prompt. Give that one or none, name an older turn by "
                    "its request_id, or leave reopen out for a new turn"
                )
                raise InputValidationError(f"reopen: {what}.", field="reopen")
            return last
        if prompt is None:
            raise InputValidationError(
                "prompt: missing, and the session has no turn that was cut off. Give the text of a new turn.",
                field="prompt",
            )
        return None

    # -- about the session ---------------------------------------------------------------------------------------------

    @property
    def runtime(self) -> AgentRuntime:
        """The open agent. Raises ``AgentClosed`` before :meth:`open` and after :meth:`close`."""
        if self._runtime is None or self._closed:
            raise AgentClosed("The conversation is not open.")
        return self._runtime

    @property
    def model(self) -> tuple[str, str]:
        """Provider and id of the model that turns go to now."""
        entry = self.runtime.harness.engine.config.base.model
        return entry.provider, entry.model

    @property
    def last_model(self) -> tuple[str, str] | None:
        """Provider and id of the model that the session's last turn went to, None in an empty session."""
        engine = self.runtime.harness.engine
        system = engine.context(engine.main_target).system
        return None if system is None else (system.provider, system.model)

    def context_usage(self) -> ContextUsage | None:
        """How full the model's context is, None where its window is not known."""
        return self.runtime.get_context_usage()

    async def last_turn(self) -> TurnView | None:
        """The session's last turn, None before the first."""
        return await self.runtime.harness.engine.line.read(inspect.last_turn)

    async def usage(self) -> SessionUsage:
        """What all turns of the session have taken, and the one under way."""
        return await self.runtime.harness.engine.line.read(inspect.session_usage)

    async def reset(self) -> None:
        """Begin the model's context anew. Raises ``AgentBusy`` while a turn runs or is unfinished."""
        await self.runtime.reset()

    def kill_tools(self) -> None:
        """Kill what running tools have started, at once and without a record: the last thing before a process ends
        without closing. Works from a signal handler."""
        if self._runtime is not None:
            sweep_session(self._runtime.session_id)


def list_sessions(root: Path | None = None) -> list[SessionSummary]:
    """All sessions under ``root`` (default the data folder), the one used last first. Takes no lock, changes nothing,
    and reads beside live owners; a file that cannot be read, or a folder of such files, has the state ``unreadable``.

    Raises ``StorageError`` where ``root`` itself cannot be read."""
    found = [inspect.summary(path) for path in list_session_files(root)]
    return sorted(found, key=lambda summary: summary.last_used, reverse=True)


def full_name(session: SessionSummary) -> str:
    """A session's three names in one, as :func:`named_session` and :func:`read_session` take them too."""
    return f"{session.project}/{session.conversation_id}/{session.session_key}"


def named_session(
    conversation_id: str, session_key: str | None = None, project: str | None = None, *, root: Path | None = None
) -> SessionRef:
    """The session that a turn belongs to, whether there is one yet or not: a name that is another session's full name
    (:func:`full_name`) means that one, unless a session of that very name exists.

    Raises ``InputValidationError`` for what is no name, ``StorageError`` where ``root`` cannot be read."""
    ref = SessionRef(project or PROJECT, conversation_id, session_key or SESSION_KEY)
    file = session_file(ref.project, ref.conversation_id, ref.session_key, root)
    if "/" in conversation_id and project is None and session_key is None and not is_file(file):
        for summary in list_sessions(root):
            if summary.conversation_id and full_name(summary) == conversation_id:
                return SessionRef(summary.project, summary.conversation_id, summary.session_key)
    return ref


def read_session(
    conversation_id: str, session_key: str | None = None, project: str | None = None, *, root: Path | None = None
) -> SessionView:
    """A session with its turns, read as :func:`list_sessions` reads. An empty file is a session without turns.

    With ``conversation_id`` alone it is the one in the default project, else the one with this full name, else the only
    one of that name anywhere. Raises ``InputValidationError`` where there is none or several, ``SessionFileError`` or
    ``StorageError``.
    """
    ref = named_session(conversation_id, session_key, project, root=root)
    path = session_file(ref.project, ref.conversation_id, ref.session_key, root)
    if is_file(path):
        return _view(path, ref)
    found = [
        summary
        for summary in list_sessions(root)
        if summary.conversation_id == conversation_id
        and session_key in (None, summary.session_key)
        and project in (None, summary.project)
    ]
    if not found:
        wanted = (("project", project), ("session_key", session_key))
        where = "".join(f", {name} {value!r}" for name, value in wanted if value is not None)
        raise InputValidationError(f"There is no session {conversation_id!r}{where}.", field="session")
    if len(found) > 1:
        names = ", ".join(repr(full_name(summary)) for summary in found)
        raise InputValidationError(
            f"The session {conversation_id!r} exists more than once; say which one by its full name ({names}), or with "
            "project and session_key.",
            field="session",
        )
    return inspect.view(found[0].path)


def _view(path: Path, ref: SessionRef) -> SessionView:
    status = path.stat()
    if status.st_size or is_file(Path(f"{path}-wal")):
        return inspect.view(path)
    # Whoever made it was killed before the first write.
    empty = SessionSummary(path, ref.project, ref.conversation_id, ref.session_key, 0, "idle", 0, status.st_mtime)
    return SessionView(empty, ())


def _fields(value: AgentInput | Mapping[str, Any] | str | None) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, str):
        return {"prompt": value}
    return dict(value)
