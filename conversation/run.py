"""``agent-nodes run``: one run of a project on the command line, from its flags to the exit status."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_nodes._aio import AbortSignal
from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.errors import AgentError, ExecutionAborted, InputValidationError
from agent_nodes.events import AgentStreamEvent, TextDelta
from agent_nodes.host import AgentHost
from agent_nodes.options import AgentInput
from agent_nodes.store.locate import check_folder
from agent_nodes.tools.processes import sweep_session
from conversation.ask import read_prompt
from conversation.executor import RunContext, RunReport
from conversation.loading import LoadedProject, load_project
from conversation.opening import DEMO, NO_KEY, provider_for
from conversation.problems import KEY_VARIABLES, command, give_up_stdout, problem, put, trace
from conversation.render import JsonView, Notes, Output, TextView
from conversation.run_options import RunOptions, general_help, project_help, read_options, wants_help
from conversation.run_sessions import RunSessions
from conversation.signals import SHUTDOWNS, STOPPED, UNREAD, Signals
from conversation.workspace import load_models

STATUSES = {"answered": 0, "waiting": 3, "aborted": STOPPED}


def run_command(arguments: Sequence[str]) -> int:
    """Run the command; its exit status. Raises what went wrong before there was a run."""
    if not arguments or arguments[0] in ("-h", "--help"):
        put(general_help(), end="") if arguments else print(general_help(), end="", file=sys.stderr)
        return 0 if arguments else 2
    given, *words = arguments
    if given.startswith("-"):
        raise InputValidationError(f"run: say first which project: {command('run', 'PROJECT')} ...", field="project")
    project = load_project(given)
    params = project.executor.resolved_params(RunContext(config=project.folder))
    if wants_help(words):
        put(project_help(project, given, params), end="")
        return 0
    options = read_options(params, words)
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise BrokenPipeError
    return asyncio.run(_main(given, project, options))


async def _main(given: str, project: LoadedProject, options: RunOptions) -> int:
    if options.session is not None and not options.session.strip():
        raise InputValidationError("--session: empty; give the key of a conversation.", field="session")
    check_folder()
    prompt = read_prompt(options.words)
    values = {**options.values, "message": prompt}
    first = await project.executor.input(values, RunContext(config=project.folder))
    sessions = RunSessions(project.executor, options.session)
    run_id = options.request_id or sessions.meant(first.prompt, reopen=options.reopen)
    if first.prompt is None and run_id is None:
        what = "missing" if options.session is None else f"missing, and {options.session!r} has no run to go on with"
        raise InputValidationError(f"prompt: {what}. Give it as words, or pipe it in.", field="prompt")
    provider = _provider(project, first, sessions)
    new_id = SYSTEM_CLOCK.new_id()
    return await _Run(_Plan(given, project, options, sessions, values, run_id or new_id, provider)).run()


def _provider(project: LoadedProject, first: AgentInput, sessions: RunSessions) -> str | None:
    """Who answers for agents for which nothing names somebody."""
    if first.provider or all(node.facts.has_model for node in project.executor.workflow.agents):
        return None
    provider = provider_for({"model": first.model, "base_url": first.base_url}, os.environ)
    if provider == DEMO:
        sessions.check_demo()
    return provider


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the command line means. ``given`` is the project as it was given, ``values`` are its parameters and the
    message, ``provider`` answers where nothing names somebody."""

    given: str
    project: LoadedProject
    options: RunOptions
    sessions: RunSessions
    values: Mapping[str, Any]
    run_id: str
    provider: str | None


@dataclass(frozen=True, slots=True)
class _Screen:
    """Where a run is shown; ``json`` in place of ``view`` where lines of JSON are asked for."""

    notes: Notes
    view: TextView
    json: JsonView | None


class _Driver:
    """The run's own task. Closing it is a shutdown: every turn stays as it is and can be gone on with."""

    def __init__(self) -> None:
        self.sessions: list[str] = []
        self._task: asyncio.Task[RunReport] | None = None

    async def play(self, running: Coroutine[Any, Any, RunReport]) -> RunReport | None:
        """The report; None where the run was shut down."""
        task = self._task = asyncio.ensure_future(running)
        await asyncio.wait([task])
        return None if task.cancelled() else task.result()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def kill_tools(self) -> None:
        for session_id in self.sessions:
            sweep_session(session_id)


class _Run:
    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._options = plan.options
        self._sessions = plan.sessions
        self._executor = plan.project.executor
        self._driver = _Driver()
        self._report: RunReport | None = None
        self._unwritable: OSError | None = None
        self._begun = False

    async def run(self) -> int:
        out, err = Output(sys.stdout), Output(sys.stderr)
        notes = Notes(err, os.environ)
        screen = _Screen(notes, TextView(out, notes), JsonView(out) if self._options.json else None)
        error: Exception | None = None
        with Signals(self._driver, out, err) as signals:
            try:
                context = self._context(screen, signals.stop)
                await self._introduce(notes)
                self._begun = True
                self._report = await self._driver.play(self._executor.run(self._plan.values, context))
                await self._close(screen)
            except Exception as raised:
                error = raised
            status = self._status(error, signals)
            await self._tell(error, status, screen)
        if self._unwritable is not None:
            give_up_stdout()
        return status

    # -- before the run ------------------------------------------------------------------------------------------------

    def _context(self, screen: _Screen, stop: AbortSignal) -> RunContext:
        environ = dict(os.environ)
        for model in load_models(self._plan.project.folder, environ):
            # Keys of a file are not for the commands that a model runs, which are children of this process.
            if model.api_key_env is not None and model.api_key_env not in KEY_VARIABLES:
                os.environ.pop(model.api_key_env, None)
        self._sessions.look_up(self._plan.run_id)
        return RunContext(
            run_id=self._plan.run_id,
            conversation_id=self._sessions.key,
            reopen=self._options.reopen,
            hosts=lambda node: AgentHost(on_event=self._hook(node, screen, stop), abort_signal=stop),
            on_session=self._driver.sessions.append,
            on_busy="refuse",
            config=self._plan.project.folder,
            environ=environ,
            provider=self._plan.provider,
        )

    def _hook(
        self, node: str, screen: _Screen, stop: AbortSignal
    ) -> Callable[[AgentStreamEvent], Coroutine[Any, Any, None]]:
        """Shows what an agent does. Only the answering one's words are the answer; of the others their tools are
        told."""
        answers = node == self._executor.workflow.answering
        view = screen.view if answers else BesideView(node, screen.notes, screen.view)

        async def show(event: AgentStreamEvent) -> None:
            if self._unwritable is not None:
                return
            try:
                if screen.json is not None:
                    await screen.json.line({**event.to_dict(), "node": node})
                else:
                    await view.event(event)
            except OSError as error:
                self._unwritable = error
                stop.set("Its reader went away.")

        return show

    async def _introduce(self, notes: Notes) -> None:
        if self._options.session is None:
            again = self._command("--session", self._sessions.key)
            await notes.line(f"agent-nodes: session {self._sessions.key}; go on with: {again} {notes.blank}")
        if self._plan.provider == DEMO:
            await notes.line(f"agent-nodes: {NO_KEY}")
        if self._plan.run_id in self._sessions.unfinished:
            await notes.line("agent-nodes: going on with the run that was cut off")
        elif self._sessions.unfinished and not self._sessions.is_ended(self._plan.run_id):
            await notes.line("agent-nodes: an earlier run of this session was cut off; it is finished first")

    def _command(self, *more: str) -> str:
        """The command line that runs this project, with the same parameters."""
        words: list[str] = []
        for param in self._executor.params:
            value = self._options.values.get(param.name)
            if value is True and param.type == "boolean":
                words.append(param.flags[-1])
            elif value is not None:
                words += [param.flags[-1], str(value).lower() if isinstance(value, bool) else str(value)]
        return command("run", self._plan.given, *more, *words)

    # -- after the run -------------------------------------------------------------------------------------------------

    async def _close(self, screen: _Screen) -> None:
        report, view = self._report, screen.view
        if report is None or screen.json is not None:
            return
        if self._executor.workflow.answering is None and report.answer.text:
            await self._written(view.event(TextDelta(report.answer.text, 0)))
        await self._written(view.end())
        if report.status == "answered":
            key = self._sessions.key
            await view.usage(
                report.answer.usage, None, replayed=self._sessions.is_ended(self._plan.run_id), session=key
            )

    async def _tell(self, error: Exception | None, status: int, screen: _Screen) -> None:
        """The last lines: what went wrong and how to go on, and for programs the result."""
        notes = screen.notes
        if screen.json is None and self._report is None:
            await self._written(screen.view.end())
        if error is not None:
            trace(error)
        said = self._said(error, status)
        if said:
            await notes.line(f"agent-nodes: {said}", style="31")
            hint = self._hint(error)
            if hint:
                await notes.line(f"agent-nodes: {hint}", style="")
        if screen.json is not None:
            await self._written(screen.json.line(self._result(error, status)))

    async def _written(self, writing: Coroutine[Any, Any, None]) -> None:
        if self._unwritable is not None:
            writing.close()
            return
        try:
            await writing
        except OSError as error:
            self._unwritable = error

    def _status(self, error: Exception | None, signals: Signals) -> int:
        if signals.shutdown is not None and self._report is None:
            return 128 + signals.shutdown
        if self._unwritable is not None:
            return UNREAD if isinstance(self._unwritable, BrokenPipeError) else 1
        if self._report is not None:
            return STATUSES.get(self._report.status, 1)
        if isinstance(error, ExecutionAborted):
            return STOPPED
        return 2 if isinstance(error, InputValidationError) else 1

    def _said(self, error: Exception | None, status: int) -> str:
        if status in SHUTDOWNS:
            name = signal.Signals(status - 128).name
            return f"shut down by {name}; the run can go on" if self._begun else f"shut down by {name}"
        if self._unwritable is not None:
            said = f"the answer cannot be written ({self._unwritable.strerror or 'stdout is closed'})"
            return said if self._report is not None and self._report.status == "answered" else f"{said}; it was stopped"
        if status == 0:
            return ""
        if status == STOPPED:
            return "stopped"
        if error is not None:
            return self._sessions.by_name(problem(error))
        return "" if self._report is None else problem(AgentError(self._report.answer.err_message))

    def _hint(self, error: Exception | None) -> str:
        """How to go on with this run, where that is possible."""
        if isinstance(error, InputValidationError) or not self._begun:
            return ""
        again = ("--session", self._sessions.key, "--request-id", self._plan.run_id)
        if self._report is None:
            return f"go on with: {self._command(*again)}"
        if self._report.answer.turn_id is None or self._report.status == "answered":
            return ""
        return f"go on with this run: {self._command(*again, '--reopen')}"

    def _result(self, error: Exception | None, status: int) -> dict[str, Any]:
        out: dict[str, Any] = {"type": "result", "status": "failed", "text": "", "request_id": self._plan.run_id}
        if self._report is not None:
            answer = self._report.answer.to_dict()
            for name in ("status", "text", "turn_id", "usage", "reason"):
                out[name] = answer[name]
            out["detail"] = answer["err_message"] or None
            out["replayed"] = self._sessions.is_ended(self._plan.run_id)
            out["session"] = answer["session"]
            return out
        if error is not None:
            out |= {"reason": getattr(error, "code", "runtime_failure"), "detail": problem(error)}
        if status in SHUTDOWNS:
            out["status"] = "unfinished"
        out["session"] = self._sessions.names()
        return out


class BesideView:
    """An agent whose words are not the answer: its tools are told on stderr, under its name."""

    def __init__(self, node: str, notes: Notes, answer: TextView) -> None:
        self._node = node
        self._notes = notes
        self._answer = answer

    async def event(self, event: AgentStreamEvent) -> None:
        if event.type == "retry":
            await self._answer.aside()
            await self._notes.line(f"{self._notes.mark} {self._node}: trying again ({event.reason})")
        elif event.type == "tool" and event.phase == "end":
            await self._answer.aside()
            outcome = "failed" if event.is_error else "done"
            await self._notes.tool(f"{self._node}: {event.name}", "", outcome, is_error=bool(event.is_error))
