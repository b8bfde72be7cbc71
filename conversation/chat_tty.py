"""The settings of the terminal that ``chat`` is typed at."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, Self


class Tty:
    """Inside the block what is typed is kept for the line that will be there soon: it is not echoed, and Enter stays
    Enter. Behind it the terminal is as it was before."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        if os.name == "nt":
            return self
        import termios

        with suppress(termios.error):
            self._before = termios.tcgetattr(0)
            ready = termios.tcgetattr(0)
            ready[0] &= ~termios.ICRNL
            ready[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(0, termios.TCSANOW, ready)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            import termios

            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, self._before)

    def restore(self) -> None:
        """The last thing before the process ends without leaving the block: the line that is typed on goes as well."""
        self.__exit__()
        if self._before is None:
            return
        import select

        with suppress(OSError):
            if select.select([], [1], [], 0)[1]:  # one that takes nothing must not hold up the end
                os.write(1, b"\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[0m\r\n\x1b[J")
