"""The tool edit: exact replacements in a text file, all of them or none."""

from __future__ import annotations

import os
from bisect import bisect_left
from dataclasses import dataclass
from functools import partial
from typing import Any

from agent_nodes.messages import JsonObject, repair_text
from agent_nodes.tools.base import AgentTool, ToolContext
from agent_nodes.tools.diff import Span, unified_diff
from agent_nodes.tools.encodings import Encoding, encoding_of
from agent_nodes.tools.environment import Check, ToolError, display, off_loop, resolve_path, short
from agent_nodes.tools.files import PATH, open_file, replace_file
from agent_nodes.tools.nearest import describe_nearest

MAX_FILE = 64 << 20
SHOWN_PLACES = 20
SOUGHT = 8  # characters from which a text that is there already says something


@dataclass(frozen=True, slots=True)
class _Text:
    """A file as text with plain line ends. ``crlf`` holds the positions of the ends that are CRLF in the file; bytes
    that are no UTF-8 are there as lone surrogates, so that they come back as they were."""

    plain: str
    crlf: tuple[int, ...]
    mostly_crlf: bool
    encoding: Encoding

    @classmethod
    def of(cls, data: bytes) -> _Text:
        encoding = encoding_of(data)
        try:
            text = encoding.decode(data)
        except UnicodeDecodeError as error:
            raise ToolError("the file is damaged UTF-16; change it with a command in bash.") from error
        if "\r\n" not in text:
            return cls(text, (), False, encoding)
        pieces = text.split("\r\n")
        crlf: list[int] = []
        position = -1
        for piece in pieces[:-1]:
            position += len(piece) + 1
            crlf.append(position)
        plain = "\n".join(pieces)
        return cls(plain, tuple(crlf), 2 * len(crlf) >= plain.count("\n"), encoding)

    def original(self, start: int, end: int) -> str:
        """The text between two positions of ``plain`` with the line ends of the file."""
        ends = self.crlf[bisect_left(self.crlf, start) : bisect_left(self.crlf, end)]
        parts: list[str] = []
        for position in ends:
            parts += self.plain[start:position], "\r\n"
            start = position + 1
        return "".join([*parts, self.plain[start:end]])

    def ends_like(self, start: int, end: int) -> bool:
        """Whether new text for this place takes CRLF: as the place itself has it, else as most of the file."""
        first = self.plain.find("\n", start, end)
        if first < 0:
            return self.mostly_crlf
        at = bisect_left(self.crlf, first)
        return at < len(self.crlf) and self.crlf[at] == first


@dataclass(frozen=True, slots=True, order=True)
class _Change:
    start: int
    end: int
    new: str
    number: int


@dataclass(frozen=True, slots=True)
class Edited:
    data: bytes
    diff: str


def apply_edits(data: bytes, edits: list[dict[str, str]]) -> Edited:
    """``data`` with every edit made. All old texts are looked up in ``data`` itself.

    Raises :class:`ToolError` with a reason when one of them is not there exactly once.
    """
    text = _Text.of(data)
    changes = sorted(_locate(text.plain, edit, number) for number, edit in enumerate(edits, 1))
    parts: list[str] = []
    plain: list[str] = []
    spans: list[Span] = []
    done = size = 0
    for before, change in zip([None, *changes], changes, strict=False):
        if before is not None and change.start < before.end:
            raise ToolError(
                f"edits {before.number} and {change.number} overlap; make one edit of them. Nothing was changed."
            )
        new = change.new.replace("\n", "\r\n") if text.ends_like(change.start, change.end) else change.new
        parts += text.original(done, change.start), new
        plain += text.plain[done : change.start], change.new
        start = size + change.start - done
        size = start + len(change.new)
        spans.append(Span(change.start, change.end, start, size))
        done = change.end
    parts.append(text.original(done, len(text.plain)))
    plain.append(text.plain[done:])
    return Edited(text.encoding.encode("".join(parts)), unified_diff(text.plain, "".join(plain), spans))


def _locate(plain: str, edit: dict[str, str], number: int) -> _Change:
    old = repair_text(edit["old_text"]).replace("\r\n", "\n")
    new = repair_text(edit["new_text"]).replace("\r\n", "\n")
    if not old:
        raise ToolError(f"edit {number}: old_text is empty; give the text to replace. Nothing was changed.")
    if old == new:
        raise ToolError(f"edit {number}: old_text and new_text are the same. Nothing was changed.")
    start = plain.find(old)
    if start < 0:
        raise ToolError(f"edit {number}: old_text is not in the file. Nothing was changed. {_hint(plain, old, new)}")
    if plain.find(old, start + 1) >= 0:
        raise ToolError(f"edit {number}: {_places(plain, old)}; add lines around it to name one. Nothing was changed.")
    return _Change(start, start + len(old), new, number)


def _places(plain: str, old: str) -> str:
    """Overlapping places count: each of them could have been meant."""
    count, lines, line, done, start = 0, list[str](), 1, 0, plain.find(old)
    while start >= 0:
        line += plain.count("\n", done, start)
        done = start
        if count < SHOWN_PLACES:
            lines.append(f"{line}")
        count += 1
        start = plain.find(old, start + 1)
    more = f" and {count - SHOWN_PLACES:,} more" if count > SHOWN_PLACES else ""
    return f"old_text is at {count:,} places (lines {', '.join(lines)}{more})"


def _hint(plain: str, old: str, new: str) -> str:
    at = plain.find(new) if len(new.strip()) >= SOUGHT else -1
    if at >= 0:
        line = plain.count("\n", 0, at) + 1
        return f"new_text is there already, at line {line:,}: the edit may have been made before."
    return describe_nearest(plain, old)


def edit_file(text: str, edits: list[dict[str, str]], context: ToolContext, check: Check) -> str:
    path = resolve_path(text, context)
    with open_file(path, text) as file:
        status = os.fstat(file.fileno())
        if status.st_size > MAX_FILE:
            raise ToolError(f"{short(text)} is larger than {MAX_FILE >> 20} MB; change it with a command in bash.")
        data = file.read()
    name = display(path, context)
    try:
        edited = apply_edits(data, edits)
    except ToolError as error:
        raise ToolError(f"{name}: {error}") from error
    replace_file(path, text, edited.data, check, seen=status)
    return f"Edited {name}:\n{repair_text(edited.diff)}"


async def _edit(arguments: JsonObject, context: ToolContext) -> str:
    edits: list[Any] = arguments["edits"]
    return await off_loop(partial(edit_file, arguments["path"], edits, context), context)


EDIT = AgentTool(
    name="edit",
    description=(
        "Replace exact pieces of a text file. Each old_text must be there exactly once, letter for letter with its "
        "spaces and line breaks: copy it from read, with enough lines around it to be the only one. All edits refer to "
        "the file as it is now and must not overlap; if one of them fails, none is made and you are told the nearest "
        "place. Line endings and encoding are kept. Gives the change as a diff."
    ),
    parameters={
        "type": "object",
        "properties": {
            "path": PATH,
            "edits": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": {
                        "old_text": {"type": "string", "description": "the exact text to replace"},
                        "new_text": {"type": "string", "description": "what to put there, taken literally"},
                    },
                    "required": ["old_text", "new_text"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["path", "edits"],
        "additionalProperties": False,
    },
    execute=_edit,
    execution="sequential",
)
