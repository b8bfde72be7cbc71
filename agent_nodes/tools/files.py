"""The tools read, write and ls, and the atomic replacement that edit uses too."""

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
from agent_nodes.tools.bounds import MAX_BYTES, MAX_LINES, Bounded, printable
from agent_nodes.tools.environment import Check, ToolError, display, off_loop, os_errors, resolve_path, short

LINE_BYTES = 8_000
HEAD_BYTES = 8_192
CHUNK = 1 << 20
COUNTED_BYTES = 64 << 20
BOM = b"\xef\xbb\xbf"
_UNKNOWN = "\ufffd".encode()

# Never wait for the other end of a pipe, never follow a link put there after the path was checked.
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)


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


def kind_of(head: bytes) -> str | None:
    """What the first bytes of a file say that it is; None for text. The name of the file does not count."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return "binary data" if b"\x00" in head else None


# read


def read_text(text: str, offset: int, limit: int, context: ToolContext, check: Check) -> str:
    """Lines ``offset`` (from 1) to ``offset + limit - 1`` of a text file, as far as the output limit lets them."""
    path = resolve_path(text, context)
    with open_file(path, text) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(HEAD_BYTES)
        name = display(path, context)
        if kind := kind_of(head):
            return _notice(name, kind, size)
        if not head.removeprefix(BOM):
            return f"[{name} is empty]"
        file.seek(len(BOM) if head.startswith(BOM) else 0)
        return _read_page(file, name, size, offset=offset, limit=limit, check=check)


def _notice(name: str, kind: str, size: int) -> str:
    if kind == "UTF-16 text":
        return f"[{name} is {kind}, {size:,} bytes; `iconv -f UTF-16 -t UTF-8` in bash makes it readable]"
    return f"[{name} is {kind}, {size:,} bytes; it has no text to show]"


def _read_page(file: BinaryIO, name: str, size: int, *, offset: int, limit: int, check: Check) -> str:
    page = Bounded()
    number = cut_line = 0
    crlf = broken = more = False
    while (item := _next_line(file, check)) is not None:
        head, length, ending = item
        number += 1
        if number < offset:
            continue
        line = head.decode("utf-8", "ignore" if length > len(head) else "replace")
        if length > len(head):
            line += f" [line cut here: {len(head):,} of {length:,} bytes]"
        if len(page.lines) >= limit or not page.add(line):
            more = True
            break
        crlf |= ending == b"\r\n"
        broken |= "\ufffd" in line and _UNKNOWN not in head
        cut_line = cut_line or (number if length > len(head) else 0)
    if not page.lines:
        raise ToolError(f"{name} has {number:,} {'line' if number == 1 else 'lines'}; offset {offset} is past its end.")
    last = offset + len(page.lines) - 1
    notes: list[str] = []
    if cut_line:
        notes.append(_rest_of_line(name, cut_line))
    if broken:
        notes.append("bytes that are not UTF-8 are shown as \ufffd: edit keeps them, write would not")
    if crlf:
        notes.append("line endings are CRLF, shown as plain ones; edit and write keep them")
    if more or offset > 1:
        rest = _lines_left(file, check) if more else 0
        total = f"more than {number:,}" if rest is None else f"{number + rest:,}"
        step = f"; go on with offset {last + 1}" if more else ""
        notes.append(f"lines {offset:,}-{last:,} of {total}, {size:,} bytes in all{step}")
    return page.text(*notes)


def _next_line(file: BinaryIO, check: Check) -> tuple[bytes, int, bytes] | None:
    """The next line without its ending and at most LINE_BYTES of it, its whole length, and the ending."""
    head = part = file.readline(LINE_BYTES + 2)
    if not head:
        return None
    length = len(head)
    while not part.endswith(b"\n") and (more := file.readline(CHUNK)):
        part = more
        length += len(part)
        check()
    ending = b"\r\n" if part.endswith(b"\r\n") else b"\n" if part.endswith(b"\n") else b""
    length -= len(ending)
    return head[: min(length, LINE_BYTES)], length, ending


def _lines_left(file: BinaryIO, check: Check) -> int | None:
    """How many lines follow; None when counting them would take long."""
    count = read = 0
    last = b"\n"
    while data := file.read(CHUNK):
        check()
        count += data.count(b"\n")
        last = data
        read += len(data)
        if read > COUNTED_BYTES:
            return None
    return count + (not last.endswith(b"\n"))


def _rest_of_line(name: str, number: int) -> str:
    import shlex

    command = f"sed -n '{number}p' {shlex.quote(name)} | tail -c +{LINE_BYTES + 1} | head -c {LINE_BYTES}"
    return f"more of the cut line {number}: `{command}` in bash; grep shows the part around a match"


# write


def write_text(text: str, content: str, context: ToolContext, check: Check) -> str:
    """Make or replace a text file. CRLF endings and a byte order mark of the old file are kept."""
    if text.endswith("/"):
        raise ToolError(f"{short(text)} names a folder; give the path of a file.")
    path = resolve_path(text, context)
    data = repair_text(content).encode()
    kept: list[str] = []
    with os_errors(text):
        old = _status(path)
        if old is not None:
            require_regular(old, text)
            data, kept = _in_style_of(path, text, data)
        else:
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


def _in_style_of(path: Path, text: str, data: bytes) -> tuple[bytes, list[str]]:
    with open_file(path, text) as file:
        head = file.read(CHUNK)
    kept: list[str] = []
    breaks = head.count(b"\n")
    if breaks and head.count(b"\r\n") == breaks and b"\n" in data and b"\r" not in data:
        data = data.replace(b"\n", b"\r\n")
        kept.append("CRLF line endings")
    if head.startswith(BOM) and not data.startswith(BOM):
        data = BOM + data
        kept.append("byte order mark")
    return data, kept


def replace_file(path: Path, text: str, data: bytes, check: Check) -> None:
    """Put ``data`` at the real ``path`` so that a reader, and a crash at any moment, meets the old or the new file
    whole. Mode and, where allowed, owner of an old file are kept.

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
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


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
    path = resolve_path(text, context)
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


async def _read(arguments: JsonObject, context: ToolContext) -> str:
    # A schema's integer may be 5.0.
    offset, limit = int(arguments.get("offset", 1)), int(arguments.get("limit", MAX_LINES))
    return await off_loop(partial(read_text, arguments["path"], offset, limit, context), context)


async def _write(arguments: JsonObject, context: ToolContext) -> str:
    return await off_loop(partial(write_text, arguments["path"], arguments["content"], context), context)


async def _ls(arguments: JsonObject, context: ToolContext) -> str:
    path, limit = arguments.get("path", "."), int(arguments.get("limit", 500))
    return await off_loop(partial(list_folder, path, limit, context), context)


READ = AgentTool(
    name="read",
    description=(
        f"Read a text file. You get its lines as they are, up to {MAX_LINES:,} lines or {MAX_BYTES // 1024} KB; when "
        "there is more, a note at the end gives the offset to go on with. Very long lines are cut and marked. Folders "
        "are for ls."
    ),
    parameters={
        "type": "object",
        "properties": {
            "path": PATH,
            "offset": {"type": "integer", "minimum": 1, "description": "first line, from 1"},
            "limit": {"type": "integer", "minimum": 1, "description": "how many lines at most"},
        },
        "required": ["path"],
        "additionalProperties": False,
    },
    execute=_read,
    replay="safe",
)

WRITE = AgentTool(
    name="write",
    description=(
        "Create a file, or replace the whole content of one; missing folders are made. For a change in part of a file "
        "use edit. Line endings (CRLF), byte order mark and mode of a replaced file are kept."
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
