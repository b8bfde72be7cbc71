"""Where the whole of a long output is kept for the model to read on: a private folder a session, under the folder for
temporary files. It outlives the agent, so that a session that goes on later finds it; what is old makes room."""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from agent_nodes._clock import SYSTEM_CLOCK

FILE_LIMIT = 100 << 20
SESSION_LIMIT = 256 << 20
"""Beyond that the oldest files of the session go when a new one comes."""
KEPT_SECONDS = 7 * 24 * 3600
"""Folders of sessions that have put out nothing for that long go when a folder for another session comes."""

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")


def outputs_folder(session_id: str) -> Path | None:
    """The real folder of a session's outputs, whether there is one yet or not; None without an id."""
    if not session_id:
        return None
    name = _NO_NAME.sub("", session_id)[:32]
    if name != session_id:  # two ids must not have one folder
        name += f"-{blake2b(session_id.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"
    return _base() / name


def forget_outputs(session_id: str) -> None:
    """Remove what is kept of a session."""
    folder = outputs_folder(session_id)
    if folder is not None:
        _remove(folder)


def _base() -> Path:
    import tempfile

    user = f"-{os.getuid()}" if hasattr(os, "getuid") else ""
    return Path(os.path.realpath(tempfile.gettempdir())) / f"agent-nodes{user}"


class KeptOutput:
    """One output, written as it comes. It is never an error: where it cannot be kept, ``problem`` says why."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._fd = -1
        self.path: Path | None = None
        self.size = 0
        self.problem = ""

    def write(self, data: bytes) -> None:
        """What is beyond :data:`FILE_LIMIT` is left out."""
        data = data[: FILE_LIMIT - self.size]
        if data:
            self.open()
            self._append(data)

    def open(self) -> None:
        """Make the file although there is nothing to write yet."""
        if self.path is None and not self.problem:
            try:
                self._fd, self.path = _new_file(self._session_id)
            except OSError as error:
                self.problem = error.strerror or type(error).__name__

    def _append(self, data: bytes) -> None:
        if self._fd < 0 or self.problem:
            return
        self.size += len(data)
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self.problem = error.strerror or type(error).__name__

    def close(self, last: bytes = b"") -> None:
        """``last`` is appended in any case."""
        self._append(last)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _new_file(session_id: str) -> tuple[int, Path]:
    base = _base()
    folder = outputs_folder(session_id) or base / "no-session"
    _make_private(base)
    if not folder.exists():
        _drop_old_folders(base)
    _make_private(folder)
    _make_room(folder)
    path = folder / f"{SYSTEM_CLOCK.new_id()[:8]}.txt"
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o600), path


def _make_private(folder: Path) -> None:
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    # Others may write to the folder above: one that they made is not for us.
    ours = not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o077)
    if not stat.S_ISDIR(status.st_mode) or not ours:
        raise PermissionError(errno.EPERM, f"{folder} is not a private folder of this user")


def _drop_old_folders(base: Path) -> None:
    for folder in base.iterdir():
        with suppress(OSError):
            if SYSTEM_CLOCK.now() - folder.lstat().st_mtime > KEPT_SECONDS:
                _remove(folder)


def _make_room(folder: Path) -> None:
    files = [(path, path.lstat()) for path in folder.iterdir()]
    size = sum(status.st_size for _, status in files)
    for path, status in sorted(files, key=lambda item: item[1].st_mtime):
        if size <= SESSION_LIMIT - FILE_LIMIT:
            return
        path.unlink(missing_ok=True)
        size -= status.st_size


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
