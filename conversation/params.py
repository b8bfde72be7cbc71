"""From words or values to the parameters of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import isfinite
from typing import Any, Protocol

from agent_nodes.errors import InputValidationError
from conversation.declarations import MESSAGE, ConversationParamDeclaration, ParamType, param_mistake
from conversation.workspace import ConfiguredModel

_TRUE, _FALSE = {"true", "yes", "on", "1"}, {"false", "no", "off", "0"}


@dataclass(frozen=True, slots=True)
class ProjectArgs:
    """What a run was given: the message of the host's composer, parameters by name (those that are set or have a
    default), words that belong to none. ``given`` are the names of those that were set and not left at their default;
    ``models`` are those that the project's configuration names, by id."""

    message: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    rest: tuple[str, ...] = ()
    given: frozenset[str] = frozenset()
    models: Mapping[str, ConfiguredModel] = field(default_factory=dict[str, ConfiguredModel])

    @property
    def prompt(self) -> str | None:
        """The message, else the remaining words as one text; None where there is neither."""
        if self.message is not None and self.message.strip():
            return self.message
        return " ".join(self.rest).strip() or None


def parse_args(params: Sequence[ConversationParamDeclaration], args: Sequence[str] | Mapping[str, Any]) -> ProjectArgs:
    """Raises :class:`InputValidationError` naming the parameter that is unknown, missing or wrong."""
    rest: tuple[str, ...] = ()
    if isinstance(args, Mapping):
        values = dict(args)
        message: Any = values.pop(MESSAGE, None)
    else:
        values, rest = parse_words(params, args)
        message = None
    if message is not None and not isinstance(message, str):
        raise InputValidationError("message: must be a text", field=MESSAGE)
    known = [param.name for param in params]
    for name in values:
        if name not in known:
            hint = meant(str(name), [*known, MESSAGE])
            raise InputValidationError(f"{name}: unknown parameter; {hint}", field=str(name))
    out: dict[str, Any] = {}
    given: set[str] = set()
    for param in params:
        value = values.get(param.name)
        if _is_set(param, value):
            _check(param, value)
            given.add(param.name)
        else:
            value = param.default
        if value is not None:
            out[param.name] = value
        elif param.required:
            raise InputValidationError(f"{param.name}: missing; {_how(param)}", field=param.name)
    return ProjectArgs(message, out, rest, frozenset(given))


def _is_set(param: ConversationParamDeclaration, value: Any) -> bool:
    """An empty text is unset where the parameter does not name it as a choice."""
    return value is not None and (value != "" or any(choice.value == "" for choice in param.choices))


def _check(param: ConversationParamDeclaration, value: Any) -> None:
    wrong = param_mistake(param, value)
    if wrong is None and param.type == "json":
        wrong = _json_mistake(value)
    if wrong is not None:
        raise InputValidationError(f"{param.name}: {_shown(value)} {wrong}", field=param.name)


def _json_mistake(text: str) -> str | None:
    try:
        json.loads(text)
    except ValueError as error:
        return f"is no JSON ({error})"
    return None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def meant(name: str, known: Sequence[str]) -> str:
    """What somebody who wrote ``name`` may have meant."""
    close = get_close_matches(name, known, 1)
    if close:
        return f"did you mean {close[0]}?"
    return f"known are {', '.join(known)}" if known else "there are none"


def _how(param: ConversationParamDeclaration) -> str:
    return f"set it with {param.flags[-1]}" if param.flags else "set it"


class Flagged(Protocol):
    """What a command line can set."""

    @property
    def name(self) -> str: ...
    @property
    def flags(self) -> Sequence[str]: ...
    @property
    def type(self) -> ParamType: ...


def parse_words(params: Sequence[Flagged], words: Sequence[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The values of flags, which may stand anywhere between the other words, and those. Behind ``--`` every word is one
    of the others. A flag's value is the next word, or stands behind ``=``; a boolean one needs none.

    Raises :class:`InputValidationError` naming the flag that is unknown or lacks its value.
    """
    flags = {flag: param for param in params for flag in param.flags}
    values: dict[str, Any] = {}
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            return values, (*rest, *left)
        flag, equals, text = word.partition("=")
        param = flags.get(flag)
        if param is None:
            if word.startswith("-") and len(word) > 1 and not _is_number(word):
                raise InputValidationError(f"{flag}: unknown flag; {meant(flag, list(flags))}", field=flag)
            rest.append(word)
        elif equals:
            values[param.name] = _read(param, flag, text)
        elif param.type == "boolean":
            values[param.name] = True
        elif not left or left[0].partition("=")[0] in flags or left[0] == "--":
            raise InputValidationError(f"{flag}: a value is missing", field=param.name)
        else:
            values[param.name] = _read(param, flag, left.pop(0))
    return values, tuple(rest)


def _is_number(word: str) -> bool:
    return word[1:].replace(".", "", 1).isdigit()


def _read(param: Flagged, flag: str, text: str) -> Any:
    """A word as a value of the parameter's type; an empty one is empty."""
    if text == "":
        return ""
    try:
        match param.type:
            case "integer":
                return int(text)
            case "number":
                value = float(text)
                if not isfinite(value):
                    raise ValueError
                return value
            case "boolean":
                if text.lower() in _TRUE | _FALSE:
                    return text.lower() in _TRUE
                raise ValueError
            case _:
                return text
    except ValueError:
        raise InputValidationError(
            f"{flag}: {_shown(text)} is no value of type {param.type}", field=param.name
        ) from None
