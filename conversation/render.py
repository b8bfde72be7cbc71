"""What a turn looks like on a terminal, in a pipe and as lines of JSON.

The answer goes to stdout, all else to stderr. What a terminal shows beyond a pipe: dim notes, and one line that says
what is being waited for, wiped as soon as there is something to show.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from conversation.text import (
    call_line,
    fit,
    main_argument,
    outcome_text,
    printable,
    retry_text,
    shortened,
    usage_parts,
)

if TYPE_CHECKING:
    from agent_nodes.events import AgentStreamEvent, ToolEvent
    from agent_nodes.messages import JsonObject, Usage
    from agent_nodes.runtime import ContextUsage

PIPE_COLUMNS = 100
LEAST_COLUMNS = 20


class Output:
    """A stream written to at once, without blocking the event loop while its reader is slow.

    Nothing is left in a buffer, so the process may end at any moment.
    """

    def __init__(self, stream: TextIO) -> None:
        stream.flush()
        self.tty = stream.isatty()
        self.unicode = (stream.encoding or "").lower().replace("-", "") == "utf8"
        self._stream = stream
        self._released = False
        self._wake = asyncio.Event()
        self._fd = -1
        self._poll: Any = None
        # A Windows console takes text, not bytes; a stream without a file has none to wait for.
        if os.name != "nt":
            with suppress(OSError, ValueError):
                self._fd = stream.fileno()
                import select

                self._poll = select.poll()
                self._poll.register(self._fd, select.POLLOUT)

    async def write(self, text: str) -> None:
        """Write all of ``text``. Raises ``OSError``, of a closed pipe ``BrokenPipeError``."""
        if self._poll is None:
            self._stream.write(text)
            self._stream.flush()
            return
        import select

        data = memoryview(text.encode(self._stream.encoding or "utf-8", self._stream.errors or "replace"))
        while data:
            if self._poll.poll(0):
                with suppress(BlockingIOError):  # somebody else filled it
                    # As much as never blocks once the pipe was said to be ready.
                    data = data[os.write(self._fd, data[: select.PIPE_BUF]) :]
                    continue
            if self._released:
                return
            await self._writable()

    def release(self) -> None:
        """Wait for the reader no more: what it does not take at once is dropped from now on."""
        self._released = True
        self._wake.set()

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        self._wake.clear()
        loop.add_writer(self._fd, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            loop.remove_writer(self._fd)


class Notes:
    """Lines on stderr. That nobody can read them any more is no failure of the turn."""

    def __init__(self, err: Output, environ: Mapping[str, str]) -> None:
        self._err = err
        known_terminal = environ.get("TERM", "") != "dumb" and (os.name != "nt" or "WT_SESSION" in environ)
        self.terminal = err.tty and known_terminal
        self._colour = self.terminal and not environ.get("NO_COLOR")
        self._columns = environ.get("COLUMNS", "")
        self._status = ""

    @property
    def columns(self) -> int:
        if self._columns.isdigit() and int(self._columns) > 0:
            return max(LEAST_COLUMNS, int(self._columns))
        if not self._err.tty:
            return PIPE_COLUMNS
        with suppress(OSError):
            columns = os.get_terminal_size(2).columns
            return max(LEAST_COLUMNS, columns) if columns else 80
        return 80

    @property
    def mark(self) -> str:
        return "·" if self._err.unicode else "-"

    @property
    def blank(self) -> str:
        """In a command, the place of the prompt."""
        return '"…"' if self._err.unicode else '"..."'

    async def line(self, text: str, *, style: str = "2") -> None:
        """One line; ``style`` is a code of the terminal: 2 dim, 31 red."""
        with suppress(OSError):
            await self.wipe()
            await self._err.write(f"\x1b[{style}m{text}\x1b[0m\n" if self._colour and style else f"{text}\n")

    async def status(self, text: str) -> None:
        """Say what is being waited for, on a terminal alone."""
        if not self.terminal or text == self._status:
            return
        shown = fit(f"{self.mark} {text}", self.columns - 1, unicode=self._err.unicode)
        with suppress(OSError):
            await self.wipe()
            await self._err.write(f"\x1b[2m{shown}\x1b[0m" if self._colour else shown)
            self._status = text

    async def wipe(self) -> None:
        if self._status:
            self._status = ""
            await self._err.write("\r\x1b[K")

    async def tool(self, name: str, argument: str, outcome: str, *, is_error: bool) -> None:
        """One line for a call."""
        head = f"{self.mark} {name}"
        line = call_line(head, argument, outcome, columns=self.columns, unicode=self._err.unicode)
        await self.line(line, style="31" if is_error else "2")


class TextView:
    """A turn for people. In a pipe or a file stands exactly the text of the turn's result, and a line's end."""

    def __init__(self, out: Output, notes: Notes) -> None:
        self.model = "the model"
        self.resumed = False  # it was said already that the turn goes on where it was cut off
        self._out = out
        self._notes = notes
        self._said = False
        self._broken = False  # a round of tools came after text: the next text is a new paragraph
        self._at_start = True  # of a line of stdout
        self._held = 0  # ends of lines that a terminal gets only when more of the paragraph follows
        self._running: dict[str, tuple[str, str]] = {}

    async def wait(self) -> None:
        """Nothing has come yet."""
        await self._status(f"waiting for {self.model}")

    async def event(self, event: AgentStreamEvent) -> None:
        match event.type:
            case "text_delta":
                await self._text(event.delta)
            case "thinking_delta":
                await self._status("thinking")
            case "tool":
                await self._tool(event)
            case "retry":
                if event.kind == "recovery" and self.resumed:
                    return  # said already, and a sentence may be going on
                await self.aside()
                await self._notes.line(f"{self._notes.mark} {retry_text(event)}")
                await self.wait()
            case "context_usage":
                pass

    async def end(self) -> None:
        """The turn has ended, one way or other."""
        await self._notes.wipe()
        await self._end_line()

    async def usage(self, usage: Usage, context: ContextUsage | None, *, replayed: bool, session: str) -> None:
        """What the turn took, for somebody at a terminal."""
        if not self._notes.terminal:
            return
        parts = [*usage_parts(usage, replayed=replayed, context=context), f"session {session}"]
        await self._notes.line(f" {self._notes.mark} ".join(parts))

    # -- pieces --------------------------------------------------------------------------------------------------------

    async def _text(self, delta: str) -> None:
        await self._notes.wipe()
        if self._out.tty:
            delta = self._for_terminal(delta)
        elif self._broken:
            delta = "\n" + delta
        if delta:
            self._broken = False
            self._said = True
            self._at_start = delta.endswith("\n")
            await self._out.write(delta)

    def _for_terminal(self, delta: str) -> str:
        """A terminal obeys control characters, and the text is a stranger's. Blank lines stand only between lines."""
        delta = printable(delta)
        body = delta.rstrip("\n")
        if not body:
            self._held += len(delta)
            return ""
        if self._broken or not self._said:
            body = ("\n" if self._broken else "") + body.lstrip("\n")
        else:
            body = "\n" * self._held + body
        self._held = len(delta) - len(delta.rstrip("\n"))
        return body

    async def aside(self) -> None:
        """Before a line about something else: the text so far is a paragraph that has ended."""
        await self._notes.wipe()
        if self._out.tty:
            await self._end_line()

    async def _end_line(self) -> None:
        if not self._at_start:
            self._at_start = True
            await self._out.write("\n")

    async def _status(self, text: str) -> None:
        if self._at_start or not self._out.tty:
            await self._notes.status(text)

    async def _tool(self, event: ToolEvent) -> None:
        if event.phase == "update":
            return
        if self._said and not self._broken:
            self._broken, self._at_start, self._held = True, True, 0
            await self._notes.wipe()
            await self._out.write("\n")
        if event.phase == "start":
            self._running[event.tool_call_id] = (event.name, shortened(main_argument(event.arguments or {})))
        else:
            name, argument = self._running.pop(event.tool_call_id, (event.name, ""))
            await self._notes.tool(name, argument, outcome_text(event), is_error=bool(event.is_error))
        if self._running:
            name, argument = next(reversed(self._running.values()))
            await self._status(f"{name} {argument}")
        else:
            await self.wait()


class JsonView:
    """A turn for programs: each event is a line of stdout, the result the last one."""

    def __init__(self, out: Output) -> None:
        self._out = out

    async def event(self, event: AgentStreamEvent) -> None:
        await self.line(event.to_dict())

    async def line(self, data: JsonObject) -> None:
        text = json.dumps(data, ensure_ascii=not self._out.unicode, separators=(",", ":"))
        # Half a surrogate pair has no bytes; escaped it is still JSON.
        await self._out.write((text if text.isascii() or not _SURROGATE.search(text) else json.dumps(data)) + "\n")


_SURROGATE = re.compile("[\ud800-\udfff]")
