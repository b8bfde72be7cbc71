"""What was typed at ``chat`` before, kept for its user alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import History

from agent_nodes.store.locate import data_dir

KEPT = 1_000  # prompts
LARGEST = 1 << 20  # bytes of the file, above which the oldest go


def history_file() -> Path:
    return data_dir() / "chat-history"


class ChatHistory(History):
    """A file with one JSON string a line, the newest last. That it cannot be read or written is no failure: then there
    is no more than what was typed just now."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """The newest first."""
        try:
            data = self._path.read_bytes()
        except OSError:
            return []
        found = [text for line in data.splitlines() if (text := _text(line)) is not None][-KEPT:]
        if len(data) > LARGEST:
            self._replace(found)
        return found[::-1]

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
                file.write(_line(string))

    def _replace(self, strings: Iterable[str]) -> None:
        new = Path(f"{self._path}.{os.getpid()}")
        with suppress(OSError):
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.writelines(_line(string) for string in strings)
            new.replace(self._path)


def _line(string: str) -> bytes:
    """Behind the end of the line before, which a killed process may have left half."""
    return b"\n" + json.dumps(string).encode()


def _text(line: bytes) -> str | None:
    """None for what a killed process has left half."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, str) else None
