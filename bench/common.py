"""What every subject shares: the prompt, the one tool, and how a turn is watched.

Imports nothing heavy, since cold starts are measured through it.
"""

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

SYSTEM = "You answer briefly and use the tool when asked to."
TOOL_NAME = "echo"
TOOL_TEXT = "Gives the text back."
TOOL_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
WORDS = ("alfa ", "beta ", "gama ", "delt ", "epsi ", "zeta ", "etaa ", "thet ")
DELTA = 5  # characters of each text delta that the fake model sends
CROWD, CROWD_TURNS = 50, 4  # sessions at the same time, and turns of each
OPEN = 200  # sessions held open
PROJECTS = 100  # whose source is read at once
FILES = 5  # that an open session holds: database, log, index of the log, owner lock, connection
BY_PROMPT = "prompt"  # the fake model that takes its script from the prompt instead of its name

# Modules that neither an import of the package nor a turn on a SQLite session may load.
FORBIDDEN = ("prefect", "anthropic", "openai", "sqlalchemy", "sqlmodel")


def words(count: int) -> list[str]:
    """The text deltas of an answer of the fake model."""
    return [WORDS[number % len(WORDS)] for number in range(count)]


def echoed(text: str) -> str:
    return f"echo: {text}"


class Watch:
    """Called with each text as the consumer gets it; remembers when the first came and how many characters."""

    __slots__ = ("characters", "first")

    def __init__(self) -> None:
        self.first = 0.0
        self.characters = 0

    def __call__(self, text: str) -> None:
        if not self.characters:
            self.first = time.perf_counter()
        self.characters += len(text)


Turn = Callable[[str, Watch], Awaitable[None]]


class Subject(Protocol):
    """A way to run turns: one of the floors, or ours. `script` is the fake model's script, given as model name."""

    def session(self, folder: Path, script: str) -> AbstractAsyncContextManager[Turn]:
        """Opens the session stored in `folder`, or a new one."""
        ...

    async def close(self) -> None: ...
