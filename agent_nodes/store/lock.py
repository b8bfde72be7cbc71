"""One owner a session: an operating system lock on a file beside it, which ends with its process however that ends.

The lock file says who holds it. It stays in place afterwards, empty: removing it would let two processes lock two files
of the same name.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import orjson

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.errors import SessionBusy
from agent_nodes.store import faults

SUFFIX = ".owner"

if sys.platform == "win32":
    import msvcrt

    # Far behind the text, which others must be able to read.
    _LOCKED_BYTE = 1 << 30

    def _try_lock(fd: int) -> None:
        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

    def _unlock(fd: int) -> None:
        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _try_lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


_CONTENDED = {errno.EACCES, errno.EAGAIN, errno.EDEADLK, errno.EWOULDBLOCK}


class OwnerLock:
    """Held from :meth:`acquire` to :meth:`release`. Child processes do not inherit it. ``taken_over`` says that the
    holder before ended without giving it back."""

    __slots__ = ("_fd", "taken_over")

    def __init__(self, fd: int, *, taken_over: bool) -> None:
        self._fd: int | None = fd
        self.taken_over = taken_over

    @classmethod
    def acquire(cls, path: Path) -> OwnerLock:
        """Lock the session file at the real ``path`` (its folder must exist), at once or not at all.

        Raises ``SessionBusy``, which names the holder, and ``StorageError`` where the lock file cannot be made.
        """
        owner = f"{path}{SUFFIX}"
        try:
            fd = os.open(owner, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        except OSError as error:
            raise faults.file_error(error, str(path)) from error
        try:
            _try_lock(fd)
        except OSError as error:
            holder = _read(fd)
            os.close(fd)
            if error.errno in _CONTENDED:
                raise _busy(path, holder) from None
            raise faults.file_error(error, str(path)) from error
        lock = cls(fd, taken_over=os.fstat(fd).st_size > 0)
        try:
            _write(fd, orjson.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": SYSTEM_CLOCK.now()}))
        except OSError as error:
            os.close(fd)
            raise faults.file_error(error, str(path)) from error
        _held.add(lock)
        return lock

    def release(self) -> None:
        """Give the session free. A second call does nothing."""
        _held.discard(self)
        fd, self._fd = self._fd, None
        if fd is not None:
            # The text only names the holder. Unlocking first frees the session also while a child that is just being
            # started still has its copy of the descriptor.
            with suppress(OSError):
                os.ftruncate(fd, 0)
                _unlock(fd)
            os.close(fd)

    def _forget(self) -> None:
        """In a forked child: drop the copy of the descriptor, which would keep the lock alive after its owner."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


# One process opens each file once, the operating system sees to that.
_held: set[OwnerLock] = set()


def held() -> int:
    """How many sessions this process owns."""
    return len(_held)


def _forget_all() -> None:
    for lock in _held:
        lock._forget()  # pyright: ignore[reportPrivateUsage]
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _write(fd: int, data: bytes) -> None:
    os.ftruncate(fd, 0)
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, data)


def _read(fd: int) -> dict[str, Any]:
    """What the holder wrote; empty while it is just writing, or where it cannot be read."""
    try:
        os.lseek(fd, 0, os.SEEK_SET)
        data = orjson.loads(os.read(fd, 4096))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def _busy(path: Path, holder: dict[str, Any]) -> SessionBusy:
    pid, host = holder.get("pid"), holder.get("host")
    if not isinstance(pid, int) or not isinstance(host, str):
        return SessionBusy(f"The session {path} is open in another process. Wait for it to end, or stop it.")
    here = host == socket.gethostname()
    if here and pid == os.getpid():
        who, remedy = f"this process (pid {pid})", "Close it there first"
    else:
        who, remedy = f"process {pid} on {'this host' if here else 'host'} {host}", "Wait for it to end, or stop it"
    return SessionBusy(
        f"The session {path} is already open in {who}. {remedy}; nothing was changed.", pid=pid, host=host
    )
