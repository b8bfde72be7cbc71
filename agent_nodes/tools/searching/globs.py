"""The globs of find and grep: ``*`` and ``?`` stay within a name, ``**`` crosses folders, ``[a-z]`` is one of a set,
``{a,b}`` either."""

from __future__ import annotations

import re
from collections.abc import Callable


def glob_regex(glob: str) -> str:
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
