"""The fake provider at the level of bytes and sockets: what it breaks, it breaks exactly as scripted."""

import json
from typing import Any

import httpx2
import pytest

from tests.fakes import (
    FakeServer,
    Reply,
    call,
    close_before_head,
    drip,
    drop_after,
    gate,
    html,
    prerendered,
    raw,
    reply,
    reset_after_head,
    reset_before_head,
    silent,
    text,
)

HEADERS = {"authorization": "Bearer k", "anthropic-version": "2026-10-21"}
PATHS = {"anthropic": "/v1/messages", "responses": "/v1/responses", "completions": "/v1/chat/completions"}
BODIES: dict[str, dict[str, Any]] = {
    "anthropic": {"model": "m", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "hi"}]},
    "responses": {"model": "m", "input": "hi", "stream": True, "store": False},
    "completions": {
        "model": "m",
        "stream": True,
        "messages": [{"role": "user", "content": "hi"}],
        "stream_options": {"include_usage": True},
    },
}


def post(client: httpx2.AsyncClient, fake: FakeServer, protocol: str = "anthropic") -> Any:
    return client.stream("POST", fake.url + PATHS[protocol], json=BODIES[protocol], headers=HEADERS)


async def body_of(answer: Reply, protocol: str = "anthropic") -> str:
    async with FakeServer() as fake, httpx2.AsyncClient() as client:
        fake.script(answer)
        async with post(client, fake, protocol) as response:
            return (await response.aread()).decode()


def data_of(body: str) -> list[Any]:
    lines = [line[6:] for line in body.splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


async def test_a_body_split_into_single_bytes_comes_in_as_many_chunks() -> None:
    whole = await body_of(text("점심 🍜 끝"))
    async with FakeServer() as fake, httpx2.AsyncClient() as client:
        fake.script(text("점심 🍜 끝").split(1))
        async with post(client, fake) as response:
            pieces = [piece async for piece in response.aiter_raw()]
    assert b"".join(pieces).decode() == whole
    assert {len(piece) for piece in pieces} == {1}


async def test_raw_bytes_are_sent_untouched() -> None:
    broken = "event: ping\r\ndata:\r\n\r\n: note\n\ndata: {nope"
    assert await body_of(raw(broken)) == broken


@pytest.mark.parametrize("answer", [drop_after("half", end="fin"), text("half").short_length()])
async def test_a_body_can_stop_short_of_what_its_framing_promises(answer: Reply) -> None:
    with pytest.raises(httpx2.RemoteProtocolError):
        await body_of(answer)


async def test_a_connection_can_be_reset_in_the_middle_of_the_body() -> None:
    async with FakeServer() as fake, httpx2.AsyncClient() as client:
        held = gate()
        fake.script(drop_after("half", end="rst").hold(held, before="tail"))
        seen = b""
        with pytest.raises(httpx2.ReadError):
            async with post(client, fake) as response:
                async for piece in response.aiter_raw():
                    seen += piece
                    held.open()
    assert b"half" in seen


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (reset_before_head(), httpx2.ReadError),
        (close_before_head(), httpx2.RemoteProtocolError),
        (reset_after_head(), httpx2.ReadError),
    ],
)
async def test_a_connection_can_break_around_the_response_head(answer: Reply, problem: type[Exception]) -> None:
    with pytest.raises(problem):
        await body_of(answer)


@pytest.mark.parametrize("answer", [silent(), drop_after("half", end="silence"), text("all").ending("silence")])
async def test_silence_lasts_until_the_client_leaves(answer: Reply) -> None:
    async with FakeServer() as fake:
        async with httpx2.AsyncClient(timeout=httpx2.Timeout(30, read=0.05)) as client:
            fake.script(answer)
            with pytest.raises(httpx2.ReadTimeout):
                async with post(client, fake) as response:
                    await response.aread()
        await fake.requests[0].left.wait()


async def test_comments_drip_until_the_client_leaves() -> None:
    async with FakeServer() as fake:
        async with httpx2.AsyncClient() as client:
            fake.script(drop_after("half", end=drip(0.001)))
            async with post(client, fake) as response:
                seen = ""
                async for piece in response.aiter_text():
                    seen += piece
                    if seen.count(": keep-alive\n\n") > 2:
                        break
        await fake.requests[0].left.wait()


async def test_a_full_body_may_end_with_the_connection() -> None:
    assert data_of(await body_of(text("all").framed("close")))[-1]["type"] == "message_stop"


async def test_a_refused_connection_is_open_again_after_listen() -> None:
    async with FakeServer() as fake, httpx2.AsyncClient() as client:
        fake.script(text("back"))
        await fake.deafen()
        with pytest.raises(httpx2.ConnectError):
            async with post(client, fake):
                pass
        await fake.listen()
        async with post(client, fake) as response:
            assert "back" in (await response.aread()).decode()


async def test_a_connection_is_kept_between_requests() -> None:
    async with FakeServer() as fake, httpx2.AsyncClient() as client:
        fake.script(text("one"), text("two"))
        for _ in range(2):
            async with post(client, fake) as response:
                await response.aread()
        assert (fake.connections_made, fake.open_connections) == (1, 1)


async def test_data_only_streams_have_no_event_lines() -> None:
    for protocol in ("anthropic", "responses"):
        body = await body_of(text("x").data_only(), protocol)
        assert "event:" not in body
        assert data_of(body)[-1]["type"] in ("message_stop", "response.completed")


@pytest.mark.parametrize(("index", "seen"), [("real", [0, 0, 0, 1, 1, 1]), ("missing", [None, None]), ("zero", [0, 0])])
async def test_chat_calls_can_lack_a_usable_index(index: str, seen: list[int | None]) -> None:
    calls = reply(call("read", {"path": "a.txt"}, id="c1"), call("read", {"path": "b.txt"}, id="c2"))
    chunks = data_of(await body_of(calls.quirky(call_index=index), "completions"))
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk != "[DONE]" and chunk["choices"]]
    entries = [entry for delta in deltas for entry in delta.get("tool_calls", [])]
    assert [entry.get("index") for entry in entries] == seen
    assert [entry["id"] for entry in entries if "id" in entry] == ["c1", "c2"]


@pytest.mark.parametrize(("choices", "expected"), [("empty", []), ("null", None)])
async def test_chat_usage_comes_in_a_chunk_of_its_own(choices: str, expected: Any) -> None:
    answer = text("done").using(11, 2).quirky(usage_choices=choices)
    *_, usage, done = data_of(await body_of(answer, "completions"))
    assert (usage["choices"], usage["usage"]["total_tokens"], done) == (expected, 13, "[DONE]")


async def test_chat_usage_can_be_elsewhere_or_nowhere() -> None:
    def usages(body: str) -> list[int | None]:
        chunks = [chunk for chunk in data_of(body) if chunk != "[DONE]"]
        return [(chunk.get("usage") or {}).get("total_tokens") for chunk in chunks]

    answer = text("done").using(11, 2)
    assert usages(await body_of(answer.quirky(usage_in="every"), "completions")) == [13, 13, 13]
    assert usages(await body_of(answer.quirky(usage_in="finish"), "completions")) == [None, None, 13]
    assert usages(await body_of(answer.quirky(usage_in="never"), "completions")) == [None, None, None]
    assert usages(await body_of(answer.without_usage(), "completions")) == [None, None, None]


async def test_the_done_line_can_be_missing() -> None:
    chunks = data_of(await body_of(text("x").without_usage().quirky(done_line=False), "completions"))
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


async def test_all_blocks_may_be_complete_and_the_terminal_event_missing() -> None:
    for protocol, last in (("anthropic", "content_block_stop"), ("responses", "response.output_item.done")):
        assert data_of(await body_of(text("x").without_terminal(), protocol))[-1]["type"] == last


async def test_cut_counts_deltas() -> None:
    body = await body_of(reply(text("a", "b"), text("c", "d")).cut(after=3))
    assert [event["delta"]["text"] for event in data_of(body) if "delta" in event] == ["a", "b", "c"]


async def test_comments_and_pings_can_be_inserted_anywhere() -> None:
    body = await body_of(text("a", "b").comment("hold on", before=1).insert(b"event: ping\ndata: \n\n", before="stop"))
    assert body.index('"a"') < body.index(": hold on\n\n") < body.index('"b"') < body.index("event: ping\ndata: \n\n")


async def test_a_hold_behind_the_last_delta_is_a_mistake_of_the_script() -> None:
    fake = FakeServer()
    await fake.start()
    async with httpx2.AsyncClient() as client:
        fake.script(text("a").hold(gate(), before=5))
        async with post(client, fake) as response:
            assert response.status_code == 500
    await fake.close()
    with pytest.raises(AssertionError, match="a hold before delta 5"):
        fake.raise_failures()


async def test_other_content_types_can_be_sent() -> None:
    async with FakeServer() as fake, httpx2.AsyncClient() as client:
        fake.script(html())
        async with post(client, fake) as response:
            assert (response.headers["content-type"], response.status_code) == ("text/html", 200)
            assert (await response.aread()).startswith(b"<html>")


@pytest.mark.parametrize("path", ["/messages", "/v1/messages", "/gateway/v1/messages", "/gateway/messages?beta=true"])
async def test_a_base_address_may_have_a_version_and_a_prefix(path: str) -> None:
    async with FakeServer() as fake, httpx2.AsyncClient() as client:
        fake.script(text("x"))
        answer = await client.post(fake.url + path, json=BODIES["anthropic"], headers=HEADERS)
        doubled = await client.post(fake.url + "/v1/v1/messages", json=BODIES["anthropic"], headers=HEADERS)
    assert (answer.status_code, doubled.status_code) == (200, 404)


async def test_another_key_is_refused_where_one_is_set() -> None:
    async with FakeServer(api_key="right") as fake, httpx2.AsyncClient() as client:
        fake.script(text("x"))
        wrong = await client.post(fake.url + "/v1/messages", json=BODIES["anthropic"], headers=HEADERS)
        headers = {**HEADERS, "x-api-key": "right"}
        right = await client.post(fake.url + "/v1/messages", json=BODIES["anthropic"], headers=headers)
    assert (wrong.status_code, wrong.json()["error"]["type"]) == (401, "authentication_error")
    assert right.status_code == 200


@pytest.mark.parametrize("protocol", ["anthropic", "responses", "completions"])
async def test_prerendered_bytes_are_the_answers_own(protocol: Any) -> None:
    answer = text(*["word "] * 5000).using(1, 5000)
    fixed, fresh = (
        data_of(await body_of(prerendered(answer, protocol), protocol)),
        data_of(await body_of(answer, protocol)),
    )
    assert len(fixed) == len(fresh)
    assert sum("word " in str(event) for event in fixed) >= 5000


async def test_a_large_reply_waits_for_its_reader() -> None:
    async with FakeServer() as fake, httpx2.AsyncClient() as client:
        fake.script(text("x" * 20_000_000))
        async with post(client, fake) as response:
            assert not fake.requests[0].finished.is_set()
            assert len(await response.aread()) > 20_000_000
        await fake.requests[0].finished.wait()
