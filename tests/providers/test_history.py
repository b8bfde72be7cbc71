"""Whatever a session holds, the next request is one that the service takes, in each of the three protocols."""

import dataclasses
import json
import re
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_nodes.messages import (
    AgentEffort,
    AssistantMessage,
    ImageBlock,
    Message,
    NativeBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from agent_nodes.providers import history
from agent_nodes.providers.base import EncodedPrefix
from tests.fakes.issued import Issued
from tests.providers.protocols import APIS, PNG, body, entry, refusal, request, said, sent, system, user

every_protocol = pytest.mark.parametrize("api", APIS)
ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def result(id: str, text: str = "fine", **changes: Any) -> ToolResultMessage:
    return ToolResultMessage(id, "read", (TextBlock(text),), **changes)


def calls_of(api: str, items: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """(id, arguments) of the calls in a request."""
    found: list[tuple[str, Any]] = []
    for item in items:
        if api == "openai-responses" and item.get("type") == "function_call":
            found.append((item["call_id"], json.loads(item["arguments"])))
        elif api == "openai-completions":
            found += [(call["id"], json.loads(call["function"]["arguments"])) for call in item.get("tool_calls", [])]
        elif api == "anthropic-messages":
            found += [(block["id"], block["input"]) for block in item["content"] if block["type"] == "tool_use"]
    return found


def results_of(api: str, items: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """(id, text) of the results in a request."""
    found: list[tuple[str, str]] = []
    for item in items:
        if api == "openai-responses" and item.get("type") == "function_call_output":
            found.append((item["call_id"], json.dumps(item["output"])))
        elif api == "openai-completions" and item["role"] == "tool":
            found.append((item["tool_call_id"], item["content"]))
        elif api == "anthropic-messages":
            found += [
                (block["tool_use_id"], json.dumps(block["content"]))
                for block in item["content"]
                if block["type"] == "tool_result"
            ]
    return found


@every_protocol
def test_hi_01_a_call_without_a_result_gets_one_that_says_so(api: str) -> None:
    model = entry(api)
    asked = request(
        model,
        [
            user("go"),
            said(model, ToolCall("a", "bash", {}), ToolCall("b", "read", {})),
            result("b"),
            user("hi"),
        ],
    )
    assert refusal(asked) is None
    (first, lost), (second, kept) = results_of(api, sent(asked))
    assert (first, second) == ("a", "b")
    assert "interrupted" in lost and "not carried over" in lost
    assert "fine" in kept


@every_protocol
def test_hi_03_results_follow_their_calls_in_call_order(api: str) -> None:
    model = entry(api)
    calls = [ToolCall(id, "read", {}) for id in ("t1", "t2", "t3")]
    answers = [result("t3", "three"), result("t1", "one"), result("t2", "boom", is_error=True)]
    asked = request(model, [user("go"), said(model, *calls), *answers])
    assert refusal(asked) is None
    assert [id for id, _text in results_of(api, sent(asked))] == ["t1", "t2", "t3"]
    if api == "anthropic-messages":
        last = sent(asked)[-1]
        assert [block.get("is_error", False) for block in last["content"]] == [False, True, False]
        assert len(sent(asked)) == 3, "one user message holds all results"


@every_protocol
def test_a_result_without_its_call_is_left_out(api: str) -> None:
    model = entry(api)
    asked = request(model, [user("go"), result("gone"), said(model, TextBlock("one")), result("gone"), user("hi")])
    assert refusal(asked) is None
    assert results_of(api, sent(asked)) == []


@every_protocol
def test_what_a_user_said_before_the_last_result_goes_behind_it(api: str) -> None:
    model = entry(api)
    calls = (ToolCall("a", "read", {}), ToolCall("b", "read", {}))
    asked = request(model, [user("go"), said(model, *calls), result("a"), user("wait"), result("b"), user("hi")])
    assert refusal(asked) is None
    raw = json.dumps(sent(asked))
    assert raw.index("wait") > raw.rindex('"b"')
    assert raw.index('"hi"') > raw.index("wait")


@every_protocol
def test_hi_04_no_blank_text_is_sent_and_calls_stand_alone(api: str) -> None:
    model = entry(api)
    asked = request(
        model,
        [
            UserMessage((TextBlock(" \n"), TextBlock("go"))),
            said(model, TextBlock(""), TextBlock(" \t"), ToolCall("a", "read", {"path": "x"})),
            result("a", ""),
            said(model, TextBlock("\n")),
            user("go on"),
        ],
    )
    assert refusal(asked) is None
    items = sent(asked)
    assert calls_of(api, items) == [("a", {"path": "x"})]
    if api == "openai-completions":
        assert "content" not in items[1]
    assert "(no output)" in results_of(api, items)[0][1]
    assert len([item for item in items if item.get("role") == "assistant"]) == (0 if api == "openai-responses" else 1)


@every_protocol
def test_hi_06_another_models_reasoning_is_never_sent(api: str) -> None:
    old, new = entry(api, model="m-old"), entry(api, model="m-new")
    foreign = said(
        old,
        ThinkingBlock("secret", "sig-a", {"type": "reasoning", "id": "rs_1", "encrypted_content": "sig-a"}),
        NativeBlock({"type": "web_search_call", "id": "ws_1"}),
        TextBlock("one", {"citations": ["sig-a"]}),
        ToolCall("a", "read", {}, raw={"extra_content": "sig-a"}),
    )
    asked = request(new, [user("go"), foreign, result("a"), user("hi")])
    assert refusal(asked) is None
    raw = json.dumps(sent(asked))
    assert "one" in raw and "sig-a" not in raw and "secret" not in raw and "ws_1" not in raw


def test_sealed_reasoning_is_sent_from_its_first_valid_message_on() -> None:
    model = entry("anthropic-messages")
    early = said(model, ThinkingBlock("old", "sig-old"), TextBlock("one"))
    late = said(model, ThinkingBlock("", "sig-new"), ThinkingBlock("x", raw={"type": "redacted_thinking", "data": "d"}))
    late = dataclasses.replace(late, content=(*late.content, TextBlock("two")))
    messages: list[Message] = [user("a"), early, system(model), user("b"), late, user("c")]
    kinds = [[block["type"] for block in item["content"]] for item in sent(request(model, messages, reasoning_from=2))]
    assert kinds == [["text"], ["text"], ["text"], ["thinking", "redacted_thinking", "text"], ["text"]]


def test_reasoning_that_leads_to_nothing_is_left_out() -> None:
    model = entry("anthropic-messages")
    cut = said(model, TextBlock("one"), ThinkingBlock("a", "s1"), ThinkingBlock("b", "s2"), stop="length")
    lone = said(model, ThinkingBlock("c", "s3"), stop="length")
    items = sent(request(model, [user("a"), cut, user("b"), lone, user("c")]))
    assert [[block["type"] for block in item["content"]] for item in items] == [["text"]] * 4


@every_protocol
def test_an_interrupted_message_is_text_alone(api: str) -> None:
    model = entry(api)
    broken = said(
        model,
        ThinkingBlock("hm", "sig", {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sig"}),
        TextBlock("half"),
        ToolCall("a", "read", {}),
        interrupted=True,
    )
    asked = request(model, [user("go"), broken, result("a"), user("hi")])
    assert refusal(asked) is None
    raw = json.dumps(sent(asked))
    assert "half" in raw and "sig" not in raw and "hm" not in raw
    assert not calls_of(api, sent(asked)) and not results_of(api, sent(asked))


@every_protocol
def test_hi_08_ids_of_another_service_take_a_form_that_all_take(api: str) -> None:
    other = entry("openai-responses", provider="elsewhere")
    if api == "openai-responses":
        other = entry("openai-completions", provider="elsewhere")
    ids = ["call_7|fc_93_", "call_7?fc_93_", "call_7|fc_93_".replace("|", "_"), "x" * 446, "x" * 445, "통화", ""]
    messages: list[Message] = [user("go")]
    for id in ids:
        messages += [said(other, ToolCall(id, "read", {})), result(id, f"of {id}")]
    asked = request(entry(api), messages)
    assert refusal(asked) is None
    called = [id for id, _arguments in calls_of(api, sent(asked))]
    assert all(ID.fullmatch(id) for id in called)
    assert len(set(called)) == len(ids), "different ids stay different"
    assert [id for id, _text in results_of(api, sent(asked))] == called
    assert history.call_id("call_7|fc_93_") == history.call_id("call_7|fc_93_"), "the form depends on the id alone"
    assert history.call_id("call_1-A") == "call_1-A"


@every_protocol
def test_an_id_that_comes_again_gets_another(api: str) -> None:
    model = entry(api)
    messages: list[Message] = [user("go")]
    for round in range(3):
        messages += [said(model, ToolCall("call_0", "read", {"n": round})), result("call_0", f"round {round}")]
    twice = said(model, ToolCall("call_0", "read", {}), ToolCall("call_0", "read", {}))
    messages += [twice, result("call_0", "first"), result("call_0", "second")]
    asked = request(model, messages)
    assert refusal(asked) is None
    items = sent(asked)
    ids = [id for id, _arguments in calls_of(api, items)]
    assert ids == ["call_0", "call_0_2", "call_0_3", "call_0_4", "call_0_5"]
    assert [id for id, _text in results_of(api, items)] == ids
    assert "second" in results_of(api, items)[-1][1]


@every_protocol
def test_invalid_arguments_are_replayed_as_none(api: str) -> None:
    model = entry(api)
    asked = request(model, [user("go"), said(model, ToolCall("a", "read", {}, invalid='{"path": "x')), result("a")])
    assert refusal(asked) is None
    assert calls_of(api, sent(asked)) == [("a", {})]


@every_protocol
def test_names_that_a_model_made_up_are_sent_in_a_form_that_is_taken(api: str) -> None:
    model = entry(api)
    calls = [ToolCall(str(n), name, {}) for n, name in enumerate(["functions.read", "", "읽기", "x" * 99])]
    asked = request(model, [user("go"), said(model, *calls)])
    assert refusal(asked) is None


@every_protocol
def test_hi_09_a_picture_becomes_text_for_a_model_without_eyes(api: str) -> None:
    picture = ImageBlock(PNG, "image/png")
    for blind in (True, False):
        model = entry(api, model="textonly" if blind else "m-a", images=not blind)
        messages = [
            UserMessage((picture,)),
            said(model, ToolCall("a", "read", {})),
            ToolResultMessage("a", "read", (picture,)),
            user("hi"),
        ]
        asked = request(model, messages)
        assert refusal(asked) is None
        raw = json.dumps(sent(asked))
        assert (PNG in raw) is not blind
        assert ("takes no pictures" in raw) is blind
        assert [id for id, _text in results_of(api, sent(asked))] == ["a"]


@every_protocol
def test_a_picture_that_no_service_reads_becomes_text(api: str) -> None:
    model = entry(api)
    pictures = (ImageBlock("PHN2Zz4=", "image/svg+xml"), ImageBlock("A" * 7_000_000, "image/png"))
    failed = ToolResultMessage("a", "read", (ImageBlock(PNG, "image/png"),), is_error=True)
    asked = request(model, [UserMessage(pictures), said(model, ToolCall("a", "read", {})), failed])
    assert refusal(asked) is None
    raw = json.dumps(sent(asked))
    assert "image/svg+xml is not understood" in raw and "larger than 5 MB" in raw and PNG not in raw


@every_protocol
def test_a_context_that_begins_with_an_answer_gets_a_user_before_it(api: str) -> None:
    model = entry(api)
    asked = request(model, [system(model), UserMessage(()), said(model, TextBlock("one")), user("two")])
    assert refusal(asked) is None
    assert [item["role"] for item in sent(asked)] == ["user", "assistant", "user"]


@every_protocol
def test_hi_11_broken_text_never_reaches_the_wire(api: str) -> None:
    model = entry(api)
    messages = [
        user("a\ud99cb\x00"),
        said(model, ToolCall("a", "read", {"p\ud800": ["x\udc00"]})),
        result("a", "\ud83d"),
    ]
    asked = request(model, messages, system=system(model, "be \udfff kind"))
    assert refusal(asked) is None
    assert "a�b" in json.dumps(sent(asked), ensure_ascii=False)


class TestSearches:
    """Native blocks of the service that made them: both halves or none."""

    model = entry("anthropic-messages")
    use = NativeBlock({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "q"}})
    found = NativeBlock({"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []})

    def kinds(self, *messages: Message) -> list[list[str]]:
        asked = request(self.model, [user("go"), *messages])
        if not isinstance(messages[-1], AssistantMessage):
            assert refusal(asked) is None
        return [[block["type"] for block in item["content"]] for item in sent(asked)][1:]

    def test_a_whole_search_is_sent_again(self) -> None:
        reply = said(self.model, self.use, self.found, TextBlock("so"))
        assert self.kinds(reply, user("hi"))[0] == ["server_tool_use", "web_search_tool_result", "text"]

    def test_a_search_without_its_result_goes(self) -> None:
        assert self.kinds(said(self.model, TextBlock("so"), self.use), user("hi"))[0] == ["text"]

    def test_a_search_that_comes_again_under_its_id_goes(self) -> None:
        reply = said(self.model, self.use, self.found, self.use, self.found, TextBlock("so"))
        assert self.kinds(reply, user("hi"))[0] == ["server_tool_use", "web_search_tool_result", "text"]

    def test_a_result_without_its_search_goes(self) -> None:
        assert self.kinds(said(self.model, self.found, TextBlock("so")), user("hi"))[0] == ["text"]

    def test_a_paused_search_stays_open_while_the_service_goes_on(self) -> None:
        paused = said(self.model, ThinkingBlock("t", "s"), self.use, stop="pause")
        assert self.kinds(paused) == [["thinking", "server_tool_use"]]
        rest = said(self.model, self.found, TextBlock("so"))
        assert self.kinds(said(self.model, self.use, stop="pause"), rest, user("hi"))[:2] == [
            ["server_tool_use"],
            ["web_search_tool_result", "text"],
        ]

    def test_a_paused_search_that_nobody_finished_goes(self) -> None:
        paused = said(self.model, TextBlock("so"), self.use, stop="pause")
        assert self.kinds(paused, user("hi"))[0] == ["text"]
        broken = said(self.model, TextBlock("half"), interrupted=True)
        assert self.kinds(paused, broken, user("hi"))[:2] == [["text"], ["text"]]

    def test_a_search_beside_our_tools_ends_in_the_next_reply(self) -> None:
        mixed = said(self.model, self.use, ToolCall("a", "read", {}), stop="tool_use")
        rest = said(self.model, self.found, TextBlock("so"))
        assert self.kinds(mixed, result("a"))[0] == ["server_tool_use", "tool_use"]
        assert self.kinds(mixed, result("a"), rest, user("hi"))[0] == ["server_tool_use", "tool_use"]
        assert self.kinds(mixed, result("a"), rest, user("hi"))[2] == ["web_search_tool_result", "text"]
        without = said(self.model, TextBlock("so"))
        assert self.kinds(mixed, result("a"), without, user("hi"))[0] == ["tool_use"]

    def test_only_what_is_settled_is_kept_encoded(self) -> None:
        prefix = EncodedPrefix()
        paused = said(self.model, TextBlock("so"), self.use, stop="pause")
        messages: list[Message] = [user("go"), paused]
        first = body(request(self.model, messages, prefix=prefix))
        assert prefix.count == 1
        assert first["messages"][1]["content"][1]["type"] == "server_tool_use"
        messages.append(user("never mind"))
        second = body(request(self.model, messages, prefix=prefix))
        assert prefix.count == 3
        assert [block["type"] for block in second["messages"][1]["content"]] == ["text"]


@every_protocol
def test_messages_are_encoded_once(api: str) -> None:
    model = entry(api)
    prefix = EncodedPrefix()
    messages: list[Message] = [user("one")]
    body(request(model, messages, prefix=prefix))
    kept = list(prefix.parts)
    messages += [said(model, ToolCall("a", "read", {})), result("a")]
    body(request(model, messages, prefix=prefix))
    assert prefix.parts[0] is kept[0]
    assert prefix.count == 3
    body(request(model, messages, prefix=prefix, reasoning_from=1))
    assert prefix.parts[0] is not kept[0], "other reasoning may be sent: all is encoded anew"
    kept = list(prefix.parts)
    body(request(entry(api, model="m-b"), messages, prefix=prefix))
    assert prefix.parts[0] is not kept[0], "another model's reasoning is not sent: all is encoded anew"


# Any history.

TEXTS = st.sampled_from(["", " ", "\n", "hello", "점심 🍜", "x\ud99cy", "tail "])
IDS = st.sampled_from(["c1", "c2", "c2", "call_7|fc_93_", "call_7_fc_93_", "", "y" * 80, "한"])
NAMES = st.sampled_from(["read", "functions.read", "", "읽기"])
IMAGES = st.sampled_from([ImageBlock(PNG, "image/png"), ImageBlock("PHN2Zz4=", "image/svg+xml")])
CONTENT = st.lists(st.one_of(TEXTS.map(TextBlock), IMAGES), max_size=3).map(tuple)
NATIVES = st.sampled_from(
    [
        NativeBlock({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}),
        NativeBlock({"type": "server_tool_use", "id": "srv_2", "name": "web_search", "input": {}}),
        NativeBlock({"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}),
        NativeBlock({"type": "web_search_tool_result", "tool_use_id": "srv_2", "content": []}),
    ]
)
SEARCH_CALLS = st.just(NativeBlock({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}}))
SEALED = ThinkingBlock("hm", raw={"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "enc"})
CALLS = st.builds(
    ToolCall, IDS, NAMES, st.sampled_from([{}, {"path": "a"}, {"deep": [{"x": 1.5}]}]), st.sampled_from([None, '{"p'])
)


def blocks(api: str, own: bool) -> st.SearchStrategy[Any]:
    thinking: list[Any] = [ThinkingBlock("hm"), ThinkingBlock("")]
    if not own:
        thinking += [ThinkingBlock("hm", "sig"), SEALED]
    elif api == "openai-responses":
        thinking.append(SEALED)
    elif api == "openai-completions":
        thinking.append(ThinkingBlock("hm", raw={"field": "reasoning_content"}))
    if own and api == "openai-completions":
        natives = st.nothing()
    else:
        natives = SEARCH_CALLS if own and api == "openai-responses" else NATIVES
    return st.one_of(TEXTS.map(TextBlock), st.sampled_from(thinking), CALLS, natives)


@st.composite
def assistants(draw: st.DrawFn, api: str) -> AssistantMessage:
    own = draw(st.booleans())
    origin = entry(api) if own else entry(draw(st.sampled_from(APIS)), provider="elsewhere")
    content = draw(st.lists(blocks(api, own), max_size=5))
    stop = draw(st.sampled_from(["end", "tool_use", "length", "pause"]))
    return said(origin, *content, stop=stop, interrupted=draw(st.integers(0, 5)) == 0)


def any_message(api: str) -> st.SearchStrategy[Message]:
    return st.one_of(
        CONTENT.map(UserMessage),
        assistants(api),
        st.builds(ToolResultMessage, IDS, NAMES, CONTENT, st.booleans()),
        st.just(system(entry(api))),
    )


@every_protocol
@given(
    data=st.data(),
    blind=st.booleans(),
    style=st.sampled_from([None, "adaptive", "always", "budget", "effort"]),
    effort=st.sampled_from([None, *get_args(AgentEffort)]),
)
@settings(max_examples=100)
def test_any_history_gives_a_request_that_the_service_takes(
    api: str, data: st.DataObject, blind: bool, style: Any, effort: AgentEffort | None
) -> None:
    messages = data.draw(st.lists(any_message(api), max_size=10))
    model = entry(api, images=not blind, thinking=style)
    if blind:
        model = dataclasses.replace(model, model="textonly-a")
        messages = [
            dataclasses.replace(message, model=model.model) if isinstance(message, AssistantMessage) else message
            for message in messages
        ]
    issued = Issued(reasoning={"enc": {(model.model, "rs_1")}})
    start = data.draw(st.integers(0, len(messages)))
    asked = request(model, [*messages, user("go on")], reasoning_from=start, effort=effort)
    assert refusal(asked, issued) is None


@st.composite
def turns(draw: st.DrawFn, api: str) -> list[Message]:
    """A session as the engine leaves it: a call's results are all there before the next message."""
    messages: list[Message] = [user("start")]
    for _ in range(draw(st.integers(1, 6))):
        reply = draw(assistants(api))
        messages.append(reply)
        ids = [call.id for call in reply.calls]
        messages += [result(id, f"of {id}") for id in draw(st.permutations(ids))]
        if draw(st.booleans()):
            messages.append(draw(st.just(system(entry(api)))))
        if not (ids or reply.stop == "pause") or draw(st.booleans()):
            messages.append(UserMessage(draw(CONTENT)))
    return messages


@every_protocol
@given(data=st.data())
@settings(max_examples=100)
def test_encoding_step_by_step_is_encoding_at_once(api: str, data: st.DataObject) -> None:
    messages = data.draw(turns(api))
    model, prefix = entry(api), EncodedPrefix()
    ends = [at for at, message in enumerate(messages) if isinstance(message, AssistantMessage)]
    for end in [*ends, len(messages)]:
        asked = request(model, messages[:end], prefix=prefix)
        again = request(model, messages[:end])
        assert body(asked) == body(again)
        assert body(asked) == body(again), "the same request twice is the same"
