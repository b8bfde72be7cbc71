"""From words or values to the parameters of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from agent_nodes.errors import InputValidationError
from conversation.declarations import MESSAGE, ConversationParamDeclaration, param_mistake
from conversation.workspace import ConfiguredModel

_TRUE, _FALSE = {"true", "yes", "on", "1"}, {"false", "no", "off", "0"}


@dataclass(frozen=True, slots=True)
class ProjectArgs:
    """What a run was given: the message of the host's composer, parameters by name (those that are set or have a
    default), and words that belong to none."""

    message: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    rest: tuple[str, ...] = ()
    models: Mapping[str, ConfiguredModel] = field(default_factory=dict[str, ConfiguredModel])
    """Models that the project's configuration names, by id."""

    @property
    def prompt(self) -> str | None:
        """The message, else the remaining words as one text."""
        return self.message if self.message is not None else (" ".join(self.rest) or None)


def parse_args(params: Sequence[ConversationParamDeclaration], args: Sequence[str] | Mapping[str, Any]) -> ProjectArgs:
    """Raises :class:`InputValidationError` naming the parameter that is unknown, missing or wrong."""
    if isinstance(args, Mapping):
        values = dict(args)
        message: Any = values.pop(MESSAGE, None)
        rest: tuple[str, ...] = ()
    else:
        values, rest = _words(params, list(args))
        message = None
    if message is not None and not isinstance(message, str):
        raise InputValidationError("message: must be a text", field=MESSAGE)
    by_name = {param.name: param for param in params}
    for name in values:
        if name not in by_name:
            close = get_close_matches(name, [*by_name, MESSAGE], 1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join([MESSAGE, *by_name])}"
            raise InputValidationError(f"{name}: unknown parameter; {hint}", field=name)
    out: dict[str, Any] = {}
    for param in params:
        value = _value(param, values.get(param.name))
        if value is not None:
            out[param.name] = value
        elif param.required:
            raise InputValidationError(f"{param.name}: missing; {_how(param)}", field=param.name)
    return ProjectArgs(message, out, rest)


def _value(param: ConversationParamDeclaration, value: Any) -> Any:
    """``value``, else the default; an empty text is unset where the parameter does not name it as a choice."""
    empty_counts = any(choice.value == "" for choice in param.choices)
    if value is None or (value == "" and not empty_counts):
        return param.default
    wrong = param_mistake(param, value)
    if wrong is not None:
        raise InputValidationError(f"{param.name}: {wrong}", field=param.name)
    return value


def _how(param: ConversationParamDeclaration) -> str:
    return f"set it with {param.flags[-1]}" if param.flags else "set it"


def _words(params: Sequence[ConversationParamDeclaration], words: list[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Flags in any order between the other words; behind ``--`` every word is one of those."""
    flags = {flag: param for param in params for flag in param.flags}
    values: dict[str, Any] = {}
    rest: list[str] = []
    while words:
        word = words.pop(0)
        if word == "--":
            return values, (*rest, *words)
        flag, equals, text = word.partition("=")
        param = flags.get(flag)
        if param is None:
            if word.startswith("-") and len(word) > 1 and not _number(word):
                close = get_close_matches(flag, list(flags), 1)
                hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(flags)}"
                raise InputValidationError(f"{flag}: unknown flag; {hint}", field=flag)
            rest.append(word)
            continue
        if not equals and param.type == "boolean" and (not words or words[0].lower() not in _TRUE | _FALSE):
            values[param.name] = True
            continue
        if not equals and not words:
            raise InputValidationError(f"{flag}: a value is missing", field=param.name)
        values[param.name] = _read(param, text if equals else words.pop(0))
    return values, tuple(rest)


def _number(word: str) -> bool:
    return word[1:].replace(".", "", 1).isdigit()


def _read(param: ConversationParamDeclaration, text: str) -> Any:
    """A word as a value of the parameter's type; an empty one is empty."""
    if text == "":
        return ""
    try:
        match param.type:
            case "integer":
                return int(text)
            case "number":
                return float(text)
            case "json":
                return text if json.loads(text) is not None else None
            case "boolean":
                if text.lower() in _TRUE | _FALSE:
                    return text.lower() in _TRUE
                raise ValueError
            case _:
                return text
    except ValueError:
        raise InputValidationError(
            f"{param.name}: {text!r} is no value of type {param.type}", field=param.name
        ) from None
