"""The script language: what a model does, written down line by line. Docs, tests and the demo model speak it.

One line is one step, one script one answer of the model; a line ``---`` parts the answers of a longer script.
Blank lines, lines that start with ``#`` and the blanks around a line mean nothing.

    think: Let me see.             reasoning, streamed by words
    text: Two words                text, streamed by words
    text: and a second line        a line that goes on with the same kind is a new line of the same block
    text: " exact\\n"               in JSON quotes: exactly this, added to the block with nothing between
    call: read {"path": "a.txt"}   a tool call; the arguments default to {}
    invalid-call: read {"path      a call that came whole, but whose arguments are no JSON object
    call-cut: read {"path": "a     a call whose arguments the output limit cut off; the answer stops with length
    usage: 10 5                    tokens so far: input, output and, if wanted, cached input
    wait: 200                      milliseconds of silence

How an answer ends, in its last line (without one it is ``length`` after a cut call, ``tool_use`` after others, else
``end``):

    stop: length                   end, tool_use, length, pause, refusal or overflow
    lost-call                      the model says that it called a tool, but the call never arrives
    drop                           the connection breaks
    status: 529 3 "Overloaded"     an HTTP error; the seconds of Retry-After and the body may be left out
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import JsonObject, StopReason, Usage, repair_json, repair_text

SayKind: TypeAlias = Literal["text", "thinking"]


@dataclass(frozen=True, slots=True)
class Say:
    """Text or reasoning; steps of one kind in a row (waits and usage do not count) are one block."""

    kind: SayKind
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """``text`` is the argument text as it streams, ``arguments`` what it says: None where it is no JSON object.
    ``cut`` says that the output limit ended it."""

    name: str
    text: str
    arguments: JsonObject | None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    usage: Usage


@dataclass(frozen=True, slots=True)
class Wait:
    """``seconds`` of silence."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Stop:
    reason: StopReason


@dataclass(frozen=True, slots=True)
class LoseCall:
    pass


@dataclass(frozen=True, slots=True)
class Drop:
    pass


@dataclass(frozen=True, slots=True)
class Status:
    """An HTTP error: the code (300 to 599), the seconds of Retry-After, the body as the service writes it."""

    code: int
    retry_after: float | None = None
    body: str = ""


Step: TypeAlias = Say | Call | Report | Wait | Stop | LoseCall | Drop | Status
Ending: TypeAlias = Stop | LoseCall | Drop | Status

_LINE = re.compile(r"(?P<word>[^\s:]+)(?P<colon>:?)\s*(?P<rest>.*)\Z", re.DOTALL)
_NAMED = re.compile(r"(?P<name>\S+)\s*(?P<rest>.*)\Z", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,9}\Z")
_STATUS = re.compile(
    r'(?P<code>[345][0-9]{2})(?:\s+(?P<after>[0-9]{1,9}(?:\.[0-9]+)?))?(?:\s+(?P<text>".*"))?\Z', re.DOTALL
)


def parse(script: str) -> list[list[Step]]:
    """The steps of every answer in ``script``.

    Raises :class:`InputValidationError` that names the line (from 1) and the word it does not understand.
    """
    answers: list[list[Step]] = [[]]
    number = 0
    for number, raw in enumerate(script.split("\n"), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if line == "---":
            _filled(answers[-1], number)
            answers.append([])
            continue
        steps = answers[-1]
        if steps and isinstance(steps[-1], Ending):
            raise _mistake(number, line, "the answer has already ended; a new one starts behind a line ---")
        steps.append(_step(line, number, steps))
    _filled(answers[-1], number)
    return answers


def _filled(steps: Sequence[Step], number: int) -> None:
    if not steps:
        raise _mistake(number, "---", "there is no step before the end of this answer; an empty one is `stop: end`")


def _mistake(number: int, word: str, why: str) -> InputValidationError:
    word = word if len(word) <= 80 else word[:80] + "…"
    return InputValidationError(f"script line {number}, {word!r}: {why}", field="script")


class _Wrong(Exception):
    """A word of a line that is wrong, and why; :func:`_step` adds the line."""

    def __init__(self, word: str, why: str) -> None:
        super().__init__(word, why)
        self.word, self.why = word, why


def _step(line: str, number: int, before: Sequence[Step]) -> Step:
    found = _LINE.match(line)
    word, colon, rest = found.group("word", "colon", "rest") if found else (line, "", "")
    try:
        if word in _BARE:
            if colon or rest:
                raise _Wrong(word, "this word stands alone on its line")
            return _BARE[word]
        if word not in _READERS:
            raise _Wrong(word, "unknown; the steps are " + ", ".join(sorted([*_READERS, *_BARE])))
        if not colon:
            raise _Wrong(word, "a colon must follow")
        return _READERS[word](rest, before)
    except _Wrong as wrong:
        raise _mistake(number, wrong.word, wrong.why) from None


def _say(kind: SayKind) -> Callable[[str, Sequence[Step]], Step]:
    def read(rest: str, before: Sequence[Step]) -> Step:
        if rest.startswith('"'):
            return Say(kind, _quoted(rest))
        last = next((step for step in reversed(before) if not isinstance(step, Wait | Report)), None)
        goes_on = isinstance(last, Say) and last.kind == kind
        return Say(kind, repair_text("\n" + rest if goes_on else rest))

    return read


def _quoted(text: str) -> str:
    value = _json(text)
    if not isinstance(value, str):
        raise _Wrong(text, 'text that starts with " must be one JSON string')
    return repair_text(value)


def _json(text: str) -> Any:
    """The JSON value that ``text`` is, or ``...`` where it is none."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return ...


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _named(rest: str) -> tuple[str, str]:
    found = _NAMED.match(rest)
    if found is None:
        raise _Wrong(rest, "the name of a tool must follow the colon")
    return found["name"], repair_text(found["rest"])


def _call(rest: str, _: Sequence[Step]) -> Step:
    name, text = _named(rest)
    arguments = _json(text or "{}")
    if not isinstance(arguments, dict):
        raise _Wrong(text, "arguments must be one JSON object (`invalid-call` and `call-cut` take any text)")
    return Call(name, text or "{}", cast("JsonObject", repair_json(arguments)))


def _invalid_call(rest: str, _: Sequence[Step]) -> Step:
    name, text = _named(rest)
    if isinstance(_json(text), dict):
        raise _Wrong(text, "these arguments are a JSON object: that is a `call`")
    return Call(name, text, None)


def _cut_call(rest: str, _: Sequence[Step]) -> Step:
    name, text = _named(rest)
    if isinstance(_json(text), dict):
        raise _Wrong(text, "these arguments are whole: nothing was cut off")
    return Call(name, text, None, cut=True)


def _number(word: str, what: str) -> int:
    if not _NUMBER.match(word):
        raise _Wrong(word, f"{what} is wanted, whole and of at most 9 digits")
    return int(word)


def _usage(rest: str, _: Sequence[Step]) -> Step:
    words = rest.split()
    if len(words) not in (2, 3):
        raise _Wrong(rest, "input, output and, if wanted, cached input tokens are wanted")
    return Report(Usage(*(_number(word, "a number of tokens") for word in words)))


def _wait(rest: str, _: Sequence[Step]) -> Step:
    milliseconds = _number(rest, "a number of milliseconds")
    if not milliseconds:
        raise _Wrong(rest, "a wait takes at least one millisecond")
    return Wait(milliseconds / 1000)


def _stop(rest: str, _: Sequence[Step]) -> Step:
    reasons: tuple[StopReason, ...] = get_args(StopReason)
    for reason in reasons:
        if rest == reason:
            return Stop(reason)
    raise _Wrong(rest, "a reason to stop is one of " + ", ".join(reasons))


def _status(rest: str, _: Sequence[Step]) -> Step:
    found = _STATUS.match(rest)
    if found is None:
        raise _Wrong(rest, 'a status from 300 to 599 is wanted, then maybe seconds of Retry-After, then "the body"')
    after, text = found.group("after", "text")
    return Status(int(found["code"]), float(after) if after else None, _quoted(text) if text else "")


_READERS: Mapping[str, Callable[[str, Sequence[Step]], Step]] = {
    "think": _say("thinking"),
    "text": _say("text"),
    "call": _call,
    "invalid-call": _invalid_call,
    "call-cut": _cut_call,
    "usage": _usage,
    "wait": _wait,
    "stop": _stop,
    "status": _status,
}
_BARE: Mapping[str, Step] = {"drop": Drop(), "lost-call": LoseCall()}
