"""Requests through an official client object, which brings its own address and credentials; only bytes pass it.

The client's retries are off, nothing of a request goes through its typed parameters, and its own reading of streams is
left aside: what comes back is what :class:`~agent_nodes.providers.wire.HttpWire` gives.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from agent_nodes._clock import Clock
from agent_nodes.errors import InputValidationError
from agent_nodes.messages import ApiKind
from agent_nodes.providers import aws_events
from agent_nodes.providers.anthropic_messages import OFFICIAL_HOST
from agent_nodes.providers.clients import changes_bodies, check_client, endpoint_of_client, is_closed, secrets_of
from agent_nodes.providers.error_report import one_line
from agent_nodes.providers.sse import loads
from agent_nodes.providers.wire import ACCEPT, Answers, HttpAnswer, WireResponse

if TYPE_CHECKING:
    import httpx2

# What a client raises where its settings allow no request.
_CANNOT_SEND = (TypeError, ValueError, RuntimeError, ImportError, AttributeError)
# So asked, a client hands its answer over unread.
_UNREAD = {"X-Stainless-Raw-Response": "stream"}


class SdkWire:
    """A client that the caller made, owns and closes. Raises ``InputValidationError`` where it cannot be used."""

    def __init__(self, client: object, api: ApiKind, clock: Clock) -> None:
        sdk = check_client(client, api)
        self.origin = _origin(endpoint_of_client(client).base_url)
        self._client = cast("Any", client)
        self._sdk: Any = sys.modules[sdk]
        self._base_error: type[Exception] = getattr(
            self._sdk, "AnthropicError" if sdk == "anthropic" else "OpenAIError"
        )
        self._changes = changes_bodies(client)
        self._answers = Answers(clock)

    def secrets(self) -> Sequence[str]:
        return secrets_of(self._client)

    @asynccontextmanager
    async def open(self, path: str, body: bytes, headers: Mapping[str, str]) -> AsyncGenerator[WireResponse, None]:
        answer = await self._send(path, body, headers)
        if isinstance(answer, _Refusal):
            yield answer
            return
        async with self._answers.reading(HttpAnswer(answer)) as response:
            if not response.headers.get("content-type", "").startswith(aws_events.CONTENT_TYPE):
                yield response
                return
            async with aclosing(aws_events.as_sse(response)) as events:
                yield _Unpacked(response, events)

    async def close(self) -> None:
        """Close what this wire itself still reads; the client stays open."""
        await self._answers.close()

    async def _send(self, path: str, body: bytes, headers: Mapping[str, str]) -> httpx2.Response | _Refusal:
        if is_closed(self._client):
            raise InputValidationError("client: it was closed while the agent was using it.", field="client")
        answer = await self._post(path, body, headers)
        if isinstance(answer, _Refusal) and answer.status == 401 and self._client.custom_auth is not None:
            # With this answer the client has dropped its token, which was renewed elsewhere; it gets another one now.
            answer = await self._post(path, body, headers)
        return answer

    async def _post(self, path: str, body: bytes, headers: Mapping[str, str]) -> httpx2.Response | _Refusal:
        sent = {"Accept-Encoding": "identity", **_UNREAD, **headers}
        content: dict[str, Any]
        if self._changes:
            content = {"body": loads(body)}
        else:
            content = {"content": body}
            sent["Accept"] = ACCEPT
        options = {"headers": sent, "max_retries": 0, "follow_redirects": False}
        try:
            answer = await self._client.post(path, cast_to=object, options=options, stream=True, **content)
            return answer.http_response
        except self._sdk.APIStatusError as error:
            return _Refusal(error.response)
        except (self._base_error, *_CANNOT_SEND) as error:
            broken: Exception = error
        # Raised out here, where it does not become the context of its own cause.
        raise _plain(broken, self._sdk)


class EnvironmentWire:
    """Anthropic with the credentials that the environment names. The official client is loaded and made with the first
    request of an event loop, and belongs to this wire."""

    def __init__(self, base_url: str, clock: Clock) -> None:
        self.origin = _origin(base_url)
        # The official address is the default, for which a profile may name another.
        self._base_url = None if urlsplit(base_url).hostname == OFFICIAL_HOST else base_url
        self._clock = clock
        self._wires: WeakKeyDictionary[asyncio.AbstractEventLoop, SdkWire] = WeakKeyDictionary()
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    def secrets(self) -> Sequence[str]:
        return [secret for wire in self._wires.values() for secret in wire.secrets()]

    @asynccontextmanager
    async def open(self, path: str, body: bytes, headers: Mapping[str, str]) -> AsyncGenerator[WireResponse, None]:
        wire = await self._wire()
        async with wire.open(path, body, headers) as response:
            yield response

    async def close(self) -> None:
        loop = asyncio.get_running_loop()
        wire, client = self._wires.pop(loop, None), self._clients.pop(loop, None)
        if wire is not None:
            await wire.close()
        if client is not None:
            await client.close()

    async def _wire(self) -> SdkWire:
        loop = asyncio.get_running_loop()
        if loop not in self._wires:
            client = await asyncio.to_thread(_client_of_environment, self._base_url)
            if loop in self._wires:  # another request was faster
                await client.close()
            else:
                self._clients[loop] = client
                self._wires[loop] = SdkWire(client, "anthropic-messages", self._clock)
        return self._wires[loop]


def _client_of_environment(base_url: str | None) -> Any:
    import anthropic

    try:
        return anthropic.AsyncAnthropic(base_url=base_url)
    except (anthropic.AnthropicError, ValueError, TypeError) as error:
        raise InputValidationError(
            f"api_key: the credentials that the environment names cannot be used: {one_line(str(error))}",
            field="api_key",
        ) from error


class _Refusal:
    """An answer outside 2xx, whose body the client has read already."""

    def __init__(self, raw: httpx2.Response) -> None:
        self.status = raw.status_code
        self.headers: Mapping[str, str] = raw.headers
        self._body = raw.content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._body:
            yield self._body

    def finish(self) -> None: ...


class _Unpacked:
    """An answer in Bedrock's binary framing."""

    def __init__(self, answer: HttpAnswer, events: AsyncIterator[bytes]) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.finish = answer.finish
        self._events = events

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._events


def _plain(error: Exception, sdk: Any) -> Exception:
    """What a failed attempt comes down to: the HTTP client's own exception, or that the client cannot send at all."""
    import httpx2

    cause = error.__cause__
    if isinstance(cause, Exception) and (
        isinstance(error, sdk.APIConnectionError) or isinstance(cause, httpx2.HTTPError)
    ):
        return cause
    if isinstance(error, sdk.APIConnectionError):
        return error
    return InputValidationError(f"client: it cannot send the request: {one_line(str(error))}", field="client")


def _origin(base_url: str) -> str:
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.netloc}"
