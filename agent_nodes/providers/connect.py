"""From a model entry to the provider that speaks to it; loads nothing but the protocol that is needed."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Protocol

from agent_nodes._clock import Clock
from agent_nodes.providers.attempts import Attempts
from agent_nodes.providers.base import Failed, ModelEntry, ModelEvent, ModelRequest, Provider
from agent_nodes.providers.corrections import MEMORY, Memory
from agent_nodes.providers.credentials import other_credentials
from agent_nodes.providers.failures import invalid
from agent_nodes.providers.payload import Draft
from agent_nodes.providers.stream import Decoder, stream_response
from agent_nodes.providers.wire import HttpWire, Wire


class Codec(Protocol):
    """A protocol: what a module of one offers. ``path`` goes behind the base URL."""

    @property
    def path(self) -> str: ...
    @property
    def Decoder(self) -> type[_EntryDecoder]: ...

    def headers(self, key: str | None, entry: ModelEntry) -> dict[str, str]: ...
    def draft(self, request: ModelRequest) -> Draft: ...


class _EntryDecoder(Decoder, Protocol):
    def __init__(self, entry: ModelEntry) -> None: ...


def connect(
    entry: ModelEntry, key: str | None, *, clock: Clock, stall_timeout: float, client: object | None = None
) -> Provider:
    """The provider for ``entry``; nothing is opened before its first request.

    ``client`` is an official client object, which has an address and credentials of its own and is never closed here.
    Without it, and without a key for ``anthropic``, the environment may name other credentials. ``stall_timeout`` is in
    seconds. Raises ``InputValidationError`` where the address, the key or the client could never be used.
    """
    if entry.api == "demo":
        from agent_nodes.providers.demo import DemoProvider

        return DemoProvider(clock)
    codec = _codec(entry)
    if client is not None:
        from agent_nodes.providers.sdk_wire import SdkWire

        wire = SdkWire(client, entry.api, clock)
        return WireProvider(wire, codec, clock=clock, stall_timeout=stall_timeout)
    if key is None and entry.provider == "anthropic" and other_credentials(os.environ):
        from agent_nodes.providers.sdk_wire import EnvironmentWire

        wire = EnvironmentWire(entry.base_url, clock)
        return WireProvider(wire, codec, clock=clock, stall_timeout=stall_timeout)
    wire = HttpWire(entry.base_url, codec.headers(key, entry), clock)
    return WireProvider(wire, codec, clock=clock, stall_timeout=stall_timeout)


class WireProvider:
    """A :class:`~agent_nodes.providers.base.Provider`: a protocol over a wire. A request that is refused because of a
    field that can be changed goes out again, changed (see :mod:`~agent_nodes.providers.corrections`)."""

    def __init__(
        self, wire: Wire, codec: Codec, *, clock: Clock, stall_timeout: float, memory: Memory = MEMORY
    ) -> None:
        self._wire = wire
        self._codec = codec
        self._clock = clock
        self._stall_timeout = stall_timeout
        self._memory = memory

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        attempts = Attempts(request, self._wire.origin, self._memory)
        while True:
            try:
                draft = attempts.amended(self._codec.draft(request))
                body = draft.encode()
            except (TypeError, ValueError, KeyError, RecursionError) as error:
                yield [Failed(invalid(f"The request cannot be written as JSON ({type(error).__name__}: {error})."))]
                return
            async with aclosing(self._send(body, request.model)) as batches:
                opening = await anext(batches)
                refused = opening[0] if len(opening) == 1 else None
                if not isinstance(refused, Failed):
                    attempts.helped()
                    yield opening
                    async for batch in batches:
                        yield batch
                    return
            error = attempts.correct(refused.failure, draft.head)
            if error is not None:
                yield [Failed(error)]
                return

    def secrets(self) -> Sequence[str]:
        """What no text that is shown may hold."""
        return self._wire.secrets()

    def _send(self, body: bytes, entry: ModelEntry) -> AsyncGenerator[list[ModelEvent], None]:
        return stream_response(
            self._wire,
            self._codec.path,
            body,
            {},
            self._codec.Decoder(entry),
            clock=self._clock,
            stall_timeout=self._stall_timeout,
        )

    async def close(self) -> None:
        await self._wire.close()


def _codec(entry: ModelEntry) -> Codec:
    match entry.api:
        case "anthropic-messages":
            from agent_nodes.providers import anthropic_messages as codec
        case "openai-responses":
            from agent_nodes.providers import openai_responses as codec
        case "openai-completions":
            from agent_nodes.providers import openai_completions as codec
        case "demo":
            raise ValueError("the demo model speaks no protocol")
    return codec
