"""What a caller declares about a model that the catalogue does not know, or describes wrongly."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeAlias, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import TypedDict

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import MAX_TOKENS, EffortLevel

Modality: TypeAlias = Literal["text", "image"]

_Tokens = Annotated[int, Field(gt=0, le=MAX_TOKENS)]
_Dollars = Annotated[float, Field(ge=0, le=1_000_000)]
_WireValue = Annotated[str, Field(min_length=1, max_length=200)]


class AgentModelCost(TypedDict):
    """US dollars per million tokens; all four are needed."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)  # pyright: ignore[reportGeneralTypeIssues]

    input: _Dollars
    output: _Dollars
    cache_read: _Dollars
    cache_write: _Dollars


class AgentModelAttributes(BaseModel):
    """What is known about a model. A field that is None or left out is no declaration.

    ``name`` is shown in place of the id. ``reasoning``: whether the model reasons at all. ``web_search``: whether the
    endpoint searches by itself. ``input``: with ``"image"`` pictures are handed to the model. ``cost``: US dollars per
    million tokens. ``context_window`` and ``max_tokens`` (output) are in tokens. ``thinking_level_map`` gives for an
    effort level the value sent, None for one the model does not have; a level that is not named stays as it was.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)

    name: str | None = Field(default=None, max_length=200)
    reasoning: bool | None = None
    web_search: bool | None = None
    input: Sequence[Modality] | None = Field(default=None, min_length=1)
    cost: AgentModelCost | None = None
    context_window: _Tokens | None = None
    max_tokens: _Tokens | None = None
    thinking_level_map: Mapping[EffortLevel, _WireValue | None] | None = None

    def to_json(self) -> str:
        """The declared fields as JSON text, for storing. Raises :class:`InputValidationError` where a value that was
        never checked has no JSON form."""
        declared = {name: value for name in type(self).model_fields if (value := getattr(self, name, None)) is not None}
        try:
            return json.dumps(declared, allow_nan=False, default=_plain)
        except (TypeError, ValueError) as error:
            raise InputValidationError(
                f"model_attributes: holds a value that has no JSON form ({error})", field="model_attributes"
            ) from error

    @classmethod
    def from_json(cls, text: str) -> AgentModelAttributes:
        """What :meth:`to_json` wrote, as it was."""
        return cls.model_construct(**json.loads(text))


def model_attributes_of(value: Any, *, where: str = "model_attributes") -> AgentModelAttributes | None:
    """``value`` as attributes: an object is taken as it is, a dict and JSON text are checked; None and empty text mean
    that nothing is declared.

    Raises :class:`InputValidationError` naming the field, with ``where`` in front.
    """
    if value is None or isinstance(value, AgentModelAttributes):
        return value
    if isinstance(value, str):
        return _checked(_parsed(value, where), where) if value.strip() else None
    if isinstance(value, Mapping):
        return _checked(cast("Mapping[str, Any]", value), where)
    raise InputValidationError(
        f"{where}: expected AgentModelAttributes, a dict or JSON text, got {type(value).__name__}", field=where
    )


def _plain(value: Any) -> Any:
    """Forms of mappings and sequences that the JSON writer does not know."""
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else list(value)


def _checked(values: Mapping[str, Any], where: str) -> AgentModelAttributes:
    try:
        return AgentModelAttributes.model_validate(dict(values))
    except ValidationError as error:
        raise _mistake(_sentences(error), where) from None


# -- JSON text ---------------------------------------------------------------------------------------------------------


class _Object(dict[str, Any]):
    """A JSON object that remembers which keys it was given twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        seen: set[str] = set()
        self.twice = [name for name, _ in pairs if name in seen or seen.add(name)]


def _parsed(text: str, where: str) -> Mapping[str, Any]:
    """The object that ``text`` holds. JSON says less than Python: no key comes twice, and nothing is null but a level
    that the model does not have."""
    try:
        data = json.loads(text, object_pairs_hook=_Object)
    except json.JSONDecodeError as error:
        raise InputValidationError(f"{where}: no JSON: {error.msg} (character {error.pos + 1})", field=where) from None
    except (ValueError, RecursionError):
        raise InputValidationError(
            f"{where}: no JSON that can be read: a number is too long, or it is nested too deeply", field=where
        ) from None
    if not isinstance(data, _Object):
        raise InputValidationError(f'{where}: expected a JSON object such as {{"context_window": 200000}}', field=where)
    wrong = dict(_wrong_in_text(data))
    if wrong:
        raise _mistake(wrong, where)
    return data


def _wrong_in_text(data: _Object, inside: str = "") -> Iterator[tuple[str, str]]:
    for name in data.twice:
        yield f"{inside}{_shown(name)}", "given twice"
    for name, value in data.items():
        if value is None and inside != "thinking_level_map.":
            yield f"{inside}{_shown(name)}", "null is no value; leave the field out"
        if isinstance(value, _Object):
            yield from _wrong_in_text(value, f"{inside}{_shown(name)}.")


# -- what is wrong -----------------------------------------------------------------------------------------------------


def _mistake(sentences: Mapping[str, str], where: str) -> InputValidationError:
    said = "; ".join(f"{where}.{path}: {text}" if path else f"{where}: {text}" for path, text in sentences.items())
    first = next(iter(sentences))
    return InputValidationError(said, field=f"{where}.{first}" if first else where)


def _sentences(error: ValidationError) -> dict[str, str]:
    """One sentence a field, without the rejected values; unknown fields first, since they explain missing ones."""
    out: dict[str, str] = {}
    items = error.errors(include_url=False, include_input=False, include_context=False)
    for item in sorted(items, key=lambda item: item["type"] != "extra_forbidden"):
        # Behind a key stands a name of the validator's own where the key itself is wrong.
        names = [name for name in item["loc"] if name != "[key]"]
        wrong_key = len(names) < len(item["loc"])
        path = ".".join(_shown(str(name)) for name in names)
        text = item["msg"]
        if item["type"] == "extra_forbidden":
            text = _unknown(str(names[-1]), _fields_at(names[:-1]))
        elif wrong_key:
            text = _no_level(str(names[-1]))
        elif item["type"] == "missing":
            text = "missing; all of input, output, cache_read and cache_write are needed"
        out.setdefault(path, text)
    return out


def _fields_at(names: Sequence[int | str]) -> Sequence[str]:
    return list(AgentModelCost.__annotations__) if names else list(AgentModelAttributes.model_fields)


def _unknown(name: str, known: Sequence[str]) -> str:
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
    close = get_close_matches(snake, known, 1)
    return f"unknown field; did you mean {close[0]}?" if close else f"unknown field; known are {', '.join(known)}"


def _no_level(name: str) -> str:
    levels = ", ".join(get_args(EffortLevel))
    if name == "ultra":
        return f"no level of a model: ultra means max, so map max instead; levels are {levels}"
    return f"no effort level; levels are {levels}"


def _shown(name: str) -> str:
    return name if re.fullmatch(r"[\w-]{1,60}", name) else repr(name[:60])
