"""What goes into one turn and what comes out of a node: validated models, unknown fields refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from agent_nodes.errors import InputValidationError, validation_error
from agent_nodes.messages import JsonObject, Usage, repair_text

Model = TypeVar("Model", bound=BaseModel)

AgentPermissionPolicy: TypeAlias = Literal["read-only", "workspace", "auto"]
AgentTurnStatus: TypeAlias = Literal["answered", "waiting", "aborted", "failed", "skipped"]


class AgentInput(BaseModel):
    """One submission.

    ``prompt`` is compared when a ``request_id`` is used again, and may be left out when the id is known. ``reopen``
    lets a failed or stopped turn go on. A non-zero ``err_code`` is passed on without calling a model.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    prompt: str | None = None
    request_id: str | None = None
    reopen: bool = False
    err_code: int = 0
    err_message: str = ""


_PLAIN: dict[str, Callable[[Any], bool]] = {
    "prompt": lambda value: type(value) is str,
    "request_id": lambda value: type(value) is str,
    "reopen": lambda value: type(value) is bool,
}


def checked_model(
    model: type[Model], values: dict[str, Any], plain: Mapping[str, Callable[[Any], bool]], *, where: str
) -> Model:
    """``values`` as a ``model``; what is plainly right is taken as it is.

    A model's first validation costs as much as the rest of a start (it reads the metadata of every installed package),
    so it is left to values that ``plain`` does not know to be right. Raises :class:`InputValidationError`.
    """
    if all(name in plain and plain[name](value) for name, value in values.items()):
        return model.model_construct(**values)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise validation_error(error, where=where) from None


def agent_input(value: Any) -> AgentInput:
    """``value`` as an :class:`AgentInput`: one, a dict of its fields, or a string (the prompt).

    Raises :class:`InputValidationError` naming the field.
    """
    if isinstance(value, AgentInput):
        checked = value
    elif isinstance(value, str):
        checked = AgentInput.model_construct(prompt=value)
    elif isinstance(value, dict):
        checked = checked_model(AgentInput, cast("dict[str, Any]", value), _PLAIN, where="input")
    else:
        raise InputValidationError(f"input: expected a prompt, a dict or an AgentInput, got {type(value).__name__}")
    if checked.err_code:
        return checked
    if checked.request_id is not None and not checked.request_id.strip():
        raise InputValidationError("input.request_id: must not be empty", field="request_id")
    if checked.request_id is not None and repair_text(checked.request_id) != checked.request_id:
        raise InputValidationError("input.request_id: holds U+0000 or half a surrogate pair", field="request_id")
    if checked.request_id is not None and len(checked.request_id) > 500:
        raise InputValidationError("input.request_id: at most 500 characters", field="request_id")
    if checked.prompt is None and checked.request_id is None:
        raise InputValidationError("input.prompt: missing; give the text of this turn", field="prompt")
    if checked.prompt is not None and not checked.prompt.strip():
        raise InputValidationError("input.prompt: empty; give the text of this turn", field="prompt")
    return checked


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
