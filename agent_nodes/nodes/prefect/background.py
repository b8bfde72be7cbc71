"""Work for the Prefect API that no turn waits for: done in one thread, in order; what fails is left out.

A process that ends gives it :data:`DRAIN_SECONDS` for what is still to be done.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from prefect import get_client
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.settings import PREFECT_API_URL

from agent_nodes._clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

MOST_JOBS = 1_000
TICK_SECONDS = 1.0
IDLE_SECONDS = 5.0
DRAIN_SECONDS = 5.0
REQUEST_SECONDS = 10.0

log = logging.getLogger(__name__)


class Api:
    """The requests, over one connection for as long as the address stays the same. Each raises what Prefect does."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._client: SyncPrefectClient | None = None
        self._url: str | None = None

    def create(self, **fields: Any) -> UUID:
        return self._connected().create_artifact(ArtifactCreate(**fields)).id

    def update(self, artifact: UUID, **fields: Any) -> None:
        self._connected().update_artifact(artifact, ArtifactUpdate(**fields))

    def close(self) -> None:
        self._client = None
        self._open.close()

    def _connected(self) -> SyncPrefectClient:
        url = PREFECT_API_URL.value()
        if self._client is None or url != self._url:
            self.close()
            # Settings of its own: without them it would be the flow's client, which ends with the flow.
            client = get_client(httpx_settings={"timeout": REQUEST_SECONDS}, sync_client=True)
            self._client, self._url = self._open.enter_context(client), url
        return self._client


Job: TypeAlias = Callable[[Api], object]


class Background:
    """``tick_seconds``: how often those who follow are asked."""

    def __init__(self, tick_seconds: float = TICK_SECONDS) -> None:
        self._tick_seconds = tick_seconds
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._followers: dict[int, Job] = {}
        self._thread: threading.Thread | None = None
        self._tick = 0.0
        self._at_work = False
        self._registered = False
        self._told = False

    def put(self, job: Job) -> None:
        """Do it soon. While :data:`MOST_JOBS` are waiting, it is left out."""
        with self._changed:
            if len(self._jobs) < MOST_JOBS:
                self._jobs.append(job)
            self._wake()

    def follow(self, who: object, tick: Job) -> None:
        """Do it every now and then, until :meth:`unfollow`."""
        with self._changed:
            self._followers[id(who)] = tick
            self._wake()

    def unfollow(self, who: object) -> None:
        with self._changed:
            self._followers.pop(id(who), None)

    def drain(self, seconds: float = DRAIN_SECONDS) -> bool:
        """Wait until everything is done, or that long; whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._jobs and not self._at_work, seconds)

    def close(self, seconds: float = DRAIN_SECONDS) -> bool:
        """:meth:`drain`, and let the thread end with its connection; whether it has."""
        self.drain(seconds)
        with self._changed:
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        if thread is not None:
            thread.join(seconds)
        return thread is None or not thread.is_alive()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="agent-nodes-prefect", daemon=True)
            self._thread.start()
        if not self._registered:
            self._registered = True
            _at_exit(self)
        self._changed.notify_all()

    def _run(self) -> None:
        api = Api()
        while (jobs := self._next()) is not None:
            for job in jobs:
                self._do(job, api)
            with self._changed:
                self._at_work = False
                self._changed.notify_all()
        api.close()

    def _next(self) -> list[Job] | None:
        """The next job, or what those who follow want done; None when there has been nothing to do for a while."""
        with self._changed:
            idle = SYSTEM_CLOCK.monotonic() + IDLE_SECONDS
            while self._thread is threading.current_thread():
                now = SYSTEM_CLOCK.monotonic()
                if self._followers and now >= self._tick:
                    self._tick = now + self._tick_seconds
                    return list(self._followers.values())
                if self._jobs:
                    self._at_work = True
                    return [self._jobs.popleft()]
                left = (self._tick if self._followers else idle) - now
                if left <= 0:
                    self._thread = None
                    break
                self._changed.wait(left)
            return None

    def _do(self, job: Job, api: Api) -> None:
        try:
            job(api)
        except Exception as error:  # a turn has its own end, whatever the server says
            log.debug("Could not show something of a turn in Prefect", exc_info=True)
            if not self._told:
                self._told = True
                log.warning("Something of a turn could not be shown in Prefect (%s).", type(error).__name__)


_background = Background()


def background() -> Background:
    """The one of this process."""
    return _background


def _forget() -> None:
    """In a forked child, which has no such thread."""
    global _background  # noqa: PLW0603
    _background = Background()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _at_exit(background: Background) -> None:
    """Drain before Prefect's own threads end, which send what ours hand to them. Those ends are run in reverse order,
    and only this list, which Prefect uses too, is gone through before they have ended."""
    register: Callable[[Callable[[], object]], None] | None = getattr(threading, "_register_atexit", None)
    if register is not None:
        try:
            register(background.drain)
        except RuntimeError:  # the interpreter is ending already
            log.debug("Too late to wait for what is to be shown in Prefect")
