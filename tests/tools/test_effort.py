"""Checking arguments takes little, whatever the schema and whatever a model sends. What would take exponential time is
far too deep in these tests for anybody to wait for it."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Union

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from agent_nodes.errors import InputValidationError
from agent_nodes.tools.arguments import check_arguments
from agent_nodes.tools.base import AgentTool
from agent_nodes.tools.decorator import agent_tool
from agent_nodes.tools.effort import steps
from agent_nodes.tools.environment import ToolError
from agent_nodes.tools.schemas import check_tool, mistakes, model_mistakes

pytestmark = pytest.mark.feature("D04")

DEPTH = 60
ROOT = {"$ref": "#"}
EXPRESSION = {"$ref": "#/$defs/E"}


def own(schema: dict[str, Any]) -> AgentTool:
    return AgentTool(name="own", description="", parameters=schema, execute=lambda arguments, context: "")


def pair(name: str, side: Any) -> dict[str, Any]:
    fields = {"op": {"const": name}, "left": side, "right": side}
    return {"type": "object", "properties": fields, "required": [*fields]}


EXPRESSIONS = {
    "type": "object",
    "properties": {"where": EXPRESSION},
    "$defs": {
        "E": {
            "anyOf": [
                pair("and", EXPRESSION),
                pair("or", EXPRESSION),
                {"type": "object", "properties": {"op": {"const": "eq"}}, "required": ["op", "field"]},
            ]
        }
    },
}


class Eq(BaseModel):
    op: Literal["eq"]
    field: str


class And(BaseModel):
    op: Literal["and"]
    left: Expression
    right: Expression


class Or(BaseModel):
    op: Literal["or"]
    left: Expression
    right: Expression


Expression = Union[And, Or, Eq]  # noqa: UP007 - the classes above name it before it is there


class Tagged(BaseModel):
    op: Literal["not"]
    of: Choice


class End(BaseModel):
    op: Literal["end"]
    field: str


Choice = Annotated[Union[Tagged, End], Field(discriminator="op")]  # noqa: UP007 - as above


def expression(depth: int, leaf: dict[str, Any]) -> dict[str, Any]:
    for level in range(depth):
        leaf = {"op": ("and", "or")[level % 2], "left": leaf, "right": {"op": "eq", "field": "x"}}
    return {"where": leaf}


def nested(depth: int, leaf: Any = 5) -> dict[str, Any]:
    for _ in range(depth):
        leaf = {"c": leaf}
    return {"c": leaf}


def refusal(tool: AgentTool, arguments: dict[str, Any]) -> str:
    with pytest.raises(ToolError) as refused:
        check_arguments(tool, arguments)
    return str(refused.value)


@agent_tool
def find(where: Expression) -> str:
    """Find."""
    return ""


def tagged() -> AgentTool:
    @agent_tool
    def find_tagged(where: Choice) -> str:
        """Find."""
        return ""

    return find_tagged


def test_a_deep_expression_with_one_wrong_leaf_is_refused_without_naming_it() -> None:
    wrong = expression(DEPTH, {"op": "eq"})
    assert "too large or too deep to say where" in refusal(own(EXPRESSIONS), wrong)
    assert "nested too deeply for the alternatives" in refusal(find, wrong)


def test_a_deep_expression_that_fits_is_taken_where_checking_it_is_linear() -> None:
    right = expression(DEPTH, {"op": "eq", "field": "x"})
    assert check_arguments(own(EXPRESSIONS), right) == right
    assert "nested too deeply for the alternatives" in refusal(find, right)


def test_shallow_expressions_are_taken_and_their_mistakes_named() -> None:
    right = expression(8, {"op": "eq", "field": "x"})
    assert check_arguments(find, right) == right
    assert "where.And.left" in refusal(find, expression(3, {"op": "eq"}))
    assert refusal(own(EXPRESSIONS), expression(2, {"op": "eq"})).splitlines()[1].startswith("where: ")


def test_a_discriminator_makes_a_union_linear() -> None:
    value: dict[str, Any] = {"op": "end", "field": "x"}
    for _ in range(DEPTH):
        value = {"op": "not", "of": value}
    assert check_arguments(tagged(), {"where": value}) == {"where": value}


OVERLAPPING = {
    "anyOf": {"anyOf": [{"properties": {"c": ROOT}}, {"properties": {"c": ROOT}, "minProperties": 1}]},
    "oneOf": {"oneOf": [{"properties": {"c": ROOT}}, {"properties": {"c": ROOT}, "minProperties": 2}]},
    "allOf": {"allOf": [{"properties": {"c": ROOT}}, {"properties": {"c": ROOT}, "minProperties": 1}]},
    "patterns": {"properties": {"c": ROOT}, "patternProperties": {"c": ROOT, "^c": ROOT}},
    "if": {"if": {"properties": {"c": ROOT}}, "then": {"properties": {"c": ROOT}}, "else": {"properties": {"c": ROOT}}},
    "not": {"not": {"not": {"properties": {"c": ROOT}}}, "properties": {"c": ROOT}},
    "unevaluated": {
        "anyOf": [{"properties": {"c": ROOT}}, {"properties": {"c": ROOT, "d": {}}}],
        "unevaluatedProperties": False,
    },
    "dependent": {"dependentSchemas": {"c": {"properties": {"c": ROOT}}}, "properties": {"c": ROOT}},
    "dynamic": {
        "$dynamicAnchor": "n",
        "anyOf": [
            {"properties": {"c": {"$dynamicRef": "#n"}}},
            {"properties": {"c": {"$dynamicRef": "#n"}}, "minProperties": 1},
        ],
    },
    "anchor": {
        "$defs": {"n": {"$anchor": "n", "type": "object", "allOf": [{"properties": {"c": {"$ref": "#n"}}}] * 2}},
        "properties": {"c": {"$ref": "#n"}},
    },
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_no_overlap_of_a_schema_with_itself_takes_long(name) -> None:
    schema = {"type": "object", **OVERLAPPING[name]}
    assert steps(schema, nested(DEPTH)) == math.inf
    assert steps(schema, nested(3)) < 10_000
    if name == "not":  # what fits both ways fits, however deep
        assert mistakes(schema, nested(DEPTH, {})) == []
        return
    assert "too deep to say where" in mistakes(schema, nested(DEPTH))[0]


def test_alternatives_that_multiply_for_one_value_are_no_usable_schema() -> None:
    chain: dict[str, Any] = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(DEPTH)}
    tool = own({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**chain, f"d{DEPTH}": {}}})
    with pytest.raises(InputValidationError, match=r"parameters is no usable JSON Schema: its alternatives multiply"):
        check_tool(tool, "extra_tools.0")


def test_many_mistakes_in_long_lists_are_not_collected() -> None:
    numbers = {"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}}}
    assert "too large" in refusal(own(numbers), {"n": ["x"] * 50_000})
    assert len(refusal(own(numbers), {"n": ["x"] * 1_000}).splitlines()) == 7

    @agent_tool
    def add(n: list[int]) -> str:
        """Add."""
        return ""

    assert "50,000 mistakes, too many to name" in refusal(add, {"n": ["x"] * 50_000})
    assert "too large" in refusal(add, {"n": [1] * 200_000})
    assert len(check_arguments(add, {"n": [1] * 50_000})["n"]) == 50_000


def test_long_texts_are_not_copied_for_each_mistake() -> None:
    closed = {"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}}}
    found = mistakes(closed, {"n": ["x"] * 500, "text": "y" * 1_000_000})
    assert found == ["something in them does not fit the schema; they are too large or too deep to say where"]


def test_values_nested_beyond_what_is_counted_are_refused() -> None:
    assert "nested too deeply" in refusal(find, expression(2_000, {"op": "eq", "field": "x"}))
    assert refusal(own({"type": "object", "properties": {"c": ROOT}, "maxProperties": 1}), {**nested(400), "d": 1})


def test_results_are_checked_within_the_same_bounds() -> None:
    try:
        TypeAdapter(list[int]).validate_python(["x"] * 20_000)
    except ValueError as error:
        assert model_mistakes(error) == ["20,000 mistakes, too many to name"]
