"""An own tool: checked when it is made, its arguments prepared, its structured content held to its schema."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from agent_nodes import AgentTool, AgentToolResult, ImageBlock, InputValidationError, TextBlock, Usage
from agent_nodes.tools.arguments import check_arguments
from agent_nodes.tools.environment import ToolError
from agent_nodes.tools.policy import resolve
from agent_nodes.tools.results import MAX_STRUCTURED, result_of
from tests.support import png

pytestmark = pytest.mark.feature("D04")

ANY: dict[str, Any] = {"type": "object"}
COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def nothing(arguments: Any, context: Any) -> None:
    return None


def own(**changes: Any) -> AgentTool:
    return AgentTool(**{"name": "own", "description": "", "parameters": ANY, "execute": nothing, **changes})


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def text_of(result: AgentToolResult) -> str:
    return "".join(block.text for block in result.blocks() if isinstance(block, TextBlock))


# -- the definition ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "a b"),
        ("name", "x" * 65),
        ("name", "x\n"),
        ("name", None),
        ("description", None),
        ("parameters", {"type": "array"}),
        ("parameters", {"type": "object", "default": object()}),
        ("parameters", 5),
        ("execute", "f"),
        ("prepare_arguments", "f"),
        ("prepare_arguments", nothing),
        ("output_schema", "object"),
        ("output_schema", {"default": {1, 2}}),
        ("replay", "maybe"),
        ("execution", "both"),
    ],
)
def test_a_wrong_field_is_refused_by_name(field, value) -> None:
    with pytest.raises(InputValidationError, match=field if field != "name" else "tool name") as caught:
        own(**{field: value})
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["parameters", "output_schema"])
@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "object", "properties": {"a": {"$ref": "https://example.invalid/a.json"}}}, "never fetched"),
        ({"type": "object", "properties": {"a": {"$ref": "file:///etc/hostname"}}}, "never fetched"),
        ({"$id": "https://example.invalid/", "type": "object", "allOf": [{"$ref": "a.json"}]}, "never fetched"),
        (
            {"type": "object", "$schema": "https://my.invalid/", "allOf": [{"$ref": "https://b.invalid/"}]},
            "never fetched",
        ),
        ({"type": "object", "properties": {"a": {"type": "strin"}}}, 'properties.a.type: "strin"'),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "regex"),
        ({"type": "object", "$schema": 5}, "$schema"),
    ],
    ids=range(7),
)
def test_a_schema_that_is_none_is_refused_when_an_agent_is_made_with_it(field, schema, reason) -> None:
    tool = own(**{field: schema})
    with pytest.raises(InputValidationError) as caught:
        resolve("workspace", None, [tool])
    assert caught.value.field == "extra_tools"
    assert f"tool own: {field} is no usable JSON Schema: " in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "dialect",
    [
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2020-12/schema",
        "https://my.invalid/dialect",
        "",
    ],
)
def test_a_schema_of_any_dialect_is_used(dialect) -> None:
    tool = own(parameters={"$schema": dialect, **COUNT})
    assert resolve("workspace", (), [tool]) == (tool,)
    assert check_arguments(tool, {"n": 1}) == {"n": 1}
    with pytest.raises(ToolError, match="n: missing"):
        check_arguments(tool, {})


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "(a|a)*b", r"^(a+)+\1$", "^(?=a)(a|a)*$", "(?=.*.*.*x)y", "(?!.*b)(a*)*c"]
)
def test_no_pattern_stalls(pattern) -> None:
    tool = own(parameters={"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}})
    with pytest.raises(ToolError, match="refused:\na: "):
        check_arguments(tool, {"a": "a" * 300_000 + "!"})


def test_no_pattern_of_names_stalls() -> None:
    names: dict[str, Any] = {"type": "object", "patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}
    with pytest.raises(ToolError, match="unknown field") as caught:
        check_arguments(own(parameters=names), {"a" * 300_000 + "!": 1})
    assert len(str(caught.value)) < 500
    names["patternProperties"] = {"(?!b)a": {}}
    with pytest.raises(InputValidationError, match=r"patternProperties: '\(\?!b\)a' looks around"):
        resolve("workspace", None, [own(parameters=dict(names))])


def test_a_pattern_that_looks_around_is_tried_on_short_text_and_means_what_it_says() -> None:
    code = {"type": "string", "pattern": "^(?!0).+$", "maxLength": 20}
    fields = {"pattern": code, "more": {"type": "string", "pattern": "(?=x)"}, "fixed": {"const": {"pattern": "(?=x)"}}}
    tool = own(parameters={"type": "object", "properties": fields})
    assert check_arguments(tool, {"pattern": "12", "more": "ax"})
    assert check_arguments(tool, {"fixed": {"pattern": "(?=x)"}})
    for wrong in ({"pattern": "012"}, {"pattern": "1" * 21}, {"more": "a"}, {"more": "x" * 5_001}):
        with pytest.raises(ToolError, match=f"refused:\n{next(iter(wrong))}: "):
            check_arguments(tool, wrong)


# -- prepare_arguments -------------------------------------------------------------------------------------------------


def test_arguments_are_prepared_before_they_are_checked_and_the_call_stays_as_it_was_sent() -> None:
    def prepare(arguments: dict[str, Any]) -> dict[str, Any]:
        arguments["n"] = len(arguments.pop("list"))
        return arguments

    sent = {"list": [1, 2]}
    assert check_arguments(own(parameters=COUNT, prepare_arguments=prepare), sent) == {"n": 2}
    assert sent == {"list": [1, 2]}


def test_prepared_arguments_are_checked_and_mended_like_any() -> None:
    tool = own(parameters=COUNT, prepare_arguments=lambda arguments: {"n": arguments["m"]})
    assert check_arguments(tool, {"m": "7"}) == {"n": 7}
    with pytest.raises(ToolError, match='n: "x" is not of type "integer"'):
        check_arguments(tool, {"m": "x"})
    whole = own(prepare_arguments=lambda arguments: {"a": (1, "\ud800"), 5: "b"})
    assert check_arguments(whole, {}) == {"a": [1, "\ufffd"], "5": "b"}


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def raising(error: BaseException) -> Any:
    def prepare(arguments: dict[str, Any]) -> dict[str, Any]:
        raise error

    return prepare


def circular(arguments: dict[str, Any]) -> dict[str, Any]:
    arguments["n"] = arguments
    return arguments


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda arguments: arguments["m"], "could not be prepared: 'm'"),
        (lambda arguments: arguments.clear(), "returned NoneType, not a dict"),
        (lambda arguments: {"a": object()}, "no JSON"),
        (lambda arguments: {"a": float("nan")}, "no JSON"),
        (lambda arguments: {"a": 1 << 64}, "no JSON"),
        (lambda arguments: nested(300), "no JSON"),
        (lambda arguments: nested(3_000), "no JSON"),
        (circular, "no JSON"),
        (raising(SystemExit(3)), "could not be prepared: 3"),
        (raising(GeneratorExit()), "could not be prepared: GeneratorExit"),
        (raising(asyncio.CancelledError()), "could not be prepared: CancelledError"),
        (raising(Wordless()), "could not be prepared: Wordless"),
        (lambda arguments: {Wordless(): 1}, "could not be prepared: no words"),
    ],
    ids=range(13),
)
def test_a_preparation_that_fails_is_an_error_that_the_model_reads(prepare, reason) -> None:
    with pytest.raises(ToolError, match="own") as caught:
        check_arguments(own(prepare_arguments=prepare), {"n": 1})
    assert reason in str(caught.value)


@pytest.mark.parametrize("error", [SystemExit(3), KeyError("3"), Wordless()], ids=["exit", "key", "wordless"])
def test_a_validator_of_a_model_that_fails_is_an_error_that_the_model_reads(error) -> None:
    class Odd(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def check(cls, value: int) -> int:
            raise error

    with pytest.raises(ToolError, match=r"could not be checked: ('?3'?|Wordless)$"):
        check_arguments(own(parameters=Odd), {"n": 1})


def test_an_interrupt_from_the_keyboard_is_no_mistake_of_a_tool() -> None:
    with pytest.raises(KeyboardInterrupt):
        check_arguments(own(prepare_arguments=raising(KeyboardInterrupt())), {"n": 1})


def test_what_is_no_object_is_not_prepared() -> None:
    with pytest.raises(ToolError, match="no JSON object but list"):
        check_arguments(own(prepare_arguments=lambda arguments: {}), {}, "[1]")


def test_a_model_gets_numbers_that_can_be_stored_only() -> None:
    class Amount(BaseModel):
        n: int

    with pytest.raises(ToolError, match="more than 64 bits"):
        check_arguments(own(parameters=Amount), {"n": str(1 << 64)})


def test_nested_mistakes_of_a_model_are_named_with_their_whole_place() -> None:
    class Place(BaseModel):
        model_config = ConfigDict(extra="forbid")
        name: str = Field(alias="called")

    class Trip(BaseModel):
        places: list[Place]

    with pytest.raises(ToolError) as caught:
        check_arguments(own(parameters=Trip), {"places": [{"called": "a"}, {"name": "b"}]})
    assert str(caught.value).split("\n")[1:] == ["places.1.called: missing", "places.1.name: unknown field"]


# -- structured content ------------------------------------------------------------------------------------------------


class Answer(BaseModel):
    n: int
    note: str = "-"


def test_the_model_reads_the_json_of_structured_content_without_text_and_the_text_where_there_is_one() -> None:
    alone = result_of(AgentToolResult(structured_content={"ä": [1, None]}))
    assert (text_of(alone), alone.structured_content) == ('{"ä": [1, null]}', {"ä": [1, None]})
    both = result_of(AgentToolResult("one", structured_content={"n": 1}), COUNT)
    assert (text_of(both), both.structured_content) == ("one", {"n": 1})
    picture = result_of(AgentToolResult([png()], structured_content={"n": 1}))
    assert picture.blocks() == (png(),)


@pytest.mark.parametrize("schema", [COUNT, Answer, TypeAdapter(Answer)], ids=["schema", "model", "adapter"])
def test_a_value_that_is_returned_is_the_structured_content_where_a_schema_says_so(schema) -> None:
    for value in (
        {"n": 1, "note": "a"},
        Answer(n=1, note="a"),
        AgentToolResult(structured_content=Answer(n=1, note="a")),
    ):
        result = result_of(value, schema)
        assert not result.is_error
        assert result.structured_content == {"n": 1, "note": "a"}
        assert json.loads(text_of(result)) == {"n": 1, "note": "a"}
    assert result_of({"n": 1}).structured_content is None


@pytest.mark.parametrize("schema", [COUNT, Answer], ids=["schema", "model"])
@pytest.mark.parametrize(
    "value", [{"n": "x"}, {}, "text", [1], AgentToolResult(structured_content={"n": None})], ids=repr
)
def test_structured_content_that_does_not_fit_is_an_error_that_names_the_field(schema, value) -> None:
    result = result_of(value, schema)
    assert result.is_error
    assert result.structured_content is None
    assert "The call ran, but its structured content does not fit the tool's output_schema:\n" in text_of(result)
    if not isinstance(value, str | list):
        assert "\nn: " in text_of(result)


def test_an_instance_whose_fields_were_set_to_something_else_does_not_fit() -> None:
    result = result_of(Answer.model_construct(n="x"), Answer)
    assert result.is_error
    assert "does not fit" in text_of(result)
    assert "'n'" in text_of(result)


@pytest.mark.parametrize("value", [None, AgentToolResult("text"), AgentToolResult()], ids=repr)
def test_without_structured_content_a_schema_is_not_met(value) -> None:
    result = result_of(value, COUNT)
    assert result.is_error
    assert "gave no structured content" in text_of(result)


def test_an_error_result_need_not_fit() -> None:
    result = result_of(AgentToolResult("no", is_error=True), COUNT)
    assert (text_of(result), result.is_error) == ("no", True)
    told = result_of(AgentToolResult(structured_content={"why": "x"}, is_error=True), COUNT)
    assert told.structured_content == {"why": "x"}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"n": float("nan")}, "neither text nor JSON"),
        ({"n": object()}, "neither text nor JSON"),
        ({"n": 1 << 64}, "cannot be stored"),
        ({"n": "x" * MAX_STRUCTURED}, "1 MB is the limit"),
        (nested(300), "cannot be stored"),
        (nested(3_000), "neither text nor JSON"),
    ],
    ids=range(6),
)
def test_structured_content_that_cannot_be_kept_is_an_error(value, reason) -> None:
    result = result_of(AgentToolResult("text", structured_content=value))
    assert result.is_error
    assert reason in text_of(result)
    assert len(text_of(result)) < 1_000


def test_structured_content_is_repaired_and_made_plain() -> None:
    result = result_of(AgentToolResult(structured_content={1: ("a\ud800", Answer(n=2))}))
    assert result.structured_content == {"1": ["a\ufffd", {"n": 2, "note": "-"}]}
    assert result_of(result) == result


# -- usage, terminate, content -----------------------------------------------------------------------------------------


def test_usage_and_terminate_come_through_usage_also_of_a_result_that_does_not_fit() -> None:
    spent = Usage(input_tokens=5, output_tokens=1, calls=1)
    result = result_of(AgentToolResult("x", terminate=True, usage=spent))
    assert (result.terminate, result.usage) == (True, spent)
    wrong = result_of(AgentToolResult(structured_content={}, terminate=True, usage=spent), COUNT)
    assert (wrong.is_error, wrong.terminate, wrong.usage) == (True, False, spent)


@pytest.mark.parametrize("usage", [{"input_tokens": 5}, Usage(input_tokens=-1), Usage(output_tokens=1.5)], ids=repr)  # type: ignore[arg-type]
def test_usage_of_another_kind_is_an_error(usage) -> None:
    result = result_of(AgentToolResult("x", usage=usage))
    assert result.is_error
    assert result.usage is None
    assert "usage" in text_of(result)


def test_content_blocks_may_be_returned_as_they_are() -> None:
    blocks = [TextBlock("see"), png()]
    for value in (blocks, tuple(blocks), AgentToolResult(blocks)):
        assert result_of(value).blocks() == tuple(blocks)
    assert result_of(png()).blocks() == (png(),)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (5, "not int"),
        (b"x", "not bytes"),
        (["text"], "not str"),
        ([TextBlock(5)], "not TextBlock"),  # type: ignore[arg-type]
        ([ImageBlock("aGk=", "image/png")], "no image/png"),
        ([ImageBlock(png().data, "image/jpeg")], "no image/jpeg"),
        ([ImageBlock(png().data, "image/tiff")], "'image/tiff' cannot be sent"),
        ([ImageBlock(b"x", "image/png")], "base64 text, not bytes"),  # type: ignore[arg-type]
        ([ImageBlock("data:image/png;base64,x", "image/png")], "no base64"),
        ([ImageBlock(png().data[:40], "image/png")], "cut off"),
        ([png(9_000, 1)], "make it smaller"),
    ],
    ids=range(11),
)
def test_content_that_no_service_takes_is_an_error(content, reason) -> None:
    result = result_of(AgentToolResult(content))
    assert result.is_error
    assert reason in text_of(result)


@pytest.mark.parametrize(("field", "value"), [("is_error", "no"), ("terminate", "yes"), ("terminate", 1)])
def test_what_is_neither_true_nor_false_does_not_count_as_true(field, value) -> None:
    result = result_of(AgentToolResult("x", **{field: value}))
    assert (result.is_error, result.terminate) == (True, False)
    assert f"{field} of its result is neither True nor False" in str(result.content[0])


def test_a_usage_that_is_none_is_told_in_plain_words() -> None:
    wrong: Any = "a"
    result = result_of(AgentToolResult("x", usage=Usage(input_tokens=wrong)))
    assert result.is_error and "no Usage of whole numbers" in str(result.content[0])


def test_a_message_is_short_and_can_be_printed_whatever_it_is_about() -> None:
    with pytest.raises(InputValidationError) as caught:
        own(name="n" * 100_000)
    assert len(str(caught.value)) < 2_000 and "use 1 to 64" in str(caught.value)
    assert str(InputValidationError("a\ud800")) == "a\\ud800"
