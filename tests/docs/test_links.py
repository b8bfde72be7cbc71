"""Nothing in the documents leads nowhere, and nothing in them is of one machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, anchors, links, name, pages

_ELSEWHERE = re.compile(r"https?://")
_OF_A_MACHINE = re.compile(
    r"(?<![\w.~])/(?:home|root|Users|work|tmp|var|opt|private)/\w|[A-Z]:\\\\?Users", re.IGNORECASE
)


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_link_of_the_page_leads_somewhere(page: Path) -> None:
    lost = [link for link in links(page) if not _ELSEWHERE.match(link) and not leads_somewhere(page, link)]
    assert lost == []


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or anchor in anchors(target)


@pytest.mark.parametrize("page", pages(), ids=name)
def test_the_page_names_no_path_of_a_machine(page: Path) -> None:
    assert _OF_A_MACHINE.findall(page.read_text()) == []


def test_every_page_is_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    left = [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page in reached:
            continue
        reached.add(page)
        for link in links(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.is_file():
                left.append(target)
    assert [name(page) for page in pages() if page not in reached] == []
