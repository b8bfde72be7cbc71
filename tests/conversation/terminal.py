"""A terminal with somebody at it: what is typed, what stands on the screen, and what has scrolled away."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable

from wcwidth import wcwidth

from tests.conversation.shell import COMMAND, GUARD, Shell

UP, ALT_ENTER, CTRL_C, CTRL_D, CTRL_J, CTRL_R, TAB, ENTER = "\x1b[A", "\x1b\r", "\x03", "\x04", "\n", "\x12", "\t", "\r"

_SEQUENCE = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])")
_MODES = {"1", "7", "12", "25", "2004"}


class Display:
    """What an xterm makes of what it is sent, as far as we use it. It is strict: everything else is an error, so that
    nothing a model says can pass for a command."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.past: list[str] = []
        self.modes: dict[str, bool] = {}
        self.colours: set[str] = set()
        self._cells = [self._empty() for _ in range(rows)]
        self._x = self._y = 0
        self._wraps = False  # the last column is written: the next letter begins a line
        self._rest = ""

    @property
    def lines(self) -> list[str]:
        """Everything, what has scrolled away first; empty lines at the end do not count."""
        lines = [*self.past, *["".join(row).rstrip() for row in self._cells]]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def resize(self, columns: int, rows: int) -> None:
        while len(self._cells) > rows:
            self.past.append("".join(self._cells.pop(0)).rstrip())
            self._y = max(0, self._y - 1)
        self.columns, self.rows = columns, rows
        self._cells += [self._empty() for _ in range(rows - len(self._cells))]
        self._cells = [[*row, *[" "] * columns][:columns] for row in self._cells]
        self._x = min(self._x, columns - 1)

    def feed(self, text: str) -> None:
        text, self._rest = self._rest + text, ""
        at = 0
        while at < len(text):
            letter = text[at]
            if letter != "\x1b":
                self._letter(letter)
                at += 1
                continue
            found = _SEQUENCE.match(text, at)
            if found is None:
                if re.fullmatch(r"\x1b(\[[\d;?]*)?", text[at:]):
                    self._rest = text[at:]
                    return
                raise AssertionError(f"no sequence of ours: {text[at : at + 20]!r}")
            self._sequence(*found.groups())
            at = found.end()

    def _sequence(self, private: str, given: str, final: str) -> None:
        self._wraps = False
        count = int(given) if given.isdigit() and given != "0" else 1
        if private:
            assert final in "hl" and given in _MODES, f"no mode of ours: ?{given}{final}"
            self.modes[given] = final == "h"
            return
        match final:
            case "A":
                self._y = max(0, self._y - count)
            case "B":
                self._y = min(self.rows - 1, self._y + count)
            case "C":
                self._x = min(self.columns - 1, self._x + count)
            case "D":
                self._x = max(0, self._x - count)
            case "J" if given in ("", "0"):
                self._clear_line()
                self._cells[self._y + 1 :] = [self._empty() for _ in self._cells[self._y + 1 :]]
            case "K" if given in ("", "0"):
                self._clear_line()
            case "m":
                self.colours.update({given} - {"", "0"})
            case _:
                raise AssertionError(f"no sequence of ours: {given}{final}")

    def _letter(self, letter: str) -> None:
        match letter:
            case "\n":
                self._down()
            case "\r":
                self._x, self._wraps = 0, False
            case "\b":
                self._x, self._wraps = max(0, self._x - 1), False
            case "\x07":
                raise AssertionError("it rings")
            case _:
                self._print(letter)

    def _print(self, letter: str) -> None:
        wide = wcwidth(letter)
        assert wide >= 0, f"a control character: {letter!r}"
        if not wide:
            row = self._cells[self._y]
            row[max(0, self._x - 1)] += letter
            return
        if self.modes.get("7", True) and (self._wraps or self._x + wide > self.columns):
            self._x, self._wraps = 0, False
            self._down()
        row = self._cells[self._y]
        at = min(self._x, self.columns - wide)
        row[at : at + wide] = [letter, *[""] * (wide - 1)]
        self._x = at + wide
        if self._x >= self.columns:
            self._x, self._wraps = self.columns - 1, True

    def _down(self) -> None:
        if self._y < self.rows - 1:
            self._y += 1
            return
        self.past.append("".join(self._cells.pop(0)).rstrip())
        self._cells.append(self._empty())

    def _clear_line(self) -> None:
        self._cells[self._y][self._x :] = [" "] * (self.columns - self._x)

    def _empty(self) -> list[str]:
        return [" "] * self.columns


def _test(what: str | re.Pattern[str] | Callable[[list[str]], bool]) -> Callable[[list[str]], bool]:
    if isinstance(what, str):
        return lambda lines: any(what in line for line in lines)
    if isinstance(what, re.Pattern):
        return lambda lines: any(what.search(line) for line in lines)
    return what


class Seat:
    """A command that runs at a terminal, which is its controlling one."""

    def __init__(self, shell: Shell, *arguments: str, columns: int = 80, rows: int = 24, **environment: str) -> None:
        self.display = Display(columns, rows)
        self.sent = ""
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.theirs = theirs  # held, so that what was written at the end is not lost
        self.settings = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            # A leader of a session that opens a terminal has it as its controlling one.
            ["sh", "-c", 'exec "$0" "$@" <"$SEAT" >"$SEAT" 2>"$SEAT"', str(COMMAND), *arguments],
            cwd=shell.folder,
            env={"TERM": "xterm", **shell.environment, "SEAT": os.ttyname(theirs), **environment},
            start_new_session=True,
        )

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def paste(self, text: str) -> None:
        self.type(f"\x1b[200~{text}\x1b[201~")

    def until(self, what: str | re.Pattern[str] | Callable[[list[str]], bool]) -> list[str]:
        """Read until a line that holds ``what`` stands there; the lines."""
        test = _test(what)
        end = time.monotonic() + GUARD
        while not test(self.display.lines):
            lives = self.process.poll() is None and time.monotonic() < end
            assert self._read(time.monotonic() + 0.1) or lives, self._picture(what)
        return self.display.lines

    def end(self) -> int:
        """Read until the command has ended; its exit status."""
        end = time.monotonic() + GUARD
        while self.process.poll() is None:
            self._read(min(end, time.monotonic() + 0.05))
            assert time.monotonic() < end, self._picture("the end")
        while self._read(time.monotonic() + 0.05):
            pass
        return self.process.returncode

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def resize(self, columns: int, rows: int) -> None:
        """The window gets another size, which here leaves what stands there as it is."""
        self.display.resize(columns, rows)
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        os.close(self.theirs)
        os.close(self._ours)
        self._ours = self.theirs = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for fd in {self._ours, self.theirs} - {-1}:
            os.close(fd)

    def _read(self, end: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0, end - time.monotonic()))
        if not ready:
            return False
        try:
            text = os.read(self._ours, 65536).decode(errors="replace")
        except OSError:
            return False
        self.sent += text
        self.display.feed(text)
        return bool(text)

    def _picture(self, what: object) -> str:
        frame = "\n".join(f"|{line}" for line in self.display.lines)
        return f"waited for {what!r}; there stands\n{frame}\nsent at last: {self.sent[-500:]!r}"
