"""What a caller says of a model: checked where it is text or a dict, taken as it is where it is an object."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_nodes import AgentModelAttributes, InputValidationError
from agent_nodes.messages import EffortLevel
from agent_nodes.model_attributes import model_attributes_of

WHOLE: dict[str, Any] = {
    "name": "Vendor Model 1",
    "reasoning": True,
    "web_search": False,
    "input": ["text", "image"],
    "cost": {"input": 0.4, "output": 1.6, "cache_read": 0.04, "cache_write": 0},
    "context_window": 1_000_000,
    "max_tokens": 64_000,
    "thinking_level_map": {"minimal": None, "max": "xhigh"},
}


def mistake(value: Any) -> InputValidationError:
    with pytest.raises(InputValidationError) as caught:
        model_attributes_of(value)
    assert "\n" not in caught.value.message
    return caught.value


@pytest.mark.feature("C02")
@pytest.mark.parametrize("form", [dict, json.dumps])
def test_a_dict_and_json_text_give_all_fields(form: Any) -> None:
    attributes = model_attributes_of(form(WHOLE))
    assert isinstance(attributes, AgentModelAttributes)
    assert attributes.model_dump() == WHOLE


@pytest.mark.feature("C02")
@pytest.mark.parametrize("unset", [None, "", " \n"])
def test_nothing_and_empty_text_declare_nothing(unset: Any) -> None:
    assert model_attributes_of(unset) is None


@pytest.mark.feature("C02")
def test_an_object_is_taken_as_it_is() -> None:
    checked = AgentModelAttributes(reasoning=True)
    assert model_attributes_of(checked) is checked
    odd = AgentModelAttributes.model_construct(context_window="many")  # type: ignore[arg-type]
    assert model_attributes_of(odd) is odd


@pytest.mark.feature("C02")
@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ('{"contextWindwo": 5}', "contextWindwo", "unknown field; did you mean context_window?"),
        ('{"contextWindow": 5}', "contextWindow", "did you mean context_window?"),
        ('{"thinkingLevelMap": {}}', "thinkingLevelMap", "did you mean thinking_level_map?"),
        ('{"cost": {"cacheRead": 1}}', "cost.cacheRead", "did you mean cache_read?"),
        ('{"temperature": 1}', "temperature", "known are name, reasoning, web_search, input, cost"),
        ('{"cost": {"input": 1, "output": 2, "cache_read": 3}}', "cost.cache_write", "missing"),
        ('{"cost": 5}', "cost", "dictionary"),
        ('{"reasoning": 1}', "reasoning", "boolean"),
        ('{"reasoning": "true"}', "reasoning", "boolean"),
        ('{"web_search": null}', "web_search", "null"),
        ('{"name": 5}', "name", "string"),
        ('{"input": ["audio"]}', "input.0", "'text' or 'image'"),
        ('{"input": "text"}', "input", "Sequence"),
        ('{"input": []}', "input", "at least 1"),
        ('{"context_window": true}', "context_window", "integer"),
        ('{"context_window": "5"}', "context_window", "integer"),
        ('{"context_window": 5.0}', "context_window", "integer"),
        ('{"context_window": 0}', "context_window", "greater than 0"),
        ('{"max_tokens": -1}', "max_tokens", "greater than 0"),
        ('{"max_tokens": 100000000000000000000}', "max_tokens", "less than or equal"),
        ('{"cost": {"input": true}}', "cost.input", "number"),
        ('{"cost": {"input": "1"}}', "cost.input", "number"),
        ('{"cost": {"input": -1}}', "cost.input", "greater than or equal to 0"),
        ('{"cost": {"input": NaN}}', "cost.input", "finite"),
        ('{"cost": {"input": Infinity}}', "cost.input", "finite"),
        ('{"cost": {"input": 1e999}}', "cost.input", "finite"),
        ('{"cost": {"input": 1' + "0" * 400 + "}}", "cost.input", "number"),
        ('{"thinking_level_map": {"ultra": "x"}}', "thinking_level_map.ultra", "map max instead"),
        ('{"thinking_level_map": {"huge": null}}', "thinking_level_map.huge", "levels are off, minimal"),
        ('{"thinking_level_map": {"max": 3}}', "thinking_level_map.max", "string"),
        ('{"thinking_level_map": {"max": ""}}', "thinking_level_map.max", "at least 1"),
        ('{"name": "a", "name": "b"}', "name", "given twice"),
        ('{"cost": {"input": 1, "input": 2}}', "cost.input", "given twice"),
        ('{"thinking_level_map": {"max": "a", "max": null}}', "thinking_level_map.max", "given twice"),
    ],
)
def test_a_mistake_in_json_text_is_named(text: str, field: str, said: str) -> None:
    error = mistake(text)
    assert error.field == f"model_attributes.{field}"
    assert f"model_attributes.{field}: " in error.message
    assert said in error.message


@pytest.mark.feature("C02")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("not json", "no JSON"),
        ("[1]", "a JSON object"),
        ("5", "a JSON object"),
        ('"{}"', "a JSON object"),
        ('{"context_window": ' + "9" * 5_000 + "}", "too long"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_text_that_is_no_json_object_is_refused(text: str, said: str) -> None:
    error = mistake(text)
    assert error.field == "model_attributes"
    assert said in error.message
    assert len(error.message) < 200


def test_the_name_is_short_text() -> None:
    assert "200" in mistake({"name": "x" * 201}).message
    assert model_attributes_of({"name": "x" * 200}) is not None
    assert mistake({"name": "\ud800"}).field == "model_attributes.name"


def test_other_values_are_refused_by_their_kind() -> None:
    assert "got list" in mistake([WHOLE]).message
    assert mistake({1: 2}).field == "model_attributes.1"
    with pytest.raises(InputValidationError, match=r"^settings\.reasonign: unknown field; did you mean reasoning\?"):
        model_attributes_of({"reasonign": True}, where="settings")


def test_no_rejected_value_is_shown() -> None:
    for value in ({"name": ["hush"]}, {"hush" * 40: 1}, {"thinking_level_map": {"max": ["hush"]}}, '{"name": hush}'):
        assert "hush" * 20 not in mistake(value).message
    assert "hush" not in mistake({"name": ["hush"]}).message


@pytest.mark.feature("C02")
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "name": st.text(st.characters(codec="utf-8"), max_size=9),
            "reasoning": st.booleans(),
            "web_search": st.booleans(),
            "input": st.lists(st.sampled_from(["text", "image"]), min_size=1, max_size=2),
            "cost": st.fixed_dictionaries(
                dict.fromkeys(("input", "output", "cache_read", "cache_write"), st.floats(0, 1e6) | st.integers(0, 9))
            ),
            "context_window": st.integers(1, 10**9),
            "max_tokens": st.integers(1, 10**9),
            "thinking_level_map": st.dictionaries(
                st.sampled_from(get_args(EffortLevel)), st.none() | st.sampled_from(["low", "7"])
            ),
        },
    )
)
def test_what_is_stored_comes_back(values: dict[str, Any]) -> None:
    attributes = model_attributes_of(values)
    assert attributes is not None
    stored = attributes.to_json()
    assert json.loads(stored) == values, "the declared fields alone"
    assert AgentModelAttributes.from_json(stored) == attributes
    assert model_attributes_of(stored) == attributes


def test_an_unchecked_object_is_stored_as_it_is_or_refused() -> None:
    odd = AgentModelAttributes.model_construct(context_window="many", input=("text",))  # type: ignore[arg-type]
    assert json.loads(odd.to_json()) == {"context_window": "many", "input": ["text"]}
    worse = AgentModelAttributes.model_construct(context_window=object())  # type: ignore[arg-type]
    with pytest.raises(InputValidationError, match="no JSON form"):
        worse.to_json()
