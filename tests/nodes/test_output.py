"""The rows of a turn, read from the session that holds it."""

from pathlib import Path
from typing import Any

import pytest

from agent_nodes import (
    AgentHost,
    AgentOutputPayload,
    AgentTool,
    InputValidationError,
    StorageError,
    create_agent_node,
    create_output_node,
    write_output,
)
from agent_nodes.store.conversations import FILE, read_conversation
from agent_nodes.store.locate import session_file
from tests.fakes import FakeServer, call, drop_after, error, reply, text, thinking

Options = dict[str, Any]


def short(items: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    return [(item["part_type"], item["status"], item["content"]) for item in items]


async def weigh(arguments: dict[str, Any], _: object) -> str:
    if arguments["what"] == "nothing":
        raise ValueError("nothing on the scale")
    return "3 kg"


WEIGH = AgentTool(
    name="weigh",
    description="Weigh a thing.",
    parameters={"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
    execute=weigh,
)


async def test_text_stands_where_it_was_spoken_between_reasoning_and_calls(fake: FakeServer, model: Options) -> None:
    fake.script(
        reply(thinking("I need a scale."), "Let me ", "weigh it.", call("weigh", {"what": "the cat"}, id="c1")),
        reply("And once more.", call("weigh", {"what": "nothing"}, id="c2")),
        text("It is 3 kg."),
    )
    payload = await create_agent_node(extra_tools=[WEIGH], context_window=1000, **model)("How heavy is the cat?")
    assert payload.items == []
    written = await create_output_node()(payload)
    assert await write_output(payload) == written
    rows = short(written.items)
    calls = [row[2].pop("tool_call_id") for row in rows if row[0] == "tool"]
    assert len(set(calls)) == 2
    assert rows == [
        ("reasoning", "completed", {"text": "I need a scale."}),
        ("text", "completed", {"text": "Let me weigh it."}),
        (
            "tool",
            "completed",
            {"name": "weigh", "arguments": {"what": "the cat"}, "result": "3 kg", "is_error": False},
        ),
        ("text", "completed", {"text": "And once more."}),
        (
            "tool",
            "failed",
            {"name": "weigh", "arguments": {"what": "nothing"}, "result": "nothing on the scale", "is_error": True},
        ),
        ("text", "completed", {"text": "It is 3 kg."}),
        ("context", "completed", {"used": 15, "total": 1000}),
    ]
    assert [item["id"] for item in written.items] == [f"{payload.turn_id}:{n}" for n in (1, 2, 3, 4, 5, 6, 0)]
    assert [item["type"] for item in written.items] == ["message" if row[0] == "text" else "activity" for row in rows]
    texts = [row[2]["text"] for row in rows if row[0] == "text"]
    assert "\n\n".join(texts) == written.text
    assert (written.text, written.status, written.usage) == (payload.text, payload.status, payload.usage)


async def test_a_retry_is_a_row_with_its_kind(fake: FakeServer, model: Options) -> None:
    fake.script(drop_after("The total "), text("is 41."))
    payload = await write_output(await create_agent_node(**model)("Sum it up."))
    [before, retry, after] = short(payload.items)
    assert (before, after) == (
        ("text", "completed", {"text": "The total "}),
        ("text", "completed", {"text": "is 41."}),
    )
    assert retry[:2] == ("retry", "completed")
    assert retry[2]["kind"] == "dropped"
    assert retry[2]["attempt"] == 1
    assert payload.text == "The total is 41."


async def test_rows_of_a_turn_that_failed_keep_what_it_said(fake: FakeServer, model: Options) -> None:
    fake.script(drop_after("The total "), error(400, "too many bytes"))
    payload = await write_output(await create_agent_node(**model)("Sum it up."))
    assert (payload.status, payload.text) == ("failed", "The total ")
    rows = short(payload.items)
    assert rows[0] == ("text", "incomplete", {"text": "The total "})
    assert [row[0] for row in rows] == ["text", "retry"]


async def test_a_failed_hook_still_has_its_rows(fake: FakeServer, model: Options) -> None:
    fake.script(reply("Weighing.", call("weigh", {"what": "the cat"}, id="c1")))

    def on_event(event: Any) -> None:
        if event.type == "tool" and event.phase == "end":
            raise ValueError("the screen is gone")

    node = create_agent_node(extra_tools=[WEIGH], host=AgentHost(on_event=on_event), **model)
    payload = await write_output(await node("How heavy is the cat?"))
    assert payload.reason == "runtime_failure"
    assert [row[0] for row in short(payload.items)][:2] == ["text", "tool"]


async def test_rows_are_read_beside_a_live_owner(fake: FakeServer, model: Options, home: Path) -> None:
    from agent_nodes import create_agent

    fake.script(text("hello"))
    payload = await create_agent_node(conversation_id="c", **model)("hi")
    async with create_agent(database_path=session_file("default", "c", "agent", home), **model):
        written = await write_output(payload)
    assert short(written.items) == [("text", "completed", {"text": "hello"})]


@pytest.mark.feature("N04")
async def test_the_nodes_alone_write_the_history_too_unless_told_otherwise(
    fake: FakeServer, model: Options, home: Path
) -> None:
    fake.script(text("one"), text("two"))
    node = create_agent_node(project="shop", conversation_id="c", **model)
    await write_output(await node("first"), history=False)
    assert not (home / FILE).exists()
    await create_output_node()(await node("second"))
    found = read_conversation("shop", "c")
    assert found is not None
    assert [(message.role, message.text) for message in found.messages] == [
        ("user", "first"),
        ("assistant", "one"),
        ("user", "second"),
        ("assistant", "two"),
    ]


@pytest.mark.feature("N04")
async def test_a_turn_of_a_hosts_history_is_one_item_also_when_it_failed(
    fake: FakeServer, model: Options, home: Path
) -> None:
    fake.script(drop_after("The total "), error(400, "too many bytes"))
    payload = await create_agent_node(**model)({"prompt": "Sum it up.", "host_input": {"messages": []}})
    written = await write_output(payload, output_item_id="sum")
    assert short(written.items) == [("text", "incomplete", {"text": "The total "})]
    assert [item["id"] for item in written.items] == ["sum"]
    assert not home.exists()


def test_an_output_node_needs_an_item_id() -> None:
    with pytest.raises(InputValidationError, match="output_item_id: must not be empty"):
        create_output_node(output_item_id=" ")


@pytest.mark.feature("A10")
async def test_a_passed_on_error_has_no_rows() -> None:
    payload = AgentOutputPayload(status="failed", reason="upstream", err_code=7)
    assert await create_output_node()(payload) is payload


async def test_anything_but_a_payload_is_refused() -> None:
    with pytest.raises(InputValidationError, match="AgentOutputPayload"):
        await create_output_node()("hello")  # type: ignore[arg-type]


async def test_a_session_that_is_gone_is_an_error(fake: FakeServer, model: Options, home: Path) -> None:
    fake.script(text("hello"))
    payload = await create_agent_node(conversation_id="c", **model)("hi")
    session_file("default", "c", "agent", home).unlink()
    with pytest.raises(StorageError):
        await write_output(payload)
