"""A model entry becomes a provider that speaks with a strict service over a real connection."""

import subprocess
import sys
from typing import Any

import pytest

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.messages import Message, TextBlock, ToolResultMessage, ToolSpec, Usage
from agent_nodes.providers.base import EncodedPrefix, Failed, Finished, Fold, ModelEntry, ModelRequest
from agent_nodes.providers.catalog import resolve
from agent_nodes.providers.connect import connect
from agent_nodes.providers.demo import DemoProvider
from tests.fakes import FakeServer, call, error, reply, text, thinking
from tests.providers.protocols import APIS, entry, request, system, user

every_protocol = pytest.mark.parametrize("api", APIS)


def served(fake: FakeServer, api: str, provider: str = "mine", model: str = "claude-opus-5-5") -> ModelEntry:
    address = fake.url if api == "anthropic-messages" else fake.v1
    return resolve(
        provider=provider,
        model=model,
        base_url=address,
        api_kind=api,
        context_window=None,
        max_tokens=None,
        environ={},
    )


async def play(provider: Any, asked: ModelRequest) -> tuple[Fold, Any]:
    fold, last = Fold(), None
    async for events in provider.stream(asked):
        for event in events:
            fold.add(event)
            last = event
    return fold, last


@every_protocol
@pytest.mark.parametrize("official", [True, False])
@pytest.mark.feature("C01")
async def test_a_tool_round_with_sealed_reasoning_is_accepted(api: str, official: bool) -> None:
    async with FakeServer(api_key="sk-test") as fake:
        names = {"anthropic-messages": "anthropic"} if official else {}
        name = names.get(api, "openai" if official else "mine")
        model = served(fake, api, name, "claude-opus-5-5" if api == "anthropic-messages" else "gpt-5.5")
        provider = connect(model, "sk-test", clock=SYSTEM_CLOCK, stall_timeout=30)
        fake.script(
            reply(thinking("hm"), "Let me look.", call("read", {"path": "a"}, id="c1")),
            reply(thinking("ah"), text("do", "ne").using(11, 2)),
            text("again"),
        )
        messages: list[Message] = [system(model), user("hi")]
        prefix = EncodedPrefix()
        for _ in range(3):
            asked = request(model, messages, prefix=prefix, system=messages[0], cache_key="k")
            fold, last = await play(provider, asked)
            assert isinstance(last, Finished), last
            message = fold.message(model, last.stop)
            messages.append(message)
            answers = [ToolResultMessage(call.id, call.name, (TextBlock("res"),)) for call in message.calls]
            messages += answers or [user("more")]
        await provider.close()
        fake.assert_accepted()
        assert fold.message(model, "end").text == "again"
        assert fold.usage == Usage(10, 5)
        seals = fake.requests[-1].thinking()
        assert len(seals) == (1 if api == "openai-completions" else 2)


@every_protocol
async def test_a_document_in_place_of_a_stream_is_a_reply(api: str) -> None:
    async with FakeServer() as fake:
        model = served(fake, api)
        fake.script(text("hello").as_json_body())
        provider = connect(model, "k", clock=SYSTEM_CLOCK, stall_timeout=30)
        fold, last = await play(provider, request(model, [user("hi")]))
        await provider.close()
    assert (fold.message(model, "end").text, last) == ("hello", Finished("end"))


@every_protocol
async def test_a_key_in_an_error_text_is_not_shown(api: str) -> None:
    async with FakeServer() as fake:
        model = served(fake, api)
        fake.script(error(401, "the key sk-hush is unknown"))
        provider = connect(model, "sk-hush", clock=SYSTEM_CLOCK, stall_timeout=30)
        _fold, last = await play(provider, request(model, [user("hi")]))
        await provider.close()
    assert isinstance(last, Failed) and last.failure.kind == "auth"
    assert "sk-hush" not in last.failure.message


async def test_a_request_that_cannot_be_written_is_a_failure_not_an_exception() -> None:
    model = entry("openai-completions")
    provider = connect(model, None, clock=SYSTEM_CLOCK, stall_timeout=30)
    broken = system(model, tools=[ToolSpec("read", "", {"default": object()})])
    _fold, last = await play(provider, request(model, [user("hi")], system=broken))
    assert isinstance(last, Failed) and last.failure.kind == "invalid" and not last.failure.retryable
    await provider.close()


def test_the_demo_model_needs_no_wire() -> None:
    demo = resolve(
        provider="demo",
        model=None,
        base_url=None,
        api_kind=None,
        context_window=None,
        max_tokens=None,
        environ={},
    )
    assert isinstance(connect(demo, None, clock=SYSTEM_CLOCK, stall_timeout=30), DemoProvider)


def test_only_the_protocol_that_is_asked_for_is_loaded() -> None:
    program = """
import sys
from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.providers.base import ModelEntry
from agent_nodes.providers.connect import connect

connect(ModelEntry("mine", "m", "anthropic-messages", "http://mine"), None, clock=SYSTEM_CLOCK, stall_timeout=1)
others = {"openai_responses", "openai_completions", "demo", "anthropic", "openai", "httpx2"}
print([name for name in sys.modules if name.rpartition(".")[2] in others])
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
