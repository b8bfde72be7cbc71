"""A fast loopback model in a process of its own: Chat Completions streaming, answers encoded ahead.

    python -m bench.fake        prints its address, runs until standard input ends

The request's `model` is the script: `text-50` answers with 50 text deltas; `tools-10-text-20` calls
the tool `echo` in ten rounds first. With the model `prompt` the newest user message is the script.
It holds no conversation: the round is the number of tool results after that message. `GET /last`
tells about the newest request (bytes of its body, messages, system prompt and tools present).
"""

import asyncio
import re
import sys
from typing import Any

import orjson

from bench.common import BY_PROMPT, DELTA, TOOL_NAME, words

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
SCRIPT = re.compile(r"(?:tools-(\d+)-)?text-(\d+)")


def event(data: bytes) -> bytes:
    """One server-sent event in an HTTP chunk of its own, as services send them."""
    text = b"data: " + data + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(text), text)


def piece(choices: list[Any], **more: Any) -> bytes:
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "bench"}
    return event(orjson.dumps({**common, "choices": choices, **more}))


def choice(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return piece([{"index": 0, "delta": delta, "finish_reason": finish}])


def tail(prompt_tokens: int, tokens: int) -> bytes:
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": tokens, "total_tokens": prompt_tokens + tokens}
    return piece([], usage=usage) + event(b"[DONE]") + b"0\r\n\r\n"


class Model:
    """Answers of the scripts, and what `/last` tells."""

    def __init__(self) -> None:
        self.texts: dict[int, bytes] = {}
        self.calls = 0
        self.last: dict[str, Any] = {}

    def answer(self, raw: bytes) -> bytes:
        body = orjson.loads(raw)
        messages = body["messages"]
        script = SCRIPT.fullmatch(newest_prompt(messages) if body["model"] == BY_PROMPT else body["model"])
        if script is None or not body.get("stream"):
            return refusal(b"400 Bad Request", "this model streams, and only scripts like text-50 or tools-10-text-20")
        tools = [tool["function"]["name"] for tool in body.get("tools", ())]
        self.last = {
            "bytes": len(raw),
            "messages": len(messages),
            "system": messages[0]["role"] in ("system", "developer"),
            "tools": tools,
        }
        rounds, count = int(script[1] or 0), int(script[2])
        prompt_tokens = len(raw) // 4
        done = results_at_end(messages)
        if done >= rounds:
            return HEAD + self.text(count) + tail(prompt_tokens, count)
        if TOOL_NAME not in tools:
            return refusal(b"400 Bad Request", f"the script calls the tool {TOOL_NAME}, which the request lacks")
        return HEAD + self.call(done + 1) + tail(prompt_tokens, 10)

    def text(self, count: int) -> bytes:
        if count not in self.texts:
            assert all(len(word) == DELTA for word in words(count))
            deltas = [choice({"content": word}) for word in words(count)]
            self.texts[count] = b"".join([choice({"role": "assistant", "content": ""}), *deltas, choice({}, "stop")])
        return self.texts[count]

    def call(self, number: int) -> bytes:
        self.calls += 1
        opened = {
            "index": 0,
            "id": f"call_{self.calls}",
            "type": "function",
            "function": {"name": TOOL_NAME, "arguments": ""},
        }
        arguments = {"index": 0, "function": {"arguments": f'{{"text":"round-{number}"}}'}}
        return (
            choice({"role": "assistant", "content": None, "tool_calls": [opened]})
            + choice({"tool_calls": [arguments]})
            + choice({}, "tool_calls")
        )


def newest_prompt(messages: list[dict[str, Any]]) -> str:
    return next(message["content"] for message in reversed(messages) if message["role"] == "user")


def results_at_end(messages: list[dict[str, Any]]) -> int:
    """Tool results after the last user message."""
    count = 0
    for message in reversed(messages):
        if message["role"] == "user":
            break
        count += message["role"] == "tool"
    return count


def plain(status: bytes, data: Any) -> bytes:
    text = orjson.dumps(data)
    return b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (status, len(text), text)


def refusal(status: bytes, why: str) -> bytes:
    return plain(status, {"error": {"message": why, "type": "invalid_request_error", "code": None, "param": None}})


class Connection(asyncio.Protocol):
    """As much HTTP/1.1 as a client with a known body length needs."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.buffer = bytearray()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.buffer[:end])
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            size = end + 4 + (int(length[1]) if length else 0)
            if len(self.buffer) < size:
                return
            body = bytes(self.buffer[end + 4 : size])
            del self.buffer[:size]
            assert self.transport is not None
            self.transport.write(self.respond(head.split(b" ", 2), body))

    def respond(self, line: list[bytes], body: bytes) -> bytes:
        match line[:2]:
            case [b"POST", path] if path.endswith(b"/chat/completions"):
                return self.model.answer(body)
            case [b"GET", b"/last"]:
                return plain(b"200 OK", self.model.last)
            case _:
                return refusal(b"404 Not Found", "no such path")


async def serve() -> None:
    loop = asyncio.get_running_loop()
    model = Model()
    server = await loop.create_server(lambda: Connection(model), "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(serve())
