"""Whatever comes in becomes a checked input."""

import pytest

from agent_nodes import AgentInput, AgentOutputPayload, InputValidationError, create_input_node, parse_input


def test_a_prompt_a_mapping_and_an_input_mean_the_same() -> None:
    assert parse_input("hi") == parse_input({"prompt": "hi"}) == parse_input(AgentInput(prompt="hi"))
    assert parse_input("hi").request_id is None
    assert parse_input({"prompt": "hi", "request_id": "r1", "reopen": True}) == AgentInput(
        prompt="hi", request_id="r1", reopen=True
    )


def test_the_default_prompt_fills_only_a_gap() -> None:
    assert parse_input(prompt="the daily one").prompt == "the daily one"
    assert parse_input({"request_id": "r1"}, prompt="the daily one") == AgentInput(
        prompt="the daily one", request_id="r1"
    )
    assert parse_input(AgentInput(request_id="r1"), prompt="the daily one").prompt == "the daily one"
    assert parse_input({"prompt": "mine"}, prompt="the daily one").prompt == "mine"
    assert parse_input("mine", prompt="the daily one").prompt == "mine"


@pytest.mark.parametrize(
    ("raw", "field"),
    [({}, "prompt"), ("  ", "prompt"), ({"promt": "x"}, "promt"), ({"prompt": "x", "request_id": ""}, "request_id")],
)
def test_a_mistake_is_named(raw: object, field: str) -> None:
    with pytest.raises(InputValidationError) as caught:
        parse_input(raw)  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.feature("A10")
def test_an_error_of_an_earlier_node_is_passed_on_unchanged() -> None:
    passed = parse_input({"err_code": 7, "err_message": "disk gone"}, prompt="the daily one")
    assert (passed.err_code, passed.err_message, passed.request_id) == (7, "disk gone", None)


@pytest.mark.feature("A10")
def test_what_an_agent_said_is_the_next_ones_prompt_and_its_failure_is_passed_on() -> None:
    assert parse_input(AgentOutputPayload(status="answered", text="a draft")) == AgentInput(prompt="a draft")
    failed = AgentOutputPayload(status="failed", text="half a dra", err_code=1, err_message="too long")
    assert parse_input(failed) == AgentInput(err_code=1, err_message="too long")


@pytest.mark.feature("P03")
def test_an_agent_that_was_skipped_gives_no_prompt() -> None:
    with pytest.raises(InputValidationError, match="skipped and said nothing") as caught:
        parse_input(AgentOutputPayload(status="skipped", err_message="process 7 has it"))
    assert caught.value.field == "status"


async def test_the_node_takes_one_value_or_fields() -> None:
    node = create_input_node(prompt="the daily one")
    assert await node("hi") == await node(prompt="hi") == await node.fn({"prompt": "hi"}) == AgentInput(prompt="hi")
    assert (await node()).prompt == "the daily one"
    with pytest.raises(InputValidationError, match="one value or fields"):
        await node("hi", prompt="hi")
