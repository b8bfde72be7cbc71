"""The options of :func:`agent_nodes.create_agent`, checked before anything is opened, and what follows from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, cast, get_args

from agent_nodes._clock import Clock
from agent_nodes.engine.config import EngineConfig
from agent_nodes.engine.prompt import prompt_sections
from agent_nodes.errors import InputValidationError
from agent_nodes.messages import ApiKind, SystemMessage
from agent_nodes.providers.base import ModelEntry, Provider
from agent_nodes.store.storage import AgentStorageFactory, memory_storage, sqlite_storage
from agent_nodes.submission import DEFAULT_STALL_TIMEOUT, AgentPermissionPolicy, plain
from agent_nodes.tools.base import AgentTool
from agent_nodes.tools.policy import resolve, roots


class AgentOptionsDict(TypedDict, total=False):
    """The keyword arguments of :func:`agent_nodes.create_agent`; :class:`AgentOptions` says what each means."""

    database_path: str | os.PathLike[str] | None
    storage: AgentStorageFactory | None
    workdir: str | os.PathLike[str] | None
    allowed_directories: Sequence[str | os.PathLike[str]]
    system_prompt: str | None
    provider: str | None
    model: str | None
    base_url: str | None
    api_key: str | None
    api_kind: ApiKind | None
    max_tokens: int | None
    context_window: int | None
    stall_timeout: float
    permission_policy: AgentPermissionPolicy
    tools: Sequence[str] | None
    extra_tools: Sequence[AgentTool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The fields of :class:`~agent_nodes.AgentOptions`, checked."""

    database_path: str | Path | None = None
    storage: Any = None
    workdir: str | Path | None = None
    allowed_directories: tuple[str | Path, ...] = ()
    system_prompt: str | None = None
    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    api_kind: ApiKind | None = None
    max_tokens: int | None = None
    context_window: int | None = None
    stall_timeout: float = DEFAULT_STALL_TIMEOUT
    permission_policy: AgentPermissionPolicy = "workspace"
    tools: tuple[str, ...] | None = None
    extra_tools: tuple[Any, ...] = ()


_SEQUENCES = ("allowed_directories", "tools", "extra_tools")


def _text(value: Any) -> bool:
    return value is None or type(value) is str


def _path(value: Any) -> bool:
    return value is None or isinstance(value, str | Path)


def _count(value: Any) -> bool:
    return value is None or (type(value) is int and value > 0)


def _paths(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, str | Path) for item in cast("tuple[object, ...]", value))


def _words(value: object) -> bool:
    return isinstance(value, tuple) and all(type(name) is str for name in cast("tuple[object, ...]", value))


PLAIN_OPTIONS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("system_prompt", "provider", "model", "base_url", "api_key"), _text),
    **dict.fromkeys(("database_path", "workdir"), _path),
    **dict.fromkeys(("max_tokens", "context_window"), _count),
    "storage": lambda value: True,
    "stall_timeout": lambda value: type(value) in (int, float) and value > 0,
    "api_kind": lambda value: value is None or value in get_args(ApiKind),
    "permission_policy": lambda value: value in get_args(AgentPermissionPolicy),
    "allowed_directories": _paths,
    "tools": lambda value: value is None or _words(value),
    "extra_tools": lambda value: type(value) is tuple,
}


def agent_options(given: Mapping[str, Any]) -> Options:
    """Checked options. Raises :class:`InputValidationError` naming the option that is wrong."""
    values = dict(given)
    for name in _SEQUENCES:
        if isinstance(values.get(name), list):
            values[name] = tuple(values[name])
    for name in ("database_path", "workdir"):
        if isinstance(values.get(name), os.PathLike):
            values[name] = Path(values[name])
    if not plain(values, PLAIN_OPTIONS):
        from agent_nodes.options import AgentOptions, checked_model

        model = checked_model(AgentOptions, values, where="create_agent")
        values = {name: getattr(model, name) for name in AgentOptions.model_fields}
    options = Options(**values)
    if options.database_path is not None and not str(options.database_path).strip():
        raise InputValidationError("create_agent: database_path: empty; give the path of a file", field="database_path")
    if options.storage is not None and options.database_path is not None:
        raise InputValidationError("create_agent: give either storage or database_path, not both", field="storage")
    if options.storage is not None and not callable(getattr(options.storage, "open", None)):
        raise InputValidationError("create_agent: storage: must be a storage factory with open()", field="storage")
    for tool in options.extra_tools:
        if not isinstance(tool, AgentTool):
            raise InputValidationError(
                "create_agent: extra_tools: every item must be an AgentTool", field="extra_tools"
            )
    return options


def storage_of(options: Options) -> AgentStorageFactory:
    if options.storage is not None:
        return options.storage
    if options.database_path is not None:
        return sqlite_storage(options.database_path)
    return memory_storage()


def model_of(options: Options, environ: Mapping[str, str]) -> tuple[ModelEntry, str | None]:
    """The model a turn goes to and its key. Raises :class:`InputValidationError` where one is missing."""
    from agent_nodes.providers import catalog

    entry = catalog.resolve(
        provider=options.provider,
        model=options.model,
        base_url=options.base_url,
        api_kind=options.api_kind,
        context_window=options.context_window,
        max_tokens=options.max_tokens,
        environ=environ,
    )
    return entry, catalog.key_for(entry.provider, options.api_key, environ)


def _workdir(given: str | Path | None) -> Path:
    try:
        return Path(os.path.realpath(given or Path.cwd()))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds a character that no path can have"
        raise InputValidationError(f"workdir: cannot be used: {reason}", field="workdir") from error


def engine_config(options: Options, entry: ModelEntry, provider: Provider, clock: Clock) -> EngineConfig:
    workdir = _workdir(options.workdir)
    reach = roots(options.permission_policy, workdir, options.allowed_directories)
    tools = resolve(options.permission_policy, options.tools, options.extra_tools)
    system = SystemMessage(
        prompt_sections(options.system_prompt, tools, workdir),
        tuple(tool.spec() for tool in tools),
        "openai-completions" if entry.api == "demo" else entry.api,
        entry.provider,
        entry.model,
    )
    return EngineConfig(
        clock=clock,
        model=entry,
        provider=provider,
        system=system,
        tools={tool.name: tool for tool in tools},
        workdir=workdir,
        roots=reach,
        max_tokens=options.max_tokens,
    )
