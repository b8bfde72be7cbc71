"""The tool edit: exact and unique, or refused."""

from __future__ import annotations

import pytest

from agent_nodes.tools import edit as edit_module

pytestmark = pytest.mark.feature("D01")


def edit(old: str, new: str) -> dict[str, str]:
    return {"old_text": old, "new_text": new}


@pytest.mark.parametrize(("old", "new"), [("alpha\nbeta", "one\ntwo"), ("alpha\r\nbeta", "one\r\ntwo")])
async def test_ed_01_an_edit_over_crlf_lines_keeps_them(bench, old, new) -> None:
    path = bench.write("a.txt", b"alpha\r\nbeta\r\ngamma\r\n")
    await bench.call("edit", path="a.txt", edits=[edit(old, new)])
    assert path.read_bytes() == b"one\r\ntwo\r\ngamma\r\n"


async def test_ed_01_other_lines_of_a_mixed_file_keep_their_ends(bench) -> None:
    path = bench.write("a.txt", b"a\nb\r\nc\nd\r\ne\r\n")
    await bench.call("edit", path="a.txt", edits=[edit("c\n", "C\nC2\n"), edit("d\n", "D\nD2\n"), edit("b", "B")])
    assert path.read_bytes() == b"a\nB\r\nC\nC2\nD\r\nD2\r\ne\r\n"


async def test_ed_03_likeness_is_never_enough(bench) -> None:
    data = "keep “q”  \nx =  1\nend — z\t\n".encode()
    path = bench.write("a.txt", data)
    message = await bench.refused("edit", path="a.txt", edits=[edit("x = 1", "x = 2")])
    assert path.read_bytes() == data
    assert message == (
        "a.txt: edit 1: old_text is not in the file. Nothing was changed. "
        "Nearest, where only spaces, tabs or line breaks differ, is line 2:\nx =  1\n"
        'Line 2 is    "x =  1"\nold_text has "x = 1"'
    )


@pytest.mark.parametrize(
    ("content", "old", "why", "pair"),
    [
        ("def f():\n\treturn 1\n", "    return 1", "spaces, tabs or line breaks", (2, r"\treturn 1", "    return 1")),
        ("a\nb  \nc\n", "a\nb\nc", "spaces, tabs or line breaks", (2, "b  ", "b")),
        ("“hi” – now\n", '"hi" - now', "quotes, dashes or other typography", (1, "“hi” – now", r"\"hi\" - now")),
        ("x\u00a0= 'a'\n", 'x = "a"', "quotes, dashes or other typography", (1, r"x\u00a0= 'a'", r"x = \"a\"")),
        ("if Done:\n", "if done:", "upper and lower case", (1, "if Done:", "if done:")),
    ],
)
async def test_a_refusal_says_where_the_text_probably_is_and_what_differs(bench, content, old, why, pair) -> None:
    path = bench.write("a.txt", content)
    message = await bench.refused("edit", path="a.txt", edits=[edit(old, "new")])
    assert f"Nearest, where only {why} differ, is line" in message
    line, there, here = pair
    assert f'Line {line} is    "{there}"\nold_text has "{here}"' in message
    assert path.read_text() == content


async def test_all_likely_places_are_named_by_line(bench) -> None:
    bench.write("a.txt", "".join(f"  x = {n % 2}\n" for n in range(12)))
    message = await bench.refused("edit", path="a.txt", edits=[edit("x  = 1\n  x = 0", "y")])
    assert "is lines 2-3 (also from line 4, 6, 8, …):\n  x = 1\n  x = 0\n" in message
    bench.write("long.txt", "".join(f"line  {n}\n" for n in range(40)))
    message = await bench.refused("edit", path="long.txt", edits=[edit("".join(f"line {n}\n" for n in range(40)), "y")])
    assert "is lines 1-40:\nline  0\n" in message and "line  9\n…\nLine 1 is" in message
    assert len(message) < 600


async def test_the_nearest_place_is_named_also_when_letters_differ(bench) -> None:
    bench.write("a.py", "import os\n\ndef compute_total(items):\n    return sum(items)\n")
    old = "def compute_totals(items):\n    return 0\n"
    message = await bench.refused("edit", path="a.py", edits=[edit(old, "x")])
    assert (
        "Nearest, where the text differs, is lines 3-4:\ndef compute_total(items):\n    return sum(items)\n" in message
    )
    assert 'old_text has "def compute_totals(items):"' in message
    assert "No line of the file is like it" in await bench.refused("edit", path="a.py", edits=[edit("%%%%%%", "x")])
    assert "more than blanks" in await bench.refused("edit", path="a.py", edits=[edit(" \n\n", "x")])


async def test_an_edit_that_was_made_before_is_told_so(bench) -> None:
    bench.write("a.py", "one\ntimeout = 30\n")
    message = await bench.refused("edit", path="a.py", edits=[edit("timeout = 10", "timeout = 30")])
    assert "new_text is there already, at line 2" in message


@pytest.mark.parametrize(
    ("content", "old", "places"),
    [
        ("foo\nfoo\nfoo\n", "foo\nfoo\n", "2 places (lines 1, 2)"),
        ("aaa", "aa", "2 places (lines 1, 1)"),
        ("x\n" * 500, "x", f"500 places (lines {', '.join(str(n) for n in range(1, 21))} and 480 more)"),
    ],
)
async def test_ed_05_overlapping_places_count_as_two(bench, content, old, places) -> None:
    path = bench.write("a.txt", content)
    assert places in await bench.refused("edit", path="a.txt", edits=[edit(old, "y")])
    assert path.read_text() == content


async def test_ed_07_new_text_is_taken_letter_for_letter(bench) -> None:
    path = bench.write("a.txt", "pre X post")
    new = r"a\1b\g<0>c$&d$$e\n"
    await bench.call("edit", path="a.txt", edits=[edit("X", new)])
    assert path.read_text() == f"pre {new} post"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"n=1\n# caf\xe9\n", "n=1", "n=2", b"n=2\n# caf\xe9\n"),
        (b"a\x00b \xff\r\nc", "c", "d", b"a\x00b \xff\r\nd"),
    ],
    ids=["latin", "binary"],
)
async def test_ed_08_bytes_beside_the_edit_stay(bench, before, old, new, after) -> None:
    path = bench.write("a.txt", before)
    await bench.call("edit", path="a.txt", edits=[edit(old, new)])
    assert path.read_bytes() == after


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"\xef\xbb\xbfname=1", "name=1", "name=2", b"\xef\xbb\xbfname=2"),
        (b"\xef\xbb\xbfname=1", "name=1", "name=2\n", b"\xef\xbb\xbfname=2\n"),
        (b"k=1\n\xd6\xd0\xce\xc4\n", "k=1", "k=2", b"k=2\n\xd6\xd0\xce\xc4\n"),
        ("\ufeffa\r\nb ä🍜".encode("utf-16-le"), "a\nb", "a\nB", "\ufeffa\r\nB ä🍜".encode("utf-16-le")),
        ("\ufeffa\nb".encode("utf-16-be"), "b", "ü", "\ufeffa\nü".encode("utf-16-be")),
    ],
    ids=["mark", "mark_newline", "gbk", "utf16_le", "utf16_be"],
)
async def test_ed_09_mark_and_encoding_stay_and_no_line_end_is_added(bench, before, old, new, after) -> None:
    path = bench.write("a.txt", before)
    await bench.call("edit", path="a.txt", edits=[edit(old, new)])
    assert path.read_bytes() == after


async def test_several_edits_refer_to_the_file_as_it_was(bench) -> None:
    path = bench.write("a.txt", "one two three\n")
    text = await bench.call("edit", path="a.txt", edits=[edit("three", "one"), edit("one", "three")])
    assert path.read_text() == "three two one\n"
    assert text == "Edited a.txt:\n@@ -1 +1 @@\n-one two three\n+three two one"


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        ([edit("one", "1"), edit("nowhere", "2")], "edit 2: old_text is not in the file"),
        ([edit("one t", "1"), edit("two", "2")], "edits 1 and 2 overlap"),
        ([edit("two", "2"), edit("two", "2")], "overlap"),
        ([edit("one", "1"), edit("", "2")], "edit 2: old_text is empty"),
        ([edit("one", "one")], "the same"),
        ([], "edits"),
    ],
)
async def test_all_edits_are_made_or_none(bench, edits, reason) -> None:
    path = bench.write("a.txt", "one two three\n")
    assert reason in await bench.refused("edit", path="a.txt", edits=edits)
    assert path.read_text() == "one two three\n"


async def test_the_change_is_shown_as_a_diff_with_line_numbers(bench) -> None:
    bench.write("a.txt", "".join(f"line {n}\r\n" for n in range(1, 101)))
    edits = [edit("line 10\n", "line ten\nand more\n"), edit("line 14\n", ""), edit("line 90", "line ninety")]
    assert (await bench.call("edit", path="a.txt", edits=edits)).split("\n") == [
        "Edited a.txt:",
        "@@ -7,11 +7,11 @@",
        *[f" line {n}" for n in (7, 8, 9)],
        "-line 10",
        "+line ten",
        "+and more",
        *[f" line {n}" for n in (11, 12, 13)],
        "-line 14",
        *[f" line {n}" for n in (15, 16, 17)],
        "@@ -87,7 +87,7 @@",
        *[f" line {n}" for n in (87, 88, 89)],
        "-line 90",
        "+line ninety",
        *[f" line {n}" for n in (91, 92, 93)],
    ]


async def test_a_large_change_is_shown_in_part(bench) -> None:
    bench.write("a.txt", "start\nend\n")
    text = await bench.call("edit", path="a.txt", edits=[edit("start", "\n".join(f"line {n}" for n in range(1_000)))])
    assert text.endswith("[the rest of the diff is left out]")
    assert text.count("\n") < 130
    bench.write("b.txt", "start\nend\n")
    text = await bench.call("edit", path="b.txt", edits=[edit("start", "x" * 500_000)])
    assert len(text) < 1_000
    many = "\n".join(str(n) for n in range(3_001))
    assert "lines became 3,002" in await bench.call("edit", path="b.txt", edits=[edit("end\n", f"{many}\n")])


async def test_a_file_that_changes_meanwhile_is_not_replaced(bench, monkeypatch) -> None:
    path = bench.write("a.txt", "one\n")
    real = edit_module.apply_edits

    def slow(data, edits):
        path.write_text("one, and what somebody else wrote\n")
        return real(data, edits)

    monkeypatch.setattr(edit_module, "apply_edits", slow)
    assert "changed meanwhile" in await bench.refused("edit", path="a.txt", edits=[edit("one", "two")])
    assert path.read_text() == "one, and what somebody else wrote\n"
    assert [entry.name for entry in bench.workdir.iterdir()] == ["a.txt"]


async def test_damaged_utf_16_is_not_edited(bench) -> None:
    data = "\ufeffone".encode("utf-16-le") + b"x"
    path = bench.write("a.txt", data)
    assert "damaged UTF-16" in await bench.refused("edit", path="a.txt", edits=[edit("one", "two")])
    assert path.read_bytes() == data


async def test_a_missing_file_and_a_folder_are_errors(bench) -> None:
    assert "No such file" in await bench.refused("edit", path="a.txt", edits=[edit("a", "b")])
    assert "folder" in await bench.refused("edit", path=".", edits=[edit("a", "b")])


async def test_a_byte_that_is_not_utf8_is_told_as_the_difference(bench) -> None:
    bench.write("latin.txt", b"caf\xe9 au lait\n")
    said = await bench.refused("edit", path="latin.txt", edits=[{"old_text": "caf\ufffd au lait", "new_text": "tea"}])
    assert 'is    "caf\\xe9 au lait"' in said
    assert "bytes that are not UTF-8" in said
