"""What hosts and people read of conversations: lists, titles, and a text to keep."""

import json
from typing import Any

import pytest

import conversation
from agent_nodes import AgentTool, InputValidationError
from conversation import (
    RunContext,
    define_agent_conversation_executor,
    export_conversation,
    list_conversations,
    read_conversation,
    remove_conversation,
    set_title,
)
from tests.fakes import FakeServer, call, error, reply, text

Options = dict[str, Any]


async def weigh(arguments: dict[str, Any], _: object) -> str:
    if arguments.get("what") == "nothing":
        raise ValueError("nothing on the scale")
    return "3 kg"


WEIGH = AgentTool(name="weigh", description="Weighs.", parameters={"type": "object", "properties": {}}, execute=weigh)


@pytest.fixture
async def talked(fake: FakeServer, model: Options) -> None:
    """Two runs, the second of which fails."""
    fake.script(
        reply(
            "Let me weigh it.", call("weigh", {"what": "a `cat`"}, id="c1"), call("weigh", {"what": "nothing"}, id="c2")
        ),
        text("It is **3 kg**."),
        error(400, "no money"),
    )
    executor = define_agent_conversation_executor(name="pi", extra_tools=[WEIGH], **model)
    await executor.run({"message": "How heavy is it?\n\n- the cat"}, RunContext("r-1", "c"))
    await executor.run({"message": "And now?"}, RunContext("r-2", "c"))


def times_left_out(text: str) -> str:
    import re

    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "WHEN", text)


async def test_a_conversation_is_a_page_of_markdown(talked: None) -> None:
    set_title("pi", "c", "The cat")
    shown, _, failure = times_left_out(export_conversation("pi", "c")).rpartition("\n\n")
    assert shown == (
        "# The cat\n\n"
        "Project pi, conversation c.\n\n"
        "## 1. WHEN\n\n"
        "> How heavy is it?\n>\n> - the cat\n\n"
        "Let me weigh it.\n\n"
        '- called weigh with `` {"what": "a `cat`"} ``\n\n'
        '- called weigh with `{"what": "nothing"}`, which failed\n\n'
        "It is **3 kg**.\n\n"
        "## 2. WHEN\n\n"
        "> And now?"
    )
    assert failure.startswith("*failed: ") and "no money" in failure and failure.endswith("*\n")


async def test_a_conversation_is_a_json_document_with_all_there_is(talked: None) -> None:
    document = json.loads(export_conversation("pi", "c", "json"))
    found = read_conversation("pi", "c")
    assert found is not None
    assert (document["project"], document["conversation_id"], document["title"]) == ("pi", "c", "How heavy is it?")
    assert [(message["run_id"], message["role"]) for message in document["messages"]] == [
        ("r-1", "user"),
        ("r-1", "assistant"),
        ("r-2", "user"),
    ]
    assert [run["items"] for run in document["runs"]] == [list(run.items) for run in found.runs]
    assert document["runs"][0]["usage"]["calls"] == 2


async def test_conversations_are_listed_named_and_removed(talked: None) -> None:
    assert [(one.project, one.conversation_id, one.title, one.runs) for one in list_conversations("pi")] == [
        ("pi", "c", "How heavy is it?", 2)
    ]
    assert list_conversations("other") == []
    assert remove_conversation("pi", "c")
    assert read_conversation("pi", "c") is None


@pytest.mark.parametrize(
    ("names", "field", "said"),
    [
        (("pi", "nobody"), "conversation_id", "the project 'pi' has no conversation 'nobody'"),
        (("pi", "c", "html"), "fmt", "'html' is unknown; there are 'markdown' and 'json'"),
    ],
)
def test_what_cannot_be_exported_is_said(names: Any, field: str, said: str) -> None:
    with pytest.raises(InputValidationError, match=said) as caught:
        export_conversation(*names)
    assert caught.value.field == field


def test_every_public_name_is_there() -> None:
    for name in conversation.__all__:
        assert getattr(conversation, name) is not None
    assert sorted(conversation.__all__) == conversation.__all__ == sorted(conversation._HOME)
