"""How a request reaches a service: ``open`` sends it and gives the answer's status, headers and bytes as they come."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast
from urllib.parse import SplitResult, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

from agent_nodes._clock import Clock
from agent_nodes.errors import InputValidationError
from agent_nodes.providers.failures import ProxyFailed

if TYPE_CHECKING:
    import ssl

    import httpx2

CONNECT_TIMEOUT = 10.0
# No limit on reading and writing: whoever reads decides how long silence may last.
_TIMEOUTS = {"connect": CONNECT_TIMEOUT, "read": None, "write": None, "pool": None}
# An idle connection outlives most tool rounds, so that the next request needs no new handshake.
KEPT_OPEN = 60.0
DRAIN_TIME = 0.1
"""Seconds in which a finished answer may end, so that its connection can serve the next request."""

ACCEPT = "text/event-stream, application/json"
_HEADERS = {
    "accept": ACCEPT,
    "accept-encoding": "identity",
    "content-type": "application/json",
    "user-agent": "prefect-agent-nodes",
}
_KEY_HEADERS = ("authorization", "x-api-key")
_ADDRESS = re.compile(r"[^\s\x00-\x1f\x7f\ud800-\udfff]*")
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")


class WireResponse(Protocol):
    """``headers`` are asked by lower-case name; iterating gives the body, decompressed, in chunks as they arrive."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    def __aiter__(self) -> AsyncIterator[bytes]: ...

    def finish(self) -> None:
        """The message in the body is complete: what follows is nobody's, the connection may be kept."""


class Wire(Protocol):
    """One endpoint. ``origin`` is its address as it may be shown."""

    @property
    def origin(self) -> str: ...

    def secrets(self) -> Sequence[str]:
        """The keys and tokens in use now, which no text may show."""
        ...

    def open(self, path: str, body: bytes, headers: Mapping[str, str]) -> AbstractAsyncContextManager[WireResponse]:
        """POST ``body``; names in ``headers`` are in lower case. Raises whatever the client raises.

        Leaving the context, also by cancellation, closes the connection at once, unless the body was read to its end or
        :meth:`WireResponse.finish` was called.
        """
        ...

    async def close(self) -> None: ...


class HttpWire:
    """A plain address with a key in ``headers``. Proxies come from the environment; redirects are not followed.

    May be used from several event loops; each has its own connections. Raises ``InputValidationError`` where the
    address or a header could never be sent.
    """

    def __init__(self, base_url: str, headers: Mapping[str, str], clock: Clock) -> None:
        parts = _address(base_url)
        for name, value in headers.items():
            if not _HEADER_VALUE.fullmatch(value):
                raise InputValidationError(
                    f"The header {name} cannot be sent: it is empty, or has outer blanks, a line break or letters "
                    "outside ASCII in it. Check the key.",
                    field="api_key",
                )
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self._parts = parts
        self._headers = {**_HEADERS, **{name.lower(): value for name, value in headers.items()}}
        self._urls: dict[str, httpx2.URL] = {}
        self._transports: WeakKeyDictionary[asyncio.AbstractEventLoop, _Transport] = WeakKeyDictionary()
        self._answers = Answers(clock)

    def secrets(self) -> Sequence[str]:
        return [self._headers[name].rpartition(" ")[2] for name in _KEY_HEADERS if name in self._headers]

    @asynccontextmanager
    async def open(self, path: str, body: bytes, headers: Mapping[str, str]) -> AsyncGenerator[HttpAnswer, None]:
        import httpx2

        sent = {**self._headers, **headers}
        request = httpx2.Request("POST", self._url(path), headers=sent, content=body, extensions={"timeout": _TIMEOUTS})
        transport, proxy = self._transport()
        try:
            raw = await transport.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
            if proxy is None:
                raise
            raise ProxyFailed(str(proxy)) from error
        async with self._answers.reading(HttpAnswer(raw)) as answer:
            yield answer

    async def close(self) -> None:
        """Close the connections of this event loop; those of other loops go with their loops."""
        await self._answers.close()
        transport = self._transports.pop(asyncio.get_running_loop(), None)
        if transport is not None:
            await transport[0].aclose()

    def _url(self, path: str) -> httpx2.URL:
        url = self._urls.get(path)
        if url is None:
            import httpx2

            joined = f"{self._parts.path.rstrip('/')}/{path.lstrip('/')}"
            url = self._urls[path] = httpx2.URL(urlunsplit(self._parts._replace(path=joined, fragment="")))
        return url

    def _transport(self) -> _Transport:
        loop = asyncio.get_running_loop()
        transport = self._transports.get(loop)
        if transport is None:
            transport = self._transports[loop] = _new_transport(self._parts)
        return transport


def _address(base_url: str) -> SplitResult:
    wrong = InputValidationError("base_url must start with http:// or https:// and name a host.", field="base_url")
    try:
        if not _ADDRESS.fullmatch(base_url):
            raise InputValidationError(
                "base_url holds a blank, a control character or one that no address can have.", field="base_url"
            )
        parts = urlsplit(base_url)
        _ = parts.port  # read here, because it is checked only when it is read
    except ValueError:
        raise wrong from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise wrong
    if parts.username or parts.password:
        raise InputValidationError(
            "base_url must hold no user name or password; give the key as api_key.", field="base_url"
        )
    return parts


class HttpAnswer:
    """The answer of an HTTP client as a :class:`WireResponse`."""

    __slots__ = ("_body", "_raw", "finished", "headers", "status")

    def __init__(self, raw: httpx2.Response) -> None:
        self.status = raw.status_code
        self.headers: Mapping[str, str] = raw.headers
        self.finished = False
        self._raw = raw
        # An answer that is not compressed is read below the client's own decoding, one step less a chunk; one that a
        # hook of a caller's client has read already is there only above it.
        packed = raw.headers.get("content-encoding", "identity").lower() != "identity"
        above = packed or raw.is_stream_consumed
        self._body: AsyncIterator[bytes] = raw.aiter_bytes() if above else aiter(_stream_of(raw))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._body

    def finish(self) -> None:
        self.finished = True

    async def close(self) -> None:
        await self._raw.aclose()
        # Read on, into the closed connection: so the client's generators end here, and not when they are collected.
        with suppress(Exception):
            async for _ in self._body:
                pass


class Answers:
    """What becomes of answers once they are left: a finished one is read to its end in the background, for which a
    moment is given, so that its connection can serve the next request; any other is closed at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._draining: dict[asyncio.Task[None], HttpAnswer] = {}

    @asynccontextmanager
    async def reading(self, answer: HttpAnswer) -> AsyncGenerator[HttpAnswer, None]:
        try:
            yield answer
        except BaseException:
            await answer.close()
            raise
        if answer.finished:
            task = asyncio.create_task(self._drain(answer))
            self._draining[task] = answer
            task.add_done_callback(self._draining.pop)
        else:
            await answer.close()

    async def close(self) -> None:
        """Close what is still read in the background of this event loop."""
        loop = asyncio.get_running_loop()
        draining = {task: answer for task, answer in self._draining.items() if task.get_loop() is loop}
        for task in draining:
            task.cancel()
        if draining:
            await asyncio.wait(draining)
        for answer in draining.values():  # a task that had not begun closed nothing
            await answer.close()

    async def _drain(self, answer: HttpAnswer) -> None:
        task = asyncio.current_task()
        assert task is not None
        timer = self._clock.call_later(DRAIN_TIME, task.cancel)
        try:
            # The message is complete: a connection that fails now has nothing more to tell.
            with suppress(Exception):
                async for _ in answer:
                    pass
        finally:
            timer.cancel()
            await answer.close()


def _stream_of(raw: httpx2.Response) -> AsyncIterable[bytes]:
    return cast("AsyncIterable[bytes]", raw.stream)


def _new_transport(address: SplitResult) -> _Transport:
    """How ``address`` is reached. Raises ``InputValidationError`` where the environment says it in a way that cannot
    be."""
    import httpx2

    proxy = _proxy(address)
    # Loading the trusted certificates costs more than a whole local request; nothing here needs them for plain http.
    encrypted = address.scheme == "https" or (proxy is not None and proxy.url.startswith("https:"))
    verify = _tls(encrypted, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=KEPT_OPEN)
    try:
        return httpx2.AsyncHTTPTransport(verify=verify, limits=limits, proxy=proxy and proxy.url), proxy
    except ImportError as error:
        assert proxy is not None
        raise proxy.wrong(str(error)) from error
    except httpx2.InvalidURL as error:
        assert proxy is not None
        raise proxy.wrong("it is no address") from error


_PROXY_SCHEMES = frozenset({"http", "https", "socks5", "socks5h"})


@dataclass(frozen=True, slots=True)
class _Proxy:
    """The proxy at ``url``, which ``variable`` of the environment names."""

    url: str
    variable: str

    def __str__(self) -> str:
        return f"The proxy {urlsplit(self.url).netloc.rpartition('@')[2]} of {self.variable}"

    def wrong(self, why: str) -> InputValidationError:
        # The value is not shown: it may hold a password.
        return InputValidationError(
            f"{self.variable} names no proxy that can be used: {why}. It must be like http://host:port.",
            field=self.variable,
        )


_Transport: TypeAlias = "tuple[httpx2.AsyncHTTPTransport, _Proxy | None]"


def _proxy(address: SplitResult) -> _Proxy | None:
    """The proxy that the environment names for ``address``."""
    proxies = getproxies()
    kind = next((kind for kind in (address.scheme, "all") if proxies.get(kind)), None)
    if kind is None or proxy_bypass(address.netloc):
        return None
    named, value = f"{kind}_proxy", proxies[kind].strip()
    variable = next((name for name in (named, named.upper()) if os.environ.get(name)), "the system")
    proxy = _Proxy(value if "://" in value else f"http://{value}", variable)
    try:
        parts = urlsplit(proxy.url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise proxy.wrong("it is no address") from None
    if parts.scheme not in _PROXY_SCHEMES:
        raise proxy.wrong(f"a proxy of the kind {parts.scheme[:20]}:// is not known")
    if not host or not _ADDRESS.fullmatch(proxy.url) or ("://" not in value and not {".", ":"} & set(value)):
        raise proxy.wrong("it is no address")
    return proxy


@lru_cache(maxsize=8)
def _tls(encrypted: bool, certificates: str | None, folder: str | None) -> ssl.SSLContext:
    """How to encrypt, one for all sessions of the process: the trusted certificates take most of a megabyte.
    ``certificates`` and ``folder`` are where the environment says that they lie."""
    import httpx2

    variable, place = ("SSL_CERT_FILE", certificates) if certificates else ("SSL_CERT_DIR", folder)
    if not encrypted or not place:
        return httpx2.create_ssl_context(verify=encrypted)
    kind = "a file of certificates in PEM form" if certificates else "a folder of certificates"
    wrong = InputValidationError(f"{variable} must name {kind}, and {place[:200]} is none.", field=variable)
    # Looked at first: a file that is no regular one may have no end, and a folder that is none is not complained of.
    folders = any(Path(part).is_dir() for part in place.split(os.pathsep))
    if not (Path(place).is_file() if certificates else folders):
        raise wrong
    try:
        return httpx2.create_ssl_context(verify=True)
    except OSError as error:
        raise wrong from error
