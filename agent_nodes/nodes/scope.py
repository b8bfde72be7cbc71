"""What whoever runs a graph of nodes tells all nodes in it: whose conversation it is, under which request, who listens.

It travels beside the values that nodes hand each other, in the context of the call, so that no live object becomes a
parameter of a task.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Scope:
    """``request_id`` names the run: each node of a graph runs once in it. ``host`` hears what happens, besides the
    host that a node has of its own."""

    project: str
    conversation_id: str
    request_id: str
    host: Any = None
    models: Any = None
    """A registry of models for agents that have none of their own."""


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
