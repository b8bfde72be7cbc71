"""A process is killed at every point of every scene; the one that comes after it leads the turn to its end."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from agent_nodes import engine
from tests.crash.conftest import Suite
from tests.crash.points import committed
from tests.crash.scenes import SCENES


@pytest.mark.parametrize("scene", SCENES)
def test_a_run_killed_anywhere_goes_on_to_the_same_end(suite: Suite, scene: str):
    assert suite.killed_once(scene)


@pytest.mark.parametrize("scene", SCENES)
def test_a_run_that_takes_over_may_be_killed_as_well(suite: Suite, scene: str):
    jobs = suite.second_kills(scene)
    assert jobs
    suite.check(jobs)


def test_the_scenes_come_by_every_commit_of_the_engine(suite: Suite):
    seen = {
        label
        for scene in SCENES
        for _, result in suite.killed_once(scene)
        for points in result["traces"]
        for label in committed(points)
    }
    assert written() - seen == set()


LABEL = {"commit": 0, "_settle_turns": 1}


def written() -> set[str]:
    """The labels in the engine's source: every word in the argument that names a commit."""
    found: set[str] = set()
    for path in Path(engine.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LABEL:
                label = node.args[LABEL[node.func.attr]]
                found |= {str(part.value) for part in ast.walk(label) if isinstance(part, ast.Constant)}
    return found
