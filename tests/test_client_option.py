"""An official client in place of a key."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from agent_nodes import create_agent
from agent_nodes.errors import InputValidationError
from tests.fakes import FakeServer, text
from tests.support import take

pytestmark = pytest.mark.feature("C01")


@pytest.mark.parametrize("kind", ["anthropic-messages", "openai-responses", "openai-completions"])
async def test_an_official_client_is_all_that_is_needed(kind):
    async with FakeServer(api_key="c-key") as fake:
        if kind == "anthropic-messages":
            client = anthropic.AsyncAnthropic(api_key="c-key", base_url=fake.url)
        else:
            client = openai.AsyncOpenAI(api_key="c-key", base_url=fake.v1)
        fake.script(text("hi"), text("ho"))
        given: dict[str, Any] = {} if kind == "openai-responses" else {"api_kind": kind}
        async with create_agent(client=client, model="m-a", **given) as agent:
            assert (await take(agent.run("hello"))).text == "hi"
            assert (await take(agent.run({"prompt": "again", "model": "m-b"}))).text == "ho"
        assert [request.json["model"] for request in fake.requests] == ["m-a", "m-b"]
        assert not client.is_closed()
        fake.assert_accepted()
        await client.close()


async def test_a_run_may_leave_the_client_for_another_service():
    async with FakeServer(api_key="c-key") as fake, FakeServer(strict=False) as other:
        client = anthropic.AsyncAnthropic(api_key="c-key", base_url=fake.url)
        other.script(text("there"))
        async with create_agent(client=client, model="m-a") as agent:
            given = {"prompt": "1", "provider": "own", "model": "m", "base_url": other.v1}
            outcome = await take(agent.run(given))
            assert outcome.text == "there", outcome.error
            refused = await take(agent.run({"prompt": "2", "base_url": other.url}))
            assert isinstance(refused.error, InputValidationError)
            assert refused.error.field == "base_url"
        assert "c-key" not in str(other.requests[0].headers)
        await client.close()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"client": object()}, "client"),
        ({"client": "sk-1"}, "client"),
        ({"client": anthropic.Anthropic(api_key="x")}, "client"),
        ({"client": openai.AsyncOpenAI}, "client"),
        ({"client": anthropic.AsyncAnthropic(api_key="x"), "api_kind": "openai-responses"}, "api_kind"),
        ({"client": anthropic.AsyncAnthropic(api_key="x"), "api_key": "y"}, "api_key"),
        ({"client": anthropic.AsyncAnthropic(api_key="x"), "base_url": "http://127.0.0.1:1"}, "base_url"),
    ],
)
async def test_a_client_that_cannot_be_used_is_named(options, field):
    with pytest.raises(InputValidationError) as caught:
        given: dict[str, Any] = {"model": "m", **options}
        await create_agent(**given)
    assert caught.value.field == field
