"""``agent-nodes ask``: one turn on the command line, from the first byte of the prompt to the exit status."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Coroutine
from typing import Any

from agent_nodes._aio import AbortSignal
from agent_nodes.errors import AgentError, ExecutionAborted, InputValidationError, RequestConflict
from agent_nodes.messages import repair_text
from agent_nodes.store.locate import check_folder, is_file
from agent_nodes.submission import Submission, submission_of
from conversation.host import ConversationRun
from conversation.opening import NO_KEY, Opening, check_names, opening_of
from conversation.problems import command, give_up_stdout, problem, trace
from conversation.render import JsonView, Notes, Output, TextView
from conversation.signals import SHUTDOWNS, STOPPED, UNREAD, Signals


def ask(given: Namespace) -> int:
    """Run the command; its exit status. Raises what went wrong before there was a session."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise BrokenPipeError
    return asyncio.run(_prepare(given).run())


def _prepare(given: Namespace) -> _Turn:
    check_names(given)
    prompt = read_prompt(given.prompt)
    opening = opening_of(given)
    if not is_file(opening.host.path):
        _check_new(given, prompt)
    if prompt is not None or given.request_id is not None:
        submission_of(Submission(prompt, given.request_id))
    return _Turn(opening, prompt)


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


# -- the turn ----------------------------------------------------------------------------------------------------------


class _Turn:
    def __init__(self, opening: Opening, prompt: str | None) -> None:
        self._opening = opening
        self._given = opening.given
        self._host = opening.host
        self._prompt = prompt
        self._run: ConversationRun | None = None
        self._unwritable: OSError | None = None

    async def run(self) -> int:
        out, err = Output(sys.stdout), Output(sys.stderr)
        notes = Notes(err, os.environ)
        json_view = JsonView(out) if self._given.json else None
        error: Exception | None = None
        with Signals(self._host, out, err) as signals:
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
        opening = self._opening
        opening.check_model()
        if self._given.session is None:
            again = opening.again("ask")
            await notes.line(f"agent-nodes: session {opening.key}; go on with: {again} {notes.blank}")
        if opening.demo:
            await notes.line(f"agent-nodes: {NO_KEY}")
        if opening.endpoint():
            await notes.line(f"agent-nodes: {opening.endpoint()}")

    async def _finish_older(self, stop: AbortSignal, notes: Notes) -> None:
        """A turn that was cut off goes first, unless it is the one that is meant. Its end, good or bad, is stored."""
        if self._prompt is None or self._given.request_id is not None:
            return
        for turn in await self._host.unfinished():
            if turn.prompt == self._prompt:
                return
            await notes.line("agent-nodes: an earlier turn of this session was cut off; it is finished first")
            ended = f"it is answered; to read it: {self._opening.shown()}"
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
        await view.usage(result.usage, self._host.context_usage(), replayed=result.replayed, session=self._opening.key)

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

    def _status(self, error: Exception | None, signals: Signals) -> int:
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
        return self._opening.problem(error) if error is not None else ""

    def _hint(self, error: Exception | None) -> str:
        """How to go on with this turn, where that is possible."""
        if self._run is None or isinstance(error, (InputValidationError, RequestConflict)):
            return ""
        if error is None:
            return f"it is kept: {self._opening.shown()}"
        result = self._run.result
        if result is None:
            return f"go on with: {self._opening.again('ask')}"
        if result.turn_id is None:
            return ""
        return f"go on with this turn: {self._opening.again('ask', '--reopen')}"

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
