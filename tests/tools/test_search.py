"""The tools grep and find."""

from __future__ import annotations

import os

import pytest

from agent_nodes.tools import search
from agent_nodes.tools.bounds import MAX_BYTES

pytestmark = pytest.mark.feature("D01")

NOTE = "set ignored to search all of it, or give one as path"


@pytest.fixture(autouse=True)
def both_ways(chosen_by) -> None:
    """Every test here comes out the same with ripgrep and without."""


@pytest.mark.parametrize("pattern", ["--force", "-e", "--pre=./evil.sh"])
@pytest.mark.parametrize("literal", [False, True])
async def test_gf_01_a_pattern_is_never_an_option(bench, pattern, literal) -> None:
    bench.write("notes.txt", f"use {pattern} now\n")
    evil = bench.write("evil.sh", "#!/bin/sh\ntouch owned.txt\n")
    evil.chmod(0o755)
    assert await bench.call("grep", pattern=pattern, literal=literal) == f"notes.txt:1:use {pattern} now"
    assert not (bench.workdir / "owned.txt").exists()


async def test_gf_01_a_name_is_never_an_action(bench) -> None:
    bench.write("a.txt", "x")
    bench.write("-delete", "x")
    assert await bench.call("find", pattern="-delete") == "-delete"
    assert sorted(path.name for path in bench.workdir.iterdir()) == ["-delete", "a.txt"]


@pytest.mark.parametrize("pattern", ["(", "*a", "[z-a]"])
async def test_gf_01_an_invalid_expression_is_an_error(bench, pattern) -> None:
    bench.write("a.txt", "x")
    message = await bench.refused("grep", pattern=pattern)
    assert message.startswith("pattern: ")
    assert "literal" in message
    assert await bench.call("grep", pattern=pattern, literal=True) == "[no match]"


async def test_matches_have_path_line_and_text_in_order_of_name(bench) -> None:
    bench.write("b/two.py", "x = 1\r\nprint('Hällo')\r\n")
    bench.write("a.py", "hällo = 2\n")
    bench.write("a.txt", "hällo = 3\n")
    bench.write("blob.bin", b"h\xc3\xa4llo\x00")
    assert await bench.call("grep", pattern="H.llo", ignore_case=True, glob="*.py") == (
        "a.py:1:hällo = 2\nb/two.py:2:print('Hällo')"
    )
    assert await bench.call("grep", pattern="h.llo", path="a.txt") == "a.txt:1:hällo = 3"
    assert await bench.call("grep", pattern="x", path="b") == "b/two.py:1:x = 1"
    assert await bench.call("grep", pattern="^hällo = .$", glob="**/*.{py,md}") == "a.py:1:hällo = 2"
    assert await bench.call("grep", pattern="a.b", literal=True) == "[no match]"
    assert "No such file" in await bench.refused("grep", pattern="x", path="missing")


async def test_context_lines_are_marked_and_groups_kept_apart(bench) -> None:
    bench.write("a.txt", "".join(f"{'hit' if n in (3, 5, 11) else 'line'} {n}\n" for n in range(1, 15)))
    assert (await bench.call("grep", pattern="hit", context=1)).split("\n") == [
        "a.txt-2-line 2",
        "a.txt:3:hit 3",
        "a.txt-4-line 4",
        "a.txt:5:hit 5",
        "a.txt-6-line 6",
        "--",
        "a.txt-10-line 10",
        "a.txt:11:hit 11",
        "a.txt-12-line 12",
    ]


async def test_many_matches_and_long_lines_stay_in_bounds(bench) -> None:
    bench.write("many.txt", "hit\n" * 5_000)
    bench.write("wide.txt", "x" * 100_000 + "NEEDLE" + "y" * 100_000 + "\n")
    lines = (await bench.call("grep", pattern="hit", limit=7)).split("\n")
    assert len(lines) == 8
    assert "only the first 7 matches" in lines[-1]
    wide = await bench.call("grep", pattern="NEEDLE")
    assert "…" + "x" * 150 + "NEEDLE" + "y" * 344 + "…" in wide
    assert len(wide) < 700
    bench.write("all.txt", ("z" * 400 + "\n") * 1_000)
    text = await bench.call("grep", pattern="z", limit=10_000)
    assert len(text.encode()) <= MAX_BYTES
    shown = text.count("all.txt:")
    assert f"only the first {shown:,} matches" in text


async def test_an_expression_that_never_ends_is_stopped(bench, monkeypatch) -> None:
    monkeypatch.setattr(search, "SECONDS", 1)
    bench.write("a.txt", "found\n" + "a" * 60 + "b\n")
    text = await bench.call("grep", pattern="found|(a+)+$")
    assert text.startswith("a.txt:1:found\n[stopped after 1 s")


async def test_a_stopped_call_ends_the_search(bench) -> None:
    bench.write("a.txt", "a" * 60 + "b\n")
    bench.signal.set()
    assert "Stopped" in await bench.refused("grep", pattern="(a+)+$")


async def test_find_takes_names_at_any_depth_and_paths(bench) -> None:
    for name in ("README.md", "docs/a.md", "docs/deep/b.md", "docs/deep/c.txt", "src/[x].py", ".hidden/d.md"):
        bench.write(name, "x")
    (bench.workdir / "link.md").symlink_to("docs/a.md")
    assert (await bench.call("find", pattern="*.md")).split("\n") == [
        "README.md",
        "link.md",
        ".hidden/d.md",
        "docs/a.md",
        "docs/deep/b.md",
    ]
    assert (await bench.call("find", pattern="docs/**/*.md")).split("\n") == ["docs/a.md", "docs/deep/b.md"]
    assert await bench.call("find", pattern="docs/*.md") == "docs/a.md"
    assert await bench.call("find", pattern="de?p") == "docs/deep/"
    assert await bench.call("find", pattern="*/", path="docs") == "docs/deep/"
    assert await bench.call("find", pattern="[!a-b].*", path="docs/deep") == "docs/deep/c.txt"
    assert await bench.call("find", pattern="[[]x].py") == "src/[x].py"
    assert "nothing matches" in await bench.call("find", pattern="*.rs")
    assert "only the first 2" in await bench.call("find", pattern="*", limit=2)
    assert "relative" in await bench.refused("find", pattern="/etc/*")
    assert "no folder" in await bench.refused("find", pattern="*", path="README.md")
    assert "No such file" in await bench.refused("find", pattern="*", path="missing")


async def test_version_control_and_installed_packages_are_left_out_unless_named(bench) -> None:
    for name in (".git/config", "node_modules/p/index.js", "venv/pyvenv.cfg", "venv/lib/x.py", "a.py"):
        bench.write(name, "needle\n")
    text = await bench.call("grep", pattern="needle")
    assert text == f"a.py:1:needle\n[not searched: node_modules, venv; {NOTE}]"
    assert await bench.call("find", pattern="config") == (
        f"[nothing matches config]\n[not searched: node_modules, venv; {NOTE}]"
    )
    assert await bench.call("grep", pattern="needle", path="node_modules") == "node_modules/p/index.js:1:needle"
    assert await bench.call("grep", pattern="needle", path=".git") == ".git/config:1:needle"
    assert "venv/lib/x.py:1:needle" in await bench.call("grep", pattern="needle", path="venv")


async def test_what_gitignore_names_is_left_out_unless_asked_for(bench) -> None:
    bench.write(".gitignore", "/build/\n*.log\n!keep.log\n")
    bench.write("sub/.gitignore", "*.tmp\nkeep.log\n")
    left_out = ("a.log", "b.log", "sub/x.tmp", "sub/keep.log", "build/out.js")
    for name in (*left_out, "keep.log", "x.tmp", ".env", "sub/a.py", ".github/ci.yml"):
        bench.write(name, "needle\n")
    names = [".env", "keep.log", "x.tmp", ".github/ci.yml", "sub/a.py"]
    note = f"[not searched: build, 4 files that .gitignore names; {NOTE}]"
    assert (await bench.call("grep", pattern="needle")).split("\n") == [*(f"{name}:1:needle" for name in names), note]
    found = (await bench.call("find", pattern="*.{log,tmp,js,yml}")).split("\n")
    assert found == ["keep.log", "x.tmp", ".github/ci.yml", note]
    everything = await bench.call("grep", pattern="needle", ignored=True)
    assert everything.count("needle") == 10 and "not searched" not in everything
    assert "build/out.js" in await bench.call("find", pattern="*.js", ignored=True)
    assert await bench.call("grep", pattern="needle", path="build") == "build/out.js:1:needle"
    assert await bench.call("grep", pattern="needle", path="a.log") == "a.log:1:needle"


async def test_rules_above_the_searched_folder_count_within_a_repository(bench) -> None:
    bench.write(".gitignore", "*.log\n/src/gen/\n")
    bench.write("src/gen/x.py", "needle\n")
    bench.write("src/a.log", "needle\n")
    bench.write("src/a.py", "needle\n")
    assert (await bench.call("grep", pattern="needle", path="src")).count("needle") == 3
    (bench.workdir / ".git").mkdir()
    assert await bench.call("grep", pattern="needle", path="src") == (
        f"src/a.py:1:needle\n[not searched: src/gen, 1 file that .gitignore names; {NOTE}]"
    )


async def test_version_control_is_left_out_also_when_everything_is_asked_for(bench) -> None:
    bench.write(".git/config", "needle\n")
    bench.write("node_modules/a.js", "needle\n")
    bench.write("venv/pyvenv.cfg", "needle\n")
    text = await bench.call("grep", pattern="needle", ignored=True)
    assert text == "node_modules/a.js:1:needle\nvenv/pyvenv.cfg:1:needle"


@pytest.mark.parametrize("pattern", [r"(?<=use )needle", r"(n)eed\1?le", "(?i:NEED)le", r"\bne+dle\b", "need(?!ed)le"])
async def test_expressions_are_those_of_python(bench, pattern) -> None:
    bench.write("a.txt", "use needle\n")
    assert await bench.call("grep", pattern=pattern) == "a.txt:1:use needle"


async def test_what_another_dialect_would_mean_is_an_error(bench) -> None:
    bench.write("a.txt", "x\n")
    for pattern in ("[[:alpha:]]x", r"\p{L}", "(?<name>x)", "x{1,2}{3}"):
        assert (await bench.refused("grep", pattern=pattern)).startswith("pattern: ")


async def test_a_line_break_in_a_pattern_is_told_to_fit_nowhere(bench) -> None:
    bench.write("a.txt", "one\ntwo\n")
    for pattern, literal in ((r"one\ntwo", False), ("one\ntwo", True)):
        assert "one by one" in await bench.call("grep", pattern=pattern, literal=literal)
    assert await bench.call("grep", pattern=r"one\n?") == "a.txt:1:one"


async def test_marked_and_damaged_text_is_searched(bench) -> None:
    bench.write("bom.txt", b"\xef\xbb\xbfneedle ok\n")
    bench.write("latin.txt", b"caf\xe9 needle\n")
    bench.write("wide.txt", "\ufeffzwei\r\nneedle ä\r\n".encode("utf-16-le"))
    bench.write("wider.txt", "\ufeffneedle ä".encode("utf-16-be"))
    bench.write("blob", b"\xff\xfe\x00\x00needle")
    bench.write("empty.txt", b"\xef\xbb\xbf")
    assert (await bench.call("grep", pattern="^needle|caf. n")).split("\n") == [
        "bom.txt:1:needle ok",
        "latin.txt:1:caf\ufffd needle",
        "wide.txt:2:needle ä",
        "wider.txt:1:needle ä",
    ]
    assert await bench.call("grep", pattern="^$") == "[no match]"


async def test_gf_01_settings_of_ripgrep_are_not_read(bench, monkeypatch) -> None:
    evil = bench.write("evil.sh", "#!/bin/sh\ntouch owned.txt\n")
    evil.chmod(0o755)
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(bench.write("rc", f"--pre={evil}\n")))
    bench.write("-e.txt", "needle\n")
    assert await bench.call("grep", pattern="needle") == "-e.txt:1:needle"
    assert not (bench.workdir / "owned.txt").exists()


async def test_odd_names_and_special_files_are_no_trouble(bench) -> None:
    bench.write("line\nbreak.txt", "needle\n")
    os.mkfifo(bench.workdir / "pipe")
    (bench.workdir / "loop").symlink_to(".")
    bench.write(os.fsdecode(b"caf\xe9.txt"), b"needle \xff\n")
    assert await bench.call("grep", pattern="needle") == "caf\\xe9.txt:1:needle \ufffd\nline\\nbreak.txt:1:needle"
    assert await bench.call("find", pattern="caf*") == "caf\\xe9.txt"


async def test_grep_says_that_it_did_not_search_what_is_no_text(bench) -> None:
    bench.write("blob.bin", b"needle\x00")
    os.mkfifo(bench.workdir / "pipe")
    assert await bench.refused("grep", pattern="needle", path="blob.bin") == (
        "blob.bin is a binary file; grep searches text."
    )
    assert "no ordinary file" in await bench.refused("grep", pattern="needle", path="pipe")


async def test_only_grep_advises_literal(bench) -> None:
    assert "literal" not in await bench.refused("find", pattern="[z-a]")
    assert "literal" in await bench.refused("grep", pattern="[z-a]")
