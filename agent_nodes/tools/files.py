"""The tools write and ls; how a file is opened and how it is replaced, for the other tools too."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.messages import JsonObject, repair_text
from agent_nodes.tools.base import AgentTool, ToolContext
from agent_nodes.tools.bounds import Bounded, printable
from agent_nodes.tools.encodings import UTF16, encoding_of
from agent_nodes.tools.environment import Check, ToolError, display, off_loop, os_errors, resolve_path, short

CHUNK = 1 << 20

# Never wait for the other end of a pipe, never follow a link put there after the path was checked.
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@contextmanager
def open_file(path: Path, text: str) -> Generator[BinaryIO]:
    """The regular file at the real ``path``, to be read; ``text`` is how errors name it."""
    with os_errors(text):
        fd = os.open(path, _OPEN_FLAGS)
        try:
            require_regular(os.fstat(fd), text)
        except BaseException:
            os.close(fd)
            raise
        with os.fdopen(fd, "rb") as file:
            yield file


def require_regular(status: os.stat_result, text: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{short(text)} is a folder; list it with ls.")
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{short(text)} is no ordinary file (a device, pipe or socket).")


# write


def write_text(text: str, content: str, context: ToolContext, check: Check) -> str:
    """Make or replace a text file. CRLF endings, byte order mark and UTF-16 of the old file are kept."""
    if text.endswith("/"):
        raise ToolError(f"{short(text)} names a folder; give the path of a file.")
    path = resolve_path(text, context)
    content = repair_text(content)
    kept: list[str] = []
    with os_errors(text):
        old = _status(path)
        if old is not None:
            require_regular(old, text)
            data, kept = _in_style_of(path, text, content)
        else:
            data = content.encode()
            path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text, data, check)
    done = "Wrote" if old is None else "Replaced"
    also = f" (kept from the old file: {', '.join(kept)})" if kept else ""
    return f"{done} {display(path, context)}: {len(data):,} bytes{also}."


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _in_style_of(path: Path, text: str, content: str) -> tuple[bytes, list[str]]:
    with open_file(path, text) as file:
        head = file.read(CHUNK)
    encoding = encoding_of(head)
    kept: list[str] = []
    start = head[len(encoding.mark) :].decode(encoding.codec, "replace")
    breaks = start.count("\n")
    if breaks and start.count("\r\n") == breaks and "\r" not in content and "\n" in content:
        content = content.replace("\n", "\r\n")
        kept.append("CRLF line endings")
    if encoding in UTF16:
        kept.append("UTF-16")
    elif encoding.mark:
        kept.append("byte order mark")
    return encoding.encode(content.removeprefix("\ufeff") if encoding.mark else content), kept


def replace_file(path: Path, text: str, data: bytes, check: Check, *, seen: os.stat_result | None = None) -> None:
    """Put ``data`` at the real ``path`` so that a reader, and a crash at any moment, meets the old or the new file
    whole. Mode and, where allowed, owner of an old file are kept. ``seen`` is the state of the file that ``data`` was
    made from: another one is not replaced.

    Raises :class:`ToolError`; then the old file is as it was and nothing is left beside it.
    """
    with os_errors(text):
        old = _status(path)
        if old is not None and not os.access(path, os.W_OK):
            raise ToolError(f"{short(text)}: the file is read-only.")
        temporary = path.with_name(f".agent-nodes-{SYSTEM_CLOCK.new_id()}.tmp")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        try:
            try:
                if old is not None:
                    _take_over(fd, old)
                _write_all(fd, data, check)
                os.fsync(fd)
            finally:
                os.close(fd)
            if seen is not None and not _same(seen, _status(path)):
                raise ToolError(f"{short(text)} was changed meanwhile by something else; read it again.")
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def _same(seen: os.stat_result, now: os.stat_result | None) -> bool:
    if now is None:
        return False
    return (seen.st_ino, seen.st_size, seen.st_mtime_ns) == (now.st_ino, now.st_size, now.st_mtime_ns)


def _take_over(fd: int, old: os.stat_result) -> None:
    if hasattr(os, "fchown"):
        with suppress(PermissionError):
            os.fchown(fd, old.st_uid, old.st_gid)
        os.fchmod(fd, stat.S_IMODE(old.st_mode))


def _write_all(fd: int, data: bytes, check: Check) -> None:
    view = memoryview(data)
    while view:
        check()
        view = view[os.write(fd, view[:CHUNK]) :]


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # some file systems cannot; the file itself is on disk
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


# ls


def list_folder(text: str, limit: int, context: ToolContext, check: Check) -> str:
    """The entries of a folder, sorted without regard to case, at most ``limit`` of them."""
    path = resolve_path(text, context, to_read=True)
    with os_errors(text):
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise ToolError(f"{short(text)} is no folder; read a file with read.")
        with os.scandir(path) as entries:
            names = sorted((entry.name for entry in entries), key=_name_order)
    check()
    if not names:
        return f"[{display(path, context)} is an empty folder]"
    page = Bounded()
    for name in names[:limit]:
        if not page.add(_entry(path / name)):
            break
    left = len(names) - len(page.lines)
    note = f"{left:,} of {len(names):,} entries left out; raise limit, or use find with a pattern"
    return page.text(note if left else "")


def _name_order(name: str) -> tuple[str, str]:
    return name.casefold(), name


def _entry(path: Path) -> str:
    """Folders end with a slash; links show where they point."""
    name = printable(path.name)
    try:
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            return f"{name}/"
        if not stat.S_ISLNK(mode):
            return name
        target = printable(str(path.readlink()))
    except OSError:  # gone since it was listed, or unreadable
        return name
    try:
        return f"{name} -> {target}{'/' if stat.S_ISDIR(path.stat().st_mode) else ''}"
    except OSError:
        return f"{name} -> {target} (broken link)"


# the tools

PATH = {"type": "string", "description": "relative to the working directory, or absolute; ~ is the home folder"}


async def _write(arguments: JsonObject, context: ToolContext) -> str:
    return await off_loop(partial(write_text, arguments["path"], arguments["content"], context), context)


async def _ls(arguments: JsonObject, context: ToolContext) -> str:
    path, limit = arguments.get("path", "."), int(arguments.get("limit", 500))
    return await off_loop(partial(list_folder, path, limit, context), context)


WRITE = AgentTool(
    name="write",
    description=(
        "Create a file, or replace the whole content of one; missing folders are made. For a change in part of a file "
        "use edit. Line endings (CRLF), encoding (UTF-8 or UTF-16, with its mark) and mode of a replaced file are kept."
    ),
    parameters={
        "type": "object",
        "properties": {"path": PATH, "content": {"type": "string", "description": "the complete text of the file"}},
        "required": ["path", "content"],
        "additionalProperties": False,
    },
    execute=_write,
    execution="sequential",
)

LS = AgentTool(
    name="ls",
    description=(
        "List a folder by name, hidden entries too: folders end with '/', links show their target. At most `limit` "
        "entries (500 unless told); a note says how many are left out."
    ),
    parameters={
        "type": "object",
        "properties": {
            "path": {**PATH, "description": "the folder; the working directory unless told"},
            "limit": {"type": "integer", "minimum": 1, "description": "how many entries at most"},
        },
        "additionalProperties": False,
    },
    execute=_ls,
    replay="safe",
)
