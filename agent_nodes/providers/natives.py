"""Which native blocks (searches run by the service) of an assistant message can be sent again.

A use and its result belong together: services refuse one without the other. The result stands in the same message or,
where the reply was paused or also called tools of ours, in the next reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agent_nodes.messages import AssistantBlock, AssistantMessage, Message, NativeBlock, UserMessage
from agent_nodes.providers.base import ModelEntry


@dataclass(frozen=True, slots=True)
class Natives:
    """``kept``: places in the content of the blocks that can be sent. ``continued``: the model goes on from this paused
    message by itself. ``waiting``: the verdict depends on a reply that has not come yet."""

    kept: frozenset[int] = frozenset()
    continued: bool = False
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class _Neighbour:
    """The next reply in one direction (-1: none), and whether a prompt stands in between."""

    index: int
    prompted: bool


_NONE = Natives()


def made_by(message: AssistantMessage, entry: ModelEntry) -> bool:
    """Whether the model of a request made this message itself, over the same protocol."""
    return message.api == entry.api and message.provider == entry.provider and message.model == entry.model


def natives_at(messages: Sequence[Message], index: int, entry: ModelEntry) -> Natives:
    """The verdict on the assistant message at ``index``."""
    message = _reply(messages, index)
    places = [place for place, block in enumerate(message.content) if isinstance(block, NativeBlock)]
    if not _usable(message, entry) or not (places or _pauses(message)):
        return _NONE
    waiting = False
    kept: set[int] = set()
    asked: set[str] = set()
    answered: set[str] = set()
    for place in places:
        use, answer = _use_id(message.content[place]), _answer_id(message.content[place])
        if use is not None:
            again = use in asked
            asked.add(use)
            here = use in map(_answer_id, message.content[place:])
            fate = "found" if here else _result_of(messages, index, use, entry)
            waiting = waiting or fate == "open"
            keep = fate != "lost" and not again
        elif answer is not None:
            keep = answer not in answered and (answer in asked or _asked_before(messages, index, answer, entry))
            if keep:
                answered.add(answer)
        else:
            keep = True
        if keep:
            kept.add(place)
    after = _neighbour(messages, index, 1)
    at_end = _pauses(message) and after.index < 0 and not after.prompted
    continued = at_end or (_pauses(message) and _goes_on(messages, index, after, entry))
    return Natives(frozenset(kept), continued, waiting or at_end)


def _result_of(
    messages: Sequence[Message], index: int, use: str, entry: ModelEntry
) -> Literal["found", "open", "lost"]:
    """What becomes of a use without a result in its own message at ``index``."""
    while True:
        reply, after = _reply(messages, index), _neighbour(messages, index, 1)
        if after.index < 0:
            return "open" if reply.calls or (_pauses(reply) and not after.prompted) else "lost"
        if not _goes_on(messages, index, after, entry):
            return "lost"
        following = _reply(messages, after.index)
        if use in map(_answer_id, following.content):
            return "found"
        if not _pauses(following):
            return "lost"
        index = after.index


def _asked_before(messages: Sequence[Message], index: int, use: str, entry: ModelEntry) -> bool:
    """Whether a reply that the one at ``index`` goes on from left the use open."""
    while True:
        before = _neighbour(messages, index, -1)
        if before.index < 0 or not _goes_on(messages, before.index, _Neighbour(index, before.prompted), entry):
            return False
        earlier = _reply(messages, before.index)
        for block in reversed(earlier.content):
            if use in {_use_id(block), _answer_id(block)}:
                return _use_id(block) == use
        if not _pauses(earlier):
            return False
        index = before.index


def _goes_on(messages: Sequence[Message], index: int, after: _Neighbour, entry: ModelEntry) -> bool:
    """Whether the reply behind the one at ``index`` continues it, so that a search may be open between the two."""
    if after.index < 0 or not _usable(_reply(messages, after.index), entry):
        return False
    reply = _reply(messages, index)
    return _usable(reply, entry) and (bool(reply.calls) or (_pauses(reply) and not after.prompted))


def _neighbour(messages: Sequence[Message], index: int, way: Literal[1, -1]) -> _Neighbour:
    prompted = False
    at = index + way
    while 0 <= at < len(messages):
        message = messages[at]
        if isinstance(message, AssistantMessage):
            return _Neighbour(at, prompted)
        prompted = prompted or isinstance(message, UserMessage)
        at += way
    return _Neighbour(-1, prompted)


def _reply(messages: Sequence[Message], index: int) -> AssistantMessage:
    message = messages[index]
    assert isinstance(message, AssistantMessage)
    return message


def _pauses(reply: AssistantMessage) -> bool:
    """Whether the service broke off in its own work, and waits for no tool of ours."""
    return reply.stop == "pause" and not reply.calls


def _usable(message: AssistantMessage, entry: ModelEntry) -> bool:
    return made_by(message, entry) and not message.interrupted


def _use_id(block: AssistantBlock) -> str | None:
    """The id of a use that a result must answer; None for any other block."""
    if not isinstance(block, NativeBlock):
        return None
    kind, id = block.raw.get("type"), block.raw.get("id")
    return id if isinstance(id, str) and isinstance(kind, str) and kind.endswith("tool_use") else None


def _answer_id(block: AssistantBlock) -> str | None:
    """The id of the use that a result answers; None for any other block."""
    id = block.raw.get("tool_use_id") if isinstance(block, NativeBlock) else None
    return id if isinstance(id, str) else None
