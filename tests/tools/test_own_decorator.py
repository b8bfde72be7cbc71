"""``@agent_tool``: what a function says about itself becomes a tool, and it stays that function."""

from __future__ import annotations

import asyncio
import datetime
import enum
import functools
import inspect
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Optional, TypeVar

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr
from typing_extensions import TypedDict

from agent_nodes import AgentTool, AgentToolResult, InputValidationError, TextBlock, ToolContext, agent_tool
from agent_nodes._aio import AbortSignal
from agent_nodes.tools.arguments import check_arguments
from agent_nodes.tools.environment import ToolError
from agent_nodes.tools.policy import resolve
from agent_nodes.tools.results import result_of
from tests.support import png

if TYPE_CHECKING:
    from fractions import Fraction

pytestmark = pytest.mark.feature("D06")

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Page(BaseModel, Generic[T]):
    items: list[T]


class Weather(TypedDict):
    city: str
    degrees: float


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    day: datetime.date
    sides: tuple[int, int]
    sender: str = Field(alias="from")
    secret: SecretStr = SecretStr("")


def context() -> ToolContext:
    return ToolContext("call-1", Path("/w"), None, AbortSignal(), lambda text: None)


async def called(tool: AgentTool, **arguments: Any) -> AgentToolResult:
    """As the engine calls it: checked, stored, run, its result made one."""
    checked = check_arguments(tool, arguments)
    value = tool.execute(checked, context())
    return result_of(await value if inspect.isawaitable(value) else value, tool.output_schema)


def text_of(result: AgentToolResult) -> str:
    return "".join(block.text for block in result.blocks() if isinstance(block, TextBlock))


def field_of(tool: AgentTool, name: str) -> dict[str, Any]:
    return tool.schema()["properties"][name]


# -- name, description, schema -----------------------------------------------------------------------------------------


@agent_tool
def greet(name: str, times: int = 1) -> str:
    """Say hello.

    Politely.

    Args:
        name: Whom to greet,
            by first name.
        times (int, optional): How often.

    Returns:
        str: the greeting
    """
    return " ".join([f"Hello {name}."] * times)


def test_a_function_is_a_tool_and_stays_that_function() -> None:
    assert isinstance(greet, AgentTool)
    assert greet("Ann", times=2) == "Hello Ann. Hello Ann."
    assert str(inspect.signature(greet)) == "(name: 'str', times: 'int' = 1) -> 'str'"
    assert (greet.name, greet.replay, greet.execution) == ("greet", "never", "parallel")
    assert greet.description == "Say hello.\n\nPolitely."
    assert greet.output_schema is None
    assert greet.parameters == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Whom to greet, by first name."},
            "times": {"type": "integer", "default": 1, "description": "How often."},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    assert resolve("workspace", (), [greet]) == (greet,)


async def test_options_replace_what_the_function_says() -> None:
    @agent_tool(
        name="hi",
        description="Greet.",
        replay="safe",
        execution="sequential",
        prepare_arguments=lambda arguments: {"name": arguments["who"]},
        output_schema={"type": "object"},
    )
    async def other(name: str) -> dict[str, str]:
        """Say hello."""
        return {"said": name}

    assert (other.name, other.description, other.replay, other.execution) == ("hi", "Greet.", "safe", "sequential")
    assert await other("Ann") == {"said": "Ann"}
    assert (await called(other, who="Bob")).structured_content == {"said": "Bob"}


def google(a: int, b: str = "") -> None:
    """Do it.

    Example:
        >>> google(1)

    Args:
        a: first: one
        b (str): second

    Raises:
        ValueError: never
    """


def numpy(a: int, b: str = "") -> None:
    """Do it.

    Parameters
    ----------
    a : int
        first: one
    b : str, optional
        second

    Returns
    -------
    None
    """


def sphinx(a: int, b: str = "") -> None:
    """Do it.

    :param a: first: one
    :param str b: second
    :returns: nothing
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_docstrings_of_three_styles_describe_the_parameters(function) -> None:
    tool = agent_tool(function)
    assert tool.description == "Do it."
    assert [field_of(tool, name)["description"] for name in "ab"] == ["first: one", "second"]


def test_what_the_annotation_says_goes_before_the_docstring() -> None:
    @agent_tool
    def told(
        a: Annotated[int, Field(description="from field", ge=1)],
        b: Annotated[int, "from text"],
        c: int = Field(default=3, description="from default"),
    ) -> str:
        """Tell: all of it.

        Args:
            a: from docstring
            b: from docstring
            c: from docstring
        """
        return f"{a} {b} {c}"

    assert [field_of(told, name)["description"] for name in "abc"] == ["from field", "from text", "from default"]
    assert field_of(told, "a")["minimum"] == 1
    assert told.schema()["required"] == ["a", "b"]
    assert told.description == "Tell: all of it."


def test_a_function_without_a_docstring_has_no_description() -> None:
    @agent_tool
    def quiet() -> None: ...

    assert quiet.description == ""
    assert quiet.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


# -- typed values ------------------------------------------------------------------------------------------------------


async def test_arguments_arrive_as_values_of_their_types() -> None:
    got: dict[str, Any] = {}

    class Local(BaseModel):
        z: int

    @agent_tool
    def many(  # noqa: PLR0917
        json: int,
        model_config: Node,
        point: Point,
        colours: list[Colour],
        when: datetime.datetime,
        page: Page[Point],
        _hidden: Decimal,
        letter: Literal["a", "b"] = "a",
        local: Optional[Local] = None,  # noqa: UP045
        path: Path = Path("here"),
        counts: dict[str, int] | None = None,
        tags: Annotated[list[str], Field(max_length=2)] = [],  # noqa: B006
    ) -> None:
        got.update(locals())

    node = {"name": "a", "children": [{"name": "b"}]}
    page = {"items": [{"x": 1}, {"x": 2, "y": 3}]}
    result = await called(
        many,
        json=1,
        model_config=node,
        point={"x": 5},
        colours=["red", "blue"],
        when="2026-01-02T03:04:05Z",
        page=page,
        _hidden="1.10",
        local={"z": 1},
        counts={"a": 1},
    )
    assert not result.is_error, text_of(result)
    got.pop("got")
    assert got == {
        "json": 1,
        "model_config": Node(name="a", children=[Node(name="b")]),
        "point": Point(5),
        "colours": [Colour.RED, Colour.BLUE],
        "when": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "page": Page[Point](items=[Point(1), Point(2, 3)]),
        "_hidden": Decimal("1.10"),
        "letter": "a",
        "local": Local(z=1),
        "path": Path("here"),
        "counts": {"a": 1},
        "tags": [],
    }


async def test_what_is_stored_is_what_was_checked_so_that_nothing_is_lost_on_the_way() -> None:
    got: list[Strict] = []

    @agent_tool
    def keep(item: Strict) -> None:
        got.append(item)

    sent = {"item": {"day": "2026-01-02", "sides": [1, 2], "from": "Ann", "secret": "s3"}}
    assert check_arguments(keep, sent) == sent
    assert not (await called(keep, **sent)).is_error
    assert got[0] == Strict.model_validate({**sent["item"], "day": datetime.date(2026, 1, 2), "sides": (1, 2)})


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({}, "point: missing"),
        ({"point": {"x": "a"}}, "point.x: Input should be a valid integer"),
        ({"point": {"x": 1}, "pint": 1}, "pint: unknown field"),
        ({"point": {"x": 1}, "even": 3}, "even: Value error, 3 is odd"),
    ],
)
def test_a_wrong_argument_is_named_before_the_call(arguments, line) -> None:
    def check(value: int) -> int:
        if value % 2:
            raise ValueError(f"{value} is odd")
        return value

    @agent_tool
    def move(point: Point, even: Annotated[int, AfterValidator(check)] = 0) -> None: ...

    with pytest.raises(ToolError) as caught:
        check_arguments(move, arguments)
    assert str(caught.value).split("\n")[0] == "Arguments of move refused:"
    assert line in str(caught.value)


def test_arguments_with_one_meaning_are_mended() -> None:
    @agent_tool
    def move(points: list[Point], fast: bool = False, limit: int = 5) -> None: ...

    sent = {"points": '[{"x": "1", "y": null}]', "limit": None}
    assert check_arguments(move, sent) == {"points": [{"x": 1}]}


async def test_stored_arguments_that_no_longer_fit_are_an_error_in_words() -> None:
    @agent_tool
    def old(n: int) -> None: ...

    @agent_tool
    def new(n: datetime.date) -> None: ...

    stored = check_arguments(old, {"n": 12})
    with pytest.raises(ToolError, match="do not fit any more:\nn: "):
        new.execute({**stored, "n": "twelve"}, context())


def test_the_context_is_given_and_is_not_in_the_schema() -> None:
    @agent_tool
    def where(context: ToolContext, name: str, again: ToolContext | None = None) -> str:
        assert again is context
        return f"{context.workdir}/{name}"

    assert list(where.schema()["properties"]) == ["name"]
    assert where.execute({"name": "a"}, context()) == "/w/a"
    with pytest.raises(ToolError, match="context: unknown field"):
        check_arguments(where, {"name": "a", "context": {}})


# -- kinds of functions ------------------------------------------------------------------------------------------------


class Shop:
    """A shop."""

    def __init__(self) -> None:
        self.sold: list[str] = []

    def sell(self, item: str) -> str:
        """Sell one item."""
        self.sold.append(item)
        return f"sold {item}"

    @agent_tool
    @staticmethod
    def rate(amount: float) -> float:
        """What it costs."""
        return amount * 2

    async def __call__(self, item: str, count: int = 1) -> str:
        return await asyncio.sleep(0, f"{count} {item}")


async def test_methods_objects_and_partials_are_functions_too() -> None:
    shop = Shop()
    sell = agent_tool(shop.sell)
    assert (sell.name, sell.description, list(sell.schema()["properties"])) == ("sell", "Sell one item.", ["item"])
    assert text_of(await called(sell, item="tea")) == "sold tea"
    assert shop.sold == ["tea"]
    assert Shop.rate(2.0) == 4.0
    assert text_of(await called(Shop.rate, amount=1.5)) == "3.0"
    thing = agent_tool(shop)
    assert (thing.name, thing.description) == ("Shop", "A shop.")
    assert text_of(await called(thing, item="tea")) == "1 tea"
    two = agent_tool(name="two")(functools.partial(shop, count=2))
    assert list(two.schema()["properties"]) == ["item"]
    assert text_of(await called(two, item="tea")) == "2 tea"
    bound = agent_tool(functools.partial(shop.sell, "milk"))
    assert (bound.name, list(bound.schema()["properties"])) == ("sell", [])
    assert text_of(await called(bound)) == "sold milk"


async def test_a_plain_function_that_gives_an_awaitable_is_awaited() -> None:
    async def later(n: int) -> Point:
        return Point(n)

    @agent_tool
    def soon(n: int) -> Any:
        return later(n)

    assert text_of(await called(soon, n=3)) == '{"x": 3, "y": 0}'


def positional(a: int, /) -> None: ...
def several(*names: str) -> None: ...
def anything(**names: str) -> None: ...
def bare(a: int, b=5) -> None: ...
def unknown(a: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def unloaded(a: Fraction) -> None: ...
def unfillable(a: int, b: asyncio.Event) -> None: ...
def yielding(a: int) -> Any:
    yield a


async def yielding_later(a: int) -> Any:
    yield a


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (positional, "agent_tool positional: parameter a is positional-only"),
        (several, "parameter names takes any number of arguments; declare a list"),
        (anything, "parameter names takes any arguments; declare each"),
        (bare, "agent_tool bare: parameter b has no annotation"),
        (Shop.sell, "parameter self has no annotation; hand over a bound method"),
        (unknown, "'NoSuchType' is not defined"),
        (unloaded, "'Fraction' is not defined); what it names must be defined before the function, and not only for"),
        (unfillable, "agent_tool unfillable: parameter b is of a type that no model can fill: "),
        (yielding, "agent_tool yielding: yields"),
        (yielding_later, "agent_tool yielding_later: yields"),
        (Shop, "agent_tool Shop: is no function"),
        (greet, "agent_tool greet: is a tool already"),
        (5, "agent_tool int: is no function"),
        (lambda: 5, "tool name '<lambda>'"),
    ],
    ids=range(14),
)
def test_a_function_that_cannot_be_a_tool_is_refused_by_name(function, said) -> None:
    with pytest.raises(InputValidationError) as caught:
        agent_tool(function)
    assert said in str(caught.value)


# -- what comes back ---------------------------------------------------------------------------------------------------


def weather(city: str) -> Weather:
    return {"city": city, "degrees": 1}


def point(city: str) -> Point:
    return Point(1)


def page(city: str) -> Annotated[Page[Point], "a page"]:
    return Page[Point](items=[Point(1)])


@pytest.mark.parametrize(
    ("function", "content"),
    [
        (weather, {"city": "x", "degrees": 1.0}),
        (point, {"x": 1, "y": 0}),
        (page, {"items": [{"x": 1, "y": 0}]}),
    ],
)
@pytest.mark.feature("D04")
async def test_a_record_that_is_returned_is_structured_content(function, content) -> None:
    result = await called(agent_tool(function), city="x")
    assert result.structured_content == content
    assert not result.is_error


@pytest.mark.feature("D04")
async def test_a_record_of_another_shape_is_an_error_that_names_the_field() -> None:
    @agent_tool
    async def wrong(city: str) -> Weather:
        return {"city": city, "degrees": "warm"}  # type: ignore[typeddict-item]

    result = await called(wrong, city="x")
    assert result.is_error
    assert "\ndegrees: Input should be a valid number" in text_of(result)


async def test_other_values_are_text_made_of_their_json() -> None:
    async def given(value: Any) -> AgentToolResult:
        @agent_tool
        def give() -> Any:
            return value

        return await called(give)

    for value, text in (
        ("plain", "plain"),
        (None, "[no output]"),
        (5, "5"),
        ([Point(1)], '[{"x": 1, "y": 0}]'),
        ({"when": datetime.date(2026, 1, 2), "colour": Colour.RED}, '{"when": "2026-01-02", "colour": "red"}'),
        (AgentToolResult("own", is_error=True), "own"),
    ):
        result = await given(value)
        assert (text_of(result), result.structured_content) == (text, None)
    assert (await given([TextBlock("a"), png()])).blocks() == (TextBlock("a"), png())


async def test_a_returned_object_without_a_json_form_raises_in_the_call() -> None:
    @agent_tool
    def give() -> Any:
        return object()

    with pytest.raises(Exception, match="object"):
        await called(give)


def test_a_typed_dict_that_cannot_be_read_is_refused_where_it_is_returned() -> None:
    def odd() -> Page[asyncio.Event]: ...  # type: ignore[type-var]

    with pytest.raises(InputValidationError, match="agent_tool odd"):
        agent_tool(odd)


@pytest.mark.parametrize("name", [5, "", "a b"])
def test_a_name_that_is_none_is_blamed_itself(name) -> None:
    def greet(x: int) -> str:
        return ""

    with pytest.raises(InputValidationError, match=r"^tool name .*: use 1 to 64") as caught:
        agent_tool(name=name)(greet)
    assert caught.value.field == "name"


def test_an_annotation_that_is_no_type_is_named() -> None:
    def greet(x) -> str:
        return ""

    greet.__annotations__["x"] = object()
    with pytest.raises(InputValidationError, match="greet: parameter x is of a type that no model can fill"):
        agent_tool(greet)
