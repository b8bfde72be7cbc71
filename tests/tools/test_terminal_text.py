"""What a program says to a terminal, as text."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_nodes.tools.terminal_text import LONGEST_LINE, Overwritten, Unescaped, new_part

pytestmark = pytest.mark.feature("D01")

PIECES = st.lists(
    st.sampled_from(
        [
            "plain",
            "\n",
            "\r",
            "\r\n",
            "\x1b[1;31m",
            "\x1b[0K",
            "\x1b]0;a title\x07",
            "\x1b]8;;http://x\x1b\\",
            "\x1b(B",
            "\x1bM",
            "\x07",
            "é",
            "🍜",
            "10%",
        ]
    ),
    max_size=30,
)


def in_parts(data: bytes, cuts: list[int]) -> bytes:
    """``data`` through both steps, cut at ``cuts``."""
    unescaped, overwritten = Unescaped(), Overwritten()
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    parts = [data[start:end] for start, end in pairwise(places)]
    return b"".join(overwritten.feed(unescaped.feed(part)) for part in parts) + overwritten.finish()


def text(data: str) -> str:
    return in_parts(data.encode(), []).decode()


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("\x1b[31mred\x1b[0m and \x1b[1;4;38;5;12mblue\x1b[m", "red and blue"),
        ("\x1b]0;title\x07a\x1b]8;;https://x.y/\x1b\\link\x1b]8;;\x1b\\", "alink"),
        ("\x1b[2K\x1b[1G\x1b(Bx\x1b=\x1b7y\x1bPq12\x1b\\z", "xyz"),
        (" 10%\r 50%\r100%\ndone\n", "100%\ndone\n"),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("12%\r34%\r", "34%"),
        ("a\r\r\nb", "a\nb"),
        ("\rstart", "start"),
        ("b\x08bo\x08ol\x08ld", "bold"),
        ("bell\x07", "bell"),
        ("no escape: [31m \\r", "no escape: [31m \\r"),
        ("\x1b", ""),
    ],
)
def test_what_a_terminal_shows_in_the_end_is_left(data: str, shown: str) -> None:
    assert text(data) == shown


@given(PIECES, st.lists(st.integers(0, 10_000), max_size=8))
def test_it_does_not_matter_how_the_output_is_cut(pieces: list[str], cuts: list[int]) -> None:
    data = "".join(pieces).encode()
    whole = in_parts(data, [])
    assert in_parts(data, cuts) == whole
    assert b"\r" not in whole and b"\x1b" not in whole
    assert whole.count(b"\n") == data.count(b"\n")


def test_a_line_without_end_and_an_escape_without_end_are_not_held_for_ever() -> None:
    overwritten = Overwritten()
    assert overwritten.feed(b"x" * LONGEST_LINE) == b""
    assert overwritten.feed(b"y") == b"x" * LONGEST_LINE + b"y"
    unescaped = Unescaped()
    out = b"".join(unescaped.feed(b"\x1b]" + b"x" * 3_000) + unescaped.feed(b"y" * 3_000) for _ in range(3))
    assert out.count(b"y") >= 6_000


def test_a_new_part_that_begins_anew_begins_on_its_own_line() -> None:
    assert new_part(b"\r20%\r30%") == b"\n30%"
    assert new_part(b"\r\nnext") == b"\nnext"
    assert new_part(b"more\r") == b"more"
    assert new_part(b"more") == b"more"
