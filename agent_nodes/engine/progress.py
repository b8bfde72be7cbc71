"""Streamed pieces on their way to disk: shown at once, committed at most 50 ms later, one batch in flight.

A batch is one row per run of deltas of the same block. What is still pending when the response ends well is dropped,
since its entry holds it all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import groupby

from agent_nodes._clock import Timer
from agent_nodes.engine.core import Engine
from agent_nodes.events import TextDelta, ThinkingDelta
from agent_nodes.store.line import Tx
from agent_nodes.store.writes import add_progress

BATCH_SECONDS = 0.05


class Progress:
    """``stored`` says whether the stream has rows, so that the outcome knows to remove them.

    ``output`` marks the pieces as a tool's output instead of what their type says.
    """

    def __init__(self, engine: Engine, stream: str, *, output: bool = False) -> None:
        self._output = output
        self._engine = engine
        self._stream = stream
        self._pending: list[TextDelta | ThinkingDelta] = []
        self._timer: Timer | None = None
        self._flight: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._n = 0

    @property
    def stored(self) -> bool:
        return self._n > 0

    def add(self, deltas: Sequence[TextDelta | ThinkingDelta]) -> None:
        """Raises what an earlier batch failed with: no answer goes on that can not be kept."""
        if self._error is not None:
            raise self._error
        self._pending.extend(deltas)
        if self._timer is None and self._flight is None:
            self._timer = self._engine.clock.call_later(BATCH_SECONDS, self._flush)

    def drop(self) -> None:
        """The response is whole: nothing more to write here."""
        self._pending.clear()
        self._stop_timer()

    async def finish(self) -> None:
        """Write everything that is still pending."""
        self._stop_timer()
        while self._flight is not None or self._pending:
            if self._flight is None:
                self._flush()
            flight = self._flight
            if flight is not None:
                await asyncio.wait([flight])
        if self._error is not None:
            raise self._error

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _flush(self) -> None:
        self._timer = None
        if self._pending:
            self._flight = self._engine.scheduler.spawn(self._write())

    async def _write(self) -> None:
        # Taken only now, in the step that also queues the commit: what was dropped meanwhile must not follow its entry.
        deltas, self._pending = self._pending, []
        if not deltas:
            self._flight = None
            return
        rows: list[tuple[int, int, str, str]] = []
        for (kind, index), run in groupby(deltas, lambda delta: (delta.type, delta.index)):
            self._n += 1
            kind_word = "output" if self._output else "text" if kind == "text_delta" else "thinking"
            rows.append((self._n, index, kind_word, "".join([delta.delta for delta in run])))

        def write(tx: Tx) -> None:
            for n, block, kind, delta in rows:
                add_progress(tx, self._stream, n, block=block, kind=kind, delta=delta)

        try:
            await self._engine.commit("progress", write, durable=False)
        except Exception as error:
            self._error = error
            self._pending.clear()
        self._flight = None
        if self._pending and self._timer is None:
            self._timer = self._engine.clock.call_later(BATCH_SECONDS, self._flush)
