"""A model without a memory: what it says next follows from the history alone, so that it carries on sensibly after any
crash, and to the same final text.

Its plan for a prompt is a list of rounds (text, then calls). It finds in the history how many rounds are over and how
much of the present one it has said. What goes wrong on the way (a broken connection, an overload) goes by the number
of the request, counted over all processes of a case.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from agent_nodes.messages import AssistantMessage, Message, ToolResultMessage, Usage, UserMessage
from agent_nodes.providers.script import Call, Drop, LoseCall, Report, Say, Status, Step, Stop

Fault = Literal["overloaded", "dropped", "length", "cut-call", "lost-call", "invalid"]
Calls = tuple[tuple[str, "dict[str, Any] | str"], ...]
"""Names with their arguments; a string in their place is sent as it is."""


@dataclass(frozen=True, slots=True)
class Round:
    text: str
    calls: Calls = ()
    thinking: str = ""


Plans = Mapping[str, tuple[Round, ...]]


class Seen(NamedTuple):
    """A message as far as the model cares: the user's text, or what it said itself and how many calls it made."""

    role: Literal["user", "assistant"]
    text: str
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where the history stands in the plan for its last prompt."""

    prompt: str
    round: Round
    said: str

    @property
    def rest(self) -> str:
        return self.round.text[len(self.said) :]


def seen(messages: Sequence[Message]) -> list[Seen]:
    out: list[Seen] = []
    for message in messages:
        if isinstance(message, UserMessage):
            out.append(Seen("user", "".join(getattr(block, "text", "") for block in message.content)))
        elif isinstance(message, AssistantMessage):
            out.append(Seen("assistant", message.text, len(message.calls)))
        else:
            assert isinstance(message, ToolResultMessage) or message.role == "system"
    return out


def place(plans: Plans, history: Sequence[Seen]) -> Place | str:
    """Where the model goes on; a sentence when the history cannot have come about."""
    prompt, rounds, said = "", 0, ""
    for message in history:
        if message.role == "user":
            if message.text in plans:
                prompt, rounds, said = message.text, 0, ""
            elif not message.text.startswith("["):
                return f"an unknown prompt: {message.text!r}"
        elif message.calls:
            rounds, said = rounds + 1, ""
        else:
            said += message.text
    if not prompt:
        return "no prompt in the history"
    plan = plans[prompt]
    if rounds >= len(plan):
        return f"{rounds} rounds of calls where the plan has {len(plan) - 1}"
    current = plan[rounds]
    if not current.text.startswith(said):
        return f"the history says {said!r} where the model said {current.text!r}"
    return Place(prompt, current, said)


def answer(where: Place, number: int, fault: Fault | None) -> list[Step]:
    """The steps of request ``number`` (from 1). Its usage names it: ``1000 + number`` tokens of input."""
    if fault == "overloaded":
        return [Status(529, 0.0, "Overloaded")]
    if fault == "invalid":
        return [Status(400, None, "No such model")]
    steps: list[Step] = [Report(Usage(1000 + number, 0))]
    if where.round.thinking and not where.said:
        steps.append(Say("thinking", where.round.thinking))
    if fault in ("dropped", "length"):
        steps.append(Say("text", half(where.rest)))
        return [*steps, Drop() if fault == "dropped" else Stop("length")]
    if where.rest:
        steps.append(Say("text", where.rest))
    steps.append(Report(Usage(1000 + number, 10)))
    if fault == "lost-call":
        return [*steps, LoseCall()]
    if fault == "cut-call":
        name, _ = where.round.calls[0]
        return [*steps, Call(name, '{"note": "half', None, cut=True)]
    for name, arguments in where.round.calls:
        raw = isinstance(arguments, str)
        steps.append(Call(name, arguments, None) if raw else Call(name, json.dumps(arguments), arguments))
    return steps


def half(text: str) -> str:
    """The first half, whole words."""
    words = text.split(" ")
    return " ".join(words[: max(1, len(words) // 2)])


def whole_text(plan: Sequence[Round]) -> str:
    """What a turn says in all: rounds that say something, a paragraph each."""
    return "\n\n".join(part.text for part in plan if part.text)
