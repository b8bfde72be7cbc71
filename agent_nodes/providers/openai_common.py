"""What the two OpenAI protocols share."""

from __future__ import annotations

import re
from hashlib import blake2b

from agent_nodes.providers.base import ModelEntry

OFFICIAL = "openai"
"""The provider whose own service takes fields that servers resembling it may refuse."""

_CACHE_KEY_LIMIT = 64
_NEWER = re.compile(r"(?:.*/)?(gpt-[5-9]|o\d)")


def headers(key: str | None, entry: ModelEntry) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def newer(entry: ModelEntry) -> bool:
    """Whether the model is one of OpenAI's newer ones, wherever it is served, which know fields that others refuse."""
    return entry.provider == OFFICIAL or _NEWER.match(entry.model) is not None


def cache_key(key: str) -> str:
    """``key`` in the length the service takes."""
    return key if len(key) <= _CACHE_KEY_LIMIT else blake2b(key.encode("utf-8", "replace"), digest_size=32).hexdigest()
