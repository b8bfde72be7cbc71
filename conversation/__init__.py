"""Conversations on top of the runtime: the host that drives turns and the command line.

Names load when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conversation.host import ConversationHost as ConversationHost
    from conversation.host import ConversationRun as ConversationRun
    from conversation.host import list_sessions as list_sessions
    from conversation.host import read_session as read_session

__all__ = ["ConversationHost", "ConversationRun", "list_sessions", "read_session"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'conversation' has no attribute {name!r}")
    from conversation import host

    return getattr(host, name)
