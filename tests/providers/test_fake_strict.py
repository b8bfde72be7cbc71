"""Every check of the fake provider: the bad history is refused, its good twin accepted."""

import base64
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes import Answer, Request, call, paused, redacted, reply, search, text, thinking
from tests.fakes.issued import Issued
from tests.fakes.play import play
from tests.fakes.strict import check

HEADERS = {"authorization": "Bearer k", "content-type": "application/json", "anthropic-version": "2026-10-21"}
PATHS = {"anthropic": "/v1/messages", "responses": "/v1/responses", "completions": "/v1/chat/completions"}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
Body = dict[str, Any]
Change = Callable[[Body], Any]


def refusal_of(protocol: str, body: Body | bytes, issued: Issued | None = None) -> str | None:
    """The message of the refusal, None when accepted. Errors must have the service's own shape."""
    answer = check(PATHS[protocol], HEADERS, body, issued)
    if answer is None:
        return None
    status, document = answer
    assert status in (400, 404)
    assert document["error"]["type"] == "invalid_request_error"
    assert ("request_id" in document) == (protocol == "anthropic")
    return document["error"]["message"]


def changed(body: Body, change: Change) -> Body:
    body = copy.deepcopy(body)
    change(body)
    return body


def say(protocol: str, body: Body, answer: Answer, issued: Issued) -> list[Body]:
    """The reply's content as a client keeps it, with the fake's memory of it."""
    request = Request(1, "POST", PATHS[protocol], headers=HEADERS, raw=json.dumps(body).encode(), at=0.0)
    rendered = play(answer, request).rendered
    assert rendered is not None
    issued.note(protocol, body, rendered.content, rendered.document)
    return copy.deepcopy(rendered.content)


# Messages


def messages_body() -> Body:
    return {
        "model": "m-a",
        "max_tokens": 2000,
        "stream": True,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}],
        "messages": [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Reading."},
                    {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
                    {"type": "tool_use", "id": "c2", "name": "read", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "a"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": [], "is_error": True},
                    {"type": "text", "text": "go on"},
                ],
            },
        ],
    }


def block(message: int, index: int) -> Callable[[Body], Any]:
    return lambda body: body["messages"][message]["content"][index]


def on(message: int, index: int, /, **fields: Any) -> Change:
    return lambda body: body["messages"][message]["content"][index].update(fields)


def without(message: int, index: int) -> Change:
    return lambda body: body["messages"][message]["content"].pop(index)


def top(**fields: Any) -> Change:
    return lambda body: body.update(fields)


def lacking(name: str) -> Change:
    return lambda body: body.pop(name)


def many_marks(body: Body) -> None:
    body["cache_control"] = {"type": "ephemeral"}
    body["tools"][0]["cache_control"] = {"type": "ephemeral"}
    for message, index in ((1, 0), (2, 2)):
        block(message, index)(body)["cache_control"] = {"type": "ephemeral"}


def late_hour(body: Body) -> None:
    block(2, 2)(body)["cache_control"] = {"type": "ephemeral", "ttl": "1h"}


def empty_marked(body: Body) -> None:
    body["system"][0]["text"] = " "


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}

BAD_MESSAGES: dict[str, tuple[Change, str]] = {
    "no result": (without(2, 0), "`tool_use` ids were found without `tool_result`"),
    "no results at all": (lambda b: b["messages"].pop(), "prefill"),
    "result in a later message": (
        lambda b: (
            b["messages"].insert(2, {"role": "assistant", "content": "x"})
            or b["messages"].insert(2, {"role": "user", "content": "y"})
        ),
        "`tool_use` ids were found without",
    ),
    "text before results": (lambda b: b["messages"][2]["content"].reverse(), "`tool_use` ids were found without"),
    "orphan result": (on(2, 1, tool_use_id="c9"), "unexpected `tool_use_id`"),
    "result without calls": (lambda b: b["messages"].pop(1), "unexpected `tool_use_id`"),
    "result twice": (on(2, 1, tool_use_id="c1"), "single result"),
    "id twice": (on(1, 2, id="c1"), "ids must be unique"),
    "foreign id": (on(1, 1, id="call_1|fc_2"), "String should match pattern"),
    "foreign tool name": (on(1, 1, name="a.b"), "String should match pattern"),
    "call input no object": (on(1, 1, input="{}"), "valid dictionary"),
    "empty text": (on(1, 0, text=""), "must be non-empty"),
    "blank text": (on(1, 0, text=" \n"), "non-whitespace"),
    "empty text in a result": (on(2, 0, content=[{"type": "text", "text": ""}]), "must be non-empty"),
    "empty string": (lambda b: b["messages"][0].update(content=""), "must be non-empty"),
    "empty content": (lambda b: b["messages"][0].update(content=[]), "non-empty content"),
    "assistant first": (lambda b: b["messages"].pop(0), "first message"),
    "assistant last": (lambda b: b["messages"].append({"role": "assistant", "content": "The"}), "prefill"),
    "system role": (lambda b: b["messages"][0].update(role="system"), "Input should be 'user' or 'assistant'"),
    "extra message field": (lambda b: b["messages"][0].update(id="x"), "Extra inputs"),
    "extra block field": (on(1, 0, index=0), "Extra inputs"),
    "unknown block": (on(1, 0, type="input_text"), "does not match any of the expected tags"),
    "call by the user": (lambda b: b["messages"][0].update(content=[block(1, 1)(b)]), "expected tags"),
    "picture in an error": (on(2, 1, content=[IMAGE]), "all content must be type"),
    "no max_tokens": (lacking("max_tokens"), "max_tokens: Field required"),
    "no model": (lacking("model"), "model"),
    "no messages": (top(messages=[]), "at least one message"),
    "not streamed": (top(stream=False), "stream"),
    "unknown field": (top(max_output_tokens=5), "Extra inputs"),
    "empty system block": (lambda b: b["system"].append({"type": "text", "text": ""}), "must be non-empty"),
    "five cache marks": (many_marks, "maximum of 4"),
    "long cache mark behind a short one": (late_hour, "ttl='1h'"),
    "cache mark on blank text": (empty_marked, "non-empty"),
    "tool name": (lambda b: b["tools"][0].update(name="a b"), "String should match pattern"),
    "tool twice": (lambda b: b["tools"].append(dict(b["tools"][0])), "unique"),
    "chat tool": (top(tools=[{"type": "function", "function": {"name": "read"}}]), "Extra inputs"),
    "tool schema": (lambda b: b["tools"][0].update(input_schema={}), "Input should be 'object'"),
    "choice without tools": (lambda b: b.update(tools=[], tool_choice={"type": "auto"}), "while providing tools"),
    "thinking forged": (
        lambda b: b["messages"][1]["content"].insert(0, {"type": "thinking", "thinking": "hm", "signature": "x"}),
        "Invalid `signature`",
    ),
    "thinking unsigned": (
        lambda b: b["messages"][1]["content"].insert(0, {"type": "thinking", "thinking": "hm", "signature": ""}),
        "Invalid `signature`",
    ),
    "temperature on a new model": (top(model="claude-opus-5-5", temperature=0), "deprecated"),
    "thinking off where it is always on": (
        top(model="claude-opus-5-5", thinking={"type": "disabled"}),
        "not supported",
    ),
    "effort unknown to the model": (top(model="claude-haiku-4-5", output_config={"effort": "low"}), "effort"),
    "effort that the family lacks": (top(model="claude-opus-4-6", output_config={"effort": "xhigh"}), "'xhigh'"),
    "effort of another service": (top(output_config={"effort": "minimal"}), "'minimal'"),
    "thinking off where another kind is the least": (
        top(model="claude-sonnet-5-5", thinking={"type": "disabled"}),
        '"thinking.type.disabled" is not supported',
    ),
    "thinking off and much effort": (
        top(model="claude-haiku-5-5", thinking={"type": "disabled"}, output_config={"effort": "max"}),
        "not supported with `output_config.effort`",
    ),
    "budget on a newer model": (
        top(model="claude-opus-4-8", thinking={"type": "enabled", "budget_tokens": 1024}),
        '"thinking.type.enabled" is not supported',
    ),
    "display of no thinking": (top(thinking={"type": "disabled", "display": "summarized"}), "Extra inputs"),
    "budget too small": (top(thinking={"type": "enabled", "budget_tokens": 1000}), "greater than or equal to 1024"),
    "budget too large": (top(thinking={"type": "enabled", "budget_tokens": 2000}), "must be greater"),
    "more output than the model has": (top(model="claude-haiku-4-5", max_tokens=100_000), "maximum allowed"),
    "forced tool": (top(model="claude-opus-5-5", tool_choice={"type": "any"}), "not supported"),
}

GOOD_MESSAGES: dict[str, Change] = {
    "as it is": lambda b: None,
    "plain system": top(system="Be brief."),
    "no tools": lambda b: b.update(tools=[], messages=b["messages"][:1]),
    "user turns merged": lambda b: b["messages"].append({"role": "user", "content": "more"}),
    "results in two neighbouring messages": lambda b: b["messages"].insert(
        3, {"role": "user", "content": [b["messages"][2]["content"].pop()]}
    ),
    "picture in a result": on(2, 0, content=[IMAGE]),
    "result without content": lambda b: block(2, 0)(b).pop("content"),
    "four cache marks": lambda b: many_marks(b) or b.pop("cache_control"),
    "temperature on an old model": top(model="claude-sonnet-4-5", temperature=0),
    "adaptive thinking": top(thinking={"type": "adaptive", "display": "summarized"}, output_config={"effort": "high"}),
    "search tool": lambda b: b["tools"].append({"type": "web_search_20250305", "name": "web_search", "max_uses": 3}),
}


@pytest.mark.parametrize("name", BAD_MESSAGES)
def test_messages_refuses(name: str) -> None:
    change, expected = BAD_MESSAGES[name]
    assert expected in (refusal_of("anthropic", changed(messages_body(), change)) or "accepted")


@pytest.mark.parametrize("name", GOOD_MESSAGES)
def test_messages_accepts(name: str) -> None:
    assert refusal_of("anthropic", changed(messages_body(), GOOD_MESSAGES[name])) is None


def test_pictures_are_refused_where_the_model_has_no_eyes_or_the_type_is_wrong() -> None:
    def body(model: str, kind: str) -> Body:
        image = {"type": "image", "source": {"type": "base64", "media_type": kind, "data": PNG}}
        return {**messages_body(), "model": model, "messages": [{"role": "user", "content": [image]}]}

    assert refusal_of("anthropic", body("m-a", "image/png")) is None
    assert "not supported" in str(refusal_of("anthropic", body("m-textonly", "image/png")))
    assert "image/jpeg" in str(refusal_of("anthropic", body("m-a", "image/jpeg")))


class Loop:
    """A Messages conversation whose last reply thought and called a tool, ready to be answered."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.issued = Issued()
        self.body: Body = {**messages_body(), "thinking": {"type": "adaptive"}, "messages": []}
        self.body["messages"].append({"role": "user", "content": "hi"})
        answer = answer or reply(thinking("hm", signature="sig-a"), thinking("so"), "Reading.", call("read", id="c1"))
        self.content = say("anthropic", self.body, answer, self.issued)
        self.body["messages"] += [
            {"role": "assistant", "content": self.content},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a"}]},
        ]

    def refusal(self, change: Change = lambda body: None) -> str | None:
        return refusal_of("anthropic", changed(self.body, change), self.issued)


def test_thinking_comes_back_as_it_was_issued() -> None:
    assert Loop().refusal() is None
    assert Loop(reply(redacted(), call("read", id="c1"))).refusal() is None
    assert Loop().refusal(lambda b: b["messages"][0].update(content=[{"type": "text", "text": "hi"}])) is None
    assert Loop().refusal(lambda b: b["system"][0].pop("cache_control")) is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (top(model="m-b"), "Invalid `signature`"),
        (on(1, 0, thinking="hm!"), "cannot be modified"),
        (on(1, 0, signature="sig-b"), "Invalid `signature`"),
        (top(system="Other."), "bound to a different conversation"),
        (lambda b: b["messages"][0].update(content="hi there"), "bound to a different conversation"),
        (lambda b: b["tools"][0].update(description="Reads it."), "bound to a different conversation"),
        (without(1, 0), "kept or removed together"),
        (
            lambda b: b["messages"][1]["content"].insert(2, b["messages"][1]["content"].pop(0)),
            "kept or removed together",
        ),
        (lambda b: b["messages"][1].update(content=b["messages"][1]["content"][2:]), "Expected `thinking`"),
    ],
)
def test_thinking_changed_or_moved_is_refused(change: Change, expected: str) -> None:
    assert expected in (Loop().refusal(change) or "accepted")


def test_thinking_may_be_stripped_where_it_no_longer_holds() -> None:
    def stripped(body: Body) -> None:
        body["messages"][1]["content"] = body["messages"][1]["content"][2:]

    def on_another_model(body: Body) -> None:
        stripped(body)
        body["model"] = "m-b"

    def answered(body: Body) -> None:
        stripped(body)
        body["messages"] += [{"role": "assistant", "content": "done"}, {"role": "user", "content": "next"}]

    assert Loop().refusal(on_another_model) is None
    assert Loop().refusal(answered) is None


def test_a_run_of_thinking_may_end_where_its_reply_was_interrupted() -> None:
    def interrupted(body: Body) -> None:
        body["messages"][1:] = [
            {"role": "assistant", "content": body["messages"][1]["content"][:1]},
            {"role": "user", "content": "go on"},
        ]

    assert Loop().refusal(interrupted) is None


def searching(*, answered: bool) -> tuple[Body, Issued]:
    issued = Issued()
    body: Body = {**messages_body(), "messages": [{"role": "user", "content": "hi"}]}
    parts = reply("Looking.", search("w", ("https://w", "W"), id="srvtoolu_1", finished=answered))
    content = say("anthropic", body, parts if answered else paused(parts), issued)
    body["messages"].append({"role": "assistant", "content": content})
    return body, issued


def test_a_paused_turn_is_the_only_one_that_may_come_last() -> None:
    body, issued = searching(answered=False)
    assert refusal_of("anthropic", body, issued) is None
    assert "prefill" in str(refusal_of("anthropic", changed(body, on(1, 0, text="Look")), issued))
    assert "prefill" in str(refusal_of("anthropic", body))


def test_a_search_without_its_result_is_refused_once_the_turn_is_over() -> None:
    ask = {"role": "user", "content": "next"}
    body, issued = searching(answered=False)
    body["messages"].append(ask)
    assert "without a corresponding `web_search_tool_result`" in str(refusal_of("anthropic", body, issued))
    body, issued = searching(answered=True)
    body["messages"].append(ask)
    assert refusal_of("anthropic", body, issued) is None
    assert "unexpected `tool_use_id`" in str(refusal_of("anthropic", changed(body, without(1, 1)), issued))
    forged = on(1, 2, content=[{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "x"}])
    assert "encrypted_content" in str(refusal_of("anthropic", changed(body, forged), issued))


def test_a_search_may_wait_while_the_calls_beside_it_are_answered() -> None:
    answer = reply(search("w", id="srvtoolu_1", finished=False), call("read", id="c1"))
    loop = Loop(answer)
    assert loop.refusal() is None
    later = [{"role": "assistant", "content": "no result"}, {"role": "user", "content": "next"}]
    assert "without a corresponding" in str(loop.refusal(lambda b: b["messages"].extend(later)))


# Responses


def responses_body() -> Body:
    return {
        "model": "gpt-5.5",
        "stream": True,
        "store": False,
        "instructions": "Be brief.",
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "tools": [
            {"type": "function", "name": "read", "parameters": {"type": "object", "properties": {}}, "strict": False}
        ],
        "input": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "Reading.", "annotations": []}]},
            {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path": "a"}'},
            {"type": "function_call", "call_id": "c2", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "a"},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "b"}]},
        ],
    }


def item(index: int, /, **fields: Any) -> Change:
    return lambda body: body["input"][index].update(fields)


def dropped(index: int) -> Change:
    return lambda body: body["input"].pop(index)


BAD_RESPONSES: dict[str, tuple[Change, str]] = {
    "no output": (dropped(4), "No tool output found for function call c1"),
    "no call": (dropped(2), "No tool call found for function call output"),
    "output twice": (item(5, call_id="c1"), "Duplicate function call output"),
    "call twice": (item(3, call_id="c1"), "Duplicate function call"),
    "output before its call": (
        lambda b: b["input"].insert(0, b["input"].pop(4)),
        "No tool call found for function call output",
    ),
    "call id too long": (item(2, call_id="c" * 65), "maximum length 64"),
    "call id with a bar": (item(2, call_id="call_1|fc_2"), "Invalid 'input[2].call_id'"),
    "call id empty": (item(2, call_id=""), "Missing required parameter"),
    "foreign item id": (item(2, id="toolu_1"), "Expected an ID that begins with 'fc'"),
    "item id too long": (item(2, id="fc_" + "x" * 64), "at most 64"),
    "message id": (item(1, type="message", id="abc"), "begins with 'msg'"),
    "name": (item(2, name="a.b"), "string does not match pattern"),
    "arguments no string": (item(2, arguments={}), "JSON object"),
    "arguments broken": (item(2, arguments='{"path"'), "JSON object"),
    "empty content": (item(0, content=""), "empty content"),
    "empty part": (item(1, content=[{"type": "output_text", "text": ""}]), "empty string"),
    "user part of an assistant": (
        item(1, content=[{"type": "input_text", "text": "x"}]),
        "Invalid value: 'input_text'",
    ),
    "messages block": (item(0, content=[{"type": "text", "text": "x"}]), "Invalid value: 'text'"),
    "reference": (
        lambda b: b["input"].append({"type": "item_reference", "id": "rs_1"}),
        "Items are not persisted",
    ),
    "unsealed reasoning": (
        lambda b: b["input"].insert(1, {"type": "reasoning", "id": "rs_1", "summary": []}),
        "Items are not persisted",
    ),
    "foreign reasoning": (
        lambda b: b["input"].insert(
            1, {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAforged"}
        ),
        "could not be verified",
    ),
    "open schema by default strict": (lambda b: b["tools"][0].pop("strict"), "additionalProperties"),
    "open schema strict": (lambda b: b["tools"][0].update(strict=True), "additionalProperties"),
    "chat tool": (top(tools=[{"type": "function", "function": {"name": "read"}}]), "Unknown parameter"),
    "unknown parameter": (top(max_tokens=100), "Unknown parameter: 'max_tokens'"),
    "unknown item field": (item(2, index=0), "Unknown parameter"),
    "few output tokens": (top(max_output_tokens=15), ">= 16"),
    "temperature": (top(temperature=0.5), "Unsupported parameter: 'temperature'"),
    "more output than the model has": (top(max_output_tokens=200_000), "integer above maximum value"),
    "effort on an old model": (top(model="gpt-4.1"), "Unsupported parameter: 'reasoning.effort'"),
    "effort": (top(reasoning={"effort": "huge"}), "Invalid value: 'huge'"),
    "effort that the model lacks": (
        top(reasoning={"effort": "minimal"}),
        "'none', 'low', 'medium', 'high', and 'xhigh'",
    ),
    "unknown field of reasoning": (top(reasoning={"depth": 3}), "Unknown parameter: 'reasoning.depth'"),
    "unknown option of the stream": (top(stream_options={"include_usage": True}), "'stream_options.include_usage'"),
    "sealed reasoning of an old model": (
        lambda b: (b.pop("reasoning"), b.update(model="gpt-4.1")),
        "Encrypted content is not supported",
    ),
    "include": (top(include=["everything"]), "Invalid value: 'everything'"),
    "earlier response": (top(previous_response_id="resp_1"), "not found"),
    "no input": (top(input=[]), "Missing required parameter: 'input'"),
    "no model": (lacking("model"), "Missing required parameter: 'model'"),
    "not streamed": (lacking("stream"), "stream"),
    "picture for a blind model": (
        lambda b: b.update(
            model="m-textonly",
            input=[
                {
                    "role": "user",
                    "content": [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}],
                }
            ],
        ),
        "only supported by certain models",
    ),
}

CLOSED = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
GOOD_RESPONSES: dict[str, Change] = {
    "as it is": lambda b: None,
    "plain input": top(input="hi"),
    "no tools": lambda b: b.update(tools=[], input=b["input"][:1]),
    "closed schema, strict by default": top(tools=[{"type": "function", "name": "read", "parameters": CLOSED}]),
    "item ids": item(2, id="fc_1"),
    "empty output": item(4, output=""),
    "sixteen tokens": top(max_output_tokens=16),
    "search tool": lambda b: b["tools"].append({"type": "web_search"}),
    "picture in an output": item(5, output=[{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}]),
    "temperature on an old model": lambda b: (
        b.pop("reasoning"),
        b.pop("include"),
        b.update(model="gpt-4.1", temperature=0.5),
    ),
}


@pytest.mark.parametrize("name", BAD_RESPONSES)
def test_responses_refuses(name: str) -> None:
    change, expected = BAD_RESPONSES[name]
    assert expected in (refusal_of("responses", changed(responses_body(), change)) or "accepted")


@pytest.mark.parametrize("name", GOOD_RESPONSES)
def test_responses_accepts(name: str) -> None:
    assert refusal_of("responses", changed(responses_body(), GOOD_RESPONSES[name])) is None


def reasoned() -> tuple[Body, Issued]:
    """A Responses history: user, reasoning, call, output."""
    issued = Issued()
    body = {**responses_body(), "input": [{"role": "user", "content": "hi"}]}
    items = say("responses", body, reply(thinking("hm"), call("read", id="call_7|fc_93_")), issued)
    output = {"type": "function_call_output", "call_id": "call_7|fc_93_", "output": "a"}
    body["input"] += [*items, output]
    return body, issued


def test_reasoning_comes_back_sealed_and_with_its_item() -> None:
    body, issued = reasoned()
    assert refusal_of("responses", body, issued) is None
    without_ids = changed(body, lambda b: (b["input"].pop(1), b["input"][1].pop("id")))
    assert refusal_of("responses", without_ids, issued) is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (top(model="gpt-5.4"), "could not be verified"),
        (item(1, id="rs_other"), "could not be verified"),
        (item(1, encrypted_content="gAAA"), "could not be verified"),
        (lambda b: b["input"].__delitem__(slice(2, 4)), "without its required following item"),
        (lambda b: b["input"].insert(2, {"role": "user", "content": "x"}), "without its required following item"),
        (dropped(1), "without its required 'reasoning' item"),
    ],
)
def test_reasoning_alone_or_for_another_model_is_refused(change: Change, expected: str) -> None:
    body, issued = reasoned()
    assert expected in (refusal_of("responses", changed(body, change), issued) or "accepted")


# Chat Completions


def chat_body() -> Body:
    def use(id: str, arguments: str) -> Body:
        return {"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}}

    return {
        "model": "m-a",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}
        ],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": None, "tool_calls": [use("c1", '{"path": "a"}'), use("c2", "{}")]},
            {"role": "tool", "tool_call_id": "c1", "content": "a"},
            {"role": "tool", "tool_call_id": "c2", "content": "b"},
        ],
    }


def message(index: int, /, **fields: Any) -> Change:
    return lambda body: body["messages"][index].update(fields)


def use(index: int, /, **fields: Any) -> Change:
    return lambda body: body["messages"][2]["tool_calls"][index].update(fields)


def function(index: int, /, **fields: Any) -> Change:
    return lambda body: body["messages"][2]["tool_calls"][index]["function"].update(fields)


PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
BAD_CHAT: dict[str, tuple[Change, str]] = {
    "no answer": (lambda b: b["messages"].pop(), "did not have response messages: c2"),
    "answer later": (
        lambda b: b["messages"].insert(4, {"role": "user", "content": "x"}),
        "did not have response messages: c2",
    ),
    "answer twice": (message(4, tool_call_id="c1"), "must be a response to a preceeding message"),
    "answer to nothing": (message(4, tool_call_id="c9"), "must be a response to a preceeding message"),
    "answer without calls": (lambda b: b["messages"].pop(2), "must be a response to a preceeding message"),
    "empty content beside calls": (message(2, content=""), "non-empty string"),
    "empty part beside calls": (message(2, content=[{"type": "text", "text": ""}]), "empty string"),
    "empty user text": (message(1, content=""), "non-empty string"),
    "empty system text": (message(0, content=""), "non-empty string"),
    "nothing said": (
        lambda b: b["messages"].__setitem__(slice(2, None), [{"role": "assistant", "content": None}]),
        "non-empty string",
    ),
    "null answer": (message(3, content=None), "non-empty string"),
    "picture in an answer": (message(3, content=[PICTURE]), "Image URLs are only allowed"),
    "picture for a blind model": (
        lambda b: b.update(model="m-textonly") or b["messages"][1].update(content=[PICTURE]),
        "only supported by certain models",
    ),
    "id empty": (use(0, id=""), "Missing required parameter"),
    "id twice": (use(1, id="c1"), "Duplicate tool call ids"),
    "index kept": (use(0, index=0), "Unknown parameter"),
    "name": (function(0, name="a.b"), "string does not match pattern"),
    "arguments empty": (function(0, arguments=""), "JSON object"),
    "arguments no string": (function(0, arguments={}), "JSON object"),
    "no calls in the list": (message(2, tool_calls=[]), "empty array"),
    "late system": (lambda b: b["messages"].append({"role": "system", "content": "x"}), "at the beginning"),
    "empty tools": (top(tools=[]), "Invalid 'tools': empty array"),
    "choice without tools": (lambda b: b.pop("tools") and b.update(tool_choice="auto"), "only allowed when 'tools'"),
    "responses tool": (top(tools=[{"type": "function", "name": "read"}]), "Missing required parameter"),
    "open schema strict": (lambda b: b["tools"][0]["function"].update(strict=True), "additionalProperties"),
    "effort on an old model": (top(model="gpt-4.1", reasoning_effort="low"), "Unsupported parameter"),
    "effort that the model lacks": (top(model="gpt-5.1", reasoning_effort="minimal"), "'none', 'low', 'medium', and"),
    "effort that nobody has": (top(reasoning_effort="huge"), "Invalid value: 'huge'"),
    "more output than the model has": (top(model="gpt-4o", max_tokens=20_000), "max_tokens is too large"),
    "both limits": (top(max_tokens=5, max_completion_tokens=5), "at the same time"),
    "old limit on a new model": (top(model="gpt-5.5", max_tokens=5), "max_completion_tokens"),
    "unknown parameter": (top(instructions="x"), "Unrecognized request argument supplied: instructions"),
    "no messages": (top(messages=[]), "empty array"),
    "not streamed": (top(stream=None), "stream"),
}

GOOD_CHAT: dict[str, Change] = {
    "as it is": lambda b: None,
    "content absent beside calls": lambda b: b["messages"][2].pop("content"),
    "text beside calls": message(2, content="Reading."),
    "reasoning sent back": message(2, reasoning_content="hm"),
    "answers in another order": lambda b: b["messages"].append(b["messages"].pop(3)),
    "empty answer": message(3, content=""),
    "picture by the user": lambda b: b["messages"].append({"role": "user", "content": [PICTURE]}),
    "no tools": lambda b: b.pop("tools"),
    "limit": top(max_tokens=5),
}


@pytest.mark.parametrize("name", BAD_CHAT)
def test_chat_refuses(name: str) -> None:
    change, expected = BAD_CHAT[name]
    assert expected in (refusal_of("completions", changed(chat_body(), change)) or "accepted")


@pytest.mark.parametrize("name", GOOD_CHAT)
def test_chat_accepts(name: str) -> None:
    assert refusal_of("completions", changed(chat_body(), GOOD_CHAT[name])) is None


# All three

BODIES = {"anthropic": messages_body, "responses": responses_body, "completions": chat_body}


@pytest.mark.parametrize("protocol", BODIES)
def test_only_valid_json_in_utf8_is_accepted(protocol: str) -> None:
    good = json.dumps(BODIES[protocol]()).encode()
    assert refusal_of(protocol, good.replace(b'"hi"', '"h\\ud83d\\ude00 가"'.encode())) is None
    for bad in (b'"h\xed\xa0\x80"', b'"h\xff"', b'"h\\ud83d"', b'"h\\uDE00 \\ud83d"', b"NaN", b'"h'):
        assert "not valid JSON" in (refusal_of(protocol, good.replace(b'"hi"', bad)) or "accepted"), bad
    assert "JSON object" in str(refusal_of(protocol, b"[]"))


@pytest.mark.parametrize("protocol", BODIES)
def test_a_key_and_a_content_type_are_needed(protocol: str) -> None:
    def status(**headers: str | None) -> int | None:
        merged = {**HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
        answer = check(PATHS[protocol], {name: v for name, v in merged.items() if v is not None}, BODIES[protocol]())
        return answer and answer[0]

    assert status() is None
    assert status(authorization=None) == 401
    assert status(authorization="Bearer ") == 401
    assert status(authorization=None, x_api_key="k") is None
    assert status(content_type="text/plain") == 400
    assert status(content_type="application/json; charset=utf-8") is None
    assert status(anthropic_version=None) == (400 if protocol == "anthropic" else None)


def test_an_unknown_path_is_not_found() -> None:
    answer = check("/v1/complete", HEADERS, {})
    assert answer is not None
    assert answer[0] == 404


def test_text_alone_needs_no_memory() -> None:
    issued = Issued()
    say("anthropic", messages_body(), text("x"), issued)
    assert issued == Issued()
