"""What a project's folder says about itself: the models configured in its ``agent-nodes.toml`` and in the user's.

[models.fast]
provider = "my-gateway"
model = "vendor/model-1"
base_url = "https://gateway.example.com/v1"
api_key_env = "GATEWAY_KEY"
attributes = { context_window = 200000 }
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import AgentEffort
from agent_nodes.providers import catalog

if TYPE_CHECKING:
    from agent_nodes.model_attributes import AgentModelAttributes
    from agent_nodes.providers.registry import ModelRegistry

FILE = "agent-nodes.toml"
CONFIG = "AGENT_NODES_CONFIG"
MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class ConfiguredModel:
    """One ``[models.ID]`` of ``file``. ``api_key_env`` is the name of the variable that holds the key."""

    id: str
    file: Path
    provider: str
    model: str | None = None
    base_url: str | None = None
    api_kind: str | None = None
    api_key_env: str | None = None
    effort: str | None = None
    context_window: int | None = None
    max_tokens: int | None = None
    attributes: AgentModelAttributes | None = None


def load_models(folder: Path, environ: Mapping[str, str] | None = None) -> list[ConfiguredModel]:
    """The models of ``folder``'s file, then those of the user's that have another id; no file is none.

    Raises :class:`InputValidationError` naming file, entry and field of the first mistake.
    """
    models: dict[str, ConfiguredModel] = {}
    for file in _files(folder, os.environ if environ is None else environ):
        for model in _models_in(file):
            models.setdefault(model.id, model)
    return list(models.values())


def options_of(configured: ConfiguredModel, environ: Mapping[str, str]) -> dict[str, Any]:
    """The options of :func:`agent_nodes.create_agent` that ``configured`` means, with its key from ``environ``.

    Raises :class:`InputValidationError` where that variable is not set.
    """
    names = ("provider", "model", "base_url", "api_kind", "effort", "context_window", "max_tokens")
    options = {name: getattr(configured, name) for name in names}
    options["model_attributes"] = configured.attributes
    variable = configured.api_key_env
    if variable is not None:
        options["api_key"] = environ.get(variable, "").strip()
        if not options["api_key"]:
            raise InputValidationError(
                f"{configured.file}: models.{_shown(configured.id)}.api_key_env: the variable {variable} is not set; "
                "put the key into it.",
                field=f"models.{configured.id}.api_key_env",
            )
    return {name: value for name, value in options.items() if value is not None}


def registry_of(models: Sequence[ConfiguredModel], environ: Mapping[str, str]) -> ModelRegistry | None:
    """The configured models as entries for an agent, each with its key where that is set; None for none."""
    from agent_nodes.providers.registry import ModelRegistry

    registry = ModelRegistry()
    for model in models:
        if model.provider == catalog.DEMO:
            continue
        entry = catalog.resolve(
            provider=model.provider,
            model=model.model,
            base_url=model.base_url,
            api_kind=model.api_kind,
            context_window=model.context_window,
            max_tokens=model.max_tokens,
            environ=environ,
            attributes=model.attributes,
        )
        registry.register(entry, api_key=environ.get(model.api_key_env or "", "").strip() or None)
    return registry if len(registry) else None


# -- the files ---------------------------------------------------------------------------------------------------------


def _files(folder: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Those that there are. One that is named must be there."""
    own = folder / FILE
    if os.path.lexists(own):  # a link that leads nowhere is no missing file
        yield own
    named = environ.get(CONFIG, "").strip()
    if named:
        yield Path(named).expanduser()
        return
    import platformdirs

    users = platformdirs.user_config_path("agent-nodes", appauthor=False) / FILE
    if os.path.lexists(users):
        yield users


def _models_in(file: Path) -> Iterator[ConfiguredModel]:
    try:
        data = _parsed(file)
        _check_names("", data, ("models",))
        entries = data.get("models", {})
        if not isinstance(entries, dict):
            raise _wrong("models", "must be tables: [models.ID]")
        for id, entry in cast("dict[str, Any]", entries).items():
            yield _model(file, id, entry)
    except InputValidationError as error:
        raise InputValidationError(f"{file}: {error.message}", field=error.field) from None


def _parsed(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(_content(file).decode("utf-8-sig"))
    except OSError as error:
        raise InputValidationError(f"cannot be read ({error.strerror or error}).", field=CONFIG) from None
    except UnicodeDecodeError as error:
        raise InputValidationError(f"is no UTF-8 text (byte {error.start + 1}).", field=CONFIG) from None
    except tomllib.TOMLDecodeError as error:
        raise InputValidationError(f"is no TOML: {error}.", field=CONFIG) from None
    except RecursionError:
        raise InputValidationError("is no TOML: it is nested too deeply.", field=CONFIG) from None


def _content(file: Path) -> bytes:
    # Opened without waiting: a pipe would be waited for until somebody writes into it.
    fd = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise InputValidationError("is no regular file.", field=CONFIG)
        with os.fdopen(fd, "rb", closefd=False) as opened:
            content = opened.read(MAX_BYTES + 1)
    finally:
        os.close(fd)
    if len(content) > MAX_BYTES:
        raise InputValidationError(f"is larger than {MAX_BYTES:,} bytes.", field=CONFIG)
    return content


# -- one entry ---------------------------------------------------------------------------------------------------------


def _model(file: Path, id: str, entry: Any) -> ConfiguredModel:
    where = f"models.{_shown(id)}"
    if not id.strip() or not id.isprintable():
        raise _wrong(where, "the id must be a name")
    if not isinstance(entry, dict):
        raise _wrong(where, f"must be a table: [{where}]")
    given = cast("dict[str, Any]", entry)
    if "api_key" in given:
        raise _wrong(
            f"{where}.api_key",
            "a key has no place in a file; put it into a variable of the environment and name that: "
            'api_key_env = "MY_KEY"',
        )
    _check_names(where, given, (*_FIELDS, "attributes"))
    for name, (right, wanted) in _FIELDS.items():
        if name in given and not right(given[name]):
            raise _wrong(f"{where}.{name}", f"must be {wanted}")
    if "provider" not in given:
        raise _wrong(f"{where}.provider", "missing; anthropic, openai, demo, or a name of your own with base_url")
    attributes = _attributes(f"{where}.attributes", given.pop("attributes", None))
    _check_endpoint(where, given)
    return ConfiguredModel(id=id, file=file, **given, attributes=attributes)


def _attributes(where: str, given: Any) -> AgentModelAttributes | None:
    """TOML has no null: a level that the model does not have is ``false``."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise _wrong(where, "must be a table")
    from agent_nodes.model_attributes import model_attributes_of

    declared = dict(cast("dict[str, Any]", given))
    levels = declared.get("thinking_level_map")
    if isinstance(levels, dict):
        pairs = cast("dict[str, Any]", levels).items()
        declared["thinking_level_map"] = {level: None if value is False else value for level, value in pairs}
    return model_attributes_of(declared, where=where)


def _check_endpoint(where: str, given: Mapping[str, Any]) -> None:
    """What the options would say, said here with the entry's name."""
    names = ("provider", "model", "base_url", "api_kind", "context_window", "max_tokens")
    try:
        catalog.resolve(**{name: given.get(name) for name in names}, environ={})
    except InputValidationError as error:
        raise InputValidationError(f"{where}.{error.message}", field=f"{where}.{error.field}") from None


def _text(value: Any) -> bool:
    return type(value) is str and bool(value.strip()) and value.isprintable()


def _count(value: Any) -> bool:
    return type(value) is int and 0 < value <= 1_000_000_000


_EFFORTS = get_args(AgentEffort)
# A key is seldom written like the name of a variable, and is then not shown in what is said about the variable.
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,99}")

_FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "provider": (_text, "a name"),
    "model": (_text, "the model's id"),
    "base_url": (_text, "an address"),
    "api_kind": (_text, f"one of {', '.join(catalog.API_KINDS)}"),
    "api_key_env": (
        lambda value: type(value) is str and _VARIABLE.fullmatch(value) is not None,
        "the name of a variable in capital letters, such as MY_KEY, and never the key itself",
    ),
    "effort": (lambda value: type(value) is str and value in _EFFORTS, f"one of {', '.join(filter(None, _EFFORTS))}"),
    "context_window": (_count, "a whole number of tokens above 0"),
    "max_tokens": (_count, "a whole number of tokens above 0"),
}


def _check_names(where: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            from difflib import get_close_matches

            snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower().replace("-", "_")
            close = get_close_matches(snake, known, 1)
            path = f"{where}.{_shown(name)}" if where else _shown(name)
            raise _wrong(path, f"unknown; did you mean {close[0]}?" if close else f"unknown; known: {', '.join(known)}")


def _shown(name: str) -> str:
    return name if re.fullmatch(r"[\w-]{1,60}", name) else repr(name[:60])


def _wrong(field: str, text: str) -> InputValidationError:
    return InputValidationError(f"{field}: {text}", field=field)
