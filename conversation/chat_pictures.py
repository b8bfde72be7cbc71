"""Pictures that go with a prompt: files that somebody names on a line."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from agent_nodes.errors import InputValidationError
from agent_nodes.tools.pictures import MAX_FILE, PictureError, picture
from conversation.chat_talk import Picture


def read_picture(given: str) -> Picture:
    """The file at the path that was typed, ready for a model. Raises ``InputValidationError`` saying why not."""
    path = _path(given)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise InputValidationError(f"/image: {given!r} cannot be read: {error.strerror or error}.") from error
    try:
        block = picture(data, str(path))
    except PictureError as error:
        raise InputValidationError(f"/image: {error}") from error
    return Picture(given, block.data, block.mime_type)


def paths(start: str) -> list[str]:
    """Files and folders whose path begins so, as it is typed."""
    folder, slash, name = start.rpartition("/")
    try:
        entries = sorted(os.scandir(Path(f"{folder}{slash}" or ".").expanduser()), key=lambda entry: entry.name)
    except OSError:
        return []
    found = [entry for entry in entries if entry.name.startswith(name) and (name or not entry.name.startswith("."))]
    return [f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}" for entry in found[:50]]


def _path(given: str) -> Path:
    """A path may have quotes and backslashes, as a terminal pastes a file that is dropped on it."""
    path = Path(given).expanduser()
    if path.exists():
        return path
    try:
        words = shlex.split(given)
    except ValueError:
        return path
    return Path(words[0]).expanduser() if len(words) == 1 else path
