"""Which model at which endpoint: the defaults of the providers, what is known of the model, and keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlsplit

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import ApiKind, EffortLevel
from agent_nodes.providers.address import checked_address
from agent_nodes.providers.base import ModelCost, ModelEntry
from agent_nodes.providers.credentials import other_credentials
from agent_nodes.providers.known import KnownModel, known

if TYPE_CHECKING:
    from agent_nodes.model_attributes import AgentModelAttributes
    from agent_nodes.providers.registry import ModelRegistry

API_KINDS: tuple[ApiKind, ...] = get_args(ApiKind)
DEMO = "demo"


@dataclass(frozen=True, slots=True)
class _Service:
    """An official provider: its protocols (the first is the default), its variables, address and default model."""

    apis: tuple[ApiKind, ...]
    key_variable: str
    url_variable: str
    base_url: str
    model: str


_SERVICES: Mapping[str, _Service] = {
    "anthropic": _Service(
        ("anthropic-messages",),
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "https://api.anthropic.com",
        "claude-sonnet-5-5",
    ),
    "openai": _Service(
        ("openai-responses", "openai-completions"),
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "https://api.openai.com/v1",
        "gpt-6.1-sol",
    ),
}


_UNKNOWN = KnownModel(0)
_HEADER_TEXT = re.compile(r"[\x21-\x7e]+")


def resolve(
    *,
    provider: str | None,
    model: str | None,
    base_url: str | None,
    api_kind: str | None,
    context_window: int | None,
    max_tokens: int | None,
    environ: Mapping[str, str],
    attributes: AgentModelAttributes | None = None,
    registry: ModelRegistry | None = None,
) -> ModelEntry:
    """The model that these options mean; empty strings count as unset. ``environ`` gives the addresses of ``anthropic``
    and ``openai`` where ``base_url`` does not.

    What is known of the model comes, field by field, from the first that says it: the two sizes given here,
    ``attributes``, the entry of ``registry`` for the provider and model, the built-in list, a guess.

    Raises :class:`InputValidationError` naming the option that is missing or wrong.
    """
    _check_sizes(context_window, max_tokens)
    if not provider:
        raise InputValidationError(
            "provider: no model is configured. Set provider to anthropic, openai or demo, or to a name of your own "
            "together with base_url and model.",
            field="provider",
        )
    if provider == DEMO:
        entry = _demo(model, base_url, api_kind)
    else:
        service = _SERVICES.get(provider)
        name = model or (service.model if service is not None else None)
        registered = registry.get(provider, name) if registry is not None and name is not None else None
        entry = _asked(provider, name, base_url=base_url, api_kind=api_kind, registered=registered, environ=environ)
    if attributes is not None:
        entry = _declared(entry, attributes)
    sizes = {"context_window": context_window, "max_tokens": max_tokens}
    return replace(entry, **{name: size for name, size in sizes.items() if size is not None})


def _asked(
    provider: str,
    name: str | None,
    *,
    base_url: str | None,
    api_kind: str | None,
    registered: ModelEntry | None,
    environ: Mapping[str, str],
) -> ModelEntry:
    """The model at its endpoint, as the registry and the built-in list describe it."""
    service = _SERVICES.get(provider)
    api = _api(provider, api_kind or (registered.api if registered is not None else None), service)
    own = base_url or (registered.base_url if registered is not None else None)
    if own:
        address, where = own, "base_url"
    elif service is not None:
        address = environ.get(service.url_variable) or service.base_url
        where = service.url_variable if environ.get(service.url_variable) else "base_url"
    else:
        raise InputValidationError(
            f"base_url: missing. The provider {provider!r} is none of {', '.join(_SERVICES)} and {DEMO}: give its "
            "address.",
            field="base_url",
        )
    if name is None:
        raise InputValidationError(f"model: missing. The provider {provider!r} has no default model.", field="model")
    address = checked_address(address, api, where)
    official = service is not None and address == service.base_url
    entry = _described(provider, name, api, address, official=official)
    return entry if registered is None else _registered(entry, registered)


def _described(provider: str, name: str, api: ApiKind, address: str, *, official: bool) -> ModelEntry:
    """What the built-in list says. How a model is told to think is known for its maker's own protocol alone, and
    whether it can search only for its maker's own endpoint."""
    facts = known(name) or _UNKNOWN
    native = (facts.thinking == "effort") == (api != "anthropic-messages")
    return ModelEntry(
        provider,
        name,
        api,
        address,
        context_window=facts.window or None,
        # The OpenAI protocols have limits of their own; a number sent without need would count against the rate limit.
        max_tokens=facts.asked if api == "anthropic-messages" else None,
        images=facts.images,
        reasoning=facts.reasoning,
        name=facts.name,
        cost=facts.cost_at(urlsplit(address).hostname or ""),
        thinking=facts.thinking if native else None,
        levels=facts.levels if native else (),
        web_search=facts.web_search if official else None,
    )


def _registered(entry: ModelEntry, given: ModelEntry) -> ModelEntry:
    """``entry`` with all that ``given`` says; what it leaves open stays."""
    return replace(
        entry,
        context_window=given.context_window or entry.context_window,
        max_tokens=given.max_tokens or entry.max_tokens,
        images=given.images,
        reasoning=given.reasoning,
        name=given.name or entry.name,
        cost=given.cost if given.cost is not None else entry.cost,
        thinking=given.thinking or entry.thinking,
        levels=_merged(entry, given.levels),
        web_search=given.web_search if given.web_search is not None else entry.web_search,
    )


def _declared(entry: ModelEntry, attributes: AgentModelAttributes) -> ModelEntry:
    """``entry`` with what ``attributes`` declare. They may be unchecked; a field that is not there declares nothing."""

    def declared(name: str) -> Any:
        return getattr(attributes, name, None)

    found: dict[str, Any] = {
        name: declared(name)
        for name in ("name", "reasoning", "web_search", "context_window", "max_tokens")
        if declared(name) not in (None, "")
    }
    if declared("input") is not None:
        found["images"] = "image" in declared("input")
    if declared("cost") is not None:
        found["cost"] = _cost(declared("cost"))
    if declared("thinking_level_map") is not None:
        found["levels"] = _merged(entry, tuple(declared("thinking_level_map").items()))
    return replace(entry, **found)


def _cost(value: Any) -> ModelCost:
    if isinstance(value, ModelCost):
        return value
    return ModelCost(**{item.name: value[item.name] for item in fields(ModelCost) if item.name in value})


def _merged(
    entry: ModelEntry, levels: tuple[tuple[EffortLevel, str | None], ...]
) -> tuple[tuple[EffortLevel, str | None], ...]:
    return tuple((dict(entry.levels) | dict(levels)).items())


def key_for(provider: str, api_key: str | None, environ: Mapping[str, str]) -> str | None:
    """The key to send: ``api_key``, else the environment's for ``anthropic`` and ``openai``.

    None means that no key is sent, which servers on one's own machine allow, or that the environment names credentials
    of another kind. Raises :class:`InputValidationError` where
    a service needs a key and there is none, or where one could not be sent.
    """
    service = _SERVICES.get(provider)
    source, key = "api_key", api_key or ""
    if not key.strip() and service is not None:
        source, key = service.key_variable, environ.get(service.key_variable, "")
    key = key.strip()
    if not key:
        if service is None or (provider == "anthropic" and other_credentials(environ)):
            return None
        raise InputValidationError(
            f"api_key: the provider {provider!r} needs a key. Set {service.key_variable}, or give api_key.",
            field="api_key",
        )
    if not _HEADER_TEXT.fullmatch(key):
        raise InputValidationError(
            f"{source}: the key holds blanks or letters outside ASCII and cannot be sent. Copy it again.",
            field="api_key",
        )
    return key


def _check_sizes(context_window: int | None, max_tokens: int | None) -> None:
    for field, value in (("context_window", context_window), ("max_tokens", max_tokens)):
        if value is not None and value < 1:
            raise InputValidationError(f"{field}: must be at least 1, got {value}.", field=field)


def _demo(model: str | None, base_url: str | None, api_kind: str | None) -> ModelEntry:
    for field, value in (("base_url", base_url), ("api_kind", api_kind)):
        if value:
            raise InputValidationError(f"{field}: the provider {DEMO!r} has no endpoint; leave it out.", field=field)
    from agent_nodes.providers.demo import DEMO_MODELS

    name = model or next(iter(DEMO_MODELS))
    if name not in DEMO_MODELS:
        raise InputValidationError(
            f"model: the provider {DEMO!r} has no model {name!r}; it has {', '.join(DEMO_MODELS)}.", field="model"
        )
    return ModelEntry(DEMO, name, "demo", "", images=False, reasoning=False)


def _api(provider: str, api_kind: str | None, service: _Service | None) -> ApiKind:
    if not api_kind:
        return service.apis[0] if service is not None else "openai-completions"
    if api_kind not in API_KINDS:
        raise InputValidationError(f"api_kind: {api_kind!r} is none of {', '.join(API_KINDS)}.", field="api_kind")
    if service is not None and api_kind not in service.apis:
        raise InputValidationError(
            f"api_kind: the provider {provider!r} speaks {' and '.join(service.apis)}, not {api_kind}. For another "
            "endpoint give provider a name of your own.",
            field="api_kind",
        )
    return api_kind
