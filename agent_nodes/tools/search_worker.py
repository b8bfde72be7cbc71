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
import types
import warnings
from collections.abc import Iterator
from typing import Any

if __name__ == "__main__":  # the packages without what importing them would load
    _tools = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # this process loads no pathlib
    for _name, _folder in (("agent_nodes", os.path.dirname(_tools)), ("agent_nodes.tools", _tools)):  # noqa: PTH120
        sys.modules[_name] = types.ModuleType(_name)
        sys.modules[_name].__path__ = [_folder]

from agent_nodes.tools.searching.candidates import candidates
from agent_nodes.tools.searching.found import Found, OutOfTime
from agent_nodes.tools.searching.globs import glob_filter
from agent_nodes.tools.searching.lines import FLAGS, grep_file
from agent_nodes.tools.searching.rust import rust_pattern
from agent_nodes.tools.searching.walk import walk


def find(request: dict[str, Any], found: Found) -> None:
    matches = glob_filter(request["pattern"].rstrip("/"))
    folders_only = request["pattern"].endswith("/")
    for path, _, is_folder in walk(request["root"], found, ignored=request["ignored"]):
        if matches(path) and (is_folder or not folders_only):
            if found.full():
                return
            found.add(path, is_folder)
            found.matches += 1


def grep(request: dict[str, Any], found: Found) -> None:
    literal, ignore_case = request["literal"], request["ignore_case"]
    pattern = re.escape(request["pattern"]) if literal else request["pattern"]
    search = re.compile(pattern, re.IGNORECASE if ignore_case else 0).search
    needle = request["pattern"].encode() if literal and not ignore_case else b""
    chosen = files(request, found)
    if request["ripgrep"]:
        rust = rust_pattern(pattern, ignore_case=ignore_case)
        if rust is not None:
            chosen = candidates(chosen, request["ripgrep"], rust, request["direct"])
    for path, full in chosen:
        try:
            with os.fdopen(os.open(full, FLAGS), "rb") as file:
                grep_file(file, path, found, search=search, needle=needle, context=request["context"])
        except OSError:
            found.unreadable += 1
        if found.more:
            return


def files(request: dict[str, Any], found: Found) -> Iterator[tuple[str, str]]:
    """(path below the root, whole path) of what is searched."""
    root = request["root"]
    if not os.path.isdir(root):  # noqa: PTH112
        yield "", root
        return
    matches = glob_filter(request["glob"])
    for path, entry, _ in walk(root, found, ignored=request["ignored"]):
        if entry.is_file(follow_symlinks=False) and matches(path):
            yield path, entry.path


def alarm(*_: object) -> None:
    raise OutOfTime


def main() -> None:
    request = json.load(sys.stdin)
    # Of an expression that is read otherwise than it is probably meant, such as [[:alpha:]].
    warnings.simplefilter("error", FutureWarning)
    found = Found(request["limit"])
    try:
        if hasattr(signal, "SIGALRM"):
            signal.signal(signal.SIGALRM, alarm)
            signal.alarm(request["seconds"])
        (grep if request["op"] == "grep" else find)(request, found)
    except OutOfTime:
        found.late = True
    except (re.error, RecursionError, OverflowError, FutureWarning) as error:
        json.dump({"error": str(error)}, sys.stdout)
        return
    json.dump(found.response(), sys.stdout)


if __name__ == "__main__":
    main()
