"""What ``run()`` yields: light classes with a ``type`` and plain fields; ``to_dict()`` gives the JSON form.

Text and reasoning deltas are shown the moment they arrive; every other event only after the commit that makes it true.
``tool_call_id`` is ours: opaque, and the same over retries, recovery and replay.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, TypeAlias, cast

from agent_nodes.messages import JsonObject, JsonValue


class _Event:
    __slots__ = ()

    def to_dict(self) -> JsonObject:
        """The event as JSON: ``type`` first, fields that are None left out."""
        event = cast("Any", self)  # every subclass is a dataclass with a type
        out: dict[str, Any] = {"type": event.type}
        for item in fields(event):
            value = getattr(event, item.name)
            if value is not None:
                out[item.name] = value
        return out


@dataclass(slots=True)
class TextDelta(_Event):
    type: ClassVar[Literal["text_delta"]] = "text_delta"
    delta: str
    index: int


@dataclass(slots=True)
class ThinkingDelta(_Event):
    type: ClassVar[Literal["thinking_delta"]] = "thinking_delta"
    delta: str
    index: int


@dataclass(slots=True)
class ToolEvent(_Event):
    """``start`` carries ``arguments``, ``update`` the ``output`` since the last one, ``end`` the ``result``: the
    structured content where there is one, else the text."""

    type: ClassVar[Literal["tool"]] = "tool"
    phase: Literal["start", "update", "end"]
    tool_call_id: str
    name: str
    arguments: JsonObject | None = None
    output: str | None = None
    result: JsonValue = None
    is_error: bool | None = None


@dataclass(slots=True)
class RetryEvent(_Event):
    type: ClassVar[Literal["retry"]] = "retry"
    attempt: int
    max_attempts: int
    reason: str
    kind: Literal["dropped", "recovery", "length", "lost-call"]


@dataclass(slots=True)
class ContextUsageEvent(_Event):
    """Tokens in the model's context now, of the model's window."""

    type: ClassVar[Literal["context_usage"]] = "context_usage"
    used: int
    total: int


AgentStreamEvent: TypeAlias = TextDelta | ThinkingDelta | ToolEvent | RetryEvent | ContextUsageEvent
