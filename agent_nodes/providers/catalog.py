"""Which model at which endpoint: the known models, the defaults of the providers, and keys.

Figures are those the services publish (end of 2026). ``window`` is what one request may hold; where a service counts
its input limit apart from the output, it is that limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args
from urllib.parse import urlsplit

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import ApiKind
from agent_nodes.providers.base import ModelEntry

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


@dataclass(frozen=True, slots=True)
class KnownModel:
    """``output`` is how many tokens are asked for where the protocol demands a number: the model's limit, or less on
    models that refuse a request whose input and output limit together exceed the window."""

    window: int
    output: int | None = None
    images: bool = True
    reasoning: bool = True


# By the beginning of the id, the longest that fits. Rows of a whole family are guesses for ids that came later.
_MODELS: Mapping[str, KnownModel] = {
    "claude-fable-5": KnownModel(1_000_000, 128_000),
    "claude-mythos-5": KnownModel(1_000_000, 128_000),
    "claude-opus-5": KnownModel(1_000_000, 128_000),
    "claude-sonnet-5": KnownModel(1_000_000, 128_000),
    "claude-haiku-5": KnownModel(1_000_000, 128_000),
    "claude-opus-4-8": KnownModel(1_000_000, 128_000),
    "claude-opus-4-7": KnownModel(1_000_000, 128_000),
    "claude-opus-4-6": KnownModel(1_000_000, 128_000),
    "claude-sonnet-4-6": KnownModel(1_000_000, 128_000),
    "claude-opus-4-5": KnownModel(200_000, 32_000),
    "claude-sonnet-4-5": KnownModel(200_000, 32_000),
    "claude-haiku-4-5": KnownModel(200_000, 32_000),
    "claude-3": KnownModel(200_000, 4_096, reasoning=False),
    "claude-": KnownModel(200_000, 32_000),
    "gpt-6": KnownModel(922_000, 128_000),
    "gpt-5.6": KnownModel(922_000, 128_000),
    "gpt-5.5": KnownModel(922_000, 128_000),
    "gpt-5.4": KnownModel(922_000, 128_000),
    "gpt-5.4-mini": KnownModel(272_000, 128_000),
    "gpt-5.4-nano": KnownModel(272_000, 128_000),
    "gpt-5": KnownModel(272_000, 128_000),
    "gpt-4.1": KnownModel(1_000_000, 32_000, reasoning=False),
    "gpt-4o": KnownModel(128_000, 16_000, reasoning=False),
    "gpt-4": KnownModel(128_000, reasoning=False),
    "gpt-oss": KnownModel(131_072, images=False),
    "gpt-": KnownModel(128_000),
    "o1": KnownModel(200_000, 100_000),
    "o3": KnownModel(200_000, 100_000),
    "o4-mini": KnownModel(200_000, 100_000),
    "gemini-": KnownModel(1_000_000),
    "deepseek": KnownModel(128_000, images=False),
    "devstral": KnownModel(128_000),
    "gemma": KnownModel(128_000),
    "glm-": KnownModel(128_000),
    "grok-": KnownModel(256_000),
    "kimi-": KnownModel(256_000),
    "llama": KnownModel(128_000),
    "minimax": KnownModel(200_000),
    "mistral": KnownModel(128_000),
    "qwen": KnownModel(128_000),
}
_UNKNOWN = KnownModel(0)
_HEADER_TEXT = re.compile(r"[\x21-\x7e]+")


def known(model: str) -> KnownModel | None:
    """What is published about ``model``, or guessed from how its id begins; None where nothing fits.

    A vendor in front of the id (``anthropic/…``, ``us.anthropic.…``) does not matter.
    """
    name = model.lower().rpartition("/")[2]
    name = name.partition("anthropic.")[2] or name
    prefix = max((prefix for prefix in _MODELS if name.startswith(prefix)), key=len, default=None)
    return _MODELS[prefix] if prefix is not None else None


def resolve(
    *,
    provider: str | None,
    model: str | None,
    base_url: str | None,
    api_kind: str | None,
    context_window: int | None,
    max_tokens: int | None,
    environ: Mapping[str, str],
) -> ModelEntry:
    """The model that these options mean; empty strings count as unset. ``environ`` gives the addresses of ``anthropic``
    and ``openai`` where ``base_url`` does not.

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
        return _demo(model, base_url, api_kind, context_window, max_tokens)
    service = _SERVICES.get(provider)
    api = _api(provider, api_kind, service)
    if service is not None:
        address = base_url or environ.get(service.url_variable) or service.base_url
        where = "base_url" if base_url or not environ.get(service.url_variable) else service.url_variable
    elif base_url:
        address, where = base_url, "base_url"
    else:
        raise InputValidationError(
            f"base_url: missing. The provider {provider!r} is none of {', '.join(_SERVICES)} and {DEMO}: give its "
            "address.",
            field="base_url",
        )
    name = model or (service.model if service is not None else None)
    if name is None:
        raise InputValidationError(f"model: missing. The provider {provider!r} has no default model.", field="model")
    facts = known(name) or _UNKNOWN
    # The OpenAI protocols have limits of their own; a number sent without need would count against the rate limit.
    output = facts.output if api == "anthropic-messages" else None
    return ModelEntry(
        provider,
        name,
        api,
        _address(address, api, where),
        context_window=context_window or facts.window or None,
        max_tokens=max_tokens or output,
        images=facts.images,
        reasoning=facts.reasoning,
    )


def key_for(provider: str, api_key: str | None, environ: Mapping[str, str]) -> str | None:
    """The key to send: ``api_key``, else the environment's for ``anthropic`` and ``openai``.

    None means that no key is sent, which servers on one's own machine allow. Raises :class:`InputValidationError` where
    a service needs a key and there is none, or where one could not be sent.
    """
    service = _SERVICES.get(provider)
    source, key = "api_key", api_key or ""
    if not key.strip() and service is not None:
        source, key = service.key_variable, environ.get(service.key_variable, "")
    key = key.strip()
    if not key:
        if service is None:
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


def _demo(
    model: str | None, base_url: str | None, api_kind: str | None, context_window: int | None, max_tokens: int | None
) -> ModelEntry:
    for field, value in (("base_url", base_url), ("api_kind", api_kind)):
        if value:
            raise InputValidationError(f"{field}: the provider {DEMO!r} has no endpoint; leave it out.", field=field)
    from agent_nodes.providers.demo import DEMO_MODELS

    name = model or next(iter(DEMO_MODELS))
    if name not in DEMO_MODELS:
        raise InputValidationError(
            f"model: the provider {DEMO!r} has no model {name!r}; it has {', '.join(DEMO_MODELS)}.", field="model"
        )
    return ModelEntry(DEMO, name, "demo", "", context_window, max_tokens, images=False, reasoning=False)


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


def _address(base_url: str, api: ApiKind, where: str) -> str:
    """``base_url`` as the wire wants it. The Messages path begins with /v1 by itself."""
    try:
        parts = urlsplit(base_url.strip())
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
        parts = urlsplit("")
    if not valid:
        raise InputValidationError(f"{where}: must begin with http:// or https:// and name a host.", field="base_url")
    if parts.username is not None or parts.password is not None:
        raise InputValidationError(
            f"{where}: must hold no user name or password; give the key as api_key.", field="base_url"
        )
    address = base_url.strip().rstrip("/")
    return address.removesuffix("/v1") if api == "anthropic-messages" else address
