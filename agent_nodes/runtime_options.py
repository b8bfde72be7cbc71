"""The options of :func:`agent_nodes.create_agent`, checked before anything is opened, and what follows from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast, get_args

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import AgentEffort, ApiKind, is_text, is_token_count
from agent_nodes.providers.base import ModelEntry
from agent_nodes.store.storage import AgentStorageFactory, memory_storage, sqlite_storage
from agent_nodes.submission import DEFAULT_STALL_TIMEOUT, AgentPermissionPolicy, FileStore, plain
from agent_nodes.tools.base import AgentTool

if TYPE_CHECKING:
    from agent_nodes.model_attributes import AgentModelAttributes
    from agent_nodes.providers.registry import ModelRegistry
    from agent_nodes.tools.policy import ToolPermissionDefinition


class AgentOptionsDict(TypedDict, total=False):
    """The keyword arguments of :func:`agent_nodes.create_agent`; :class:`AgentOptions` says what each means."""

    database_path: str | os.PathLike[str] | None
    storage: AgentStorageFactory | None
    session_id: str | None
    workdir: str | os.PathLike[str] | None
    allowed_directories: Sequence[str | os.PathLike[str]]
    system_prompt: str | None
    provider: str | None
    model: str | None
    base_url: str | None
    api_key: str | None
    api_kind: ApiKind | None
    client: Any
    models: ModelRegistry | None
    resolved_model: ModelEntry | None
    model_attributes: AgentModelAttributes | Mapping[str, Any] | str | None
    effort: AgentEffort | None
    max_tokens: int | None
    context_window: int | None
    stall_timeout: float
    permission_policy: AgentPermissionPolicy
    tools: Sequence[str] | None
    extra_tools: Sequence[AgentTool]
    tool_definitions: Sequence[ToolPermissionDefinition | Mapping[str, Any]] | None
    file_store: FileStore | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The fields of :class:`~agent_nodes.AgentOptions`, checked."""

    database_path: str | Path | None = None
    storage: Any = None
    session_id: str | None = None
    workdir: str | Path | None = None
    allowed_directories: tuple[str | Path, ...] = ()
    system_prompt: str | None = None
    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    api_kind: ApiKind | None = None
    client: Any = None
    models: Any = None
    resolved_model: ModelEntry | None = None
    model_attributes: AgentModelAttributes | None = None
    effort: AgentEffort | None = None
    max_tokens: int | None = None
    context_window: int | None = None
    stall_timeout: float = DEFAULT_STALL_TIMEOUT
    permission_policy: AgentPermissionPolicy = "workspace"
    tools: tuple[str, ...] | None = None
    extra_tools: tuple[Any, ...] = ()
    tool_definitions: tuple[Any, ...] | None = None
    file_store: Any = None


_SEQUENCES = ("allowed_directories", "tools", "extra_tools", "tool_definitions")


def _text(value: Any) -> bool:
    return value is None or is_text(value)


def _path(value: Any) -> bool:
    return value is None or isinstance(value, str | Path)


def _count(value: Any) -> bool:
    return value is None or is_token_count(value)


def _paths(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, str | Path) for item in cast("tuple[object, ...]", value))


def _words(value: object) -> bool:
    return isinstance(value, tuple) and all(type(name) is str for name in cast("tuple[object, ...]", value))


PLAIN_OPTIONS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("system_prompt", "provider", "model", "base_url", "api_key"), _text),
    **dict.fromkeys(("database_path", "workdir"), _path),
    **dict.fromkeys(("max_tokens", "context_window"), _count),
    **dict.fromkeys(("storage", "client", "models", "model_attributes", "file_store"), lambda value: True),
    "resolved_model": lambda value: value is None or isinstance(value, ModelEntry),
    "session_id": lambda value: value is None or (type(value) is str and value.strip() != ""),
    "effort": lambda value: value is None or value in get_args(AgentEffort),
    "stall_timeout": lambda value: type(value) in (int, float) and value > 0,
    "api_kind": lambda value: value is None or value in get_args(ApiKind),
    "permission_policy": lambda value: value in get_args(AgentPermissionPolicy),
    "allowed_directories": _paths,
    "tools": lambda value: value is None or _words(value),
    "extra_tools": lambda value: type(value) is tuple,
    "tool_definitions": lambda value: value is None or type(value) is tuple,
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
    if values.get("model_attributes") is not None:
        from agent_nodes.model_attributes import model_attributes_of

        values["model_attributes"] = model_attributes_of(values["model_attributes"])
    options = Options(**values)
    _check(options)
    return options


def _check(options: Options) -> None:
    _check_storage(options)
    for name, needed, what in (
        ("file_store", "read", "must have a method read(reference)"),
        ("models", "register", "must be a ModelRegistry"),
    ):
        value = getattr(options, name)
        if value is not None and not callable(getattr(value, needed, None)):
            raise _wrong(name, what)
    for name in ("base_url", "api_key"):
        if options.client is not None and getattr(options, name):
            raise _wrong(name, "the client has one already; leave it out")
    if options.resolved_model is not None:
        from agent_nodes.providers.registry import check_entry

        check_entry(options.resolved_model, where="create_agent: resolved_model")
        for name in ("provider", "model", "base_url", "api_kind", "model_attributes"):
            if getattr(options, name):
                raise _wrong(name, "resolved_model says this already; give one of the two")
    for tool in options.extra_tools:
        if not isinstance(tool, AgentTool):
            raise _wrong("extra_tools", "every item must be an AgentTool")


def _check_storage(options: Options) -> None:
    if options.database_path is not None and not str(options.database_path).strip():
        raise _wrong("database_path", "empty; give the path of a file")
    if options.storage is not None and options.database_path is not None:
        raise _wrong("storage", "give either storage or database_path, not both")
    if options.storage is not None and not _is_factory(options.storage):
        raise _wrong("storage", "must be a storage factory with label and open(); a file's path is database_path")
    session_id = options.session_id
    if session_id is not None and not session_id.strip():
        raise _wrong("session_id", "empty; give an id, or leave it out for a new one")
    if session_id is not None and (len(session_id) > 200 or not session_id.isprintable()):
        raise _wrong("session_id", "must be a text of at most 200 printable characters")


def _is_factory(storage: Any) -> bool:
    return isinstance(getattr(storage, "label", None), str) and callable(getattr(storage, "open", None))


def _wrong(name: str, what: str) -> InputValidationError:
    return InputValidationError(f"create_agent: {name}: {what}", field=name)


def storage_of(options: Options) -> AgentStorageFactory:
    if options.storage is not None:
        return options.storage
    if options.database_path is not None:
        return sqlite_storage(options.database_path)
    return memory_storage()
