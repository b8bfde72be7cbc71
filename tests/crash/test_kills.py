"""A process is killed at every point of every scene; the one that comes after it leads the turn to its end."""

from __future__ import annotations

import pytest

from tests.crash.conftest import Suite
from tests.crash.scenes import SCENES


@pytest.mark.parametrize("scene", SCENES)
def test_a_run_killed_anywhere_goes_on_to_the_same_end(suite: Suite, scene: str):
    assert suite.killed_once(scene)


@pytest.mark.parametrize("scene", SCENES)
def test_a_run_that_takes_over_may_be_killed_as_well(suite: Suite, scene: str):
    jobs = suite.second_kills(scene)
    assert jobs
    suite.check(jobs)
