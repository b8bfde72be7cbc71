"""A tool, its result, and what a running call may use. Pure data and protocols; the engine runs them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import orjson

from agent_nodes._aio import AbortSignal
from agent_nodes.errors import InputValidationError
from agent_nodes.messages import ContentBlock, JsonObject, TextBlock, ToolSpec

if TYPE_CHECKING:
    from agent_nodes.tools.background import Background

ReplayPolicy: TypeAlias = Literal["never", "safe"]
Execution: TypeAlias = Literal["parallel", "sequential"]

MARKER = "AGENT_NODES_CALL"
"""The environment variable by which recovery finds the processes that a call left behind."""

TOOL_NAME = re.compile(r"^[A-Za-z0-9_-]{1,64}\Z")


@dataclass(frozen=True, slots=True)
class AgentToolResult:
    """``content`` is text or content blocks for the model; ``is_error`` marks a failure that the model can handle."""

    content: str | tuple[ContentBlock, ...]
    is_error: bool = False

    def blocks(self) -> tuple[ContentBlock, ...]:
        if isinstance(self.content, str):
            return (TextBlock(self.content),)
        return self.content


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The surroundings of one call.

    ``tool_call_id`` is unique over all sessions and the same when the call is repeated: a key for what must happen once
    elsewhere. ``session_id`` and ``request_id`` together are that for the turn.
    ``roots`` are the real folders that file tools may reach, None for no limit. ``signal`` is set when the turn is
    stopped. ``update`` shows output while the call runs (text, appended). ``environment`` is what child processes get
    on top of ours: it carries the marker by which recovery finds what a crash left behind. ``background`` takes what
    goes on to the end of the turn, None where nothing can.
    """

    tool_call_id: str
    workdir: Path
    roots: tuple[Path, ...] | None
    signal: AbortSignal
    update: Callable[[str], None]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    session_id: str = ""
    request_id: str = ""
    background: Background | None = None


ToolExecute: TypeAlias = Callable[[JsonObject, ToolContext], Awaitable[Any] | Any]


def _is_json(value: object) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """A tool of the caller's own.

    ``parameters`` is a JSON Schema object or a pydantic model class. ``execute(arguments, context)`` is an async
    function, or a plain one, which runs in a thread; it returns an :class:`AgentToolResult`, a string, or anything
    JSON-able, and raising makes an error result. ``replay``: what recovery does with a call whose outcome a crash left
    unknown (``never``: report it as interrupted, ``safe``: run it again). ``execution``: ``sequential`` calls of a
    round run one after the other, in order.

    Raises :class:`InputValidationError` when a field is wrong.
    """

    name: str
    description: str
    parameters: Any
    execute: ToolExecute
    replay: ReplayPolicy = "never"
    execution: Execution = "parallel"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not TOOL_NAME.match(self.name):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputValidationError(
                f"tool name {self.name!r}: use 1 to 64 of letters, digits, '_' and '-'", field="name"
            )
        if not callable(self.execute):
            raise InputValidationError(f"tool {self.name}: execute must be a function", field="execute")
        if self.replay not in ("never", "safe"):
            raise InputValidationError(f"tool {self.name}: replay must be 'never' or 'safe'", field="replay")
        if self.execution not in ("parallel", "sequential"):
            raise InputValidationError(
                f"tool {self.name}: execution must be 'parallel' or 'sequential'", field="execution"
            )
        if not isinstance(self.description, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputValidationError(f"tool {self.name}: description must be a text", field="description")
        schema = self.schema()
        if schema.get("type") != "object" or not _is_json(schema):
            raise InputValidationError(
                f"tool {self.name}: parameters must be a JSON Schema with type 'object' or a pydantic model class",
                field="parameters",
            )

    def schema(self) -> JsonObject:
        parameters: object = self.parameters
        if isinstance(parameters, dict):
            return cast("JsonObject", parameters)
        make = getattr(parameters, "model_json_schema", None)
        return make() if make is not None else {}

    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.schema())
