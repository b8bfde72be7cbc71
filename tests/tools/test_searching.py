"""The pieces of the search against those that know: git for the rules of .gitignore, Python for what ripgrep may miss,
and the search without ripgrep for the one with it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_nodes.tools import search, search_worker
from agent_nodes.tools.searching import candidates as candidates_module
from agent_nodes.tools.searching.candidates import candidates
from agent_nodes.tools.searching.found import Found
from agent_nodes.tools.searching.rust import rust_pattern
from agent_nodes.tools.searching.walk import walk

pytestmark = pytest.mark.feature("D01")

RG = search.ripgrep()


def words(text: str) -> list[str]:
    return text.split()


# -- the rules of .gitignore -------------------------------------------------------------------------------------------

# Without letters beyond ASCII: to git one of them is several characters.
NAMES = st.sampled_from(["a", "b", "ab", "a.log", "b.log", "#x", "!x", "x ", "[a]", "a*b", ".h", "A"])
TREES = st.lists(st.lists(NAMES, min_size=1, max_size=3).map("/".join), min_size=1, max_size=8, unique=True)
GLOBS = st.lists(
    st.sampled_from(words(r"a b * ** ? / / [ab] [!a] [a-b] .log \* \# [[:alpha:]] x")), min_size=1, max_size=5
).map("".join)
PLAIN = st.one_of(GLOBS, GLOBS.map("!{}".format), GLOBS.map("{}/".format), GLOBS.map("/{}".format))
ODD = st.sampled_from(["", "# a", r"\#x", r"\!x", "x\\ ", "[", "a\\"])
RULES = st.lists(st.one_of(PLAIN, PLAIN, PLAIN, PLAIN.map("{} ".format), ODD), min_size=1, max_size=5).map("\n".join)


def plant(root: Path, files: list[str], content: bytes = b"x") -> None:
    for name in files:
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError:  # the name of a folder is a file already, or the other way round
            continue


def walked(root: Path) -> list[str]:
    found = Found(10_000)
    return [path for path, _, is_folder in walk(str(root), found) if not is_folder and not path.endswith(".gitignore")]


def left_by_git(root: Path) -> list[str]:
    command = ["git", "-c", "core.excludesFile=", "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"]
    done = subprocess.run(command, cwd=root, capture_output=True, check=True)
    names = [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]
    return [name for name in names if not name.endswith(".gitignore")]


@pytest.fixture(scope="module")
def repository() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(os.path.realpath(folder))
        subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
        yield root


def clear(root: Path) -> None:
    for folder, folders, files in os.walk(root, topdown=False):
        if "/.git" not in folder:
            for name in files:
                Path(folder, name).unlink()
            for name in folders:
                if name != ".git":
                    Path(folder, name).rmdir()


@given(TREES, RULES, RULES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_files_are_left_out_as_git_leaves_them_out(repository, files, rules, below) -> None:
    clear(repository)
    plant(repository, files)
    (repository / ".gitignore").write_text(rules)
    if (repository / "a").is_dir():
        (repository / "a" / ".gitignore").write_text(below)
    assert sorted(walked(repository)) == sorted(left_by_git(repository)), (rules, below)


# -- what ripgrep may leave out ----------------------------------------------------------------------------------------

ATOMS = st.sampled_from(
    words(r"a b k i s é ß ſ \u212a İ ı \ufffd \x20 - \. . \d \w \s \b ^ $ [ab] [^a] [a-é] [\w-] \t \x61")
    + words(r"(?=a) (?!b) (?<=a) (?i:s) (?s:.) (?>ab|a)")
)
QUANTIFIED = st.tuples(ATOMS, st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,3}", "*?", "?+"])).map("".join)
PATTERNS = st.recursive(
    st.lists(QUANTIFIED, min_size=1, max_size=4).map("".join),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("|".join),
        inner.map("({})".format),
        inner.map("({})+".format),
        inner.map(r"({})\1".format),
        inner.map("(?P<n>{})x?".format),
    ),
    max_leaves=4,
)
PIECES = [text.encode() for text in words("a b k K i I S s - . 1 é É ß ſ \u212a İ ı \ufffd 가")]
CONTENTS = st.lists(st.sampled_from([*PIECES, b" ", b"\t", b"\r", b"\n", b"\xe9", b"\xff"]), max_size=6).map(b"".join)
OPTIONS = st.fixed_dictionaries(
    {"ignore_case": st.booleans(), "context": st.integers(0, 2), "limit": st.integers(1, 4)}
)


def compiled(pattern: str, ignore_case: bool) -> bool:
    try:
        re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except re.error:
        return False
    return True


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(os.path.realpath(name))


def request_for(root: Path, pattern: str, **options: Any) -> dict[str, Any]:
    plain = {"glob": None, "literal": False, "ignore_case": False, "ignored": False, "context": 0, "limit": 1_000}
    return {"root": str(root), "pattern": pattern, "ripgrep": RG, "direct": 0, **plain, **options}


def grepped(request: dict[str, Any]) -> dict[str, Any]:
    found = Found(request["limit"])
    search_worker.grep(request, found)
    return found.response()


@given(PATTERNS, st.lists(CONTENTS, min_size=1, max_size=6), OPTIONS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_with_ripgrep_nothing_else_is_found_than_without(folder, pattern, contents, options) -> None:
    if not compiled(pattern, options["ignore_case"]):
        return
    clear(folder)
    for number, content in enumerate(contents):
        (folder / f"{number}.txt").write_bytes(content)
    request = request_for(folder, pattern, **options)
    assert grepped(request) == grepped({**request, "ripgrep": None})


@given(PATTERNS, st.booleans())
def test_ripgrep_understands_every_pattern_that_it_is_given(pattern, ignore_case) -> None:
    """Else it would choose every file, and be of no use."""
    rust = rust_pattern(pattern, ignore_case=ignore_case) if compiled(pattern, ignore_case) else None
    if rust is not None:
        done = subprocess.run([str(RG), "-q", "-e", rust, os.devnull], capture_output=True, check=False)
        assert done.returncode == 1, (pattern, rust, done.stderr)


def test_every_letter_that_python_takes_for_another_case_is_known() -> None:
    everything = "".join(map(chr, range(0x110000)))
    for letter in "abcdefghijklmnopqrstuvwxyz":
        others = set(re.findall(letter, everything, re.IGNORECASE))
        rust = rust_pattern(letter, ignore_case=True)
        assert rust == "[" + "".join(f"\\x{{{ord(char):x}}}" for char in sorted(others)) + "]"


# -- files for ripgrep -------------------------------------------------------------------------------------------------


def pairs(root: Path, count: int) -> list[tuple[str, str]]:
    return [(f"{n}", str(root / f"{n}")) for n in range(count)]


def test_files_without_a_match_are_left_out_in_batches(folder, monkeypatch) -> None:
    clear(folder)
    monkeypatch.setattr(candidates_module, "FIRST", 3)
    monkeypatch.setattr(candidates_module, "MAX_ARGUMENTS", 400)
    for n in range(60):
        (folder / f"{n}").write_text("needle" if n % 10 == 7 else "hay")
    chosen = list(candidates(iter(pairs(folder, 60)), str(RG), "needle", 2))
    assert [name for name, _ in chosen] == ["0", "1", "7", "17", "27", "37", "47", "57"]


@pytest.mark.parametrize("trouble", ["no program", "bad pattern", "a file is gone"])
def test_where_ripgrep_fails_every_file_is_searched(folder, trouble) -> None:
    clear(folder)
    for n in range(3):
        (folder / f"{n}").write_text("hay")
    if trouble == "a file is gone":
        (folder / "1").unlink()
    program = "/no/such/program" if trouble == "no program" else str(RG)
    pattern = "(" if trouble == "bad pattern" else "needle"
    assert list(candidates(iter(pairs(folder, 3)), program, pattern, 0)) == pairs(folder, 3)


async def test_a_stopped_search_ends_ripgrep_too(bench, monkeypatch, running) -> None:
    slow = bench.write("slow-rg", f"#!/bin/sh\necho $$ > {bench.outside}/pid\nexec sleep 300\n")
    slow.chmod(0o755)
    monkeypatch.setattr(search, "ripgrep", lambda: str(slow))
    monkeypatch.setattr(search, "DIRECT", 0)
    task = asyncio.create_task(bench.result("grep", pattern="needle"))
    pid = bench.outside / "pid"
    async with asyncio.timeout(60):
        while not (pid.exists() and pid.read_text().endswith("\n")):  # noqa: ASYNC110  # another process writes it
            await asyncio.sleep(0.01)
        bench.signal.set()
        assert (await task).is_error
    number = int(pid.read_text())
    async with asyncio.timeout(60):
        while running(number):  # noqa: ASYNC110  # killed, and gone in a moment
            await asyncio.sleep(0.01)


async def test_a_slow_ripgrep_is_ended_with_the_search(bench, monkeypatch) -> None:
    slow = bench.write("slow-rg", "#!/bin/sh\nexec sleep 300\n")
    slow.chmod(0o755)
    monkeypatch.setattr(search, "ripgrep", lambda: str(slow))
    monkeypatch.setattr(search, "DIRECT", 0)
    monkeypatch.setattr(search, "SECONDS", 1)
    assert "[stopped after 1 s" in await bench.call("grep", pattern="needle")
