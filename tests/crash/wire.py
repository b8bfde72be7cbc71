"""The model of :mod:`tests.crash.model` behind the strict fake provider, a path of its own for every case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from agent_nodes.messages import ApiKind
from tests.crash.model import Place, Seen, half, place
from tests.crash.scenes import AFTER, ANSWER_AFTER, WIRE
from tests.fakes import Answer, FakeServer, Reply, Request, call, drop_after, error, reply, text, thinking

APIS: tuple[ApiKind, ...] = ("anthropic-messages", "openai-responses", "openai-completions")


class WireModel:
    """``wrong`` holds what no history could have come to."""

    def __init__(self, fake: FakeServer) -> None:
        self.wrong: list[str] = []
        self._fake = fake
        self._cases = 0
        self._requests: Counter[str] = Counter()
        fake.respond(self._respond)

    def case(self, api: ApiKind) -> tuple[ApiKind, str]:
        """Protocol and address of a case."""
        self._cases += 1
        address = f"{self._fake.url}/case-{self._cases}"
        return api, address if api == "anthropic-messages" else f"{address}/v1"

    def _respond(self, request: Request) -> Reply:
        name = request.path.split("/")[1]
        self._requests[name] += 1
        where = place({**WIRE.plans, AFTER: ANSWER_AFTER}, list(_seen(request)))
        if isinstance(where, str):
            self.wrong.append(f"{request!r}: {where}")
            return error(400, where)
        match WIRE.faults.get(self._requests[name]):
            case "overloaded":
                return error(529, retry_after=0)
            case "dropped":
                return drop_after(*_thought(where), text(*_words(half(where.rest))))
            case _:
                said = [text(*_words(where.rest))] if where.rest else []
                return reply(*_thought(where), *said, *(call(name, args) for name, args in where.round.calls))


def _seen(request: Request) -> Iterator[Seen]:
    for message in request.messages():
        if message.role == "assistant":
            yield Seen("assistant", message.text, len(message.calls))
        elif message.role == "user":
            yield from (Seen("user", part) for part in message.texts)


def _thought(where: Place) -> list[Answer]:
    return [thinking(*_words(where.round.thinking))] if where.round.thinking and not where.said else []


def _words(said: str) -> list[str]:
    first, *others = said.split(" ")
    return [first, *(f" {word}" for word in others)]
