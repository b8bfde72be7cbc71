"""What can be wrong with a project that is read from its source. The codes are stable and meant for programs."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_nodes.messages import JsonObject

CODES: Mapping[str, str] = {
    "no-project": "the folder holds no project.py, and no folder that holds one",
    "unreadable-file": "the file cannot be read",
    "invalid-syntax": "the file is no Python",
    "no-executor": "no call of define_executor is found",
    "several-executors": "define_executor is called more than once",
    "hidden-executor": "define_agent_conversation_executor declares everything where it cannot be seen",
    "nested-executor": "define_executor is called inside of a function, a class or another statement",
    "unnamed-executor": "what define_executor returns is given no name of the module",
    "missing-argument": "a block that has to be there is not",
    "unknown-argument": "define_executor has no such argument",
    "hidden-arguments": "arguments come by *, by ** or without their names",
    "not-literal": "a value is neither a literal nor a declaration made of literals",
    "repeated-key": "a dict holds a key twice",
    "invalid-value": "a declaration does not hold, as define_executor would say as well",
    "repeated-name": "two tools or two parameters have one name",
    "repeated-flag": "two parameters have one flag",
    "hidden-workflow": "the workflow does not begin with an inline create_agent_conversation_project(...)",
    "different-output-ids": "conversation.openai.output_item_id is not the workflow's output_item_id",
    "undeclared-tool": "an agent has a tool that is not declared",
    "unknown-tool": "a declared tool is none that an agent has",
    "missing-recovery": "an agent has a session, and conversation.recovery is not enabled",
    "missing-durable": "an agent has a session, and conversation.durable is not enabled",
}
"""Each code, and when it is reported."""


@dataclass(frozen=True, slots=True)
class Problem:
    """``line`` and ``column`` count from 1; ``message`` says why, and what to do."""

    file: Path
    line: int
    column: int
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.code}: {self.message}"

    def to_dict(self) -> JsonObject:
        return {
            "file": str(self.file),
            "line": self.line,
            "column": self.column,
            "code": self.code,
            "message": self.message,
        }


class Problems:
    """Those of one file."""

    def __init__(self, file: Path, source: bytes = b"") -> None:
        self._file = file
        self._lines = source.splitlines()
        self.found: list[Problem] = []

    def add(self, code: str, message: str, at: ast.AST | None = None, *, line: int = 1, column: int = 1) -> None:
        if at is not None:
            line, column = self._place(at)
        self.found.append(Problem(self._file, line, column, code, message))

    def _place(self, node: ast.AST) -> tuple[int, int]:
        line: int = getattr(node, "lineno", 1)
        offset: int = getattr(node, "col_offset", 0)  # in bytes
        before = self._lines[line - 1][:offset] if line <= len(self._lines) else b""
        return line, len(before.decode("utf-8", "replace")) + 1
