"""The terminal of ``chat``: a line to type on at the bottom, above it a few lines that change, and above these what was
printed once and is never touched again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import ConditionalContainer, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output

REDRAWN = 0.05  # seconds between two looks of the lines that change
TYPING_ROWS = 5  # of the terminal's height that the lines that change leave alone


class Screen:
    """``live(columns, rows)`` gives the lines that change, at most ``rows`` of them. ``submit`` gets what was typed,
    ``interrupt`` is Ctrl-C, ``leave`` Ctrl-D. ``choices`` gives for what stands before the cursor what it may become,
    each with a word about it.

    Text for :meth:`show` and of ``live`` may hold codes for colours and no others.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        live: Callable[[int, int], Sequence[str]],
        submit: Callable[[str], object],
        interrupt: Callable[[], object],
        leave: Callable[[], object],
        choices: Callable[[str], Iterable[tuple[str, str]]],
        history: History,
    ) -> None:
        self.colour = not environ.get("NO_COLOR")
        self.unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        self._live = live
        self._submit = submit
        self._leave = leave
        self._choices = choices
        self.gone = False
        self._output = _output(environ)
        mark = "›" if self.unicode else ">"
        self.mark = f"{mark} "
        self._session = self._make_session(history)
        self._bind(interrupt)

    @property
    def columns(self) -> int:
        return self._output.get_size().columns

    @property
    def typed(self) -> str:
        """What stands on the line."""
        return self._session.default_buffer.text

    def show(self, lines: Iterable[str]) -> None:
        """Print lines, for good. Where the terminal is gone nothing happens but ``leave``."""
        text = "".join(f"{line}\n" for line in lines)
        app = self._session.app
        try:
            if not app.is_running:
                self._write(text)
                return
            app.renderer.erase()
            self._write(text)
            # What invalidate() does, but now: nobody is to see the moment without the line to type on.
            app._redraw()  # pyright: ignore[reportPrivateUsage]
        except OSError:
            self.gone = True
            self._leave()

    def refresh(self) -> None:
        """The lines that change have changed."""
        self._session.app.invalidate()

    def clear_typed(self) -> None:
        """Empty the line. What stood there can be had back as an earlier prompt."""
        self._session.default_buffer.reset(append_to_history=True)

    async def run(self) -> None:
        """Take what is typed, until :meth:`close` or the end of the terminal."""
        try:
            await self._session.prompt_async(set_exception_handler=False, handle_sigint=False)
        except (EOFError, OSError):
            self.gone = True

    def close(self) -> None:
        app = self._session.app
        if app.is_running and not app.is_done:
            app.exit()

    # -- pieces --------------------------------------------------------------------------------------------------------

    def _write(self, text: str) -> None:
        self._output.write_raw(text)
        self._output.flush()

    def _make_session(self, history: History) -> PromptSession[str]:
        session: PromptSession[str] = PromptSession(
            self.mark,
            multiline=True,
            prompt_continuation=lambda width, line, wrapped: " " * width,
            completer=_Completer(self._choices),
            complete_while_typing=Condition(lambda: self.typed.startswith("/")),
            history=history,
            enable_suspend=True,
            erase_when_done=True,
            color_depth=None if self.colour else ColorDepth.DEPTH_1_BIT,
            output=self._output,
        )
        app = session.app
        app.min_redraw_interval = REDRAWN
        shown = Window(FormattedTextControl(self._live_text), dont_extend_height=True)
        above = ConditionalContainer(shown, Condition(lambda: bool(self._live_lines())))
        app.layout = Layout(HSplit([above, session.layout.container]), focused_element=session.default_buffer)
        return session

    def _live_lines(self) -> Sequence[str]:
        size = self._output.get_size()
        return self._live(size.columns, max(1, size.rows - TYPING_ROWS))

    def _live_text(self) -> ANSI:
        return ANSI("\n".join(self._live_lines()))

    def _bind(self, interrupt: Callable[[], object]) -> None:
        keys = KeyBindings()
        typing = has_focus(DEFAULT_BUFFER)
        empty = Condition(lambda: not self.typed)

        @keys.add("enter", filter=typing)
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            before = buffer.document.text_before_cursor
            if before.endswith("\\") and buffer.document.is_cursor_at_the_end:
                buffer.delete_before_cursor()
                buffer.newline(copy_margin=False)
                return
            text = buffer.text
            buffer.reset(append_to_history=bool(text.strip()))
            self._submit(text)

        @keys.add("tab", filter=typing)
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            before = buffer.document.text_before_cursor
            found = [text for text, _ in self._choices(before)]
            if buffer.complete_state is not None:
                buffer.complete_next()
            elif len(found) == 1:  # at once, not when the list is there
                buffer.delete_before_cursor(len(before))
                buffer.insert_text(found[0])
            else:
                buffer.start_completion(insert_common_part=True)

        @keys.add("escape", "enter", filter=typing)
        @keys.add("c-j", filter=typing)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.newline(copy_margin=False)

        @keys.add("c-c", filter=typing)
        def _(event: KeyPressEvent) -> None:
            interrupt()

        @keys.add("c-d", filter=typing & empty)
        def _(event: KeyPressEvent) -> None:
            self._leave()

        self._session.key_bindings = keys


class _Completer(Completer):
    def __init__(self, choices: Callable[[str], Iterable[tuple[str, str]]]) -> None:
        self._choices = choices

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        for text, about in self._choices(before):
            yield Completion(text, start_position=-len(before), display=text.rpartition(" ")[2], display_meta=about)


def _output(environ: Mapping[str, str]) -> Output:
    """Without questions to the terminal where its cursor is: the answers come in the way of what is typed."""
    if os.name == "nt":
        return create_output()

    def size() -> Size:
        columns, rows = 80, 24
        with suppress(OSError):
            found = os.get_terminal_size(1)
            columns, rows = found.columns or columns, found.lines or rows
        return Size(rows=rows, columns=columns)

    return Vt100_Output(sys.stdout, size, term=environ.get("TERM"), enable_cpr=False)
