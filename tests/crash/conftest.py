"""Two parents for the whole run of tests, a core each, and how a test plays cases on them."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.crash.parent import Job
from tests.crash.points import kill_points

ROOT = Path(__file__).parents[2]
PARENTS = 2


class Suite:
    """Cases are independent of each other; their results come in the order in which they were given."""

    def __init__(self, parents: Sequence[subprocess.Popen[str]], root: Path) -> None:
        self._parents = parents
        self._root = root
        self.played = 0

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
        self.played += len(jobs)
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


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    root = tmp_path_factory.mktemp("cases")
    command = [sys.executable, "-W", "error", "-m", "tests.crash.parent"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    parents = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
        )
        for _ in range(PARENTS)
    ]
    made = Suite(parents, root)
    yield made
    for parent in parents:
        assert parent.stdin is not None and parent.stdout is not None
        parent.stdin.close()
        parent.stdout.close()
        parent.wait(60)
