"""The two wires, which all that goes over a network is tested with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import httpx2
import pytest

from agent_nodes._clock import SYSTEM_CLOCK, Clock
from agent_nodes.providers.corrections import MEMORY
from agent_nodes.providers.sdk_wire import SdkWire
from agent_nodes.providers.wire import HttpWire, Wire
from tests.fakes.server import FakeServer
from tests.providers.streaming import KEY, WireTo

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


@pytest.fixture(params=["http", "sdk"])
async def wire_to(request: pytest.FixtureRequest) -> AsyncIterator[WireTo]:
    """Makes a wire to a fake service. A wire that a test closed may be used again."""
    clients: list[AsyncAnthropic] = []
    wires: list[Wire] = []

    def make(fake: FakeServer, clock: Clock = SYSTEM_CLOCK, base: str = "") -> Wire:
        url = fake.url + base
        if request.param == "http":
            wire: Wire = HttpWire(url, {"x-api-key": KEY, "anthropic-version": "2026-10-21"}, clock)
        else:
            from anthropic import AsyncAnthropic

            plain = httpx2.AsyncClient(verify=False, timeout=600)  # loads no certificates
            clients.append(AsyncAnthropic(api_key=KEY, base_url=url, http_client=plain))
            wire = SdkWire(clients[-1], "anthropic-messages", clock)
        wires.append(wire)
        return wire

    yield make
    for wire in wires:
        await wire.close()
    for client in clients:
        assert not client.is_closed(), "a client belongs to whoever made it"
        await client.close()


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    async with FakeServer() as server:
        yield server


@pytest.fixture
async def wire(fake: FakeServer, wire_to: WireTo) -> Wire:
    return wire_to(fake)


@pytest.fixture(autouse=True)
def nothing_learnt() -> Iterator[None]:
    """Fake services come and go at the same addresses: what one refused says nothing about the next."""
    MEMORY.clear()
    yield
    MEMORY.clear()
