"""Requests through official clients: the same ones as over our own wire, whatever a platform makes of them."""

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator
from typing import Any
from zlib import crc32

import anthropic
import httpx
import httpx2
import openai
import pytest
from anthropic.lib.bedrock import AsyncAnthropicBedrock
from anthropic.lib.credentials import AccessToken
from anthropic.lib.vertex import AsyncAnthropicVertex

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.messages import ImageBlock, TextBlock, UserMessage
from agent_nodes.providers import anthropic_messages
from agent_nodes.providers.aws_events import as_sse
from agent_nodes.providers.base import Failed, Finished, Fold, ModelEntry
from agent_nodes.providers.connect import connect
from agent_nodes.providers.sdk_wire import EnvironmentWire, SdkWire
from tests.fakes import FakeServer, error, raw, text
from tests.providers.protocols import APIS, PNG, entry, request, said, user
from tests.providers.streaming import KEY, PATH, REQUEST, collect, failure_of, text_of

every_protocol = pytest.mark.parametrize("api", APIS)

# What clients add of their own. Anything else is a change of theirs that must be looked at.
ONLY_SDK = ("x-stainless-", "connection")


def plain() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(verify=False, timeout=600)  # loads no certificates


def client_of(api: str, fake: FakeServer, **options: Any) -> Any:
    options = {"api_key": KEY, "http_client": plain(), **options}
    if api == "anthropic-messages":
        return anthropic.AsyncAnthropic(base_url=fake.url, **options)
    return openai.AsyncOpenAI(base_url=fake.v1, **options)


def model_of(api: str, fake: FakeServer) -> ModelEntry:
    if api == "anthropic-messages":
        return entry(api, provider="anthropic", model="claude-sonnet-5-5", base_url=fake.url)
    return entry(api, provider="openai", model="gpt-5.5", base_url=fake.v1)


async def ask(provider: Any, model: ModelEntry, *messages: Any) -> Any:
    """The folded answer, or the failure."""
    fold, last = Fold(), None
    async for events in provider.stream(request(model, messages or [user("hi")], cache_key="k")):
        for event in events:
            fold.add(event)
            last = event
    if isinstance(last, Failed):
        return last.failure
    assert isinstance(last, Finished)
    return fold.message(model, last.stop)


@every_protocol
@pytest.mark.feature("C01")
async def test_both_wires_send_the_same_request(api: str) -> None:
    async with FakeServer(api_key=KEY) as fake:
        model, client = model_of(api, fake), client_of(api, fake)
        fake.script(text("a"), text("a"))
        picture = UserMessage((TextBlock("look — 점심 🍜"), ImageBlock(PNG, "image/png")))
        context = [user("hi"), said(model, TextBlock("so")), picture]
        own = connect(model, KEY, clock=SYSTEM_CLOCK, stall_timeout=30)
        through = connect(model, None, clock=SYSTEM_CLOCK, stall_timeout=30, client=client)
        for provider in (own, through):
            assert (await ask(provider, model, *context)).text == "a"
            await provider.close()
        await client.close()
        fake.assert_accepted()
    ours, theirs = fake.requests
    assert (ours.method, ours.path, ours.raw) == (theirs.method, theirs.path, theirs.raw)
    added = {name for name in theirs.headers if not name.startswith(ONLY_SDK)}
    # The key in a second form is for gateways in front of older clients.
    known = {name: value for name, value in ours.headers.items() if name != "x-api-key"}
    assert added == known.keys()
    changed = {name for name in added if theirs.headers[name] != known[name]}
    assert changed == {"user-agent"}


async def test_a_provider_leaves_the_client_open_and_may_be_used_again() -> None:
    async with FakeServer() as fake:
        model, client = model_of("openai-responses", fake), client_of("openai-responses", fake)
        fake.script(text("a"), text("b"))
        for said in ("a", "b"):
            provider = connect(model, None, clock=SYSTEM_CLOCK, stall_timeout=30, client=client)
            assert (await ask(provider, model)).text == said
            await provider.close()
        assert not client.is_closed()
        await client.close()


@every_protocol
async def test_a_client_never_tries_again_by_itself(api: str) -> None:
    async with FakeServer() as fake:
        model, client = model_of(api, fake), client_of(api, fake, max_retries=5)
        fake.script(error(529, retry_after="7"))
        provider = connect(model, None, clock=SYSTEM_CLOCK, stall_timeout=30, client=client)
        failure = await ask(provider, model)
        assert (failure.kind, failure.status, failure.retry_after) == ("transient", 529, 7.0)
        assert len(fake.requests) == 1
        await client.close()


async def test_a_redirect_is_told_and_not_followed() -> None:
    async with FakeServer() as fake:
        client = client_of("anthropic-messages", fake)
        fake.script(raw("", status=307).with_headers(location="http://elsewhere.test/v1/messages"))
        failure = failure_of(await collect(SdkWire(client, "anthropic-messages", SYSTEM_CLOCK)))
        assert "redirects to http://elsewhere.test" in failure.message
        await client.close()


async def test_a_key_of_the_client_is_in_no_message() -> None:
    async with FakeServer() as fake:
        client = client_of("anthropic-messages", fake)
        fake.script(error(401, f"bad key {KEY}"))
        failure = failure_of(await collect(SdkWire(client, "anthropic-messages", SYSTEM_CLOCK)))
        assert failure.kind == "auth" and KEY not in failure.message and "***" in failure.message
        await client.close()


async def test_a_client_closed_in_between_is_told_by_name() -> None:
    async with FakeServer() as fake:
        client = client_of("anthropic-messages", fake)
        wire = SdkWire(client, "anthropic-messages", SYSTEM_CLOCK)
        await client.close()
        failure = failure_of(await collect(wire))
    assert (failure.kind, failure.retryable) == ("invalid", False)
    assert failure.message.startswith("client: ")


async def test_a_client_that_cannot_send_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", "")
    monkeypatch.setenv("HOME", "/no/such/home")
    client = anthropic.AsyncAnthropic(base_url="http://127.0.0.1:1", http_client=plain())
    failure = failure_of(await collect(SdkWire(client, "anthropic-messages", SYSTEM_CLOCK)))
    assert (failure.kind, failure.retryable) == ("invalid", False)
    assert failure.message.startswith("client: ") and "authentication" in failure.message
    await client.close()


async def test_a_client_over_the_older_http_library_serves_too() -> None:
    async with FakeServer() as fake:
        model = model_of("openai-completions", fake)
        client = client_of("openai-completions", fake, http_client=httpx.AsyncClient(verify=False))
        provider = connect(model, None, clock=SYSTEM_CLOCK, stall_timeout=30, client=client)
        fake.script(text("a", "b"), error(503, "later"))
        assert (await ask(provider, model)).text == "ab"
        assert (await ask(provider, model)).status == 503
        await fake.deafen()
        await client.close()
        failure = await ask(provider, model)
        assert failure.message.startswith("client: ")
        await provider.close()


async def test_a_refused_connection_of_the_older_library_is_a_drop() -> None:
    older: Any = httpx.AsyncClient(verify=False)
    client = openai.AsyncOpenAI(api_key="k", base_url="http://127.0.0.1:1/v1", http_client=older)
    failure = failure_of(await collect(SdkWire(client, "openai-responses", SYSTEM_CLOCK)))
    assert (failure.kind, failure.retryable) == ("dropped", True)
    await client.close()


async def test_middleware_of_a_client_sees_the_request_and_the_bytes_pass() -> None:
    seen: list[str] = []

    async def watch(asked: Any, call_next: Any) -> Any:
        answer = await call_next(asked)
        seen.append(f"{asked.options.url} {answer.http_response.status_code}")
        return answer

    async with FakeServer() as fake:
        client = client_of("anthropic-messages", fake, middleware=[watch])
        fake.script(text("a"), error(529))
        wire = SdkWire(client, "anthropic-messages", SYSTEM_CLOCK)
        assert text_of(await collect(wire)) == "a"
        assert failure_of(await collect(wire)).status == 529
        assert seen == [f"{PATH} 200", f"{PATH} 529"]
        await client.close()


async def test_an_answer_that_a_hook_of_the_client_has_read_is_there_all_the_same() -> None:
    async def log(answer: httpx2.Response) -> None:
        await answer.aread()

    async with FakeServer() as fake:
        hooked = httpx2.AsyncClient(verify=False, event_hooks={"response": [log]})
        client = client_of("anthropic-messages", fake, http_client=hooked)
        fake.script(text("a", "b"), error(529))
        wire = SdkWire(client, "anthropic-messages", SYSTEM_CLOCK)
        assert text_of(await collect(wire)) == "ab"
        assert failure_of(await collect(wire)).status == 529
        await client.close()


# Credentials that are renewed.


async def test_a_token_that_was_dropped_is_asked_for_anew_once() -> None:
    tokens = iter(["old", "new", "never"])

    async def provide(**_: Any) -> Any:
        return AccessToken(next(tokens), None)

    async with FakeServer(api_key="new") as fake:
        client = anthropic.AsyncAnthropic(base_url=fake.url, credentials=provide, http_client=plain())
        fake.script(text("a"))
        wire = SdkWire(client, "anthropic-messages", SYSTEM_CLOCK)
        assert text_of(await collect(wire)) == "a"
        assert [one.headers["authorization"] for one in fake.requests] == ["Bearer old", "Bearer new"]
        assert [one.raw for one in fake.requests] == [REQUEST, REQUEST]
        fake.api_key = "other"
        failure = failure_of(await collect(wire))
        assert (failure.kind, len(fake.requests)) == ("auth", 4)
        await client.close()


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "tok-of-the-environment")
    return "tok-of-the-environment"


async def test_credentials_of_the_environment_go_through_the_official_client(token: str) -> None:
    async with FakeServer(api_key=token) as fake:
        model = model_of("anthropic-messages", fake)
        provider = connect(model, None, clock=SYSTEM_CLOCK, stall_timeout=30)
        fake.script(text("a"), text("b"), error(401, f"unknown {token}"))
        async with asyncio.TaskGroup() as group:
            first = group.create_task(ask(provider, model))
            second = group.create_task(ask(provider, model))
        assert {first.result().text, second.result().text} == {"a", "b"}
        failure = await ask(provider, model)
        assert failure.kind == "auth" and token not in failure.message
        await provider.close()
        await provider.close()
        fake.script(text("c"))
        assert (await ask(provider, model)).text == "c"
        await provider.close()


def test_the_official_client_is_loaded_with_the_first_request_only(token: str) -> None:
    program = """
import sys
from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.providers.base import ModelEntry
from agent_nodes.providers.connect import connect

entry = ModelEntry("anthropic", "claude-sonnet-5-5", "anthropic-messages", "https://api.anthropic.com")
connect(entry, None, clock=SYSTEM_CLOCK, stall_timeout=1)
print([name for name in ("anthropic", "openai", "httpx2") if name in sys.modules])
"""
    import subprocess

    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


async def test_a_broken_profile_is_told_by_name(token: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN")
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_PROFILE", "work")
    wire = EnvironmentWire("https://api.anthropic.com", SYSTEM_CLOCK)
    failure = failure_of(await collect(wire))
    assert (failure.kind, failure.retryable) == ("invalid", False)
    assert failure.message.startswith("api_key: the credentials that the environment names cannot be used")
    assert "work" in failure.message
    await wire.close()


async def test_a_profile_brings_its_own_address(token: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    async with FakeServer(api_key="tok-of-the-profile") as fake:
        monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN")
        monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
        for folder in ("configs", "credentials"):
            (tmp_path / folder).mkdir()
        profile = {"base_url": fake.url, "authentication": {"type": "user_oauth"}}
        (tmp_path / "configs" / "default.json").write_text(json.dumps(profile))
        secret = tmp_path / "credentials" / "default.json"
        secret.write_text(json.dumps({"access_token": "tok-of-the-profile"}))
        secret.chmod(0o600)
        wire = EnvironmentWire("https://api.anthropic.com", SYSTEM_CLOCK)
        fake.script(text("a"))
        assert text_of(await collect(wire)) == "a"
        await wire.close()


# Platforms.


def framed(headers: dict[str, str], payload: bytes, before: bytes = b"") -> bytes:
    """One message of the binary event stream."""
    head = before + b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + len(value).to_bytes(2) + value.encode()
        for name, value in headers.items()
    )
    prelude = (16 + len(head) + len(payload)).to_bytes(4) + len(head).to_bytes(4)
    message = prelude + crc32(prelude).to_bytes(4) + head + payload
    return message + crc32(message).to_bytes(4)


def chunk(payload: bytes) -> bytes:
    body = json.dumps({"bytes": base64.b64encode(payload).decode(), "p": "abcd"}).encode()
    return framed({":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}, body)


def bedrock_stream(*events: dict[str, Any]) -> bytes:
    return b"".join(chunk(json.dumps(event).encode()) for event in events)


ANSWER = (
    {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "점심"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 3}},
)
EVENTSTREAM = "application/vnd.amazon.eventstream"


async def bedrock_provider(fake: FakeServer, **options: Any) -> tuple[Any, ModelEntry, Any]:
    client = AsyncAnthropicBedrock(
        aws_region="eu-west-1", base_url=fake.url, http_client=plain(), **(options or {"api_key": "k"})
    )
    model = entry("anthropic-messages", provider="anthropic", model="anthropic.claude-sonnet-5-5-v1:0")
    return client, model, connect(model, None, clock=SYSTEM_CLOCK, stall_timeout=30, client=client)


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_bedrock_moves_the_model_into_the_path_and_its_frames_are_read(size: int) -> None:
    async with FakeServer(strict=False) as fake:
        client, model, provider = await bedrock_provider(fake)
        whole = bedrock_stream(*ANSWER)
        fake.script(raw(*[whole[at : at + size] for at in range(0, len(whole), size)], content_type=EVENTSTREAM))
        asked = request(model, [user("hi")])
        message = await ask(provider, model)
        assert message.text == "점심"
        sent = fake.requests[0]
        assert sent.path == "/model/anthropic.claude-sonnet-5-5-v1:0/invoke-with-response-stream"
        ours = json.loads(anthropic_messages.draft(asked).encode())
        del ours["model"], ours["stream"]
        assert sent.json == {**ours, "anthropic_version": "2026-10-21"}
        assert sent.headers["authorization"] == "Bearer k"
        await client.close()


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("throttlingException", "Too many requests, please wait", "transient"),
        ("modelStreamErrorException", "try again", "transient"),
        ("validationException", "malformed input", "invalid"),
        ("validationException", "prompt is too long: 5 tokens > 4 maximum", "overflow"),
    ],
)
async def test_errors_inside_bedrocks_stream(kind: str, text: str, found: str) -> None:
    async with FakeServer(strict=False) as fake:
        client, model, provider = await bedrock_provider(fake)
        thrown = framed({":message-type": "exception", ":exception-type": kind}, json.dumps({"message": text}).encode())
        fake.script(raw(bedrock_stream(*ANSWER[:3]) + thrown, content_type=EVENTSTREAM))
        failure = await ask(provider, model)
        assert (failure.kind, text in failure.message) == (found, True)
        await client.close()


@pytest.mark.parametrize("damage", ["cut", "prelude", "body"])
async def test_a_damaged_stream_of_bedrock_is_a_drop(damage: str) -> None:
    whole = bytearray(bedrock_stream(*ANSWER))
    if damage == "cut":
        del whole[-300:]
    else:
        whole[2 if damage == "prelude" else 40] ^= 0xFF
    async with FakeServer(strict=False) as fake:
        client, model, provider = await bedrock_provider(fake)
        fake.script(raw(bytes(whole), content_type=EVENTSTREAM))
        failure = await ask(provider, model)
        assert (failure.kind, failure.retryable) == ("dropped", True)
        await client.close()


async def test_headers_of_every_kind_are_passed_over() -> None:
    kinds = [b"\x00", b"\x01", b"\x02\x05", b"\x03\x00\x05", b"\x04" + b"\x00" * 4, b"\x05" + b"\x00" * 8]
    kinds += [b"\x06\x00\x03abc", b"\x08" + b"\x00" * 8, b"\x09" + b"\x01" * 16]
    extra = b"".join(b"\x01" + bytes([97 + place]) + kind for place, kind in enumerate(kinds))
    payload = json.dumps({"bytes": base64.b64encode(b'{"a": 1}').decode()}).encode()

    async def source() -> AsyncIterator[bytes]:
        yield framed({":event-type": "chunk"}, payload, extra)
        yield framed({":event-type": "something-new"}, b"{}")

    assert [part async for part in as_sse(source())] == [b'data: {"a": 1}\n\n']


async def test_vertex_moves_the_model_into_the_path() -> None:
    async with FakeServer(strict=False) as fake:
        client = AsyncAnthropicVertex(
            region="europe-west1", project_id="p-1", access_token="vx-hush", base_url=fake.url, http_client=plain()
        )
        model = entry("anthropic-messages", provider="anthropic", model="claude-sonnet-5-5@20260901")
        provider = connect(model, None, clock=SYSTEM_CLOCK, stall_timeout=30, client=client)
        stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in ANSWER)
        fake.script(raw(stream))
        assert (await ask(provider, model)).text == "점심"
        sent = fake.requests[0]
        path = "/projects/p-1/locations/europe-west1/publishers/anthropic/models/claude-sonnet-5-5@20260901"
        assert sent.path in {f"{path}:streamRawPredict", f"{path.replace('@', '%40')}:streamRawPredict"}
        ours = json.loads(anthropic_messages.draft(request(model, [user("hi")])).encode())
        del ours["model"]
        assert sent.json == {**ours, "anthropic_version": "2026-10-21"}
        assert sent.headers["authorization"] == "Bearer vx-hush"
        await client.close()


@pytest.mark.parametrize("api", ["openai-completions", "openai-responses"])
async def test_azure_moves_the_deployment_into_the_path(api: str) -> None:
    async with FakeServer(strict=False) as fake:
        client = openai.AsyncAzureOpenAI(
            azure_endpoint=fake.url, api_version="2026-10-01", api_key="az-hush", http_client=plain()
        )
        model = entry(api, provider="openai", model="gpt-5.5")
        provider = connect(model, None, clock=SYSTEM_CLOCK, stall_timeout=30, client=client)
        fake.script(error(400, "no az-hush"))
        assert "az-hush" not in (await ask(provider, model)).message
        sent = fake.requests[0]
        place = "/deployments/gpt-5.5/chat/completions" if api == "openai-completions" else "/responses"
        assert sent.path == f"/openai{place}?api-version=2026-10-01"
        assert sent.headers["api-key"] == "az-hush"
        assert sent.json["model"] == "gpt-5.5"
        await client.close()
