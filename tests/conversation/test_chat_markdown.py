"""Markdown as lines of a terminal: what each construct looks like, and that no text gets past it."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.syntax import Syntax

from conversation.chat_markdown import LANGUAGES, Blocks, Markdown, MarkdownStream
from conversation.chat_view import PlainStream
from conversation.text import width
from tests.conversation.terminal import Display

pytestmark = pytest.mark.feature("O01")


def plain(line: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", line)


def shown(text: str, columns: int = 60) -> list[str]:
    return [plain(line) for line in Markdown(columns).lines(text)]


# -- what it looks like ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        ("# One\n## Two #\ntext", ["One", "", "Two", "", "text"]),
        ("**bold** *it* ~~no~~ `co de`", ["bold it no co de"]),
        ("first\nsecond", ["first", "second"]),
        ("- a\n- b\n  - c\n- d", ["• a", "• b", "  • c", "• d"]),
        ("- a\n\n- b", ["• a", "", "• b"]),
        ("9. a\n10. b\n\n    more", ["9. a", "", "10. b", "", "    more"]),
        ("1. ```py\n   x = 1\n   ```", ["1. x = 1"]),
        ("-", ["•"]),
        ("> a\n>\n> - b", ["│ a", "│", "│ • b"]),
        ("a\n\n---\n\nb", ["a", "", "─" * 40, "", "b"]),
        ("[here](https://e.com/a)", ["here (https://e.com/a)"]),
        ("<https://e.com/a>", ["https://e.com/a"]),
        ("[a@b.com](mailto:a@b.com)", ["a@b.com"]),
        ("![a picture](p.png)", ["[a picture] (p.png)"]),
        ("<b>x</b> &lt; [red]y[/red]", ["<b>x</b> < [red]y[/red]"]),
        ("<div>\nx\n</div>", ["<div>", "x", "</div>"]),
        ("[1]: https://e.com\n", ["[1]: https://e.com"]),
        ("```\na  b\n\n\tc\n```", ["a  b", "", "    c"]),
        ("```python\n" + "x = " + "1 + " * 30 + "1\n```", ["x = " + "1 + " * 30 + "1"]),
        ("```no-such-language\nx\n```", ["x"]),
        ("```", [""]),
        ("    indented", ["indented"]),
        ("", []),
    ],
)
def test_every_construct(written: str, lines: list[str]) -> None:
    assert shown(written) == lines


def test_a_table_has_columns() -> None:
    lines = shown("| a | 한글 | n |\n|---|:-:|--:|\n| x | y | 1 |\n| longer | z |", 40)
    assert lines[0].split() == ["a", "한글", "n"]
    assert set(lines[1]) == {"─"}
    assert [line.split() for line in lines[2:]] == [["x", "y", "1"], ["longer", "z"]]


def test_a_table_wider_than_the_terminal_is_folded() -> None:
    lines = shown("| a | b |\n|---|---|\n| " + "word " * 30 + "| " + "한글" * 30 + " |", 30)
    assert all(width(line) <= 30 for line in lines)
    assert sum(line.count("word") for line in lines) == 30
    assert sum(line.count("한") for line in lines) == 30


def test_where_letters_are_lacking_there_are_others() -> None:
    lines = [plain(line) for line in Markdown(40, unicode=False).lines("- a\n\n> b\n\n---\n\n| a |\n|---|\n| b |")]
    assert all(line.isascii() for line in lines)
    assert lines[0] == "- a"


def test_code_is_coloured_by_its_language_and_long_code_is_not() -> None:
    assert "\x1b[35mdef" in Markdown(60).lines("```python\ndef f(): ...\n```")[0]
    for code in ("x = 1\n" * 5_000, f"x = {'1' * 500}\n"):
        assert Markdown(60).lines(f"```python\n{code}```") == code.splitlines()
    assert Markdown(60).lines("```lilypond\nx = 1\n```") == ["x = 1"]


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_every_language_that_is_coloured_is_known(language: str) -> None:
    assert Syntax("", language).lexer is not None


# -- as it streams in --------------------------------------------------------------------------------------------------


def test_a_block_is_whole_when_the_next_one_has_begun() -> None:
    blocks = Blocks()
    assert blocks.feed("a\nb\n\n") == ""
    assert blocks.feed("- c") == ""
    assert blocks.feed("\n- d\n\n") == "a\nb\n\n"
    assert blocks.feed("```\n# no heading\n\n```\n") == "- c\n- d\n\n"
    assert blocks.open == "```\n# no heading\n\n```\n"
    assert blocks.end() == "```\n# no heading\n\n```\n"
    assert blocks.end() == ""


PIECES = [
    *[
        "word ",
        "**bold** ",
        "\n",
        "\n\n",
        "- item\n",
        "  - sub\n",
        "1. one\n",
        "> quote\n",
        "# head\n",
        "```\n",
        "```py\n",
    ],
    *[
        "| a | b |\n",
        "|---|---|\n",
        "---\n",
        "    code\n",
        "\t",
        "한글 ",
        "👍",
        "<b>",
        "[x](y) ",
        "`",
        "*",
        "&#13;",
        "\\",
    ],
]
MARKDOWN = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@settings(max_examples=150, deadline=None)
@given(MARKDOWN, st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_nothing_is_lost_however_it_is_cut(text: str, cuts: list[int]) -> None:
    blocks = Blocks()
    out, at, turn = "", 0, 0
    while at < len(text):
        step = cuts[turn % len(cuts)]
        out += blocks.feed(text[at : at + step])
        at, turn = at + step, turn + 1
    assert out + blocks.end() == text


def test_ends_of_lines_of_other_kinds_are_none() -> None:
    blocks = Blocks()
    assert blocks.feed("a\u2028b\x0b\x85c\r\n\r\n# d\r\n") == "a\u2028bc\n\n"
    assert blocks.open == "# d\n"


def test_a_long_list_is_looked_at_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    parse = MarkdownIt.parse
    monkeypatch.setattr(MarkdownIt, "parse", lambda *given: looks.append(1) or parse(*given))
    blocks = Blocks()
    for n in range(1_000):
        assert blocks.feed(f"- item number {n}\n") == ""
    assert 20 < len(looks) < 150


def words(lines: list[str]) -> list[str]:
    return re.findall(r"word|bold|item|sub|one|quote|head|code|한글|👍", " ".join(map(plain, lines)))


@settings(max_examples=150, deadline=None)
@given(MARKDOWN)
def test_blocks_one_by_one_say_what_the_whole_says(text: str) -> None:
    stream = MarkdownStream(lambda: 70)
    lines = [line for piece in re.findall(r"(?s).{1,4}", text) for line in stream.feed(piece)]
    assert words([*lines, *stream.end()]) == words(Markdown(70).lines(text))


@settings(max_examples=200, deadline=None)
@given(st.one_of(ANY, MARKDOWN, st.tuples(MARKDOWN, ANY, MARKDOWN).map("".join)), st.integers(1, 60))
def test_no_text_is_a_command_to_the_terminal(text: str, columns: int) -> None:
    for line in [*Markdown(columns).lines(text), *PlainStream(lambda: columns).feed(text + "\n")]:
        assert "\n" not in line and "\r" not in line
        Display(400, 5).feed(line.expandtabs())  # fails at whatever is no colour


@settings(max_examples=100, deadline=None)
@given(MARKDOWN, st.integers(20, 60))
def test_all_but_code_fits(text: str, columns: int) -> None:
    if "```" in text or "    code" in text or "\t" in text:
        return
    assert all(width(plain(line)) <= columns for line in Markdown(columns).lines(text))


def test_the_preview_is_the_end_of_what_is_not_whole() -> None:
    stream = MarkdownStream(lambda: 20)
    stream.feed("- a\n- b\n- **c")
    assert [plain(line) for line in stream.preview(2)] == ["• b", "• **c"]
    assert stream.preview(0) == []
    stream.feed("\n" + "한글 " * 2_000)
    preview = stream.preview(3)
    assert len(preview) == 3
    assert all(width(line) <= 20 for line in preview)


def test_plain_lines_keep_their_form() -> None:
    stream = PlainStream(lambda: 9)
    assert stream.feed("\n\n# a") == []
    assert stream.preview(5) == ["# a"]
    assert stream.feed(" b\n\n\n") == ["# a b"]
    assert stream.feed("c" * 25) == []
    assert stream.preview(2) == ["c" * 9, "c" * 7]
    assert stream.end() == ["", "", "c" * 25]
