"""A model, its address and its key as one thing that a node is given."""

from dataclasses import dataclass
from typing import Any

import pytest

from agent_nodes import InputValidationError, ModelEntry, ModelRegistry, create_agent_node
from agent_nodes.nodes.connection import connected
from agent_nodes.runtime_options import Options, agent_options
from tests.fakes import FakeServer, error, text

KEY = "k-of-the-connection"


@dataclass
class Given:
    """What a block looks like to a node."""

    provider: str
    model: str | None = None
    base_url: str | None = None
    api_kind: str | None = None
    attributes: dict[str, Any] | None = None
    api_key: str | None = KEY

    def key(self) -> str | None:
        return self.api_key


def acme(fake: FakeServer, **fields: Any) -> Given:
    return Given("acme", "m", fake.v1, "openai-completions", **fields)


@pytest.mark.feature("P05")
async def test_a_connection_needs_no_server_when_it_is_handed_over(fake: FakeServer) -> None:
    fake.api_key = KEY
    fake.script(text("hello"), error(401, f"who is {KEY}?"))
    node = create_agent_node(connection=acme(fake))
    payload = await node("hi")
    assert (payload.status, payload.text) == ("answered", "hello")
    assert KEY not in (await node("hi")).err_message


@pytest.mark.feature("P05")
async def test_the_key_goes_to_no_address_but_the_connections(fake: FakeServer) -> None:
    async with FakeServer(strict=False) as other:
        other.respond(lambda _: text("hi there"))
        node = create_agent_node(connection=acme(fake))
        for changes in ({"provider": "other"}, {}):
            payload = await node(prompt="hi", base_url=other.v1, model="m2", api_kind="openai-completions", **changes)
            assert payload.status == "answered"
        assert [request.headers.get("authorization") for request in other.requests] == [None, None]
    assert fake.requests == []


def test_the_models_that_the_agent_knows_besides_stay_known_to_it_alone() -> None:
    known = ModelRegistry(ModelEntry("mine", "one", "openai-completions", "http://127.0.0.1:1/v1"))
    options = connected(agent_options({"models": known}), Given("acme", "two", "http://127.0.0.1:2", None))
    assert [entry.provider for entry in options.models] == ["mine", "acme"]
    assert len(known) == 1
    assert (options.provider, options.model, options.api_key) == ("acme", "two", None)


def test_what_a_connection_declares_of_its_model_counts() -> None:
    given = Given("acme", "two", "http://127.0.0.1:2", attributes={"context_window": 1234, "reasoning": True})
    entry = connected(Options(), given).models.get("acme", "two")
    assert (entry.context_window, entry.reasoning) == (1234, True)


def test_an_official_service_is_asked_at_its_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    options = connected(Options(), Given("anthropic"))
    entry = options.models.get("anthropic", options.model)
    assert entry.base_url == "https://api.anthropic.com"
    assert options.models.key_of(entry) == KEY


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (Given("acme", "m"), "base_url"),
        (Given("acme", None, "http://127.0.0.1:2"), "model"),
        (Given("acme", "m", "nowhere"), "base_url"),
        (Given("acme", "m", "http://127.0.0.1:2", "telepathy"), "api_kind"),
        (Given("acme", "m", "http://127.0.0.1:2", attributes={"window": 1}), "window"),
        (Given("acme", "m", "http://127.0.0.1:2", api_key="k\nk"), "api_key"),
        (Given(""), "provider"),
    ],
)
async def test_a_mistake_in_a_connection_is_named(given: Given, field: str) -> None:
    with pytest.raises(InputValidationError, match=f"connection.*{field}") as caught:
        await create_agent_node(connection=given)("hi")
    assert caught.value.field.startswith("connection.")
    assert given.api_key is not None
    assert given.api_key not in str(caught.value)


async def test_the_demo_needs_no_more_than_its_name() -> None:
    assert (await create_agent_node(connection=Given("demo", api_key=None))("hi")).status == "answered"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"connection": 7}, "connection"),
        ({"connection": " "}, "connection"),
        ({"connection": "model-connection/"}, "connection"),
        ({"connection": "acme", "api_key": KEY}, "api_key"),
        ({"connection": "acme", "provider": "demo"}, "provider"),
        ({"connection": Given("demo"), "model": "m"}, "model"),
    ],
)
def test_what_is_no_connection_or_said_twice_is_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InputValidationError) as caught:
        create_agent_node(**options)
    assert caught.value.field == field
    assert KEY not in str(caught.value)


async def test_a_block_by_name_is_for_flows() -> None:
    with pytest.raises(InputValidationError, match="'acme' is the name of a block, which is read inside a flow run"):
        await create_agent_node(connection="acme")("hi")
