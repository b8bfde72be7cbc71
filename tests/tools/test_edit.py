"""The tool edit: exact and unique, or refused."""

from __future__ import annotations

import pytest

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
    assert "line 2:\nx =  1\n" in message


async def test_the_nearest_place_is_named_also_when_letters_differ(bench) -> None:
    bench.write("a.py", "import os\n\ndef compute_total(items):\n    return sum(items)\n")
    message = await bench.refused("edit", path="a.py", edits=[edit("def compute_totals(items):\n", "x")])
    assert "line 3:\ndef compute_total(items):" in message
    assert "Read the file again" in await bench.refused("edit", path="a.py", edits=[edit("%%%%%%", "x")])


@pytest.mark.parametrize(("content", "old"), [("foo\nfoo\nfoo\n", "foo\nfoo\n"), ("aaa", "aa")])
async def test_ed_05_overlapping_places_count_as_two(bench, content, old) -> None:
    path = bench.write("a.txt", content)
    assert "2 places" in await bench.refused("edit", path="a.txt", edits=[edit(old, "x")])
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
        (b"k=1\n\xd6\xd0\xce\xc4\n", "k=1", "k=2", b"k=2\n\xd6\xd0\xce\xc4\n"),
        (b"\xef\xbb\xbfname=1", "name=1", "name=2", b"\xef\xbb\xbfname=2"),
        (b"a\x00b \xff\r\nc", "c", "d", b"a\x00b \xff\r\nd"),
    ],
    ids=["ed_08_latin", "ed_09_gbk", "ed_09_mark", "binary"],
)
async def test_ed_08_ed_09_bytes_beside_the_edit_stay(bench, before, old, new, after) -> None:
    path = bench.write("a.txt", before)
    await bench.call("edit", path="a.txt", edits=[edit(old, new)])
    assert path.read_bytes() == after


async def test_several_edits_refer_to_the_file_as_it_was(bench) -> None:
    path = bench.write("a.txt", "one two three\n")
    text = await bench.call("edit", path="a.txt", edits=[edit("three", "one"), edit("one", "three")])
    assert path.read_text() == "three two one\n"
    assert "2 places" in text


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


async def test_a_missing_file_and_a_folder_are_errors(bench) -> None:
    assert "No such file" in await bench.refused("edit", path="a.txt", edits=[edit("a", "b")])
    assert "folder" in await bench.refused("edit", path=".", edits=[edit("a", "b")])
