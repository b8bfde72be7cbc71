"""Two parents for the whole run of tests, a core each, and how a test plays cases on them."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.crash.parent import Job
from tests.crash.points import committed, kill_points

ROOT = Path(__file__).parents[2]
PARENTS = 2


class Suite:
    """Cases are independent of each other; their results come in the order in which they were given."""

    def __init__(self, parents: Sequence[subprocess.Popen[str]], root: Path) -> None:
        self._parents = parents
        self._root = root
        self._killed: dict[str, list[tuple[Job, dict[str, Any]]]] = {}

    def play(self, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        results: dict[int, dict[str, Any]] = {}
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(len(jobs)):
            waiting.put(number)

        def work(parent: subprocess.Popen[str]) -> None:
            assert parent.stdin is not None and parent.stdout is not None
            while True:
                try:
                    number = waiting.get_nowait()
                except queue.Empty:
                    return
                parent.stdin.write(json.dumps({**jobs[number], "root": str(self._root)}) + "\n")
                parent.stdin.flush()
                results[number] = json.loads(parent.stdout.readline() or '{"wrong": ["the parent died"]}')

        threads = [threading.Thread(target=work, args=(parent,), daemon=True) for parent in self._parents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [results[number] for number in range(len(jobs))]

    def check(self, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        """Play and raise AssertionError with everything that any of them found wrong, and how to see it again."""
        results = self.play(jobs)
        bad = [(job, result["wrong"]) for job, result in zip(jobs, results, strict=True) if result["wrong"]]
        if bad:
            lines = [f"{len(bad)} of {len(jobs)} cases went wrong:"]
            for job, wrong in bad:
                lines += [f"python -m tests.crash.parent '{json.dumps(job)}'", *(f"    {text}" for text in wrong)]
            raise AssertionError("\n".join(lines))
        return results

    def record(self, scene: str, **more: Any) -> list[tuple[int, str]]:
        """The points of a run without a kill, each with the number of its process."""
        (result,) = self.check([{"scene": scene, **more}])
        return [(number, point) for number, points in enumerate(result["traces"]) for point in kill_points(points)]

    def killed_once(self, scene: str) -> list[tuple[Job, dict[str, Any]]]:
        """Every case of ``scene`` with one kill, played once for all tests."""
        if scene not in self._killed:
            jobs: list[Job] = [{"scene": scene, "kills": [list(kill)]} for kill in self.record(scene)]
            self._killed[scene] = list(zip(jobs, self.check(jobs), strict=True))
        return self._killed[scene]

    def interruptions(self, scene: str, how: str) -> list[Job]:
        """Cases that stop, close or cancel a run at each of its points from the admission on."""
        points = self.record(scene)
        start = points.index((0, "commit admit+intent begin#1"))
        return [{"scene": scene, "interrupt": point, "how": how} for point in points[start:]]

    def second_kills(self, scene: str) -> list[Job]:
        """Cases that kill the run that takes over as well: at each commit that only such a run makes, wherever the run
        came to it by another way."""
        ordinary = {point.split(" ")[1] for _, point in self.record(scene) if point.startswith("commit ")}
        jobs: dict[tuple[Any, ...], Job] = {}
        for job, result in self.killed_once(scene):
            (killed, point), *_ = job["kills"]
            for index, points in enumerate(result["traces"][killed + 1 :]):
                for number, second in enumerate(points):
                    if second.startswith("commit ") and second.split(" ")[1] not in ordinary:
                        way = (killed, index, second, *committed(points[:number]))
                        jobs.setdefault(way, {"scene": scene, "kills": [[killed, point], [index, second]]})
        return list(jobs.values())


@pytest.fixture(scope="session")
def suite() -> Iterator[Suite]:
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    memory = Path("/dev/shm")
    # What survives a killed process does not depend on the disk, and there are hundreds of files.
    with tempfile.TemporaryDirectory(prefix="crash-", dir=memory if os.access(memory, os.W_OK) else None) as root:
        yield from _with_parents(Path(root))


def _with_parents(root: Path) -> Iterator[Suite]:
    command = [sys.executable, "-W", "error", "-m", "tests.crash.parent"]
    parents = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for _ in range(PARENTS)
    ]
    yield Suite(parents, root)
    for parent in parents:
        assert parent.stdin is not None and parent.stdout is not None
        parent.stdin.close()
        parent.stdout.close()
        parent.wait(60)
