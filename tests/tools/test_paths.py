"""What a path means, and how far the file tools reach."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.feature("D02")

# Each file tool, pointed at a path that is a file, or at the folder it lies in.
ON_FILE: list[tuple[str, dict[str, Any]]] = [
    ("read", {}),
    ("write", {"content": "overwritten"}),
    ("edit", {"edits": [{"old_text": "needle", "new_text": "changed"}]}),
    ("grep", {"pattern": "needle"}),
]
ON_FOLDER: list[tuple[str, dict[str, Any]]] = [
    ("ls", {}),
    ("find", {"pattern": "*.txt"}),
    ("grep", {"pattern": "needle"}),
]


def names(value: Any) -> str:
    return value if isinstance(value, str) else ""


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize(("tool", "arguments"), ON_FILE + ON_FOLDER, ids=names)
async def test_pa_01_a_sibling_folder_with_the_same_start_is_outside(bench, tool, arguments, absolute) -> None:
    secret = bench.workdir.with_name("proj-secret")
    secret.mkdir()
    (secret / "k.txt").write_text("needle in a secret\n")
    target = secret / "k.txt" if (tool, arguments) in ON_FILE else secret
    path = str(target) if absolute else os.path.relpath(target, bench.workdir)

    message = await bench.refused(tool, path=path, **arguments)
    assert "outside" in message
    assert "in a secret" not in message
    assert (secret / "k.txt").read_text() == "needle in a secret\n"

    bench.roots = None
    await bench.call(tool, path=path, **arguments)


async def test_pa_02_nothing_is_read_or_written_through_a_linked_folder(bench) -> None:
    (bench.outside / "k.txt").write_text("outside text")
    (bench.outside.parent / "k.txt").write_text("parent text")
    (bench.workdir / "out").symlink_to(bench.outside)
    before = sorted(bench.outside.iterdir())

    for path in ("out/new.txt", "out/a/b/new.txt", "out/../k.txt", "out/k.txt"):
        assert "outside" in await bench.refused("write", path=path, content="x")
    for path in ("out/k.txt", "out/../k.txt"):
        message = await bench.refused("read", path=path)
        assert "text" not in message
    assert sorted(bench.outside.iterdir()) == before
    assert (bench.outside / "k.txt").read_text() == "outside text"

    bench.roots = (bench.workdir, bench.outside)
    await bench.call("write", path="out/new.txt", content="allowed")
    assert (bench.outside / "new.txt").read_text() == "allowed"


async def test_pa_02_a_linked_file_that_does_not_exist_yet_is_not_made_outside(bench) -> None:
    (bench.workdir / "l.txt").symlink_to(bench.outside / "made.txt")
    await bench.refused("write", path="l.txt", content="x")
    assert not (bench.outside / "made.txt").exists()


async def test_pa_02_a_link_loop_does_not_hide_the_link_behind_it(bench) -> None:
    (bench.outside / "k.txt").write_text("secret text")
    (bench.workdir / "loop").symlink_to("loop")
    (bench.workdir / "out").symlink_to(bench.outside)
    message = await bench.refused("read", path="loop/../out/k.txt")
    assert "secret text" not in message
    await bench.refused("write", path="loop/../out/new.txt", content="x")
    assert not (bench.outside / "new.txt").exists()
    await bench.refused("read", path="loop")


@pytest.mark.usefixtures("chosen_by")
@pytest.mark.parametrize("path", [".", "d", "l.txt"])
async def test_pa_04_grep_and_find_do_not_walk_through_links(bench, path) -> None:
    (bench.outside / "k.txt").write_text("needle\n")
    (bench.workdir / "l.txt").symlink_to(bench.outside / "k.txt")
    (bench.workdir / "d").symlink_to(bench.outside)
    for tool, arguments in (("grep", {"pattern": "needle"}), ("find", {"pattern": "k.txt"})):
        result = await bench.result(tool, path=path, **arguments)
        assert path == "." or result.is_error
        text = "".join(block.text for block in result.blocks()).replace("find", "")
        assert "needle" not in text
        assert "d/k.txt" not in text
        assert path != "." or "match" in text


@pytest.mark.usefixtures("chosen_by")
async def test_pa_04_links_are_not_followed_without_a_limit_either(bench) -> None:
    bench.roots = None
    (bench.outside / "k.txt").write_text("needle\n")
    (bench.workdir / "d").symlink_to(bench.outside)
    assert await bench.call("grep", pattern="needle") == "[no match]"
    assert "nothing matches" in await bench.call("find", pattern="k.txt")


@pytest.mark.parametrize(("tool", "arguments"), [*ON_FILE, *ON_FOLDER], ids=names)
@pytest.mark.parametrize("path", ["a\x00.txt", "", "  ", "n" * 300, "d/" * 3000, "a\ud800.txt"], ids=repr)
async def test_pa_06_what_is_no_path_is_an_error_the_model_can_read(bench, tool, arguments, path) -> None:
    assert await bench.refused(tool, path=path, **arguments)
    assert list(bench.workdir.iterdir()) == []


async def test_pa_06_a_file_whose_name_holds_the_replacement_character_can_be_used(bench) -> None:
    bench.write("a\ufffd.txt", "odd")
    assert await bench.call("read", path="a\ufffd.txt") == "odd"
    await bench.call("write", path="a\ufffd.txt", content="new")
    assert "U+FFFD" in await bench.refused("write", path="b\ufffd.txt", content="new")
    assert [path.name for path in bench.workdir.iterdir()] == ["a\ufffd.txt"]


async def test_pa_06_at_sign_and_home_are_understood(bench, monkeypatch) -> None:
    bench.write("a.txt", "plain")
    assert await bench.call("read", path="@a.txt") == "plain"
    bench.write("@a.txt", "with the sign")
    assert await bench.call("read", path="@a.txt") == "with the sign"

    monkeypatch.setenv("HOME", str(bench.outside))
    (bench.outside / "k.txt").write_text("at home")
    for path in ("~/k.txt", "@~/k.txt", "~"):
        assert "outside" in await bench.refused("read", path=path)
    bench.roots = None
    assert await bench.call("read", path="~/k.txt") == "at home"


async def test_pa_06_a_path_through_proc_is_judged_by_where_it_leads(bench, monkeypatch) -> None:
    (bench.workdir / "inner").mkdir()
    monkeypatch.chdir(bench.workdir / "inner")
    bench.write("k.txt", "inside")
    (bench.outside / "k.txt").write_text("secret")
    assert await bench.call("read", path="/proc/self/cwd/../k.txt") == "inside"
    assert "secret" not in await bench.refused("read", path="/proc/self/cwd/../../outside/k.txt")
    await bench.refused("read", path=f"/proc/self/root{bench.outside}/k.txt")


async def test_a_working_directory_behind_a_link_is_the_working_directory(bench) -> None:
    link = bench.workdir.with_name("link")
    link.symlink_to(bench.workdir)
    bench.workdir = link
    bench.write("sub/a.txt", "needle\n")
    assert await bench.call("read", path="sub/a.txt") == "needle"
    assert await bench.call("grep", pattern="needle") == "sub/a.txt:1:needle"


def test_a_root_folder_allows_everything(tmp_path) -> None:
    from agent_nodes._aio import AbortSignal
    from agent_nodes.tools.base import ToolContext
    from agent_nodes.tools.environment import resolve_path

    context = ToolContext("c", tmp_path, (Path("/"),), AbortSignal(), print)
    assert resolve_path("/etc", context) == Path("/etc").resolve()


async def test_a_name_can_be_used_in_the_form_that_it_is_shown_in(bench) -> None:
    for name in ("nl\nx.txt", os.fsdecode(b"b\xff.txt")):
        bench.write(name, "needle")
        shown = (await bench.call("find", pattern=f"{name[0]}*")).strip()
        assert "\\" in shown
        assert await bench.call("read", path=shown) == "needle"
        assert await bench.call("grep", pattern="needle", path=shown) == f"{shown}:1:needle"
        await bench.call("edit", path=shown, edits=[{"old_text": "needle", "new_text": "thread"}])
        assert (bench.workdir / name).read_text() == "thread"
    bench.write("nl\\nx.txt", "with a backslash")
    assert await bench.call("read", path="nl\\nx.txt") == "with a backslash"
