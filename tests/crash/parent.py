"""The process that forks. It has everything imported, one thread and no loop, so that a fork is cheap and safe.

It reads jobs as JSON lines and answers each with one. By hand, to see one case again:

    python -m tests.crash.parent '{"scene": "text", "kills": [[0, "commit answer.settle commit#1"]]}'
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from agent_nodes.options import agent_input
from agent_nodes.runtime_options import agent_options
from tests.crash import checks
from tests.crash.child import Order, Report, ask_again, play
from tests.crash.points import Action, trace
from tests.crash.scenes import ALL, Run, Scene
from tests.crash.world import LEDGER, REQUESTS

HANG_GUARD = 60

Job = dict[str, Any]


_USED_LATER = (
    "agent_nodes.providers.anthropic_messages",
    "agent_nodes.providers.failures",
    "agent_nodes.providers.openai_completions",
    "agent_nodes.providers.openai_responses",
    "agent_nodes.store._empty",
    "anyio._backends._asyncio",
    "h2.connection",
    "httpcore2._async.http11",
    "httpcore2._backends.anyio",
    "httpx2",
    "jsonschema_rs",
)


def warm() -> None:
    """Import and build what the children need on their way."""
    for name in _USED_LATER:
        with suppress(ImportError):  # nothing but time depends on it
            import_module(name)
    agent_options({})
    agent_input({"prompt": "warm"})
    gc.collect()
    gc.freeze()


def fork(work: Callable[[], Report], folder: Path, number: int) -> tuple[int, Report | None, str]:
    """Run ``work`` in a child: its exit code (or minus the signal), its report and what it wrote to stderr."""
    report, errors = folder / f"report-{number}", folder / f"stderr-{number}"
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            fd = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(fd, 1)
            os.dup2(fd, 2)
            faulthandler.dump_traceback_later(HANG_GUARD, exit=True)
            report.write_text(json.dumps(work()))
            gc.collect()  # what was left behind unfinished speaks up now
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    found = json.loads(report.read_text()) if report.exists() else None
    return os.waitstatus_to_exitcode(status), found, errors.read_text() if errors.exists() else ""


@dataclass
class Case:
    """A scene being played: processes get numbers in the order in which they run."""

    scene: Scene
    folder: Path
    wire: tuple[str, str] | None
    number: int = 0
    killed: set[int] = field(default_factory=set[int])
    wrong: list[str] = field(default_factory=list[str])
    traces: list[list[str]] = field(default_factory=list[list[str]])
    last: Report | None = None
    loose: bool = False
    """Whether a process took over from itself, so that no snapshot tells which calls were under way."""

    def order(self, run: Run, at: str | None = None, action: Action = "kill") -> Order:
        return Order(self.scene, run, self.folder, self.number, at, action, self.wire)

    def complete(self, run: Run) -> None:
        """One run to its end, which is checked."""
        self._completed(run, *fork(lambda: play(self.order(run)), self.folder, self.number))

    def kill(self, run: Run, point: str, *, certain: bool) -> None:
        """One run up to ``point``. Unless ``certain`` it may come to its end by another way: where it takes calls
        over, results may share a commit or not."""
        code, report, errors = fork(lambda: play(self.order(run, point)), self.folder, self.number)
        if code != -signal.SIGKILL and not certain:
            self._completed(run, code, report, errors)
            return
        if code != -signal.SIGKILL:
            self._say([f"was not killed at {point!r} (exit code {code})\n{errors}"])
        self.traces.append(trace(self.folder, self.number))
        self.killed.add(self.number)
        self.number += 1

    def _completed(self, run: Run, code: int, report: Report | None, errors: str, *, ends: str | None = None) -> None:
        if code or errors or report is None:
            self._say([f"exit code {code}, stderr:\n{errors}"])
            return
        if self.killed and self.scene.stops:
            ends = "aborted" if self._stop_was_marked() else "answered"
        self._say(checks.run(self.scene, run, report, ends=ends or run.ends))
        self.traces.append(report["trace"])
        self.last = report
        self.number += 1

    def lose_power(self, run: Run, point: str) -> None:
        """One run to its end, of which only what the disk held at ``point`` is left."""
        code, _, errors = fork(lambda: play(self.order(run, point, "copy")), self.folder, self.number)
        copy = self.folder / "copy"
        if code or not copy.exists():
            self._say([f"made no copy at {point!r} (exit code {code})\n{errors}"])
        else:
            self.folder = copy
        self.traces.append(trace(self.folder, self.number))
        self.killed.add(self.number)
        self.number += 1

    def interrupt(self, run: Run, point: str, how: Action) -> None:
        """One run that is stopped, closed or cancelled at ``point``, which may be too late. A cancelled one goes on in
        the same process."""
        code, report, errors = fork(lambda: play(self.order(run, point, how)), self.folder, self.number)
        self.killed.add(self.number)
        self.loose = how == "cancel"
        if report is None or report["raised"] is None:
            late = "answered"
        else:
            late = {"stop": "aborted", "close": "closed", "cancel": "answered"}[how]
        self._completed(run, code, report, errors, ends=late)

    def again(self, run: Run) -> None:
        """The same submission once more, the session goes on, and the file is looked at."""
        if self.last is None or self.wrong:
            return
        last = self.last
        code, found, errors = fork(lambda: ask_again(self.order(run), last), self.folder, self.number)
        if code or errors or found is None:
            self._say([f"exit code {code}, stderr:\n{errors}"])
            return
        self._say(found["wrong"])
        self._say(checks.effects(self.calls(), self.lines(LEDGER), None if self.loose else self._unknown()))
        if self.wire is None:
            self._say(checks.billing(self.folder, self.scene, self.lines(REQUESTS), self.killed))

    def calls(self) -> dict[str, dict[str, Any]]:
        return checks.calls(self.folder)

    def lines(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def _say(self, wrong: list[str]) -> None:
        self.wrong += [f"process {self.number}: {text}" for text in wrong]

    def _unknown(self) -> set[str]:
        """The calls that any process found under way."""
        found = [self.folder / f"before-{number}" for number in range(self.number)]
        befores = [json.loads(path.read_text()) for path in found if path.exists()]
        return {call for before in befores if before is not None for call in before["unknown"]}

    def _stop_was_marked(self) -> bool:
        return any("commit abort.mark committed#1" in trace(self.folder, n) for n in range(self.number))


def _by_chance(case: Case, point: str) -> bool:
    """How many pieces of an answer arrive together is up to the network."""
    return case.wire is not None and (" delta " in point or point.startswith("commit progress "))


def play_case(job: Job) -> dict[str, Any]:
    """``kills`` is a list of (index of the run, point): the first counts the scene's runs, each further one those that
    follow a kill. In place of them ``power`` or ``interrupt`` is one such pair, the latter with ``how``."""
    scene = ALL[job["scene"]]
    folder = Path(tempfile.mkdtemp(prefix="crash-", dir=job.get("root")))
    case = Case(scene, folder, tuple(job["wire"]) if job.get("wire") else None)  # type: ignore[arg-type]
    try:
        runs = scene.runs
        single = [job[name] for name in ("power", "interrupt") if name in job]
        for index, point in [*job.get("kills", ()), *single]:
            for run in runs[:index]:
                case.complete(run)
            if "power" in job:
                case.lose_power(runs[index], point)
            elif "interrupt" in job:
                case.interrupt(runs[index], point, job["how"])
            else:
                case.kill(runs[index], point, certain=not (case.killed or _by_chance(case, point)))
            if scene.leaves and not checks.processes(folder):
                case.wrong.append("the killed run left no process behind")
            runs = scene.after
        if job.get("how") != "stop":
            for run in runs:
                case.complete(run)
        case.again(runs[-1])
        case.wrong += [f"process {pid} is still there" for pid in checks.processes(folder)]
        answer = {"wrong": case.wrong, "traces": case.traces, "ledger": case.lines(LEDGER)}
        return answer | {"calls": case.calls() if not case.wrong else {}}
    except Exception:
        return {"wrong": [traceback.format_exc()], "traces": case.traces, "ledger": [], "calls": {}}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    warm()
    if len(sys.argv) > 1:
        print(json.dumps(play_case(json.loads(sys.argv[1])), indent=1))
        return
    for line in sys.stdin:
        print(json.dumps(play_case(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
