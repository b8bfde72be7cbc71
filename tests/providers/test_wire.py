"""The wire over HTTP: what is sent, how a body is read, and what becomes of the connection."""

import asyncio
import gc
import gzip
import json
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from types import AsyncGeneratorType

import httpcore2
import httpx2
import pytest

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.errors import InputValidationError
from agent_nodes.providers import wire as wire_module
from agent_nodes.providers.wire import DRAIN_TIME, HttpWire, Wire
from tests.fakes.clock import FakeClock
from tests.fakes.flags import gate
from tests.fakes.scripts import error, raw, text
from tests.fakes.server import FakeServer
from tests.fakes.strict import keys_in
from tests.providers.streaming import KEY, PATH, REQUEST, WireTo

HEADERS = {"x-api-key": KEY, "anthropic-version": "2026-10-21"}


def open_generators() -> list[str]:
    """Bodies of the client that are neither read to their end nor closed."""
    found = [item for item in gc.get_objects() if type(item) is AsyncGeneratorType and item.ag_frame is not None]
    return [item.__qualname__ for item in found if "httpcore2" in item.ag_code.co_filename]


async def body_of(wire: Wire, *, finish: bool = False) -> bytes:
    async with wire.open(PATH, REQUEST, {}) as response:
        parts = [chunk async for chunk in response]
        if finish:
            response.finish()
    return b"".join(parts)


async def test_the_request_is_sent_as_given(fake: FakeServer, wire: Wire) -> None:
    fake.script(text("hello"))
    async with wire.open(PATH, REQUEST, {"anthropic-beta": "x-1"}) as response:
        assert response.status == 200
        assert response.headers.get("content-type", "").startswith("text/event-stream")
        body = b"".join([chunk async for chunk in response])
    assert b"hello" in body
    [request] = fake.requests
    assert (request.method, request.path, request.raw) == ("POST", PATH, REQUEST)
    assert KEY in keys_in(request.headers)
    assert request.headers["anthropic-beta"] == "x-1"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["content-length"] == str(len(REQUEST))
    assert request.headers["host"] == f"127.0.0.1:{fake.port}"


@pytest.mark.parametrize(
    ("base", "path", "sent"),
    [
        ("", "/v1/messages", "/v1/messages"),
        ("/", "v1/messages", "/v1/messages"),
        ("/gateway/a/", "/v1/messages", "/gateway/a/v1/messages"),
    ],
)
async def test_the_path_goes_behind_the_base_url(
    fake: FakeServer, wire_to: WireTo, base: str, path: str, sent: str
) -> None:
    fake.script(text("hello"))
    wire = wire_to(fake, base=base)
    async with wire.open(path, REQUEST, {}) as response:
        assert response.status == 200
    assert fake.requests[0].path == sent


async def test_a_query_of_the_base_url_stays_behind_the_path(fake: FakeServer) -> None:
    fake.script(text("hello"))
    wire = HttpWire(fake.url + "/gateway?version=2", HEADERS, SYSTEM_CLOCK)
    await body_of(wire)
    await wire.close()
    assert fake.requests[0].path == "/gateway/v1/messages?version=2"


async def test_a_compressed_body_is_read_although_none_was_asked_for(fake: FakeServer, wire: Wire) -> None:
    plain = b"data: " + b"x" * 5000 + b"\n\n"
    packed = gzip.compress(plain)
    fake.script(raw(packed[:20], packed[20:]).with_headers(content_encoding="gzip"))
    assert await body_of(wire) == plain


async def test_a_body_read_to_its_end_leaves_the_connection_for_the_next_request(fake: FakeServer, wire: Wire) -> None:
    fake.script(text("a"), error(529), text("b"))
    for _ in range(3):
        await body_of(wire)
    assert (len(fake.requests), fake.connections_made) == (3, 1)


async def test_a_finished_answer_is_drained_in_the_background_and_its_connection_used_again(
    fake: FakeServer, wire_to: WireTo
) -> None:
    clock = FakeClock()
    wire = wire_to(fake, clock)
    tail = gate()
    fake.script(text("a").hold(tail, before="tail"), text("b"))
    async with wire.open(PATH, REQUEST, {}) as response:
        async for chunk in response:
            if b"message_stop" in chunk:
                response.finish()
                break
    assert await clock.wait_timer() == pytest.approx(DRAIN_TIME, abs=0.001)
    tail.open()
    while clock.pending:  # noqa: ASYNC110  # the timer goes with the drain
        await asyncio.sleep(0.001)
    await body_of(wire)
    assert (len(fake.requests), fake.connections_made) == (2, 1)
    await wire.close()


async def test_a_finished_answer_that_does_not_end_is_closed_after_a_moment(fake: FakeServer, wire_to: WireTo) -> None:
    clock = FakeClock()
    wire = wire_to(fake, clock)
    fake.script(text("a").ending("silence"))
    async with wire.open(PATH, REQUEST, {}) as response:
        async for chunk in response:
            if b"message_stop" in chunk:
                response.finish()
                break
    await clock.wait_timer()
    assert not fake.requests[0].left.is_set()
    clock.advance(DRAIN_TIME)
    await fake.requests[0].left.wait()
    await wire.close()


async def test_closing_the_wire_ends_a_drain_that_has_not_begun(fake: FakeServer, wire: Wire) -> None:
    fake.script(text("a").ending("silence"))
    async with wire.open(PATH, REQUEST, {}) as response:
        async for _ in response:
            response.finish()
            break
    await wire.close()
    assert open_generators() == []
    await fake.requests[0].left.wait()


async def test_leaving_an_answer_that_is_not_finished_closes_its_connection(fake: FakeServer, wire: Wire) -> None:
    fake.script(text("a").ending("silence"))
    async with wire.open(PATH, REQUEST, {}) as response:
        async for _ in response:
            break
    assert open_generators() == []
    await fake.requests[0].left.wait()


async def test_an_exception_of_the_reader_closes_the_connection(fake: FakeServer, wire: Wire) -> None:
    fake.script(text("a").ending("silence"))
    with pytest.raises(KeyError):
        async with wire.open(PATH, REQUEST, {}) as response:
            async for _ in response:
                raise KeyError
    assert open_generators() == []
    await fake.requests[0].left.wait()


@pytest.mark.parametrize("before", ["head", "stop"])
async def test_cancelling_closes_the_socket_at_once(fake: FakeServer, wire: Wire, before: str) -> None:
    place = gate()
    fake.script(text("a").hold(place, before=before))  # type: ignore[arg-type]
    task = asyncio.create_task(body_of(wire))
    await place.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await fake.requests[0].left.wait()
    fake.script(text("b"))
    assert b'"b"' in await body_of(wire)


def test_each_event_loop_has_its_own_connections() -> None:
    with FakeServer.in_thread() as fake:
        wire = HttpWire(fake.url, HEADERS, SYSTEM_CLOCK)

        async def turn() -> None:
            for _ in range(2):
                await body_of(wire)
            await wire.close()

        fake.script(*[text("a")] * 4)
        asyncio.run(turn())
        asyncio.run(turn())
        assert (len(fake.requests), fake.connections_made) == (4, 2)


async def test_a_closed_wire_opens_again(fake: FakeServer, wire: Wire) -> None:
    fake.script(text("a"), text("b"))
    await body_of(wire)
    await wire.close()
    await wire.close()
    assert b'"b"' in await body_of(wire)


@pytest.fixture
def nothing_loaded() -> Iterator[None]:
    """As in a process that has not encrypted anything yet."""
    wire_module._tls.cache_clear()
    yield
    wire_module._tls.cache_clear()


@pytest.mark.usefixtures("nothing_loaded")
async def test_plain_http_loads_no_certificates(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise AssertionError("certificates loaded")

    monkeypatch.setattr(httpcore2, "default_ssl_context", refuse)
    fake.script(text("a"))
    plain = HttpWire(fake.url, HEADERS, SYSTEM_CLOCK)
    await body_of(plain)
    await plain.close()
    secure = HttpWire("https://127.0.0.1:1", {}, SYSTEM_CLOCK)
    with pytest.raises(AssertionError, match="certificates loaded"):
        await body_of(secure)
    monkeypatch.setenv("HTTP_PROXY", "https://127.0.0.1:1")  # the way to the proxy is to be checked
    with pytest.raises(AssertionError, match="certificates loaded"):
        await body_of(HttpWire("http://models.test", {}, SYSTEM_CLOCK))


@pytest.mark.usefixtures("nothing_loaded")
async def test_wires_share_the_certificates_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = tmp_path / "authority.pem"
    authority.touch()
    loaded: list[str | None] = []

    def load(**_: object) -> ssl.SSLContext:
        loaded.append(os.environ.get("SSL_CERT_FILE"))
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    async def ask() -> None:
        wire = HttpWire("https://127.0.0.1:1", {}, SYSTEM_CLOCK)
        with pytest.raises(httpx2.ConnectError):
            await body_of(wire)
        await wire.close()

    monkeypatch.setattr(httpcore2, "default_ssl_context", load)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    await ask()
    await ask()
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    await ask()
    await ask()
    assert loaded == [None, str(authority)]


async def test_a_proxy_for_everything_needs_no_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeServer(strict=False) as proxy:
        proxy.script(raw("data: by proxy\n\n"))
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("all_proxy", proxy.url.removeprefix("http://"))
        far = HttpWire("http://models.test", {}, SYSTEM_CLOCK)
        assert await body_of(far) == b"data: by proxy\n\n"
        await far.close()


async def test_proxies_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeServer(strict=False) as proxy, FakeServer(strict=False) as direct:
        proxy.script(raw("data: by proxy\n\n"))
        direct.script(raw("data: direct\n\n"))
        for name in ("HTTP_PROXY", "NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        far, near = HttpWire("http://models.test", {}, SYSTEM_CLOCK), HttpWire(direct.url, HEADERS, SYSTEM_CLOCK)
        assert await body_of(far) == b"data: by proxy\n\n"
        assert proxy.requests[0].path == "http://models.test/v1/messages"
        assert await body_of(near) == b"data: direct\n\n"
        await far.close()
        await near.close()


@pytest.mark.parametrize(
    "base",
    ["", "models.test", "ftp://models.test", "http://", "file:///x", "http://a:99999", "http://a:b", "http://[::1"],
)
def test_an_address_that_cannot_be_called_is_refused(base: str) -> None:
    with pytest.raises(InputValidationError) as caught:
        HttpWire(base, {}, SYSTEM_CLOCK)
    assert caught.value.field == "base_url"


def test_an_address_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(InputValidationError) as caught:
        HttpWire("https://user:hunter22@models.test", {}, SYSTEM_CLOCK)
    assert caught.value.field == "base_url"
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize(
    "key", ["", " sk-secret-1", "sk-secret-1\n", "sk-secret-1\r\nx: y", "sk-secret-ключ", "sk-\x00"]
)
def test_a_key_that_no_header_can_hold_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(InputValidationError) as caught:
        HttpWire("https://models.test", {"x-api-key": key}, SYSTEM_CLOCK)
    assert caught.value.field == "api_key"
    assert "x-api-key" in str(caught.value)
    assert "sk-" not in str(caught.value)


async def test_the_key_is_in_no_picture_of_the_wire(fake: FakeServer, wire: Wire) -> None:
    fake.script(text("a"))
    async with wire.open(PATH, REQUEST, {}) as response:
        assert KEY not in f"{wire!r}{wire}{response!r}{response.headers!r}{wire.origin}"
    assert json.loads(fake.requests[0].raw) == json.loads(REQUEST)
