"""Which tool call a streamed piece belongs to, on servers that number their calls wrongly or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from agent_nodes.messages import JsonObject
from agent_nodes.providers.history import unique
from agent_nodes.providers.payload import as_object, as_text, dumps, parse_arguments


@dataclass(frozen=True, slots=True)
class CallParts:
    """One delta of a call; "" and None stand for what it does not say."""

    index: int | None
    id: str
    name: str
    arguments: str
    extras: JsonObject

    @classmethod
    def of(cls, delta: JsonObject) -> CallParts:
        function = as_object(delta.get("function"))
        index, arguments = delta.get("index"), function.get("arguments")
        if not isinstance(arguments, str):
            arguments = dumps(arguments).decode() if arguments else ""
        extras = {
            name: value
            for name, value in delta.items()
            if name not in {"index", "id", "type", "function"} and value is not None
        }
        index = index if isinstance(index, int) else None
        return cls(index, as_text(delta.get("id")), as_text(function.get("name")), arguments, extras)


@dataclass(slots=True)
class Call:
    """A call under construction; ``number`` counts from 0 in the order of arrival."""

    number: int
    id: str
    name: str
    arguments: list[str] = field(default_factory=list[str])
    extras: JsonObject = field(default_factory=dict[str, object])

    @property
    def complete(self) -> bool:
        """Whether the arguments so far are a JSON object."""
        text = "".join(self.arguments)
        return bool(text) and parse_arguments(text)[1] is None


class Placed(NamedTuple):
    started: bool
    call: Call


class Calls:
    """The calls of one response."""

    def __init__(self) -> None:
        self.all: list[Call] = []
        self._at: dict[int, Call] = {}
        self._last: Call | None = None

    def place(self, parts: CallParts) -> Placed:
        """The call that ``parts`` continue or start; all but the arguments is noted in it."""
        call = self._current(parts)
        started = call is None or self._begins(parts, call)
        if call is None or started:
            call = Call(len(self.all), parts.id, parts.name)
            self.all.append(call)
        else:
            call.id = call.id or parts.id
            # A name comes whole, again with each piece, or (rarely) itself in pieces.
            if parts.name != call.name and not call.arguments:
                call.name += parts.name
        call.extras |= parts.extras
        if parts.index is not None:
            self._at[parts.index] = call
        self._last = call
        return Placed(started, call)

    def _current(self, parts: CallParts) -> Call | None:
        if parts.index is not None:
            return self._at.get(parts.index)
        if parts.id:
            return next((call for call in self.all if call.id == parts.id), self._last)
        return self._last

    def _begins(self, parts: CallParts, call: Call) -> bool:
        """Whether ``parts`` start a call of their own though their place is taken by ``call``."""
        if parts.id and call.id:
            return parts.id != call.id
        if not parts.name:
            return False
        if parts.name != call.name and parts.index is None and call.name:
            return True
        return bool(parts.arguments) and call.complete

    @property
    def complete(self) -> bool:
        return all(call.complete or not call.arguments for call in self.all)

    def named(self) -> list[Call]:
        """The calls that can be answered, each under an id of its own; one without a name is lost."""
        taken: set[str] = set()
        calls = [call for call in self.all if call.name]
        for call in calls:
            call.id = unique(call.id or f"call_{call.number}", taken)
            taken.add(call.id)
        return calls
