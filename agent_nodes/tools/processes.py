"""Ending processes: a group as one, and whatever carries the marker of a call, also after a crash."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from agent_nodes.tools.base import MARKER

GRACE = 2.0
STARTING_LOOKS = 5

# Whether the entries of an environment are those of a process to end.
_Wanted: TypeAlias = Callable[[list[bytes]], bool]


async def end_group(process: asyncio.subprocess.Process) -> None:
    """End every process of the group: asked first, killed after GRACE seconds, killed at once when we are cancelled."""
    group = process.pid
    if _signal_group(group, signal.SIGTERM):
        try:
            await _until_gone(group)
        finally:
            _signal_group(group, signal.SIGKILL)
        await _until_gone(group)
    await process.wait()


async def _until_gone(group: int) -> None:
    """Wait until nothing of the group runs, GRACE seconds at most. Nobody tells when that is, so it is looked at."""
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            while _signal_group(group, 0) and await asyncio.to_thread(_has_living, group):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


def _signal_group(group: int, number: int) -> bool:
    """Whether the group was still there."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS says so for a group of zombies; elsewhere nothing in it is ours any more
        return False
    return True


def _has_living(group: int) -> bool:
    """Whether a process of the group still runs. Ended ones stay in it until somebody asks for their status, which in
    a container may be never; where that cannot be told apart (no /proc), they count."""
    pids = _pids()
    return not pids or any(_runs_in(pid, group) for pid in pids)


def _runs_in(pid: int, group: int) -> bool:
    try:
        # "pid (name) state parent group …"; the name may hold anything.
        state, _, own_group, *_ = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return False
    return int(own_group) == group and state not in (b"Z", b"X")


def sweep(marker: str) -> int:
    """Kill every process that carries ``AGENT_NODES_CALL=<marker>`` in the environment it was started with; returns how
    many. Recovery calls it for what a crash left behind. Needs Linux' /proc; elsewhere it does nothing.

    A process that cleared its environment is not found.
    """
    entry = f"{MARKER}={marker}".encode()
    return _sweep(lambda environment: entry in environment) if marker else 0


def sweep_session(session_id: str) -> int:
    """As :func:`sweep`, for every call of the session: their markers are its id, a colon and a number. Only for who
    owns the session, while none of its calls runs."""
    start = f"{MARKER}={session_id}:".encode()

    def is_ours(environment: list[bytes]) -> bool:
        return any(entry.startswith(start) and entry[len(start) :].isdigit() for entry in environment)

    return _sweep(is_ours) if session_id else 0


def _sweep(is_wanted: _Wanted) -> int:
    killed: set[int] = set()
    looks = STARTING_LOOKS
    # Again until nothing new turns up: what was found may have started another one meanwhile.
    while looks:
        marks = {pid: _carries(pid, is_wanted) for pid in _pids() if pid not in killed and pid != os.getpid()}
        found = {pid for pid, mark in marks.items() if mark and _kill_marked(pid, is_wanted)}
        killed |= found
        if found:
            continue
        if None not in marks.values():
            break
        looks -= 1
        time.sleep(0.005)
    return len(killed)


def _pids() -> list[int]:
    try:
        return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]
    except OSError:
        return []


def _carries(pid: int, is_wanted: _Wanted) -> bool | None:
    """None for a process that shows no environment at all: it may be about to become another program, whose own will
    be there in a moment."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        if not environment:
            Path(f"/proc/{pid}/exe").readlink()  # fails for threads of the kernel and for what has ended
            return None
    except OSError:
        return False
    return is_wanted(environment.split(b"\0"))


def _kill_marked(pid: int, is_wanted: _Wanted) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # Looked at again with the handle open: the number may have gone to another process in between.
        if not _carries(pid, is_wanted):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        select.select([handle], [], [], GRACE)  # readable once it has ended
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
