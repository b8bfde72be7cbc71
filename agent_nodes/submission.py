"""What goes into one turn and what comes out of a node, in the light form that the engine works with.

The validated models of the same fields are in :mod:`agent_nodes.options`; they are loaded only for values that are not
plainly right, since a process's first model costs as much as the rest of its start.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, cast, get_args

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import (
    AgentEffort,
    ApiKind,
    ImageBlock,
    JsonObject,
    Usage,
    is_text,
    is_token_count,
    repair_text,
)

AgentPermissionPolicy: TypeAlias = Literal["read-only", "workspace", "auto"]
DEFAULT_STALL_TIMEOUT = 300.0
"""Seconds without any event of the model after which the connection counts as lost."""

AgentTurnStatus: TypeAlias = Literal["answered", "waiting", "aborted", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class AgentImageInput:
    """A picture with the prompt: ``data`` in base64 (without a ``data:`` prefix), ``mime_type`` image/png, image/jpeg,
    image/gif or image/webp."""

    data: str
    mime_type: str

    def digest(self) -> str:
        """Of the picture's bytes: what tells one from another when a request id comes again."""
        from base64 import b64decode
        from hashlib import blake2b

        return blake2b(b64decode(self.data), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class FileReference:
    """A file that the host keeps. ``id`` is for its file store; ``name`` is what people call it."""

    id: str
    name: str = ""

    @property
    def shown(self) -> str:
        return self.name or self.id


class FileStore(Protocol):
    """Where the host keeps files. Whatever ``read`` raises is told with the file's name."""

    async def read(self, reference: FileReference) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Submission:
    """The fields of :class:`~agent_nodes.AgentInput`, checked. ``overrides`` are those that stand in place of options
    of the agent, as JSON; ``pictures`` what has become of ``images`` and ``image_files``, ready for a model."""

    prompt: str | None = None
    request_id: str | None = None
    reopen: bool = False
    images: tuple[AgentImageInput, ...] = ()
    image_files: tuple[FileReference, ...] = ()
    host_input: JsonObject | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict[str, Any])
    pictures: tuple[ImageBlock, ...] = ()
    err_code: int = 0
    err_message: str = ""


OVERRIDES: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("provider", "model", "base_url", "system_prompt", "workdir"), is_text),
    **dict.fromkeys(("max_tokens", "context_window"), is_token_count),
    "api_kind": lambda value: value in get_args(ApiKind),
    "effort": lambda value: value in get_args(AgentEffort),
    "permission_policy": lambda value: value in get_args(AgentPermissionPolicy),
    "allowed_directories": lambda value: False,
    "model_attributes": lambda value: False,
}
"""The fields of an input that stand in place of options; each with what is plainly right. In JSON they are stored."""

PLAIN_INPUT: dict[str, Callable[[Any], bool]] = {
    "prompt": lambda value: type(value) is str,
    "request_id": lambda value: type(value) is str,
    "reopen": lambda value: type(value) is bool,
    **OVERRIDES,
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
        given = submission(cast("Mapping[str, Any]", value))
    else:
        from agent_nodes.options import checked_submission

        given = checked_submission(value)
    if not given.err_code:
        _check(given)
    return given


def submission(values: Mapping[str, Any]) -> Submission:
    """Checked fields of an input, as a submission. An empty text leaves the option as it is, but for ``effort``, where
    it lets the model decide, and the ``system_prompt``. Paths are made absolute: another process may go on."""
    overrides: dict[str, Any] = {}
    for name in OVERRIDES:
        value = values.get(name)
        if value is None or (value == "" and name not in ("effort", "system_prompt")):
            continue
        overrides[name] = os.path.abspath(value) if name == "workdir" else value  # noqa: PTH100 - no link is followed
    return Submission(**{name: value for name, value in values.items() if name not in OVERRIDES}, overrides=overrides)


def _check(given: Submission) -> None:
    request_id, prompt = given.request_id, given.prompt
    if request_id is not None:
        if not request_id.strip():
            raise InputValidationError("input.request_id: must not be empty", field="request_id")
        if repair_text(request_id) != request_id:
            raise InputValidationError("input.request_id: holds U+0000 or half a surrogate pair", field="request_id")
        if len(request_id) > 500:
            raise InputValidationError("input.request_id: at most 500 characters", field="request_id")
    pictures = given.images or given.image_files
    if prompt is None and request_id is None and not pictures:
        raise InputValidationError("input.prompt: missing; give the text of this turn", field="prompt")
    if prompt is not None and not prompt.strip() and not pictures:
        raise InputValidationError("input.prompt: empty; give the text of this turn, or images", field="prompt")


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
