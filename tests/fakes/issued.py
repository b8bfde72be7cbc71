"""What this fake has handed out: the real services recognise their own seals and ids, so the checks must too.

A Messages thinking signature is bound to its model, its text and everything before it (system, tools, earlier blocks).
The digests here chain over that prefix, so that checking a long history stays linear.
"""

import dataclasses
import hashlib
import json
from typing import Any, NamedTuple

from tests.fakes.scripts import Json


class Prefix(NamedTuple):
    """A point in a conversation: the number of blocks before it and the digest over them, system and tools."""

    count: int
    digest: str


class Seal(NamedTuple):
    """One signature as it was issued; `run` holds all signatures of its run of neighbouring thinking blocks."""

    model: str
    text: str
    prefix: Prefix
    run: tuple[str, ...]


class Opening(NamedTuple):
    """A tool call whose reply began with thinking."""

    model: str
    prefix: Prefix


@dataclasses.dataclass(slots=True)
class Issued:
    """Memory of one server. Each entry is a list: a reply repeated after a crash is issued again."""

    seals: dict[str, list[Seal]] = dataclasses.field(default_factory=dict[str, list[Seal]])
    opened_by_thinking: dict[str, list[Opening]] = dataclasses.field(default_factory=dict[str, list[Opening]])
    pauses: set[tuple[str, tuple[tuple[str, str], ...]]] = dataclasses.field(
        default_factory=set[tuple[str, tuple[tuple[str, str], ...]]]
    )
    search_secrets: set[str] = dataclasses.field(default_factory=set[str])
    reasoning: dict[str, set[tuple[str, str]]] = dataclasses.field(default_factory=dict[str, set[tuple[str, str]]])
    """Responses: encrypted content to (model, item id)."""
    needs_reasoning: dict[str, str] = dataclasses.field(default_factory=dict[str, str])
    """Responses: item id to the id of the reasoning item right before it."""
    call_ids: set[str] = dataclasses.field(default_factory=set[str])

    def note(self, protocol: str, body: Json, content: list[Json], document: Json) -> None:
        """Remember a reply: `content` as the client will keep it, `document` the reply as one JSON body."""
        if protocol == "anthropic":
            self._note_messages(body, content, document.get("stop_reason"))
        elif protocol == "responses":
            self._note_responses(body, content)
        else:
            self.call_ids.update(call["id"] for call in content[0].get("tool_calls", []))

    def _note_messages(self, body: Json, content: list[Json], stop: Any) -> None:
        model = str(body.get("model"))
        sealed = [block for block in content if block.get("type") in ("thinking", "redacted_thinking")]
        opens = bool(content) and content[0] in sealed
        if not (sealed or stop == "pause_turn" or any("search" in block.get("type", "") for block in content)):
            self.call_ids.update(block["id"] for block in content if block.get("type") == "tool_use")
            return
        digests = prefix_digests(body)
        prefix = Prefix(len(digests) - 1, digests[-1])
        for run in _runs(content):
            signatures = tuple(seal_of(block) for block in run)
            for block, signature in zip(run, signatures, strict=True):
                self.seals.setdefault(signature, []).append(Seal(model, block.get("thinking", ""), prefix, signatures))
        for block in content:
            if block.get("type") == "tool_use":
                self.call_ids.add(block["id"])
                if opens:
                    self.opened_by_thinking.setdefault(block["id"], []).append(Opening(model, prefix))
            self.search_secrets.update(_secrets(block))
        if stop == "pause_turn":
            self.pauses.add((prefix.digest, shape(content)))

    def _note_responses(self, body: Json, output: list[Json]) -> None:
        before: Json | None = None
        for item in output:
            if item.get("type") == "reasoning":
                if item.get("encrypted_content"):
                    entry = (str(body.get("model")), item["id"])
                    self.reasoning.setdefault(item["encrypted_content"], set()).add(entry)
            elif before is not None and before.get("type") == "reasoning" and "id" in item:
                self.needs_reasoning[item["id"]] = before["id"]
            if item.get("type") == "function_call":
                self.call_ids.add(item["call_id"])
            before = item


def seal_of(block: Json) -> str:
    return str(block.get("signature") if block["type"] == "thinking" else block.get("data"))


def shape(content: list[Json]) -> tuple[tuple[str, str], ...]:
    """A turn reduced to what a client must keep of it."""
    names = {"text": "text", "tool_use": "id", "server_tool_use": "id", "web_search_tool_result": "tool_use_id"}
    return tuple(
        (kind, seal_of(block) if "thinking" in kind else str(block.get(names.get(kind, "type"))))
        for block in content
        for kind in (str(block.get("type")),)
    )


def merged(messages: list[Json]) -> list[tuple[str, list[Json]]]:
    """Turns as the service sees them: neighbours of one role joined, plain strings as text blocks."""
    turns: list[tuple[str, list[Json]]] = []
    for message in messages:
        content = message["content"]
        blocks: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(blocks)
        else:
            turns.append((message["role"], list(blocks)))
    return turns


def prefix_digests(body: Json) -> list[str]:
    """Entry n is the digest over system, tools and the first n blocks of the messages, cache marks left out."""
    system = body.get("system") or []
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    digest = _digest("", [_unmarked(block) for block in system], [_unmarked(tool) for tool in body.get("tools") or []])
    digests = [digest]
    for role, blocks in merged(body["messages"]):
        for block in blocks:
            digest = _digest(digest, role, _unmarked(block))
            digests.append(digest)
    return digests


def _unmarked(block: Json) -> Json:
    kept = {name: value for name, value in block.items() if name != "cache_control"}
    if isinstance(kept.get("content"), list):
        kept["content"] = [_unmarked(part) if isinstance(part, dict) else part for part in kept["content"]]
    return kept


def _digest(before: str, *values: Any) -> str:
    text = json.dumps([before, *values], sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _runs(content: list[Json]) -> list[list[Json]]:
    runs: list[list[Json]] = []
    joined = False
    for block in content:
        sealed = block.get("type") in ("thinking", "redacted_thinking")
        if sealed and joined:
            runs[-1].append(block)
        elif sealed:
            runs.append([block])
        joined = sealed
    return runs


def _secrets(block: Json) -> list[str]:
    if block.get("type") == "web_search_tool_result" and isinstance(block.get("content"), list):
        return [result["encrypted_content"] for result in block["content"]]
    return [citation["encrypted_index"] for citation in block.get("citations") or []]
