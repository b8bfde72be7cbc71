"""A run is stopped, closed or cancelled at every point, also in the middle of a commit; what was asked for holds."""

from __future__ import annotations

import pytest

from tests.crash.conftest import Suite

SCENES = ["text", "tools", "refused-calls", "ended-by-tools", "dropped"]


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("how", ["stop", "close", "cancel"])
def test_a_run_interrupted_anywhere_leaves_a_session_that_is_whole(suite: Suite, scene: str, how: str):
    """Stopped: it ends so, or was answered already, and stays as it is. Closed: a later process leads it to its end.
    Cancelled: the same process does."""
    suite.check(suite.interruptions(scene, how))
