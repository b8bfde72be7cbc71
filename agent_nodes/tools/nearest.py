"""Where in a file the text probably is that is not there letter for letter, and how it differs: for a message alone,
nothing is ever edited by likeness."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from agent_nodes.messages import repair_text

SHOWN_LINES = 10
SHOWN_CHARS = 300
SHOWN_PLACES = 3
COMPARED_LINES = 20_000
COMPARED_CHARS = 400

_ASCII = str.maketrans("‘’‚‛“”„‟«»′″‐‑‒–—−…", '\'\'\'\'""""""\'"------.')
_BYTE = re.compile("[\udc80-\udcff]")
_QUOTES = re.compile(r"[\"'`]")


def _spaces(line: str) -> str:
    return " ".join(line.split())


def _typography(line: str) -> str:
    return _QUOTES.sub("'", _spaces(unicodedata.normalize("NFKC", line).translate(_ASCII)))


def _case(line: str) -> str:
    return _typography(line).casefold()


# From the smallest difference to the largest.
_LIKENESSES: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("spaces, tabs or line breaks", _spaces),
    ("quotes, dashes or other typography", _typography),
    ("upper and lower case", _case),
)


def describe_nearest(plain: str, old: str) -> str:
    """One or more sentences on the place in ``plain`` that is most like ``old``; lines are told by number."""
    lines = plain.split("\n")
    wanted = old.strip("\n").split("\n")
    if not old.strip():
        return "Give a text that holds more than blanks and line breaks."
    for what, like in _LIKENESSES:
        found = _find([like(line) for line in lines], [like(line) for line in wanted])
        if found:
            return _describe(lines, wanted, found, f"only {what} differ")
    similar = _similar(lines, wanted)
    if similar is None:
        return "No line of the file is like it; read the file again."
    return _describe(lines, wanted, [similar], "the text differs")


def _find(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where ``wanted`` begins: its first line may begin, and its last line end, in the middle of a line."""
    first, *middle = wanted
    if not middle:
        return [at for at, line in enumerate(lines) if first in line]
    last = middle.pop()
    count = len(wanted)
    return [
        at
        for at in range(len(lines) - count + 1)
        if lines[at].endswith(first)
        and lines[at + count - 1].startswith(last)
        and list(lines[at + 1 : at + count - 1]) == middle
    ]


def _similar(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """By the most telling line, which is the longest."""
    import difflib

    offset, anchor = max(enumerate(wanted), key=lambda item: len(item[1].strip()))
    compared = [line[:COMPARED_CHARS] for line in lines[:COMPARED_LINES]]
    near = difflib.get_close_matches(anchor[:COMPARED_CHARS], compared, n=1, cutoff=0.6)
    return max(0, compared.index(near[0]) - offset) if near else None


def _describe(lines: Sequence[str], wanted: Sequence[str], places: Sequence[int], difference: str) -> str:
    start = places[0]
    end = min(start + len(wanted), len(lines))
    where = f"line {start + 1:,}" if end == start + 1 else f"lines {start + 1:,}-{end:,}"
    more = [f"{place + 1:,}" for place in places[1 : SHOWN_PLACES + 1]]
    also = f" (also from line {', '.join(more)}{', …' if len(places) > SHOWN_PLACES + 1 else ''})" if more else ""
    shown = [_cut(line) for line in lines[start : min(end, start + SHOWN_LINES)]]
    out = [f"Nearest, where {difference}, is {where}{also}:", *shown]
    if end - start > SHOWN_LINES:
        out.append("…")
    for number, (there, here) in enumerate(zip(lines[start:end], wanted, strict=False), start + 1):
        if not _agree(there, here, first=number == start + 1, last=number == start + len(wanted)):
            out += [f"Line {number:,} is    {_visible(there)}", f"old_text has {_visible(here)}"]
            if _BYTE.search(there):
                out.append("The line holds bytes that are not UTF-8, shown as \\xNN here; leave them out of old_text.")
            break
    return repair_text("\n".join(out))


def _agree(there: str, here: str, *, first: bool, last: bool) -> bool:
    if first:
        return here in there if last else there.endswith(here)
    return there.startswith(here) if last else there == here


def _cut(line: str) -> str:
    return line if len(line) <= SHOWN_CHARS else f"{line[:SHOWN_CHARS]}…"


def _visible(line: str) -> str:
    """In quotes, with every blank that is not a plain space as an escape."""
    return f'"{"".join(map(_escaped, _cut(line)))}"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if _BYTE.match(char):
        return f"\\x{ord(char) & 0xFF:02x}"
    if char == "\t":
        return "\\t"
    if char == "\r":
        return "\\r"
    if char != " " and unicodedata.category(char) in ("Zs", "Zl", "Zp", "Cc", "Cf"):
        return f"\\u{ord(char):04x}"
    return char
