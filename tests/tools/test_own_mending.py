"""Mending arguments: only mistakes with one meaning, whatever the schema and the arguments."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import jsonschema_rs
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_nodes.tools.arguments import check_arguments, mend
from agent_nodes.tools.base import AgentTool
from agent_nodes.tools.environment import ToolError

pytestmark = pytest.mark.feature("D04")

NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = st.sampled_from(["string", "integer", "number", "boolean", "null"]).map(lambda kind: {"type": kind})

# Small numbers and texts that look like JSON of another type: where a mistake of mending would show.
TEXTS = st.one_of(
    st.text(max_size=5),
    st.sampled_from(
        ["5", "-1.5", "true", "null", "[1]", '{"a": 1}', '"x"', "NaN", "1e999", "9" * 30, '["\\ud800"]', ""]
    ),
)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), INTEGERS, NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda fields, required, closed: {
            "type": "object",
            "properties": fields,
            "required": sorted(required & fields.keys()),
            **({"additionalProperties": False} if closed else {}),
        },
        st.dictionaries(NAMES, inner, max_size=3),
        st.sets(NAMES),
        st.booleans(),
    )


SCHEMAS = objects(
    st.recursive(
        st.one_of(LEAVES, st.just({}), st.just({"$ref": "#/$defs/n"}), st.just({"type": ["integer", "null"]})),
        lambda inner: st.one_of(
            objects(inner),
            inner.map(lambda item: {"type": "array", "items": item}),
            st.lists(inner, min_size=1, max_size=3).map(lambda items: {"anyOf": items}),
        ),
        max_leaves=6,
    )
).map(lambda schema: {**schema, "$defs": {"n": {"type": "integer"}}})
ARGUMENTS = st.dictionaries(NAMES, JSON, max_size=3)


def valid(schema: dict[str, Any], value: Any) -> bool:
    return jsonschema_rs.is_valid(schema, value)


def same(left: Any, right: Any) -> bool:
    """Equal in type too: 1, 1.0 and True are not the same."""
    return orjson.dumps(left) == orjson.dumps(right)


def tool_with(schema: dict[str, Any]) -> AgentTool:
    return AgentTool(name="own", description="", parameters=schema, execute=lambda arguments, context: None)


@settings(max_examples=300)
@given(SCHEMAS, ARGUMENTS)
def test_mending_is_done_at_once_changes_nothing_it_was_given_and_can_be_stored(schema, arguments) -> None:
    before = deepcopy((schema, arguments))
    mended = mend(schema, arguments)
    assert same(before, (schema, arguments))
    assert same(mend(schema, mended), mended)
    assert same(json.loads(json.dumps(mended, allow_nan=False)), orjson.loads(orjson.dumps(mended)))


@settings(max_examples=300)
@given(SCHEMAS, ARGUMENTS)
def test_what_fits_stays_as_it_is_and_what_is_let_through_fits(schema, arguments) -> None:
    try:
        checked = check_arguments(tool_with(schema), arguments)
    except ToolError as error:
        assert not valid(schema, arguments)
        assert not valid(schema, mend(schema, arguments))
        assert "Arguments of own refused:\n" in str(error)
        return
    assert valid(schema, checked)
    if valid(schema, arguments):
        assert same(checked, arguments)


def sent_wrongly(schema: dict[str, Any], value: dict[str, Any], draw: Any) -> dict[str, Any]:
    """``value`` as models send it at times: nested values as the text of their JSON, null for what is left out."""
    out: dict[str, Any] = {}
    for name, item in value.items():
        as_text = not isinstance(item, str) and draw(st.booleans())
        out[name] = json.dumps(item) if as_text else item
    for name in schema["properties"].keys() - value.keys():
        if draw(st.booleans()):
            out[name] = None
    return out


DIGITS = st.integers(0, 9)
PLACES = st.fixed_dictionaries({"x": DIGITS})
FIELDS: dict[str, tuple[dict[str, Any], st.SearchStrategy[Any]]] = {
    "text": ({"type": "string"}, TEXTS),
    "count": ({"type": "integer"}, INTEGERS),
    "share": ({"type": "number"}, NUMBERS),
    "on": ({"type": "boolean"}, st.booleans()),
    "items": ({"type": "array", "items": {"type": "integer"}}, st.lists(DIGITS, max_size=3)),
    "place": ({"$ref": "#/$defs/place"}, PLACES),
    "maybe": ({"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]}, PLACES),
}
ALL_FIELDS = {
    "type": "object",
    "properties": {name: schema for name, (schema, _) in FIELDS.items()},
    "additionalProperties": False,
    "$defs": {"place": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
}


@settings(max_examples=300)
@given(st.data())
def test_what_was_sent_as_text_or_null_is_what_was_meant(data) -> None:
    meant = {name: data.draw(values) for name, (_, values) in FIELDS.items() if data.draw(st.booleans())}
    sent = sent_wrongly(ALL_FIELDS, meant, data.draw)
    if "maybe" not in meant and "maybe" in sent:
        meant["maybe"] = None  # null is a value there
    assert same(mend(ALL_FIELDS, sent), {name: meant[name] for name in sent if name in meant})


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "integer"}, "9" * 30),
        ({"type": "integer"}, "5.0"),
        ({"type": "integer"}, "true"),
        ({"type": "number"}, "NaN"),
        ({"type": "number"}, "1e999"),
        ({"type": ["string", "integer"]}, "5"),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, "[1]"),
        ({"anyOf": [{"type": "integer"}, {}]}, "5"),
        ({"enum": [5]}, "5"),
        ({"$ref": "#"}, "5"),
        ({"type": "array"}, "[" * 100_000),
        ({"type": "array"}, "[99999999999999999999]"),
    ],
    ids=range(12),
)
def test_text_that_may_mean_something_else_stays_text(schema, sent) -> None:
    whole = {"type": "object", "properties": {"a": schema}}
    assert mend(whole, {"a": sent}) == {"a": sent}


def test_half_a_surrogate_pair_in_text_that_is_read_is_repaired() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array"}}}
    assert mend(schema, {"a": '["\\ud800"]'}) == {"a": ["\ufffd"]}


def test_references_in_a_circle_end() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert mend(schema, {"a": "5"}) == {"a": "5"}
    wide = {"anyOf": [{"$ref": "#/$defs/a"}] * 3}
    schema["$defs"] = {"a": wide}
    assert mend(schema, {"a": "5"}) == {"a": "5"}
