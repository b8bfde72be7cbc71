"""What the Messages service refuses in the messages: blocks, pairs of calls and results, seals of thinking."""

import base64
import binascii
import functools
import re
from typing import Any, NamedTuple

from tests.fakes.issued import Issued, Prefix, Seal, merged, prefix_digests, seal_of, shape
from tests.fakes.refused import Refused, only_fields, text_only
from tests.fakes.scripts import Json

ID = re.compile(r"[a-zA-Z0-9_-]+")
MAGIC = {
    "image/png": b"\x89PNG",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
BLOCK_FIELDS = {
    "text": ("text", "citations", "cache_control"),
    "image": ("source", "cache_control"),
    "document": ("source", "title", "context", "citations", "cache_control"),
    "tool_use": ("id", "name", "input", "cache_control", "caller"),
    "tool_result": ("tool_use_id", "content", "is_error", "cache_control"),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "server_tool_use": ("id", "name", "input", "cache_control", "caller"),
    "web_search_tool_result": ("tool_use_id", "content", "cache_control", "caller"),
}
USER_BLOCKS = ("text", "image", "document", "tool_result")
ASSISTANT_BLOCKS = (
    "text",
    "tool_use",
    "thinking",
    "redacted_thinking",
    "server_tool_use",
    "web_search_tool_result",
)
SEALED = ("thinking", "redacted_thinking")
Turn = tuple[str, list[Json]]


class _Digests:
    """The prefix digests of a request, made when first asked for: most histories hold nothing sealed."""

    def __init__(self, body: Json) -> None:
        self._body = body

    @functools.cached_property
    def all(self) -> list[str]:
        return prefix_digests(self._body)


def check_history(body: Json, model: str, issued: Issued) -> None:
    """Raise Refused where the service would refuse the messages of `body`."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused("messages: at least one message is required")
    for index, message in enumerate(messages):
        _check_message(message, index, model)
    if messages[0]["role"] != "user":
        raise Refused('messages: first message must use the "user" role')
    turns = merged(messages)
    digests = _Digests(body)
    if turns[-1][0] == "assistant" and not _resumes_pause(turns[-1][1], digests, issued):
        raise Refused(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
    _check_calls(turns)
    _check_server_tools(turns, issued)
    _check_seals(turns, model, digests, issued)
    _check_open_loop(body, turns, model, digests, issued)


def _check_message(message: Any, index: int, model: str) -> None:
    where = f"messages.{index}"
    only_fields(message, ("role", "content"), where)
    if message.get("role") not in ("user", "assistant"):
        raise Refused(f"{where}.role: Input should be 'user' or 'assistant'")
    content = message.get("content")
    if isinstance(content, str):
        _check_text(content, where)
        return
    if not isinstance(content, list):
        raise Refused(f"{where}.content: Input should be a valid list")
    if not content:
        raise Refused(f"{where}: {message['role']} messages must have non-empty content")
    allowed = USER_BLOCKS if message["role"] == "user" else ASSISTANT_BLOCKS
    for place, block in enumerate(content):
        _check_block(block, f"{where}.content.{place}", allowed, model)


def _check_text(text: Any, where: str) -> None:
    if not isinstance(text, str):
        raise Refused(f"{where}.text: Input should be a valid string")
    if not text:
        raise Refused(f"{where}: text content blocks must be non-empty")
    if not text.strip():
        raise Refused(f"{where}: text content blocks must contain non-whitespace text")


def _check_block(block: Any, where: str, allowed: tuple[str, ...], model: str) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in allowed:
        raise Refused(
            f"{where}: Input tag {kind!r} found using 'type' does not match any of the expected tags: {allowed}"
        )
    only_fields(block, ("type", *BLOCK_FIELDS[kind]), where)
    match kind:
        case "text":
            _check_text(block.get("text"), where)
        case "image":
            _check_image(block.get("source"), where, model)
        case "tool_use" | "server_tool_use":
            _check_use(block, where)
        case "tool_result":
            _check_result(block, where, model)
        case "thinking":
            if not isinstance(block.get("thinking"), str) or not isinstance(block.get("signature"), str):
                raise Refused(f"{where}.thinking.signature: Field required")
        case "redacted_thinking":
            if not block.get("data"):
                raise Refused(f"{where}.redacted_thinking.data: Field required")
        case _:
            pass


def _check_use(block: Json, where: str) -> None:
    if not isinstance(block.get("id"), str) or not ID.fullmatch(block["id"]):
        raise Refused(f"{where}.{block['type']}.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if not isinstance(block.get("name"), str) or not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"]):
        raise Refused(f"{where}.{block['type']}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    if not isinstance(block.get("input"), dict):
        raise Refused(f"{where}.{block['type']}.input: Input should be a valid dictionary")


def _check_result(block: Json, where: str, model: str) -> None:
    if not isinstance(block.get("tool_use_id"), str) or not ID.fullmatch(block["tool_use_id"]):
        raise Refused(f"{where}.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if not isinstance(block.get("is_error", False), bool):
        raise Refused(f"{where}.tool_result.is_error: Input should be a valid boolean")
    content = block.get("content", "")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise Refused(f"{where}.tool_result.content: Input should be a valid string or list")
    for place, part in enumerate(content):
        _check_block(part, f"{where}.tool_result.content.{place}", ("text", "image", "document"), model)
    if block.get("is_error") and any(part["type"] != "text" for part in content):
        raise Refused(f'{where}.tool_result: all content must be type "text" if `is_error` is true')


def _check_image(source: Any, where: str, model: str) -> None:
    if text_only(model):
        raise Refused(f"{where}: image input is not supported by this model")
    if not isinstance(source, dict) or source.get("type") not in ("base64", "url", "file"):
        raise Refused(f"{where}.image.source: Input tag does not match any of the expected tags")
    if source["type"] != "base64":
        return
    kind = source.get("media_type")
    if kind not in MAGIC:
        raise Refused(f"{where}.image.source.base64.media_type: Input should be one of {sorted(MAGIC)}")
    try:
        data = base64.b64decode(source.get("data", ""), validate=True)
    except (binascii.Error, TypeError) as problem:
        raise Refused(f"{where}.image.source.base64.data: invalid base64 data") from problem
    if not data.startswith(MAGIC[kind]):
        raise Refused(
            f"{where}.image.source.base64.data: The image was specified using the {kind} media type, but is not one"
        )
    if len(data) > 5 * 1024 * 1024:
        raise Refused(f"{where}.image.source.base64: image exceeds 5 MB maximum")


def _resumes_pause(content: list[Json], digests: _Digests, issued: Issued) -> bool:
    """Whether the last turn is a paused reply of ours, sent back as it came."""
    for kept in range(1, len(content) + 1):
        before = digests.all[-1 - kept]
        if (before, shape(content[-kept:])) in issued.pauses:
            return True
    return False


def _check_calls(turns: list[Turn]) -> None:
    """Each call is answered in the next user turn, results first, each id once in the whole history."""
    known: set[str] = set()
    waiting: list[str] = []
    for index, (role, blocks) in enumerate(turns):
        where = f"messages.{index}"
        if role == "assistant":
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
            if len(set(waiting)) != len(waiting) or known & set(waiting):
                raise Refused(f"{where}: `tool_use` ids must be unique")
            known |= set(waiting)
            continue
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if waiting and any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            raise Refused(_unanswered(index - 1, waiting))
        for id in results:
            if id not in waiting:
                raise Refused(
                    f"{where}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each "
                    "`tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
            if results.count(id) > 1:
                raise Refused(
                    f"{where}.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks "
                    f"with id: {id}"
                )
        if missing := [id for id in waiting if id not in results]:
            raise Refused(_unanswered(index - 1, missing))
        waiting = []
    if waiting:
        raise Refused(_unanswered(len(turns) - 1, waiting))


def _unanswered(index: int, ids: list[str]) -> str:
    return (
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(ids)}"
        ". Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _check_server_tools(turns: list[Turn], issued: Issued) -> None:
    """A search has its result in the same turn, unless the last assistant turn paused or also called a tool."""
    last = max((index for index, (role, _) in enumerate(turns) if role == "assistant"), default=-1)
    open_ids: dict[str, bool] = {}  # id: may its result come in the next assistant turn
    for index, (role, blocks) in enumerate(turns):
        if role != "assistant":
            continue
        carried = {id for id, mixed in open_ids.items() if mixed}
        open_ids = dict.fromkeys(carried, False)
        has_calls = any(block["type"] == "tool_use" for block in blocks)
        for block in blocks:
            if block["type"] == "server_tool_use":
                open_ids[block["id"]] = has_calls
            elif block["type"] == "web_search_tool_result":
                if block["tool_use_id"] not in open_ids:
                    raise Refused(
                        f"messages.{index}: unexpected `tool_use_id` found in `web_search_tool_result` blocks: "
                        f"{block['tool_use_id']}"
                    )
                del open_ids[block["tool_use_id"]]
            for secret in _sealed_parts(block):
                if secret not in issued.search_secrets:
                    raise Refused(f"messages.{index}: Invalid `encrypted_content` in `search_result` block")
        paused = index == last and turns[-1][0] == "assistant"
        lost = [id for id, mixed in open_ids.items() if not mixed and not paused]
        if lost:
            raise Refused(
                f"messages.{index}: `web_search` tool use with id `{lost[0]}` was found without a corresponding "
                "`web_search_tool_result` block"
            )


def _sealed_parts(block: Json) -> list[Any]:
    if block["type"] == "web_search_tool_result" and isinstance(block.get("content"), list):
        return [result.get("encrypted_content") for result in block["content"]]
    return [mark.get("encrypted_index") for mark in block.get("citations") or [] if "encrypted_index" in mark]


class _Place(NamedTuple):
    """A block with its position: in its turn (for messages) and in the whole history (for digests)."""

    where: str
    flat: int
    turn: list[Json]
    block: Json


def _places(turns: list[Turn]) -> list[_Place]:
    places: list[_Place] = []
    for index, (_role, blocks) in enumerate(turns):
        for place, block in enumerate(blocks):
            places.append(_Place(f"messages.{index}.content.{place}", len(places), blocks, block))
    return places


def _check_seals(turns: list[Turn], model: str, digests: _Digests, issued: Issued) -> None:
    for place in _places(turns):
        block = place.block
        if block["type"] not in SEALED:
            continue
        seals = issued.seals.get(seal_of(block), []) if seal_of(block) else []
        seals = [seal for seal in seals if seal.model == model]
        if not seals:
            raise Refused(f"{place.where}: Invalid `signature` in `{block['type']}` block")
        seals = [seal for seal in seals if seal.text == block.get("thinking", "")]
        if not seals:
            raise Refused(
                f"{place.where}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
                "modified. These blocks must remain as they were in the original response."
            )
        seals = [seal for seal in seals if _holds(seal.prefix, place.flat, digests)]
        if not seals:
            raise Refused(
                f"{place.where}: Invalid `signature` in `{block['type']}` block. The block is bound to a "
                "different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "
                '"drop_block".'
            )
        if not any(_whole_run(seal, place) for seal in seals):
            raise Refused(
                f"{place.where}: `thinking` blocks of one run must be kept or removed together, in their order"
            )


def _holds(prefix: Prefix, flat: int, digests: _Digests) -> bool:
    return prefix.count <= flat and digests.all[prefix.count] == prefix.digest


def _whole_run(seal: Seal, place: _Place) -> bool:
    """A run is whole, or cut at the end of the turn because its reply was interrupted there."""
    signatures = tuple(seal_of(block) if block["type"] in SEALED else "" for block in place.turn)
    size = len(seal.run)
    if any(signatures[at : at + size] == seal.run for at in range(len(signatures) - size + 1)):
        return True
    return any(signatures[-kept:] == seal.run[:kept] for kept in range(1, size))


def _check_open_loop(body: Json, turns: list[Turn], model: str, digests: _Digests, issued: Issued) -> None:
    """With thinking on, the turn whose calls are being answered still starts with the thinking it came with."""
    kind = (body.get("thinking") or {}).get("type")
    if kind in (None, "disabled") or len(turns) < 2 or turns[-1][1][0]["type"] != "tool_result":
        return
    blocks = turns[-2][1]
    if blocks[0]["type"] in SEALED:
        return
    start = sum(len(turn) for _role, turn in turns[:-2])
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    openings = [opening for id in calls for opening in issued.opened_by_thinking.get(id, [])]
    dropped = any(opening.model == model and _holds(opening.prefix, start, digests) for opening in openings)
    if kind == "enabled" or dropped:
        raise Refused(
            f"messages.{len(turns) - 2}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
            f"`{blocks[0]['type']}`. When `thinking` is enabled, a final `assistant` message must start with a "
            "thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
        )
