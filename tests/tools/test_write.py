"""The tool write, and the atomic replacement below write and edit."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

pytestmark = pytest.mark.feature("D01")

CHANGES = [
    ("write", {"content": "B" * 2_000_000}),
    ("edit", {"edits": [{"old_text": "START", "new_text": "B" * 2_000_000}]}),
]
BY_TOOL = pytest.mark.parametrize(("tool", "arguments"), CHANGES, ids=["write", "edit"])
OLD = "START" + "A" * 1_000_000
WRITE = "files.replace_file(path, 'keep.txt', b'B' * 2_000_000, check)"
EDIT = (
    "edit.edit_file('keep.txt', [{'old_text': 'START', 'new_text': 'B' * 2_000_000}], "
    "ToolContext('c', path.parent, None, AbortSignal(), print), check)"
)


async def test_a_file_is_made_with_its_folders_and_replaced(bench) -> None:
    assert "Wrote a/b/c.txt: 6 bytes" in await bench.call("write", path="a/b/c.txt", content="größ")
    assert (bench.workdir / "a/b/c.txt").read_text() == "größ"
    assert "Replaced" in await bench.call("write", path="a/b/c.txt", content="")
    assert (bench.workdir / "a/b/c.txt").read_bytes() == b""


@BY_TOOL
async def test_wr_01_a_full_disk_leaves_the_old_file_and_no_other(bench, monkeypatch, tool, arguments) -> None:
    keep = bench.write("keep.txt", OLD)
    real, written = os.write, 0

    def full(fd: int, data: bytes) -> int:
        nonlocal written
        if written >= 1_000_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written += (count := real(fd, data))
        return count

    monkeypatch.setattr(os, "write", full)
    message = await bench.refused(tool, path="keep.txt", **arguments)
    assert "No space left" in message
    assert written >= 1_000_000
    assert keep.read_text() == OLD
    assert [path.name for path in bench.workdir.iterdir()] == ["keep.txt"]


@pytest.mark.parametrize("work", [WRITE, EDIT], ids=["write", "edit"])
def test_wr_01_a_killed_process_leaves_the_old_or_the_new_file_whole(bench, work) -> None:
    keep = bench.write("keep.txt", OLD)
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from agent_nodes._aio import AbortSignal\n"
        "from agent_nodes.tools import edit, files\n"
        "from agent_nodes.tools.base import ToolContext\n"
        "path = Path(sys.argv[1])\n"
        "def check(): pass\n"
        "real = os.write\n"
        "def die(fd, data):\n"
        "    real(fd, data)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "os.write = die\n"
        f"{work}\n"
    )
    child = subprocess.run([sys.executable, "-c", script, str(keep)], timeout=60, check=False, capture_output=True)
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert keep.read_text() == OLD


@BY_TOOL
async def test_a_call_cancelled_in_the_middle_changes_nothing(bench, monkeypatch, tool, arguments) -> None:
    keep = bench.write("keep.txt", OLD)
    writing, go_on = threading.Event(), threading.Event()
    real = os.write

    def slow(fd: int, data: bytes) -> int:
        if len(data) > 1_000:  # not the wake-up byte of the event loop
            writing.set()
            assert go_on.wait(60)
        return real(fd, data)

    monkeypatch.setattr(os, "write", slow)
    task = asyncio.create_task(bench.call(tool, path="keep.txt", **arguments))
    assert await asyncio.to_thread(writing.wait, 60)
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert keep.read_text() == OLD
    assert [path.name for path in bench.workdir.iterdir()] == ["keep.txt"]


@BY_TOOL
async def test_a_reader_keeps_the_old_file_and_nothing_lies_beside_the_new_one(bench, tool, arguments) -> None:
    keep = bench.write("keep.txt", OLD)
    with keep.open() as reader:
        assert reader.read(5) == "START"
        await bench.call(tool, path="keep.txt", **arguments)
        assert reader.read() == OLD[5:]
    assert keep.read_text().startswith("BBB")
    assert [path.name for path in bench.workdir.iterdir()] == ["keep.txt"]


@BY_TOOL
async def test_mode_is_kept_and_a_link_stays_a_link(bench, tool, arguments) -> None:
    real = bench.write("real.sh", OLD)
    real.chmod(0o751)
    (bench.workdir / "link.sh").symlink_to("real.sh")
    await bench.call(tool, path="link.sh", **arguments)
    assert (bench.workdir / "link.sh").is_symlink()
    assert real.read_text().startswith("BBB")
    assert stat.S_IMODE(real.stat().st_mode) == 0o751


async def test_a_new_file_has_the_mode_that_others_get(bench) -> None:
    before = os.umask(0o027)
    try:
        await bench.call("write", path="new.txt", content="x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((bench.workdir / "new.txt").stat().st_mode) == 0o640


async def test_line_endings_and_mark_of_the_old_file_are_kept(bench) -> None:
    path = bench.write("dos.txt", b"\xef\xbb\xbfa\r\nb\r\n")
    message = await bench.call("write", path="dos.txt", content="x\ny\n")
    assert path.read_bytes() == b"\xef\xbb\xbfx\r\ny\r\n"
    assert "CRLF" in message
    path = bench.write("mixed.txt", b"a\r\nb\n")
    await bench.call("write", path="mixed.txt", content="x\ny\n")
    assert path.read_bytes() == b"x\ny\n"


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
async def test_utf_16_of_the_old_file_is_kept(bench, codec) -> None:
    path = bench.write("wide.txt", "\ufeffa\r\nb\r\n".encode(codec))
    message = await bench.call("write", path="wide.txt", content="ä🍜\nno end")
    assert path.read_bytes() == "\ufeffä🍜\r\nno end".encode(codec)
    assert "CRLF line endings, UTF-16" in message
    assert (await bench.call("read", path="wide.txt")).startswith("ä🍜\nno end\n[")


@pytest.mark.parametrize("content", ["a", "a\n", "\n\n", "a\r\n", "\ufeffa"])
async def test_content_is_written_as_it_is(bench, content) -> None:
    await bench.call("write", path="new.txt", content=content)
    await bench.call("write", path="new.txt", content=content)
    assert (bench.workdir / "new.txt").read_bytes() == content.encode()


async def test_what_a_link_leads_to_is_made_and_the_link_stays(bench) -> None:
    (bench.workdir / "sub").mkdir()
    (bench.workdir / "link").symlink_to("sub/made.txt")
    assert "Wrote sub/made.txt" in await bench.call("write", path="link", content="x")
    assert (bench.workdir / "link").is_symlink()
    assert (bench.workdir / "sub/made.txt").read_text() == "x"


async def test_places_that_cannot_be_written_are_errors(bench, monkeypatch) -> None:
    bench.write("file", "x")
    (bench.workdir / "folder").mkdir()
    assert "folder" in await bench.refused("write", path="folder", content="x")
    assert "folder" in await bench.refused("write", path="new/", content="x")
    assert await bench.refused("write", path="file/below.txt", content="x")
    os.mkfifo(bench.workdir / "pipe")
    assert "no ordinary file" in await bench.refused("write", path="pipe", content="x")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert "read-only" in await bench.refused("write", path="file", content="y")
    assert (bench.workdir / "file").read_text() == "x"


async def test_half_a_surrogate_pair_becomes_a_replacement_character(bench) -> None:
    await bench.call("write", path="a.txt", content="a\ud83db")
    assert (bench.workdir / "a.txt").read_text() == "a\ufffdb"
