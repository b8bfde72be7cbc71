"""Whatever a service sends, a decoder ends in an event or an error of its contract, and what it made can be stored."""

import copy
import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_nodes.events import TextDelta, ThinkingDelta
from agent_nodes.messages import message_from_json, message_to_json
from agent_nodes.providers.base import ArgsDelta
from tests.fakes.scripts import Answer, block, call, redacted, reply, search, text, thinking
from tests.providers.protocols import APIS, Decoded, decode, decode_whole, entry, rendered, request, said, sent, user

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError)
ODD = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 10**30),
        st.floats(allow_nan=False),
        st.sampled_from(["", "x", "\x00", "\ud99c", "점심", "text", "reasoning", "error", '{"a":1}', "[1", "\ud83d"]),
    ),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "text", "id", "\ud800"]), inner)
    ),
    max_leaves=4,
)


def answer(api: str) -> Answer:
    parts: list[Any] = [thinking("hm", "ok"), text("a", "점심"), call("read", {"path": "a.txt"}, id="c1")]
    if api == "anthropic-messages":
        parts += [redacted("d"), search("q", ("https://a", "A")), text("b", cite=[("https://a", "A", "b")])]
    if api != "openai-completions":
        parts.append(block({"type": "new", "id": "n"}))
    return reply(*parts).using(11, 2, cached=3, reasoning=1)


def spots(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything inside ``value``."""
    found: list[tuple[Any, Any]] = []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(pairs):
        found.append((value, key))
        found += spots(inner)
    return found


def check(found: Decoded) -> None:
    stored = orjson.dumps(message_to_json(found.message))
    assert b"\\u0000" not in stored
    assert message_from_json(orjson.loads(stored)) == found.message
    for event in found.events:
        if isinstance(event, TextDelta | ThinkingDelta | ArgsDelta):
            orjson.dumps(event.delta)
    model = entry(found.message.api)
    sent(request(model, [user("hi"), said(model, *found.blocks), user("and")]))


@pytest.mark.parametrize("api", APIS)
@given(data=st.data())
@settings(max_examples=100)
def test_a_damaged_reply_breaks_nothing(api: str, data: st.DataObject) -> None:
    events, document = rendered(api, answer(api))
    whole = data.draw(st.booleans())
    damaged: Any = copy.deepcopy(document if whole else [event.data for event in events])
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(spots(damaged)))
        if data.draw(st.booleans()) or not isinstance(container, dict):
            container[key] = data.draw(ODD)
        else:
            container.pop(key, None)
    try:
        made = decode_whole(entry(api), damaged) if whole else decode(entry(api), [encode(one) for one in damaged])
    except UNREADABLE:
        return
    check(made)


def encode(event: Any) -> bytes:
    return json.dumps(event).encode()


@pytest.mark.parametrize("api", APIS)
def test_an_undamaged_reply_passes_the_same_checks(api: str) -> None:
    events, document = rendered(api, answer(api))
    check(decode(entry(api), [encode(event.data) for event in events]))
    check(decode_whole(entry(api), document))
