"""The tries of one request: the corrections it goes out with, which of them helped, the error told in the end."""

from __future__ import annotations

from dataclasses import replace

from agent_nodes.messages import JsonObject
from agent_nodes.providers.base import Failure, ModelRequest
from agent_nodes.providers.corrections import MOST_FIXES, Fix, Memory, correction
from agent_nodes.providers.payload import Draft


class Attempts:
    """``origin`` is the service's address; what helps there is kept in ``memory``."""

    def __init__(self, request: ModelRequest, origin: str, memory: Memory) -> None:
        self._prefix = request.prefix
        self._unsealed = request.prefix.unsealed
        self._messages = len(request.messages)
        self._place = (origin, request.model.model)
        self._memory = memory
        self._fixes: dict[str, Fix] = {}
        self._complaints: dict[str, Failure] = {}
        self._latest: Fix | None = None

    def amended(self, draft: Draft) -> Draft:
        """``draft`` as it goes out."""
        head = draft.head
        # The kind of thinking first: its budget comes from a level that another correction may take out.
        fixes = (*self._memory.fixes(*self._place), *self._fixes.values())
        for fix in sorted(fixes, key=lambda fix: fix.field != "thinking.type"):
            head = fix.apply(head)
        return replace(draft, head=head)

    def correct(self, failure: Failure, head: JsonObject) -> Failure | None:
        """The error to tell after the service refused ``head``; None where the request is to go out again, changed."""
        fix = correction(failure, head, self._fixes.keys())
        if fix is None and failure.kind != "invalid":
            return failure
        if self._latest is not None and (fix is None or fix.field != self._latest.field):
            self.helped()
        if fix is None or len(self._fixes) == MOST_FIXES:
            return failure
        if fix.field in self._fixes:  # the same again: what was changed did not help
            if fix.unseal:
                self._prefix.unsealed = self._unsealed
            return self._complaints[fix.field]
        if fix.unseal and self._unsealed < self._messages:
            self._prefix.unsealed = self._messages
        elif fix.apply(head) == head:
            return failure
        self._fixes[fix.field], self._complaints[fix.field], self._latest = fix, failure, fix
        return None

    def helped(self) -> None:
        """The service took what was corrected last, or found another fault."""
        if self._latest is not None and self._latest.kept:
            self._memory.keep(*self._place, self._latest)
        self._latest = None
