"""Changes to the head of a request's body (all but the messages). Pure: none touches the head it is given."""

from __future__ import annotations

from typing import TypeAlias

from agent_nodes.messages import EffortLevel, JsonObject, JsonValue
from agent_nodes.providers.efforts import BUDGETS, LEVELS, SHOWN, as_level, budget_below, nearest
from agent_nodes.providers.payload import as_list, as_object

Head: TypeAlias = JsonObject
Path: TypeAlias = tuple[str, ...]

LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
EFFORTS: tuple[Path, ...] = (("reasoning", "effort"), ("reasoning_effort",), ("output_config", "effort"))


def limit_name(head: Head) -> str | None:
    return next((name for name in LIMITS if name in head), None)


def effort_path(head: Head) -> Path | None:
    return next((path for path in EFFORTS if at(head, path) is not None), None)


def same(head: Head) -> Head:
    return head


def at(head: Head, path: Path) -> JsonValue:
    value: JsonValue = head
    for name in path:
        value = as_object(value).get(name)
    return value


def put(head: Head, path: Path, value: JsonValue) -> Head:
    first, rest = path[0], path[1:]
    return {**head, first: put(as_object(head.get(first)), rest, value) if rest else value}


def without(path: Path, head: Head) -> Head:
    """Without the field, and without the object that it leaves empty."""
    first, rest = path[0], path[1:]
    if first not in head:
        return head
    inner = without(rest, as_object(head[first])) if rest else {}
    if inner:
        return {**head, first: inner}
    return {name: value for name, value in head.items() if name != first}


def renamed(old: str, new: str, head: Head) -> Head:
    return {new if name == old else name: value for name, value in head.items()}


def at_most(most: int, head: Head) -> Head:
    name = limit_name(head)
    if name is None or head[name] <= most:
        return head
    head = {**head, name: most}
    budget = at(head, ("thinking", "budget_tokens"))
    if budget is None:
        return head
    fitting = budget_below(budget, most)
    thinking = {"type": "disabled"} if fitting is None else {**head["thinking"], "budget_tokens": fitting}
    return {**head, "thinking": thinking}


def at_least(least: int, head: Head) -> Head:
    name = limit_name(head)
    return head if name is None or head[name] >= least else {**head, name: least}


def clamped(allowed: frozenset[str], head: Head) -> Head:
    path = effort_path(head)
    if path is None or (value := at(head, path)) in allowed:
        return head
    level = as_level(value)
    levels = {as_level(word) for word in allowed}
    found = nearest(level, [(other, None) for other in LEVELS if other not in levels]) if level is not None else None
    return without(path, head) if found is None else put(head, path, "none" if found == "off" else found)


def thinks_otherwise(refused: str, head: Head) -> Head:
    """Thinking told in the other way: by a level in place of a budget, or the reverse; the least in place of none."""
    thinking = as_object(head.get("thinking"))
    if thinking.get("type") != refused:
        return head
    if refused == "adaptive":
        level = as_level(str(at(head, ("output_config", "effort"))))
        limit: int = head["max_tokens"]
        budget = budget_below(BUDGETS.get(level, limit), limit) if level is not None else None
        if budget is None:
            return without(("thinking",), head)
        return {**head, "thinking": {"type": "enabled", "budget_tokens": budget}}
    level = _level_of(thinking["budget_tokens"]) if refused == "enabled" else "low"
    return put({**head, "thinking": SHOWN}, ("output_config", "effort"), level)


def _level_of(budget: int) -> EffortLevel:
    level: EffortLevel
    for level, most in BUDGETS.items():
        if level != "minimal" and budget <= most:
            return level
    return "max"


def not_strict(head: Head) -> Head:
    return {**head, "tools": [without(("strict",), _loose(tool)) for tool in as_list(head.get("tools"))]}


def _loose(tool: JsonObject) -> JsonObject:
    return {**tool, "function": without(("strict",), tool["function"])} if "function" in tool else tool
