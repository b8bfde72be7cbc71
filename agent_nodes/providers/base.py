"""What the engine asks of a model and what it gets back; the three protocols and the scripted model all speak this.

A provider's stream ends in exactly one :class:`Finished` or :class:`Failed` and raises nothing but ``CancelledError``.
Events come in lists, one list a network read, so that a delta costs no queue hop.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from agent_nodes.events import TextDelta, ThinkingDelta
from agent_nodes.messages import (
    AgentEffort,
    ApiKind,
    AssistantBlock,
    AssistantMessage,
    EffortLevel,
    JsonObject,
    Message,
    StopReason,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Usage,
    repair_text,
)

ThinkingStyle: TypeAlias = Literal["effort", "adaptive", "always", "between", "budget"]


@dataclass(frozen=True, slots=True)
class ModelCost:
    """US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0

    def of(self, usage: Usage) -> float:
        """What a response with ``usage`` costs, in US dollars."""
        return (
            usage.input_tokens * self.input
            + usage.output_tokens * self.output
            + usage.cached_input_tokens * self.cache_read
            + usage.cache_creation_tokens * self.cache_write
        ) / 1_000_000


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model at one endpoint. ``context_window`` and ``max_tokens`` (output) are None where nothing is known.

    ``thinking`` is how its effort is told: ``effort`` names a level (the OpenAI protocols), ``adaptive`` thinks by
    itself and can be switched off, ``always`` cannot, ``between`` has a lowest setting in place of off, ``budget``
    counts tokens; None where nothing is known. ``levels`` gives for an effort level the value sent, None where the
    model has no such level; a level that is not named keeps the protocol's own value. With ``budget`` a level's value
    goes beside the count of tokens, and of a level that is not named the count alone. ``cost`` and ``web_search`` None:
    not known.
    """

    provider: str
    model: str
    api: ApiKind | Literal["demo"]
    base_url: str
    context_window: int | None = None
    max_tokens: int | None = None
    images: bool = True
    reasoning: bool = True
    name: str = ""
    cost: ModelCost | None = None
    thinking: ThinkingStyle | None = None
    levels: tuple[tuple[EffortLevel, str | None], ...] = ()
    web_search: bool | None = None


@dataclass(slots=True)
class EncodedPrefix:
    """The encoded messages of one context, each with a comma behind it, append only; owned by the engine, filled by a
    protocol's ``encode``.

    ``key`` names what the parts depend on (model, start of valid reasoning); another key means: encode anew. ``seen``
    holds the call ids in the parts, so that one that comes again gets another. ``unsealed``: a service refused the
    signed reasoning of the first so many messages, which is left out ever since.
    """

    key: Hashable = None
    count: int = 0
    parts: list[bytes] = field(default_factory=list[bytes])
    seen: set[str] = field(default_factory=set[str])
    unsealed: int = 0


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """``messages`` is the whole context, newest last, system messages included; ``system`` is the one in force and
    ``reasoning_from`` the index of the first message whose signed reasoning may still be sent. ``effort`` None: nobody
    chose, the service's own default; empty: the model decides (no level is named, on Messages thinking is off)."""

    model: ModelEntry
    system: SystemMessage
    messages: Sequence[Message]
    reasoning_from: int
    prefix: EncodedPrefix
    max_tokens: int | None = None
    effort: AgentEffort | None = None
    cache_key: str = ""


BlockKind: TypeAlias = Literal["text", "thinking", "tool_call", "native"]
FailureKind: TypeAlias = Literal["dropped", "transient", "overflow", "quota", "auth", "invalid", "refused"]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a response did not come whole. ``retryable`` is the protocol's and transport's verdict (connection loss,
    408/409/429, 5xx, overload); ``retry_after`` in seconds as the server asked; ``param`` is the field of the request
    that the service names. ``message`` holds no secret."""

    kind: FailureKind
    message: str
    retryable: bool
    status: int | None = None
    retry_after: float | None = None
    param: str | None = None


@dataclass(slots=True)
class BlockStart:
    index: int
    kind: BlockKind


@dataclass(slots=True)
class ArgsDelta:
    index: int
    delta: str


@dataclass(slots=True)
class BlockEnd:
    """``block`` is the provider's own final form; without one the block is what the deltas said, with ``signature`` and
    ``raw`` added."""

    index: int
    block: AssistantBlock | None = None
    signature: str | None = None
    raw: JsonObject | None = None


@dataclass(slots=True)
class UsageUpdate:
    """Cumulative usage of this response so far (replaces the one before)."""

    usage: Usage


@dataclass(slots=True)
class Finished:
    """``claimed_calls`` is how many tool calls the provider said it made where it says so at all (0: none claimed,
    1: at least one); more than arrived means one was lost on the way."""

    stop: StopReason
    claimed_calls: int = 0


@dataclass(slots=True)
class Failed:
    failure: Failure


ModelEvent: TypeAlias = TextDelta | ThinkingDelta | BlockStart | ArgsDelta | BlockEnd | UsageUpdate | Finished | Failed


class Provider(Protocol):
    """One endpoint, asked as often as one likes. Closing a stream early closes its connection at once."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]: ...
    async def close(self) -> None: ...


@dataclass(slots=True)
class _Open:
    kind: BlockKind
    parts: list[str] = field(default_factory=list[str])
    block: AssistantBlock | None = None
    ended: bool = False


class Fold:
    """Builds the assistant message out of model events; also out of the stored pieces of a broken one."""

    __slots__ = ("_blocks", "usage")

    def __init__(self) -> None:
        self._blocks: dict[int, _Open] = {}
        self.usage: Usage | None = None

    def add(self, event: ModelEvent) -> None:
        match event:
            case TextDelta():
                self._open(event.index, "text").parts.append(event.delta)
            case ThinkingDelta():
                self._open(event.index, "thinking").parts.append(event.delta)
            case ArgsDelta():
                self._open(event.index, "tool_call").parts.append(event.delta)
            case BlockStart():
                self._open(event.index, event.kind)
            case BlockEnd():
                self._end(event)
            case UsageUpdate():
                self.usage = event.usage
            case Finished() | Failed():
                pass

    def _open(self, index: int, kind: BlockKind) -> _Open:
        block = self._blocks.get(index)
        if block is None:
            block = self._blocks[index] = _Open(kind)
        return block

    def _end(self, event: BlockEnd) -> None:
        kind: BlockKind = "text" if event.block is None else event.block.type
        state = self._open(event.index, kind)
        state.ended = True
        if event.block is not None:
            state.block = event.block
        elif state.kind == "text":
            state.block = TextBlock("".join(state.parts), event.raw)
        elif state.kind == "thinking":
            state.block = ThinkingBlock("".join(state.parts), event.signature, event.raw)

    @property
    def produced(self) -> bool:
        """Whether anything a reader or the model could miss has arrived."""
        return any(state.block is not None or any(state.parts) for state in self._blocks.values())

    def message(self, request_model: ModelEntry, stop: StopReason) -> AssistantMessage:
        """The whole response, blocks in the provider's order, empty text left out."""
        return _message(request_model, self._whole(), stop, interrupted=False)

    def partial(self, request_model: ModelEntry) -> AssistantMessage:
        """What can be kept of a broken response: text and reasoning so far, no call, nothing half-signed."""
        kept = [block for block in self._whole() if isinstance(block, TextBlock | ThinkingBlock)]
        return _message(request_model, kept, "end", interrupted=True)

    def _whole(self) -> list[AssistantBlock]:
        out: list[AssistantBlock] = []
        for index in sorted(self._blocks):
            state = self._blocks[index]
            block = state.block
            if block is None and state.kind == "text":
                block = TextBlock("".join(state.parts))
            elif block is None and state.kind == "thinking":
                block = ThinkingBlock("".join(state.parts))
            if block is None or (isinstance(block, TextBlock) and not block.text):
                continue
            if isinstance(block, ThinkingBlock) and not (block.text or block.signature or block.raw):
                continue
            out.append(block)
        return out


def _message(
    entry: ModelEntry, blocks: Sequence[AssistantBlock], stop: StopReason, *, interrupted: bool
) -> AssistantMessage:
    api: ApiKind = "openai-completions" if entry.api == "demo" else entry.api
    return AssistantMessage(tuple(blocks), api, entry.provider, entry.model, stop, interrupted)


def text_delta(text: str, index: int) -> TextDelta:
    """A text delta as it may be shown and stored: the repair happens here, so that joined deltas equal the entry."""
    return TextDelta(repair_text(text), index)
