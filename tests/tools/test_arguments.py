"""Arguments are checked and named before a tool runs; results are bounded after it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from pydantic import BaseModel, Field

from agent_nodes.messages import TextBlock
from agent_nodes.tools.arguments import check_arguments
from agent_nodes.tools.base import AgentTool, AgentToolResult
from agent_nodes.tools.bounds import MAX_BYTES
from agent_nodes.tools.environment import ToolError
from agent_nodes.tools.policy import builtin_tools
from agent_nodes.tools.results import result_of
from tests.support import png

TOOLS = {tool.name: tool for tool in builtin_tools()}


async def nothing(arguments: Any, context: Any) -> None:
    return None


def texts(value: object) -> list[str]:
    return [block.text for block in result_of(value).blocks() if isinstance(block, TextBlock)]


def tool_with(parameters: Any) -> AgentTool:
    return AgentTool(name="own", description="", parameters=parameters, execute=nothing)


def refused(tool: AgentTool, arguments: Any, invalid: str | None = None) -> str:
    with pytest.raises(ToolError) as caught:
        check_arguments(tool, arguments, invalid)
    return str(caught.value)


@pytest.mark.parametrize(
    ("tool", "arguments", "line"),
    [
        ("read", {}, "path: missing"),
        ("read", {"path": 5}, 'path: 5 is not of type "string"'),
        ("read", {"path": "a", "offset": 0}, "offset: 0 is less than the minimum of 1"),
        ("read", {"path": "a", "offset": "x"}, 'offset: "x" is not of type "integer"'),
        ("read", {"path": "a", "file": "b"}, "file: unknown field"),
        ("edit", {"path": "a", "edits": [{"old_text": "x"}]}, "edits.0.new_text: missing"),
        ("edit", {"path": "a", "edits": []}, "edits: [] has less than 1 item"),
        ("bash", {"command": ""}, "command: "),
    ],
)
def test_a_wrong_field_is_named(tool, arguments, line) -> None:
    assert line in refused(TOOLS[tool], arguments).split("\n")[1]


def test_every_mistake_is_named_but_no_long_value_is_repeated() -> None:
    message = refused(TOOLS["write"], {"content": ["z" * 10_000], "mode": 1})
    assert "path: missing" in message
    assert "mode: unknown field" in message
    assert "content: " in message
    assert len(message) < 600


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"path": "a.txt", "content": "half a fi', "cut off"),
        ('{"path": ', "cut off"),
        ('{"path": "a.txt",, }', "not valid JSON"),
        ("[1]", "no JSON object but list"),
        ('{"account": 123456789012345678901}', "an integer of more than 64 bits, which can be sent as text"),
        ("", "not valid JSON"),
        ("[" * 200_000, "nested"),
    ],
    ids=range(7),
)
def test_text_that_is_no_json_object_is_refused_with_the_reason(text, reason) -> None:
    message = refused(TOOLS["write"], {}, text)
    assert "write" in message
    assert reason in message
    assert len(message) < 300


def test_mistakes_with_one_meaning_are_mended() -> None:
    edits = '[{"old_text": "a", "new_text": "b"}]'
    assert check_arguments(TOOLS["read"], {"path": "a", "offset": None, "limit": "5"}) == {"path": "a", "limit": 5}
    assert check_arguments(TOOLS["edit"], {"path": "a", "edits": edits})["edits"][0]["old_text"] == "a"
    assert check_arguments(TOOLS["grep"], {"pattern": "5", "literal": "true"}) == {"pattern": "5", "literal": True}
    assert "path: null is not" in refused(TOOLS["read"], {"path": None})
    assert "limit" in refused(TOOLS["read"], {"path": "a", "limit": "true"})


def test_right_arguments_come_back_equal_and_apart() -> None:
    arguments = {"path": "5", "content": "[1]"}
    checked = check_arguments(TOOLS["write"], arguments)
    assert checked == arguments
    assert checked is not arguments


def test_a_pydantic_model_gives_defaults_and_names_fields() -> None:
    class Place(BaseModel):
        name: str
        count: int = Field(default=2, ge=1)
        tags: list[str] = []
        day: datetime.date = datetime.date(2026, 1, 2)

    tool = tool_with(Place)
    checked = check_arguments(tool, {"name": "x", "count": "3"})
    assert checked == {"name": "x", "count": 3, "tags": [], "day": "2026-01-02"}
    message = refused(tool, {"count": 0, "tags": ["a", 5]})
    assert "name: " in message
    assert "count: " in message
    assert "tags.1: " in message


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "object", "properties": {"a": {"$ref": "https://example.invalid/a.json"}}}, "never fetched"),
        ({"type": "object", "properties": {"a": {"$ref": "file:///etc/hostname"}}}, "never fetched"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}, "none"),
        ({"type": "object", "properties": {"a": {"type": "strin"}}}, "strin"),
    ],
)
def test_a_schema_that_cannot_be_used_is_an_error_without_any_request(schema, reason) -> None:
    message = refused(tool_with(schema), {"a": 1})
    assert "own" in message
    assert reason in message


def test_references_inside_of_a_schema_work_and_two_schemas_are_not_mixed_up() -> None:
    inner = {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}
    text = {"type": "object", "properties": {"a": {"type": "string"}}}
    for _ in range(300):  # more than are kept
        assert check_arguments(tool_with(dict(inner)), {"a": 1}) == {"a": 1}
        assert check_arguments(tool_with(dict(text)), {"a": "x"}) == {"a": "x"}
        refused(tool_with(dict(text)), {"a": 1.5})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("a\ud800\x00b", "a\ufffd\ufffdb"),
        (None, "[no output]"),
        (" \n", "[no output]"),
        ({"ä": [1, 2.5, None, True]}, '{"ä": [1, 2.5, null, true]}'),
        (0, "0"),
        ([], "[]"),
        (AgentToolResult("x", is_error=True), "x"),
    ],
    ids=repr,
)
def test_a_result_is_text_for_the_model(value, text) -> None:
    result = result_of(value)
    assert result.content == (TextBlock(text),)
    assert result.is_error == (isinstance(value, AgentToolResult) and value.is_error)


def test_a_model_in_a_result_is_shown_as_json_and_other_objects_are_refused() -> None:
    class Point(BaseModel):
        x: int

    assert result_of([Point(x=1)]).content == (TextBlock('[{"x": 1}]'),)
    circle: list[Any] = []
    circle.append(circle)
    for value, kind in ((object(), "object"), ({"a": object()}, "dict"), (circle, "list"), (b"x", "bytes")):
        result = result_of(value)
        assert result.is_error
        assert f"The tool returned {kind}, which is neither text nor JSON" in texts(result)[0]


def test_a_long_result_is_cut_and_says_so() -> None:
    for text in ("x" * 200_000, "ä\n" * 100_000, "line\n" * 2_500):
        (shown,) = texts(text)
        assert len(shown.encode()) <= MAX_BYTES
        assert shown.count("\n") <= 2_001
        assert f"of {len(text.encode()):,} bytes" in shown
    assert texts("line\n" * 2_000) == ["line\n" * 2_000]


def test_the_limit_counts_for_all_blocks_and_pictures_stay() -> None:
    picture = png()
    blocks = (TextBlock("a" * 40_000), picture, TextBlock("b" * 40_000), TextBlock("c" * 40_000))
    result = result_of(AgentToolResult(blocks, is_error=True))
    assert result.is_error
    assert result.content[:2] == blocks[:2]
    assert sum(len(text.encode()) for text in texts(result)) <= MAX_BYTES + 1_000
    assert "cut" in texts(result)[1]


def test_a_bounded_result_is_not_cut_again() -> None:
    once = result_of("line\n" * 5_000)
    assert result_of(once) == once


def test_an_integer_of_thousands_of_digits_is_refused_in_words():
    with pytest.raises(ToolError):
        check_arguments(TOOLS["read"], {}, '{"path": ' + "9" * 5000 + "}")
