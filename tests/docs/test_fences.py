"""Every block of code in the documents runs as a reader runs it: pasted, in a folder of their own, without keys."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tests.fakes
from tests.docs.markdown import ROOT, Fence, fences, name, pages
from tests.fakes import FakeServer, Reply

SHELL = ("sh", "bash")
RUN = ("python", *SHELL)
LIMIT = 120
"""Seconds after which a block hangs."""

MOST_NOT_RUN = 12

# Where a document says so, a service of the reader's own answers. In the tests it is the fake one, which then asks for
# no key, as such services do.
OWN_SERVICE = "http://127.0.0.1:8080"

GARDEN = {
    "README.md": "# Garden plan\n\nTomatoes go into the south bed, beans along the fence.\n",
    "seeds.txt": "Seeds: beans, tomatoes, basil.\n",
}


def with_code() -> list[Path]:
    return [page for page in pages() if any(fence.language in RUN for fence in fences(page))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The reader's folder, which the demo looks at."""
    garden = tmp_path / "garden"
    (garden / "photos").mkdir(parents=True)
    for file, text in GARDEN.items():
        (garden / file).write_text(text)
    return garden


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Next to nothing: a home, and the commands of the environment that runs the tests."""
    home = tmp_path / "home"
    home.mkdir()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    tree = {name: os.environ[name] for name in ["PYTHONPATH"] if name in os.environ}  # another than is installed
    return {
        **tree,
        "HOME": str(home),
        "PATH": path,
        "PYTHONPATH": str(ROOT),  # this very tree, which need not be the one that is installed
        "LANG": "C.UTF-8",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "PYTHONWARNINGS": "error::RuntimeWarning,default::ResourceWarning",
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
    }


@pytest.mark.parametrize("page", with_code(), ids=name)
def test_every_block_of_the_page_runs_in_order(page: Path, folder: Path, environment: dict[str, str]) -> None:
    for fence in fences(page):
        if fence.language in RUN and fence.not_run is None:
            with serving(fence) as (text, keys):
                check(fence, run(fence, text, folder, {**environment, **keys}))


def test_blocks_that_do_not_run_are_few_and_say_why() -> None:
    left_out = [fence for page in pages() for fence in fences(page) if fence.language in RUN and fence.not_run]
    assert len(left_out) <= MOST_NOT_RUN, [fence.where for fence in left_out]
    assert all(len(fence.not_run or "") > 8 for fence in left_out)


def test_every_block_has_a_language() -> None:
    known = {*RUN, "text", "mermaid", "json", "toml", "yaml"}
    assert [fence.where for page in pages() for fence in fences(page) if fence.language not in known] == []


# -- one block ---------------------------------------------------------------------------------------------------------


@contextmanager
def serving(fence: Fence) -> Iterator[tuple[str, dict[str, str]]]:
    """The block's text and the variables it needs; with a model note, a strict fake service that plays its replies."""
    if fence.model is None:
        yield fence.text, {}
        return
    with FakeServer.in_thread(strict=OWN_SERVICE not in fence.text) as model:
        model.script(*replies(fence.model))
        keys = {
            "ANTHROPIC_API_KEY": "k-of-the-docs",
            "ANTHROPIC_BASE_URL": model.url,
            "OPENAI_API_KEY": "k-of-the-docs",
            "OPENAI_BASE_URL": model.v1,
        }
        yield fence.text.replace(OWN_SERVICE, model.url), keys
        model.assert_accepted()


def replies(note: str) -> list[Reply]:
    words = {word: getattr(tests.fakes, word) for word in tests.fakes.__all__}
    return [eval(expression.strip(), words) for expression in note.split(";")]


def run(fence: Fence, text: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    if fence.language == "python":
        command = [sys.executable, "-c", text]
        title = re.match(r"# (\w+\.py)\n", text)
        if title is not None:
            (folder / title[1]).write_text(text)
            command = [sys.executable, title[1]]
    else:
        # The helper script has tests of its own; here it would only look after the environment once more.
        text = text.replace("./dev run", "agent-nodes ask").replace("flows/", f"{ROOT}/flows/")
        command = ["bash", "-eu", "-o", "pipefail", "-c", text]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def check(fence: Fence, done: subprocess.CompletedProcess[str]) -> None:
    report = f"{fence.where} ended with {done.returncode}\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"
    assert done.returncode == fence.status, report
    assert "Traceback" not in done.stderr, report
    assert "Warning" not in done.stderr, report
    if fence.output is not None:
        assert plain(done.stdout) == plain(fence.output), report


def plain(text: str) -> list[str]:
    """Words alone: how help is wrapped, and how it spells options with a short form, depends on the Python."""
    return re.sub(r"(-\w) ([A-Z]+), (--[\w-]+) \2", r"\1, \3 \2", " ".join(text.split())).split()
