"""What a turn looks like in ``chat`` on a terminal: blocks of the answer as they become whole, a line for each call of
a tool, and below these the few lines that change while the turn runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from agent_nodes._clock import Clock
from conversation.chat_talk import Talk
from conversation.text import (
    call_line,
    fit,
    folded,
    main_argument,
    one_line,
    outcome_text,
    printable,
    retry_text,
    shortened,
    wrapped,
)

if TYPE_CHECKING:
    from agent_nodes.events import AgentStreamEvent, ToolEvent

DIM, RED, BOLD = "2", "31", "1"


class Stream(Protocol):
    """Text that streams in, as lines: ``feed`` gives those that are final now, ``end`` the rest, ``preview`` at most so
    many of the lines that are not final yet."""

    def feed(self, delta: str) -> list[str]: ...
    def end(self) -> list[str]: ...
    def preview(self, rows: int) -> list[str]: ...


class Paper(Protocol):
    """Where lines are printed for good, as :class:`~conversation.chat_screen.Screen` does."""

    colour: bool
    unicode: bool

    @property
    def columns(self) -> int: ...
    def show(self, lines: Iterable[str]) -> None: ...
    def refresh(self) -> None: ...


class TurnView:
    """Turns for somebody at a terminal, one after the other."""

    def __init__(self, paper: Paper, talk: Talk, clock: Clock) -> None:
        self._paper = paper
        self._talk = talk
        self._clock = clock
        self._kind = ""  # of what was printed last
        self._text: Stream | None = None
        self._thoughts: Stream | None = None
        self._running: dict[str, tuple[str, str]] = {}
        self._heard = ""  # the last line that the running command has put out
        self._waits = ""
        self._since = 0.0
        self._stopping = False

    # -- the turn ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._wait(f"waiting for {one_line(self._talk.model[1])}")

    async def event(self, event: AgentStreamEvent) -> None:
        match event.type:
            case "text_delta":
                self._end_thoughts()
                self._text = self._text or self._stream()
                self._put("text", self._text.feed(event.delta))
                self._wait("answering")
            case "thinking_delta":
                if self._talk.thinking:
                    self._thoughts = self._thoughts or PlainStream(lambda: self._paper.columns - 1)
                    self._put("thinking", self._dimmed(self._thoughts.feed(event.delta)))
                self._wait("thinking")
            case "tool":
                self._tool(event)
            case "retry" if event.kind == "recovery" and self._talk.resumed:
                pass  # said already
            case "retry":
                # The sentence goes on behind it, and so does its block.
                self.note(f"{self.mark} {retry_text(event)}")
                self.begin()
            case "context_usage":
                pass
        self._paper.refresh()

    def stopping(self) -> None:
        """Somebody has stopped the turn, which takes a moment."""
        self._wait("stopping")
        self._stopping = True

    def end(self) -> None:
        """The turn has ended, one way or other."""
        self._end_text()
        self._waits, self._heard, self._stopping = "", "", False
        self._running.clear()
        self._paper.refresh()

    # -- what is printed -----------------------------------------------------------------------------------------------

    @property
    def mark(self) -> str:
        return "·" if self._paper.unicode else "-"

    def paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._paper.colour and code and text else text

    def note(self, text: str, code: str = DIM, *, whole: bool = False) -> None:
        """Lines about the conversation; ``whole`` ones are as long as they are, to be copied."""
        text = printable(text)
        lines = text.split("\n") if whole else wrapped(text, self._paper.columns)
        self._put("note", [self.paint(line, code) for line in lines])

    def gap(self) -> None:
        """What comes is about something else."""
        self._kind = self._kind and "gap"

    def prompt(self, text: str, mark: str) -> None:
        """What somebody has asked."""
        lines = printable(text).split("\n")
        if len(lines) > 20:
            lines[15:] = [f"({len(lines) - 15} more lines)"]
        first, *more = lines
        self._put("prompt", [self.paint(f"{mark}{first}", BOLD), *[self.paint(f"  {line}", BOLD) for line in more]])

    def answer(self, text: str) -> None:
        """An answer of earlier, whole."""
        stream = self._stream()
        self._put("text", [*stream.feed(text), *stream.end()])

    def _put(self, kind: str, lines: Sequence[str]) -> None:
        """Print lines; between two kinds, two prompts and two blocks of text, stands an empty one."""
        if not lines:
            return
        blocks = kind == "prompt" or (kind == "text" and self._paper.colour)
        apart = self._kind and (kind != self._kind or blocks)
        self._paper.show(["", *lines] if apart else lines)
        self._kind = kind

    # -- lines that change ---------------------------------------------------------------------------------------------

    def live(self, columns: int, rows: int) -> list[str]:
        """What the turn is at, in at most ``rows`` lines; none where none runs."""
        if not self._waits:
            return []
        room = max(0, rows - 3)
        open_lines = self._text.preview(room) if self._text is not None else []
        if self._thoughts is not None:
            open_lines = self._dimmed(self._thoughts.preview(room))
        lines = [*open_lines, ""] if open_lines else []
        seconds = int(self._clock.monotonic() - self._since)
        status = f"{self.mark} {self._waits}  {seconds}s  Ctrl-C {'leaves' if self._stopping else 'stops'}"
        more = [f"  {self._heard}"] if self._heard else []
        unicode = self._paper.unicode
        return [*lines, *[self.paint(fit(line, columns - 1, unicode=unicode), DIM) for line in [status, *more]]]

    def _wait(self, what: str) -> None:
        if what != self._waits and not self._stopping:
            self._waits, self._since = what, self._clock.monotonic()

    # -- pieces --------------------------------------------------------------------------------------------------------

    def _stream(self) -> Stream:
        if not self._paper.colour:
            return PlainStream(lambda: self._paper.columns - 1)
        from conversation.chat_markdown import MarkdownStream

        return MarkdownStream(lambda: self._paper.columns - 1, unicode=self._paper.unicode)

    def _dimmed(self, lines: Sequence[str]) -> list[str]:
        return [self.paint(line, DIM) for line in lines]

    def _end_thoughts(self) -> None:
        if self._thoughts is not None:
            thoughts, self._thoughts = self._thoughts, None
            self._put("thinking", self._dimmed(thoughts.end()))

    def _end_text(self) -> None:
        self._end_thoughts()
        if self._text is not None:
            text, self._text = self._text, None
            self._put("text", text.end())

    def _tool(self, event: ToolEvent) -> None:
        self._end_text()
        match event.phase:
            case "start":
                argument = shortened(main_argument(event.arguments or {}))
                self._running[event.tool_call_id] = (one_line(event.name), argument)
            case "update":
                lines = (event.output or "").splitlines()
                self._heard = next((line for line in map(one_line, reversed(lines)) if line), self._heard)
            case "end":
                self._called(event)
        if not self._running:
            self.begin()
            self._heard = ""
            return
        name, argument = next(reversed(self._running.values()))
        more = f" (and {len(self._running) - 1} more)" if len(self._running) > 1 else ""
        self._wait(f"{name} {argument}{more}")

    def _called(self, event: ToolEvent) -> None:
        call = self._talk.call_of(event)
        name, argument = self._running.pop(event.tool_call_id, (one_line(event.name), ""))
        took = f"  {call.seconds:.1f}s" if call.seconds is not None else ""
        head = f"{self.mark} {call.number} {name}"
        columns = self._paper.columns - len(took)
        line = call_line(head, argument, outcome_text(event), columns=columns, unicode=self._paper.unicode)
        self._put("tool", [self.paint(f"{line}{took}", RED if event.is_error else DIM)])


class PlainStream:
    """A :class:`Stream` of lines as they are written; empty ones only between others."""

    def __init__(self, columns: Callable[[], int]) -> None:
        self._columns = columns
        self._open = ""
        self._said = False
        self._held = 0

    def feed(self, delta: str) -> list[str]:
        whole, newline, self._open = (self._open + delta).rpartition("\n")
        return self._final(whole) if newline else []

    def end(self) -> list[str]:
        rest, self._open = self._open, ""
        return self._final(rest)

    def preview(self, rows: int) -> list[str]:
        return folded(printable(self._open), self._columns())[-rows:] if rows else []

    def _final(self, text: str) -> list[str]:
        out: list[str] = []
        for line in printable(text).split("\n"):
            if line.strip():
                out += [*[""] * self._held, line]
                self._said, self._held = True, 0
            else:
                self._held += self._said
        return out
