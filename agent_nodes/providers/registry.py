"""Models that a program describes itself, for as many agents as it opens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any, cast, get_args

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import MAX_TOKENS, ApiKind, EffortLevel, is_text, is_token_count
from agent_nodes.providers.address import checked_address
from agent_nodes.providers.base import ModelCost, ModelEntry, ThinkingStyle

_OFFICIAL = ("anthropic", "openai")


class ModelRegistry:
    """Entries by provider and model; a later one takes the place of an earlier one of the same names.

    An agent that is given the registry finds its provider and model here before it looks at the built-in list; what an
    entry leaves open comes from there. An entry of a provider of your own brings the address along, and may have a key
    of its own, which is sent to that address alone.
    """

    def __init__(self, *entries: ModelEntry) -> None:
        self._entries: dict[tuple[str, str], ModelEntry] = {}
        self._keys: dict[tuple[str, str], str] = {}
        for entry in entries:
            self.register(entry)

    def register(self, entry: ModelEntry, *, api_key: str | None = None) -> None:
        """Raises :class:`InputValidationError` naming the field of ``entry`` that is wrong."""
        check_entry(entry)
        name = (entry.provider, entry.model)
        self._entries[name] = entry
        self._keys.pop(name, None)
        if api_key:
            self._keys[name] = api_key

    def copy(self) -> ModelRegistry:
        """Another one with the same entries and keys."""
        made = ModelRegistry()
        made._entries, made._keys = dict(self._entries), dict(self._keys)
        return made

    def get(self, provider: str, model: str) -> ModelEntry | None:
        return self._entries.get((provider, model))

    def key_of(self, entry: ModelEntry) -> str | None:
        """The key that was registered with an entry of these names, for its own address alone."""
        known = self.get(entry.provider, entry.model)
        same = known is not None and known.base_url.rstrip("/") in (entry.base_url, f"{entry.base_url}/v1")
        return self._keys.get((entry.provider, entry.model)) if same else None

    def joined(self, other: ModelRegistry) -> ModelRegistry:
        """The entries of both with their keys; of two with the same names this one's."""
        out = ModelRegistry()
        out._entries = other._entries | self._entries
        out._keys = {name: key for name, key in other._keys.items() if name not in self._entries} | self._keys
        return out

    def __iter__(self) -> Iterator[ModelEntry]:
        """In the order in which they were registered first."""
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)


def check_entry(entry: Any, *, where: str = "model entry") -> ModelEntry:
    """``entry``, where it is a model that can be asked; :class:`InputValidationError` names the field that is wrong."""
    if not isinstance(entry, ModelEntry):
        raise InputValidationError(f"{where}: expected a ModelEntry, got {type(entry).__name__}", field=where)
    for field, (right, wanted) in _FIELDS.items():
        if not right(getattr(entry, field)):
            raise InputValidationError(f"{where}: {field}: must be {wanted}", field=field)
    if entry.provider == "demo":
        raise InputValidationError(
            f"{where}: provider: demo is the scripted model; take a name of your own", field="provider"
        )
    if entry.base_url or entry.provider not in _OFFICIAL:
        checked_address(entry.base_url, cast("ApiKind", entry.api), f"{where}: base_url")
    return entry


def _name(value: Any) -> bool:
    return is_text(value) and bool(value.strip()) and value.isprintable()


def _count(value: Any) -> bool:
    return value is None or is_token_count(value)


def _flag(value: Any) -> bool:
    return type(value) is bool


def _cost(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, ModelCost):
        return False
    prices: tuple[Any, ...] = (value.input, value.output, value.cache_read, value.cache_write)
    return all(type(price) in (int, float) and isfinite(price) and price >= 0 for price in prices)


def _levels(value: Any) -> bool:
    if not isinstance(value, tuple):
        return False
    known = get_args(EffortLevel)
    for pair in cast("tuple[Any, ...]", value):
        if not (isinstance(pair, tuple) and len(cast("tuple[Any, ...]", pair)) == 2):
            return False
        level, sent = cast("tuple[Any, Any]", pair)
        if level not in known or not (sent is None or _name(sent)):
            return False
    return True


_FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "provider": (_name, "a name"),
    "model": (_name, "the model's id"),
    "api": (lambda value: value in get_args(ApiKind), f"one of {', '.join(get_args(ApiKind))}"),
    "base_url": (lambda value: type(value) is str, "an address, or empty for anthropic and openai"),
    "context_window": (_count, f"a whole number from 1 to {MAX_TOKENS:,}, or None"),
    "max_tokens": (_count, f"a whole number from 1 to {MAX_TOKENS:,}, or None"),
    "images": (_flag, "True or False"),
    "reasoning": (_flag, "True or False"),
    "name": (lambda value: type(value) is str and len(value) <= 200, "text of at most 200 characters"),
    "cost": (_cost, "a ModelCost of four numbers that are not negative, or None"),
    "thinking": (
        lambda value: value is None or value in get_args(ThinkingStyle),
        f"one of {', '.join(get_args(ThinkingStyle))}, or None",
    ),
    "levels": (_levels, f"pairs of a level ({', '.join(get_args(EffortLevel))}) and the value sent, or None for none"),
    "web_search": (lambda value: value is None or _flag(value), "True, False or None"),
}
