"""The tools read and ls."""

from __future__ import annotations

import base64
import os

import pytest

from agent_nodes.messages import ImageBlock
from agent_nodes.tools.bounds import MAX_BYTES

pytestmark = pytest.mark.feature("D01")

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_lines_come_as_they_are_and_offset_and_limit_choose_them(bench) -> None:
    bench.write("a.txt", "one\n  two\nthree\nfour")
    assert await bench.call("read", path="a.txt") == "one\n  two\nthree\nfour"
    page = await bench.call("read", path="a.txt", offset=2, limit=2)
    assert page == "  two\nthree\n[lines 2-3 of 4, 20 bytes in all; go on with offset 4]"
    assert (await bench.call("read", path="a.txt", offset=4)).startswith("four\n[lines 4-4 of 4")


async def test_a_long_file_is_cut_at_two_thousand_lines_and_can_be_read_on(bench) -> None:
    bench.write("long.txt", "".join(f"{n}\n" for n in range(1, 4501)))
    seen: list[str] = []
    offset = 1
    for _ in range(3):
        *lines, note = (await bench.call("read", path="long.txt", offset=offset)).split("\n")
        assert "of 4,500" in note
        seen += lines
        offset += len(lines)
    assert seen == [str(n) for n in range(1, 4501)]


async def test_a_page_stays_below_fifty_kilobytes(bench) -> None:
    bench.write("wide.txt", ("ä" * 400 + "\n") * 500)
    text = await bench.call("read", path="wide.txt")
    assert len(text.encode()) <= MAX_BYTES
    shown = text.count("ä" * 400)
    assert text.endswith(f"[lines 1-{shown} of 500, 400,500 bytes in all; go on with offset {shown + 1}]")


@pytest.mark.parametrize("arguments", [{}, {"limit": 1}])
async def test_rd_01_one_huge_line_is_shown_from_its_start_and_marked(bench, arguments) -> None:
    bench.write("one.json", "x" * 200_000)
    text = await bench.call("read", path="one.json", **arguments)
    assert text.startswith("x" * 8_000 + " [line cut here: 8,000 of 200,000 bytes]")
    assert len(text.encode()) <= MAX_BYTES
    command = text.partition("`")[2].partition("`")[0]
    rest = await bench.call("bash", command=command)
    assert rest == "x" * 8_000 + "\n[exit code 0]"


async def test_rd_01_a_huge_line_between_others_does_not_hide_them(bench) -> None:
    bench.write("three.txt", "first\n" + "ä" * 30_000 + "\nthird\n")
    first, second, third, *_ = (await bench.call("read", path="three.txt")).split("\n")
    assert first == "first"
    assert second == "ä" * 4_000 + " [line cut here: 8,000 of 60,000 bytes]"
    assert third == "third"
    assert "has 3 lines; offset 10" in await bench.refused("read", path="three.txt", offset=10)


async def test_rd_02_what_a_file_is_comes_from_its_bytes(bench) -> None:
    bench.write("a.ts", "const a = 1")
    bench.write("logo.svg", "<svg/>")
    bench.write("fake.png", "just text")
    bench.write("real.dat", PNG)
    bench.write("blob.bin", b"ab\x00\x01" * 100)
    (bench.workdir / "folder").mkdir()
    assert await bench.call("read", path="a.ts") == "const a = 1"
    assert await bench.call("read", path="logo.svg") == "<svg/>"
    assert await bench.call("read", path="fake.png") == "just text"
    assert await bench.call("read", path="real.dat") == f"[real.dat is image/png, 1×1 px, {len(PNG)} bytes]"
    assert any(isinstance(block, ImageBlock) for block in (await bench.result("read", path="real.dat")).blocks())
    assert "binary data, 400 bytes" in await bench.call("read", path="blob.bin")
    assert "ls" in await bench.refused("read", path="folder")


async def test_other_encodings_line_ends_and_marks_are_readable(bench) -> None:
    bench.write("latin.txt", b"caf\xe9\n")
    assert await bench.call("read", path="latin.txt") == (
        "caf\ufffd\n[bytes that are not UTF-8 are shown as \ufffd: edit keeps them, write would not]"
    )
    bench.write("own.txt", "\ufffd is a character too\n")
    assert await bench.call("read", path="own.txt") == "\ufffd is a character too"
    bench.write("dos.txt", b"\xef\xbb\xbfa\r\nb\r\n")
    text = await bench.call("read", path="dos.txt")
    assert text.startswith("a\nb\n[line endings are CRLF")
    bench.write("none.txt", b"")
    assert await bench.call("read", path="none.txt") == "[none.txt is empty]"
    bench.write("blank.txt", "\n\n")
    assert await bench.call("read", path="blank.txt", offset=2) == "\n[lines 2-2 of 2, 2 bytes in all]"


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
async def test_utf_16_is_read_as_text_where_it_is_marked(bench, codec) -> None:
    text = "\ufefferste\r\nzweite ä🍜\r\n" + "dritte\r\n" * 3_000
    bench.write("wide.txt", text.encode(codec))
    page = await bench.call("read", path="wide.txt", limit=2)
    first, second, *notes = page.split("\n")
    assert (first, second) == ("erste", "zweite ä🍜")
    assert notes[0] == "[the file is UTF-16; edit and write keep it so]"
    assert notes[-1].startswith("[lines 1-2 of 3,002, ")
    bench.write("empty.txt", "\ufeff".encode(codec))
    assert await bench.call("read", path="empty.txt") == "[empty.txt is empty]"
    bench.write("odd.txt", "\ufeffab".encode(codec) + b"x")
    assert (await bench.call("read", path="odd.txt")).startswith("ab\ufffd\n[")
    for data in ("\ufeff".encode(codec) + b"\x00\x00\x01\x00" * 9, "\ufeffab".encode("utf-32-le")):
        bench.write("blob", data)
        assert "binary data" in await bench.call("read", path="blob")


async def test_a_missing_file_a_pipe_and_a_device_are_errors_at_once(bench) -> None:
    assert "No such file" in await bench.refused("read", path="nothing.txt")
    os.mkfifo(bench.workdir / "pipe")
    assert "no ordinary file" in await bench.refused("read", path="pipe")
    bench.roots = None
    assert "no ordinary file" in await bench.refused("read", path="/dev/zero")


async def test_a_stopped_call_reads_nothing_more(bench) -> None:
    bench.write("one.json", "x" * 5_000_000)
    bench.signal.set()
    assert "Stopped" in await bench.refused("read", path="one.json")


async def test_gf_04_a_huge_folder_with_odd_names_is_listed_in_bounds(bench) -> None:
    for n in range(5_000):
        (bench.workdir / f"f{n:04}").touch()
    (bench.workdir / ".dot").touch()
    (bench.workdir / "broken").symlink_to("nowhere")
    (bench.workdir / "circle").symlink_to("circle")
    (bench.workdir / "aline\nbreak").touch()
    (bench.workdir / "A-folder").mkdir()
    (bench.workdir / "alink").symlink_to("A-folder")
    bench.write(os.fsdecode(b"a\xe9"), "")
    lines = (await bench.call("ls")).split("\n")
    assert lines[:7] == [
        ".dot",
        "A-folder/",
        "aline\\nbreak",
        "alink -> A-folder/",
        "a\\xe9",
        "broken -> nowhere (broken link)",
        "circle -> circle (broken link)",
    ]
    assert lines[-1].startswith("[4,507 of 5,007 entries left out")
    assert len(lines) == 501
    assert len((await bench.call("ls", limit=3)).split("\n")) == 4
    assert len((await bench.call("ls", limit=1_000_000)).encode()) <= MAX_BYTES


async def test_an_empty_folder_and_a_file_are_told_apart_by_ls(bench) -> None:
    assert await bench.call("ls") == "[. is an empty folder]"
    bench.write("a.txt", "x")
    assert "read" in await bench.refused("ls", path="a.txt")
    assert "No such file" in await bench.refused("ls", path="missing")
