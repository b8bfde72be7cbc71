"""From a scripted reply to frames, in the protocol of the request."""

import dataclasses
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.fakes.scripts import Answer, Json
from tests.fakes.wire import Frame


class Event(NamedTuple):
    """One server-sent event before encoding. `name` "" has no `event:` line."""

    name: str
    data: Json
    delta: bool = False


@dataclasses.dataclass(slots=True)
class BlockEvents:
    """The events of one block, kept apart so that blocks can be interleaved."""

    start: list[Event]
    deltas: list[Event]
    end: list[Event]


class Rendered(NamedTuple):
    """`content`: the blocks or items as a client would keep them; `document`: the whole reply as one JSON body."""

    events: list[Event]
    content: list[Json]
    document: Json


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """What the renderers take from the request. `seed` differs for each request content, `number` for each request."""

    body: Json
    number: int
    seed: str

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    def ident(self, prefix: str, index: int) -> str:
        return f"{prefix}{self.number:05d}{index:03d}"


def arrange(answer: Answer, blocks: list[BlockEvents]) -> list[Event]:
    """The blocks one after the other, or interleaved as the answer says."""
    if answer.interleave is None:
        return [event for block in blocks for event in (*block.start, *block.deltas, *block.end)]
    order, stops = answer.interleave
    queues = [iter(block.deltas) for block in blocks]
    events = [event for block in blocks for event in block.start]
    for index in order:
        events.append(next(queues[index]))
    for index in stops:
        events.extend(queues[index])
        events.extend(blocks[index].end)
    return events


def frames(events: Iterable[Event], event_lines: bool) -> list[Frame]:
    return [Frame(_encode(event, event_lines), event.delta) for event in events]


def _encode(event: Event, event_lines: bool) -> bytes:
    name = f"event: {event.name}\n" if event.name and event_lines else ""
    return f"{name}data: ".encode() + dump(event.data) + b"\n\n"


def dump(data: Any) -> bytes:
    """Compact UTF-8 JSON; a lone surrogate, which has no UTF-8 form, is escaped as services do."""
    try:
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(data, separators=(",", ":")).encode()


def derived_stop(answer: Answer, has_calls: bool) -> str:
    return answer.stop or ("tool_use" if has_calls else "end")
