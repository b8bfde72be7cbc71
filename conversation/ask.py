"""``agent-nodes ask``: one turn on the command line, from the first byte of the prompt to the exit status."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Self

from agent_nodes._aio import AbortSignal
from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.errors import AgentError, ExecutionAborted, InputValidationError, RequestConflict, SessionBusy
from agent_nodes.messages import repair_text
from agent_nodes.store.locate import check_folder, is_file, session_file
from agent_nodes.submission import Submission, submission_of
from conversation.host import PROJECT, SESSION_KEY, ConversationHost, ConversationRun, named_session
from conversation.problems import KEY_VARIABLES, OPTIONS, command, give_up_stdout, problem, trace
from conversation.render import JsonView, Notes, Output, TextView

if TYPE_CHECKING:
    from types import FrameType

# In this order: with both keys the first one's provider answers.
KEYS: dict[str, str] = dict(zip(("anthropic", "openai"), KEY_VARIABLES, strict=True))
DEMO = "demo"

STOPPED, UNREAD = 130, 141
SHUTDOWNS = (143, 129)  # by SIGTERM and SIGHUP


def ask(given: Namespace) -> int:
    """Run the command; its exit status. Raises what went wrong before there was a session."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise BrokenPipeError
    return asyncio.run(_prepare(given).run())


def _prepare(given: Namespace) -> _Turn:
    if given.session is not None and not given.session.strip():
        raise InputValidationError("--session: empty; give the key of a session.", field="session")
    prompt = read_prompt(given.prompt)
    if given.session is None and (given.project is not None or given.session_key is not None):
        raise InputValidationError("--project and --session-key need the --session they belong to.", field="session")
    ref = named_session(_new_key() if given.session is None else given.session, given.session_key, given.project)
    options = _options(given)
    demo = options["provider"] is None
    if demo:
        options["provider"] = _provider(options, os.environ)
        demo = options["provider"] == DEMO
    _check_own(options)
    host = ConversationHost(ref.project, ref.conversation_id, ref.session_key, options=options)
    if not is_file(host.path):
        _check_new(given, prompt)
    if prompt is not None or given.request_id is not None:
        submission_of(Submission(prompt, given.request_id))
    return _Turn(given, host, prompt, demo=demo)


def _check_new(given: Namespace, prompt: str | None) -> None:
    """What a session that is still to be made needs; without that none is made."""
    check_folder()
    if prompt is not None and not given.reopen:
        return
    unknown = f"there is no session {given.session!r} to go on with"
    if given.reopen:
        what = "say which session with --session KEY" if given.session is None else unknown
        raise InputValidationError(f"--reopen: {what}.", field="reopen")
    raise InputValidationError(
        f"prompt: {'missing' if given.session is None else unknown}. Give it as words, or pipe it in: "
        f"echo hello | {command('ask')}",
        field="prompt",
    )


# -- what was given ----------------------------------------------------------------------------------------------------


def read_prompt(words: list[str]) -> str | None:
    """The words as one text; a last word ``-``, or no words and a stdin that is no terminal, mean what stdin holds."""
    piped = words[-1:] == ["-"] or (not words and sys.stdin is not None and not sys.stdin.isatty())
    parts = [" ".join(words[:-1] if words[-1:] == ["-"] else words)]
    if piped:
        parts.append(_stdin())
    text = "\n\n".join(part for part in parts if part.strip())
    return repair_text(text) or None


def _stdin() -> str:
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
        return ""
    data = sys.stdin.buffer.read()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode(sys.stdin.encoding, "replace")
    return text.replace("\r\n", "\n").rstrip("\n")


def _options(given: Namespace) -> dict[str, Any]:
    values = vars(given)
    return {name: values[name] for name in OPTIONS if values.get(name) is not None or name == "provider"}


def _provider(options: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Who answers when nobody was named. Never a guess that sends a key to an address it is not for."""
    if options.get("base_url"):
        raise InputValidationError(
            "--base-url: name the provider too: --provider anthropic, --provider openai, or a name of your own for a "
            "server that needs no key.",
            field="provider",
        )
    for provider, variable in KEYS.items():
        if environ.get(variable, "").strip():
            return provider
    model = options.get("model")
    if model is not None and not model.startswith(DEMO):
        raise InputValidationError(
            f"No key for the model {model!r}: set {' or '.join(KEYS.values())}, or name a --provider.",
            field="provider",
        )
    return DEMO


def _check_own(options: Mapping[str, Any]) -> None:
    """A server of one's own has no defaults: all that is missing is said at once."""
    if options["provider"] in (*KEYS, DEMO):
        return
    needs = {"base_url": "--base-url URL", "model": "-m MODEL"}
    missing = [flag for name, flag in needs.items() if not options.get(name)]
    if missing:
        raise InputValidationError(
            f"--provider: {options['provider']!r} is none of {', '.join((*KEYS, DEMO))}; for a server of your own give "
            f"{' and '.join(missing)} too.",
            field="provider",
        )


def _new_key() -> str:
    while True:
        key = SYSTEM_CLOCK.new_id()[:8]
        if not is_file(session_file(PROJECT, key, SESSION_KEY)):
            return key


# -- the turn ----------------------------------------------------------------------------------------------------------


class _Turn:
    def __init__(self, given: Namespace, host: ConversationHost, prompt: str | None, *, demo: bool) -> None:
        self._given = given
        self._host = host
        self._prompt = prompt
        self._demo = demo
        self._key = given.session if given.session is not None else host.session.conversation_id
        self._run: ConversationRun | None = None
        self._unwritable: OSError | None = None

    async def run(self) -> int:
        out, err = Output(sys.stdout), Output(sys.stderr)
        notes = Notes(err, os.environ)
        json_view = JsonView(out) if self._given.json else None
        error: Exception | None = None
        with _Signals(self._host, out, err) as signals:
            view = TextView(out, notes)
            try:
                async with self._host:
                    view.model = self._host.model[1]
                    await self._introduce(notes)
                    await self._finish_older(signals.stop, notes)
                    await self._answer(signals.stop, notes, json_view or view)
                    await self._close(view, notes, json_view)
            except Exception as raised:
                error = raised
            status = self._status(error, signals)
            await self._report(error, status, notes, view, json_view)
        if self._unwritable is not None:
            give_up_stdout()
        return status

    async def _introduce(self, notes: Notes) -> None:
        last = self._host.last_model
        if self._demo and last is not None and last[0] != DEMO:
            variable = KEYS.get(last[0])
            need = f"set {variable}" if variable else "give the --provider and --base-url it was used with"
            raise InputValidationError(
                f"The session {self._key!r} is with {last[0]} ({last[1]}): {need}, or choose --provider {DEMO}.",
                field="provider",
            )
        if self._given.session is None:
            await notes.line(f"agent-nodes: session {self._key}; go on with: {self._again()} {notes.blank}")
        if self._demo:
            keys = " or ".join(KEYS.values())
            await notes.line(f"agent-nodes: no key is set ({keys}); the demo answers, a script and no language model")

    async def _finish_older(self, stop: AbortSignal, notes: Notes) -> None:
        """A turn that was cut off goes first, unless it is the one that is meant. Its end, good or bad, is stored."""
        if self._prompt is None or self._given.request_id is not None:
            return
        for turn in await self._host.unfinished():
            if turn.prompt == self._prompt:
                return
            await notes.line("agent-nodes: an earlier turn of this session was cut off; it is finished first")
            ended = f"it is answered; to read it: {self._shown()}"
            await notes.status("finishing an earlier turn")
            run = self._run = await self._host.start({"request_id": turn.request_id}, {"abort_signal": stop})
            try:
                async for _ in run.events():
                    pass
            except AgentError as error:
                if run.result is None or stop.is_set:
                    raise
                ended = f"it failed: {problem(error)}"
            await notes.line(f"agent-nodes: {ended}")
            self._run = None

    async def _answer(self, stop: AbortSignal, notes: Notes, view: TextView | JsonView) -> None:
        given = self._given
        fields = {"prompt": self._prompt, "request_id": given.request_id, "reopen": given.reopen}
        run = self._run = await self._host.start(fields, {"abort_signal": stop})
        if run.resumed and not given.reopen:
            await notes.line("agent-nodes: going on with the turn that was cut off")
        if isinstance(view, TextView):
            view.resumed = run.resumed and not given.reopen
            await view.wait()
        async for event in run.events():
            if self._unwritable is not None:
                continue
            try:
                await view.event(event)
            except OSError as error:
                self._unwritable = error
                run.stop("Its reader went away.")

    async def _close(self, view: TextView, notes: Notes, json_view: JsonView | None) -> None:
        run = self._run
        if run is None or run.result is None:
            return
        if json_view is None:
            await self._written(view.end())
        result = run.result
        if result.replayed:
            await notes.line("agent-nodes: (this turn had ended before; its stored answer)")
        if json_view is not None:
            return
        await view.usage(result.usage, self._host.context_usage(), replayed=result.replayed, session=self._key)

    async def _report(
        self, error: Exception | None, status: int, notes: Notes, view: TextView, json_view: JsonView | None
    ) -> None:
        """The last lines: what went wrong and how to go on, and for programs the result."""
        if json_view is None and error is not None:
            await self._written(view.end())
        if error is not None:
            trace(error)
        if error is not None or self._unwritable is not None:
            await notes.line(f"agent-nodes: {self._said(error, status)}", style="31")
            hint = self._hint(error)
            if hint:
                await notes.line(f"agent-nodes: {hint}", style="")
        if json_view is not None:
            await self._written(json_view.line(self._result(error, status)))

    async def _written(self, writing: Coroutine[Any, Any, None]) -> None:
        if self._unwritable is not None:
            writing.close()
            return
        try:
            await writing
        except OSError as error:
            self._unwritable = error

    # -- how it ended --------------------------------------------------------------------------------------------------

    def _status(self, error: Exception | None, signals: _Signals) -> int:
        if signals.shutdown is not None and error is not None:
            return 128 + signals.shutdown
        if self._unwritable is not None:
            return UNREAD if isinstance(self._unwritable, BrokenPipeError) else 1
        if error is None:
            return 0
        if isinstance(error, ExecutionAborted):
            return STOPPED
        return 2 if isinstance(error, InputValidationError) else 1

    def _said(self, error: Exception | None, status: int) -> str:
        if status in SHUTDOWNS:
            said = f"shut down by {signal.Signals(status - 128).name}"
            return said if self._run is None else f"{said}; the turn can go on"
        if self._unwritable is not None:
            said = f"the answer cannot be written ({self._unwritable.strerror or 'stdout is closed'})"
            return said if error is None else f"{said}; the turn was stopped"
        if status == STOPPED and self._run is not None and self._run.result is not None:
            return "stopped"
        if isinstance(error, SessionBusy):
            return problem(error).replace(f"session {self._host.path}", f"session {self._key!r}")
        return problem(error) if error is not None else ""

    def _hint(self, error: Exception | None) -> str:
        """How to go on with this turn, where that is possible."""
        if self._run is None or isinstance(error, (InputValidationError, RequestConflict)):
            return ""
        if error is None:
            return f"it is kept: {self._shown()}"
        result = self._run.result
        if result is None:
            return f"go on with: {self._again()}"
        if result.turn_id is None:
            return ""
        return f"go on with this turn: {self._again('--reopen')}"

    def _shown(self) -> str:
        return command("sessions", "show", self._key, *self._where())

    def _where(self) -> list[str]:
        """Which of several sessions of that name."""
        names = {"--project": self._given.project, "--session-key": self._given.session_key}
        return [word for flag, name in names.items() if name is not None for word in (flag, name)]

    def _again(self, *more: str) -> str:
        values = vars(self._given)
        words = ["--session", self._key, *self._where()]
        for name, flag in OPTIONS.items():
            value = values.get(name)
            if isinstance(value, list):
                words += [word for item in value for word in (flag, str(item))]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            elif value is not None:
                words += [flag, str(value)]
        return command("ask", *words, *more)

    def _result(self, error: Exception | None, status: int) -> dict[str, Any]:
        run = self._run
        result = run.result if run is not None else None
        out: dict[str, Any] = {"type": "result", "status": "failed", "text": ""}
        out["request_id"] = run.request_id if run is not None else self._given.request_id
        if result is not None:
            out |= {
                "status": result.status,
                "text": result.text,
                "turn_id": result.turn_id,
                "usage": result.usage.to_dict(),
                "reason": result.reason,
                "detail": result.detail,
                "replayed": result.replayed,
            }
        elif error is not None:
            out |= {"reason": getattr(error, "code", "runtime_failure"), "detail": problem(error)}
            if status in SHUTDOWNS:
                out["status"] = "unfinished"
        ref = self._host.session
        names = {"project": ref.project, "conversation_id": ref.conversation_id, "session_key": ref.session_key}
        out["session"] = names if is_file(self._host.path) else None
        return out


class _Signals:
    """Ctrl-C is a stop, SIGTERM and SIGHUP (the terminal is gone) a shutdown; the same one again ends the program at
    once, with whatever its tools have started. A signal that was ignored when the program began stays ignored."""

    def __init__(self, host: ConversationHost, *outputs: Output) -> None:
        self.stop = AbortSignal()
        self.shutdown: int | None = None
        self._host = host
        self._outputs = outputs
        self._loop = asyncio.get_running_loop()
        self._seen: set[int] = set()
        self._before: dict[int, Any] = {}
        self._closing: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._caught)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        if number in self._seen:
            self._host.kill_tools()
            os._exit(128 + number)
        self._seen.add(number)
        act: Callable[[], None] = self._stop if number == signal.SIGINT else lambda: self._shut_down(number)
        self._loop.call_soon_threadsafe(act)

    def _stop(self) -> None:
        self._release()
        self.stop.set("Stopped by Ctrl-C.")

    def _shut_down(self, number: int) -> None:
        self._release()
        self.shutdown = number
        self._closing = asyncio.ensure_future(self._host.close())

    def _release(self) -> None:
        """A reader that takes nothing must not hold up the end."""
        for output in self._outputs:
            output.release()
