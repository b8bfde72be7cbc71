"""The last node: what the turn said and did, as rows, read from where it is stored."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from agent_nodes.errors import InputValidationError
from agent_nodes.nodes.dispatch import AgentNode, Surroundings
from agent_nodes.nodes.items import read_items
from agent_nodes.store.locate import session_file
from agent_nodes.submission import AgentOutputPayload


async def write_output(payload: AgentOutputPayload) -> AgentOutputPayload:
    """``payload`` with its ``items`` as the session holds them, so that they are the same whenever they are read.

    Raises ``SessionFileError`` or ``StorageError`` where the session cannot be read.
    """
    session = payload.session
    if session is None or payload.turn_id is None:
        return payload
    path = session_file(session.project, session.conversation_id, session.session_key)
    return replace(payload, items=await asyncio.to_thread(read_items, path, payload.request_id))


def create_output_node(name: str = "output") -> AgentNode[AgentOutputPayload, AgentOutputPayload]:
    """A node around :func:`write_output`."""

    async def body(given: object, _: Surroundings) -> AgentOutputPayload:
        if not isinstance(given, AgentOutputPayload):
            raise InputValidationError(f"node {name}: expected an AgentOutputPayload, got {type(given).__name__}")
        return await write_output(given)

    return AgentNode(name, body)
