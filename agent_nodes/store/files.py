"""A session's file before it is opened: made when there is none, checked without changing a byte when there is one.

All of this happens under the owner lock, so no other process of ours writes meanwhile.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from agent_nodes.errors import StorageError
from agent_nodes.store import faults, schema

# Up to here every page is checked at open (about 1 ms a megabyte), above it the way to the first row of each table;
# damage elsewhere is then reported by the read that meets it.
CHECKED_WHOLE = 16 * 1024 * 1024

_MAGIC = b"SQLite format 3\x00"


def long_path(path: str, *, windows: bool = os.name == "nt") -> str:
    """``path`` as the operating system takes it at any length: Windows needs a prefix from 260 characters on."""
    if not windows or len(path) < 240 or path.startswith("\\\\?\\"):
        return path
    return "\\\\?\\UNC" + path[1:] if path.startswith("\\\\") else "\\\\?\\" + path


def real_path(path: str | os.PathLike[str]) -> Path:
    """The one path of the file, whatever link or relative path leads to it.

    Raises ``StorageError`` where the path is too long for SQLite or holds a NUL.
    """
    try:
        real = long_path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        if isinstance(error, ValueError):
            error = OSError(None, "the path holds a character that no path can have")
        raise faults.file_error(error, repr(os.fspath(path))) from error
    length = len(os.fsencode(real))
    if os.name != "nt" and length > faults.LONGEST_PATH:
        raise faults.file_error(
            OSError(errno.ENAMETOOLONG, f"{length} bytes, SQLite takes {faults.LONGEST_PATH}"), real
        )
    return Path(real)


def reading(path: Path, *, immutable: bool) -> sqlite3.Connection:
    """A connection that cannot write. ``immutable`` also leaves no companion files, but sees nothing of a log."""
    mode = "immutable=1" if immutable else "mode=ro"
    return sqlite3.connect(f"file:{quote(os.fsencode(path))}?{mode}", uri=True, isolation_level=None)


def log_size(path: Path) -> int:
    """Bytes in the write-ahead log beside ``path``."""
    try:
        return Path(f"{path}-wal").stat().st_size
    except FileNotFoundError:
        return 0


def prepare(path: Path) -> bool:
    """Make ``path`` a session file that can be opened: an absent or empty file becomes a new session. Whether there was
    no such file before.

    Raises ``SessionFileError`` for anything else that is no session of this schema, older or current, and
    ``StorageError`` where the file system refuses. Then nothing has changed.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        status = None
    except OSError as error:
        raise faults.file_error(error, str(path)) from error
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise faults.foreign(str(path), "it is no regular file")
    if status is not None and status.st_nlink > 1:
        # Each name would have a lock and a log of its own.
        raise StorageError(
            f"The session file {path} has another name too (a hard link), by which a second owner could open it. "
            "Nothing was changed; make a copy, or remove the other name."
        )
    if status is None or status.st_size == 0:
        if log_size(path):
            raise faults.damaged(str(path), "the file is gone, but its -wal file holds data")
        _create(path)
    else:
        _check(path, status.st_size)
    return status is None


def discard(path: Path) -> None:
    """Take away a session that was made and never begun, closed, under its owner lock."""
    with suppress(OSError):
        path.unlink()


def refuse_foreign(path: Path) -> None:
    """Raises ``SessionFileError`` for a file that is plainly no database; what cannot be read is judged later."""
    try:
        if not path.is_file():
            return
        with path.open("rb") as file:
            header = file.read(len(_MAGIC))
    except OSError:
        return
    if header and not header.startswith(_MAGIC):
        raise faults.foreign(str(path), "it does not begin as an SQLite database does")


def _create(path: Path) -> None:
    from agent_nodes.store import _empty

    new = Path(f"{path}.new")
    try:
        # One left by a killed process is written over: only the owner of the lock is here.
        # What was said to a model is its owner's alone, whatever the umask; the log beside it gets the same rights.
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(_empty.database())
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise faults.file_error(error, str(path)) from error


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power failure; Windows does it by itself and opens no folders."""
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _check(path: Path, size: int) -> None:
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as error:
        raise faults.file_error(error, str(path)) from error
    if not header.startswith(_MAGIC):
        raise faults.foreign(str(path), "it does not begin as an SQLite database does")
    try:
        # SQLite would open a file it may not write, and leave companions behind that nobody may write either.
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        raise faults.file_error(error, str(path)) from error
    # What the first page says is final as long as no log goes beyond it.
    logged = log_size(path) > 0
    shared = Path(f"{path}-shm")
    had_shared = shared.exists()
    try:
        with closing(reading(path, immutable=not logged)) as connection:
            _check_database(connection, str(path), size)
    except sqlite3.Error as error:
        raise faults.database_error(error, str(path)) or faults.damaged(str(path), str(error)) from error
    finally:
        if logged and not had_shared:
            # Made by reading; it only speeds up finding pages in the log and is made again when needed.
            with suppress(OSError):
                shared.unlink()


def _check_database(connection: sqlite3.Connection, label: str, size: int) -> None:
    application_id = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    schema.check_marks(label, application_id, version)
    if size <= CHECKED_WHOLE:
        result = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if result != "ok":
            raise faults.damaged(label, " ".join(str(result).split()))
        return
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (name,) in names:
        connection.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone()
