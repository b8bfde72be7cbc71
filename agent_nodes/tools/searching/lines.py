"""The lines of one file that match, and those around them."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import BinaryIO

from agent_nodes.tools.searching.found import Found

BLOCK = 16 << 20
MAX_UTF16 = 64 << 20
HEAD_BYTES = 8_192
UTF16 = (b"\xff\xfe", b"\xfe\xff")
SHOWN = 500
BEFORE = 150

# Never wait for the other end of a pipe, never follow a link put there after the walk.
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

Match = re.Match[str]


def grep_file(
    file: BinaryIO, path: str, found: Found, *, search: Callable[[str], Match | None], needle: bytes, context: int
) -> None:
    before: deque[tuple[int, str]] = deque(maxlen=context)
    number = after = 0
    for data in blocks(file, needle):
        text = data.decode("utf-8", "replace").replace("\r\n", "\n")
        for line in text.removesuffix("\n").split("\n"):
            number += 1
            match = search(line)
            if match:
                if found.full():
                    return
                for earlier in before:
                    found.add(path, *earlier, False)
                before.clear()
                found.add(path, number, around(line, match), True)
                found.matches += 1
                after = context
            elif after:
                found.add(path, number, around(line, None), False)
                after -= 1
            elif context:
                before.append((number, around(line, None)))


def is_binary(head: bytes) -> bool:
    """By the first :data:`HEAD_BYTES` of a file. What is marked as UTF-16 shows only when it is decoded."""
    return b"\x00" in head and not head.startswith(UTF16)


def blocks(file: BinaryIO, needle: bytes) -> Iterator[bytes]:
    """The content of a text file as UTF-8, in whole lines (one longer than a block comes in parts); nothing of a binary
    file."""
    data = file.read(BLOCK)
    if is_binary(data[:HEAD_BYTES]) or (len(data) < BLOCK and needle not in data and not data.startswith(UTF16)):
        return
    if data.startswith(UTF16):
        text = (data + file.read(MAX_UTF16)).decode("utf-16", "replace")
        if text and "\x00" not in text[:HEAD_BYTES]:
            yield text.encode("utf-8", "replace")
        return
    start = data.removeprefix(b"\xef\xbb\xbf")
    while start:
        yield start + file.readline(BLOCK) if len(data) == BLOCK else start
        start = data = file.read(BLOCK)


def around(line: str, match: Match | None) -> str:
    """``line``, or of a long one the part around the match."""
    if len(line) <= SHOWN:
        return line
    start = max(0, match.start() - BEFORE) if match else 0
    end = start + SHOWN
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
