"""``chat`` at a terminal: what is typed becomes turns, one after the other, while the line to type on stays."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent_nodes._aio import AbortSignal
from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.errors import AgentError, ExecutionAborted, InputValidationError
from conversation import chat_commands
from conversation.chat_greeting import greet, part
from conversation.chat_history import ChatHistory, history_file
from conversation.chat_screen import Screen
from conversation.chat_talk import LEAVING, Prompt, Talk
from conversation.chat_tty import Tty
from conversation.chat_view import DIM, RED, TurnView
from conversation.problems import give_up_stdout, problem, trace_text
from conversation.signals import STOPPED, Signals
from conversation.text import fit, one_line, usage_parts

if TYPE_CHECKING:
    from agent_nodes.runtime import AgentRunResult
    from agent_nodes.store.inspect import TurnView as StoredTurn

AGAIN = 2.0  # seconds in which a second Ctrl-C leaves
SHOWN_QUEUE = 3  # prompts


class TerminalFace:
    """A conversation at a terminal. Prompts are sent in the order in which they were typed; after a turn that was
    stopped or has failed the others wait until something is typed again."""

    def __init__(self, talk: Talk, tty: Tty, environ: Mapping[str, str]) -> None:
        self.talk = talk
        self.queue: list[Prompt] = []
        self._clock = SYSTEM_CLOCK
        self._screen = Screen(
            environ,
            live=self._live,
            submit=self._typed,
            interrupt=self._interrupt,
            leave=self.leave,
            choices=lambda before: chat_commands.choices(talk, before),
            history=ChatHistory(history_file()),
        )
        self._view = TurnView(self._screen, talk, self._clock)
        self._signals = Signals(talk.opening.host, interrupt=self._interrupt, closing=self.leave, last=tty.restore)
        self._commands: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._wake = asyncio.Event()
        self._stop: AbortSignal | None = None  # of the turn that runs
        self._offered = False  # a turn that was cut off: Enter alone goes on with it
        self._armed = -AGAIN  # when a Ctrl-C was caught that leaves if it comes again
        self._left = False
        self._cut_off = False
        self._status = 0

    async def run(self) -> int:
        """The exit status."""
        with self._signals:
            try:
                async with self.talk.opening.host:
                    self.talk.opening.check_model()
                    self._offered = await greet(self.talk, self._view, self._screen.mark)
                    await self._hold()
            except Exception as error:
                self._trace(error)
                self._view.note(f"agent-nodes: {self.talk.opening.problem(error)}", RED)
                self._status = 2 if isinstance(error, InputValidationError) else 1
            shutdown = self._signals.shutdown
            part(self.talk, self._view, shutdown=shutdown, unsent=len(self.queue), cut_off=self._cut_off)
        if self._screen.gone:
            give_up_stdout()
        return self._status if shutdown is None else 128 + shutdown

    async def _hold(self) -> None:
        """Until somebody leaves."""
        if self._left:
            return
        tasks = [asyncio.ensure_future(work) for work in (self._screen.run(), self._obey(), self._work())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.leave()
            if self._cut_off:
                self._view.note("one moment, what runs is ended")
            for task in tasks[1:]:
                task.cancel()
            await asyncio.wait(tasks)
        for task in done:
            task.result()

    # -- what is typed -------------------------------------------------------------------------------------------------

    def _typed(self, text: str) -> None:
        command = chat_commands.parse(text)
        if command is not None:
            self._commands.put_nowait(command)
        elif text.strip():
            self.queue.append(self.talk.prompt(chat_commands.prompt_of(text)))
            self._wake.set()
        else:
            if self._offered and self._stop is None:
                self.queue.insert(0, Prompt(None))
            self._wake.set()
        self._armed = -AGAIN
        self._screen.refresh()

    def _interrupt(self) -> None:
        """Ctrl-C: stops the turn; where none runs, takes back what was typed or waits; where that is nothing, leaves if
        it comes again soon."""
        if self._left or (self._stop is not None and self._stop.is_set):
            self._signals.end_at_once(signal.SIGINT)
        again = self._clock.monotonic() - self._armed < AGAIN
        if self._stop is not None:
            self._arm()
            self._stop.set("Stopped by Ctrl-C.")
            self._view.stopping()
            return
        self._signals.renew()
        if again and not self.queue:
            self._status = STOPPED
            self.leave()
        elif self._screen.typed:
            self._screen.clear_typed()
        elif self.queue:
            self._view.note(f"taken back; Up finds {'it' if len(self.queue) == 1 else 'them'} again")
            self.queue.clear()
        else:
            self._arm()

    def _arm(self) -> None:
        self._armed = self._clock.monotonic()
        self._clock.call_later(AGAIN, self._screen.refresh)
        self._screen.refresh()

    # -- what commands ask for -----------------------------------------------------------------------------------------

    async def say(self, text: str, *, whole: bool = False) -> None:
        self._view.note(text, whole=whole)

    async def send(self, prompt: Prompt) -> None:
        self.queue.insert(0, prompt)  # what is retried is the last turn, and not one that waits
        self._wake.set()

    def leave(self) -> None:
        if not self._left:
            self._left = True
            self._cut_off = self._stop is not None
        self._screen.close()

    async def _obey(self) -> None:
        while True:
            name, rest = await self._commands.get()
            self._view.prompt(f"/{name} {rest}".rstrip(), self._screen.mark)
            try:
                await chat_commands.run(self, name, rest)
            except AgentError as error:
                self._view.note(problem(error), RED)
            self._screen.refresh()

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self.queue:
                if not await self._turn(self.queue.pop(0)):
                    self._wake.clear()
                    break

    async def _turn(self, prompt: Prompt) -> bool:
        """Whether it is answered. A prompt that no turn was made of waits again."""
        stop = self._stop = AbortSignal()
        ticking = asyncio.ensure_future(self._tick())
        self._offered = False
        view, talk = self._view, self.talk
        begun = False
        try:
            older = await talk.unfinished(prompt.text)
            if prompt.text is not None:
                for turn in older:
                    await self._finish(turn, stop)
                view.prompt(prompt.text, self._screen.mark)
            elif older and not prompt.reopen:
                view.prompt(older[0].prompt, self._screen.mark)
            view.begin()
            begun = True
            result = await talk.turn(prompt, stop, view.event)
        except Exception as error:
            view.end()
            made = begun and talk.admitted and not isinstance(error, InputValidationError)
            if not made and prompt.text is not None:
                self.queue.insert(0, prompt)
            self._failed(error, made=made)
            return False
        else:
            view.end()
            self._took(result)
            return True
        finally:
            ticking.cancel()
            view.end()  # also where somebody leaves: what was said stays on the screen
            self._stop = None
            self._signals.renew()
            self._screen.refresh()

    async def _finish(self, older: StoredTurn, stop: AbortSignal) -> None:
        """A turn that was cut off goes first."""
        view = self._view
        view.note("a turn that was cut off goes on first")
        view.prompt(older.prompt, self._screen.mark)
        view.begin()
        failed = await self.talk.finish(older, stop, view.event)
        view.end()
        if failed:
            view.note(failed, RED)

    def _took(self, result: AgentRunResult) -> None:
        talk = self.talk
        parts = usage_parts(
            result.usage, replayed=result.replayed, cost=talk.cost(result.request_id), context=talk.context()
        )
        self._view.note(f" {self._view.mark} ".join(parts))

    def _failed(self, error: Exception, *, made: bool) -> None:
        if self._left:
            return
        self._trace(error)
        stopped = isinstance(error, ExecutionAborted)
        self._view.note("stopped" if stopped else self.talk.opening.problem(error), RED)
        if made:
            self._view.note("/retry goes on with this turn", "")

    def _trace(self, error: Exception) -> None:
        text = trace_text(error)
        if text:
            self._view.note(text.rstrip(), whole=True)

    async def _tick(self) -> None:
        """The seconds that are shown go on."""
        while True:
            await self._clock.sleep(1)
            self._screen.refresh()

    # -- lines that change ---------------------------------------------------------------------------------------------

    def _live(self, columns: int, rows: int) -> list[str]:
        waiting = [one_line(prompt.text or "/retry") for prompt in self.queue]
        below = [f"queued: {text}" for text in waiting[:SHOWN_QUEUE]]
        if len(waiting) > SHOWN_QUEUE:
            below.append(f"and {len(waiting) - SHOWN_QUEUE} more; /queue lists them")
        if waiting and self._stop is None:
            below.append("not sent; Enter sends, Ctrl-C takes back")
        below += [f"with the next prompt: {one_line(picture.path)}" for picture in self.talk.pictures]
        if self._clock.monotonic() - self._armed < AGAIN and self._stop is None and not waiting:
            below.append(LEAVING)
        unicode = self._screen.unicode
        below = [self._view.paint(fit(line, columns - 1, unicode=unicode), DIM) for line in below]
        return ["", *self._view.live(columns, rows - len(below)), *below]
