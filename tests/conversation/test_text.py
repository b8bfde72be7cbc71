"""Words for people, cut and wrapped by columns."""

import pytest

from conversation.text import fit, folded, main_argument, one_line, size, width, wrapped


@pytest.mark.parametrize(
    ("whole", "columns", "cut"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 4, "abc…"),
        ("한글한글", 5, "한글…"),
        ("한글한글", 6, "한글…"),
        ("e\u0301e", 2, "e\u0301e"),
    ],
)
def test_text_is_cut_by_columns(whole: str, columns: int, cut: str) -> None:
    assert fit(whole, columns) == cut
    assert width(cut) <= columns


@pytest.mark.parametrize(
    ("text", "columns", "lines"),
    [
        ("one two three", 9, ["one two", "three"]),
        ("one two\n\n  three", 20, ["one two", "", "  three"]),
        ("한글 한글 한글", 9, ["한글 한글", "한글"]),
        ("a bcdefghij k", 4, ["a", "bcde", "fghi", "j k"]),
        ("", 5, [""]),
    ],
)
def test_text_is_wrapped_between_words(text: str, columns: int, lines: list[str]) -> None:
    assert wrapped(text, columns) == lines


def test_text_is_folded_where_it_is_full() -> None:
    assert folded("한글한글a\nb\tc", 5) == ["한글", "한글a", "b   c"]


def test_text_is_cut_with_what_the_stream_can_write() -> None:
    assert fit("abcdef", 5, unicode=False) == "ab..."


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (15_499, "15 KB"), (999_900, "1.0 MB"), (5_000_000_000, "5.0 GB")],
)
def test_sizes_are_for_people(count: int, said: str) -> None:
    assert size(count) == said


def test_one_line_is_one_line() -> None:
    assert one_line(" a\r\n\tb\x1b[0m\x00 ") == "a b[0m"


def test_the_main_argument_tells_calls_apart() -> None:
    assert main_argument({"limit": 3, "path": "a.txt"}) == "a.txt"
    assert main_argument({"n": 1, "other": "x"}) == "x"
    assert main_argument({"n": 1}) == ""
