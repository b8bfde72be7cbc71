"""Addresses of services, checked and in the form that the wire wants."""

from __future__ import annotations

from urllib.parse import urlsplit

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import ApiKind


def checked_address(base_url: str, api: ApiKind, where: str) -> str:
    """``base_url`` without what the protocol's paths begin with: the Messages path brings /v1 by itself.

    Raises :class:`InputValidationError`, which names ``where``, the option or variable that it came from.
    """
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
