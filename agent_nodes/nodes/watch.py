"""Who looks on while a node's turn runs, without a say in it: what a Prefect run shows comes from here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agent_nodes.errors import SessionBusy
from agent_nodes.events import AgentStreamEvent
from agent_nodes.host import UsageReport
from agent_nodes.submission import AgentOutputPayload, SessionRef


class Watch(Protocol):
    """Called on the node's loop in this order; each is quick and raises nothing."""

    def begins(self, request_id: str, session: SessionRef | None) -> None: ...

    def waits(self, busy: SessionBusy) -> None:
        """Somebody else has the session."""
        ...

    def runs(self, model: str) -> None:
        """The session is open; the turn's model is the one of that name, unless its input named another."""
        ...

    def event(self, event: AgentStreamEvent) -> None: ...

    def usage(self, report: UsageReport) -> None: ...

    def ends(self, payload: AgentOutputPayload, secrets: Sequence[str], *, replayed: bool) -> None:
        """``secrets`` are the keys that were used; they belong into nothing that is shown. ``replayed``: the turn had
        ended before, and this is what was stored of it."""
        ...

    def breaks_off(self, error: BaseException, secrets: Sequence[str]) -> None:
        """The turn was not made, or stays as it is and can be gone on with."""
        ...
