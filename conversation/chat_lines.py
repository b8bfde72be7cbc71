"""``chat`` without line editing: each line of stdin is a prompt or a command. The answers go to stdout, an empty line
between two, all else to stderr."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from agent_nodes._aio import AbortSignal, run_in_thread
from agent_nodes.errors import AgentError, ExecutionAborted, InputValidationError
from agent_nodes.messages import repair_text
from conversation import chat_commands
from conversation.chat_talk import LEAVING, Prompt, Talk
from conversation.opening import NO_KEY
from conversation.problems import give_up_stdout, problem, trace
from conversation.render import Notes, Output, TextView
from conversation.signals import STOPPED, UNREAD, Signals
from conversation.text import printable

if TYPE_CHECKING:
    from agent_nodes.events import AgentStreamEvent


class Lines:
    """The lines of stdin, one at a time. A read under way goes on when nobody waits for it any more."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._text = ""
        self._ended = sys.stdin is None  # pyright: ignore[reportUnnecessaryComparison]
        self._reading: asyncio.Future[bytes] | None = None

    async def next(self) -> str | None:
        """The next line without its end, None at the end of stdin."""
        while "\n" not in self._text and not self._ended:
            # Below sys.stdin: whoever waits in there holds a lock that the end of the program wants.
            self._reading = self._reading or run_in_thread(lambda: os.read(0, 65536))
            data = await asyncio.shield(self._reading)
            self._reading = None
            self._ended = not data
            self._text += self._decoder.decode(data, final=not data)
        line, _, self._text = self._text.partition("\n")
        return repair_text(line.removesuffix("\r")) if line or self._text or not self._ended else None


class Unwritable(Exception):
    """Stdout takes nothing more; its cause is the ``OSError``."""


class LineFace:
    """A conversation on three streams. Wrong usage ends it, another failure of a turn does not. Ctrl-C stops the turn
    and, unless the prompts are typed at a terminal, everything."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.queue: list[Prompt] = []
        self._out, self._err = Output(sys.stdout), Output(sys.stderr)
        self._notes = Notes(self._err, os.environ)
        self._signals = Signals(talk.opening.host, self._out, self._err)
        self._typed = sys.stdin is not None and sys.stdin.isatty()  # pyright: ignore[reportUnnecessaryComparison]
        self._lines = Lines()
        self._left = False
        self._answers = 0
        self._status = 0

    async def run(self) -> int:
        """The exit status: that of the last turn."""
        opening = self.talk.opening
        with self._signals:
            try:
                async with opening.host:
                    await self._introduce()
                    while not self._left and (line := await self._next()) is not None:
                        await self._take(line)
            except Exception as error:
                await self._fail(error)
            if self._signals.shutdown is not None:
                self._status = 128 + self._signals.shutdown
                await self._say(f"shut down by {signal.Signals(self._signals.shutdown).name}", style="31")
        return self._status

    async def _introduce(self) -> None:
        opening = self.talk.opening
        opening.check_model()
        if opening.given.session is None:
            await self._say(f"session {opening.key}; come back with: {self.talk.comeback()}")
        for note in (NO_KEY if opening.demo else "", opening.endpoint()):
            if note:
                await self._say(note)

    async def _next(self) -> str | None:
        """The next line; None at the end of stdin, and after a signal, which where it is typed at has to come twice."""
        signals = self._signals
        if self._typed:
            await self._err.write("> ")
        reading = asyncio.ensure_future(self._lines.next())
        while True:
            caught = asyncio.ensure_future(signals.caught.wait())
            await asyncio.wait([reading, caught], return_when=asyncio.FIRST_COMPLETED)
            caught.cancel()
            if not signals.caught.is_set():
                return reading.result()
            if signals.shutdown is not None or not self._typed:
                reading.cancel()
                self._status = STOPPED
                return None
            signals.caught.clear()
            await self._say(LEAVING)

    async def _take(self, line: str) -> None:
        command = chat_commands.parse(line)
        if command is not None:
            await chat_commands.run(self, *command)
        elif line.strip():
            await self.send(self.talk.prompt(chat_commands.prompt_of(line)))

    # -- what commands ask for -----------------------------------------------------------------------------------------

    async def say(self, text: str, *, whole: bool = False) -> None:
        await self._notes.line(text)

    async def send(self, prompt: Prompt) -> None:
        stop = self._signals.stop
        self._status = await self._turn(prompt, stop)
        if self._signals.shutdown is not None or (stop.is_set and not self._typed):
            self._left = True
        self._signals.renew()

    def leave(self) -> None:
        self._left = True

    # -- a turn --------------------------------------------------------------------------------------------------------

    async def _turn(self, prompt: Prompt, stop: AbortSignal) -> int:
        view = TextView(self._out, self._notes)
        view.model = self.talk.model[1]

        async def show(event: AgentStreamEvent) -> None:
            await _written(view.event(event))

        try:
            if prompt.text is not None:
                await self._finish_older(prompt.text, stop)
            if self._answers:
                await _written(self._out.write("\n"))
            self._answers += 1
            await view.wait()
            result = await self.talk.turn(prompt, stop, show)
        except InputValidationError:
            raise
        except AgentError as error:
            await _written(view.end())
            return await self._failed(error)
        await _written(view.end())
        if self.talk.thinking and self.talk.thoughts:
            await self.say(printable(self.talk.thoughts).strip())
        await view.usage(result.usage, self.talk.context(), replayed=result.replayed, session=self.talk.opening.key)
        return 0

    async def _finish_older(self, prompt: str, stop: AbortSignal) -> None:
        """Turns that were cut off end first; what they say is in the session."""
        for turn in await self.talk.unfinished(prompt):
            await self._say("an earlier turn of this session was cut off; it is finished first")
            await self._notes.status("finishing an earlier turn")
            failed = await self.talk.finish(turn, stop, _ignore)
            await self._say(f"it failed: {failed}" if failed else f"it is answered; to read it: {self._shown()}")

    async def _failed(self, error: AgentError) -> int:
        trace(error)
        if self._signals.shutdown is not None:
            await self._say(f"the turn can go on; come back with: {self.talk.comeback()}")
            return 1
        stopped = isinstance(error, ExecutionAborted)
        await self._say("stopped" if stopped else problem(error), style="31")
        again = self.talk.opening.again("ask", "--reopen", **self.talk.flags)
        await self._say(f"go on with this turn: {'/retry' if self._typed else again}", style="")
        return STOPPED if stopped else 1

    async def _fail(self, error: Exception) -> None:
        """What ends the conversation."""
        trace(error)
        cause = error.__cause__
        if isinstance(error, Unwritable) and isinstance(cause, OSError):
            give_up_stdout()
            self._status = UNREAD if isinstance(cause, BrokenPipeError) else 1
            await self._say(
                f"the answer cannot be written ({cause.strerror or 'stdout is closed'}); the turn was stopped"
            )
            return
        self._status = 2 if isinstance(error, InputValidationError) else 1
        await self._say(self.talk.opening.problem(error), style="31")

    async def _say(self, text: str, *, style: str = "2") -> None:
        await self._notes.line(f"agent-nodes: {text}", style=style)

    def _shown(self) -> str:
        return self.talk.opening.shown()


async def _written(writing: Coroutine[Any, Any, None]) -> None:
    try:
        await writing
    except OSError as error:
        raise Unwritable from error


async def _ignore(event: AgentStreamEvent) -> None:
    """A turn that nobody watches."""
