"""The rules of ``.gitignore`` files, as git reads them (gitignore(5)). That below a folder which is left out nothing
comes back is the walk's doing: it does not go there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from itertools import groupby

NAME = ".gitignore"
MAX_BYTES = 1 << 20

_Test = tuple[bool, bool, bool, Callable[[str], object]]
_CLASS = re.compile(r"\[([!^]?)((?:\[:[a-z]+:\]|\\.|[^\]\\])(?:\[:[a-z]+:\]|\\.|[^\]\\])*)\]", re.DOTALL)
_MEMBER = re.compile(r"\[:([a-z]+):\]|(?:\\(.)|(.))(?:-(?:\\(.)|([^\]])))?", re.DOTALL)
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t\\n\\r\\f\\v",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


class Rules:
    """Those of one file. They are for paths below its folder: what the walk calls ``path`` is there
    ``prefix + path[strip:]``."""

    def __init__(self, text: str, *, strip: int = 0, prefix: str = "") -> None:
        self._strip = strip
        self._prefix = prefix
        self._tests = list(_tests(text))

    def decide(self, path: str, name: str, is_folder: bool) -> bool | None:
        """Whether the last rule that fits leaves ``path`` out; None where none fits."""
        below = self._prefix + path[self._strip :]
        for leaves_out, folders_only, by_name, fits in self._tests:
            if (is_folder or not folders_only) and fits(name if by_name else below):
                return leaves_out
        return None


def is_ignored(rules: tuple[Rules, ...], path: str, name: str, is_folder: bool) -> bool:
    """The rules of the deepest file come first."""
    for item in reversed(rules):
        decision = item.decide(path, name, is_folder)
        if decision is not None:
            return decision
    return False


def rules_of(file: str, *, strip: int = 0, prefix: str = "") -> tuple[Rules, ...]:
    """Those of the file at path ``file``; none where it cannot be read."""
    try:
        fd = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(fd, "rb") as opened:
            data = opened.read(MAX_BYTES)
    except OSError:
        return ()
    return (Rules(data.decode("utf-8", "surrogateescape").removeprefix("\ufeff"), strip=strip, prefix=prefix),)


def rules_above(root: str) -> tuple[Rules, ...]:
    """Those of the folders above ``root``, when it lies in a git repository; outermost first."""
    found: list[Rules] = []
    folder, prefix = root, ""
    while not os.path.lexists(f"{folder}/.git"):  # strings only: this process loads no pathlib
        folder, _, name = folder.rpartition("/")
        if not folder:
            return ()
        prefix = f"{name}/{prefix}"
        found += rules_of(f"{folder}/{NAME}", prefix=prefix)
    return tuple(reversed(found))


def _tests(text: str) -> Iterator[_Test]:
    """Last rule first; rules of a kind that follow each other are one test."""
    parsed = [rule for rule in map(_parse, reversed(text.split("\n"))) if rule is not None]
    for kind, group in groupby(parsed, key=lambda rule: rule[:3]):
        pattern = "|".join(f"(?:{rule[3]})" for rule in group)
        yield *kind, re.compile(pattern, re.DOTALL).fullmatch


def _parse(line: str) -> tuple[bool, bool, bool, str] | None:
    """(leaves out, folders only, compared with the name alone, expression)"""
    line = _stripped(line.removesuffix("\r"))
    leaves_out = not line.startswith("!")
    if not leaves_out:
        line = line[1:]
    elif line.startswith("#"):
        return None
    folders_only = line.endswith("/")
    line = line.removesuffix("/")
    by_name = "/" not in line
    expression = _expression(line.removeprefix("/"))
    return (leaves_out, folders_only, by_name, expression) if expression else None


def _stripped(line: str) -> str:
    """Without the blanks at the end, except one that a backslash keeps."""
    bare = line.rstrip(" ")
    backslashes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if backslashes % 2 and len(bare) < len(line) else bare


def _expression(glob: str) -> str | None:
    """None for a glob that can match nothing."""
    out: list[str] = []
    at = 0
    while at < len(glob):
        char = glob[at]
        if char == "*":
            end = at
            while glob.startswith("*", end):
                end += 1
            crosses = end - at == 2 and (at == 0 or glob[at - 1] == "/") and glob[end : end + 1] in ("", "/")
            if crosses and end < len(glob):
                out.append("(?:.*/)?")
                end += 1
            else:
                out.append(".+" if crosses and at else ".*" if crosses else "[^/]*")
            at = end
            continue
        if char == "[":
            match = _CLASS.match(glob, at)
            if match is None:
                return None
            out.append(_class(match))
            at = match.end()
            continue
        if char == "\\":
            at += 1
            if at == len(glob):
                return None
        out.append("[^/]" if glob[at] == "?" and char != "\\" else re.escape(glob[at]))
        at += 1
    return "".join(out)


def _class(match: re.Match[str]) -> str:
    members: list[str] = []
    for member in _MEMBER.finditer(match[2]):
        first, last = member[2] or member[3], member[4] or member[5]
        if member[1]:
            members.append(_POSIX.get(member[1], ""))
        elif not last:
            members.append(re.escape(first))
        elif first <= last:
            members.append(f"{re.escape(first)}-{re.escape(last)}")
    inside = "".join(members)
    if not inside:
        return "[^/]" if match[1] else "(?!)"
    return f"(?!/)[{'^' if match[1] else ''}{inside}]"
