"""Whether the environment names credentials for Anthropic that are no plain key; only the official client serves those.

The order is the official client's own: a key comes first, then a token, a profile by name, a workload's identity, and
the profile on disk that is active.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def other_credentials(environ: Mapping[str, str]) -> bool:
    """Whether ``environ`` holds no ``ANTHROPIC_API_KEY`` but a token, a profile or a workload's identity."""
    if environ.get("ANTHROPIC_API_KEY", "").strip():
        return False
    return credentials_named(environ) or _has_profile(environ)


def credentials_named(environ: Mapping[str, str]) -> bool:
    """Whether variables of ``environ`` say themselves which they are; a profile that merely lies on the disk does
    not."""
    named = environ.get("ANTHROPIC_AUTH_TOKEN") or environ.get("ANTHROPIC_PROFILE")
    return bool(named) or _has_identity(environ)


def _has_identity(environ: Mapping[str, str]) -> bool:
    rule, organization = environ.get("ANTHROPIC_FEDERATION_RULE_ID"), environ.get("ANTHROPIC_ORGANIZATION_ID")
    token = environ.get("ANTHROPIC_IDENTITY_TOKEN") or environ.get("ANTHROPIC_IDENTITY_TOKEN_FILE")
    return bool(rule and organization and token)


def _has_profile(environ: Mapping[str, str]) -> bool:
    """An active profile whose file is missing counts: the client says so better than a missing key would."""
    folder = _folder(environ)
    if folder is None:
        return False
    try:
        if (folder / "configs" / "default.json").is_file():
            return True
        pointer = folder / "active_config"
        return pointer.is_file() and bool(pointer.read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError):  # not ours to read
        return False


def _folder(environ: Mapping[str, str]) -> Path | None:
    if given := environ.get("ANTHROPIC_CONFIG_DIR"):
        return Path(given)
    windows = sys.platform == "win32"
    home = environ.get("APPDATA" if windows else "HOME")
    if not home:
        return None
    return Path(home) / "Anthropic" if windows else Path(home) / ".config" / "anthropic"
