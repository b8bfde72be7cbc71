"""The power fails: of the session there is what the disk held at a commit. What was waited for is there."""

from __future__ import annotations

import pytest

from tests.crash.conftest import Suite


@pytest.mark.parametrize("scene", ["tools", "dropped", "stop-in-a-tool", "shutdown-in-a-stream"])
def test_what_the_disk_holds_at_any_commit_opens_and_goes_on(suite: Suite, scene: str):
    points = [(number, point) for number, point in suite.record(scene) if " committed#" in point]
    assert any("commit progress" in point for _, point in points)
    suite.check([{"scene": scene, "power": point} for point in points])
