"""The output of a program as text: without what it says to a terminal alone (colours, cursor, overwritten lines).

Both steps take bytes as they come and hold back what cannot be judged yet.
"""

from __future__ import annotations

import re

LONGEST_ESCAPE = 4_096
LONGEST_LINE = 64 * 1024

_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)\Z")
_STRUCK_OUT = re.compile(rb"[\x20-\x7e]\x08")
_LINE_END = re.compile(rb"\r+\n")
_OVERWRITTEN = re.compile(rb"[^\n]*\r(?=[^\n\r])")


class Unescaped:
    """Takes out escape sequences, bells, and characters that a backspace takes back."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        data, self._rest = self._rest + data, b""
        if b"\x1b" in data:
            unfinished = _UNFINISHED.search(data, max(0, len(data) - LONGEST_ESCAPE))
            if unfinished:
                data, self._rest = data[: unfinished.start()], unfinished[0]
            data = _ESCAPE.sub(b"", data)
        if b"\x08" in data:
            data = _STRUCK_OUT.sub(b"", data).replace(b"\x08", b"")
        return data.replace(b"\x07", b"")


class Overwritten:
    """Of a line that a carriage return begins anew the last state, and plain line ends."""

    def __init__(self) -> None:
        self._line = b""

    def feed(self, data: bytes) -> bytes:
        data, self._line = self._line + data, b""
        if b"\r" in data:
            data = _OVERWRITTEN.sub(b"", _LINE_END.sub(b"\n", data))
        whole = data.rfind(b"\n") + 1
        if len(data) - whole > LONGEST_LINE:
            return data
        self._line = data[whole:]
        return data[:whole]

    def finish(self) -> bytes:
        return self._line.rstrip(b"\r")


def new_part(data: bytes) -> bytes:
    """A piece of output that is shown behind an earlier one: what it begins anew begins on a new line."""
    if b"\r" not in data:
        return data
    begins_anew = data.startswith(b"\r") and not data.startswith(b"\r\n")
    data = _OVERWRITTEN.sub(b"", _LINE_END.sub(b"\n", data)).strip(b"\r")
    return b"\n" + data if begins_anew else data
