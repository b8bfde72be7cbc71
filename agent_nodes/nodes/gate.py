"""A door that lets in a few at a time, first come first served, wherever they come from: any event loop, any thread."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Ticket:
    """One who waits at a gate, or is ``inside``. ``called`` is set, on its own loop, once it is."""

    __slots__ = ("called", "inside", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.called = asyncio.Event()
        self.inside = False

    def call(self) -> None:
        try:
            self.loop.call_soon_threadsafe(self.called.set)
        except RuntimeError:  # the loop is closed: nobody waits there any more
            return
        self.inside = True


class Gate:
    """Made for ``limit`` at a time. Whoever arrives must leave, also one who was never called."""

    def __init__(self, limit: int = 1) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._inside: set[Ticket] = set()
        self._waiting: deque[Ticket] = deque()

    @property
    def empty(self) -> bool:
        return not self._inside and not self._waiting

    def arrive(self) -> Ticket:
        """A ticket of the running loop, inside at once where there is room."""
        ticket = Ticket()
        with self._lock:
            self._inside = {each for each in self._inside if not each.loop.is_closed()}
            self._waiting.append(ticket)
            self._fill()
        return ticket

    def leave(self, ticket: Ticket) -> None:
        with self._lock:
            ticket.inside = False
            self._inside.discard(ticket)
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._inside) < self.limit:
            ticket = self._waiting.popleft()
            ticket.call()
            if ticket.inside:
                self._inside.add(ticket)

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None]:
        """One of the places inside, waited for as long as it takes."""
        ticket = self.arrive()
        try:
            if not ticket.inside:
                await ticket.called.wait()
            yield
        finally:
            self.leave(ticket)
