"""The validated models: what goes into one turn, and what an agent is made of. Unknown fields are refused by name."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from agent_nodes.errors import InputValidationError, validation_error
from agent_nodes.messages import MAX_TOKENS, AgentEffort, ApiKind, is_text
from agent_nodes.submission import (
    DEFAULT_STALL_TIMEOUT,
    AgentImageInput,
    AgentOutputPayload,
    AgentPermissionPolicy,
    FileReference,
    Submission,
    submission,
    submission_of,
)

Model = TypeVar("Model", bound=BaseModel)
T = TypeVar("T", AgentImageInput, FileReference)


def _made(kind: type[T]) -> Callable[[Any], Any]:
    """A dict of the fields of ``kind``, all texts, as one; anything else as it is."""
    known = [item.name for item in fields(kind)]
    needed = [item.name for item in fields(kind) if item.default is MISSING]

    def make(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        given = cast("Mapping[Any, Any]", value)
        wrong = [f"{name!r} is unknown, known are {', '.join(known)}" for name in given if name not in known]
        wrong += [f"{name} is missing" for name in needed if name not in given]
        wrong += [f"{name} must be a text" for name in known if not isinstance(given.get(name, ""), str)]
        if wrong:
            raise PydanticCustomError("fields", "{wrong}", {"wrong": wrong[0]})
        return kind(**given)

    return make


def _listed(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _base64(image: AgentImageInput) -> AgentImageInput:
    try:
        empty = not b64decode(image.data, validate=True)
    except ValueError:
        raise PydanticCustomError("base64", "data is no base64 (without a data: prefix)") from None
    if empty:
        raise PydanticCustomError("base64", "data is empty")
    return image


def _clean(text: str) -> str:
    if not is_text(text):
        raise PydanticCustomError("text", "holds U+0000 or half a surrogate pair")
    return text


_Text: TypeAlias = Annotated[str, AfterValidator(_clean)]
_Tokens: TypeAlias = Annotated[int, Field(gt=0, le=MAX_TOKENS)]
_Image: TypeAlias = Annotated[AgentImageInput, BeforeValidator(_made(AgentImageInput)), AfterValidator(_base64)]
_File: TypeAlias = Annotated[FileReference, BeforeValidator(_made(FileReference))]
_Paths: TypeAlias = Annotated[tuple[str | Path, ...], BeforeValidator(_listed)]


class AgentInput(BaseModel):
    """One submission.

    ``prompt``, ``images`` and ``image_files`` (files that the agent's file store reads) are its content: compared when
    a ``request_id`` is used again, and left out at will when the id is known. With pictures the prompt may be empty.
    ``reopen`` lets a failed or stopped turn go on. A non-zero ``err_code`` is passed on without calling a model.

    ``host_input``, ``{messages, system}``, is the history of a host that keeps it: the turn runs in memory, after those
    messages (as ``read_transcript`` gives them), with the text of ``system`` behind the agent's prompt.

    All other fields stand in place of the agent's options of the same name, for this turn and until it ends.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True, defer_build=True)

    prompt: str | None = None
    request_id: str | None = None
    reopen: bool = False
    images: Annotated[tuple[_Image, ...], BeforeValidator(_listed)] = ()
    image_files: Annotated[tuple[_File, ...], BeforeValidator(_listed)] = ()
    host_input: dict[str, Any] | None = None
    provider: _Text | None = None
    model: _Text | None = None
    base_url: _Text | None = None
    api_kind: ApiKind | None = None
    model_attributes: Any = None
    max_tokens: _Tokens | None = None
    context_window: _Tokens | None = None
    effort: AgentEffort | None = None
    system_prompt: _Text | None = None
    workdir: str | Path | None = None
    allowed_directories: _Paths | None = None
    permission_policy: AgentPermissionPolicy | None = None
    err_code: int = 0
    err_message: str = ""


class AgentOptions(BaseModel):
    """What an agent is made of.

    ``database_path`` is the session's SQLite file, ``storage`` a factory instead of it; with neither the session lives
    in memory. Relative paths of tools start in ``workdir`` (default: the process's own). File tools reach ``workdir``
    and ``allowed_directories``. ``provider``, ``model``, ``base_url``, ``api_key`` and ``api_kind`` choose the model;
    what is left out comes from the environment. ``models`` is a registry of your own entries, ``resolved_model`` one
    entry that every turn uses, ``client`` an official client of Anthropic or OpenAI that is used in place of a key.
    ``model_attributes`` describe a model that the catalogue does not know. ``effort`` is how hard the model thinks;
    empty lets it decide. ``stall_timeout``: seconds without any event of the model after which the connection counts as
    lost. ``tools`` narrows the tools, ``extra_tools`` adds your own, ``tool_definitions`` declares which are there at
    all. ``file_store`` reads the ``image_files`` of an input. ``session_id`` is the id of a new session.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True, defer_build=True)

    database_path: str | Path | None = None
    storage: Any = None
    session_id: str | None = None
    workdir: str | Path | None = None
    allowed_directories: tuple[str | Path, ...] = ()
    system_prompt: _Text | None = None
    provider: _Text | None = None
    model: _Text | None = None
    base_url: _Text | None = None
    api_key: _Text | None = Field(default=None, repr=False)
    api_kind: ApiKind | None = None
    client: Any = None
    models: Any = None
    resolved_model: Any = None
    model_attributes: Any = None
    effort: AgentEffort | None = None
    max_tokens: _Tokens | None = None
    context_window: _Tokens | None = None
    stall_timeout: float = Field(default=DEFAULT_STALL_TIMEOUT, gt=0)
    permission_policy: AgentPermissionPolicy = "workspace"
    tools: tuple[str, ...] | None = None
    extra_tools: tuple[Any, ...] = ()
    tool_definitions: tuple[Any, ...] | None = None
    file_store: Any = None


def checked_model(model: type[Model], values: Mapping[str, Any], *, where: str) -> Model:
    """``values`` as a ``model``. Raises :class:`InputValidationError` naming every field that is wrong."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise validation_error(error, where=where, known=list(model.model_fields)) from None


def checked_submission(value: Any) -> Submission:
    """``value`` as a submission. Raises :class:`InputValidationError` naming the field."""
    model = checked_input(value)
    given = {name: getattr(model, name) for name in AgentInput.model_fields}
    given["workdir"] = None if model.workdir is None else str(model.workdir)
    given["allowed_directories"] = None if model.allowed_directories is None else [*map(str, model.allowed_directories)]
    if model.model_attributes is not None:
        from agent_nodes.model_attributes import model_attributes_of

        attributes = model_attributes_of(model.model_attributes)
        given["model_attributes"] = None if attributes is None else attributes.to_json()
    return submission(given)


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
    if isinstance(value, AgentInput):
        submission_of(value)
        return value
    if isinstance(value, str):
        value = {"prompt": value}
    model = checked_input(value)
    submission_of(model)
    return model
