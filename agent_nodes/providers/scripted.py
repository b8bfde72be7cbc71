"""Plays scripts as a model: what tests, docs and the demo model stand on in place of a service.

:func:`play` turns the steps of one answer into model events, one list a "network read"; :class:`ScriptedProvider` plays
one answer a request and is as strict as the real services about the history it is sent (:func:`check_history`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from agent_nodes._clock import Clock
from agent_nodes.events import TextDelta, ThinkingDelta
from agent_nodes.messages import (
    AssistantMessage,
    Message,
    StopReason,
    SystemMessage,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    repair_text,
)
from agent_nodes.providers.base import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Failed,
    Failure,
    Finished,
    ModelEvent,
    ModelRequest,
    UsageUpdate,
)
from agent_nodes.providers.script import Call, Drop, LoseCall, Report, Say, Status, Step, Stop, Wait, parse

Events = list[ModelEvent]

_WORD = re.compile(r"\s*\S+\s*|\s+")
_ARGUMENT_PIECE = 16


class ScriptedProvider:
    """A :class:`~agent_nodes.providers.base.Provider` that plays one answer of ``scripts`` a request.

    ``scripts`` is one script or several; each may hold several answers (parted by ``---``). Everything asked is kept in
    ``requests`` (copies of the message list). A history that the services would refuse, and a request after the last
    answer, end in ``Failed`` of kind ``invalid``; neither uses up an answer. Raises :class:`InputValidationError` for a
    mistake in a script.
    """

    def __init__(self, scripts: str | Sequence[str], *, clock: Clock) -> None:
        sources = [scripts] if isinstance(scripts, str) else scripts
        self._answers = [answer for source in sources for answer in parse(source)]
        self._clock = clock
        self._played = 0
        self.requests: list[ModelRequest] = []

    @property
    def remaining(self) -> int:
        """How many answers nobody has asked for yet."""
        return len(self._answers) - self._played

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        self.requests.append(replace(request, messages=tuple(request.messages)))
        mistake = check_history(request.messages)
        if mistake is None and not self.remaining:
            mistake = f"the script has {len(self._answers)} answers, and all of them were given"
        if mistake is not None:
            yield [Failed(Failure("invalid", f"scripted model: {mistake}", retryable=False))]
            return
        answer = self._answers[self._played]
        self._played += 1
        async for events in play(answer, clock=self._clock, ids=call_ids(request.messages)):
            yield events

    async def close(self) -> None:
        """Nothing is held open."""


async def play(
    steps: Sequence[Step], *, clock: Clock, ids: Iterator[str], pause: float = 0.0
) -> AsyncGenerator[Sequence[ModelEvent], None]:
    """The events of one answer, ended by exactly one ``Finished`` or ``Failed``.

    ``ids`` names the calls in order; ``pause`` (seconds) goes before every list of events. Also without one the loop
    gets a turn before each, as it would from a socket, so that a stop can come between two words.
    """
    player = _Player(ids)
    for step in steps:
        if isinstance(step, Wait):
            await clock.sleep(step.seconds)
            continue
        for events in player.events(step):
            await (clock.sleep(pause) if pause else asyncio.sleep(0))
            yield events
    if not player.ended:
        yield player.finish()


class _Player:
    """Where the answer stands: the next index, the calls made, and the end of a block that still waits."""

    def __init__(self, ids: Iterator[str]) -> None:
        self._ids = ids
        self._saying: str | None = None
        self._end: BlockEnd | None = None
        self._index = -1
        self._calls = 0
        self._cut = False
        self.ended = False

    def events(self, step: Step) -> Iterator[Events]:
        match step:
            case Say():
                yield from self._say(step)
            case Call():
                yield from self._call(step)
            case Report():
                yield [UsageUpdate(step.usage)]
            case Stop():
                yield self.finish(step.reason)
            case LoseCall():
                yield self.finish("tool_use", claimed=self._calls + 1)
            case Drop():
                yield self._fail(Failure("dropped", "scripted model: the connection broke", retryable=True))
            case Status():
                yield self._fail(_status_failure(step))
            case Wait():
                raise ValueError("a wait makes no events")
            case _:
                assert_never(step)

    def finish(self, stop: StopReason | None = None, claimed: int = 0) -> Events:
        """The end of a whole answer; without a ``stop`` it is the one that fits what was played."""
        stop = stop or ("length" if self._cut else "tool_use" if self._calls else "end")
        if stop == "tool_use":
            claimed = max(claimed, self._calls, 1)
        self.ended = True
        return [*self._close(), Finished(stop, claimed)]

    def _fail(self, failure: Failure) -> Events:
        self.ended = True
        return [Failed(failure)]

    def _close(self) -> Events:
        end, self._end, self._saying = self._end, None, None
        return [] if end is None else [end]

    def _start(self, kind: BlockKind) -> Events:
        events = self._close()
        self._index += 1
        return [*events, BlockStart(self._index, kind)]

    def _say(self, step: Say) -> Iterator[Events]:
        events: Events = []
        if self._saying != step.kind:
            events = self._start(step.kind)
            self._saying, self._end = step.kind, BlockEnd(self._index)
        for word in _WORD.findall(step.text):
            delta = TextDelta if step.kind == "text" else ThinkingDelta
            yield [*events, delta(repair_text(word), self._index)]
            events = []
        if events:
            yield events

    def _call(self, step: Call) -> Iterator[Events]:
        yield self._start("tool_call")
        for at in range(0, len(step.text), _ARGUMENT_PIECE):
            yield [ArgsDelta(self._index, step.text[at : at + _ARGUMENT_PIECE])]
        invalid = step.text if step.arguments is None else None
        end = BlockEnd(self._index, ToolCall(next(self._ids), step.name, step.arguments or {}, invalid))
        self._calls += 1
        if step.cut:  # nothing says that it is over but what comes behind it
            self._cut, self._end = True, end
        else:
            yield [end]


def _status_failure(step: Status) -> Failure:
    from agent_nodes.providers.failures import http_failure

    headers = {} if step.retry_after is None else {"retry-after": str(step.retry_after)}
    return http_failure(step.code, headers, step.body.encode(), now=0.0)  # seconds, so that no date is compared


def call_ids(messages: Sequence[Message]) -> Iterator[str]:
    """``call_1``, ``call_2`` …, going on behind the calls of ``messages``, so that no id of theirs comes again."""
    taken = {call.id for message in messages if isinstance(message, AssistantMessage) for call in message.calls}
    number = len(taken)
    while True:
        number += 1
        if (name := f"call_{number}") not in taken:
            yield name


def check_history(messages: Sequence[Message]) -> str | None:
    """What a real service would refuse in ``messages``, or None.

    Results may come in any order behind their calls (the encoders sort them). Blank text of an assistant passes: it is
    kept as the model said it, and the encoders leave it out.
    """
    open_calls: dict[str, str] = {}
    seen: set[str] = set()
    last: Message | None = None
    for number, message in enumerate(messages):
        if isinstance(message, SystemMessage):
            continue
        if isinstance(message, ToolResultMessage):
            mistake = _check_result(message, open_calls)
        elif open_calls:
            mistake = f"no result for the calls {sorted(open_calls)} before the next message"
        elif isinstance(message, AssistantMessage):
            mistake = "the first message must be the user's" if last is None else _check_assistant(message, seen)
            open_calls = {call.id: call.name for call in message.calls}
        else:
            mistake = _check_user(message)
        if mistake is not None:
            return f"message {number}: {mistake}"
        last = message
    if last is None:
        return "there is no message"
    if open_calls:
        return f"no result for the calls {sorted(open_calls)}"
    if isinstance(last, AssistantMessage) and last.stop != "pause":
        return "the last message must be the user's or the result of a call"
    return None


def _check_user(message: UserMessage) -> str | None:
    if not message.content:
        return "a user message without content"
    if any(isinstance(block, TextBlock) and not block.text.strip() for block in message.content):
        return "a blank text block"
    return None


def _check_assistant(message: AssistantMessage, seen: set[str]) -> str | None:
    if message.interrupted and message.calls:
        return "a call in an interrupted message"
    for call in message.calls:
        if call.id in seen:
            return f"the call id {call.id!r} comes twice"
        seen.add(call.id)
    return None


def _check_result(message: ToolResultMessage, open_calls: dict[str, str]) -> str | None:
    name = open_calls.pop(message.call_id, None)
    if name is None:
        return f"a result without its call: {message.call_id!r}"
    if name != message.name:
        return f"a result of {message.name!r} for the call {message.call_id!r} of {name!r}"
    return None
