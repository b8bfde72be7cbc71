"""The last node: what the turn said and did, as rows read from where it is stored, written to the conversation."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.errors import InputValidationError
from agent_nodes.messages import JsonObject
from agent_nodes.nodes.dispatch import AgentNode, Surroundings
from agent_nodes.nodes.items import TurnRows, read_turn
from agent_nodes.store.conversations import RunRecord, append_run
from agent_nodes.store.locate import session_file
from agent_nodes.submission import AgentOutputPayload, SessionRef

OUTPUT_ITEM_ID = "agent-answer"


async def write_output(
    payload: AgentOutputPayload, *, output_item_id: str = OUTPUT_ITEM_ID, history: bool = True
) -> AgentOutputPayload:
    """``payload`` with its ``items`` as the session holds them, so that they are the same whenever they are read, and
    the run written to the conversation's history: the prompt, the answer where there is one, the rows.

    A turn of a host's own history has no session: its one item is the answer, whole, under ``output_item_id``, and
    nothing is written. ``history`` False leaves the history out for any turn.

    Raises ``SessionFileError`` or ``StorageError`` where the session cannot be read or the history not be written.
    """
    session = payload.session
    if payload.turn_id is None:
        return payload
    if session is None:
        return replace(payload, items=[_answer(payload, output_item_id)] if payload.text.strip() else [])
    path = session_file(session.project, session.conversation_id, session.session_key)
    rows = await asyncio.to_thread(read_turn, path, payload.request_id)
    if history:
        record = _record(payload, session, rows)
        await asyncio.to_thread(append_run, record, SYSTEM_CLOCK.now())
    return replace(payload, items=list(rows.items))


def _answer(payload: AgentOutputPayload, output_item_id: str) -> JsonObject:
    status = "completed" if payload.status == "answered" else "incomplete"
    content = {"text": payload.text}
    return {"id": output_item_id, "type": "message", "part_type": "text", "status": status, "content": content}


def _record(payload: AgentOutputPayload, session: SessionRef, rows: TurnRows) -> RunRecord:
    return RunRecord(
        session.project,
        session.conversation_id,
        payload.request_id,
        rows.prompt,
        rows.text,
        payload.status,
        payload.reason,
        payload.err_message,
        rows.images,
        payload.usage.to_dict(),
        rows.items,
    )


def create_output_node(
    name: str = "output", *, output_item_id: str = OUTPUT_ITEM_ID, history: bool = True
) -> AgentNode[AgentOutputPayload, AgentOutputPayload]:
    """A node around :func:`write_output`."""
    if not output_item_id.strip():
        raise InputValidationError("create_output_node: output_item_id: must not be empty", field="output_item_id")

    async def body(given: object, _: Surroundings) -> AgentOutputPayload:
        if not isinstance(given, AgentOutputPayload):
            raise InputValidationError(f"node {name}: expected an AgentOutputPayload, got {type(given).__name__}")
        return await write_output(given, output_item_id=output_item_id, history=history)

    return AgentNode(name, body)
