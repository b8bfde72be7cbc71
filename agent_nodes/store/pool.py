"""The writer threads of the process: up to four, shared by all sessions, started when there is work.

More threads would only fight for the interpreter: with one a session, 200 sessions write half as fast. They are
daemons. A process that ends does not wait for them, and what they were writing is rolled back as after a crash.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import TypeAlias

THREADS = 4

# Says whether it wants to run again, behind what others have queued meanwhile.
Job: TypeAlias = Callable[[], bool]


class _Pool:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._open = 0

    def submit(self, job: Job) -> None:
        with self._lock:
            self._open += 1
            start = self._open > self._threads and self._threads < THREADS
            self._threads += start
        self._jobs.put(job)
        if start:
            threading.Thread(target=self._work, name="agent-nodes-writer", daemon=True).start()

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job():
                self._jobs.put(job)
            else:
                with self._lock:
                    self._open -= 1
            # Or an idle thread would keep the last session in memory.
            del job


_pool: _Pool | None = None


def submit(job: Job) -> None:
    """Run ``job`` in a writer thread, soon. It must not raise."""
    global _pool  # noqa: PLW0603 - one pool a process is the point
    pool = _pool
    if pool is None or pool.pid != os.getpid():
        # A forked child has the parent's queue but none of its threads.
        pool = _pool = _Pool()
    pool.submit(job)
