"""The tool read: pages of text files, pictures as pictures, a short notice for all else."""

from __future__ import annotations

import os
from functools import partial
from io import BytesIO
from typing import BinaryIO

from agent_nodes.messages import JsonObject, TextBlock
from agent_nodes.tools.base import AgentTool, AgentToolResult, ToolContext
from agent_nodes.tools.bounds import MAX_BYTES, MAX_LINES, Bounded
from agent_nodes.tools.encodings import HEAD_BYTES, UTF16, encoding_of
from agent_nodes.tools.environment import Check, ToolError, display, off_loop, resolve_path
from agent_nodes.tools.files import CHUNK, PATH, open_file
from agent_nodes.tools.image_header import image_kind
from agent_nodes.tools.pictures import MAX_FILE, load_picture

LINE_BYTES = 8_000
COUNTED_BYTES = 64 << 20
MAX_DECODED = 64 << 20
_UNKNOWN = "\ufffd".encode()


def kind_of(head: bytes) -> str | None:
    """What the first bytes of a file say that it is; None for text. The name of the file does not count."""
    if head.startswith(b"%PDF-"):
        return "application/pdf"
    return image_kind(head) or ("binary data" if b"\x00" in head else None)


def read_file(text: str, offset: int, limit: int, context: ToolContext, check: Check) -> str | AgentToolResult:
    """Lines ``offset`` (from 1) to ``offset + limit - 1`` of a text file, as far as the output limit lets them; or the
    picture that the file is."""
    path = resolve_path(text, context, to_read=True)
    with open_file(path, text) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(HEAD_BYTES)
        name = display(path, context)
        encoding = encoding_of(head)
        if not head[len(encoding.mark) :]:
            return f"[{name} is empty]"
        page = partial(_read_page, name=name, size=size, offset=offset, limit=limit, check=check)
        if encoding in UTF16 and size <= MAX_DECODED:
            decoded = (head + file.read()).decode(encoding.codec, "replace").removeprefix("\ufeff")
            return page(BytesIO(decoded.encode()), note="the file is UTF-16; edit and write keep it so")
        kind = kind_of(head)
        if kind is not None and kind.startswith("image/"):
            return _show(head + file.read(MAX_FILE), name)
        if kind is not None:
            return _notice(name, kind, size)
        file.seek(len(encoding.mark))
        return page(file)


def _show(data: bytes, name: str) -> AgentToolResult:
    shown = load_picture(data, name)
    return AgentToolResult((TextBlock(f"[{name} is {shown.words()}]"), shown.block))


def _notice(name: str, kind: str, size: int) -> str:
    hint = "; `pdftotext FILE -` in bash shows its text where that is installed" if kind == "application/pdf" else ""
    return f"[{name} is {kind}, {size:,} bytes; it has no text to show{hint}]"


def _read_page(file: BinaryIO, name: str, size: int, *, offset: int, limit: int, check: Check, note: str = "") -> str:
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
    notes = [note]
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
    return f"more of the cut line {number}, where bash is offered: `{command}`"


async def _read(arguments: JsonObject, context: ToolContext) -> str | AgentToolResult:
    # A schema's integer may be 5.0.
    offset, limit = int(arguments.get("offset", 1)), int(arguments.get("limit", MAX_LINES))
    return await off_loop(partial(read_file, arguments["path"], offset, limit, context), context)


READ = AgentTool(
    name="read",
    description=(
        f"Read a text file, or look at a picture. You get the lines as they are, up to {MAX_LINES:,} lines or "
        f"{MAX_BYTES // 1024} KB; when there is more, a note at the end gives the offset to go on with. Very long "
        "lines are cut and marked. Pictures (PNG, JPEG, GIF, WebP and others) come as pictures. Folders are for ls."
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
