"""The two floors: the least code that streams an answer, and the least that also keeps every step.

A session has all that a script needs, as ours has: its file, the history parsed from it, and an HTTP client of its own
that makes its connection with the first request. That client loads no trusted certificates. A plain http address needs
none, and our side loads none for it; with the library's default they would be most of what the floor pays for a cold
start or a reopening, and make the ratios look better than they are.
"""

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx2

from bench.common import SYSTEM, TOOL_NAME, TOOL_SCHEMA, TOOL_TEXT, Turn, Watch, echoed

TOOLS = [{"type": "function", "function": {"name": TOOL_NAME, "description": TOOL_TEXT, "parameters": TOOL_SCHEMA}}]


class Floor:
    """`steps`: each step is committed before the next one starts; otherwise one commit a turn."""

    def __init__(self, url: str, *, steps: bool) -> None:
        self.url = url + "/chat/completions"
        self.steps = steps

    async def close(self) -> None:
        """Each session has closed what it opened."""

    @asynccontextmanager
    async def session(self, folder: Path, script: str) -> AsyncIterator[Turn]:
        headers = {"authorization": "Bearer k", "content-type": "application/json"}
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60, verify=False))
            db = stack.enter_context(closing(sqlite3.connect(folder / "session.db", isolation_level=None)))
            db.execute("pragma journal_mode=wal")
            db.execute(f"pragma synchronous={'full' if self.steps else 'normal'}")
            db.execute("create table if not exists message (id integer primary key, body text not null)")
            history = History(db)

            async def turn(text: str, watch: Watch) -> None:
                history.add({"role": "user", "content": text})
                while True:
                    if self.steps:
                        history.commit()
                    answer = await self.ask(client, script, history.messages, watch)
                    history.add(answer)
                    calls = answer.get("tool_calls", ())
                    if self.steps or not calls:
                        history.commit()
                    if not calls:
                        return
                    for call in calls:
                        result = echoed(json.loads(call["function"]["arguments"])["text"])
                        history.add({"role": "tool", "tool_call_id": call["id"], "content": result})

            yield turn

    async def ask(
        self, client: httpx2.AsyncClient, script: str, messages: list[dict[str, Any]], watch: Watch
    ) -> dict[str, Any]:
        """One request: the assistant message that its stream adds up to."""
        body = {
            "model": script,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "tools": TOOLS,
        }
        texts: list[str] = []
        calls: dict[int, dict[str, Any]] = {}
        async with client.stream("POST", self.url, content=json.dumps(body)) as response:
            response.raise_for_status()
            async for data in events(response):
                for choice in data["choices"]:
                    delta = choice["delta"]
                    if text := delta.get("content"):
                        texts.append(text)
                        watch(text)
                    for part in delta.get("tool_calls", ()):
                        add_call(calls, part)
        message: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or None}
        if calls:
            message["tool_calls"] = list(calls.values())
        return message


class History:
    """The messages of a session, those not yet stored at the end."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        rows = db.execute("select body from message order by id")
        stored = [json.loads(body) for (body,) in rows]
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}, *stored]
        self.saved = len(self.messages)

    def add(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    def commit(self) -> None:
        rows = [(json.dumps(message),) for message in self.messages[self.saved :]]
        self.db.execute("begin immediate")
        self.db.executemany("insert into message (body) values (?)", rows)
        self.db.execute("commit")
        self.saved = len(self.messages)


async def events(response: httpx2.Response) -> AsyncIterator[Any]:
    rest = b""
    async for data in response.aiter_bytes():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data: ") and line != b"data: [DONE]":
                yield json.loads(line[6:])


def add_call(calls: dict[int, dict[str, Any]], part: dict[str, Any]) -> None:
    function = part["function"]
    if part["index"] not in calls:
        calls[part["index"]] = {"id": part["id"], "type": "function", "function": {"name": "", "arguments": ""}}
    known = calls[part["index"]]["function"]
    known["name"] += function.get("name", "")
    known["arguments"] += function.get("arguments", "")
