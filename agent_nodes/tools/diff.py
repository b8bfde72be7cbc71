"""A change of a text as a short unified diff, made from where it is known to be: a large file is not compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

AROUND = 3
MAX_LINES = 120
MAX_BYTES = 8 * 1024
LINE_CHARS = 300
COMPARED_LINES = 2_000


class Span(NamedTuple):
    """``start`` to ``end`` of the old text is what ``new_start`` to ``new_end`` of the new text is made of."""

    start: int
    end: int
    new_start: int
    new_end: int


def unified_diff(old: str, new: str, spans: Sequence[Span]) -> str:
    """The lines of the diff, cut with a note when they are many. ``spans`` are in order and apart."""
    out: list[str] = []
    size = 0
    for window in _windows(old, spans):
        for line in _hunks(old, new, window):
            shown = line if len(line) <= LINE_CHARS else f"{line[:LINE_CHARS]}…"
            size += len(shown.encode("utf-8", "replace")) + 1
            if len(out) >= MAX_LINES or size > MAX_BYTES:
                return "\n".join([*out, "[the rest of the diff is left out]"])
            out.append(shown)
    return "\n".join(out)


def _windows(old: str, spans: Sequence[Span]) -> list[Span]:
    """Whole lines around the spans, those close to each other together."""
    windows: list[Span] = []
    for span in spans:
        start, end = _lines_before(old, span.start), _lines_after(old, span.end)
        window = Span(start, end, span.new_start - (span.start - start), span.new_end + (end - span.end))
        if windows and start <= windows[-1].end:
            window = Span(windows[-1].start, end, windows[-1].new_start, window.new_end)
            windows.pop()
        windows.append(window)
    return windows


def _lines_before(text: str, at: int) -> int:
    for _ in range(AROUND + 1):
        at = text.rfind("\n", 0, at)
        if at < 0:
            return 0
    return at + 1


def _lines_after(text: str, at: int) -> int:
    for _ in range(AROUND + 1):
        end = text.find("\n", at)
        if end < 0:
            return len(text)
        at = end + 1
    return at


def _hunks(old: str, new: str, window: Span) -> list[str]:
    import difflib

    before = _lines(old[window.start : window.end])
    after = _lines(new[window.new_start : window.new_end])
    if max(len(before), len(after)) > COMPARED_LINES:
        return [f"@@ {len(before):,} lines became {len(after):,} @@"]
    first, new_first = old.count("\n", 0, window.start) + 1, new.count("\n", 0, window.new_start) + 1
    out: list[str] = []
    for group in difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(AROUND):
        (_, start, _, new_start, _), (_, _, end, _, new_end) = group[0], group[-1]
        out.append(f"@@ -{_range(first, start, end)} +{_range(new_first, new_start, new_end)} @@")
        for kind, a, b, c, d in group:
            if kind == "equal":
                out += _marked(" ", before[a:b])
                continue
            out += _marked("-", before[a:b])
            out += _marked("+", after[c:d])
    return out


def _lines(text: str) -> list[str]:
    """With their ends, of which the last may be missing."""
    lines = [f"{line}\n" for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "\n" else [*lines[:-1], lines[-1][:-1]]


def _range(first: int, start: int, end: int) -> str:
    """Lines as a diff counts them: a range without lines is named by the line before it."""
    count = end - start
    at = first + start - (count == 0)
    return f"{at}" if count == 1 else f"{at},{count}"


def _marked(sign: str, lines: Sequence[str]) -> list[str]:
    out: list[str] = []
    for line in lines:
        out.append(f"{sign}{line.removesuffix(chr(10))}")
        if not line.endswith("\n"):
            out.append("\\ No newline at end of file")
    return out
