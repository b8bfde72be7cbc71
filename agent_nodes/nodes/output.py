"""The last node: what the turn said and did, as rows read from where it is stored, written to the conversation."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.errors import InputValidationError
from agent_nodes.messages import JsonObject
from agent_nodes.nodes.dispatch import AgentNode, NodeFacts, Surroundings
from agent_nodes.nodes.items import TurnRows, read_turns
from agent_nodes.nodes.scope import Asked, Scope, current_scope
from agent_nodes.store.conversations import RunRecord, append_runs, newest_turn
from agent_nodes.store.locate import session_file
from agent_nodes.submission import AgentOutputPayload, SessionRef

OUTPUT_ITEM_ID = "agent-answer"


async def write_output(
    payload: AgentOutputPayload, *, output_item_id: str = OUTPUT_ITEM_ID, history: bool = True
) -> AgentOutputPayload:
    """``payload`` with its ``items`` as the session holds them, so that they are the same whenever they are read, and
    the run written to the conversation's history: the prompt, the answer where there is one, the rows. Turns of the
    session before it that are missing there, since their process died, are written too.

    A turn of a host's own history has no session: its one item is the answer, whole, under ``output_item_id``, and
    nothing is written. ``history`` False leaves the history out for any turn.

    Raises ``SessionFileError`` or ``StorageError`` where the session cannot be read or the history not be written.
    """
    session = payload.session
    if payload.turn_id is None:
        return payload
    if session is None:
        return replace(payload, items=[_answer(payload, output_item_id)])
    now = SYSTEM_CLOCK.now() if history else None
    items = await asyncio.to_thread(_write, payload, session, current_scope(), now)
    return replace(payload, items=items)


def _answer(payload: AgentOutputPayload, output_item_id: str) -> JsonObject:
    status = "completed" if payload.status == "answered" else "incomplete"
    content = {"text": payload.text}
    return {"id": output_item_id, "type": "message", "part_type": "text", "status": status, "content": content}


def _write(
    payload: AgentOutputPayload, session: SessionRef, scope: Scope | None, now: float | None
) -> list[JsonObject]:
    names = (session.project, session.conversation_id, session.session_key)
    after = None if now is None else newest_turn(*names)
    found = read_turns(session_file(*names), payload.request_id, after)
    if not found:
        return []
    *missed, own = found
    if now is not None:
        append_runs([*(_missed(rows, session) for rows in missed), _record(payload, session, own, scope)], now)
    return list(own.items)


def _record(payload: AgentOutputPayload, session: SessionRef, rows: TurnRows, scope: Scope | None) -> RunRecord:
    asked = Asked(rows.prompt, rows.images) if scope is None or scope.asked is None else scope.asked
    return RunRecord(
        project=session.project,
        conversation_id=session.conversation_id,
        run_id=payload.request_id,
        session_key=session.session_key,
        turn_id=rows.turn.id,
        prompt=asked.prompt,
        images=asked.images,
        in_other_words=scope is not None and scope.asked is None,
        answer=rows.text,
        status=payload.status,
        reason=payload.reason,
        detail=payload.err_message,
        usage=payload.usage.to_dict(),
        items=rows.items,
    )


def _missed(rows: TurnRows, session: SessionRef) -> RunRecord:
    """A turn that nobody wrote down: what its agent got stands for what was said."""
    turn = rows.turn
    failed = "aborted" if turn.reason == "aborted" else "failed"
    return RunRecord(
        project=session.project,
        conversation_id=session.conversation_id,
        run_id=turn.request_id,
        session_key=session.session_key,
        turn_id=turn.id,
        prompt=rows.prompt,
        images=rows.images,
        in_other_words=True,
        answer=rows.text,
        status="answered" if turn.status == "answered" else failed,
        reason=turn.reason,
        detail=turn.detail or "",
        usage=turn.usage.to_dict(),
        items=rows.items,
    )


def create_output_node(
    name: str = "output", *, output_item_id: str = OUTPUT_ITEM_ID, history: bool = True
) -> AgentNode[AgentOutputPayload, AgentOutputPayload]:
    """A node around :func:`write_output`."""
    if not output_item_id.strip():
        raise InputValidationError("create_output_node: output_item_id: must not be empty", field="output_item_id")

    async def body(given: object, _: Surroundings) -> AgentOutputPayload:
        if not isinstance(given, AgentOutputPayload):
            raise InputValidationError(
                f"node {name}: expected the AgentOutputPayload of an agent, got {type(given).__name__}",
                field="workflow",
            )
        return await write_output(given, output_item_id=output_item_id, history=history)

    return AgentNode(name, body, facts=NodeFacts("output", output_item_id=output_item_id))
