"""What a failure of SQLite or the file system means to whoever runs the session."""

from __future__ import annotations

import errno
import sqlite3

from agent_nodes.errors import AgentError, SessionFileError, StorageError

# The longest path SQLite opens is 512 bytes with the suffix of a companion file and a closing zero.
LONGEST_PATH = 503

_FULL = "there is no room left"

# By primary result code: what happened, what to do.
_BY_CODE: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: (_FULL, "Make room, then run the same request again."),
    sqlite3.SQLITE_READONLY: ("it is read-only", "Make the file and its folder writable, then run again."),
    sqlite3.SQLITE_IOERR: ("reading or writing failed", "Check the disk, then run the same request again."),
    sqlite3.SQLITE_CANTOPEN: (
        "it cannot be opened",
        "Check that the folder exists and that it and the file may be read and written.",
    ),
    sqlite3.SQLITE_BUSY: (
        "another program holds it locked",
        "End that program (a database browser, a backup), then run again.",
    ),
    sqlite3.SQLITE_PERM: ("access is denied", "Make the file and its folder writable, then run again."),
    sqlite3.SQLITE_NOMEM: ("memory ran out", "Free memory, then run the same request again."),
    sqlite3.SQLITE_TOOBIG: ("a value is larger than SQLite stores", "Send less in one piece."),
}

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_BY_ERRNO: dict[int, tuple[str, str]] = {
    errno.ENOSPC: _BY_CODE[sqlite3.SQLITE_FULL],
    errno.EDQUOT: ("the disk quota is used up", "Make room, then run the same request again."),
    errno.EROFS: ("the file system is read-only", "Give a path on a disk that may be written."),
    errno.EACCES: _BY_CODE[sqlite3.SQLITE_PERM],
    errno.EPERM: _BY_CODE[sqlite3.SQLITE_PERM],
    errno.ENAMETOOLONG: ("the path is too long", "Give a shorter path."),
    errno.ENOTDIR: ("a part of the path is no folder", "Give another path."),
    errno.EEXIST: ("a part of the path is no folder", "Give another path."),
    errno.EISDIR: ("it is a folder", "Give the path of a file."),
    errno.ENOLCK: ("the file system has no locks", "Give a path on a local disk."),
    errno.EOPNOTSUPP: ("the file system has no locks", "Give a path on a local disk."),
}


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without its detail bits; 0 for an error that the driver made itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def database_error(error: sqlite3.Error, label: str) -> AgentError | None:
    """Our error for a failure of the session at ``label``; ``None`` where it is a fault in a statement of ours."""
    code = primary_code(error)
    if code in _DAMAGED:
        return damaged(label, str(error))
    if code not in _BY_CODE:
        return None
    what, remedy = _BY_CODE[code]
    happened = f"The session {label} cannot be used: {what} ({error})."
    return StorageError(f"{happened} Nothing of this step was stored. {remedy}")


def unknown_outcome(error: sqlite3.Error, label: str) -> StorageError:
    return StorageError(
        f"Whether the last step of the session {label} was stored is unknown: {error}. "
        "The session stops here; check the disk, then open it again: it goes on from what is on disk."
    )


def file_error(error: OSError, label: str) -> StorageError:
    """Our error for a file system that refuses the session at ``label``."""
    reason = error.strerror or type(error).__name__
    what, remedy = _BY_ERRNO.get(error.errno or 0, (reason, "Check the path and the disk."))
    why = what if what == reason else f"{what} ({reason})"
    return StorageError(f"The session {label} cannot be opened: {why}. Nothing was changed. {remedy}")


def damaged(label: str, detail: str) -> SessionFileError:
    return SessionFileError(
        f"The session {label} is damaged ({detail}). Nothing was changed; put back a copy of it, "
        "or move it away together with its -wal file to begin anew.",
        kind="damaged",
    )


def foreign(label: str, what: str) -> SessionFileError:
    return SessionFileError(
        f"{label} is no agent session: {what}. Nothing was changed; give another path.", kind="foreign"
    )
