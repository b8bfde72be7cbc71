"""What a call does while somebody else has its session: wait its turn, skip its own, or refuse.

Calls of this process wait in the order in which they came, on whatever loop or thread. The one in front then tries the
session itself, which another process may have. Nothing of a call that waits is anywhere but here.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from agent_nodes._aio import AbortSignal
from agent_nodes._clock import SYSTEM_CLOCK, Clock
from agent_nodes.errors import ExecutionAborted, InputValidationError, SessionBusy
from agent_nodes.nodes.gate import Gate, Ticket
from agent_nodes.runtime import AgentRuntime
from agent_nodes.store.files import real_path

OnBusy: TypeAlias = Literal["wait", "skip", "refuse"]

BUSY_TIMEOUT = 600.0
FIRST_LOOK, LAST_LOOK = 0.05, 1.0
"""Seconds between two tries at a session that another process has; the first, and what they grow to."""


@dataclass(frozen=True, slots=True)
class BusyRule:
    """``timeout``: seconds that a call waits at most."""

    on_busy: OnBusy = "wait"
    timeout: float = BUSY_TIMEOUT


def busy_rule(on_busy: object, timeout: object) -> BusyRule:
    """The rule, checked. Raises :class:`InputValidationError` naming the option."""
    if on_busy not in get_args(OnBusy):
        known = ", ".join(repr(each) for each in get_args(OnBusy))
        raise InputValidationError(
            f"create_agent_node: on_busy: {on_busy!r} is unknown; there is {known}", field="on_busy"
        )
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        raise InputValidationError(
            "create_agent_node: busy_timeout: must be a number of seconds above 0", field="busy_timeout"
        )
    return BusyRule(cast("OnBusy", on_busy), float(timeout))


class _Lines:
    """The lines in front of the sessions of this process, by real path; those that nobody stands in are forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gates: dict[Path, Gate] = {}

    def arrive(self, path: Path, *, queue: bool) -> Ticket | None:
        """A ticket for the session; None where somebody is there already and one is not to ``queue``."""
        with self._lock:
            gate = self._gates.setdefault(path, Gate())
            if not queue and not gate.empty:
                return None
            return gate.arrive()

    def leave(self, path: Path, ticket: Ticket) -> None:
        with self._lock:
            gate = self._gates[path]
            gate.leave(ticket)
            if gate.empty:
                del self._gates[path]


# Only one process can be asked for the order of its calls, and it is asked from every loop.
_lines = _Lines()

_held: ContextVar[tuple[tuple[Path, Ticket], ...]] = ContextVar("agent_nodes_held_sessions", default=())


def _forget() -> None:
    """In a forked child, in which none of the calls goes on."""
    global _lines  # noqa: PLW0603
    _lines = _Lines()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@asynccontextmanager
async def opened_in_turn(
    path: Path,
    opening: Callable[[], Coroutine[Any, Any, AgentRuntime]],
    rule: BusyRule,
    *,
    signal: AbortSignal | None = None,
    on_wait: Callable[[SessionBusy], None] | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> AsyncGenerator[AgentRuntime]:
    """The runtime that ``opening()`` makes of the session at ``path``, once it is this call's turn; closed at the end.

    ``on_wait`` hears once that the call waits, and for whom as far as that is known. Raises ``SessionBusy`` where the
    rule says so, or the time is up; ``ExecutionAborted`` where ``signal`` is set while it waits; and what ``opening``
    raises.
    """
    path = real_path(path)
    held = _held.get()
    if any(ticket.inside for mine, ticket in held if mine == path):
        raise _busy(path, "the very turn that this call is made from; give the node another session_key")
    lines = _lines
    ticket = lines.arrive(path, queue=rule.on_busy == "wait")
    if ticket is None:
        raise _busy(path, "other calls of this process; wait for them to end (on_busy='wait' does)")
    try:
        runtime = await _Wait(path, ticket, rule, signal, on_wait, clock, clock.monotonic() + rule.timeout).open(
            opening
        )
        token = _held.set((*held, (path, ticket)))
        try:
            async with runtime:
                yield runtime
        finally:
            with suppress(ValueError):  # closed from another context: a generator that nobody finished
                _held.reset(token)
    finally:
        lines.leave(path, ticket)


def _busy(path: Path, who: str) -> SessionBusy:
    pid, host = os.getpid(), socket.gethostname()
    return SessionBusy(f"The session {path} is in use in this process (pid {pid}), by {who}.", pid=pid, host=host)


@dataclass(slots=True)
class _Wait:
    """One call's wait for its session."""

    path: Path
    ticket: Ticket
    rule: BusyRule
    signal: AbortSignal | None
    on_wait: Callable[[SessionBusy], None] | None
    clock: Clock
    end: float

    async def open(self, opening: Callable[[], Coroutine[Any, Any, AgentRuntime]]) -> AgentRuntime:
        if not self.ticket.inside:
            busy = _busy(self.path, "calls that came before")
            self._told(busy)
            while not self.ticket.inside:
                await self._woken(busy)
        pause = FIRST_LOOK
        while True:
            try:
                return await opening()
            except SessionBusy as error:
                if self.rule.on_busy != "wait":
                    raise
                busy = error
            self._told(busy)
            await self._woken(busy, pause)
            pause = min(2 * pause, LAST_LOOK)

    def _told(self, busy: SessionBusy) -> None:
        on_wait, self.on_wait = self.on_wait, None
        if on_wait is not None:
            on_wait(busy)

    async def _woken(self, busy: SessionBusy, pause: float | None = None) -> None:
        """Wait for the call's turn, or for ``pause`` seconds."""
        left = self.end - self.clock.monotonic()
        if left <= 0:
            raise SessionBusy(
                f"{busy.message} Waited {self.rule.timeout:g} s for it (busy_timeout).", pid=busy.pid, host=busy.host
            )
        woken = asyncio.Event() if pause is not None else self.ticket.called
        timer = self.clock.call_later(left if pause is None else min(pause, left), woken.set)
        forget = None if self.signal is None else self.signal.on_set(woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()
            if forget is not None:
                forget()
        if self.signal is not None and self.signal.is_set:
            raise ExecutionAborted(self.signal.reason or "The turn was stopped before it started.")
