"""Chat Completions: what a request says, and what the chunks of OpenAI and of looser servers become."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_nodes.events import TextDelta, ThinkingDelta
from agent_nodes.messages import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from agent_nodes.providers.base import Failed, Finished
from tests.fakes.scripts import call, refusal, reply, stream_error, text, thinking, tools
from tests.providers import protocols
from tests.providers.protocols import PNG, body, decode, decode_whole, payloads, rendered, request, said, sent, user

API = "openai-completions"
MODEL = protocols.entry(API)
DONE = b"[DONE]"
TWO_CALLS = (ToolCall("c1", "read", {"path": "a.txt"}), ToolCall("c2", "read", {"path": "b.txt"}))


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **fields}


def piece(**call: Any) -> dict[str, Any]:
    """A chunk with one delta of a call; `name` and `arguments` go into its function."""
    function = {name: call.pop(name) for name in ("name", "arguments") if name in call}
    return chunk({"tool_calls": [{**call, "function": function}]})


class TestRequest:
    def test_holds_what_the_service_needs(self) -> None:
        asked = request(MODEL, [user("hi")], max_tokens=100, cache_key="key")
        assert body(asked) == {
            "model": "m-a",
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 100,
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "read",
                        "description": "Reads a file.",
                        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
                    },
                }
            ],
            "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}],
        }
        assert protocols.refusal(asked) is None

    def test_without_tools_sections_and_limit_has_none_of_them(self) -> None:
        asked = request(MODEL, [user("hi")], system=protocols.system(MODEL, "", tools=()))
        assert body(asked) == {
            "model": "m-a",
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "user", "content": "hi"}],
        }

    @pytest.mark.parametrize(
        ("provider", "model", "field"),
        [
            ("openai", "gpt-4o", "max_completion_tokens"),
            ("mine", "openai/gpt-5.5", "max_completion_tokens"),
            ("mine", "o4-mini", "max_completion_tokens"),
            ("mine", "llama-3", "max_tokens"),
        ],
    )
    def test_the_limit_has_the_name_that_the_model_knows(self, provider: str, model: str, field: str) -> None:
        asked = request(protocols.entry(API, provider=provider, model=model), [user("hi")], max_tokens=100)
        assert {name: value for name, value in body(asked).items() if "tokens" in name} == {field: 100}
        assert protocols.refusal(asked) is None

    def test_the_cache_key_is_for_the_service_itself(self) -> None:
        official = protocols.entry(API, provider="openai")
        assert body(request(official, [user("hi")], cache_key="key"))["prompt_cache_key"] == "key"

    def test_pictures_of_results_follow_in_a_users_message(self) -> None:
        picture = ImageBlock(PNG, "image/png")
        results = [
            ToolResultMessage("a", "read", (picture,)),
            ToolResultMessage("b", "read", (TextBlock("see"), TextBlock("it"), picture)),
        ]
        calls = said(MODEL, ToolCall("a", "read", {}), ToolCall("b", "read", {}))
        asked = request(MODEL, [UserMessage((TextBlock("look"), picture)), calls, *results])
        assert protocols.refusal(asked) is None
        first, _calls, one, two, shown = sent(asked)
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
        assert first["content"] == [{"type": "text", "text": "look"}, image]
        assert (one["content"], two["content"]) == ("(see the picture below)", "see\nit")
        assert shown["role"] == "user"
        assert [part["type"] for part in shown["content"]] == ["text", "image_url"] * 2
        assert "(b)" in shown["content"][2]["text"]

    def test_reasoning_goes_back_with_calls_only_and_to_its_model_only(self) -> None:
        thought = ThinkingBlock("hm", raw={"field": "reasoning_content"})
        told, called = said(MODEL, thought, TextBlock("so")), said(MODEL, thought, ToolCall("a", "read", {}))
        items = sent(request(MODEL, [user("hi"), told, user("and"), called]))
        assert "reasoning_content" not in items[1]
        assert items[3]["reasoning_content"] == "hm"
        assert "hm" not in json.dumps(sent(request(protocols.entry(API, model="m-b"), [user("hi"), called])))

    def test_sealed_details_go_back_as_they_came(self) -> None:
        details = [{"type": "reasoning.encrypted", "data": "x", "index": 0}]
        called = said(
            MODEL,
            ThinkingBlock("hm", raw={"field": "reasoning", "details": details}),
            ToolCall("a", "read", {}, raw={"extra_content": {"google": {"thought_signature": "s"}}}),
        )
        asked = request(MODEL, [user("hi"), called])
        assert protocols.refusal(asked) is None
        message = sent(asked)[1]
        assert message["reasoning_details"] == details and "reasoning" not in message
        assert message["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "s"}}


class TestCalls:
    @pytest.mark.parametrize("index", ["real", "missing", "zero"])
    def test_st_07_two_calls_stay_two_however_they_are_numbered(self, index: str) -> None:
        answer = tools(call("read", {"path": "a.txt"}, id="c1"), call("read", {"path": "b.txt"}, id="c2"))
        found = decode(MODEL, payloads(API, answer.quirky(call_index=index)))
        assert found.blocks == TWO_CALLS
        assert found.last == Finished("tool_use", claimed_calls=1)

    def test_calls_without_number_and_id_begin_with_their_name(self) -> None:
        events = [
            piece(name="read", arguments='{"path":'),
            piece(arguments='"a.txt"}'),
            piece(name="read", arguments='{"path":"b.txt"}'),
            piece(name="ping", arguments=""),
            piece(name="pong"),
            chunk(finish="tool_calls"),
        ]
        found = decode(MODEL, events)
        assert [(call.name, call.arguments) for call in found.blocks] == [
            ("read", {"path": "a.txt"}),
            ("read", {"path": "b.txt"}),
            ("ping", {}),
            ("pong", {}),
        ]
        assert len({call.id for call in found.blocks}) == 4

    def test_a_name_that_is_repeated_is_said_once(self) -> None:
        events = [
            piece(index=0, id="c1", name="read", arguments='{"path":'),
            piece(index=0, id="c1", name="read", arguments='"a.txt"}'),
            piece(index=0, id="c1", name="read", arguments=""),
            chunk(finish="tool_calls"),
        ]
        assert decode(MODEL, events).blocks == TWO_CALLS[:1]

    def test_a_name_in_pieces_is_put_together(self) -> None:
        events = [piece(index=0, id="c1", name="re"), piece(index=0, name="ad"), piece(index=0, arguments="{}")]
        assert decode(MODEL, [*events, DONE]).blocks == (ToolCall("c1", "read", {}),)

    def test_an_id_that_comes_late_is_taken(self) -> None:
        events = [piece(index=0, name="read"), piece(index=0, id="c1", arguments="{}"), chunk(finish="tool_calls")]
        assert decode(MODEL, events).blocks == (ToolCall("c1", "read", {}),)

    def test_deltas_without_number_find_their_call_by_id(self) -> None:
        events = [
            piece(id="c1", name="read", arguments='{"path":'),
            piece(id="c2", name="read", arguments='{"path":'),
            piece(id="c1", arguments='"a.txt"}'),
            piece(id="c2", arguments='"b.txt"}'),
            chunk(finish="tool_calls"),
        ]
        assert decode(MODEL, events).blocks == TWO_CALLS

    def test_equal_ids_in_one_reply_are_told_apart(self) -> None:
        events = [piece(index=n, id="call_0", name="read", arguments="{}") for n in range(2)]
        ids = [call.id for call in decode(MODEL, [*events, chunk(finish="tool_calls")]).blocks]
        assert ids == ["call_0", "call_0_2"]

    def test_arguments_may_be_an_object(self) -> None:
        events = [piece(index=0, id="c1", name="read", arguments={"path": "a.txt"}), chunk(finish="tool_calls")]
        assert decode(MODEL, events).blocks == TWO_CALLS[:1]

    @pytest.mark.parametrize("arguments", ["", None, {}])
    def test_st_09_no_arguments_are_an_empty_object(self, arguments: Any) -> None:
        events = [piece(index=0, id="c1", name="ping", arguments=arguments), chunk(finish="tool_calls")]
        found = decode(MODEL, events)
        assert found.blocks == (ToolCall("c1", "ping", {}),)
        replayed = sent(request(MODEL, [user("hi"), found.message]))
        assert replayed[1]["tool_calls"][0]["function"] == {"name": "ping", "arguments": "{}"}

    def test_hi_11_half_a_surrogate_pair_in_arguments_is_repaired(self) -> None:
        events = [piece(index=0, id="a", name="write", arguments='{"c":"가\\ud99c나"}'), chunk(finish="tool_calls")]
        assert decode(MODEL, events).blocks == (ToolCall("a", "write", {"c": "가\ufffd나"}),)

    def test_a_call_cut_by_the_limit_is_marked_invalid(self) -> None:
        found = decode(MODEL, [piece(index=0, id="a", name="write", arguments='{"p'), chunk(finish="length"), DONE])
        assert found.blocks == (ToolCall("a", "write", {}, invalid='{"p'),)
        assert found.last == Finished("length")

    def test_the_older_form_of_a_call_is_understood(self) -> None:
        events = [
            chunk({"function_call": {"name": "read", "arguments": '{"path":'}}),
            chunk({"function_call": {"arguments": '"a.txt"}'}}),
            chunk(finish="function_call"),
        ]
        assert decode(MODEL, events).blocks == (ToolCall("call_0", "read", {"path": "a.txt"}),)

    def test_a_call_without_a_name_is_lost_and_claimed(self) -> None:
        found = decode(MODEL, [piece(index=0, id="a", arguments="{}"), chunk(finish="tool_calls")])
        assert found.last == Finished("tool_use", claimed_calls=1)
        assert not found.message.calls

    def test_what_a_server_adds_to_a_call_is_kept(self) -> None:
        extra = {"google": {"thought_signature": "s"}}
        events = [piece(index=0, id="a", name="read", arguments="{}", extra_content=extra), chunk(finish="stop")]
        assert decode(MODEL, events).blocks == (ToolCall("a", "read", {}, raw={"extra_content": extra}),)


class TestReply:
    @pytest.mark.parametrize("form", [[], None])
    def test_st_10_counts_may_come_in_a_chunk_without_choices(self, form: Any) -> None:
        usage = {"prompt_tokens": 11, "completion_tokens": 2, "total_tokens": 13}
        events = [chunk({"content": "done"}), chunk(finish="stop"), {"choices": form, "usage": usage}, DONE]
        found = decode(MODEL, events)
        assert found.message.text == "done"
        assert found.usage == Usage(11, 2)
        assert found.last == Finished("end")

    @pytest.mark.parametrize("place", ["always", "every", "finish"])
    def test_st_10_counts_may_come_anywhere(self, place: str) -> None:
        answer = text("do", "ne").using(11, 2, cached=3, cache_write=4, reasoning=1).quirky(usage_in=place)
        assert decode(MODEL, payloads(API, answer)).usage == Usage(11, 2, 3, 4, 1)
        inside = chunk(finish="stop")
        inside["choices"][0]["usage"] = {"prompt_tokens": 5, "completion_tokens": 1}
        assert decode(MODEL, [chunk({"content": "x"}), inside]).usage == Usage(5, 1)
        deepseek = {"prompt_tokens": 10, "prompt_cache_hit_tokens": 4, "completion_tokens": 1}
        assert decode(MODEL, [chunk({"content": "x"}, "stop", usage=deepseek)]).usage == Usage(6, 1, 4)

    def test_st_10_counts_may_be_missing(self) -> None:
        found = decode(MODEL, payloads(API, text("done").quirky(usage_in="never")))
        assert found.message.text == "done" and found.usage is None and found.last == Finished("end")

    @pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "both"])
    def test_reasoning_is_shown_once_whatever_its_name(self, field: str) -> None:
        found = decode(MODEL, payloads(API, reply(thinking("hm", " ok"), text("so")).quirky(reasoning_field=field)))
        name = "reasoning_content" if field == "both" else field
        assert found.blocks == (ThinkingBlock("hm ok", raw={"field": name}), TextBlock("so"))
        assert found.shown(ThinkingDelta) == "hm ok"

    @pytest.mark.parametrize("fields", [{"text": "hm"}, {"summary": "hm"}])
    def test_reasoning_that_is_only_in_the_details_is_shown(self, fields: dict[str, str]) -> None:
        detail = {"type": "reasoning.text", "index": 0, **fields}
        told_twice = chunk({"reasoning": "so", "reasoning_details": [{**detail, "index": 1}]})
        found = decode(
            MODEL, [chunk({"reasoning_details": [detail]}), told_twice, chunk({"content": "a"}, "stop"), DONE]
        )
        assert found.shown(ThinkingDelta) == "hmso"
        assert found.blocks[0].raw["details"] == [detail, {**detail, "index": 1}]

    def test_reasoning_details_are_put_together(self) -> None:
        events = [
            chunk({"reasoning": "h", "reasoning_details": [{"type": "reasoning.text", "text": "h", "index": 0}]}),
            chunk({"reasoning": "m", "reasoning_details": [{"type": "reasoning.text", "text": "m", "index": 0}]}),
            chunk({"reasoning_details": [{"type": "reasoning.text", "signature": "s", "text": None, "index": 0}]}),
            chunk({"reasoning_details": [{"type": "reasoning.encrypted", "data": "d", "index": 1}]}),
            chunk({"content": "so"}, "stop"),
        ]
        details = [
            {"type": "reasoning.text", "text": "hm", "index": 0, "signature": "s"},
            {"type": "reasoning.encrypted", "data": "d", "index": 1},
        ]
        thought, _told = decode(MODEL, events).blocks
        assert thought == ThinkingBlock("hm", raw={"field": "reasoning", "details": details})
        hidden = decode(MODEL, [chunk({"reasoning_details": details[1:]}), *events[-1:]]).blocks
        assert hidden == (ThinkingBlock("", raw={"details": details[1:]}), TextBlock("so"))

    @pytest.mark.parametrize(
        ("reason", "expected"),
        [
            ("stop", "end"),
            ("eos", "end"),
            ("end_turn", "end"),
            ("length", "length"),
            ("content_filter", "refusal"),
            ("model_context_window_exceeded", "overflow"),
        ],
    )
    def test_stop_reasons(self, reason: str, expected: str) -> None:
        found = decode(MODEL, [chunk({"content": "x"}), chunk(finish=reason), DONE])
        assert found.last == Finished(expected)  # type: ignore[arg-type]

    @pytest.mark.parametrize("reason", ["error", "abort", "network_error", "insufficient_system_resource"])
    def test_a_reply_that_the_service_broke_off_is_trouble(self, reason: str) -> None:
        found = decode(MODEL, [chunk({"content": "half"}), chunk({}, reason)])
        assert isinstance(found.last, Failed)
        assert (found.last.failure.kind, found.last.failure.retryable) == ("transient", True)
        assert reason in found.last.failure.message

    def test_a_call_that_the_service_could_not_read_is_a_lost_one(self) -> None:
        found = decode(MODEL, [chunk({}, "malformed_function_call"), DONE])
        assert found.last == Finished("tool_use", claimed_calls=1)

    def test_stop_beside_calls_means_the_calls(self) -> None:
        found = decode(MODEL, [piece(index=0, id="a", name="read", arguments="{}"), chunk(finish="stop"), DONE])
        assert found.last == Finished("tool_use")

    def test_an_empty_answer_to_a_full_window_is_an_overflow(self) -> None:
        small = protocols.entry(API, context_window=1000)
        usage = {"prompt_tokens": 995, "completion_tokens": 0}
        assert decode(small, [chunk(finish="length", usage=usage), DONE]).last == Finished("overflow")
        assert decode(small, [chunk({"content": "x"}, "length", usage=usage), DONE]).last == Finished("length")
        usage = {"prompt_tokens": 500, "completion_tokens": 0}
        assert decode(small, [chunk(finish="length", usage=usage), DONE]).last == Finished("length")

    def test_refusals(self) -> None:
        found = decode(MODEL, payloads(API, refusal("I ", "won't")))
        assert (found.message.text, found.last) == ("I won't", Finished("refusal"))

    def test_content_may_come_in_parts(self) -> None:
        found = decode(
            MODEL, [chunk({"content": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]}, "stop")]
        )
        assert found.message.text == "hello"

    def test_a_pair_cut_in_two_by_the_service_is_joined(self) -> None:
        events = [
            rb'{"choices":[{"delta":{"content":"a\ud83c"}}]}',
            rb'{"choices":[{"delta":{"content":"\udf5cb\ud83c"}}]}',
            chunk(finish="stop"),
        ]
        found = decode(MODEL, events)
        assert found.shown(TextDelta) == found.message.text == "a🍜b\ufffd"

    def test_the_end_of_the_body_ends_a_reply_that_gave_its_reason(self) -> None:
        events = payloads(API, text("done"))
        assert events[-1] == DONE
        assert decode(MODEL, events[:-1]).last == Finished("end")

    def test_done_without_a_reason_ends_a_reply_that_can_be_whole(self) -> None:
        assert decode(MODEL, [chunk({"content": "x"}), DONE]).last == Finished("end")
        whole = decode(MODEL, [piece(index=0, id="a", name="read", arguments="{}"), b" [DONE] "])
        assert whole.last == Finished("tool_use")
        assert decode(MODEL, [chunk({"role": "assistant"}), DONE]).events == []
        cut = decode(MODEL, [piece(index=0, id="a", name="read", arguments='{"p'), DONE])
        assert not any(isinstance(event, Finished) for event in cut.events)

    def test_st_03_a_body_that_ends_early_is_not_a_reply(self) -> None:
        cut = decode(MODEL, [chunk({"content": "The total is "}), chunk(finish="")])
        assert not any(isinstance(event, Finished | Failed) for event in cut.events)

    @pytest.mark.parametrize(
        "event",
        [
            {"error": {"message": "overloaded", "code": 503}},
            {"error": "overloaded"},
            {"error": {"message": "x"}, "choices": [{"delta": {"content": ""}, "finish_reason": "error"}]},
            {"object": "error", "message": "overloaded", "code": 503},
            chunk(finish="error"),
        ],
    )
    def test_errors_inside_the_stream_are_failures(self, event: dict[str, Any]) -> None:
        found = decode(MODEL, [chunk({"content": "x"}), event])
        assert isinstance(found.last, Failed) and found.last.failure.retryable

    @pytest.mark.parametrize("wrapped", [True, False])
    def test_an_overflow_inside_the_stream_is_told_from_trouble(self, wrapped: bool) -> None:
        found = decode(MODEL, payloads(API, stream_error("overflow", wrapped=wrapped)))
        assert isinstance(found.last, Failed) and found.last.failure.kind == "overflow"

    def test_a_document_in_place_of_a_stream_is_a_reply(self) -> None:
        _events, document = rendered(API, reply(thinking("hm"), text("so"), call("read", {"path": "a.txt"}, id="c1")))
        found = decode_whole(MODEL, document)
        assert found.blocks == (ThinkingBlock("hm", raw={"field": "reasoning_content"}), TextBlock("so"), TWO_CALLS[0])
        assert found.usage == Usage(10, 5)
        assert decode_whole(MODEL, {"object": "list", "data": []}).events == []

    @pytest.mark.parametrize("payload", [b"nonsense", b"[1]", b'{"choices":[1]}'])
    def test_what_cannot_be_read_is_reported_by_a_value_error_or_its_like(self, payload: bytes) -> None:
        with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
            decode(MODEL, [payload], ended=False)


PARTS = st.tuples(
    st.lists(st.sampled_from(["hm", "그래 "]), max_size=3),
    st.lists(st.sampled_from(["a", "점심 ", "🍜"]), max_size=4),
    st.lists(st.sampled_from([{}, {"path": "a.txt"}, {"deep": [{"x": "점심"}]}]), max_size=3),
)


class TestThinkTag:
    """Raw servers leave the reasoning in the content."""

    @pytest.mark.parametrize(
        ("content", "thought", "shown"),
        [
            ("<think>hm</think>so", "hm", "so"),
            ("\n <think>\nhm\n</think>\n\nso", "\nhm\n", "so"),
            ("<think></think>so", "", "so"),
            ("<think>a < b </thin k></think>so </think>", "a < b </thin k>", "so </think>"),
            ("<think>never closed", "never closed", ""),
            ("<think>cut </thi", "cut </thi", ""),
            ("so <think>hm</think>", "", "so <think>hm</think>"),
            ("<thinking>so", "", "<thinking>so"),
            ("<thi", "", "<thi"),
            ("  so", "", "  so"),
        ],
    )
    @pytest.mark.parametrize("size", [1, 3, 100])
    def test_is_told_apart_however_it_is_cut(self, content: str, thought: str, shown: str, size: int) -> None:
        pieces = [chunk({"content": content[at : at + size]}) for at in range(0, len(content), size)]
        found = decode(MODEL, [chunk({"role": "assistant", "content": ""}), *pieces, chunk({}, "stop"), DONE])
        assert (found.shown(ThinkingDelta), found.shown(TextDelta)) == (thought, shown)
        assert found.last == Finished("end")
        kinds = [type(block) for block in found.blocks]
        assert kinds == [ThinkingBlock] * bool(thought) + [TextBlock] * bool(shown)

    def test_stands_in_a_document_too(self) -> None:
        message = {"role": "assistant", "content": "<think>hm</think>so"}
        found = decode_whole(MODEL, {"choices": [{"message": message, "finish_reason": "stop"}]})
        assert (found.shown(ThinkingDelta), found.shown(TextDelta)) == ("hm", "so")

    def test_text_is_shown_at_once_where_it_is_no_tag(self) -> None:
        found = decode(MODEL, [chunk({"content": "so"})], ended=False)
        assert found.shown(TextDelta) == "so"

    def test_is_text_where_the_server_tells_reasoning_apart(self) -> None:
        found = decode(MODEL, [chunk({"reasoning": "hm"}), chunk({"content": "<think>so</think>"}, "stop"), DONE])
        assert (found.shown(ThinkingDelta), found.shown(TextDelta)) == ("hm", "<think>so</think>")

    def test_is_text_of_the_service_itself(self) -> None:
        found = decode(protocols.entry(API, provider="openai"), [chunk({"content": "<think>so</think>"}, "stop"), DONE])
        assert found.shown(TextDelta) == "<think>so</think>"

    def test_is_not_sent_back(self) -> None:
        found = decode(MODEL, [chunk({"content": "<think>hm</think>so"}, "stop"), DONE])
        items = sent(request(MODEL, [user("hi"), found.message, user("on")]))
        assert "hm" not in json.dumps(items) and "so" in json.dumps(items)


@given(parts=PARTS, seed=st.integers(0, 999))
def test_any_order_of_deltas_decodes_to_the_same_message(parts: Any, seed: int) -> None:
    thoughts, texts, arguments = parts
    made: list[Any] = [thinking(*thoughts)] if thoughts else []
    made += [text(*texts)] if texts else []
    made += [call("read", given, id=f"c{number}") for number, given in enumerate(arguments)]
    events, document = rendered(API, reply(*made))
    whole = [event.data for event in events]
    queues: dict[Any, list[dict[str, Any]]] = {}
    starts: list[dict[str, Any]] = []
    for event in whole:
        delta = event["choices"][0]["delta"] if event["choices"] else {}
        first = (delta.get("tool_calls") or [{}])[0]
        if "id" in first:
            starts.append(event)
        elif delta and "role" not in delta:
            queues.setdefault(first.get("index", "text" if "content" in delta else "thought"), []).append(event)
    mixed = [*starts, *protocols.shuffled(list(queues.values()), seed), chunk(finish="stop"), DONE]
    found = decode(MODEL, mixed)
    plain = decode(MODEL, [*whole, DONE])
    assert found.blocks == plain.blocks == decode_whole(MODEL, document).blocks
    assert (found.shown(TextDelta), found.shown(ThinkingDelta)) == ("".join(texts), "".join(thoughts))
    assert [call.arguments for call in found.message.calls] == arguments
