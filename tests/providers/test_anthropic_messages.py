"""Messages: what a request says, and what the events of a reply become."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_nodes.events import TextDelta, ThinkingDelta
from agent_nodes.messages import NativeBlock, TextBlock, ThinkingBlock, ToolCall, Usage
from agent_nodes.providers import anthropic_messages
from agent_nodes.providers.base import Failed, Finished, UsageUpdate
from tests.fakes.scripts import (
    block,
    call,
    paused,
    redacted,
    refusal,
    reply,
    search,
    stream_error,
    text,
    thinking,
)
from tests.providers import protocols
from tests.providers.protocols import Decoded, body, decode, decode_whole, payloads, rendered, request, said, user

MODEL = protocols.entry("anthropic-messages", model="claude-opus-5-5")
API = "anthropic-messages"


def start(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", **fields}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def finish(reason: str | None = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}, {"type": "message_stop"}]


class TestRequest:
    def test_holds_what_the_service_needs(self) -> None:
        asked = request(MODEL, [user("hi")], max_tokens=100)
        assert body(asked) == {
            "model": "claude-opus-5-5",
            "max_tokens": 100,
            "stream": True,
            "thinking": {"type": "adaptive", "display": "summarized"},
            "system": [{"type": "text", "text": "Be kind."}],
            "tools": [
                {
                    "name": "read",
                    "description": "Reads a file.",
                    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
                }
            ],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        }

    def test_without_tools_and_sections_has_neither_field(self) -> None:
        asked = request(MODEL, [user("hi")], system=protocols.system(MODEL, " ", tools=()))
        assert not {"tools", "system"} & body(asked).keys()
        assert protocols.refusal(asked) is None

    @pytest.mark.parametrize(
        ("model", "thinks"),
        [
            ("claude-opus-5-5", True),
            ("claude-sonnet-5", True),
            ("claude-fable-5-2", True),
            ("us.anthropic.claude-haiku-5-5", True),
            ("claude-opus-4-8", False),
            ("claude-haiku-4-5-20251001", False),
            ("claude-sonnet-4-5", False),
            ("m-a", False),
        ],
    )
    def test_shows_thinking_where_a_model_thinks_by_itself(self, model: str, thinks: bool) -> None:
        asked = request(protocols.entry(API, model=model), [user("hi")], max_tokens=100)
        assert ("thinking" in body(asked)) is thinks
        assert protocols.refusal(asked) is None

    def test_asks_for_caching_only_from_the_service_itself(self) -> None:
        assert "cache_control" not in body(request(MODEL, [user("hi")]))
        official = protocols.entry(API, provider="anthropic")
        assert body(request(official, [user("hi")]))["cache_control"] == {"type": "ephemeral"}

    def test_has_a_limit_of_output_in_any_case(self) -> None:
        assert body(request(MODEL, [user("hi")]))["max_tokens"] == anthropic_messages.DEFAULT_MAX_TOKENS
        assert body(request(protocols.entry(API, max_tokens=5), [user("hi")]))["max_tokens"] == 5

    def test_the_key_goes_both_ways_to_a_gateway_only(self) -> None:
        official = protocols.entry(API, base_url="https://api.anthropic.com")
        assert "x-api-key" not in anthropic_messages.headers("k", official)
        gateway = anthropic_messages.headers("k", MODEL)
        assert (gateway["authorization"], gateway["x-api-key"]) == ("Bearer k", "k")
        assert list(anthropic_messages.headers(None, MODEL)) == ["anthropic-version"]

    def test_repeats_what_the_model_said_as_it_was(self) -> None:
        citations = [{"type": "web_search_result_location", "url": "u", "encrypted_index": "e"}]
        reply = said(
            MODEL,
            ThinkingBlock("", "sig"),
            TextBlock("so", {"citations": citations}),
            ToolCall("a", "read", {"path": "x"}, raw={"caller": {"type": "direct"}}),
        )
        assert body(request(MODEL, [user("hi"), reply]))["messages"][1]["content"] == [
            {"type": "thinking", "thinking": "", "signature": "sig"},
            {"type": "text", "text": "so", "citations": citations},
            {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}, "caller": {"type": "direct"}},
        ]


class TestReply:
    def test_st_13_mixed_deltas_stay_with_their_blocks(self) -> None:
        answer = reply(
            thinking("t1", "t2", signature="s"), text("a", "b"), call("read", pieces=['{"p":', "1}"], id="c")
        )
        mixed = decode(MODEL, payloads(API, answer.interleaved([1, 0, 2, 1, 0, 2], [2, 0, 1])))
        assert mixed.blocks == (ThinkingBlock("t1t2", "s"), TextBlock("ab"), ToolCall("c", "read", {"p": 1}))
        assert mixed.last == Finished("tool_use", claimed_calls=1)

    @pytest.mark.parametrize("pieces", [[], [""]])
    def test_st_09_no_arguments_are_an_empty_object(self, pieces: list[str]) -> None:
        events = [start(0, "tool_use", id="a", name="ping", input={})]
        events += [delta(0, "input_json", partial_json=piece) for piece in pieces]
        assert decode(MODEL, [*events, stop(0), *finish("tool_use")]).blocks == (ToolCall("a", "ping", {}),)

    def test_st_14_a_call_cut_by_the_limit_is_marked_invalid(self) -> None:
        events = [
            start(0, "tool_use", id="a", name="write", input={}),
            delta(0, "input_json", partial_json='{"path":"plan.md"'),
            stop(0),
            *finish("max_tokens"),
        ]
        cut = decode(MODEL, events)
        assert cut.blocks == (ToolCall("a", "write", {}, invalid='{"path":"plan.md"'),)
        assert cut.last == Finished("length")

    def test_hi_11_half_a_surrogate_pair_in_arguments_is_repaired(self) -> None:
        events = [
            start(0, "tool_use", id="a", name="write", input={}),
            delta(0, "input_json", partial_json='{"content":"가\\ud99c나\\u0000"}'),
            stop(0),
            *finish("tool_use"),
        ]
        assert decode(MODEL, events).blocks == (ToolCall("a", "write", {"content": "가\ufffd나\ufffd"}),)

    @pytest.mark.parametrize(
        "arguments", ["[1]", "1", "null", "{", '{"n": 123456789012345678901234567890}', "[" * 9999]
    )
    def test_arguments_that_are_no_storable_object_are_kept_as_text(self, arguments: str) -> None:
        events = [start(0, "tool_use", id="a", name="x", input={}), delta(0, "input_json", partial_json=arguments)]
        (found,) = decode(MODEL, [*events, stop(0), *finish()]).blocks
        assert (found.arguments, found.invalid) == ({}, arguments)

    def test_a_pair_cut_in_two_by_the_service_is_joined(self) -> None:
        events = [
            start(0, "text", text=""),
            rb'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\ud83c"}}',
            rb'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\udf5c\ud83c"}}',
            rb'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b\u0000\ud83c"}}',
            stop(0),
            *finish(),
        ]
        found = decode(MODEL, events)
        assert found.shown(TextDelta) == found.message.text == "a🍜\ufffdb\ufffd\ufffd"

    def test_counts_are_cumulative_and_keep_what_is_left_out(self) -> None:
        answer = text("hi").using(11, 2, cached=3, cache_write=4, reasoning=1)
        found = decode(MODEL, payloads(API, answer))
        assert found.usage == Usage(11, 2, 3, 4, 1)
        assert sum(isinstance(event, UsageUpdate) for event in found.events) == 2
        first = {"type": "message_start", "message": {"usage": {"input_tokens": 9, "cache_read_input_tokens": 2}}}
        assert decode(MODEL, [first, *finish(output_tokens=5, input_tokens=None)]).usage == Usage(9, 5, 2)

    @pytest.mark.parametrize(
        ("reason", "expected"),
        [
            ("end_turn", "end"),
            ("stop_sequence", "end"),
            ("max_tokens", "length"),
            ("pause_turn", "pause"),
            ("refusal", "refusal"),
            ("model_context_window_exceeded", "overflow"),
            ("something_new", "end"),
        ],
    )
    def test_stop_reasons(self, reason: str, expected: str) -> None:
        found = decode(MODEL, [start(0, "text", text="x"), stop(0), *finish(reason)])
        assert found.last == Finished(expected)  # type: ignore[arg-type]

    def test_a_call_that_was_announced_but_never_came_is_claimed(self) -> None:
        found = decode(MODEL, [start(0, "text", text="I will"), stop(0), *finish("tool_use")])
        assert found.last == Finished("tool_use", claimed_calls=1)
        assert not found.message.calls

    def test_a_call_counts_also_where_the_reason_forgets_it(self) -> None:
        events = [start(0, "tool_use", id="a", name="read", input={"path": "x"}), stop(0), *finish("end_turn")]
        found = decode(MODEL, events)
        assert found.last == Finished("tool_use")
        assert found.blocks == (ToolCall("a", "read", {"path": "x"}),)

    def test_searches_are_kept_as_they_came(self) -> None:
        answer = reply(search("q", ("https://a", "A")), text("so", cite=[("https://a", "A", "so")]))
        found = decode(MODEL, payloads(API, answer))
        use, result, told = found.blocks
        assert use == NativeBlock(
            {"type": "server_tool_use", "id": use.raw["id"], "name": "web_search", "input": {"query": "q"}}
        )
        assert result.raw["content"][0]["encrypted_content"]
        assert told.text == "so" and told.raw["citations"][0]["encrypted_index"]
        assert [block.raw for block in found.blocks[:2]] == rendered(API, answer)[1]["content"][:2]

    def test_redacted_and_unknown_blocks_are_kept_as_they_came(self) -> None:
        unknown = {"type": "crystal_ball", "data": {"x": [1, None]}}
        found = decode(MODEL, payloads(API, reply(redacted("d"), block(unknown), text("hi"))))
        assert found.blocks == (
            ThinkingBlock("", raw={"type": "redacted_thinking", "data": "d"}),
            NativeBlock(unknown),
            TextBlock("hi"),
        )

    def test_thinking_without_text_keeps_its_signature(self) -> None:
        found = decode(MODEL, payloads(API, reply(thinking(signature="s"), text("hi"))))
        assert found.blocks == (ThinkingBlock("", "s"), TextBlock("hi"))
        unsigned = decode(MODEL, payloads(API, reply(thinking("hm", signature=""), text("hi"))))
        assert unsigned.blocks[0] == ThinkingBlock("hm")
        assert unsigned.shown(ThinkingDelta) == "hm"

    def test_refusals_and_pauses(self) -> None:
        assert decode(MODEL, payloads(API, refusal("no"))).last == Finished("refusal")
        assert decode(MODEL, payloads(API, paused(search("q", finished=False)))).last == Finished("pause")

    def test_st_05_an_overload_inside_the_stream_is_a_failure(self) -> None:
        found = decode(MODEL, payloads(API, stream_error("overloaded")))
        assert isinstance(found.last, Failed)
        assert (found.last.failure.kind, found.last.failure.retryable) == ("transient", True)
        bare = decode(MODEL, [{"error": {"type": "overloaded_error", "message": "busy"}}])
        assert isinstance(bare.last, Failed) and bare.last.failure.retryable

    def test_st_03_a_body_that_ends_early_is_not_a_reply(self) -> None:
        cut = decode(MODEL, payloads(API, text("The total is ").without_terminal()))
        assert not any(isinstance(event, Finished | Failed) for event in cut.events)

    def test_a_stop_reason_without_the_last_event_is_a_reply(self) -> None:
        events = payloads(API, text("done"))[:-1]
        assert decode(MODEL, events).last == Finished("end")
        assert decode(MODEL, [start(0, "text", text="open"), *finish()[:1]]).message.text == "open"

    @pytest.mark.parametrize("event", [{"type": "ping"}, {"type": "new_event", "x": 1}, {}])
    def test_events_that_say_nothing_are_passed_over(self, event: dict[str, Any]) -> None:
        assert decode(MODEL, [event], ended=False).events == []

    @pytest.mark.parametrize("payload", [b"nonsense", b"[1]", b'{"type":"content_block_delta"}', b"7"])
    def test_what_cannot_be_read_is_reported_by_a_value_error_or_its_like(self, payload: bytes) -> None:
        with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
            decode(MODEL, [payload], ended=False)

    def test_a_document_that_is_no_message_gives_nothing(self) -> None:
        assert decode_whole(MODEL, {"choices": []}).events == []


PARTS = st.lists(
    st.one_of(
        st.lists(st.sampled_from(["a", "점심 ", "🍜", "\n"]), min_size=1, max_size=4).map(lambda texts: text(*texts)),
        st.lists(st.sampled_from(["hm", "그래 "]), max_size=3).map(lambda texts: thinking(*texts)),
        st.just(redacted("d")),
        st.sampled_from([{}, {"path": "a.txt"}, {"deep": [{"x": "점심"}]}]).map(lambda args: call("read", args)),
        st.just(search("q", ("https://a", "A"))),
    ),
    min_size=1,
    max_size=5,
)


@given(parts=PARTS, seed=st.integers(0, 999))
def test_any_order_of_deltas_decodes_to_the_same_message(parts: list[Any], seed: int) -> None:
    answer = reply(*parts)
    events, document = rendered(API, answer)
    whole = [event.data for event in events]
    blocks: dict[int, list[dict[str, Any]]] = {}
    for event in whole:
        if "index" in event:
            blocks.setdefault(event["index"], []).append(event)
    outside = [event for event in whole if "index" not in event and event["type"] != "ping"]
    mixed = [outside[0], *protocols.shuffled(list(blocks.values()), seed), *outside[1:]]
    found = decode(MODEL, mixed)
    assert found.message == decode(MODEL, whole).message
    assert found.message == decode_whole(MODEL, json.loads(json.dumps(document))).message
    assert_whole(found)


def assert_whole(found: Decoded) -> None:
    """Joined deltas are the settled text, and every call has its arguments."""
    for kind, block_type in ((TextDelta, TextBlock), (ThinkingDelta, ThinkingBlock)):
        for index in {event.index for event in found.events if isinstance(event, kind)}:
            joined = "".join(event.delta for event in found.events if isinstance(event, kind) and event.index == index)
            assert joined in [block.text for block in found.blocks if isinstance(block, block_type)]
    assert all(call.invalid is None for call in found.message.calls)
