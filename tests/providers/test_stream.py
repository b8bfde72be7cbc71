"""One request as model events: every way a response can come, break or hang ends in one terminal event."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_nodes.events import TextDelta
from agent_nodes.messages import JsonObject
from agent_nodes.providers import anthropic_messages
from agent_nodes.providers.base import Failed, Finished, ModelEntry, ModelEvent
from agent_nodes.providers.sdk_wire import SdkWire
from agent_nodes.providers.stream import stream_response
from agent_nodes.providers.wire import HttpWire, Wire
from tests.fakes.clock import FakeClock
from tests.fakes.flags import HANG_GUARD, gate
from tests.fakes.scripts import (
    Reply,
    call,
    drip,
    drop_after,
    error,
    html,
    json_reply,
    raw,
    reset_after_head,
    reset_before_head,
    silent,
    stream_error,
    text,
)
from tests.fakes.server import FakeServer
from tests.providers.streaming import (
    KEY,
    PATH,
    PING,
    REQUEST,
    STOP,
    MiniDecoder,
    QueueWire,
    WireTo,
    collect,
    delta,
    failure_of,
    open_stream,
    text_of,
)

COMMENT = b": keep-alive\n\n"


# A good answer.


async def test_each_read_gives_one_batch_and_the_answer_ends_at_its_terminal_event() -> None:
    wire = QueueWire(delta("a") + delta("b"), delta("c")[:30], delta("c")[30:], STOP + delta("never"))
    batches = [batch async for batch in open_stream(wire)]
    assert batches == [[TextDelta("a", 0), TextDelta("b", 0)], [TextDelta("c", 0)], [Finished("end")]]
    assert wire.finished and wire.left


async def test_the_third_delta_is_there_before_the_fourth_is_sent(fake: FakeServer, wire: Wire) -> None:
    place = gate()
    fake.script(text("a", "b", "c", "d").hold(place, before=3))
    seen = ""
    async for batch in open_stream(wire):
        seen += text_of(batch)
        if seen == "abc":
            place.open()
    assert seen == "abcd"


async def test_st_01_korean_text_survives_one_byte_chunks(fake: FakeServer, wire: Wire) -> None:
    fake.script(text("점심 🍜 끝").split(1))
    model = ModelEntry("mine", "m", "anthropic-messages", fake.url)
    events: list[ModelEvent] = []
    async for batch in stream_response(
        wire, PATH, REQUEST, {}, anthropic_messages.Decoder(model), clock=FakeClock(), stall_timeout=300
    ):
        events += batch
    assert text_of(events) == "점심 🍜 끝"
    assert isinstance(events[-1], Finished)


@given(st.lists(st.integers(0, 10_000), max_size=12), st.lists(st.text(max_size=8), min_size=1, max_size=6))
def test_st_01_any_split_of_the_bytes_gives_the_same_events(cuts: list[int], texts: list[str]) -> None:
    body = COMMENT + PING.join(delta(piece.encode("utf-8", "replace").decode()) for piece in texts) + STOP
    edges = sorted({0, len(body), *(cut % len(body) for cut in cuts)})
    chunks = [body[start:stop] for start, stop in pairwise(edges)]
    events = asyncio.run(collect(QueueWire(*chunks, None)))
    assert events == asyncio.run(collect(QueueWire(body, None)))
    assert isinstance(events[-1], Finished)


async def test_a_last_event_without_its_blank_line_counts() -> None:
    events = await collect(QueueWire(delta("a"), STOP.rstrip(b"\n"), None))
    assert events == [TextDelta("a", 0), Finished("end")]


async def test_the_protocol_may_allow_an_end_without_a_terminal_event() -> None:
    events = await collect(QueueWire(delta("a"), None), MiniDecoder(lenient=True))
    assert events == [TextDelta("a", 0), Finished("end")]


async def test_a_silent_connection_behind_the_terminal_event_holds_nobody_up(fake: FakeServer, wire_to: WireTo) -> None:
    clock = FakeClock()  # never moves: waiting for anything would hang
    wire = wire_to(fake, clock)
    fake.script(text("done").ending("silence"))
    async with asyncio.timeout(HANG_GUARD):
        events = await collect(wire, clock=clock)
    assert text_of(events) == "done"
    await wire.close()


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", "text/plain", ""])
async def test_a_document_in_place_of_a_stream_is_taken_whole(content_type: str) -> None:
    document = json.dumps(
        {"type": "message", "content": [{"type": "text", "text": "점심"}]}, ensure_ascii=False
    ).encode()
    wire = QueueWire(b" \n", *[document[at : at + 1] for at in range(len(document))], None, content_type=content_type)
    assert await collect(wire) == [TextDelta("점심", 0), Finished("end")]


async def test_a_stream_that_is_declared_as_json_is_read_as_a_stream() -> None:
    wire = QueueWire(b"\xef\xbb", b"\xbf", delta("a"), STOP, None, content_type="application/json")
    assert await collect(wire) == [TextDelta("a", 0), Finished("end")]


# An answer that is none.


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (b"<html><title>Sign in</title>", "invalid", "Sign in"),
        (b'{"error":{"type":"overloaded_error","message":"Overloaded"}}', "transient", "Overloaded"),
        (b'{"error":{"code":"insufficient_quota","message":"no credit left"}}', "quota", "no credit left"),
        (b'{"type":"error","message":"flat"}', "transient", "flat"),
        (b'{"status":"ok"}', "invalid", '{"status":"ok"}'),
        (b"[1, 2]", "invalid", "[1, 2]"),
        (b'{"type":"message","content":[{"typ', "dropped", "broken JSON"),
        (b'{"type":"message","content":7}', "invalid", "no response of this protocol"),
        (b"", "dropped", "ended before it began"),
        (b" \r\n", "dropped", "ended before it began"),
    ],
)
async def test_a_body_that_is_no_answer_is_a_failure(body: bytes, kind: str, said: str) -> None:
    failure = failure_of(await collect(QueueWire(body, None)))
    assert failure.kind == kind
    assert failure.retryable == (kind in {"transient", "dropped"})
    assert said in failure.message


async def test_a_page_that_starts_with_text_is_known_by_its_type() -> None:
    failure = failure_of(await collect(QueueWire(b"Please <b>sign in</b>", None, content_type="text/html")))
    assert (failure.kind, failure.retryable) == ("invalid", False)
    assert "Please sign in" in failure.message


async def test_a_login_page_and_a_foreign_document_over_http(fake: FakeServer, wire: Wire) -> None:
    fake.script(html(), json_reply({"hello": "world"}))
    assert "Sign in" in failure_of(await collect(wire)).message
    assert "base_url" in failure_of(await collect(wire)).message


@pytest.mark.parametrize("payload", [b"{", b"[]", b"null", b'{"type":"content_block_delta"}', b"{}"])
async def test_an_event_that_cannot_be_read_is_a_drop_and_keeps_what_came_before(payload: bytes) -> None:
    wire = QueueWire(delta("a") + b"data: " + payload + b"\n\n" + delta("b"), None)
    events = await collect(wire)
    assert text_of(events) == "a"
    failure = failure_of(events)
    assert (failure.kind, failure.retryable) == ("dropped", True)
    assert payload.decode() in failure.message
    assert not wire.finished  # such a connection is not used again


async def test_an_event_above_the_limit_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_nodes.providers.sse.SseReader.__init__.__defaults__", (100,))
    events = await collect(QueueWire(delta("a"), b"data: " + b"x" * 100))
    assert text_of(events) == "a"
    assert (failure_of(events).kind, failure_of(events).retryable) == ("invalid", False)


async def test_a_document_above_the_limit_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_nodes.providers.stream.EVENT_LIMIT", 100)
    failure = failure_of(await collect(QueueWire(b"{" + b" " * 60, b" " * 60)))
    assert (failure.kind, failure.retryable) == ("invalid", False)


# Errors of the service.


async def test_st_05_an_overload_inside_a_good_answer_is_retryable(fake: FakeServer, wire: Wire) -> None:
    fake.script(stream_error("overloaded"), text("ok"))
    events = await collect(wire)
    assert len(events) == 1
    failure = failure_of(events)
    assert (failure.kind, failure.retryable) == ("transient", True)
    assert "Overloaded" in failure.message
    assert text_of(await collect(wire)) == "ok"
    assert fake.requests[0].raw == fake.requests[1].raw


@pytest.mark.parametrize("form", ["3", "Fri, 15 Jan 2027 08:00:03 GMT"])
async def test_re_01_retry_after_is_read_in_both_forms(fake: FakeServer, form: str, wire_to: WireTo) -> None:
    clock = FakeClock(1_800_000_000.0)  # Fri, 15 Jan 2027 08:00:00 GMT
    wire = wire_to(fake, clock)
    fake.script(error(429, retry_after=form))
    failure = failure_of(await collect(wire, clock=clock))
    assert (failure.kind, failure.retryable, failure.retry_after) == ("transient", True, 3.0)
    await wire.close()


async def test_re_03_an_empty_account_says_so_and_is_not_retried(fake: FakeServer, wire: Wire) -> None:
    fake.script(json_reply({"error": {"code": "insufficient_quota", "message": "no credit left"}}, 429))
    failure = failure_of(await collect(wire))
    assert (failure.kind, failure.retryable, failure.status) == ("quota", False, 429)
    assert failure.message == "no credit left (HTTP 429, insufficient_quota)"


async def test_no_key_leaves_in_a_failure(fake: FakeServer, wire: Wire) -> None:
    fake.script(error(401, f"bad key {KEY}"), json_reply({"error": f"bad key {KEY}"}), raw(f"data: {KEY}\n\n"))
    for _ in range(3):
        message = failure_of(await collect(wire)).message
        assert KEY not in message
        assert "***" in message


@pytest.mark.parametrize("ending", ["fin", "rst", "done"])
async def test_the_status_counts_where_the_error_text_breaks_off(fake: FakeServer, wire: Wire, ending: str) -> None:
    fake.script(raw("no such model", status=404, content_type="text/plain").ending(ending))  # type: ignore[arg-type]
    failure = failure_of(await collect(wire))
    # A client reads an error's text before it says anything, and knows no status without it.
    lost = isinstance(wire, SdkWire) and ending != "done"
    assert (failure.kind, failure.status) == (("dropped", None) if lost else ("invalid", 404))


async def test_an_error_text_that_does_not_end_is_not_waited_for_long() -> None:
    clock = FakeClock()
    wire = QueueWire(b"Overloaded", status=529)
    task = asyncio.create_task(collect(wire, clock=clock))
    assert await clock.wait_timer() > 0
    await wire.chunks.join()
    clock.advance(11)
    failure = failure_of(await task)
    assert (failure.kind, failure.status) == ("transient", 529)
    assert failure.message == "Overloaded (HTTP 529)"
    assert clock.pending == 0


async def test_an_endless_error_text_is_read_only_in_part() -> None:
    failure = failure_of(await collect(QueueWire(*[b"x" * 20_000] * 5, status=500)))
    assert failure.status == 500
    assert len(failure.message) <= 1000


# Connections that break.


@pytest.mark.parametrize("end", ["done", "fin", "rst"])
async def test_st_03_a_body_that_ends_early_is_a_drop_and_never_a_finish(
    fake: FakeServer, wire: Wire, end: str
) -> None:
    fake.script(drop_after("The total is ", end=end))  # type: ignore[arg-type]
    events = await collect(wire)
    assert text_of(events) == "The total is "
    assert (failure_of(events).kind, failure_of(events).retryable) == ("dropped", True)


async def test_st_03_a_cut_in_mid_event_is_a_drop() -> None:
    events = await collect(QueueWire(delta("The total is "), delta("41.")[:60], None))
    assert text_of(events) == "The total is "
    assert failure_of(events).message == "The answer ended before it was complete."


@pytest.mark.parametrize(
    "reply",
    [
        reset_after_head(),
        reset_before_head(),
        raw("data: half").short_length(),
        raw("\x1f\x8bbroken").with_headers(content_encoding="gzip"),
        drop_after(call("read", {"path": "a.txt"}), end="rst"),
    ],
)
async def test_re_06_a_broken_connection_is_a_retryable_drop_in_plain_words(
    fake: FakeServer, wire: Wire, reply: Reply
) -> None:
    fake.script(reply, text("ok"))
    failure = failure_of(await collect(wire, TextlessDecoder()))
    assert (failure.kind, failure.retryable) == ("dropped", True)
    assert failure.message and "Error" not in failure.message and "httpx" not in failure.message
    assert text_of(await collect(wire)) == "ok"


async def test_re_06_a_refused_connection_is_a_retryable_drop(fake: FakeServer, wire: Wire) -> None:
    await fake.deafen()
    failure = failure_of(await collect(wire))
    assert (failure.kind, failure.retryable) == ("dropped", True)
    assert failure.message == f"No connection to {fake.url}: Connection refused."
    await fake.listen()
    fake.script(text("ok"))
    assert text_of(await collect(wire)) == "ok"


async def test_any_exception_of_a_wire_is_a_failure() -> None:
    for problem in (httpx2.ReadTimeout(""), EOFError(), RuntimeError("closed")):
        events = await collect(QueueWire(delta("a"), problem))
        assert text_of(events) == "a"
        assert (failure_of(events).kind, failure_of(events).retryable) == ("dropped", True)


async def test_a_proxy_that_cannot_be_used_is_told_and_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "socksio", None)
    failure = failure_of(await collect(HttpWire("http://models.test", {}, FakeClock())))
    assert (failure.kind, failure.retryable) == ("invalid", False)
    assert "ALL_PROXY" in failure.message and "socksio" in failure.message


@pytest.fixture
def no_network_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_network_settings")
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HTTP_PROXY", "garbage"),
        ("http_proxy", "http://"),
        ("http_proxy", "http://name:SECRET@[::1"),
        ("HTTP_PROXY", "http://proxy.test:SECRET"),
        ("HTTP_PROXY", "http://pro xy.test:SECRET"),
        ("HTTP_PROXY", "http://-\u2603.\u00ad.test"),
        ("ALL_PROXY", "ftp://proxy.test:1"),
        ("all_proxy", "://proxy.test:1"),
    ],
)
async def test_a_variable_that_names_no_proxy_is_told_and_not_retried(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    failure = failure_of(await collect(HttpWire("http://models.test", {}, FakeClock())))
    assert (failure.kind, failure.retryable) == ("invalid", False)
    assert failure.message.startswith(f"{variable} names no proxy that can be used")
    assert "SECRET" not in failure.message


@pytest.mark.usefixtures("no_network_settings")
async def test_a_proxy_out_of_reach_is_named_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://name:SECRET@127.0.0.1:1/")
    failure = failure_of(await collect(HttpWire("http://models.test", {}, FakeClock())))
    assert (failure.kind, failure.retryable) == ("dropped", True)
    assert failure.message == (
        "The proxy 127.0.0.1:1 of http_proxy gave no connection to http://models.test: Connection refused."
    )


@pytest.mark.usefixtures("no_network_settings")
@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
@pytest.mark.parametrize("kind", ["missing", "no certificates", "folder", "fifo"])
async def test_certificates_that_are_none_are_told_and_not_retried(
    variable: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    if kind == "no certificates":
        place.write_text("root:x:0:0")
    elif kind == "fifo":
        os.mkfifo(place)
    elif kind == "folder" and variable == "SSL_CERT_FILE":
        place.mkdir()
    monkeypatch.setenv(variable, str(place))
    failure = failure_of(await collect(HttpWire("https://127.0.0.1:1", {}, FakeClock())))
    assert (failure.kind, failure.retryable) == ("invalid", False)
    assert failure.message.startswith(f"{variable} must name a f") and f"{place} is none." in failure.message


# Connections that hang.


async def test_re_06_no_byte_until_the_limit_is_a_drop(fake: FakeServer, wire_to: WireTo) -> None:
    clock = FakeClock()
    wire = wire_to(fake, clock)
    fake.script(silent(), text("ok"))
    task = asyncio.create_task(collect(wire, clock=clock))
    await fake.wait_requests(1)
    clock.advance(299)
    assert not task.done()
    clock.advance(2)
    failure = failure_of(await task)
    assert (failure.kind, failure.retryable) == ("dropped", True)
    assert "300 seconds" in failure.message
    await fake.requests[0].left.wait()
    assert text_of(await collect(wire, clock=clock)) == "ok"
    await wire.close()


async def test_st_11_comments_are_no_sign_of_life() -> None:
    clock = FakeClock()
    wire = QueueWire(delta("a"))
    task = asyncio.create_task(collect(wire, clock=clock, stall=1.0))
    await wire.taken()
    for _ in range(4):
        clock.advance(0.2)
        wire.chunks.put_nowait(COMMENT)
        await wire.taken()
    assert not task.done()
    clock.advance(0.2)
    events = await task
    assert text_of(events) == "a"
    assert (failure_of(events).kind, failure_of(events).retryable) == ("dropped", True)
    assert wire.left and clock.pending == 0


async def test_st_11_pings_and_other_events_are_signs_of_life() -> None:
    clock = FakeClock()
    wire = QueueWire(delta("a"))
    task = asyncio.create_task(collect(wire, clock=clock, stall=1.0))
    for chunk in (PING, delta("b"), PING, PING, STOP):
        await wire.taken()
        clock.advance(0.9)
        wire.chunks.put_nowait(chunk)
    assert await task == [TextDelta("a", 0), TextDelta("b", 0), Finished("end")]
    assert clock.pending == 0


async def test_st_11_a_drip_of_comments_ends_and_its_connection_is_closed(fake: FakeServer, wire_to: WireTo) -> None:
    clock = FakeClock()
    wire = wire_to(fake, clock)
    fake.script(drop_after("half", end=drip(0.005)), text("ok"))
    stream = open_stream(wire, clock=clock, stall=1.0)
    assert text_of(await anext(stream)) == "half"
    rest = asyncio.create_task(anext(stream))
    await clock.wait_timer()
    await asyncio.sleep(0)
    clock.advance(2)
    assert failure_of(await rest).kind == "dropped"
    await fake.requests[0].left.wait()
    assert text_of(await collect(wire, clock=clock)) == "ok"
    await wire.close()


async def test_st_11_an_abort_ends_a_silent_stream_at_once(fake: FakeServer, wire: Wire) -> None:
    fake.script(drop_after("half", end="silence"))
    clock = FakeClock()
    got = asyncio.Event()

    async def consume() -> None:
        async for _ in open_stream(wire, clock=clock):
            got.set()

    task = asyncio.create_task(consume())
    await got.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await fake.requests[0].left.wait()
    assert (len(fake.requests), clock.pending) == (1, 0)


async def test_a_cancellation_in_the_moment_of_the_stall_is_still_a_cancellation() -> None:
    clock = FakeClock()
    wire = QueueWire()
    task = asyncio.create_task(collect(wire, clock=clock))
    await clock.wait_timer()
    clock.advance(301)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert wire.left


async def test_slow_closing_behind_the_terminal_event_is_no_stall() -> None:
    clock = FakeClock()

    class SlowToClose(QueueWire):
        @asynccontextmanager
        async def open(self, path: str, body: bytes, headers: Mapping[str, str]) -> AsyncIterator[QueueWire]:
            yield self
            clock.advance(1000)
            await asyncio.sleep(0)

    assert await collect(SlowToClose(delta("a"), STOP), clock=clock) == [TextDelta("a", 0), Finished("end")]


async def test_time_that_the_consumer_takes_does_not_count() -> None:
    clock = FakeClock()
    wire = QueueWire(delta("a"), delta("b"))
    stream = open_stream(wire, clock=clock, stall=10.0)
    assert await anext(stream) == [TextDelta("a", 0)]
    clock.advance(1000)
    assert await anext(stream) == [TextDelta("b", 0)]
    clock.advance(1000)
    last = asyncio.create_task(anext(stream))
    assert await clock.wait_timer() == pytest.approx(10.0)
    clock.advance(9)
    assert not last.done()
    clock.advance(1.1)
    assert isinstance((await last)[-1], Failed)


async def test_each_read_may_be_made_by_another_task() -> None:
    clock = FakeClock()
    stream = open_stream(QueueWire(delta("a")), clock=clock, stall=10.0)
    assert await asyncio.create_task(anext(stream)) == [TextDelta("a", 0)]  # type: ignore[arg-type]
    second = asyncio.create_task(anext(stream))  # type: ignore[arg-type]
    await clock.wait_timer()
    await asyncio.sleep(0)
    clock.advance(10.1)
    assert isinstance((await second)[-1], Failed)


async def test_one_timer_serves_a_whole_stream() -> None:
    armed = 0

    class Counting(FakeClock):
        def call_later(self, delay, callback):
            nonlocal armed
            armed += 1
            return super().call_later(delay, callback)

    await collect(QueueWire(*[delta("x")] * 100, STOP), clock=Counting())
    assert armed == 1


# A consumer that goes away.


async def test_a_consumer_that_stops_early_closes_the_connection(fake: FakeServer, wire: Wire) -> None:
    clock = FakeClock()
    fake.script(text("a", "b").hold(gate(), before=1))
    stream = open_stream(wire, clock=clock)
    await anext(stream)
    await stream.aclose()
    await fake.requests[0].left.wait()
    assert clock.pending == 0


class TextlessDecoder(MiniDecoder):
    """For answers whose deltas are no text."""

    def feed(self, payload: bytes, out: list[ModelEvent]) -> None:
        if b"input_json_delta" not in payload:
            super().feed(payload, out)

    def whole(self, answer: JsonObject, out: list[ModelEvent]) -> None:
        raise AssertionError("no document was sent")
