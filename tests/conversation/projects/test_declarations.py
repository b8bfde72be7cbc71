"""Every wrong declaration fails when it is made, with the path of the field that is wrong."""

from typing import Any

import pytest
from pydantic import ValidationError

from agent_nodes import AgentTool, InputValidationError, create_agent_node, create_input_node, create_output_node
from conversation import (
    ConversationDeclaration,
    ConversationExecutorDefinition,
    ConversationParamDeclaration,
    TokenUsageDeclaration,
    ToolDeclaration,
    Workflow,
    create_agent_conversation_project,
    create_agent_project_input,
    define_agent_conversation_executor,
    define_executor,
)
from conversation.declarations import ParamChoice, Switch
from conversation.workflow import WorkflowNode

WORKFLOW = create_agent_conversation_project(provider="demo")


def define(**blocks: Any) -> ConversationExecutorDefinition:
    given = {"workflow": WORKFLOW, "create_input": create_agent_project_input, **blocks}
    return define_executor(**given)


PARAM = {"name": "tone", "flags": ["--tone"]}


@pytest.mark.feature("N01")
@pytest.mark.parametrize(
    ("blocks", "field", "said"),
    [
        ({"project_type": "chat"}, "project_type", "'conversation'"),
        ({"workflow": None}, "workflow", "create_agent_conversation_project"),
        ({"name": 3}, "name", "must be a text"),
        ({"create_input": "no function"}, "create_input", "a function of (args, context)"),
        ({"create_input": lambda: {}}, "create_input", "a function of (args, context)"),
        ({"resolve_params": lambda params: params}, "resolve_params", "a function of (params, context)"),
        ({"conversation": []}, "conversation", "a dict of its fields"),
        ({"conversation": {"colour": 1}}, "conversation.colour", "known are input_queue"),
        ({"conversation": {"inputQueue": {}}}, "conversation.inputQueue", "did you mean input_queue?"),
        ({"conversation": {"recovery": True}}, "conversation.recovery", "instance of Switch"),
        ({"conversation": {"recovery": {"enabled": 1}}}, "conversation.recovery.enabled", "boolean"),
        ({"conversation": {"durable": {"on": True}}}, "conversation.durable.on", "known are enabled"),
        ({"conversation": {"openai": {"outputItemId": "x"}}}, "conversation.openai.outputItemId", "output_item_id"),
        ({"conversation": {"openai": {"output_item_id": " "}}}, "conversation.openai.output_item_id", "empty"),
        ({"conversation": {"openai": {"output_item_id": "x"}}}, "conversation.openai.output_item_id", "'agent-answer'"),
        ({"conversation": {"collapse_intermediate": "yes"}}, "conversation.collapse_intermediate", "boolean"),
        ({"token_usage": {"shown": True}}, "token_usage.shown", "known are enabled, display"),
        ({"token_usage": 1}, "token_usage", "TokenUsageDeclaration"),
        ({"tools": "read"}, "tools", "must be a list"),
        ({"tools": ["read"]}, "tools.0", "a dict of its fields"),
        ({"tools": [{"label": "x"}]}, "tools.0.name", "missing"),
        ({"tools": [{"name": "read it"}]}, "tools.0.name", "A-Z a-z 0-9 _ -"),
        ({"tools": [{"name": "a" * 65}]}, "tools.0.name", "1 to 64"),
        ({"tools": [{"name": "read"}, {"name": "read"}]}, "tools.1.name", "already, at tools.0"),
        ({"tools": [{"name": "raed"}]}, "tools.0.name", "did you mean read?"),
        ({"tools": [{"name": "read", "autoApprove": False}]}, "tools.0.autoApprove", "did you mean auto_approve?"),
        ({"params": {"name": "x"}}, "params", "must be a list"),
        ({"params": [{"name": "Tone"}]}, "params.0.name", "small letters"),
        ({"params": [{"name": "message"}]}, "params.0.name", "always there"),
        ({"params": [{"name": "session"}]}, "params.0.name", "take another name"),
        ({"params": [{"name": "from"}]}, "params.0.name", "take another name"),
        ({"params": [PARAM, {"name": "tone"}]}, "params.1.name", "already, at params.0"),
        ({"params": [PARAM, {"name": "b", "flags": ["-b", "--tone"]}]}, "params.1.flags.1", "params.0 already"),
        ({"params": [{"name": "a", "flags": ["--a", "--a"]}]}, "params.0.flags.1", "params.0 already"),
        ({"params": [{"name": "a", "flags": ["a"]}]}, "params.0.flags.0", "-x or --name"),
        ({"params": [{"name": "a", "flags": ["-ab"]}]}, "params.0.flags.0", "-x or --name"),
        ({"params": [{"name": "a", "flags": ["--json"]}]}, "params.0.flags.0", "a flag of the command itself"),
        ({"params": [{"name": "a", "type": "text"}]}, "params.0.type", "'string'"),
        ({"params": [{"name": "a", "group": "Other"}]}, "params.0.group", "'Quick'"),
        ({"params": [{"name": "a", "choices": [1]}]}, "params.0.choices", "1 is no value of type string"),
        ({"params": [{"name": "a", "choices": ["x", "x"]}]}, "params.0.choices", "'x' is there twice"),
        ({"params": [{"name": "a", "choices": [{"value": "x", "lable": ""}]}]}, "params.0.choices.0.lable", "label"),
        ({"params": [{"name": "a", "choices": [["x"]]}]}, "params.0.choices.0", "ParamChoice"),
        ({"params": [{"name": "a", "default": 1}]}, "params.0.default", "1 is no value of type string"),
        ({"params": [{"name": "a", "type": "integer", "default": True}]}, "params.0.default", "of type integer"),
        ({"params": [{"name": "a", "choices": ["x"], "default": "y"}]}, "params.0.default", "must be one of 'x'"),
        ({"params": [{"name": "a", "default": []}]}, "params.0.default", "a text, a number"),
    ],
)
def test_a_wrong_declaration_is_named_by_its_path(blocks: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(InputValidationError) as caught:
        define(**blocks)
    assert caught.value.field == field
    assert caught.value.message.startswith(f"{field}: ")
    assert said in caught.value.message


@pytest.mark.feature("N01")
def test_blocks_may_be_dicts_or_declarations() -> None:
    dicts = define(
        conversation={"recovery": {"enabled": True}},
        token_usage={"display": False},
        tools=[{"name": "read", "auto_approve": False}],
        params=[{"name": "n", "type": "integer", "choices": [1, 2], "default": 2}],
    )
    objects = define(
        conversation=ConversationDeclaration(recovery=Switch()),
        token_usage=TokenUsageDeclaration(display=False),
        tools=(ToolDeclaration(name="read", auto_approve=False),),
        params=[
            ConversationParamDeclaration(
                name="n", type="integer", choices=(ParamChoice(value=1), ParamChoice(value=2)), default=2
            )
        ],
    )
    for block in ("conversation", "token_usage", "tools", "params"):
        assert getattr(dicts, block) == getattr(objects, block)


def test_a_definition_does_not_change_any_more() -> None:
    made = define(tools=[{"name": "read"}])
    with pytest.raises(AttributeError):
        made.name = "other"  # type: ignore[misc]
    assert made.tools is not None
    with pytest.raises(ValidationError):
        made.tools[0].enabled = False
    assert isinstance(made.tools, tuple) and isinstance(made.params, tuple)


def test_what_is_left_out_has_its_default() -> None:
    made = define()
    assert (made.project_type, made.name, made.project_name) == ("conversation", "agent", "agent")
    assert made.conversation == ConversationDeclaration()
    assert (made.tools, made.params) == (None, ())
    assert define(name="pi", project_name="Pi").project_name == "Pi"


@pytest.mark.feature("N02")
def test_the_answer_has_one_id_in_both_places() -> None:
    workflow = create_agent_conversation_project(provider="demo", output_item_id="pi-answer")
    with pytest.raises(InputValidationError, match=r"'agent-answer'.*'pi-answer'"):
        define(workflow=workflow)
    made = define(workflow=workflow, conversation={"openai": {"output_item_id": "pi-answer"}})
    assert made.workflow.output_item_id == made.conversation.openai.output_item_id == "pi-answer"
    by_hand = Workflow(
        "w",
        (
            WorkflowNode(create_input_node("i")),
            WorkflowNode(create_agent_node("a", provider="demo"), ("i",)),
            WorkflowNode(create_output_node("o", output_item_id="pi-answer"), ("a",)),
        ),
        "i",
        "o",
    )
    assert by_hand.output_item_id == "pi-answer"


async def answer(arguments: dict[str, Any], _: object) -> str:
    return "42"


OWN = AgentTool(name="oracle", description="Knows.", parameters={"type": "object", "properties": {}}, execute=answer)


@pytest.mark.feature("N02")
def test_the_helper_generates_every_part() -> None:
    made = define_agent_conversation_executor(
        name="pi", project_name="Pi", output_item_id="pi-answer", provider="demo", extra_tools=[OWN]
    )
    assert (made.project_type, made.name, made.project_name) == ("conversation", "pi", "Pi")
    block = made.conversation
    assert block.input_queue.enabled and block.collapse_intermediate
    assert block.recovery == Switch(enabled=True)
    assert block.durable is None  # as nothing declares a durable session
    assert block.openai.output_item_id == made.workflow.output_item_id == "pi-answer"
    assert made.token_usage == TokenUsageDeclaration(enabled=True, display=True)
    assert [tool.name for tool in made.tools or ()] == [
        *("read", "write", "edit", "bash", "grep", "find", "ls"),
        "oracle",
    ]
    assert [param.name for param in made.params] == [
        *("workdir", "provider", "model", "effort", "context_window", "model_attributes", "permission_policy"),
    ]
    groups = {param.name: param.group for param in made.params}
    assert {name for name, group in groups.items() if group == "Quick"} == {"model", "effort"}
    assert [node.name for node in made.workflow.nodes] == ["pi-input", "pi-agent", "pi-output"]
    folded = define_agent_conversation_executor(provider="demo", collapse_intermediate=False)
    assert folded.conversation.collapse_intermediate is False


@pytest.mark.feature("N02")
def test_the_options_are_the_defaults_of_the_parameters(tmp_path: Any) -> None:
    made = define_agent_conversation_executor(
        provider="demo",
        model="demo-slow",
        effort="high",
        workdir=tmp_path,
        context_window=4000,
        model_attributes={"reasoning": True},
        permission_policy="read-only",
    )
    assert {param.name: param.default for param in made.params} == {
        "workdir": str(tmp_path),
        "provider": "demo",
        "model": "demo-slow",
        "effort": "high",
        "context_window": 4000,
        "model_attributes": '{"reasoning": true}',
        "permission_policy": "read-only",
    }


def test_own_parameters_take_the_place_of_the_table_and_own_definitions_that_of_the_tools() -> None:
    made = define_agent_conversation_executor(
        provider="demo", params=[PARAM], tool_definitions=[{"name": "read"}, {"name": "bash", "enabled": False}]
    )
    assert [param.name for param in made.params] == ["tone"]
    assert [(tool.name, tool.enabled) for tool in made.tools or ()] == [("read", True), ("bash", False)]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"provider": 3}, "provider"),
        ({"provider": "demo", "databse_path": "x"}, "databse_path"),
        ({"provider": "demo", "database_path": "x"}, "database_path"),
        ({"provider": "demo", "output_item_id": ""}, "output_item_id"),
        ({"provider": "demo", "name": ""}, "name"),
        ({"provider": "demo", "effort": "extreme"}, "effort"),
    ],
)
def test_a_wrong_option_of_the_agent_is_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InputValidationError) as caught:
        define_agent_conversation_executor(**options)
    assert field in (caught.value.field, caught.value.message.split(":")[1].strip())
