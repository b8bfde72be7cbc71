"""What goes into one turn and what comes out of a node, in the light form that the engine works with.

The validated models of the same fields are in :mod:`agent_nodes.options`; they are loaded only for values that are not
plainly right, since a process's first model costs as much as the rest of its start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import JsonObject, Usage, repair_text

AgentPermissionPolicy: TypeAlias = Literal["read-only", "workspace", "auto"]
DEFAULT_STALL_TIMEOUT = 300.0
"""Seconds without any event of the model after which the connection counts as lost."""

AgentTurnStatus: TypeAlias = Literal["answered", "waiting", "aborted", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Submission:
    """The fields of :class:`~agent_nodes.AgentInput`, checked."""

    prompt: str | None = None
    request_id: str | None = None
    reopen: bool = False
    err_code: int = 0
    err_message: str = ""


PLAIN_INPUT: dict[str, Callable[[Any], bool]] = {
    "prompt": lambda value: type(value) is str,
    "request_id": lambda value: type(value) is str,
    "reopen": lambda value: type(value) is bool,
}


def plain(values: Mapping[str, Any], checks: Mapping[str, Callable[[Any], bool]]) -> bool:
    """Whether every value is one that ``checks`` knows to be right; no is no verdict, only a reason to look closer."""
    return all(name in checks and checks[name](value) for name, value in values.items())


def submission_of(value: Any) -> Submission:
    """``value`` as a submission: an :class:`~agent_nodes.AgentInput`, a mapping of its fields, or a prompt alone.

    Raises :class:`InputValidationError` naming the field.
    """
    if isinstance(value, Submission):
        given = value
    elif isinstance(value, str):
        given = Submission(value)
    elif isinstance(value, Mapping) and plain(cast("Mapping[str, Any]", value), PLAIN_INPUT):
        given = Submission(**cast("Mapping[str, Any]", value))
    else:
        from agent_nodes.options import checked_input

        model = checked_input(value)
        given = Submission(model.prompt, model.request_id, model.reopen, model.err_code, model.err_message)
    if not given.err_code:
        _check(given)
    return given


def _check(given: Submission) -> None:
    request_id, prompt = given.request_id, given.prompt
    if request_id is not None:
        if not request_id.strip():
            raise InputValidationError("input.request_id: must not be empty", field="request_id")
        if repair_text(request_id) != request_id:
            raise InputValidationError("input.request_id: holds U+0000 or half a surrogate pair", field="request_id")
        if len(request_id) > 500:
            raise InputValidationError("input.request_id: at most 500 characters", field="request_id")
    if prompt is None and request_id is None:
        raise InputValidationError("input.prompt: missing; give the text of this turn", field="prompt")
    if prompt is not None and not prompt.strip():
        raise InputValidationError("input.prompt: empty; give the text of this turn", field="prompt")


@dataclass(frozen=True, slots=True)
class SessionRef:
    """Where a node's session lives; ``project``, ``conversation_id`` and ``session_key`` name its file."""

    project: str
    conversation_id: str
    session_key: str


@dataclass(slots=True, kw_only=True)
class AgentOutputPayload:
    """What an agent node returns. What ends without an answer is a status here, not an exception.

    ``items`` are the turn's rows as hosts show them (``{id, type, part_type, status, content}``), ``reason`` and
    ``err_message`` say why there is no answer.
    """

    status: AgentTurnStatus
    text: str = ""
    request_id: str = ""
    turn_id: int | None = None
    session: SessionRef | None = None
    usage: Usage = field(default_factory=Usage)
    items: list[JsonObject] = field(default_factory=list[JsonObject])
    reason: str | None = None
    err_code: int = 0
    err_message: str = ""

    def to_dict(self) -> JsonObject:
        session = self.session
        return {
            "status": self.status,
            "text": self.text,
            "request_id": self.request_id,
            "turn_id": self.turn_id,
            "session": None
            if session is None
            else {
                "project": session.project,
                "conversation_id": session.conversation_id,
                "session_key": session.session_key,
            },
            "usage": self.usage.to_dict(),
            "items": self.items,
            "reason": self.reason,
            "err_code": self.err_code,
            "err_message": self.err_message,
        }
