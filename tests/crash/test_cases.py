"""Single cases, told one by one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.crash.conftest import Suite

linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


def test_du_01_a_payment_is_not_made_again_after_a_kill(suite: Suite):
    """Killed between effect and result: ``pay`` (never) is reported as interrupted, ``look`` (safe) runs again."""
    paid, looked = suite.check(
        [{"scene": "tools", "kills": [[0, point]]} for point in ("tool pay effect#1", "tool look effect#1")]
    )
    for result in (paid, looked):
        assert Counter(line["tool"] for line in result["ledger"])["pay"] == 1
    results = {call["tool"]: call["result"] for call in paid["calls"].values()}
    assert "Whether it took effect is unknown" in results["pay"]
    assert results["look"] == "look: done"
    assert [line["process"] for line in looked["ledger"] if line["tool"] == "look"] == [0, 1]


def test_du_01_a_later_sequential_call_that_never_started_is_not_called_interrupted(suite: Suite):
    (result,) = suite.check([{"scene": "tools", "kills": [[0, "tool first effect#1"]]}])
    results = {call["tool"]: call["result"] for call in result["calls"].values()}
    assert results["first"].startswith("[interrupted]")
    assert results["second"] == "second: done"


def test_hi_01_a_stop_during_a_tool_leaves_every_call_with_one_result(suite: Suite):
    """That the next prompt is answered is part of every case."""
    (result,) = suite.check([{"scene": "stop-in-a-tool"}])
    results = {call["tool"]: call["result"] for call in result["calls"].values()}
    assert results["pay"] == "pay: done"
    assert results["hang"].startswith("[stopped]")
    assert results["second"].startswith("[not run]")


@linux
def test_commands_of_a_killed_process_are_ended_before_the_turn_goes_on(suite: Suite):
    (result,) = suite.check([{"scene": "bash", "kills": [[0, "tool bash output#1"]]}])
    (call,) = result["calls"].values()
    assert call["result"].startswith("[interrupted]")
