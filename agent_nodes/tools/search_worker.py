"""Walks a folder for find and grep, in a process of its own and with the standard library alone.

Of its own, because a pattern can keep the regex engine busy for hours, and meanwhile no other thread of that process
would run. One JSON request on stdin, one JSON response on stdout; it ends by itself after ``seconds``.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

BLOCK = 16 << 20
HEAD_BYTES = 8_192
SHOWN = 500
BEFORE = 150
TEXT_BUDGET = 64 * 1024
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

# Searched only when asked for by path: the history of version control, compiled files, and what package managers
# install. The last are named in the response, because someone may be looking for just that.
HIDDEN = frozenset({".git", ".hg", ".svn", "__pycache__"})
INSTALLED = frozenset({"node_modules"})

Match = re.Match[str]


class OutOfTime(Exception):
    pass


class Found:
    """What goes into the response, as far as the limits let it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.items: list[list[Any]] = []
        self.matches = self.size = self.unreadable = 0
        self.left_out: list[str] = []
        self.more = self.late = False

    def full(self) -> bool:
        """Asked before a further match is taken in."""
        self.more = self.matches >= self.limit or self.size > TEXT_BUDGET
        return self.more

    def add(self, *item: Any) -> None:
        self.items.append(list(item))
        self.size += sum(len(part) for part in item if isinstance(part, str)) + 8

    def leave_out(self, path: str) -> None:
        if len(self.left_out) < 20:
            self.left_out.append(path)


def glob_regex(glob: str) -> str:
    """``*`` and ``?`` stay within a name, ``**`` crosses folders, ``[a-z]`` one of a set, ``{a,b}`` either."""
    out: list[str] = []
    at = depth = 0
    braces = glob.count("{") == glob.count("}")
    while at < len(glob):
        char = glob[at]
        at += 1
        if char == "*" and glob.startswith("*/", at):
            out.append("(?:.*/)?")
            at += 2
        elif char == "*" and glob.startswith("*", at):
            out.append(".*")
            at += 1
        elif char in "*?":
            out.append("[^/]*" if char == "*" else "[^/]")
        elif char == "[" and (end := glob.find("]", at + 1 + glob.startswith(("!", "^"), at))) > 0:
            inside = glob[at:end].replace("\\", r"\\").replace("[", r"\[")
            out.append(f"(?!/)[{'^' + inside[1:] if inside[0] in '!^' else inside}]")
            at = end + 1
        elif braces and (char == "{" or (char in "}," and depth)):
            depth += (char == "{") - (char == "}")
            out.append({"{": "(?:", "}": ")", ",": "|"}[char])
        else:
            out.append(re.escape(char))
    return "".join(out)


def glob_filter(glob: str | None) -> Callable[[str], object]:
    """A test of relative paths; a glob without a slash is compared with the last name alone."""
    if not glob:
        return lambda path: True
    glob = glob.removeprefix("./")
    matches = re.compile(glob_regex(glob), re.DOTALL).fullmatch
    return matches if "/" in glob else lambda path: matches(path.rpartition("/")[2])


def walk(root: str, found: Found) -> Iterator[tuple[str, os.DirEntry[str], bool]]:
    """(path below ``root``, entry, is it a folder) of all that is there, in order of name; links are named, never
    followed."""
    folders = [("", root)]
    while folders:
        below, folder = folders.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:
            found.unreadable += 1
            continue
        if below and any(entry.name == "pyvenv.cfg" for entry in entries):
            found.leave_out(below[:-1])
            continue
        inner: list[tuple[str, str]] = []
        for entry in entries:
            path = below + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and entry.name in HIDDEN:
                continue
            if is_folder and entry.name in INSTALLED:
                found.leave_out(path)
                continue
            yield path, entry, is_folder
            if is_folder:
                inner.append((f"{path}/", entry.path))
        folders.extend(reversed(inner))


def find(request: dict[str, Any], found: Found) -> None:
    matches = glob_filter(request["pattern"].rstrip("/"))
    folders_only = request["pattern"].endswith("/")
    for path, _, is_folder in walk(request["root"], found):
        if matches(path) and (is_folder or not folders_only):
            if found.full():
                return
            found.add(path, is_folder)
            found.matches += 1


def grep(request: dict[str, Any], found: Found) -> None:
    literal = request["literal"]
    pattern = re.escape(request["pattern"]) if literal else request["pattern"]
    search = re.compile(pattern, re.IGNORECASE if request["ignore_case"] else 0).search
    needle = request["pattern"].encode() if literal and not request["ignore_case"] else b""
    for path, full in files(request, found):
        try:
            with os.fdopen(os.open(full, FLAGS), "rb") as file:
                grep_file(file, path, found, search=search, needle=needle, context=request["context"])
        except OSError:
            found.unreadable += 1
        if found.more:
            return


def files(request: dict[str, Any], found: Found) -> Iterator[tuple[str, str]]:
    root = request["root"]
    if not os.path.isdir(root):  # noqa: PTH112  # strings only: this process loads no pathlib
        yield "", root
        return
    matches = glob_filter(request["glob"])
    for path, entry, _ in walk(root, found):
        if entry.is_file(follow_symlinks=False) and matches(path):
            yield path, entry.path


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


def blocks(file: BinaryIO, needle: bytes) -> Iterator[bytes]:
    """The content of a text file in whole lines (one longer than a block comes in parts); nothing of a binary file."""
    data = file.read(BLOCK)
    if b"\x00" in data[:HEAD_BYTES] or (len(data) < BLOCK and needle not in data):
        return
    while data:
        yield data + file.readline(BLOCK) if len(data) == BLOCK else data
        data = file.read(BLOCK)


def around(line: str, match: Match | None) -> str:
    """``line``, or of a long one the part around the match."""
    if len(line) <= SHOWN:
        return line
    start = max(0, match.start() - BEFORE) if match else 0
    end = start + SHOWN
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


def alarm(*_: object) -> None:
    raise OutOfTime


def main() -> None:
    request = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    found = Found(request["limit"])
    try:
        if hasattr(signal, "SIGALRM"):
            signal.signal(signal.SIGALRM, alarm)
            signal.alarm(request["seconds"])
        (grep if request["op"] == "grep" else find)(request, found)
    except OutOfTime:
        found.late = True
    except (re.error, RecursionError, OverflowError) as error:
        json.dump({"error": str(error)}, sys.stdout)
        return
    response = {name: getattr(found, name) for name in ("items", "more", "late", "left_out", "unreadable")}
    json.dump(response, sys.stdout)


if __name__ == "__main__":
    main()
