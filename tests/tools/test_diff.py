"""The diff that edit shows says what was done: put on the old text it gives the new one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_nodes.tools.diff import Span, unified_diff

pytestmark = pytest.mark.feature("D01")

NO_END = "\\ No newline at end of file"
WORDS = st.text(st.sampled_from("ab\n"), max_size=12)


def patched(old: str, diff: str) -> str:
    """``old`` with ``diff`` put on, every line of it checked."""
    lines, out, at = old.split("\n"), list[str](), 0
    for line in diff.split("\n") if diff else []:
        head = re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line)
        if head:
            start = int(head[1]) - (head[2] != "0")
            out += lines[at:start]
            at = start
            assert len(out) == int(head[3]) - (head[4] != "0")
        else:
            sign, text = line[0], line[1:]
            if sign in " -":
                assert lines[at] == text
                at += 1
            if sign in " +":
                out.append(text)
    return "\n".join([*out, *lines[at:]])


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=4), WORDS)
def test_put_on_the_old_text_it_gives_the_new_one(pieces, rest) -> None:
    old = new = ""
    spans: list[Span] = []
    for kept, gone, come in pieces:
        old, new = old + kept, new + kept
        spans.append(Span(len(old), len(old) + len(gone), len(new), len(new) + len(come)))
        old, new = old + gone, new + come
    old, new = old + rest + "\n", new + rest + "\n"
    assert patched(old, unified_diff(old, new, spans)) == new


@pytest.mark.parametrize(
    ("old", "new", "diff"),
    [
        ("a", "b\n", ["@@ -1 +1 @@", "-a", NO_END, "+b"]),
        ("a\n", "b", ["@@ -1 +1 @@", "-a", "+b", NO_END]),
        ("x\na", "y\na", ["@@ -1,2 +1,2 @@", "-x", "+y", " a", NO_END]),
        ("", "a\n", ["@@ -0,0 +1 @@", "+a"]),
        ("a\n", "", ["@@ -1 +0,0 @@", "-a"]),
        ("a", "a", []),
    ],
)
def test_a_missing_last_line_end_and_an_empty_text_are_told(old, new, diff) -> None:
    assert unified_diff(old, new, [Span(0, len(old), 0, len(new))]) == "\n".join(diff)
