"""Which tools a turn has, and how far its file tools reach. Pure, so that recovery gets the same answer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_nodes.errors import InputValidationError
from agent_nodes.tools.base import AgentTool

if TYPE_CHECKING:
    from agent_nodes.submission import AgentPermissionPolicy

BUILTIN_NAMES = ("read", "write", "edit", "bash", "grep", "find", "ls")
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


def resolve(
    permission_policy: AgentPermissionPolicy, narrowing: tuple[str, ...] | None, extra: Sequence[AgentTool] = ()
) -> tuple[AgentTool, ...]:
    """The tools of a turn: the built-in ones that the policy and ``narrowing`` (names; None for all) leave, then the
    caller's own, which neither of the two governs.

    Raises :class:`InputValidationError` for an unknown policy, an unknown name in ``narrowing`` or a name given twice.
    """
    _check_policy(permission_policy)
    names = set(BUILTIN_NAMES)
    own: set[str] = set()
    for tool in extra:
        if tool.name in names | own:
            what = "is the name of a built-in tool" if tool.name in names else "is the name of two tools"
            raise InputValidationError(f"extra_tools: {tool.name} {what}; give each its own name", field="extra_tools")
        own.add(tool.name)
    for name in narrowing or ():
        if name not in names | own:
            known = ", ".join([*BUILTIN_NAMES, *sorted(own)])
            raise InputValidationError(f"tools: {name!r} is no tool here; known are {known}", field="tools")
    allowed = names if narrowing is None else names.intersection(narrowing)
    if permission_policy == "read-only":
        allowed -= _CHANGING
    built_in = builtin_tools() if allowed else ()
    return (*(tool for tool in built_in if tool.name in allowed), *extra)


def roots(
    permission_policy: AgentPermissionPolicy, workdir: Path, allowed_directories: Sequence[str | os.PathLike[str]] = ()
) -> tuple[Path, ...] | None:
    """The real folders that the file tools may reach: ``workdir``, then ``allowed_directories`` (relative ones below
    ``workdir``, ``~`` the home folder). None, which is no limit, under ``auto``.

    Raises :class:`InputValidationError` when one of them is not a folder.
    """
    _check_policy(permission_policy)
    real = [_folder(Path(workdir), workdir, "workdir")]
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
