"""How much of an output a model gets to see, and how names and broken text are spelled in it."""

from __future__ import annotations

import os
import re

MAX_LINES = 2_000
MAX_BYTES = 50 * 1024

# Notes ("cut here, go on there") stay inside the limit, so that a bounded text is not cut a second time.
NOTE_LINES = 4
NOTE_BYTES = 1_024

_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LONG = {shown: char for char, shown in _SHORT.items()}
_ESCAPED = re.compile(r"\\(?:[nrt]|x([0-9a-f]{2}))")


class Bounded:
    """Lines collected up to the limit."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.size = 0

    def add(self, line: str) -> bool:
        """False, and the line stays out, when it would go over the limit."""
        size = self.size + len(line.encode()) + 1
        if len(self.lines) >= MAX_LINES or size > MAX_BYTES - NOTE_BYTES:
            return False
        self.lines.append(line)
        self.size = size
        return True

    def text(self, *notes: str) -> str:
        """The lines, then each note in brackets on a line of its own."""
        return "\n".join([*self.lines, *(f"[{note}]" for note in notes if note)])


def fits(text: str) -> bool:
    return text.count("\n") < MAX_LINES + NOTE_LINES and len(text.encode()) <= MAX_BYTES


def start_of(data: bytes, max_bytes: int, max_lines: int) -> str:
    """The first lines of ``data``, whole ones where there are several, never half a character."""
    head = data[:max_bytes]
    lines = head.split(b"\n")
    if len(lines) > max_lines:
        lines = lines[:max_lines]
    elif len(head) < len(data) and len(lines) > 1:
        lines = lines[:-1]
    return b"\n".join(lines).decode("utf-8", "ignore")


def end_of(data: bytes, max_bytes: int, max_lines: int) -> tuple[str, int]:
    """The last lines of ``data``, whole ones where there are several, and how many bytes of ``data`` they are. Bytes
    that are no UTF-8 become U+FFFD."""
    tail = data[-max_bytes:]
    if len(tail) < len(data):
        first, newline, rest = tail.partition(b"\n")
        tail = rest if newline and rest else _whole(first) + newline
    lines = tail.split(b"\n")
    spare = 1 if tail.endswith(b"\n") else 0
    tail = b"\n".join(lines[-max_lines - spare :])
    return tail.decode("utf-8", "replace"), len(tail)


def _whole(data: bytes) -> bytes:
    """``data`` without the rest of a character whose start was cut off."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


def printable(name: str) -> str:
    """A file name on one line: control characters and undecodable bytes as escapes."""
    return _CONTROL.sub(_escape, name)


def as_printed(text: str) -> str:
    """The name that :func:`printable` made ``text`` of, if it did."""
    return _ESCAPED.sub(lambda match: _LONG.get(match[0]) or os.fsdecode(bytes([int(match[1], 16)])), text)


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    # The file system's undecodable bytes arrive as U+DC80..U+DCFF.
    return _SHORT.get(char) or (
        f"\\x{code & 0xFF:02x}" if code < 0x80 or 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"
    )
