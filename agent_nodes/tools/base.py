"""A tool, its result, and what a running call may use. Pure data and protocols; the engine runs them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import orjson

from agent_nodes._aio import AbortSignal
from agent_nodes.errors import InputValidationError
from agent_nodes.messages import ContentBlock, JsonObject, JsonValue, TextBlock, ToolSpec, Usage

if TYPE_CHECKING:
    from agent_nodes.tools.background import Background

ReplayPolicy: TypeAlias = Literal["never", "safe"]
Execution: TypeAlias = Literal["parallel", "sequential"]

MARKER = "AGENT_NODES_CALL"
"""The environment variable by which recovery finds the processes that a call left behind."""

TOOL_NAME = re.compile(r"^[A-Za-z0-9_-]{1,64}\Z")


@dataclass(frozen=True, slots=True)
class AgentToolResult:
    """What a call gives back.

    ``content`` is text or content blocks for the model; without any it reads the JSON of ``structured_content``, which
    is for programs: JSON, or what becomes JSON through the tool's ``output_schema``. ``is_error`` marks a failure that
    the model can handle. ``terminate``: the turn ends with this round instead of asking the model again, if every call
    of the round says so. ``usage``: tokens that the call itself spent on models; they are billed to the conversation,
    not to the turn.
    """

    content: str | Sequence[ContentBlock] = ""
    _: KW_ONLY
    structured_content: JsonValue = None
    is_error: bool = False
    terminate: bool = False
    usage: Usage | None = None

    def blocks(self) -> tuple[ContentBlock, ...]:
        return (TextBlock(self.content),) if isinstance(self.content, str) else tuple(self.content)


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


def is_async(function: Any) -> bool:
    """Whether calling ``function``, which may be an object with ``__call__``, gives a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _is_json(value: object) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


ToolExecute: TypeAlias = Callable[[JsonObject, ToolContext], Awaitable[Any] | Any]
PrepareArguments: TypeAlias = Callable[[JsonObject], JsonObject]


def check_name(name: object) -> None:
    if not isinstance(name, str) or not TOOL_NAME.match(name):
        raise InputValidationError(f"tool name {name!r}: use 1 to 64 of letters, digits, '_' and '-'", field="name")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """A tool of the caller's own.

    ``parameters`` is a JSON Schema object or a pydantic model class. ``execute(arguments, context)`` is an async
    function, or a plain one, which runs in a thread; it returns an :class:`AgentToolResult`, a string, content blocks,
    or anything JSON-able, and raising makes an error result.

    ``prepare_arguments(arguments)`` mends what the model sent before it is checked, and returns what is to be checked;
    it is a plain function and quick, as it runs on the event loop. ``output_schema``, a JSON Schema object, a pydantic
    model class or a ``TypeAdapter``, is the shape of the structured content: of what an :class:`AgentToolResult` holds
    as such, else of the returned value itself.

    ``replay``: what recovery does with a call whose outcome a crash left unknown (``never``: report it as interrupted,
    ``safe``: run it again). ``execution``: ``sequential`` calls of a round run one after the other, in order.

    Raises :class:`InputValidationError` when a field is wrong; whether a JSON Schema is a valid one is found when an
    agent is made with the tool.
    """

    name: str
    description: str
    parameters: Any
    execute: ToolExecute
    prepare_arguments: PrepareArguments | None = None
    output_schema: Any = None
    replay: ReplayPolicy = "never"
    execution: Execution = "parallel"

    def __post_init__(self) -> None:
        check_name(self.name)
        if not isinstance(self.description, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise self._wrong("description", "must be a text")
        if not callable(self.execute):
            raise self._wrong("execute", "must be a function")
        prepare = self.prepare_arguments
        if prepare is not None and (not callable(prepare) or is_async(prepare)):
            raise self._wrong("prepare_arguments", "must be a plain function (arguments) -> arguments")
        if self.replay not in ("never", "safe"):
            raise self._wrong("replay", "must be 'never' or 'safe'")
        if self.execution not in ("parallel", "sequential"):
            raise self._wrong("execution", "must be 'parallel' or 'sequential'")
        schema = self.schema()
        if schema.get("type") != "object" or not _is_json(schema):
            raise self._wrong("parameters", "must be a JSON Schema with type 'object' or a pydantic model class")
        output = self.output_schema
        if isinstance(output, dict):
            if not _is_json(cast("object", output)):
                raise self._wrong("output_schema", "holds something that is no JSON")
        elif output is not None and not hasattr(output, "model_validate") and not hasattr(output, "validate_python"):
            raise self._wrong("output_schema", "must be a JSON Schema, a pydantic model class or a TypeAdapter")

    def _wrong(self, name: str, what: str) -> InputValidationError:
        return InputValidationError(f"tool {self.name}: {name} {what}", field=name)

    @property
    def model(self) -> Any:
        """The pydantic model class that checks the arguments; None where ``parameters`` as a JSON Schema does."""
        return None if isinstance(self.parameters, dict) else self.parameters

    def schema(self) -> JsonObject:
        parameters: object = self.parameters
        if isinstance(parameters, dict):
            return cast("JsonObject", parameters)
        make = getattr(parameters, "model_json_schema", None)
        return make() if make is not None else {}

    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.schema())
