"""How much work it is to check a value: alternatives that lead back to themselves multiply with the depth of it."""

from __future__ import annotations

import math
from typing import Any, TypeAlias, cast

from agent_nodes.messages import JsonObject, JsonValue

MOST_STEPS = 100_000
"""What is counted to; more is infinite."""

MOST_ALTERNATIVES = 10_000
"""Schemas that may have to be tried on one and the same value."""

Places: TypeAlias = dict[str, object]

_SINGLE = ("not", "if", "then", "else")
_LISTED = ("allOf", "anyOf", "oneOf")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
_OF_NAMES = ("additionalProperties", "unevaluatedProperties")
_OF_ITEMS = ("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains")


def steps(schema: JsonObject, value: JsonValue) -> float:
    """How many pairs of a schema and a value are looked at where ``value`` is checked and no alternative is left out;
    infinite beyond :data:`MOST_STEPS`, and where ``value`` is nested too deeply to be counted."""
    try:
        return _Count(schema).of(schema, value)
    except RecursionError:
        return math.inf


def alternatives(schema: JsonObject) -> float:
    """The most schemas of any place in ``schema`` that may have to be tried on one and the same value."""
    count, most, left = _Count(schema), 1.0, [cast("object", schema)]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            most = max(most, count.of(cast("JsonObject", node), None))
            left.extend(cast("JsonObject", node).values())
        elif isinstance(node, list):
            left.extend(cast("list[object]", node))
    return most


class _Count:
    def __init__(self, root: JsonObject) -> None:
        self.root = root
        self.places: Places | None = None
        self.known: dict[tuple[int, int], float] = {}

    def of(self, schema: Any, value: JsonValue) -> float:
        if not isinstance(schema, dict):
            return 1.0
        nested = isinstance(value, (dict, list))
        key = (id(cast("object", schema)), id(cast("object", value)) if nested else 0)
        known = self.known.get(key)
        if known is not None:
            return known
        if len(self.known) >= MOST_STEPS:
            return math.inf
        self.known[key] = 1.0  # where a reference leads back to here
        node = cast("JsonObject", schema)
        total = 1.0 + self._in_place(node, value)
        if isinstance(value, dict):
            total += self._names(node, cast("JsonObject", value))
        elif isinstance(value, list):
            total += self._items(node, cast("list[JsonValue]", value))
        self.known[key] = total = total if total <= MOST_STEPS else math.inf
        return total

    def _in_place(self, node: JsonObject, value: JsonValue) -> float:
        total = 0.0
        chosen = _chosen(node, value)
        if chosen is not None:
            return self.of(self._target(chosen), value)
        for name in _REFERENCES:
            if isinstance(node.get(name), str):
                total += self.of(self._target(node[name]), value)
        for name in _SINGLE:
            if name in node:
                total += self.of(node[name], value)
        for name in _LISTED:
            if isinstance(node.get(name), list):
                for item in node[name]:
                    total += self.of(item, value)
        if isinstance(node.get("dependentSchemas"), dict):
            for item in node["dependentSchemas"].values():
                total += self.of(item, value)
        # What is left unevaluated is found by evaluating the rest once more.
        return total * 2 if "unevaluatedProperties" in node or "unevaluatedItems" in node else total

    def _names(self, node: JsonObject, value: JsonObject) -> float:
        properties, patterns = node.get("properties"), node.get("patternProperties")
        own: JsonObject = cast("JsonObject", properties) if isinstance(properties, dict) else {}
        every = list(cast("JsonObject", patterns).values()) if isinstance(patterns, dict) else []
        others = [node[name] for name in _OF_NAMES if name in node]
        total = float(len(value)) if "propertyNames" in node else 0.0
        for name, item in value.items():
            for schema in (own[name], *every) if name in own else (*every, *others):
                total += self.of(schema, item)
        return total

    def _items(self, node: JsonObject, value: list[JsonValue]) -> float:
        total = 0.0
        for name in _OF_ITEMS:
            schema = node.get(name)
            if isinstance(schema, list):
                for part, item in zip(cast("list[Any]", schema), value, strict=False):
                    total += self.of(part, item)
            elif schema is not None:
                for item in value:
                    total += self.of(schema, item)
        return total

    def _target(self, reference: str) -> object:
        """What ``reference`` leads to within the root; the root itself where that is not plain to see."""
        name = reference.partition("#")[2]
        if name.startswith("/"):
            return local(reference[reference.index("#") :], self.root)
        if not name:
            return self.root
        if self.places is None:
            self.places = _anchored(self.root)
        return self.places.get(name, self.root)


def _anchored(root: JsonObject) -> Places:
    found: Places = {}
    left: list[object] = [root]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            held = cast("JsonObject", node)
            found.update((held[name], held) for name in _ANCHORS if isinstance(held.get(name), str))
            left.extend(held.values())
        elif isinstance(node, list):
            left.extend(cast("list[object]", node))
    return found


def _chosen(node: JsonObject, value: JsonValue) -> str | None:
    """The one alternative that a pydantic discriminator leaves."""
    discriminator: Any = node.get("discriminator")
    if not isinstance(discriminator, dict) or not isinstance(value, dict):
        return None
    found = cast("JsonObject", discriminator)
    mapping, tag = found.get("mapping"), cast("JsonObject", value).get(str(found.get("propertyName")))
    reference = cast("JsonObject", mapping).get(tag) if isinstance(mapping, dict) and isinstance(tag, str) else None
    return reference if isinstance(reference, str) else None


def local(reference: str, root: JsonObject) -> Any:
    """What a reference of the form ``#/$defs/name`` leads to; None where there is nothing."""
    found: Any = root
    if not reference.startswith("#"):
        return None
    for part in reference.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        found = cast("Any", found).get(name) if isinstance(found, dict) else None
    return found
