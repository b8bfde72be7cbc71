"""The validated models: what goes into one turn, and what an agent is made of. Unknown fields are refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_nodes.errors import InputValidationError, validation_error
from agent_nodes.messages import ApiKind
from agent_nodes.submission import DEFAULT_STALL_TIMEOUT, AgentOutputPayload, AgentPermissionPolicy, submission_of

Model = TypeVar("Model", bound=BaseModel)


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


class AgentOptions(BaseModel):
    """What an agent is made of.

    ``database_path`` is the session's SQLite file, ``storage`` a factory instead of it; with neither the session lives
    in memory. Relative paths of tools start in ``workdir`` (default: the process's own). File tools reach ``workdir``
    and ``allowed_directories``. ``provider``, ``model``, ``base_url``, ``api_key`` and ``api_kind`` choose the model;
    what is left out comes from the environment. ``stall_timeout``: seconds without any event of the model after which
    the connection counts as lost. ``tools`` narrows the built-in ones, ``extra_tools`` adds your own.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True, defer_build=True)

    database_path: str | Path | None = None
    storage: Any = None
    workdir: str | Path | None = None
    allowed_directories: tuple[str | Path, ...] = ()
    system_prompt: str | None = None
    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = Field(default=None, repr=False)
    api_kind: ApiKind | None = None
    max_tokens: int | None = Field(default=None, gt=0)
    context_window: int | None = Field(default=None, gt=0)
    stall_timeout: float = Field(default=DEFAULT_STALL_TIMEOUT, gt=0)
    permission_policy: AgentPermissionPolicy = "workspace"
    tools: tuple[str, ...] | None = None
    extra_tools: tuple[Any, ...] = ()


def checked_model(model: type[Model], values: Mapping[str, Any], *, where: str) -> Model:
    """``values`` as a ``model``. Raises :class:`InputValidationError` naming every field that is wrong."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise validation_error(error, where=where, known=list(model.model_fields)) from None


def checked_input(value: Any) -> AgentInput:
    if isinstance(value, AgentInput):
        return value
    if isinstance(value, Mapping):
        return checked_model(AgentInput, value, where="input")  # pyright: ignore[reportUnknownArgumentType]
    hint = "; an input node turns it into one" if isinstance(value, AgentOutputPayload) else ""
    what = type(value).__name__
    raise InputValidationError(f"input: expected a prompt, a dict or an AgentInput, got {what}{hint}", field="input")


def agent_input(value: Any) -> AgentInput:
    """``value`` as an :class:`AgentInput`: one, a mapping of its fields, or a string (the prompt).

    Raises :class:`InputValidationError` naming the field.
    """
    given = submission_of(value)
    return AgentInput.model_construct(
        prompt=given.prompt,
        request_id=given.request_id,
        reopen=given.reopen,
        err_code=given.err_code,
        err_message=given.err_message,
    )
