"""What the decoders of the three protocols share: text repaired delta by delta, without losing what was cut in two."""

from __future__ import annotations

from agent_nodes.messages import JsonObject
from agent_nodes.providers.base import Failed, ModelEvent
from agent_nodes.providers.failures import error_failure
from agent_nodes.providers.payload import BROKEN, joined_pairs
from agent_nodes.providers.sse import loads


class BaseDecoder:
    """One response, from payloads to model events; ``done`` with its terminal event.

    ``feed`` and ``whole`` raise ``ValueError``, ``KeyError``, ``TypeError``, ``AttributeError`` or ``IndexError`` on
    what cannot be read.
    """

    def __init__(self) -> None:
        self.done = False
        self._halves: dict[int, str] = {}

    def feed(self, payload: bytes, out: list[ModelEvent]) -> None:
        """Append the events of one payload."""
        self.event(loads(payload), out)

    def event(self, event: JsonObject, out: list[ModelEvent]) -> None:
        """Append the events of one parsed payload."""
        raise NotImplementedError

    def fail(self, error: JsonObject, out: list[ModelEvent]) -> None:
        """The service reports an error in place of the rest of the response."""
        self.done = True
        out.append(Failed(error_failure(error)))

    def clean(self, index: int, text: str) -> str:
        """A delta of block ``index`` as it may be shown and stored.

        Half a surrogate pair at its end waits for the next delta of the block: some services cut between the two.
        """
        if not self._halves and BROKEN.search(text) is None:
            return text
        text = self._halves.pop(index, "") + text
        if "\ud800" <= text[-1:] <= "\udbff":
            self._halves[index] = text[-1]
            text = text[:-1]
        return joined_pairs(text)

    def rest(self, index: int) -> str:
        """What :meth:`clean` still holds of a block that ends: U+FFFD for half a pair, else nothing."""
        return "�" if self._halves and self._halves.pop(index, "") else ""
