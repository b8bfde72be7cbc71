"""What a turn looks like on a terminal, in a pipe and as lines of JSON.

The answer goes to stdout, all else to stderr. What a terminal shows beyond a pipe: dim notes, and one line that says
what is being waited for, wiped as soon as there is something to show.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from agent_nodes.events import AgentStreamEvent, RetryEvent, ToolEvent
    from agent_nodes.messages import JsonObject, Usage
    from agent_nodes.runtime import ContextUsage

PIPE_COLUMNS = 100
LEAST_COLUMNS = 20

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_MAIN_ARGUMENTS = ("command", "path", "pattern", "query", "url", "name")
_RETRY = {
    "dropped": "connection lost",
    "unreached": "trying again",
    "recovery": "going on after an interruption",
    "length": "output limit reached, going on",
    "lost-call": "a tool call was lost",
}


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
                await self._break()
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

    async def _break(self) -> None:
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


# -- text --------------------------------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """``text`` without control characters, which a terminal would obey; tabs and ends of lines stay."""
    return _CONTROL.sub("", text)


def one_line(text: str) -> str:
    """``text`` on one line, without control characters."""
    return printable(" ".join(text.split()))


def shortened(text: str) -> str:
    """The beginning of a text of any length, on one line."""
    return one_line(text[:1000])


def retry_text(event: RetryEvent) -> str:
    never = event.kind == "dropped" and event.reason.startswith("No connection")
    what = _RETRY["unreached" if never else event.kind]
    return f"{what} ({event.attempt} of {event.max_attempts}): {shortened(event.reason)}"


def outcome_text(event: ToolEvent) -> str:
    """What came of a call that has ended, in few words."""
    text = event.result if isinstance(event.result, str) else json.dumps(event.result)
    return f"failed: {shortened(text)}" if event.is_error else size(len(text.encode("utf-8", "replace")))


def call_line(head: str, argument: str, outcome: str, *, columns: int, unicode: bool) -> str:
    """``head``, as much of the argument as fits, what came of it."""
    outcome = fit(outcome, max(10, columns // 2), unicode=unicode)
    room = columns - width(head) - width(outcome) - 3
    middle = f" {fit(argument, room, unicode=unicode)}" if argument and room >= 4 else ""
    return f"{head}{middle}  {outcome}"


def usage_parts(
    usage: Usage, *, replayed: bool = False, cost: float | None = None, context: ContextUsage | None = None
) -> list[str]:
    """What something took, for people. ``cost`` is in US dollars."""
    cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
    calls = "no model call" if replayed else f"{usage.calls} model call{'s' * (usage.calls != 1)}"
    parts = [calls, f"{usage.total_tokens - usage.output_tokens:,} tokens in{cached}, {usage.output_tokens:,} out"]
    if cost is not None:
        parts.append(f"${cost:.2f}" if cost >= 0.1 else f"${cost:.4f}")
    if context is not None:
        parts.append(f"context {context.used / context.total:.0%} of {context.total:,}")
    return parts


def width(text: str) -> int:
    """Columns that a terminal needs for ``text``."""
    return sum(map(_columns_of, text))


def _columns_of(letter: str) -> int:
    if letter.isascii():
        return 1
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def fit(text: str, columns: int, *, unicode: bool = True) -> str:
    """``text`` cut to ``columns``, with a sign that it was."""
    if width(text) <= columns:
        return text
    sign = "…" if unicode else "..."
    left = columns - len(sign)
    out = ""
    for letter in text:
        left -= _columns_of(letter)
        if left < 0:
            break
        out += letter
    return out + sign


def folded(text: str, columns: int) -> list[str]:
    """The lines of ``text``, each on as many as it needs."""
    out: list[str] = []
    for line in text.expandtabs(4).split("\n"):
        start = used = 0
        for at, letter in enumerate(line):
            used += _columns_of(letter)
            if used > columns and at > start:
                out.append(line[start:at])
                start, used = at, _columns_of(letter)
        out.append(line[start:])
    return out


def size(count: int) -> str:
    """Bytes for people."""
    if count < 1000:
        return f"{count} B"
    number, unit = count / 1000, "KB"
    for unit in ("KB", "MB", "GB"):
        if number < 999.5 or unit == "GB":
            break
        number /= 1000
    return f"{number:.1f} {unit}" if number < 9.95 else f"{number:.0f} {unit}"


def main_argument(arguments: Mapping[str, Any]) -> str:
    """The argument that tells one call of a tool from another."""
    for name in _MAIN_ARGUMENTS:
        if isinstance(arguments.get(name), str):
            return arguments[name]
    return next((value for value in arguments.values() if isinstance(value, str)), "")
