"""A request refused for one field goes out again without the fault, and the next one is right at once."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    ToolSpec,
)
from agent_nodes.providers import corrections
from agent_nodes.providers.base import EncodedPrefix, Failed, Failure, Finished, Fold, ModelEntry, ModelRequest
from agent_nodes.providers.connect import connect
from agent_nodes.providers.corrections import Fix, Memory, correction
from agent_nodes.providers.failures import http_failure
from tests.fakes import FakeServer, Reply, call, drop_after, error, json_reply, reply, text, thinking
from tests.providers.protocols import entry, request, said, system, user

MESSAGES, RESPONSES, CHAT = "anthropic-messages", "openai-responses", "openai-completions"


async def ask(provider: Any, asked: ModelRequest) -> AssistantMessage | Failure:
    fold, ends = Fold(), []
    async for events in provider.stream(asked):
        for event in events:
            fold.add(event)
            ends += [event] if isinstance(event, Failed | Finished) else []
    [end] = ends
    return end.failure if isinstance(end, Failed) else fold.message(asked.model, end.stop)


def at(fake: FakeServer, api: str, **changes: Any) -> tuple[ModelEntry, Any]:
    model = entry(api, base_url=fake.url if api == MESSAGES else fake.v1, **changes)
    return model, connect(model, "k", clock=SYSTEM_CLOCK, stall_timeout=30)


def refused(message: str, **fields: Any) -> Reply:
    return json_reply({"error": {"message": message, "type": "invalid_request_error", **fields}}, 400)


def told(fake: FakeServer, *names: str) -> list[Any]:
    """A field of each request, by its path."""
    found: list[Any] = []
    for asked in fake.requests:
        value: Any = asked.json
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        found.append(value)
    return found


# What the strict service refuses of a model about which nothing is known.


@pytest.mark.parametrize(
    ("api", "fields", "asked", "name", "values"),
    [
        (CHAT, {"model": "gpt-5.1"}, {"effort": "minimal"}, "reasoning_effort", ["minimal", "low", "low"]),
        (RESPONSES, {"model": "gpt-5.2"}, {"effort": "max"}, "reasoning.effort", ["max", "xhigh", "xhigh"]),
        (RESPONSES, {"model": "gpt-6.1-sol"}, {"effort": "off"}, "reasoning.effort", ["none", "low", "low"]),
        (CHAT, {"model": "gpt-4.1"}, {"effort": "high"}, "reasoning_effort", ["high", None, None]),
        (CHAT, {"model": "gpt-4o"}, {"max_tokens": 20_000}, "max_tokens", [20_000, 16_384, 16_384]),
        (RESPONSES, {"model": "gpt-5.5"}, {"max_tokens": 200_000}, "max_output_tokens", [200_000, 128_000, 128_000]),
        (MESSAGES, {"model": "claude-haiku-4-5"}, {"max_tokens": 99_000}, "max_tokens", [99_000, 64_000, 64_000]),
        (
            MESSAGES,
            {"model": "claude-sonnet-4-6"},
            {"effort": "xhigh", "max_tokens": 9_000},
            "output_config.effort",
            ["xhigh", "high", "high"],
        ),
        (
            MESSAGES,
            {"model": "claude-haiku-4-5", "thinking": "adaptive"},
            {"effort": "high", "max_tokens": 9_000},
            "thinking",
            [
                *[{"type": "adaptive", "display": "summarized"}] * 3,
                *[{"type": "enabled", "budget_tokens": 4904}] * 2,
            ],
        ),
        (
            MESSAGES,
            {"model": "claude-opus-4-8", "thinking": "budget"},
            {"effort": "high", "max_tokens": 90_000},
            "thinking",
            [
                {"type": "enabled", "budget_tokens": 20_000},
                *[{"type": "adaptive", "display": "summarized"}] * 2,
            ],
        ),
        (
            MESSAGES,
            {"model": "claude-opus-5-5"},
            {"effort": "off"},
            "thinking",
            [{"type": "disabled"}, *[{"type": "adaptive", "display": "summarized"}] * 2],
        ),
    ],
)
@pytest.mark.feature("C04")
async def test_the_strict_service_takes_the_second_try_and_the_next_request_at_once(
    api: str, fields: dict[str, Any], asked: dict[str, Any], name: str, values: list[Any]
) -> None:
    async with FakeServer() as fake:
        model, provider = at(fake, api, **fields)
        fake.script(text("a"), text("b"))
        for said_ in ("a", "b"):
            answer = await ask(provider, request(model, [user("hi")], **asked))
            assert isinstance(answer, AssistantMessage) and answer.text == said_
        await provider.close()
        assert told(fake, *name.split(".")) == values
        assert [one.refused is None for one in fake.requests] == [False] * (len(values) - 2) + [True, True]


# What other services say.

TOOL = ToolSpec("read", "", {"type": "object"})
HEADS: dict[str, dict[str, Any]] = {
    CHAT: {
        "model": "m",
        "max_tokens": 8192,
        "stream_options": {"include_usage": True},
        "reasoning_effort": "high",
        "prompt_cache_key": "k",
        "parallel_tool_calls": True,
        "temperature": 1,
        "tools": [{"type": "function", "function": {"name": "read", "strict": False}}],
    },
    RESPONSES: {
        "model": "m",
        "max_output_tokens": 8192,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "high", "summary": "auto"},
        "stream_options": {"include_obfuscation": False},
        "prompt_cache_key": "k",
        "tools": [{"type": "function", "name": "read", "strict": False}],
    },
    MESSAGES: {
        "model": "m",
        "max_tokens": 8192,
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "high"},
        "cache_control": {"type": "ephemeral"},
        "tools": [{"name": "read"}],
    },
}
GONE = object()


def openai(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def pydantic(*where: Any, message: str = "Extra inputs are not permitted") -> dict[str, Any]:
    return {"detail": [{"loc": ["body", *where], "msg": message, "type": "extra_forbidden"}]}


def anthropic(message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def fix_of(head: dict[str, Any], body: Any, status: int = 400, tried: Iterable[str] = ()) -> Fix | None:
    failure = http_failure(status, {}, json.dumps(body).encode(), now=0)
    return correction(failure, head, tuple(tried))


SAYINGS: list[tuple[str, Any, dict[str, Any]]] = [
    # Levels of effort.
    (CHAT, openai("Input should be 'low', 'medium' or 'high'", "reasoning_effort"), {}),
    (
        CHAT,
        openai("Invalid value: 'high'. Supported values are: 'low' and 'medium'.", "reasoning_effort"),
        {"reasoning_effort": "medium"},
    ),
    (
        CHAT,
        pydantic("reasoning_effort", message="Input should be 'low' or 'none' [type=literal_error, input_value='high'"),
        {"reasoning_effort": "low"},
    ),
    (
        CHAT,
        openai("reasoning_effort: unknown variant `high`, expected one of `minimal`, `max`"),
        {"reasoning_effort": "minimal"},
    ),
    (
        CHAT,
        openai("Unsupported value: 'high' is not supported with the 'm' model.", "reasoning_effort"),
        {"reasoning_effort": "medium"},
    ),
    (
        CHAT,
        openai("Unsupported parameter: 'reasoning_effort' is not supported with this model."),
        {"reasoning_effort": GONE},
    ),
    (CHAT, openai("Unrecognized request argument supplied: reasoning_effort"), {"reasoning_effort": GONE}),
    (CHAT, pydantic("reasoning_effort"), {"reasoning_effort": GONE}),
    (CHAT, {"error": "m does not support reasoning_effort"}, {"reasoning_effort": GONE}),
    (
        RESPONSES,
        openai("Unsupported parameter: 'reasoning.effort' is not supported with this model."),
        {"reasoning": {"summary": "auto"}},
    ),
    (RESPONSES, openai("Unknown parameter: 'reasoning'.", "reasoning"), {"reasoning": GONE}),
    (MESSAGES, anthropic("This model does not support the effort parameter."), {"output_config": GONE}),
    (
        MESSAGES,
        anthropic("output_config.effort: Input should be 'low' or 'medium'"),
        {"output_config": {"effort": "medium"}},
    ),
    (MESSAGES, anthropic("output_config: Extra inputs are not permitted"), {"output_config": GONE}),
    # Thinking.
    (
        MESSAGES,
        anthropic("adaptive thinking is not supported on this model"),
        {"thinking": {"type": "enabled", "budget_tokens": 4096}},
    ),
    (
        MESSAGES,
        anthropic("thinking: Input tag 'adaptive' found using 'type' does not match any of the expected tags"),
        {"thinking": {"type": "enabled", "budget_tokens": 4096}},
    ),
    (
        MESSAGES,
        anthropic("thinking.adaptive.display: Extra inputs are not permitted"),
        {"thinking": {"type": "adaptive"}},
    ),
    (MESSAGES, anthropic("thinking: Extra inputs are not permitted"), {"thinking": GONE}),
    (
        RESPONSES,
        openai("Your organization must be verified to generate reasoning summaries.", "reasoning.summary"),
        {"reasoning": {"effort": "high"}},
    ),
    (
        RESPONSES,
        openai("Unsupported parameter: 'reasoning.summary' is not supported."),
        {"reasoning": {"effort": "high"}},
    ),
    # Limits.
    (
        CHAT,
        openai("'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
        {"max_tokens": GONE, "max_completion_tokens": 8192},
    ),
    (CHAT, pydantic("max_tokens"), {"max_tokens": GONE, "max_completion_tokens": 8192}),
    (
        CHAT,
        openai("max_tokens is too large: 8192. This model supports at most 4096 completion tokens."),
        {"max_tokens": 4096},
    ),
    (
        CHAT,
        openai("`max_tokens` must be less than or equal to `4096`, the maximum value for `max_tokens`"),
        {"max_tokens": 4096},
    ),
    (CHAT, openai("Invalid max_tokens value, the valid range of max_tokens is [1, 4096]"), {"max_tokens": 4096}),
    (CHAT, openai("max_tokens must be at least 10,000"), {"max_tokens": 10_000}),
    (
        RESPONSES,
        openai("Invalid 'max_output_tokens': Expected a value <= 4096, but got 8192 instead."),
        {"max_output_tokens": 4096},
    ),
    (
        RESPONSES,
        openai("Invalid 'max_output_tokens': Expected a value >= 9000, but got 8192 instead."),
        {"max_output_tokens": 9000},
    ),
    (RESPONSES, openai("Unknown parameter: 'max_output_tokens'."), {"max_output_tokens": GONE}),
    (
        MESSAGES,
        anthropic("max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for m"),
        {"max_tokens": 4096},
    ),
    (
        MESSAGES,
        {"message": "The maximum tokens you requested exceeds the model limit of 4096 output tokens."},
        {"max_tokens": 4096},
    ),
    # A limit that only does not fit beside the context.
    (
        MESSAGES,
        anthropic("input length and `max_tokens` exceed context limit: 6000 + 8192 > 10000, decrease input"),
        {"max_tokens": 4000},
    ),
    (
        CHAT,
        {
            "message": "This model's maximum context length is 10000 tokens. However, you requested 14192 tokens "
            "(6000 in the messages, 8192 in the completion)."
        },
        {"max_tokens": 4000},
    ),
    (
        CHAT,
        {
            "message": "'max_tokens' is too large: 8192. This model's maximum context length is 10000 tokens and your "
            "request has 6000 input tokens (8192 > 10000 - 6000)."
        },
        {"max_tokens": 4000},
    ),
    # Fields that a service does not know.
    (CHAT, openai("Unrecognized request argument supplied: stream_options"), {"stream_options": GONE}),
    (CHAT, pydantic("stream_options"), {"stream_options": GONE}),
    (CHAT, {"object": "error", "message": "stream_options is not supported"}, {"stream_options": GONE}),
    (RESPONSES, openai("Unknown parameter: 'stream_options.include_obfuscation'."), {"stream_options": GONE}),
    (CHAT, pydantic("prompt_cache_key"), {"prompt_cache_key": GONE}),
    (
        CHAT,
        openai("Unsupported parameter: 'parallel_tool_calls' is not supported with this model."),
        {"parallel_tool_calls": GONE},
    ),
    (CHAT, openai("`temperature` is deprecated for this model."), {"temperature": GONE}),
    (
        CHAT,
        openai("Unknown parameter: 'tools[0].function.strict'."),
        {"tools": [{"type": "function", "function": {"name": "read"}}]},
    ),
    (RESPONSES, pydantic("tools", 0, "strict"), {"tools": [{"type": "function", "name": "read"}]}),
    (RESPONSES, openai("Unknown parameter: 'store'.", "store"), {"store": GONE}),
    (RESPONSES, openai("Encrypted content is not supported with this model.", "include"), {"include": GONE}),
    (RESPONSES, pydantic("include"), {"include": GONE}),
    (MESSAGES, anthropic("cache_control: Extra inputs are not permitted"), {"cache_control": GONE}),
]


@pytest.mark.parametrize(("api", "body", "changes"), SAYINGS)
def test_what_services_say(api: str, body: Any, changes: dict[str, Any]) -> None:
    head = HEADS[api]
    before = json.dumps(head)
    found = fix_of(head, body, 422 if "detail" in body else 400)
    assert json.dumps(head) == before, "the head that was given stays as it was"
    if not changes:
        assert found is None
        return
    assert found is not None
    changed = found.apply(head)
    expected = {name: value for name, value in {**head, **changes}.items() if value is not GONE}
    assert changed == expected
    assert found.apply(changed) == changed, "what is right stays"


@pytest.mark.parametrize(
    "message",
    [
        "The model `m` does not exist",
        "Invalid schema for function 'read': 'type' is required",
        "messages must include a user message; it is not supported to send none",
        "You do not have access to store this. Not allowed.",
        "high temperature thinking is not supported",
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
        "maximum context length is 4096 tokens. However, you requested",
        "tool_choice is not supported",
    ],
)
@pytest.mark.parametrize("api", [CHAT, RESPONSES, MESSAGES])
def test_other_complaints_change_nothing(api: str, message: str) -> None:
    assert fix_of(HEADS[api], openai(message)) is None


@pytest.mark.parametrize("status", [401, 403, 429, 500, 529])
def test_only_a_refused_request_is_corrected(status: int) -> None:
    assert fix_of(HEADS[CHAT], openai("stream_options is not supported"), status) is None


def test_a_context_that_leaves_no_room_is_too_long() -> None:
    text_ = "input length and `max_tokens` exceed context limit: 9500 + 8192 > 10000"
    assert fix_of(HEADS[MESSAGES], anthropic(text_)) is None


def test_a_smaller_limit_makes_the_budget_smaller() -> None:
    head = {"max_tokens": 64_000, "thinking": {"type": "enabled", "budget_tokens": 32_000}}
    small = fix_of(head, anthropic("max_tokens: 64000 > 8192, which is the maximum"))
    none = fix_of(head, anthropic("max_tokens: 64000 > 1000, which is the maximum"))
    assert small is not None and small.apply(head)["thinking"] == {"type": "enabled", "budget_tokens": 4096}
    assert none is not None and none.apply(head)["thinking"] == {"type": "disabled"}


def test_a_level_of_ones_own_that_is_refused_is_left_out() -> None:
    head = {**HEADS[CHAT], "reasoning_effort": "turbo"}
    found = fix_of(head, openai("Invalid value: 'turbo'. Supported values are: 'low' and 'high'.", "reasoning_effort"))
    assert found is not None and "reasoning_effort" not in found.apply(head)


def test_thinking_that_is_known_in_neither_way_is_left_out() -> None:
    body = anthropic("enabled thinking is not supported")
    head = {**HEADS[MESSAGES], "thinking": {"type": "enabled", "budget_tokens": 4096}}
    found = fix_of(head, body, tried=["thinking.type"])
    assert found is not None and "thinking" not in found.apply(head)


# Over the wire.


async def test_several_fields_are_corrected_one_after_the_other_and_kept() -> None:
    async with FakeServer(strict=False) as fake:
        model, provider = at(fake, CHAT, model="old", provider="openai")
        fake.script(
            refused("Unrecognized request argument supplied: stream_options"),
            refused("max_completion_tokens: unknown field"),
            refused("prompt_cache_key is not supported"),
            text("a"),
            text("b"),
        )
        asked = request(model, [user("hi")], max_tokens=50, cache_key="k")
        for _ in range(2):
            assert isinstance(await ask(provider, asked), AssistantMessage)
        # Another provider in the same process, and another model at the same address.
        other, again = (
            at(fake, CHAT, model="other", provider="openai")[0],
            at(fake, CHAT, model="old", provider="openai")[1],
        )
        fake.script(text("c"), text("d"))
        await ask(again, asked)
        await ask(provider, request(other, [user("hi")], max_tokens=50, cache_key="k"))
        await provider.close()
        await again.close()
    fields = {"stream_options", "max_completion_tokens", "prompt_cache_key", "max_tokens"}
    sent = [fields & one.json.keys() for one in fake.requests]
    first = {"stream_options", "max_completion_tokens", "prompt_cache_key"}
    assert sent == [
        first,
        first - {"stream_options"},
        {"max_tokens", "prompt_cache_key"},
        *[{"max_tokens"}] * 3,
        first,
    ]


async def test_a_correction_that_does_not_help_gives_the_first_error() -> None:
    async with FakeServer(strict=False) as fake:
        model, provider = at(fake, CHAT, model="m")
        first = "max_tokens is too large: 9000. This model supports at most 4096 completion tokens."
        fake.script(refused(first), refused("max_tokens is too large: 4096. This model supports at most 100."))
        failure = await ask(provider, request(model, [user("hi")], max_tokens=9000))
        assert isinstance(failure, Failure) and failure.message.startswith(first)
        fake.script(text("a"))
        await ask(provider, request(model, [user("hi")], max_tokens=9000))
        await provider.close()
        assert told(fake, "max_tokens") == [9000, 4096, 9000], "what did not help is not kept"


async def test_another_fault_behind_a_corrected_one_is_told_as_it_is() -> None:
    async with FakeServer(strict=False) as fake:
        model, provider = at(fake, CHAT, model="m")
        fake.script(refused("stream_options is not supported"), refused("The model `m` does not exist"), text("a"))
        failure = await ask(provider, request(model, [user("hi")]))
        assert isinstance(failure, Failure) and "does not exist" in failure.message
        await ask(provider, request(model, [user("hi")]))
        await provider.close()
        assert told(fake, "stream_options") == [{"include_usage": True}, None, None], "the correction itself was right"


async def test_trouble_behind_a_correction_is_told_and_retryable() -> None:
    async with FakeServer(strict=False) as fake:
        model, provider = at(fake, CHAT, model="m")
        fake.script(refused("stream_options is not supported"), error(529))
        failure = await ask(provider, request(model, [user("hi")]))
        await provider.close()
        assert isinstance(failure, Failure) and (failure.kind, failure.retryable) == ("transient", True)


async def test_no_request_is_corrected_for_ever() -> None:
    async with FakeServer(strict=False) as fake:
        model, provider = at(fake, CHAT, model="m")
        fake.respond(lambda _: refused("stream_options is not supported"))
        failure = await ask(provider, request(model, [user("hi")]))
        await provider.close()
        assert isinstance(failure, Failure) and len(fake.requests) == 2


async def test_an_error_behind_the_first_output_is_not_corrected() -> None:
    async with FakeServer(strict=False) as fake:
        model, provider = at(fake, CHAT, model="m")
        fake.script(drop_after("half", end="done"))
        failure = await ask(provider, request(model, [user("hi")]))
        await provider.close()
        assert isinstance(failure, Failure) and len(fake.requests) == 1


async def test_an_error_inside_the_stream_is_corrected_too() -> None:
    async with FakeServer(strict=False) as fake:
        model, provider = at(fake, CHAT, model="m")
        inside = {"error": {"message": "stream_options is not supported", "type": "invalid_request_error"}}
        fake.script(json_reply(inside), text("a"))
        answer = await ask(provider, request(model, [user("hi")]))
        await provider.close()
        assert isinstance(answer, AssistantMessage) and answer.text == "a"


async def test_the_messages_are_not_encoded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeServer(strict=False) as fake:
        model, provider = at(fake, CHAT, model="m")
        prefix = EncodedPrefix()
        fake.script(refused("stream_options is not supported"), text("a"))
        await ask(provider, request(model, [user("hi"), said(model, TextBlock("so")), user("on")], prefix=prefix))
        await provider.close()
        assert prefix.count == 3
        assert told(fake, "messages")[0] == told(fake, "messages")[1]


# Signed reasoning.


async def seen_twice(fake: FakeServer, api: str, spoil: Any, **fields: Any) -> tuple[list[Message], Any, ModelEntry]:
    """A session with sealed reasoning in two replies, of which the service will no longer take the first."""
    model, provider = at(fake, api, **fields)
    messages: list[Message] = [system(model), user("hi")]
    prefix = EncodedPrefix()
    fake.script(reply(thinking("one"), "so"), reply(thinking("two"), "and"), reply(thinking("three"), "more"))
    for turn in range(3):
        if turn == 2:
            spoil(fake)
        answer = await ask(provider, request(model, messages, prefix=prefix, system=messages[0]))
        assert isinstance(answer, AssistantMessage), answer
        messages += [answer, user("on")]
    fake.script(text("end"))
    assert isinstance(
        await ask(provider, request(model, messages, prefix=prefix, system=messages[0])), AssistantMessage
    )
    return messages, provider, model


@pytest.mark.parametrize(("api", "model"), [(MESSAGES, "claude-opus-5-5"), (RESPONSES, "gpt-5.5")])
async def test_reasoning_that_is_refused_is_left_out_for_this_context_alone(api: str, model: str) -> None:
    def forget(fake: FakeServer) -> None:
        fake.issued.seals.clear()
        fake.issued.reasoning.clear()

    async with FakeServer() as fake:
        _, provider, entry_ = await seen_twice(fake, api, forget, model=model)
        seals = [len(one.thinking()) for one in fake.requests]
        assert seals == [0, 1, 2, 0, 1], "refused with two, taken without, and the third seal is sent again"
        assert [one.refused is None for one in fake.requests] == [True, True, False, True, True]
        # Nothing of it holds for another context.
        fake.script(reply(thinking("new"), "so"), text("b"))
        messages: list[Message] = [user("hi")]
        for _ in range(2):
            answer = await ask(provider, request(entry_, messages))
            assert isinstance(answer, AssistantMessage)
            messages += [answer, user("on")]
        assert len(fake.requests[-1].thinking()) == 1
        await provider.close()


SEALED_SAYINGS = [
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.",
    "messages.1.content.0: Invalid `signature` in `redacted_thinking` block",
    "messages.3: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
    "When `thinking` is enabled, a final `assistant` message must start with a thinking block",
    "The encrypted content gAAA... could not be verified.",
    "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
    "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
]


@pytest.mark.parametrize("message", SEALED_SAYINGS)
def test_complaints_about_signed_reasoning(message: str) -> None:
    found = fix_of(HEADS[MESSAGES], anthropic(message))
    assert found is not None and found.unseal and not found.kept


def test_the_code_of_such_a_complaint_is_enough() -> None:
    found = fix_of(HEADS[RESPONSES], openai("Bad content.", None, "invalid_encrypted_content"))
    assert found is not None and found.unseal


async def test_where_leaving_the_reasoning_out_does_not_help_it_is_sent_again_later() -> None:
    async with FakeServer(strict=False) as fake:
        model, provider = at(fake, MESSAGES, model="claude-opus-5-5")
        prefix = EncodedPrefix()
        messages = [user("hi"), said(model, ThinkingBlock("hm", "sig"), TextBlock("so")), user("on")]
        fake.script(refused(SEALED_SAYINGS[0]), refused(SEALED_SAYINGS[1]), text("a"))
        failure = await ask(provider, request(model, messages, prefix=prefix))
        assert isinstance(failure, Failure) and failure.message.startswith(SEALED_SAYINGS[0])
        assert prefix.unsealed == 0
        await ask(provider, request(model, messages, prefix=prefix))
        await provider.close()
        assert [len(one.thinking()) for one in fake.requests] == [1, 0, 1]


async def test_a_round_of_calls_goes_on_without_thinking_once_its_reasoning_is_refused() -> None:
    async with FakeServer() as fake:
        model, provider = at(fake, MESSAGES, model="claude-sonnet-5", thinking="adaptive", provider="anthropic")
        fake.script(reply(thinking("hm"), call("read", {}, id="c1")), text("done"))
        prefix = EncodedPrefix()
        messages: list[Message] = [system(model), user("go")]
        answer = await ask(provider, request(model, messages, prefix=prefix, system=messages[0]))
        assert isinstance(answer, AssistantMessage)
        broken = said(model, ThinkingBlock("changed", "forged"), ToolCall("c1", "read", {}))
        messages += [broken, ToolResultMessage("c1", "read", (TextBlock("r"),))]
        answer = await ask(provider, request(model, messages, prefix=prefix, system=messages[0]))
        await provider.close()
        assert isinstance(answer, AssistantMessage) and answer.text == "done"
        assert told(fake, "thinking")[1:] == [{"type": "adaptive", "display": "summarized"}, {"type": "disabled"}]


def test_a_shorter_context_is_another_one() -> None:
    model = entry(MESSAGES, model="claude-opus-5-5")
    prefix = EncodedPrefix(unsealed=5)
    sealed = [user("hi"), said(model, ThinkingBlock("hm", "sig"), TextBlock("so")), user("on")]
    from agent_nodes.providers import anthropic_messages

    assert b'"sig"' in anthropic_messages.draft(request(model, sealed, prefix=prefix)).encode()
    assert prefix.unsealed == 0


# What is kept.


def test_the_memory_is_bounded_and_keeps_what_was_learnt_last() -> None:
    memory = Memory(size=2)
    for model in ("a", "b", "a", "c"):
        memory.keep("http://x", model, Fix("f", lambda head: head))
    assert [len(memory.fixes("http://x", model)) for model in ("a", "b", "c")] == [1, 0, 1]
    assert memory.fixes("http://y", "a") == ()
    memory.clear()
    assert memory.fixes("http://x", "a") == ()


def test_the_process_remembers_until_told_to_forget() -> None:
    corrections.MEMORY.keep("http://x", "m", Fix("f", lambda head: head))
    assert len(corrections.MEMORY.fixes("http://x", "m")) == 1
