"""JSON and text on their way in and out of a protocol: nothing that passes here breaks a store or a later request."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, cast

import orjson

from agent_nodes.messages import JsonObject, JsonValue, ToolCall, repair_json, repair_text
from agent_nodes.providers.sse import loads

BROKEN = re.compile("[\x00\ud800-\udfff]")


def joined_pairs(text: str) -> str:
    """``text`` with surrogate pairs joined and U+FFFD for what is left of them and for U+0000."""
    if BROKEN.search(text) is None:
        return text
    return repair_text(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))


def parse_arguments(text: str) -> tuple[JsonObject, str | None]:
    """Tool arguments as ``(object, None)``, or ``({}, text)`` where they are no JSON object that can be stored.

    No text at all means no arguments.
    """
    text = joined_pairs(text)
    if not text.strip():
        return {}, None
    try:
        plain = storable(loads(text.encode()))
    except ValueError:
        return {}, text
    return (plain, None) if plain is not None else ({}, text)


def storable(value: JsonValue) -> JsonObject | None:
    """``value`` as a store gives it back, its texts repaired; None where it is no object or nothing that can be stored.

    The latter is what nests too deeply or holds too large a number.
    """
    if not isinstance(value, dict):
        return None
    try:
        return orjson.loads(orjson.dumps(repair_json(cast("JsonObject", value))))
    except (TypeError, RecursionError):
        return None


def tool_call(id: str, name: str, arguments: str, raw: JsonObject | None = None) -> ToolCall:
    """The call that a service made; ``arguments`` is the JSON text it sent."""
    value, invalid = parse_arguments(arguments)
    return ToolCall(id, name, value, invalid, raw)


def dumps(value: JsonValue) -> bytes:
    """Compact JSON. What the fast encoder refuses (broken text, huge numbers, deep nesting) goes the slow way."""
    try:
        return orjson.dumps(value)
    except TypeError:
        text = json.dumps(repair_json(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()


@dataclass(frozen=True, slots=True)
class Draft:
    """A request's body: ``head`` is all of it but the list under ``name``, whose ``items`` are JSON already."""

    head: JsonObject
    name: str
    items: bytes

    def encode(self) -> bytes:
        return dumps(self.head)[:-1] + b"," + dumps(self.name) + b":[" + self.items + b"]}"


def place(value: JsonValue) -> int:
    """The number of a block. Raises ``ValueError`` for what is none: such an event cannot be read."""
    if type(value) is not int:
        raise ValueError("a block without a number")
    return value


def as_text(value: JsonValue) -> str:
    """``value`` repaired if it is a string, else ""."""
    return joined_pairs(value) if isinstance(value, str) else ""


def as_object(value: JsonValue) -> JsonObject:
    """``value`` if it is an object, else an empty one."""
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[Any]:
    """``value`` if it is a list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def count(value: JsonValue) -> int:
    """A number of tokens; 0 for anything that is none."""
    return int(value) if isinstance(value, int | float) and 0 < value < 2**53 else 0
