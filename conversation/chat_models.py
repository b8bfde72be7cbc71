"""Which model the next turns of a conversation go to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_nodes.errors import InputValidationError
from agent_nodes.providers import catalog
from agent_nodes.providers.demo import DEMO_MODELS
from agent_nodes.providers.known import listed
from conversation.opening import DEMO, KEYS, Opening
from conversation.problems import KEY_VARIABLES
from conversation.workspace import ConfiguredModel, load_models, options_of

# What stands in an input, and on a command line, for the model. Of another model nothing of it holds.
FIELDS = ("provider", "model", "base_url", "api_kind", "model_attributes", "context_window", "max_tokens")


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """``fields`` of the input lead to the model, ``flags`` of the command line do so in another process."""

    id: str
    provider: str
    fields: Mapping[str, Any]
    flags: Mapping[str, Any]


def choose(opening: Opening, id: str) -> ChosenModel:
    """The model that ``id`` means: an entry of ``agent-nodes.toml``, else a model of the provider that answers now, or
    of the other official one where it is known as that one's.

    Raises ``InputValidationError`` for one that cannot be had.
    """
    if any(character.isspace() for character in id):
        raise InputValidationError(f"/model: {id!r} is no id of a model: it holds a blank.")
    entry = next((entry for entry in load_models(Path.cwd()) if entry.id == id), None)
    if entry is not None:
        return _configured(opening, entry)
    now = opening.host.runtime.harness.engine.config.base.model
    maker = next((maker for maker, known, _ in listed() if known == id), now.provider)
    if now.provider not in (*KEYS, DEMO) or maker not in KEYS or maker == now.provider:
        catalog.resolve(
            provider=now.provider, model=id, base_url=now.base_url or None, api_kind=None,
            context_window=None, max_tokens=None, environ={},
        )  # fmt: skip
        return ChosenModel(id, now.provider, {"model": id}, {"model": id})
    if not os.environ.get(KEYS[maker], "").strip():
        raise InputValidationError(f"/model: {id!r} is a model of {maker}, which needs a key: set {KEYS[maker]}.")
    fields = {"provider": maker, "model": id}
    return ChosenModel(id, maker, fields, {**dict.fromkeys(FIELDS), **fields})


def model_ids(opening: Opening) -> list[str]:
    """Those that can be chosen by a short word: configured ones first, then what is known of the provider's own."""
    provider = opening.host.model[0]
    own = [*DEMO_MODELS] if provider == DEMO else [id for maker, id, _ in listed() if maker == provider]
    return list(dict.fromkeys([*(entry.id for entry in load_models(Path.cwd())), *own]))


def _configured(opening: Opening, entry: ConfiguredModel) -> ChosenModel:
    if _needs_its_key(opening, entry):
        raise InputValidationError(
            f"/model: {entry.id} has a key of its own, which a conversation takes when it begins. Leave, and come back "
            f"with: {opening.again('chat', **_flags(entry.id))}"
        )
    options = options_of(entry, os.environ)
    fields = {name: value for name, value in options.items() if name in (*FIELDS, "effort")}
    return ChosenModel(entry.id, entry.provider, fields, _flags(entry.id))


def _needs_its_key(opening: Opening, entry: ConfiguredModel) -> bool:
    """Whether its key is another than this conversation has."""
    variable, now = entry.api_key_env, opening.configured
    if variable is None or (now is not None and (now.api_key_env, now.base_url) == (variable, entry.base_url)):
        return False
    return entry.base_url is not None or variable not in KEY_VARIABLES or KEYS.get(entry.provider) != variable


def _flags(id: str) -> dict[str, Any]:
    return {**dict.fromkeys(FIELDS), "model": id}
