"""The log of requests, and a view of them that is the same for the three protocols."""

import dataclasses
import functools
import json
import re
from collections.abc import Iterator
from typing import Any, Literal

from tests.fakes.flags import Flag
from tests.fakes.scripts import Json

Protocol = Literal["anthropic", "responses", "completions"]
_PATH = re.compile(r"^(?P<prefix>(?:/[\w.~-]+)*?)(?:/v1)?/(?P<end>messages|responses|chat/completions)$")
_PROTOCOLS: dict[str, Protocol] = {
    "messages": "anthropic",
    "responses": "responses",
    "chat/completions": "completions",
}


def protocol_of(path: str) -> Protocol | None:
    """The protocol behind a path, with or without `/v1` and a gateway's own prefix; None where no service answers."""
    found = _PATH.match(path.partition("?")[0])
    if found is None or found["prefix"].endswith("/v1"):
        return None
    return _PROTOCOLS[found["end"]]


@dataclasses.dataclass(slots=True)
class Message:
    """One turn as seen from outside any protocol; neighbours of one role are one message."""

    role: str
    texts: list[str] = dataclasses.field(default_factory=list[str])
    calls: list[tuple[str, str, Any]] = dataclasses.field(default_factory=list[tuple[str, str, Any]])
    """(call id, tool name, arguments parsed where they parse)."""
    results: list[tuple[str, str]] = dataclasses.field(default_factory=list[tuple[str, str]])
    """(call id, text of the result)."""
    thinking: list[str] = dataclasses.field(default_factory=list[str])
    """Signature, redacted data, encrypted content or reasoning text of each thinking block."""
    images: int = 0

    @property
    def text(self) -> str:
        return "".join(self.texts)


class Request:
    """One request as it came. `at` is `time.monotonic()` when it was complete."""

    def __init__(self, number: int, method: str, path: str, *, headers: dict[str, str], raw: bytes, at: float) -> None:
        self.number = number
        self.method = method
        self.path = path
        self.headers = headers
        self.raw = raw
        self.at = at
        self.protocol = protocol_of(path)
        self.refused: tuple[int, Json] | None = None
        """What the strict checks answered in place of the script."""
        self.status: int | None = None
        self.finished = Flag()
        """Set when the reply has been played to its end, or the client has left."""
        self.left = Flag()
        """Set when the client closed the connection before the reply was over."""

    def __repr__(self) -> str:
        return f"<Request {self.number} {self.method} {self.path} status={self.status} refused={self.refused}>"

    @functools.cached_property
    def json(self) -> Json:
        return json.loads(self.raw)

    @property
    def model(self) -> str:
        return self.json["model"]

    def system_text(self) -> str:
        body = self.json
        system = body.get("system") if self.protocol == "anthropic" else body.get("instructions")
        own = [message.text for message in self.messages() if message.role in ("system", "developer")]
        return "\n".join([*_texts(system), *own])

    def tool_names(self) -> list[str]:
        """Names of the offered tools, server tools included."""
        tools: list[Json] = self.json.get("tools") or []
        return [str((tool.get("function") or tool).get("name") or tool.get("type")) for tool in tools]

    def messages(self) -> list[Message]:
        seen: list[Message] = []
        for role, item in self._items():
            if not seen or seen[-1].role != role:
                seen.append(Message(role))
            _add(seen[-1], item)
        return seen

    def messages_text(self) -> list[tuple[str, str]]:
        """(role, text) of every message with text, system messages left out."""
        return [(m.role, m.text) for m in self.messages() if m.texts and m.role not in ("system", "developer")]

    def last_user_text(self) -> str:
        return next((text for role, text in reversed(self.messages_text()) if role == "user"), "")

    def call_ids(self) -> list[str]:
        return [id for message in self.messages() for id, _name, _args in message.calls]

    def calls(self) -> list[tuple[str, str, Any]]:
        return [entry for message in self.messages() for entry in message.calls]

    def results(self) -> dict[str, str]:
        """Result text by call id, in the order sent."""
        return {id: text for message in self.messages() for id, text in message.results}

    def thinking(self) -> list[str]:
        return [seal for message in self.messages() for seal in message.thinking]

    def images(self) -> int:
        return sum(message.images for message in self.messages())

    def _items(self) -> Iterator[tuple[str, Any]]:
        """(role, block or item) one by one."""
        if self.protocol == "responses":
            yield from _responses_items(self.json.get("input", []))
            return
        for message in self.json.get("messages", []):
            role: str = message["role"]
            if role == "tool":
                yield "user", {**message, "type": "tool_result", "tool_use_id": message.get("tool_call_id")}
                continue
            for name in ("reasoning_content", "reasoning"):
                if message.get(name):
                    yield role, {"type": "thinking", "signature": message[name]}
            content = message.get("content") or []
            for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                yield role, block
            for call in message.get("tool_calls") or []:
                function = call["function"]
                yield role, {"type": "function_call", "call_id": call["id"], **function}


def _responses_items(items: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(items, str):
        yield "user", {"type": "text", "text": items}
        return
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            content = item["content"]
            for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                yield item["role"], block
        elif kind == "function_call_output":
            yield "user", {"type": "tool_result", "tool_use_id": item["call_id"], "content": item["output"]}
        else:
            yield "assistant", item


def _add(message: Message, block: Json) -> None:
    match block.get("type"):
        case "text" | "input_text" | "output_text":
            message.texts.append(block["text"])
        case "refusal":
            message.texts.append(block["refusal"])
        case "tool_use":
            message.calls.append((block["id"], block["name"], block["input"]))
        case "function_call":
            message.calls.append((block["call_id"], block["name"], _parsed(block["arguments"])))
        case "tool_result":
            content = block.get("content") or []
            message.results.append((block["tool_use_id"], "".join(_texts(content))))
            message.images += sum("image" in part.get("type", "") for part in content if isinstance(part, dict))
        case "thinking":
            message.thinking.append(block.get("signature", ""))
        case "redacted_thinking":
            message.thinking.append(block["data"])
        case "reasoning":
            message.thinking.append(block.get("encrypted_content") or "")
        case "image" | "input_image" | "image_url":
            message.images += 1
        case _:
            pass


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content or [] if isinstance(part.get("text"), str)]


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
