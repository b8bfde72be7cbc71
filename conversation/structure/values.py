"""Literals, and declarations made of literals, as values that remember where each part of them stands."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import BaseModel

from conversation.declarations import (
    ConversationDeclaration,
    ConversationParamDeclaration,
    OpenAIDeclaration,
    ParamChoice,
    Switch,
    TokenUsageDeclaration,
    ToolDeclaration,
    mistakes,
)
from conversation.structure.problems import Problems
from conversation.structure.source import Module

DECLARATIONS: Mapping[str, type[BaseModel]] = {
    kind.__name__: kind
    for kind in (
        ConversationDeclaration,
        ConversationParamDeclaration,
        OpenAIDeclaration,
        ParamChoice,
        Switch,
        TokenUsageDeclaration,
        ToolDeclaration,
    )
}

_UNREAD: Mapping[type[ast.expr], str] = {
    ast.Name: "a name",
    ast.Attribute: "an attribute",
    ast.Call: "a call",
    ast.JoinedStr: "an f-string",
    ast.ListComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.Lambda: "a function",
    ast.Set: "a set",
    ast.Starred: "an unpacked value",
}


@dataclass(slots=True)
class Value:
    """``data`` is what the expression would be; ``parts`` are those of a list by number, of a dict and a declaration by
    name. ``name`` is where a part's name stands. ``whole``: nothing in it was left unread or is wrong already."""

    node: ast.AST
    data: Any = None
    parts: dict[str, Value] = field(default_factory=dict[str, "Value"])
    name: ast.AST | None = None
    whole: bool = True

    def at(self, path: Sequence[str], *, named: bool = False) -> ast.AST:
        """Where the part at ``path`` stands, as far as there is one; ``named``: its name."""
        if not path:
            return self.name if named and self.name is not None else self.node
        part = self.parts.get(path[0])
        return self.node if part is None else part.at(path[1:], named=named)


class Reader:
    """Reads the values of one module; what cannot be read is a problem and makes what holds it not whole."""

    def __init__(self, module: Module, problems: Problems) -> None:
        self._module = module
        self._problems = problems

    def read(self, node: ast.expr, where: str) -> Value:
        match node:
            case ast.Constant(value=str() | int() | float() | bool() | None):
                return Value(node, node.value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return Value(node, -number)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return self._list(node, items, where)
            case ast.Dict():
                return self._dict(node, where)
            case ast.Call() if (name := self._module.meant(node.func)) in DECLARATIONS:
                return self._declaration(node, DECLARATIONS[name or ""], where)
            case _:
                what = _UNREAD.get(type(node), "an expression")
                self._problems.add(
                    "not-literal", f"{where}: {what} cannot be read without running the project; write its value", node
                )
                return Value(node, whole=False)

    def _list(self, node: ast.expr, items: Sequence[ast.expr], where: str) -> Value:
        parts = {str(n): self.read(item, f"{where}.{n}") for n, item in enumerate(items)}
        return Value(node, [part.data for part in parts.values()], parts, whole=_all_whole(parts))

    def _dict(self, node: ast.Dict, where: str) -> Value:
        parts: dict[str, Value] = {}
        whole = True
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                self._problems.add("hidden-arguments", f"{where}: what ** brings is not read; write it here", value)
                whole = False
            elif not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                self._problems.add("not-literal", f"{where}: a name of a field must be a text in quotes", key)
                whole = False
            elif key.value in parts:
                self._problems.add("repeated-key", f"{where}: {key.value!r} is there twice; only the last counts", key)
                whole = False
            else:
                part = self.read(value, f"{where}.{key.value}")
                part.name = key
                parts[key.value] = part
        data = {name: part.data for name, part in parts.items()}
        return Value(node, data, parts, whole=whole and _all_whole(parts))

    def _declaration(self, node: ast.Call, kind: type[BaseModel], where: str) -> Value:
        value = self.keywords(node, kind.__name__, where)
        if value.whole:
            self.check(kind, value, where)
        if value.whole:
            value.data = kind.model_validate(value.data)
        return value

    def keywords(self, node: ast.Call, function: str, where: str) -> Value:
        """The arguments of a call, all given by name."""
        arguments = named_arguments(node, function, where, self._problems)
        parts: dict[str, Value] = {}
        repeated = False
        for keyword in arguments.named:
            if keyword.arg in parts:
                self._problems.add("repeated-key", f"{where}: {keyword.arg} is given twice", keyword)
                repeated = True
            part = self.read(keyword.value, f"{where}.{keyword.arg}")
            part.name = keyword
            parts[keyword.arg or ""] = part
        data = {name: part.data for name, part in parts.items()}
        return Value(node, data, parts, whole=arguments.whole and not repeated and _all_whole(parts))

    def check(self, kind: type[BaseModel], value: Value, where: str) -> None:
        """Whether ``value`` is a ``kind``, one already or a dict of its fields. What is wrong is a problem where it
        stands."""
        data = value.data
        if isinstance(data, kind):
            return
        if not isinstance(data, dict):
            self._wrong(value, f"{where}: must be a {kind.__name__} or a dict of its fields", value.node)
            return
        for mistake in mistakes(kind, cast("dict[str, Any]", data), where):
            path = mistake.field.removeprefix(where).strip(".").split(".")
            self._wrong(value, f"{mistake.field}: {mistake.text}", value.at(path, named=mistake.unknown))

    def _wrong(self, value: Value, message: str, at: ast.AST) -> None:
        value.whole = False
        self._problems.add("invalid-value", message, at)


@dataclass(frozen=True, slots=True)
class Arguments:
    named: Sequence[ast.keyword]
    whole: bool


def named_arguments(node: ast.Call, function: str, where: str, problems: Problems) -> Arguments:
    """The arguments of ``node`` that have their names; others are problems."""
    for argument in node.args:
        problems.add("hidden-arguments", f"{where}: give the arguments of {function} by their names", argument)
    for keyword in node.keywords:
        if keyword.arg is None:
            message = f"{where}: what ** brings is not read; write the arguments of {function} one by one"
            problems.add("hidden-arguments", message, keyword.value)
    named = [keyword for keyword in node.keywords if keyword.arg is not None]
    return Arguments(named, whole=len(named) == len(node.args) + len(node.keywords))


def _all_whole(parts: Mapping[str, Value]) -> bool:
    return all(part.whole for part in parts.values())


def plain(value: Any) -> Any:
    """``value`` as JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {name: plain(item) for name, item in cast("dict[str, Any]", value).items()}
    return [plain(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value
