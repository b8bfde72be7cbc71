"""The tools grep and find. The walk is done by search_worker.py; here are the rules and the wording."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from agent_nodes.messages import JsonObject, repair_text
from agent_nodes.tools.base import AgentTool, ToolContext
from agent_nodes.tools.bounds import Bounded, printable
from agent_nodes.tools.environment import Check, ToolError, display, off_loop, os_errors, resolve_path, short
from agent_nodes.tools.files import PATH, open_file
from agent_nodes.tools.searching.lines import HEAD_BYTES, is_binary

WORKER = Path(__file__).with_name("search_worker.py")
SECONDS = 30
POLL = 0.1
MAX_CONTEXT = 20
DIRECT = 100
SHOWN_LEFT_OUT = 5


def ripgrep() -> str | None:
    """The path of the program ``rg``: that on PATH, else one that was installed beside our Python."""
    import shutil

    beside = Path(sys.executable).with_name("rg")
    return shutil.which("rg") or (str(beside) if os.access(beside, os.X_OK) else None)


def find_files(arguments: JsonObject, context: ToolContext, check: Check) -> str:
    pattern, text = arguments["pattern"], arguments.get("path", ".")
    if pattern.startswith("/"):
        raise ToolError("pattern: give it relative to path, and the folder to search as path.")
    root, prefix = _root(text, context)
    if not root.is_dir():
        raise ToolError(f"{short(text)} is no folder; find searches folders.")
    request = {
        "op": "find",
        "root": str(root),
        "pattern": pattern,
        "ignored": arguments.get("ignored", False),
        "limit": int(arguments.get("limit", 500)),
    }
    response = _scan(request, context, check)
    page = Bounded()
    cut = response["more"]
    for path, is_folder in response["items"]:
        if not page.add(f"{prefix}{printable(path)}{'/' if is_folder else ''}"):
            cut = True
            break
    more = f"only the first {len(page.lines):,} are shown; narrow pattern or path" if cut else ""
    return page.text("" if page.lines else f"nothing matches {short(pattern)}", more, *_remarks(response, prefix))


def grep_files(arguments: JsonObject, context: ToolContext, check: Check) -> str:
    text = arguments.get("path", ".")
    root, prefix = _root(text, context)
    request = {
        "op": "grep",
        "root": str(root),
        "pattern": arguments["pattern"],
        "glob": arguments.get("glob"),
        "ignore_case": arguments.get("ignore_case", False),
        "literal": arguments.get("literal", False),
        "ignored": arguments.get("ignored", False),
        "ripgrep": ripgrep(),
        "direct": DIRECT,
        "context": int(arguments.get("context", 0)),
        "limit": int(arguments.get("limit", 100)),
    }
    if not root.is_dir():
        prefix = display(root, context)
        with open_file(root, text) as file:
            if is_binary(file.read(HEAD_BYTES)):
                raise ToolError(f"{short(text)} is a binary file; grep searches text.")
    response = _scan(request, context, check)
    page, shown, matches = _grep_page(response["items"], prefix, bool(request["context"]))
    cut = response["more"] or shown < matches
    more = f"only the first {shown:,} matches are shown; narrow pattern, path or glob" if cut else ""
    none = "" if page.lines else "no match"
    if none and re.search(r"\n|\\n", arguments["pattern"]):
        none = "no match; lines are compared one by one, so a line break in pattern never fits"
    return page.text(none, more, *_remarks(response, prefix))


def _grep_page(items: list[list[Any]], prefix: str, groups: bool) -> tuple[Bounded, int, int]:
    """``path:line:text`` for a match, ``path-line-text`` around it; ``--`` between groups. Also how many matches went
    in, and how many there are."""
    page = Bounded()
    shown = 0
    previous: tuple[str, int] | None = None
    for path, number, line, is_match in items:
        if groups and previous not in (None, (path, number - 1)) and not page.add("--"):
            break
        mark = ":" if is_match else "-"
        if not page.add(f"{prefix}{printable(path)}{mark}{number}{mark}{repair_text(line)}"):
            break
        shown += is_match
        previous = (path, number)
    return page, shown, sum(item[3] for item in items)


def _root(text: str, context: ToolContext) -> tuple[Path, str]:
    """Where to search, and what stands before the found paths so that they can be used with the other tools."""
    root = resolve_path(text, context, to_read=True)
    with os_errors(text):
        root.lstat()
    name = display(root, context)
    return root, "" if name == "." else "/" if name == "/" else f"{name}/"


def _remarks(response: JsonObject, prefix: str) -> list[str]:
    notes: list[str] = []
    left_out = [prefix + printable(path) for path in response["left_out"][:SHOWN_LEFT_OUT]]
    if len(response["left_out"]) > SHOWN_LEFT_OUT:
        left_out.append("…")
    if count := response["ignored_files"]:
        left_out.append(f"{count:,} {'file' if count == 1 else 'files'} that .gitignore names")
    if left_out:
        notes.append(f"not searched: {', '.join(left_out)}; set ignored to search all of it, or give one as path")
    if response["unreadable"]:
        notes.append(f"{response['unreadable']:,} files or folders could not be read")
    if response["late"]:
        notes.append(f"stopped after {SECONDS} s, so the list may be incomplete; narrow pattern, path or glob")
    return notes


def _scan(request: JsonObject, context: ToolContext, check: Check) -> JsonObject:
    # Isolated, without site packages: it starts in a few milliseconds and nothing of the user's is imported.
    command = [sys.executable, "-I", "-S", "-X", "utf8", str(WORKER)]
    payload: bytes | None = json.dumps({**request, "seconds": SECONDS}).encode()
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **context.environment},
        start_new_session=True,  # Ctrl-C on our terminal is ours to handle
    ) as process:
        try:
            # The worker ends by itself; the limit here is for one that does not.
            for _ in range(int((SECONDS + 10) / POLL)):
                try:
                    out, err = process.communicate(payload, timeout=POLL)
                    break
                except subprocess.TimeoutExpired:
                    payload = None
                    check()
            else:
                raise ToolError(f"The search took longer than {SECONDS} s; narrow pattern, path or glob.")
        finally:
            _end(process)
    if process.returncode != 0:
        last = err.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ToolError(f"The search failed (status {process.returncode}): {last}")
    response: JsonObject = json.loads(out)
    if "error" in response:
        advice = "; set literal to search for the plain text" if request["op"] == "grep" else ""
        raise ToolError(f"pattern: {response['error']}{advice}.")
    return response


def _end(process: subprocess.Popen[bytes]) -> None:
    """With the ripgrep that it may have started."""
    if process.returncode is None and hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


async def _grep(arguments: JsonObject, context: ToolContext) -> str:
    return await off_loop(partial(grep_files, arguments, context), context)


async def _find(arguments: JsonObject, context: ToolContext) -> str:
    return await off_loop(partial(find_files, arguments, context), context)


IGNORED = {"type": "boolean", "description": "also what .gitignore names, node_modules, virtual environments"}

GREP = AgentTool(
    name="grep",
    description=(
        "Search the lines of text files for a regular expression (Python's). Gives path:line:text, of long lines the "
        "part around the match; at most `limit` matches (100 unless told). Hidden files are searched; what .gitignore "
        "names, node_modules and virtual environments only with `ignored` or when path names them; binary files and "
        "version control never. Links are not followed."
    ),
    parameters={
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "minLength": 1, "description": "regular expression, matched line by line"},
            "path": {**PATH, "description": "file or folder; the working directory unless told"},
            "glob": {"type": "string", "description": "only files like this: '*.py', 'src/**/*.{ts,tsx}'"},
            "ignore_case": {"type": "boolean"},
            "literal": {"type": "boolean", "description": "take pattern as plain text"},
            "context": {
                "type": "integer",
                "minimum": 0,
                "maximum": MAX_CONTEXT,
                "description": "lines to show before and after each match",
            },
            "limit": {"type": "integer", "minimum": 1, "description": "how many matches at most"},
            "ignored": IGNORED,
        },
        "required": ["pattern"],
        "additionalProperties": False,
    },
    execute=_grep,
    replay="safe",
)

FIND = AgentTool(
    name="find",
    description=(
        "Find files and folders by name. A pattern without '/' is compared with names at any depth ('*.md'), one with "
        "'/' with paths below `path` ('docs/**/*.md'). Folders end with '/'. At most `limit` results (500 unless "
        "told). Hidden ones are found; what .gitignore names, node_modules and virtual environments only with "
        "`ignored` or when path names them. Links are not followed."
    ),
    parameters={
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "minLength": 1, "description": "a glob: * ? ** [abc] {a,b}"},
            "path": {**PATH, "description": "the folder to search; the working directory unless told"},
            "limit": {"type": "integer", "minimum": 1, "description": "how many results at most"},
            "ignored": IGNORED,
        },
        "required": ["pattern"],
        "additionalProperties": False,
    },
    execute=_find,
    replay="safe",
)
