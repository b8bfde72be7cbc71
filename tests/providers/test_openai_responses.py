"""Responses: what a request says, and what the events of a reply become."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_nodes.events import TextDelta, ThinkingDelta
from agent_nodes.messages import (
    ImageBlock,
    NativeBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from agent_nodes.providers import history, openai_responses
from agent_nodes.providers.base import Failed, Finished
from tests.fakes.issued import Issued
from tests.fakes.scripts import block, call, refusal, reply, search, stream_error, text, thinking
from tests.providers import protocols
from tests.providers.protocols import PNG, body, decode, decode_whole, payloads, rendered, request, said, sent, user

API = "openai-responses"
MODEL = protocols.entry(API, model="gpt-5.5")
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "enc"}
ISSUED = Issued(reasoning={"enc": {("gpt-5.5", "rs_1")}}, needs_reasoning={"ws_1": "rs_1"})
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}


def added(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def part(index: int, kind: str, delta: str) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": index, "delta": delta}


def completed(*output: dict[str, Any], status: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"status": status, "output": list(output), **fields}}


class TestRequest:
    def test_holds_what_the_service_needs(self) -> None:
        asked = request(MODEL, [user("hi")], max_tokens=3, cache_key="key")
        assert body(asked) == {
            "model": "gpt-5.5",
            "stream": True,
            "store": False,
            "max_output_tokens": 16,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"summary": "auto"},
            "prompt_cache_key": "key",
            "tools": [
                {
                    "type": "function",
                    "name": "read",
                    "description": "Reads a file.",
                    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
                    "strict": False,
                }
            ],
            "instructions": "Be kind.",
            "input": [{"role": "user", "content": "hi"}],
        }
        assert protocols.refusal(asked) is None

    def test_leaves_out_what_does_not_apply(self) -> None:
        model = protocols.entry(API, model="gpt-4o", reasoning=False)
        asked = request(model, [user("hi")], system=protocols.system(model, "", tools=()))
        assert body(asked).keys() == {"model", "stream", "store", "input"}

    def test_obfuscation_is_switched_off_at_the_service_itself(self) -> None:
        official = protocols.entry(API, provider="openai")
        assert body(request(official, [user("hi")]))["stream_options"] == {"include_obfuscation": False}
        assert "stream_options" not in body(request(MODEL, [user("hi")]))

    def test_a_long_cache_key_is_shortened_and_stays_the_same(self) -> None:
        keys = [body(request(MODEL, [user("hi")], cache_key=key))["prompt_cache_key"] for key in ("k" * 99, "k" * 99)]
        assert keys[0] == keys[1] and len(keys[0]) == 64

    def test_repeats_reasoning_as_it_came_and_other_items_without_ids(self) -> None:
        reply = said(
            MODEL,
            ThinkingBlock("hm", raw=REASONING),
            TextBlock("so", {"phase": "commentary"}),
            ToolCall("c1", "read", {"path": "x"}),
        )
        asked = request(MODEL, [user("hi"), reply])
        assert protocols.refusal(asked, ISSUED) is None
        assert sent(asked)[1:] == [
            REASONING,
            {"role": "assistant", "content": "so", "phase": "commentary"},
            {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path":"x"}'},
            {"type": "function_call_output", "call_id": "c1", "output": history.NO_RESULT},
        ]

    @pytest.mark.parametrize("start", [0, 2])
    def test_a_search_goes_with_the_reasoning_it_came_from(self, start: int) -> None:
        reply = said(MODEL, ThinkingBlock("hm", raw=REASONING), NativeBlock(SEARCH), TextBlock("so"))
        asked = request(MODEL, [user("hi"), reply, user("and")], reasoning_from=start)
        assert protocols.refusal(asked, ISSUED) is None
        kinds = [item.get("type", item.get("role")) for item in sent(asked)[1:-1]]
        assert kinds == (["assistant"] if start else ["reasoning", "web_search_call", "assistant"])

    def test_reasoning_without_its_sealed_part_is_left_out(self) -> None:
        reply = said(MODEL, ThinkingBlock("hm"), NativeBlock(SEARCH), TextBlock("so"))
        asked = request(MODEL, [user("hi"), reply, user("and")])
        assert protocols.refusal(asked, ISSUED) is None
        assert [item["role"] for item in sent(asked)] == ["user", "assistant", "user"]

    def test_pictures_may_stand_in_results(self) -> None:
        picture = ImageBlock(PNG, "image/png")
        result = ToolResultMessage("a", "read", (TextBlock("see"), picture))
        asked = request(MODEL, [UserMessage((picture,)), said(MODEL, ToolCall("a", "read", {})), result])
        assert protocols.refusal(asked) is None
        image = {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PNG}"}
        assert sent(asked)[0]["content"] == [image]
        assert sent(asked)[-1]["output"] == [{"type": "input_text", "text": "see"}, image]

    def test_no_key_no_header(self) -> None:
        assert openai_responses.headers(None, MODEL) == {}
        assert openai_responses.headers("k", MODEL) == {"authorization": "Bearer k"}


class TestReply:
    def test_st_13_mixed_deltas_stay_with_their_items(self) -> None:
        answer = reply(thinking("t1", "t2"), text("a", "b"), call("read", pieces=['{"p":', "1}"], id="c"))
        found = decode(MODEL, payloads(API, answer.interleaved([1, 0, 2, 1, 0, 2], [2, 0, 1])))
        thought, told, called = found.blocks
        assert (thought.text, told, called) == ("t1t2", TextBlock("ab"), ToolCall("c", "read", {"p": 1}))
        assert thought.raw == rendered(API, answer)[1]["output"][0]
        assert found.last == Finished("tool_use", claimed_calls=1)

    def test_st_09_no_arguments_are_an_empty_object(self) -> None:
        assert decode(MODEL, payloads(API, call("ping", "", id="a"))).blocks == (ToolCall("a", "ping", {}),)

    def test_the_final_item_has_the_last_word_on_arguments(self) -> None:
        events = [
            added(0, type="function_call", call_id="a", name="read", arguments=""),
            part(0, "function_call_arguments", '{"path"'),
            done(0, type="function_call", call_id="a", name="read", arguments='{"path":"x"}'),
            completed(),
        ]
        assert decode(MODEL, events).blocks == (ToolCall("a", "read", {"path": "x"}),)

    def test_hi_11_half_a_surrogate_pair_in_arguments_is_repaired(self) -> None:
        item = {"type": "function_call", "call_id": "a", "name": "write", "arguments": '{"content":"가\\ud99c나"}'}
        assert decode(MODEL, [done(0, **item), completed()]).blocks == (
            ToolCall("a", "write", {"content": "가\ufffd나"}),
        )

    def test_an_item_that_was_never_closed_is_what_its_deltas_say(self) -> None:
        events = [
            added(0, type="function_call", call_id="a", name="read", arguments=""),
            part(0, "function_call_arguments", '{"p":1}'),
            added(1, type="message", content=[]),
            part(1, "output_text", "so"),
            added(2, type="web_search_call", id="ws_1", status="in_progress"),
            completed(),
        ]
        assert decode(MODEL, events).blocks == (ToolCall("a", "read", {"p": 1}), TextBlock("so"))

    def test_text_that_came_only_with_the_item_is_shown_too(self) -> None:
        content = [{"type": "output_text", "text": "Hello 🍜 you"}]
        events = [part(0, "output_text", "Hello 🍜"), done(0, type="message", content=content, phase="final_answer")]
        found = decode(MODEL, [*events, completed()])
        assert found.blocks == (TextBlock("Hello 🍜 you", {"phase": "final_answer"}),)
        assert found.shown(TextDelta) == "Hello 🍜 you"

    def test_a_pair_cut_in_two_by_the_service_is_joined(self) -> None:
        events = [
            rb'{"type":"response.output_text.delta","output_index":0,"delta":"a\ud83c"}',
            rb'{"type":"response.output_text.delta","output_index":0,"delta":"\udf5cb\ud83c"}',
            done(0, type="message", content=[{"type": "output_text", "text": "a🍜b\ufffd"}]),
            completed(),
        ]
        found = decode(MODEL, events)
        assert found.shown(TextDelta) == found.message.text == "a🍜b\ufffd"

    def test_summary_parts_are_told_apart(self) -> None:
        def new_part(number: int) -> dict[str, Any]:
            return {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": number}

        summary = [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]
        events = [
            added(0, type="reasoning", id="rs_1", summary=[]),
            new_part(0),
            part(0, "reasoning_summary_text", "one"),
            new_part(1),
            part(0, "reasoning_summary_text", "two"),
            part(0, "reasoning_text", "the same in full"),
            done(0, type="reasoning", id="rs_1", summary=summary, encrypted_content="enc", status=None),
            completed(),
        ]
        found = decode(MODEL, events)
        raw = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "enc"}
        assert found.blocks == (ThinkingBlock("one\n\ntwo", raw=raw),)
        assert found.shown(ThinkingDelta) == "one\n\ntwo"

    def test_full_reasoning_of_open_models_is_shown(self) -> None:
        item = {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "hm ok"}],
        }
        found = decode(MODEL, [part(0, "reasoning_text", "hm"), done(0, **item), completed()])
        assert found.blocks == (ThinkingBlock("hm ok"),), "unsealed reasoning is shown and never sent again"

    def test_a_sealed_part_that_comes_last_is_filled_in(self) -> None:
        late = {"type": "reasoning", "id": "rs_1", "summary": []}
        events = [added(0, **late), done(0, **late), completed({**late, "encrypted_content": "enc"})]
        found = decode(MODEL, events)
        assert found.blocks == (ThinkingBlock("", raw={**late, "encrypted_content": "enc"}),)

    def test_a_server_that_streams_only_the_end_is_understood(self) -> None:
        _events, document = rendered(API, reply(thinking("hm"), text("hello"), call("read", {"path": "x"}, id="a")))
        found = decode(MODEL, [{"type": "response.completed", "response": document}])
        assert found.shown(TextDelta) == "hello"
        assert found.message.calls == (ToolCall("a", "read", {"path": "x"}),)

    def test_an_output_that_counts_differently_doubles_nothing(self) -> None:
        message = {"type": "message", "content": [{"type": "output_text", "text": "so"}]}
        events = [added(0, type="reasoning", summary=[]), part(1, "output_text", "so"), done(1, **message)]
        assert decode(MODEL, [*events, completed(message)]).blocks == (TextBlock("so"),)

    def test_a_call_that_got_lost_on_the_way_is_claimed(self) -> None:
        lost = {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}"}
        message = {"type": "message", "content": [{"type": "output_text", "text": "so"}]}
        found = decode(MODEL, [done(0, **message), completed(message, lost)])
        assert found.last == Finished("tool_use", claimed_calls=1)
        assert not found.message.calls

    def test_counts_leave_out_cached_and_cache_writing_tokens(self) -> None:
        answer = text("hi").using(11, 2, cached=3, cache_write=4, reasoning=1)
        assert decode(MODEL, payloads(API, answer)).usage == Usage(11, 2, 3, 4, 1)
        assert decode(MODEL, payloads(API, text("hi").without_usage())).usage is None

    def test_stop_reasons(self) -> None:
        assert decode(MODEL, payloads(API, text("a"))).last == Finished("end")
        assert decode(MODEL, payloads(API, text("a").stopping("length"))).last == Finished("length")
        assert decode(MODEL, payloads(API, text("a").stopping("filter"))).last == Finished("refusal")
        refused = decode(MODEL, payloads(API, refusal("I ", "won't")))
        assert refused.last == Finished("refusal")
        assert refused.message.text == refused.shown(TextDelta) == "I won't"

    @pytest.mark.parametrize("reason", ["steered", "max_messages"])
    def test_a_response_left_incomplete_for_other_reasons_is_a_failure(self, reason: str) -> None:
        found = decode(MODEL, [completed(status="incomplete", incomplete_details={"reason": reason})])
        assert isinstance(found.last, Failed) and found.last.failure.retryable
        assert reason in found.last.failure.message

    @pytest.mark.parametrize("form", [{}, {"failed_event": True}, {"wrapped": True}])
    def test_st_05_an_error_inside_the_stream_is_a_failure(self, form: dict[str, Any]) -> None:
        found = decode(MODEL, payloads(API, stream_error("overloaded", **form)))
        assert isinstance(found.last, Failed) and found.last.failure.kind == "transient"
        full = decode(MODEL, payloads(API, stream_error("overflow", **form)))
        assert isinstance(full.last, Failed) and full.last.failure.kind == "overflow"

    def test_a_failed_response_without_a_reason_may_be_tried_again(self) -> None:
        found = decode(MODEL, [completed(status="failed", error=None)])
        assert isinstance(found.last, Failed) and found.last.failure.retryable

    def test_st_03_a_body_that_ends_early_is_not_a_reply(self) -> None:
        cut = decode(MODEL, payloads(API, text("The total is ").without_terminal()))
        assert not any(isinstance(event, Finished | Failed) for event in cut.events)

    def test_searches_and_unknown_items_are_kept_as_they_came(self) -> None:
        unknown = {"type": "crystal_ball", "id": "cb_1", "x": {"y": None}}
        answer = reply(search("q", ("https://a", "A")), block(unknown), text("so"))
        found = decode(MODEL, payloads(API, answer))
        assert [item.raw for item in found.blocks[:2]] == rendered(API, answer)[1]["output"][:2]

    def test_the_echo_of_the_request_is_not_read(self) -> None:
        echo = b'{"type":"response.created","response":{"instructions":"' + b"x" * 5000
        assert decode(MODEL, [echo], ended=False).events == []

    @pytest.mark.parametrize("payload", [b"nonsense", b"[1]", b'{"type":"response.output_text.delta"}'])
    def test_what_cannot_be_read_is_reported_by_a_value_error_or_its_like(self, payload: bytes) -> None:
        with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
            decode(MODEL, [payload], ended=False)

    def test_a_document_that_is_no_response_gives_nothing(self) -> None:
        assert decode_whole(MODEL, {"choices": []}).events == []
        failed = decode_whole(MODEL, {"status": "failed", "error": {"code": "server_error", "message": "m"}})
        assert isinstance(failed.last, Failed)


PARTS = st.lists(
    st.one_of(
        st.lists(st.sampled_from(["a", "점심 ", "🍜"]), min_size=1, max_size=4).map(lambda texts: text(*texts)),
        st.tuples(st.lists(st.sampled_from(["hm", "그래 "]), max_size=3), st.booleans()).map(
            lambda made: thinking(*made[0], sealed=made[1])
        ),
        st.sampled_from([{}, {"path": "a.txt"}, {"deep": [{"x": "점심"}]}]).map(lambda args: call("read", args)),
        st.just(search("q", ("https://a", "A"))),
    ),
    min_size=1,
    max_size=5,
)


@given(parts=PARTS, seed=st.integers(0, 999))
def test_any_order_of_deltas_decodes_to_the_same_message(parts: list[Any], seed: int) -> None:
    events, document = rendered(API, reply(*parts))
    whole = [event.data for event in events]
    items: dict[int, list[dict[str, Any]]] = {}
    for event in whole:
        if "output_index" in event:
            items.setdefault(event["output_index"], []).append(event)
    mixed = [*whole[:2], *protocols.shuffled(list(items.values()), seed), whole[-1]]
    found = decode(MODEL, mixed)
    assert found.message == decode(MODEL, whole).message
    assert found.message == decode_whole(MODEL, json.loads(json.dumps(document))).message
