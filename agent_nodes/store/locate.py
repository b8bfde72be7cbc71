"""Where session files are, and what one says about itself to somebody who does not own it."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sqlite3
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from agent_nodes.errors import InputValidationError, StorageError
from agent_nodes.store import _sql, faults, files, schema

T = TypeVar("T")

HOME = "AGENT_NODES_HOME"
SUFFIX = ".sqlite"

# Bytes of a name that stay readable; with the hash and the longest suffix a part has at most 100.
_READABLE = 80

_NOT_READABLE = re.compile(r"[\W_]+")
_HALF_PAIR = re.compile("[\ud800-\udfff]")


def data_dir(env: Mapping[str, str] | None = None) -> Path:
    """``AGENT_NODES_HOME`` where it is set, else the platform's folder for a user's data.

    Raises ``InputValidationError`` for one that begins with an unknown user's ``~name``."""
    home = (os.environ if env is None else env).get(HOME)
    if home:
        try:
            return Path(home).expanduser()
        except RuntimeError as error:
            raise InputValidationError(
                f"{HOME}: {home!r} is in the home folder of a user who has none here; give another path.", field=HOME
            ) from error
    import platformdirs

    return platformdirs.user_data_path("agent-nodes", appauthor=False)


def session_file(project: str, conversation_id: str, session_key: str, root: Path | None = None) -> Path:
    """The file of a session under ``root`` (default :func:`data_dir`). Any text will do: each becomes a part of the
    path that is readable, at most 100 bytes long and different for every text.

    Raises ``InputValidationError`` for a name with half a surrogate pair, which no store can hold."""
    folder = data_dir() if root is None else root
    for field, name in (("project", project), ("conversation_id", conversation_id), ("session_key", session_key)):
        if _HALF_PAIR.search(name):
            raise InputValidationError(f"{field}: holds half a surrogate pair, which is no text.", field=field)
    return folder / _part(project) / _part(conversation_id) / (_part(session_key) + SUFFIX)


def _part(name: str) -> str:
    """A readable piece of ``name`` and 60 bits of its hash, in characters that every file system keeps apart."""
    digest = hashlib.sha256(name.encode()).digest()
    short = base64.b32encode(digest)[:12].decode().lower()
    words = _NOT_READABLE.sub("-", unicodedata.normalize("NFC", name)).strip("-")
    readable = words.encode()[:_READABLE].decode("utf-8", "ignore").rstrip("-")
    return f"{readable}-{short}" if readable else short


def list_session_files(root: Path | None = None) -> list[Path]:
    """All session files under ``root`` (default :func:`data_dir`), sorted; none where there is no such folder. A folder
    in it that cannot be read stands for the files it may hold.

    Raises ``StorageError`` where ``root`` itself cannot be read."""
    check_folder(root)
    found: list[Path] = []
    folders = [data_dir() if root is None else root]
    for _ in range(3):
        below: list[Path] = []
        for folder in folders:
            try:
                below += folder.iterdir()
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError:
                found.append(folder)
        folders = below
    found += [path for path in folders if path.name.endswith(SUFFIX) and is_file(path)]
    return sorted(found)


def is_file(path: Path) -> bool:
    """Whether there is a file at ``path`` that one may look at."""
    try:
        return path.is_file()
    except OSError:
        return False


def check_folder(root: Path | None = None) -> None:
    """Whether the sessions under ``root`` (default :func:`data_dir`) can be looked through; no such folder is fine.

    Raises ``StorageError`` which says why not, and where the folder comes from."""
    folder = data_dir() if root is None else root
    try:
        with os.scandir(folder):
            return
    except FileNotFoundError:
        return
    except OSError as error:
        named = f"{HOME}={folder}" if root is None and os.environ.get(HOME) else str(folder)
        what = "it is no folder" if isinstance(error, NotADirectoryError) else error.strerror or type(error).__name__
        raise StorageError(f"{named} cannot be used for sessions: {what}. Give a folder that may be read.") from error


@dataclass(frozen=True, slots=True)
class SessionMeta:
    """The one row a session has about itself. Names are empty before its first turn; ``created_at`` in seconds."""

    path: Path
    schema_version: int
    seq: int
    owner_id: str
    session_id: str
    project: str
    conversation_id: str
    session_key: str
    main_target: int
    environment_id: str
    created_at: float


def read_meta(path: Path) -> SessionMeta:
    """What the session at ``path`` says of itself, whether somebody has it open or not. Writes nothing.

    Raises as :func:`look` does.
    """

    def about(connection: sqlite3.Connection) -> SessionMeta:
        row = connection.execute(_sql.ABOUT.text, _sql.ABOUT.bind({})).fetchone()
        if row is None:
            raise faults.damaged(str(path), "it says nothing about itself")
        return SessionMeta(path, *row)

    return look(path, about)


def look(path: Path, read: Callable[[sqlite3.Connection], T]) -> T:
    """``read(connection)``, in one transaction of a connection that cannot write, whether somebody has the session at
    ``path`` open or not. Takes no owner lock and writes nothing. ``read`` may be called a second time.

    Raises ``SessionFileError`` for what is no session of a known schema, ``StorageError`` where it cannot be read.
    """
    label = str(path)
    real = files.real_path(path)
    try:
        real.stat()
    except OSError as error:
        raise faults.file_error(error, label) from error
    try:
        # A session at rest has no log, and an ordinary reader would leave one behind.
        rest = _at_rest(real)
        if rest is not None:
            try:
                found = _look(real, label, read, immutable=True)
            except (sqlite3.DatabaseError, ValueError):
                # Only an owner that came in between moves pages under a reader that takes no locks.
                if _at_rest(real) == rest:
                    raise
            else:
                if _at_rest(real) == rest:
                    return found
        return _look(real, label, read, immutable=False)
    except sqlite3.Error as error:
        raise faults.database_error(error, label) or faults.damaged(label, str(error)) from error


def _at_rest(real: Path) -> tuple[int, int] | None:
    """Size and time of a file without a log, None where there is one."""
    if files.log_size(real):
        return None
    status = real.stat()
    return status.st_size, status.st_mtime_ns


def _look(path: Path, label: str, read: Callable[[sqlite3.Connection], T], *, immutable: bool) -> T:
    with closing(files.reading(path, immutable=immutable)) as connection:
        connection.execute("BEGIN")
        application_id = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        schema.check_marks(label, application_id, version)
        return read(connection)
