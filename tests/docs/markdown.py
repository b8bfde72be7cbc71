"""The documents as a test sees them: pages, their fenced blocks with the notes in front of them, their links.

A note is an HTML comment right in front of a fence, unseen by readers:

    <!-- not run: REASON -->     why the block cannot run here
    <!-- model: EXPRESSION -->   the replies of the fake service, in the words of ``tests.fakes``, parted by ``;``
    <!-- ends with: STATUS -->   how its process ends, where that is not with 0; a signal is a negative number

A ``text`` block right behind one that runs is what that one prints.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(?P<language>[\w-]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_NOTE = re.compile(r"<!-- (?P<kind>not run|model|ends with): (?P<text>(?:(?!-->).)*) -->\s*\Z", re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Fence:
    """``output`` is the text of the block behind it, None where there is none."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str | None
    model: str | None
    status: int
    output: str | None

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Every document that a reader is led to."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def fences(page: Path) -> list[Fence]:
    source = page.read_text()
    found = list(_FENCE.finditer(source))
    out: list[Fence] = []
    for number, match in enumerate(found):
        after = found[number + 1] if number + 1 < len(found) else None
        behind = after is not None and after["language"] == "text" and not source[match.end() : after.start()].strip()
        out.append(
            Fence(
                page,
                source.count("\n", 0, match.start()) + 1,
                match["language"],
                match["text"],
                _note(source[: match.start()], "not run"),
                _note(source[: match.start()], "model"),
                int(_note(source[: match.start()], "ends with") or 0),
                after["text"] if after is not None and behind else None,
            )
        )
    return out


def _note(before: str, kind: str) -> str | None:
    match = _NOTE.search(before)
    return match["text"] if match is not None and match["kind"] == kind else None


def links(page: Path) -> list[str]:
    """The targets of the page's links, code left out."""
    prose = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", page.read_text()))
    return [match["target"] for match in _LINK.finditer(prose)]


def anchors(page: Path) -> set[str]:
    """What a link may name behind ``#``, made of the headings as the usual viewers make it."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def rows(page: Path) -> list[str]:
    """The first cell of each row of the page's tables."""
    cells = re.findall(r"^\| *(.*?) *(?<!\\)\|", page.read_text(), re.MULTILINE)
    return [cell for cell in cells if not re.fullmatch(r":?-+:?", cell)]


def codes(page: Path) -> list[str]:
    """Everything that stands in code marks in the first cells of the page's tables."""
    return [code for cell in rows(page) for code in re.findall(r"`([^`]+)`", cell)]
