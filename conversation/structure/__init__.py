"""What projects declare, read from their source alone: nothing of a project is imported or run.

A project is one call of ``define_executor`` at the top of its ``project.py``, with everything it declares written out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import JsonObject
from conversation.structure.problems import CODES as CODES
from conversation.structure.problems import Problem as Problem
from conversation.structure.problems import Problems
from conversation.structure.rules import find_executor, read_blocks
from conversation.structure.source import read_module
from conversation.structure.values import plain

FILE = "project.py"


@dataclass(frozen=True, slots=True)
class ProjectStructure:
    """What one file declares; a block that cannot be read, or does not hold, is None."""

    file: Path
    conversation: JsonObject | None = None
    token_usage: JsonObject | None = None
    tools: list[JsonObject] | None = None
    params: list[JsonObject] | None = None
    problems: tuple[Problem, ...] = field(default=())

    def to_dict(self) -> JsonObject:
        return {
            "file": str(self.file),
            "ok": not self.problems,
            "conversation": self.conversation,
            "token_usage": self.token_usage,
            "tools": self.tools,
            "params": self.params,
            "problems": [problem.to_dict() for problem in self.problems],
        }


def check_structure(path: str | os.PathLike[str]) -> list[Problem]:
    """What keeps the projects at ``path`` from being understood without running them; empty where nothing does.

    ``path`` is a project's file, a folder with a ``project.py``, or a folder of such folders. Raises
    :class:`~agent_nodes.errors.InputValidationError` where there is nothing at ``path``.
    """
    return [problem for project in read_structure(path) for problem in project.problems]


def read_structure(path: str | os.PathLike[str]) -> list[ProjectStructure]:
    """What each project at ``path`` declares, and its problems; ``path`` as for :func:`check_structure`."""
    return [_read(file) for file in _files(Path(path))]


def _files(path: Path) -> Iterator[Path]:
    if not path.exists():
        raise InputValidationError(f"{path}: there is nothing of that name", field="path")
    if not path.is_dir():
        yield path
    elif (path / FILE).exists():
        yield path / FILE
    else:
        below = sorted(folder / FILE for folder in path.iterdir() if (folder / FILE).is_file())
        yield from below or [path]


def _read(file: Path) -> ProjectStructure:
    if file.is_dir() and file.name != FILE:
        problems = Problems(file)
        problems.add("no-project", f"there is no {FILE}, here or one folder below")
        return ProjectStructure(file, problems=tuple(problems.found))
    try:
        source = file.read_bytes()
    except OSError as error:
        problems = Problems(file)
        problems.add("unreadable-file", f"it cannot be read ({error.strerror or error})")
        return ProjectStructure(file, problems=tuple(problems.found))
    problems = Problems(file, source)
    blocks = _blocks(source, problems)
    found = tuple(sorted(problems.found, key=lambda problem: (problem.line, problem.column)))
    return ProjectStructure(file, **blocks, problems=found)


def _blocks(source: bytes, problems: Problems) -> Mapping[str, Any]:
    try:
        module = read_module(source)
    except SyntaxError as error:
        problems.add("invalid-syntax", error.msg, line=error.lineno or 1, column=error.offset or 1)
        return {}
    except (ValueError, RecursionError, MemoryError) as error:
        problems.add("invalid-syntax", f"it is no Python ({error or type(error).__name__})")
        return {}
    try:
        call = find_executor(module, problems)
        if call is None:
            return {}
        read = read_blocks(call, module, problems)
    except RecursionError:
        problems.add("invalid-syntax", "it is nested too deeply to be understood")
        return {}
    return {name: plain(value.data) if value.whole else None for name, value in read.items()}
