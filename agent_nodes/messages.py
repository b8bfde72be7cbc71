"""The model-visible messages and their strict JSON form, shared by store, providers and engine.

A message is what one ``entry`` row holds. Assistant blocks keep the provider's own JSON in ``raw`` where our view alone
could not rebuild it byte for byte; ``raw`` is only ever replayed to the same api, provider and model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, cast

JsonValue: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]

ApiKind: TypeAlias = Literal["anthropic-messages", "openai-responses", "openai-completions"]
StopReason: TypeAlias = Literal["end", "tool_use", "length", "pause", "refusal", "overflow"]
EffortLevel: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
AgentEffort: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max", "ultra", ""]
"""``ultra`` means ``max``; empty lets the model decide."""

UserKind: TypeAlias = Literal["user", "continuation", "compaction", "reset"]

_BROKEN = re.compile("[\x00\ud800-\udfff]")


def repair_text(text: str) -> str:
    """``text`` with U+FFFD for every lone surrogate and U+0000 (no store or wire takes those)."""
    if text.isascii() and "\x00" not in text:
        return text
    return _BROKEN.sub("�", text)


def repair_json(value: JsonValue) -> JsonValue:
    """``value`` with :func:`repair_text` applied to every string and key in it."""
    if isinstance(value, str):
        return repair_text(value)
    if isinstance(value, dict):
        return {repair_text(str(k)): repair_json(v) for k, v in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [repair_json(item) for item in cast("list[Any]", value)]
    return value


def is_storable(value: JsonValue) -> bool:
    """Whether ``value`` is JSON that comes back from the store as it is: no NaN, no integer beyond 64 bits, no half
    surrogate pair, nested no deeper than the store's writer follows."""
    import json

    import orjson

    try:
        json.dumps(value, allow_nan=False)
        orjson.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def is_text(value: object) -> bool:
    """Whether ``value`` is text that store and wire take as it is."""
    return type(value) is str and repair_text(value) == value


MAX_TOKENS = 1_000_000_000
"""Far above every model's window, and low enough that a wrong unit is seen."""


def is_token_count(value: object) -> bool:
    return type(value) is int and 0 < value <= MAX_TOKENS


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model response. ``input_tokens`` leaves out cached and cache-creation tokens; reasoning is part of
    output; ``total_tokens`` = input + cached + creation + output."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cache_creation_tokens: int = 0
    reasoning_tokens: int = 0
    calls: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.cached_input_tokens + self.cache_creation_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.cache_creation_tokens + other.cache_creation_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.calls + other.calls,
        )

    def to_dict(self) -> JsonObject:
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "total_tokens": self.total_tokens,
            "cached_input_tokens": self.cached_input_tokens,
            "cache_creation_tokens": self.cache_creation_tokens,
            "reasoning_tokens": self.reasoning_tokens,
            "calls": self.calls,
        }


@dataclass(frozen=True, slots=True)
class TextBlock:
    type: ClassVar[Literal["text"]] = "text"
    text: str
    raw: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """``data`` is base64 without a prefix."""

    type: ClassVar[Literal["image"]] = "image"
    data: str
    mime_type: str


@dataclass(frozen=True, slots=True)
class ThinkingBlock:
    """``signature`` (Anthropic) or ``raw`` (an encrypted reasoning item, a redacted block) makes it replayable."""

    type: ClassVar[Literal["thinking"]] = "thinking"
    text: str
    signature: str | None = None
    raw: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """``arguments`` is the parsed object; ``invalid`` holds the text instead when it was no JSON object."""

    type: ClassVar[Literal["tool_call"]] = "tool_call"
    id: str
    name: str
    arguments: JsonObject
    invalid: str | None = None
    raw: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class NativeBlock:
    """A block only its provider understands (server-side search and its result); replayed verbatim or not at all."""

    type: ClassVar[Literal["native"]] = "native"
    raw: JsonObject


AssistantBlock: TypeAlias = TextBlock | ThinkingBlock | ToolCall | NativeBlock
ContentBlock: TypeAlias = TextBlock | ImageBlock


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it; ``parameters`` is a JSON Schema object."""

    name: str
    description: str
    parameters: JsonObject


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """The prompt sections and tools as sent from here on, and the model they were sent to. A new one is stored only
    when something changes; signed reasoning is replayed only from the last one on."""

    role: ClassVar[Literal["system"]] = "system"
    sections: tuple[str, ...]
    tools: tuple[ToolSpec, ...]
    api: ApiKind
    provider: str
    model: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    role: ClassVar[Literal["user"]] = "user"
    content: tuple[ContentBlock, ...]
    kind: UserKind = "user"


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """One model response, whole or cut. ``interrupted`` says that the stream broke or was stopped; such a message holds
    no tool call."""

    role: ClassVar[Literal["assistant"]] = "assistant"
    content: tuple[AssistantBlock, ...]
    api: ApiKind
    provider: str
    model: str
    stop: StopReason = "end"
    interrupted: bool = False

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(block for block in self.content if isinstance(block, ToolCall))


@dataclass(frozen=True, slots=True)
class ToolResultMessage:
    """The outcome of one call, found by ``call_id`` (the provider's id of the call in the assistant message before).
    ``structured`` is what programs get of it; models never see it."""

    role: ClassVar[Literal["tool_result"]] = "tool_result"
    call_id: str
    name: str
    content: tuple[ContentBlock, ...]
    is_error: bool = False
    structured: JsonValue = None

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def result(self) -> JsonValue:
        """For programs: the structured content where there is one, else the text."""
        return self.text if self.structured is None else self.structured


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolResultMessage


def block_to_json(block: AssistantBlock | ContentBlock) -> JsonObject:
    match block:
        case TextBlock():
            out: JsonObject = {"type": "text", "text": block.text}
        case ImageBlock():
            return {"type": "image", "data": block.data, "mime_type": block.mime_type}
        case ThinkingBlock():
            out = {"type": "thinking", "text": block.text}
            if block.signature is not None:
                out["signature"] = block.signature
        case ToolCall():
            out = {"type": "tool_call", "id": block.id, "name": block.name, "arguments": block.arguments}
            if block.invalid is not None:
                out["invalid"] = block.invalid
        case NativeBlock():
            return {"type": "native", "raw": block.raw}
    if block.raw is not None:
        out["raw"] = block.raw
    return out


def block_from_json(data: JsonObject) -> AssistantBlock | ContentBlock:
    match data["type"]:
        case "text":
            return TextBlock(data["text"], data.get("raw"))
        case "image":
            return ImageBlock(data["data"], data["mime_type"])
        case "thinking":
            return ThinkingBlock(data["text"], data.get("signature"), data.get("raw"))
        case "tool_call":
            return ToolCall(data["id"], data["name"], data["arguments"], data.get("invalid"), data.get("raw"))
        case "native":
            return NativeBlock(data["raw"])
        case other:
            raise ValueError(f"unknown block type {other!r}")


def message_to_json(message: Message) -> JsonObject:
    """The stored form; :func:`message_from_json` gives an equal message back."""
    match message:
        case UserMessage():
            out: JsonObject = {"role": "user", "content": [block_to_json(b) for b in message.content]}
            if message.kind != "user":
                out["kind"] = message.kind
            return out
        case AssistantMessage():
            out = {
                "role": "assistant",
                "content": [block_to_json(b) for b in message.content],
                "api": message.api,
                "provider": message.provider,
                "model": message.model,
                "stop": message.stop,
            }
            if message.interrupted:
                out["interrupted"] = True
            return out
        case ToolResultMessage():
            out = {
                "role": "tool_result",
                "call_id": message.call_id,
                "name": message.name,
                "content": [block_to_json(b) for b in message.content],
            }
            if message.is_error:
                out["is_error"] = True
            if message.structured is not None:
                out["structured"] = message.structured
            return out
        case SystemMessage():
            return {
                "role": "system",
                "sections": list(message.sections),
                "tools": [
                    {"name": t.name, "description": t.description, "parameters": t.parameters} for t in message.tools
                ],
                "api": message.api,
                "provider": message.provider,
                "model": message.model,
            }


def message_from_json(data: JsonObject) -> Message:
    """Raises ``ValueError``, ``KeyError`` or ``TypeError`` on what :func:`message_to_json` could not have written."""
    role = data["role"]
    if role == "system":
        return SystemMessage(
            tuple(data["sections"]),
            tuple(ToolSpec(t["name"], t["description"], t["parameters"]) for t in data["tools"]),
            data["api"],
            data["provider"],
            data["model"],
        )
    content: Any = tuple([block_from_json(b) for b in data["content"]])
    if role == "user":
        return UserMessage(content, data.get("kind", "user"))
    if role == "assistant":
        return AssistantMessage(
            content, data["api"], data["provider"], data["model"], data["stop"], data.get("interrupted", False)
        )
    if role == "tool_result":
        return ToolResultMessage(
            data["call_id"], data["name"], content, data.get("is_error", False), data.get("structured")
        )
    raise ValueError(f"unknown role {role!r}")
