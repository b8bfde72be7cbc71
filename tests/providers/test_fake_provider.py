"""The official clients read the fake provider's replies whole: its bytes are what real clients expect."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.fakes import (
    Answer,
    FakeServer,
    Request,
    call,
    drop_after,
    error,
    gate,
    paused,
    redacted,
    refusal,
    reply,
    search,
    search_result,
    stream_error,
    text,
    thinking,
    tools,
)

USER: list[Any] = [{"role": "user", "content": "hi"}]


@contextlib.asynccontextmanager
async def claude(fake: FakeServer) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(api_key="k", base_url=fake.url, max_retries=0) as client:
        yield client


@contextlib.asynccontextmanager
async def gpt(fake: FakeServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key="k", base_url=fake.v1, max_retries=0) as client:
        yield client


async def ask_claude(client: anthropic.AsyncAnthropic, messages: list[Any] = USER, **options: Any) -> Any:
    async with client.messages.stream(model="m-a", max_tokens=1000, messages=messages, **options) as stream:
        return await stream.get_final_message()


async def ask_responses(client: openai.AsyncOpenAI, items: Any = "hi", **options: Any) -> tuple[Any, list[Any]]:
    stream = await client.responses.create(model="m-a", input=items, store=False, stream=True, **options)
    events = [event async for event in stream]
    return events[-1], events


async def ask_chat(client: openai.AsyncOpenAI, **options: Any) -> Any:
    asked: Any = {"stream_options": {"include_usage": True}, **options}
    async with client.chat.completions.stream(model="m-a", messages=USER, **asked) as stream:
        return await stream.get_final_completion()


def everything() -> Answer:
    parts = (
        thinking("let me ", "see"),
        "점심 🍜 ",
        "끝",
        call("read", {"path": "a.txt"}, id="c1"),
        call("ls", id="c2"),
    )
    return reply(*parts).using(11, 7, cached=3, cache_write=2, reasoning=4)


async def test_messages_client_reads_thinking_text_calls_and_usage() -> None:
    async with FakeServer() as fake, claude(fake) as client:
        fake.script(everything())
        message = await ask_claude(client)
    thought, *texts, first, second = message.content
    assert (thought.thinking, bool(thought.signature)) == ("let me see", True)
    assert [block.text for block in texts] == ["점심 🍜 ", "끝"]
    assert [(c.id, c.name, c.input) for c in (first, second)] == [("c1", "read", {"path": "a.txt"}), ("c2", "ls", {})]
    assert message.stop_reason == "tool_use"
    usage = message.usage
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens)
    assert counts == (11, 7, 3, 2)
    assert usage.output_tokens_details.thinking_tokens == 4


async def test_responses_client_reads_reasoning_text_calls_and_usage() -> None:
    async with FakeServer() as fake, gpt(fake) as client:
        fake.script(everything())
        last, events = await ask_responses(client)
    response = last.response
    assert [item.type for item in response.output] == ["reasoning", "message", "message", *["function_call"] * 2]
    assert response.output[0].encrypted_content
    assert response.output[0].summary[0].text == "let me see"
    assert response.output_text == "점심 🍜 끝"
    assert [(item.call_id, item.arguments) for item in response.output[3:]] == [
        ("c1", '{"path": "a.txt"}'),
        ("c2", "{}"),
    ]
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (16, 7, 23)
    assert (usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens) == (3, 4)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert {type(event).__name__ for event in events if event.type.endswith("text.delta")} == {
        "ResponseTextDeltaEvent",
        "ResponseReasoningSummaryTextDeltaEvent",
    }


async def test_chat_client_reads_reasoning_text_calls_and_usage() -> None:
    async with FakeServer() as fake, gpt(fake) as client:
        fake.script(everything())
        completion = await ask_chat(client)
    choice = completion.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "점심 🍜 끝"
    assert choice.message.reasoning_content == "let me see"
    calls = [(c.id, c.function.name, json.loads(c.function.arguments)) for c in choice.message.tool_calls]
    assert calls == [("c1", "read", {"path": "a.txt"}), ("c2", "ls", {})]
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (16, 7)
    assert completion.usage.prompt_tokens_details.cached_tokens == 3


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("length", ("max_tokens", "max_output_tokens", "length")),
        ("refusal", ("refusal", None, "stop")),
        ("end", ("end_turn", None, "stop")),
    ],
)
async def test_each_stop_has_each_protocols_own_word(stop: str, expected: tuple[Any, ...]) -> None:
    answer = refusal("I won't") if stop == "refusal" else text("some").stopping(stop)
    async with FakeServer() as fake, claude(fake) as one, gpt(fake) as other:
        fake.script(answer, answer, answer)
        message = await ask_claude(one)
        last, _events = await ask_responses(other)
        stream = await other.chat.completions.create(model="m-a", messages=USER, stream=True)
        finish = [c.choices[0].finish_reason async for c in stream if c.choices and c.choices[0].finish_reason]
    details = last.response.incomplete_details
    assert (message.stop_reason, details and details.reason, finish[0]) == expected
    if stop == "refusal":
        assert last.response.output[0].content[0].refusal == "I won't"


async def test_a_paused_search_is_resumed_with_its_content_as_it_came() -> None:
    async with FakeServer() as fake, claude(fake) as client:
        fake.script(
            paused("Looking.", search("weather", id="srvtoolu_1", finished=False)),
            reply(
                search_result("srvtoolu_1", ("https://w.example", "Weather")),
                text("Sunny", cite=[("https://w.example", "Weather", "sunny")]),
            ).using(searches=1),
        )
        tool: Any = {"type": "web_search_20250305", "name": "web_search"}
        first = await ask_claude(client, tools=[tool])
        content = [block.model_dump(exclude_none=True) for block in first.content]
        second = await ask_claude(client, [*USER, {"role": "assistant", "content": content}], tools=[tool])
        fake.assert_accepted()
    assert first.stop_reason == "pause_turn"
    assert second.content[0].content[0].title == "Weather"
    assert second.content[1].citations[0].encrypted_index
    assert second.usage.server_tool_use.web_search_requests == 1


async def test_responses_search_and_citation_are_read() -> None:
    async with FakeServer() as fake, gpt(fake) as client:
        fake.script(
            reply(search("weather", ("https://w", "W")), text("It is sunny.", cite=[("https://w", "W", "sunny")]))
        )
        last, events = await ask_responses(client)
    assert last.response.output[0].action.sources[0].url == "https://w"
    mark = last.response.output[1].content[0].annotations[0]
    assert (mark.start_index, mark.end_index) == (6, 11)
    assert "response.web_search_call.searching" in [event.type for event in events]


async def test_redacted_thinking_comes_whole() -> None:
    async with FakeServer() as fake, claude(fake) as client:
        fake.script(reply(redacted(), "ok"))
        message = await ask_claude(client)
    assert message.content[0].type == "redacted_thinking"
    assert message.content[0].data


async def test_http_errors_become_the_clients_own_classes() -> None:
    async with FakeServer() as fake, claude(fake) as one, gpt(fake) as other:
        fake.script(error(529), error(429, "no credit left", code="insufficient_quota", retry_after=3))
        with pytest.raises(anthropic.APIStatusError) as overloaded:
            await ask_claude(one)
        with pytest.raises(openai.RateLimitError) as limited:
            await ask_responses(other)
    assert (overloaded.value.status_code, overloaded.value.type) == (529, "overloaded_error")
    assert (limited.value.code, limited.value.response.headers["retry-after"]) == ("insufficient_quota", "3")
    assert "no credit left" in str(limited.value)


async def test_errors_inside_a_200_reach_the_clients() -> None:
    async with FakeServer() as fake, claude(fake) as one, gpt(fake) as other:
        fake.script(
            stream_error("overloaded"),
            stream_error("rate_limit", after=["half"]),
            stream_error("server", failed_event=True),
            stream_error("overloaded"),
        )
        with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
            await ask_claude(one)
        bare, events = await ask_responses(other)
        failed, _events = await ask_responses(other)
        with pytest.raises(openai.APIError, match="overloaded"):
            await ask_chat(other)
    assert (bare.type, bare.code) == ("error", "rate_limit_exceeded")
    assert "half" in [event.delta for event in events if event.type == "response.output_text.delta"]
    assert (failed.type, failed.response.error.code) == ("response.failed", "server_error")


async def test_a_dropped_stream_ends_without_its_terminal_event() -> None:
    async with FakeServer() as fake, claude(fake) as client:
        fake.script(drop_after("The total is "))
        stream = await client.messages.create(model="m-a", max_tokens=10, messages=USER, stream=True)
        kinds = [event.type async for event in stream]
    assert kinds == ["message_start", "content_block_start", "content_block_delta"]


async def test_interleaved_blocks_arrive_in_the_scripted_order() -> None:
    async with FakeServer() as fake, claude(fake) as client:
        answer = reply(thinking("t1", "t2"), text("a1", "a2"), call("read", pieces=['{"path":', '"x"}']))
        fake.script(answer.interleaved([1, 0, 2, 1, 0, 2], stops=[2, 0, 1]))
        stream = await client.messages.create(model="m-a", max_tokens=10, messages=USER, stream=True)
        events: list[Any] = [event async for event in stream]
    deltas = [e.index for e in events if e.type == "content_block_delta" and e.delta.type != "signature_delta"]
    assert deltas == [1, 0, 2, 1, 0, 2]
    assert [e.index for e in events if e.type == "content_block_stop"] == [2, 0, 1]


async def test_a_json_body_can_stand_in_for_each_stream() -> None:
    async with FakeServer(strict=False) as fake, claude(fake) as one, gpt(fake) as other:
        fake.script(*[everything().as_json_body()] * 3)
        message: Any = await one.messages.create(model="m-a", max_tokens=10, messages=USER)
        response: Any = await other.responses.create(model="m-a", input="hi", store=False)
        completion: Any = await other.chat.completions.create(model="m-a", messages=USER)
    assert message.content[1].text == "점심 🍜 "
    assert response.output_text == "점심 🍜 끝"
    assert completion.choices[0].message.content == "점심 🍜 끝"
    assert (message.usage.output_tokens, response.usage.output_tokens, completion.usage.completion_tokens) == (7, 7, 7)


async def test_a_gate_holds_the_next_delta_until_it_is_opened() -> None:
    async with FakeServer() as fake, claude(fake) as client:
        held = gate()
        fake.script(text("a", "b", "c", "d").hold(held, before=3))
        seen: list[str] = []
        async with client.messages.stream(model="m-a", max_tokens=10, messages=USER) as stream:
            async for piece in stream.text_stream:
                seen.append(piece)
                if piece == "c":
                    assert not fake.requests[0].finished.is_set()
                    await held.reached.wait()
                    held.open()
        await fake.requests[0].finished.wait()
    assert seen == ["a", "b", "c", "d"]


async def test_a_client_that_leaves_is_noticed() -> None:
    async with FakeServer() as fake:
        async with claude(fake) as client:
            held = gate()
            fake.script(text("a", "b").hold(held, before=1))
            asking = asyncio.create_task(ask_claude(client))
            await held.reached.wait()
            asking.cancel()
            await asyncio.wait([asking])
        await fake.requests[0].left.wait()
        assert fake.open_connections == 0


async def test_the_log_reads_alike_for_the_three_protocols() -> None:
    function = {"name": "read", "description": "Reads.", "parameters": {"type": "object", "properties": {}}}
    async with FakeServer() as fake, claude(fake) as one, gpt(fake) as other:
        fake.respond(lambda request: text(f"round {len(request.results())}"))
        use: Any = {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}}
        result: Any = {"type": "tool_result", "tool_use_id": "c1", "content": "text of a"}
        tool: Any = {"name": "read", "input_schema": {"type": "object"}}
        history = [*USER, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        await ask_claude(one, history, tools=[tool], system="Be brief.")
        items: Any = [
            *USER,
            {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path": "a"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "text of a"},
        ]
        tool = {"type": "function", "strict": False, **function}
        await ask_responses(other, items, instructions="Be brief.", tools=[tool])
        call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
        history = [
            {"role": "system", "content": "Be brief."},
            *USER,
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "text of a"},
        ]
        tool = {"type": "function", "function": function}
        await other.chat.completions.create(model="m-a", messages=history, tools=[tool], stream=True)
        await fake.wait_requests(3)
        fake.assert_accepted()

    def view(request: Request) -> tuple[Any, ...]:
        return (
            request.model,
            request.system_text(),
            request.tool_names(),
            request.messages_text(),
            request.last_user_text(),
            request.calls(),
            request.call_ids(),
            request.results(),
        )

    expected = (
        "m-a",
        "Be brief.",
        ["read"],
        [("user", "hi")],
        "hi",
        [("c1", "read", {"path": "a"})],
        ["c1"],
        {"c1": "text of a"},
    )
    assert [view(request) for request in fake.requests] == [expected] * 3


async def test_an_exhausted_script_answers_with_a_plain_500() -> None:
    async with FakeServer() as fake, claude(fake) as client:
        with pytest.raises(anthropic.InternalServerError, match="script exhausted"):
            await ask_claude(client)


async def test_a_reply_that_cannot_be_played_fails_the_test_that_scripted_it() -> None:
    async def play() -> None:
        async with FakeServer() as fake, gpt(fake) as client:
            fake.script(paused("x"))
            with pytest.raises(openai.InternalServerError):
                await ask_responses(client)

    with pytest.raises(AssertionError, match="no stop reason 'pause'"):
        await play()


def test_a_server_in_a_thread_serves_blocking_code() -> None:
    with FakeServer.in_thread() as fake, anthropic.Anthropic(api_key="k", base_url=fake.url, max_retries=0) as client:
        fake.script(tools(call("read", {"path": "a"})), text("ok"))
        for expected in ("tool_use", "text"):
            with client.messages.stream(model="m-a", max_tokens=10, messages=USER) as stream:
                assert stream.get_final_message().content[0].type == expected
        assert len(fake.wait_requests_blocking(2)) == 2


def test_a_server_process_answers_with_the_named_function() -> None:
    command = [sys.executable, "-W", "error", "-m", "tests.fakes", "--respond", "tests.fakes.__main__:echo"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            with (
                anthropic.Anthropic(api_key="k", base_url=url, max_retries=0) as client,
                client.messages.stream(model="m-a", max_tokens=10, messages=USER) as stream,
            ):
                assert stream.get_final_text() == "You said: hi"
        finally:
            server.terminate()
