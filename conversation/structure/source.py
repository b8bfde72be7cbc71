"""A module's source as far as it is understood without running it: what names mean, where a function is called."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

PACKAGES = ("conversation", "agent_nodes")

Statement: TypeAlias = ast.stmt
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Called:
    """A call of one of our functions. ``statement`` is the module's statement it stands in."""

    call: ast.Call
    function: str
    statement: Statement


@dataclass(slots=True)
class Module:
    """``functions`` and ``values`` are what the module itself defines, by name; ``values`` only where it does so once.
    ``names`` are those that stand for something of our packages, at the module's end."""

    tree: ast.Module
    functions: dict[str, _Function] = field(default_factory=dict[str, _Function])
    values: dict[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    names: dict[str, str] = field(default_factory=dict[str, str])

    def meant(self, expression: ast.expr) -> str | None:
        """The name that one of our packages has for what ``expression`` is, where it is something of theirs."""
        return _own(_dotted(expression, self.names))


def read_module(source: bytes) -> Module:
    """Raises ``SyntaxError``, ``ValueError``, ``RecursionError`` or ``MemoryError`` for what is no Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the project's code, and not ours to say
        module = Module(ast.parse(source))
    seen: set[str] = set()
    for statement in module.tree.body:
        _bind(statement, module.names)
        if isinstance(statement, _Function):
            module.functions[statement.name] = statement
        for name, value in _assigned(statement):
            module.functions.pop(name, None)
            if value is not None and name not in seen:
                module.values[name] = value
            else:
                module.values.pop(name, None)
            seen.add(name)
    return module


def calls(module: Module, functions: frozenset[str]) -> Iterator[Called]:
    """Every call of one of our ``functions``, through imports, aliases and attributes of modules, as the names stand
    where it is made."""
    names: dict[str, str] = {}
    for statement in module.tree.body:
        inside = dict(names)
        for node in ast.walk(statement):
            if isinstance(node, ast.Import | ast.ImportFrom):
                inside.update(_imported(node))
        for node in ast.walk(statement):
            if isinstance(node, ast.Call):
                function = _own(_dotted(node.func, inside))
                if function in functions:
                    yield Called(node, function or "", statement)
        _bind(statement, names)


# -- names -------------------------------------------------------------------------------------------------------------


def _bind(statement: Statement, names: dict[str, str]) -> None:
    """What ``statement`` makes of the module's names."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        names.update(_imported(statement))
    elif isinstance(statement, ast.If | ast.Try | ast.With):
        for inner in ast.iter_child_nodes(statement):
            if isinstance(inner, ast.stmt):
                _bind(inner, names)
            elif isinstance(inner, ast.ExceptHandler):
                for each in inner.body:
                    _bind(each, names)
    elif isinstance(statement, _Function | ast.ClassDef):
        names.pop(statement.name, None)
    else:
        for name, value in _assigned(statement):
            known = None if value is None else _dotted(value, names)
            if known is None:
                names.pop(name, None)
            else:
                names[name] = known


def _imported(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            path = alias.name if alias.asname else alias.name.partition(".")[0]
            yield alias.asname or path, path
        return
    if statement.level or statement.module is None:
        for alias in statement.names:  # of the project itself
            yield alias.asname or alias.name, f".{alias.name}"
        return
    for alias in statement.names:
        if alias.name == "*":
            yield from _star(statement.module)
        else:
            yield alias.asname or alias.name, f"{statement.module}.{alias.name}"


def _star(module: str) -> Iterator[tuple[str, str]]:
    if module in PACKAGES:
        from importlib import import_module

        for name in import_module(module).__all__:
            yield name, f"{module}.{name}"


def _assigned(statement: Statement) -> Iterator[tuple[str, ast.expr | None]]:
    """Names that the statement gives a value; None for one that cannot be told."""
    match statement:
        case ast.Assign():
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, statement.value
                else:
                    yield from ((node.id, None) for node in ast.walk(target) if isinstance(node, ast.Name))
        case ast.AnnAssign() if isinstance(statement.target, ast.Name):
            yield statement.target.id, statement.value
        case ast.AugAssign() if isinstance(statement.target, ast.Name):
            yield statement.target.id, None
        case _:
            pass


def _dotted(expression: ast.expr, names: dict[str, str]) -> str | None:
    if isinstance(expression, ast.Name):
        return names.get(expression.id)
    if isinstance(expression, ast.Attribute):
        before = _dotted(expression.value, names)
        return None if before is None else f"{before}.{expression.attr}"
    return None


def _own(path: str | None) -> str | None:
    """The last part of a path into one of our packages: everything there has one name, wherever it is imported from."""
    if path is None:
        return None
    package, _, rest = path.partition(".")
    return rest.rpartition(".")[2] if package in PACKAGES and rest else None
