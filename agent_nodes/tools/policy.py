"""Which tools a turn has, and how far its file tools reach. Pure, so that recovery gets the same answer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from agent_nodes.errors import InputValidationError
from agent_nodes.tools.base import AgentTool
from agent_nodes.tools.schemas import check_tool

if TYPE_CHECKING:
    from agent_nodes.submission import AgentPermissionPolicy

BUILTIN_NAMES = ("read", "write", "edit", "bash", "grep", "find", "ls")
SESSION_NAMES = frozenset({"ask_user", "update_plan", "subagent"})
"""Tools that only some sessions and turns have; nobody else may take their names, and declarations may hold them."""

_CHANGING = frozenset({"write", "edit", "bash"})
_POLICIES = ("read-only", "workspace", "auto")


def builtin_tools() -> tuple[AgentTool, ...]:
    """All built-in tools, in the order in which a model sees them (that of :data:`BUILTIN_NAMES`)."""
    from agent_nodes.tools.edit import EDIT
    from agent_nodes.tools.files import LS, WRITE
    from agent_nodes.tools.read import READ
    from agent_nodes.tools.search import FIND, GREP
    from agent_nodes.tools.shell import BASH

    return READ, WRITE, EDIT, BASH, GREP, FIND, LS


@dataclass(frozen=True, slots=True)
class ToolPermissionDefinition:
    """One declared tool. Where tools are declared, one that is not is not there. ``enabled`` False hides it.
    ``auto_approve`` False asks the host before a call of it, in plan-mode turns only."""

    name: str
    enabled: bool = True
    auto_approve: bool = True


Definition: TypeAlias = ToolPermissionDefinition | Mapping[str, Any]


def tool_definitions(given: Sequence[Definition] | None) -> tuple[ToolPermissionDefinition, ...] | None:
    """The declarations, of which each may be a dict of its fields. None is none at all, which is not an empty list.

    Raises :class:`InputValidationError` naming the place (``tool_definitions.0.name``) of a wrong or repeated one.
    """
    if given is None:
        return None
    found: list[ToolPermissionDefinition] = []
    for number, item in enumerate(given):
        definition = item if isinstance(item, ToolPermissionDefinition) else _definition(item, number)
        _check_definition(definition, number)
        if any(definition.name == earlier.name for earlier in found):
            raise _wrong_definition(number, "name", f"{definition.name!r} is declared twice")
        found.append(definition)
    return tuple(found)


def _definition(item: object, number: int) -> ToolPermissionDefinition:
    if not isinstance(item, Mapping):
        raise _wrong_definition(number, "", "must be a ToolPermissionDefinition or a dict of its fields")
    fields = cast("Mapping[str, Any]", item)
    known = list(ToolPermissionDefinition.__slots__)
    for name in fields:
        if name not in known:
            raise _wrong_definition(number, str(name), f"unknown field{_meant(str(name), known)}")
    if "name" not in fields:
        raise _wrong_definition(number, "name", "missing")
    return ToolPermissionDefinition(**fields)


def _check_definition(definition: ToolPermissionDefinition, number: int) -> None:
    if not isinstance(definition.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _wrong_definition(number, "name", "must be the name of a tool")
    for name in ("enabled", "auto_approve"):
        if not isinstance(getattr(definition, name), bool):
            raise _wrong_definition(number, name, "must be True or False")


def _wrong_definition(number: int, name: str, what: str) -> InputValidationError:
    field = f"tool_definitions.{number}.{name}".rstrip(".")
    return InputValidationError(f"{field}: {what}", field=field)


def _meant(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, 1)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"


def exposed(name: str, definitions: Sequence[ToolPermissionDefinition] | None) -> bool:
    """Whether the declarations leave the tool ``name`` there; they govern every tool, whoever brings it."""
    return definitions is None or any(item.name == name and item.enabled for item in definitions)


def resolve(
    permission_policy: AgentPermissionPolicy,
    narrowing: tuple[str, ...] | None,
    extra: Sequence[AgentTool] = (),
    definitions: Sequence[Definition] | None = None,
) -> tuple[AgentTool, ...]:
    """The tools of a turn: the built-in ones that the policy and ``narrowing`` (names; None for all) leave, then the
    caller's own, which neither of the two governs; of both those that ``definitions`` expose (None: all).

    Raises :class:`InputValidationError` for an unknown policy, an unknown name in ``narrowing`` or ``definitions``, a
    name given twice, and an own tool whose JSON Schema is none.
    """
    _check_policy(permission_policy)
    declared = tool_definitions(definitions)
    names = set(BUILTIN_NAMES)
    own: set[str] = set()
    for tool in extra:
        if tool.name in names | own | SESSION_NAMES:
            what = "is the name of two tools" if tool.name in own else "is the name of a built-in tool"
            raise InputValidationError(f"extra_tools: {tool.name} {what}; give each its own name", field="extra_tools")
        own.add(tool.name)
        check_tool(tool, "extra_tools")
    for name in narrowing or ():
        if name not in names | own:
            known = ", ".join([*BUILTIN_NAMES, *sorted(own)])
            raise InputValidationError(f"tools: {name!r} is no tool here; known are {known}", field="tools")
    for number, item in enumerate(declared or ()):
        if item.name not in names | own | SESSION_NAMES:
            known = [*BUILTIN_NAMES, *sorted(own)]
            raise _wrong_definition(number, "name", f"{item.name!r} is no tool here{_meant(item.name, known)}")
    allowed = names if narrowing is None else names.intersection(narrowing)
    if permission_policy == "read-only":
        allowed -= _CHANGING
    built_in = builtin_tools() if allowed else ()
    chosen = (*(tool for tool in built_in if tool.name in allowed), *extra)
    return tuple(tool for tool in chosen if exposed(tool.name, declared))


def roots(
    permission_policy: AgentPermissionPolicy, workdir: Path, allowed_directories: Sequence[str | os.PathLike[str]] = ()
) -> tuple[Path, ...] | None:
    """The real folders that the file tools may reach: ``workdir``, then ``allowed_directories`` (relative ones below
    ``workdir``, ``~`` the home folder). None, which is no limit, under ``auto``.

    Raises :class:`InputValidationError` when one of them is not a folder.
    """
    _check_policy(permission_policy)
    real = [_folder(workdir, workdir, "workdir")]
    for entry in allowed_directories:
        folder = _folder(real[0] / Path(entry).expanduser(), entry, "allowed_directories")
        if folder not in real:
            real.append(folder)
    return None if permission_policy == "auto" else tuple(real)


def _folder(path: Path, entry: str | os.PathLike[str], field: str) -> Path:
    try:
        real = Path(os.path.realpath(path, strict=True))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputValidationError(f"{field}: {str(entry)!r} cannot be used: {reason}", field=field) from error
    if not real.is_dir():
        raise InputValidationError(f"{field}: {str(entry)!r} is no folder", field=field)
    return real


def _check_policy(policy: str) -> None:
    if policy not in _POLICIES:
        known = ", ".join(_POLICIES)
        raise InputValidationError(
            f"permission_policy: {policy!r} is unknown; known are {known}", field="permission_policy"
        )
