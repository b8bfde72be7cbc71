"""The points that a run passes: each is written down the moment it is reached, and at one of them the process may die.

A point is a name and how often this process has been there: ``commit answer.settle begin#1``, ``request 2 delta 3#1``,
``tool pay effect#1``.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent_nodes.store.storage import AgentStorage, AgentStorageFactory

FILE = "session.sqlite"

# Commits that do not wait for the disk.
UNSYNCED = ("commit progress ", "commit open.create ")

Action = Literal["kill", "copy", "stop", "close", "cancel"]


def _nothing() -> None:
    pass


class Points:
    """``reach`` may be called from any thread. At the point ``at`` the process kills itself, or the session's file is
    copied as a disk would hold it, or ``interrupt`` is called; the process goes on then."""

    def __init__(self, folder: Path, number: int, at: str | None = None, action: Action = "kill") -> None:
        self._folder = folder
        self._at = at
        self._action = action
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._trace = os.open(folder / f"trace-{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._synced = 0
        self.interrupt: Callable[[], object] = _nothing

    def reach(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1
            point = f"{name}#{self._counts[name]}"
            os.write(self._trace, f"{point}\n".encode())
        if point == self._at:
            if self._action == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            elif self._action == "copy":
                self._copy(durable=not name.startswith(UNSYNCED))
            else:
                self.interrupt()
        if name.endswith(" committed") and not name.startswith(UNSYNCED):
            self._synced = self._log_size()

    def _log_size(self) -> int:
        log = self._folder / f"{FILE}-wal"
        return log.stat().st_size if log.exists() else 0

    def _copy(self, *, durable: bool) -> None:
        """What the disk holds when the power fails here: all of it, or, when the last commit was one that does not wait
        for the disk, half of what it wrote."""
        copy = self._folder / "copy"
        copy.mkdir()
        for path in self._folder.iterdir():
            if path.is_file() and not path.name.endswith(("-shm", ".owner")):
                shutil.copy(path, copy)
        if not durable:
            os.truncate(copy / f"{FILE}-wal", (self._synced + self._log_size()) // 2)


@dataclass(frozen=True, slots=True)
class Observed:
    """A storage factory whose commits are points."""

    inner: AgentStorageFactory
    points: Points

    @property
    def label(self) -> str:
        return self.inner.label

    def open(self) -> AgentStorage:
        storage = self.inner.open()
        assert isinstance(storage, AgentStorage)
        storage.observe = lambda point, label: self.points.reach(f"commit {label} {point}")
        return storage


def trace(folder: Path, number: int) -> list[str]:
    path = folder / f"trace-{number}"
    return path.read_text().split("\n")[:-1] if path.exists() else []


def committed(points: Sequence[str]) -> list[str]:
    """The labels of the commits that were stored, in order."""
    return [point.split(" ")[1] for point in points if re.match(r"commit \S+ committed#", point)]


_DELTA = re.compile(r"request \d+ delta \d+#1\Z")
_BATCH = re.compile(r"commit progress \w+#(\d+)\Z")


def kill_points(points: Sequence[str]) -> list[str]:
    """All of them; but of the deltas and of the progress batches of one request or tool the first, the middle and the
    last."""
    where = ""
    groups: dict[str, list[str]] = {}
    member: dict[str, tuple[str, str]] = {}
    for point in points:
        if not point.startswith("commit "):
            where = " ".join(point.split(" ")[:2])
        if batch := _BATCH.match(point):
            member[point] = (f"{where} batches", batch[1])
        elif _DELTA.match(point):
            member[point] = (f"{where} deltas", point)
        if point in member:
            group, item = member[point]
            items = groups.setdefault(group, [])
            if item not in items:
                items.append(item)
    chosen = {(group, items[at]) for group, items in groups.items() for at in (0, len(items) // 2, -1)}
    return [point for point in points if point not in member or member[point] in chosen]
