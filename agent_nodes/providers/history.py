"""Repairs a context so that any service accepts it, whatever crashes, stops and changes of model have left behind.

Pure. A context becomes a row of groups (a user's message, or an assistant's with the results of its calls) in which

- every call has exactly one result, right behind its message and in call order; a result without its call is gone,
- call ids and tool names are of the form every service takes, each id unique over the whole context,
- no text is blank, no message empty, pictures are only there for a model that sees,
- an interrupted message is text alone,
- what only its maker understands (sealed reasoning, native blocks, raw JSON) is left only for the same api, provider
  and model, sealed reasoning also only from ``reasoning_from`` on.

Groups are encoded once and kept in the request's prefix. A group that may still change (a reply paused in mid-search)
is encoded anew each time until what follows it has settled it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from agent_nodes.messages import (
    AssistantBlock,
    AssistantMessage,
    ContentBlock,
    ImageBlock,
    Message,
    NativeBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from agent_nodes.providers.base import ModelEntry, ModelRequest
from agent_nodes.providers.natives import Natives, made_by, natives_at

NO_RESULT = "This call was interrupted and its result was not carried over."
NO_OUTPUT = "(no output)"
EARLIER = "(The conversation goes on from here.)"

_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_IMAGE_LIMIT = 5 * 1024 * 1024  # base64 characters, the least that services take
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_ID = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(slots=True)
class UserGroup:
    content: tuple[ContentBlock, ...]


@dataclass(slots=True)
class AssistantGroup:
    """``results`` holds one result for each call among ``blocks``, in that order and under the same id. ``thinned``:
    reasoning that led to some of the blocks is left out."""

    blocks: tuple[AssistantBlock, ...]
    results: tuple[ToolResultMessage, ...]
    thinned: bool = False

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(block for block in self.blocks if isinstance(block, ToolCall))


Group: TypeAlias = UserGroup | AssistantGroup


@dataclass(slots=True)
class Step:
    """A group (None: nothing is left of it), the index behind its messages, whether it can no longer change."""

    group: Group | None
    end: int
    settled: bool = True


def encoded(request: ModelRequest, render: Callable[[Group], bytes]) -> bytes:
    """The messages of ``request`` as the inside of a JSON array: what is new is rendered, the rest is in the prefix."""
    prefix, messages = request.prefix, request.messages
    model = request.model
    if prefix.unsealed > len(messages):  # another context, in which nothing was refused yet
        prefix.unsealed = 0
    key = (model.api, model.provider, model.model, model.images, _sealed_from(request))
    if prefix.key != key or prefix.count > len(messages):
        prefix.key, prefix.count, prefix.parts, prefix.seen = key, 0, [], set()
    open_parts: list[bytes] = []
    open_ids: set[str] = set()
    settled = True
    for step in steps(request, prefix.count, prefix.seen, first=not prefix.parts):
        part = render(step.group) if step.group is not None else b""
        settled = settled and step.settled
        if settled:
            prefix.count = step.end
        if part:
            # A copy with its comma: many small results of the encoder that stay as they came cost more than encoding.
            (prefix.parts if settled else open_parts).append(part + b",")
        if isinstance(step.group, AssistantGroup) and step.group.results:
            ids = {call.id for call in step.group.calls}
            prefix.seen |= ids
            open_ids |= set() if settled else ids
    prefix.seen -= open_ids
    return b"".join([*prefix.parts, *open_parts])[:-1]


def lacks_opening(request: ModelRequest) -> bool:
    """Whether results are handed over to calls of a turn that does not begin with reasoning that is sent again."""
    first: AssistantBlock | None = None
    for index in range(len(request.messages) - 1, -1, -1):
        message = request.messages[index]
        if isinstance(message, AssistantMessage):
            group = _assistant(request, index, set())[0].group
            if not isinstance(group, AssistantGroup):
                continue  # nothing is left of it
            if first is None and not group.results:
                return False
            first = group.blocks[0]  # neighbouring replies are one turn
        elif first is not None and not isinstance(message, SystemMessage):
            break
    return first is not None and not isinstance(first, ThinkingBlock)


def _sealed_from(request: ModelRequest) -> int:
    return max(request.reasoning_from, request.prefix.unsealed)


def steps(request: ModelRequest, start: int, seen: set[str], *, first: bool) -> Iterator[Step]:
    """The groups of ``request.messages`` from ``start`` on. ``seen`` holds the call ids before; the caller adds those
    of each group before it asks for the next. ``first``: nothing was sent before, so it must begin with a user."""
    messages = request.messages
    index = start
    while index < len(messages):
        message = messages[index]
        if isinstance(message, AssistantMessage):
            step, late = _assistant(request, index, seen)
            if first and step.group is not None:
                yield Step(UserGroup((TextBlock(EARLIER),)), index)
                first = False
            yield step
            # What a user said before the last result came goes behind the results.
            for user in late:
                yield Step(_user(user, request.model), step.end)
            index = step.end
            continue
        index += 1
        group = _user(message, request.model) if isinstance(message, UserMessage) else None
        first = first and group is None
        yield Step(group, index)


def _user(message: UserMessage, entry: ModelEntry) -> UserGroup | None:
    content = visible(message.content, images=entry.images)
    return UserGroup(content) if content else None


def _assistant(request: ModelRequest, index: int, seen: set[str]) -> tuple[Step, list[UserMessage]]:
    messages = request.messages
    message = messages[index]
    assert isinstance(message, AssistantMessage)
    if message.stop != "pause" and all(type(block) is TextBlock for block in message.content):
        return _words(message, request.model, index + 1), []
    natives = natives_at(messages, index, request.model)
    blocks, thinned = _blocks(message, request, index, natives)
    end, results, late = _results(messages, index, blocks)
    answers = _by_call(results)
    taken: set[str] = set()
    kept: list[AssistantBlock] = []
    paired: list[ToolResultMessage] = []
    for block in blocks:
        if isinstance(block, ToolCall):
            waiting = answers.get(block.id)
            result = waiting.pop(0) if waiting else None
            id = unique(call_id(block.id), seen, taken)
            taken.add(id)
            name = tool_name(block.name)
            call = block if (id, name) == (block.id, block.name) else replace(block, id=id, name=name)
            paired.append(_result(call, result, request.model))
            kept.append(call)
        else:
            kept.append(block)
    group = AssistantGroup(tuple(kept), tuple(paired), thinned) if kept else None
    return Step(group, end, not natives.waiting), late


def _words(message: AssistantMessage, entry: ModelEntry, end: int) -> Step:
    """The step of a message that is nothing but text, as most are: none of the rules on calls concern it."""
    plain = message.interrupted or not made_by(message, entry)
    texts = [block for block in message.content if isinstance(block, TextBlock) and block.text.strip()]
    if plain:
        texts = [TextBlock(block.text) for block in texts]
    return Step(AssistantGroup(tuple(texts), ()) if texts else None, end)


class _Blocks(NamedTuple):
    """What of a message can be sent again, calls still under their old ids; whether reasoning is missing."""

    blocks: list[AssistantBlock]
    thinned: bool


def _blocks(message: AssistantMessage, request: ModelRequest, index: int, natives: Natives) -> _Blocks:
    own = made_by(message, request.model)
    reasoning = own and index >= _sealed_from(request) and not message.interrupted
    thinned = False
    kept: list[AssistantBlock] = []
    for place, block in enumerate(message.content):
        match block:
            case TextBlock():
                if block.text.strip():
                    kept.append(block if own and not message.interrupted else TextBlock(block.text))
            case ThinkingBlock():
                if reasoning and (block.signature or block.raw):
                    kept.append(block)
                else:
                    thinned = True
            case ToolCall():
                if not message.interrupted:
                    kept.append(block if own else replace(block, raw=None))
            case NativeBlock():
                if place in natives.kept:
                    kept.append(block)
    # Reasoning must lead to something, except where the model goes on from it by itself.
    while kept and isinstance(kept[-1], ThinkingBlock) and not natives.continued:
        kept.pop()
    return _Blocks(kept, thinned)


class _Results(NamedTuple):
    """The results behind a message, the index behind the last of them, and the user messages in between."""

    end: int
    results: list[ToolResultMessage]
    users: list[UserMessage]


def _results(messages: Sequence[Message], index: int, blocks: Sequence[AssistantBlock]) -> _Results:
    calls = {block.id for block in blocks if isinstance(block, ToolCall)}
    end = index + 1
    found: list[ToolResultMessage] = []
    users: list[UserMessage] = []
    late = 0
    if not calls:
        return _Results(end, found, users)
    for at in range(end, len(messages)):
        message = messages[at]
        if isinstance(message, AssistantMessage):
            break
        if isinstance(message, UserMessage):
            users.append(message)
        elif isinstance(message, ToolResultMessage) and message.call_id in calls:
            found.append(message)
            end, late = at + 1, len(users)
    return _Results(end, found, users[:late])


def _by_call(results: list[ToolResultMessage]) -> dict[str, list[ToolResultMessage]]:
    answers: dict[str, list[ToolResultMessage]] = {}
    for result in results:
        answers.setdefault(result.call_id, []).append(result)
    return answers


def _result(call: ToolCall, result: ToolResultMessage | None, entry: ModelEntry) -> ToolResultMessage:
    if result is None:
        return ToolResultMessage(call.id, call.name, (TextBlock(NO_RESULT),), is_error=True)
    content = visible(result.content, images=entry.images and not result.is_error)
    return ToolResultMessage(call.id, call.name, content or (TextBlock(NO_OUTPUT),), result.is_error)


def visible(content: Sequence[ContentBlock], *, images: bool) -> tuple[ContentBlock, ...]:
    """``content`` without blank text, with a text in place of every picture that cannot be sent."""
    kept: list[ContentBlock] = []
    for block in content:
        if isinstance(block, TextBlock):
            if block.text.strip():
                kept.append(block)
        elif not images or block.mime_type not in _IMAGE_TYPES or len(block.data) > _IMAGE_LIMIT:
            kept.append(TextBlock(_placeholder(block, images)))
        else:
            kept.append(block)
    return tuple(kept)


def _placeholder(image: ImageBlock, images: bool) -> str:
    if not images:
        return f"[picture ({image.mime_type}) left out: this model or place takes no pictures]"
    if image.mime_type not in _IMAGE_TYPES:
        return f"[picture left out: {image.mime_type} is not understood]"
    return f"[picture ({image.mime_type}) left out: larger than 5 MB]"


def call_id(id: str) -> str:
    """``id`` itself where every service takes it, else a readable part of it and a digest of the whole."""
    if _ID.fullmatch(id):
        return id
    digest = blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{_NOT_ID.sub('_', id)[:47] or 'call'}_{digest}"


def tool_name(name: str) -> str:
    """A tool name of the form every service takes; a model may have made up another."""
    return name if _ID.fullmatch(name) else (_NOT_ID.sub("_", name)[:64] or "unknown")


def unique(id: str, *taken: set[str]) -> str:
    """``id``, or the first of ``id_2``, ``id_3`` … that is not taken."""
    candidate, number = id, 1
    while any(candidate in ids for ids in taken):
        number += 1
        suffix = f"_{number}"
        candidate = id[: 64 - len(suffix)] + suffix
    return candidate
