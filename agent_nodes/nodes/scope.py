"""What whoever runs a graph of nodes tells all nodes in it: whose conversation it is, under which request, who listens.

It travels beside the values that nodes hand each other, in the context of the call, so that no live object becomes a
parameter of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from agent_nodes.providers.registry import ModelRegistry
    from agent_nodes.tools.policy import ToolPermissionDefinition


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person said to the whole graph, which its agents may get in other words; ``images`` is how many came
    along."""

    prompt: str
    images: int = 0


@dataclass(frozen=True, slots=True)
class Scope:
    """``request_id`` names the run: each node of a graph runs once in it. ``reopen`` lets what failed or was stopped in
    it go on. ``host``, called with an agent's name, is who hears what it does, besides a host of its own.
    ``on_session`` hears the id of each session that is opened. ``on_busy`` stands in place of what the agents do while
    somebody else has their session.

    For agents that have none of their own: ``models``, a registry beside their own; ``provider``, who answers where
    nothing names one; ``tools``, which are declared.
    """

    project: str
    conversation_id: str
    request_id: str
    reopen: bool = False
    asked: Asked | None = None
    host: Callable[[str], Any] | None = None
    on_session: Callable[[str], object] | None = None
    on_busy: Literal["wait", "skip", "refuse"] | None = None
    models: ModelRegistry | None = None
    provider: str | None = None
    tools: Sequence[ToolPermissionDefinition] | None = None


_current: ContextVar[Scope | None] = ContextVar("agent_nodes_scope", default=None)


def current_scope() -> Scope | None:
    return _current.get()


@contextmanager
def scoped(scope: Scope) -> Generator[None]:
    """Calls of nodes in the block, and in tasks started in it, run in ``scope``."""
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)
