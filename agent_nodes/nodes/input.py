"""The first node: whatever a flow was handed, as a checked :class:`~agent_nodes.AgentInput`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from agent_nodes.attachments import fetched
from agent_nodes.errors import InputValidationError
from agent_nodes.nodes.dispatch import AgentNode, NodeFacts, Surroundings
from agent_nodes.options import AgentInput, agent_input
from agent_nodes.submission import AgentOutputPayload, FileStore

RawInput: TypeAlias = AgentInput | AgentOutputPayload | Mapping[str, Any] | str


def parse_input(raw: RawInput | None = None, *, prompt: str | None = None) -> AgentInput:
    """``raw`` as an input: one, a mapping of its fields, a prompt, or the payload of an agent before this one (its text
    becomes the prompt). ``prompt`` is used where ``raw`` has none. An error that comes with it is passed on as it is.

    Raises :class:`~agent_nodes.errors.InputValidationError` naming the field that is wrong.
    """
    if isinstance(raw, AgentOutputPayload):
        if raw.err_code:
            return AgentInput.model_construct(err_code=raw.err_code, err_message=raw.err_message)
        if raw.status == "skipped":
            raise InputValidationError(
                f"input: the agent before was skipped and said nothing ({raw.err_message}); look at its status first",
                field="status",
            )
        raw = raw.text
    if isinstance(raw, AgentInput):
        given = {name: getattr(raw, name) for name in raw.model_fields_set}
    elif raw is None or isinstance(raw, Mapping):
        given = dict(raw or {})
    else:
        return agent_input(raw)
    if given.get("prompt") is None and prompt is not None:
        given["prompt"] = prompt
    return agent_input(given)


def create_input_node(
    name: str = "input", *, prompt: str | None = None, file_store: FileStore | None = None
) -> AgentNode[RawInput, AgentInput]:
    """A node around :func:`parse_input`; ``prompt`` is asked where the input has none, as in a scheduled flow. The
    files of ``image_files`` are read from ``file_store`` here and are images from then on."""

    async def body(raw: RawInput, _: Surroundings) -> AgentInput:
        given = parse_input(raw, prompt=prompt)
        if not given.image_files or given.err_code:
            return given
        files = await fetched(given.image_files, file_store)
        return given.model_copy(update={"images": (*given.images, *files), "image_files": ()})

    return AgentNode(name, body, facts=NodeFacts("input"))
