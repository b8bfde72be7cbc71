"""Where long outputs are kept: all of them, for their session alone, within bounds."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from agent_nodes.tools import outputs
from agent_nodes.tools.outputs import KeptOutput, forget_outputs, outputs_folder

pytestmark = pytest.mark.feature("D01")


def place_of(text: str) -> Path:
    found = re.search(r"(?:is in|goes to) (\S+\.txt)", text)
    assert found, text
    return Path(found[1])


async def test_all_of_a_long_output_can_be_read_on_under_every_policy(bench) -> None:
    text = await bench.call("bash", command="seq 1 100000; echo END")
    place = place_of(text)
    assert place.read_text() == "".join(f"{n}\n" for n in range(1, 100_001)) + "END\n"
    assert (place.stat().st_mode & 0o777, place.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert (await bench.call("read", path=str(place), offset=70_000, limit=1)).startswith("70000\n")
    assert await bench.call("grep", pattern="^99999$", path=str(place)) == f"{place}:99999:99999"
    assert await bench.call("ls", path=str(place.parent)) == place.name
    assert await bench.call("find", path=str(place.parent), pattern="*") == str(place)


@pytest.mark.feature("D02")
async def test_kept_outputs_are_no_way_out_and_nothing_to_change(bench) -> None:
    place = place_of(await bench.call("bash", command="seq 1 100000"))
    for tool, arguments in (("write", {"content": "x"}), ("edit", {"edits": [{"old_text": "1\n2\n", "new_text": ""}]})):
        assert "outside" in await bench.refused(tool, path=str(place), **arguments)
    (bench.outside / "k.txt").write_text("secret")
    (place.parent / "link.txt").symlink_to(bench.outside / "k.txt")
    other = outputs_folder("session-2")
    assert other is not None
    other.mkdir()
    (other / "a.txt").write_text("secret")
    for path in (place.parent / "link.txt", other / "a.txt", place.parent.parent, place.parent / "../session-2/a.txt"):
        assert "secret" not in await bench.refused("read", path=str(path))


async def test_a_short_output_leaves_no_file(bench) -> None:
    await bench.call("bash", command="seq 1 1000")
    folder = outputs_folder("session-1")
    assert folder is not None
    assert not folder.exists()


async def test_where_it_cannot_be_kept_the_result_says_why(bench, tmp_path) -> None:
    (tmp_path / "tmp" / f"agent-nodes-{os.getuid()}").mkdir(mode=0o755)
    text = await bench.call("bash", command="seq 1 5000")
    assert "could not be kept (" in text
    assert "is not a private folder of this user" in text
    assert text.endswith("5000\n[exit code 0]")


async def test_of_a_huge_output_the_file_holds_the_start_and_the_result_the_end(bench, monkeypatch) -> None:
    monkeypatch.setattr(outputs, "FILE_LIMIT", 1 << 20)
    monkeypatch.setattr("agent_nodes.tools.shell.FILE_LIMIT", 1 << 20)
    text = await bench.call("bash", command="seq 1 1000000")
    assert "(its first 1 MB)" in text
    assert place_of(text).read_bytes() == b"".join(b"%d\n" % n for n in range(1, 1_000_001))[: 1 << 20]
    assert text.endswith("1000000\n[exit code 0]")


def kept(session: str, size: int, age: float = 0) -> Path:
    output = KeptOutput(session)
    output.write(b"x" * size)
    output.close()
    assert output.path is not None
    assert not output.problem
    status = output.path.stat()
    os.utime(output.path, (status.st_atime, status.st_mtime - age))
    return output.path


@pytest.mark.usefixtures("bench")
def test_old_outputs_make_room_and_old_sessions_go(monkeypatch) -> None:
    monkeypatch.setattr(outputs, "FILE_LIMIT", 1_000)
    monkeypatch.setattr(outputs, "SESSION_LIMIT", 3_500)
    paths = [kept("s1", 1_000, age=100 - n) for n in range(5)]
    assert [path.exists() for path in paths] == [False, False, True, True, True]

    week = outputs.KEPT_SECONDS
    old, young = kept("s2", 10), kept("s3", 10)
    for path, age in ((old, week + 60), (young, week - 60)):
        os.utime(path.parent, (path.stat().st_atime, path.stat().st_mtime - age))
    kept("s1", 10)
    assert old.exists()
    kept("s4", 10)
    assert not old.parent.exists()
    assert young.exists()

    forget_outputs("s3")
    forget_outputs("s3")
    forget_outputs("")
    assert not young.parent.exists()
    assert paths[-1].exists()


@pytest.mark.usefixtures("bench")
def test_a_session_id_is_never_a_path() -> None:
    base = outputs_folder("plain-id_1")
    assert base is not None
    assert base.name == "plain-id_1"
    names = ["../../etc", "etc", "..", "a/b", "a.b", "ab", "x" * 40, "x" * 41, "\ud800", "세션"]
    folders = {outputs_folder(name) for name in names}
    assert len(folders) == len(names)
    assert {folder.parent for folder in folders if folder} == {base.parent}
    assert outputs_folder("") is None
