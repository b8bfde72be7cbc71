"""Words for people: on one line, as wide as there is room, without what a terminal would obey."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_nodes.events import RetryEvent, ToolEvent
    from agent_nodes.messages import Usage
    from agent_nodes.runtime import ContextUsage

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_MAIN_ARGUMENTS = ("command", "path", "pattern", "query", "url", "name")
_RETRY = {
    "dropped": "connection lost",
    "unreached": "trying again",
    "recovery": "going on after an interruption",
    "length": "output limit reached, going on",
    "lost-call": "a tool call was lost",
}


def printable(text: str) -> str:
    """``text`` without control characters, which a terminal would obey; tabs and ends of lines stay."""
    return _CONTROL.sub("", text)


def one_line(text: str) -> str:
    """``text`` on one line, without control characters."""
    return printable(" ".join(text.split()))


def shortened(text: str) -> str:
    """The beginning of a text of any length, on one line."""
    return one_line(text[:1000])


def retry_text(event: RetryEvent) -> str:
    never = event.kind == "dropped" and event.reason.startswith("No connection")
    what = _RETRY["unreached" if never else event.kind]
    return f"{what} ({event.attempt} of {event.max_attempts}): {shortened(event.reason)}"


def outcome_text(event: ToolEvent) -> str:
    """What came of a call that has ended, in few words."""
    text = event.result if isinstance(event.result, str) else json.dumps(event.result)
    return f"failed: {shortened(text)}" if event.is_error else size(len(text.encode("utf-8", "replace")))


def call_line(head: str, argument: str, outcome: str, *, columns: int, unicode: bool) -> str:
    """``head``, as much of the argument as fits, what came of it."""
    outcome = fit(outcome, max(10, columns // 2), unicode=unicode)
    room = columns - width(head) - width(outcome) - 3
    middle = f" {fit(argument, room, unicode=unicode)}" if argument and room >= 4 else ""
    return f"{head}{middle}  {outcome}"


def usage_parts(
    usage: Usage, *, replayed: bool = False, cost: float | None = None, context: ContextUsage | None = None
) -> list[str]:
    """What something took, for people. ``cost`` is in US dollars."""
    cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
    calls = "no model call" if replayed else f"{usage.calls} model call{'s' * (usage.calls != 1)}"
    parts = [calls, f"{usage.total_tokens - usage.output_tokens:,} tokens in{cached}, {usage.output_tokens:,} out"]
    if cost is not None:
        parts.append(f"${cost:.2f}" if cost >= 0.1 else f"${cost:.4f}")
    if context is not None:
        parts.append(f"context {context.used / context.total:.0%} of {context.total:,}")
    return parts


def width(text: str) -> int:
    """Columns that a terminal needs for ``text``."""
    return sum(map(_columns_of, text))


def _columns_of(letter: str) -> int:
    if letter.isascii():
        return 1
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def fit(text: str, columns: int, *, unicode: bool = True) -> str:
    """``text`` cut to ``columns``, with a sign that it was."""
    if width(text) <= columns:
        return text
    sign = "…" if unicode else "..."
    left = columns - len(sign)
    out = ""
    for letter in text:
        left -= _columns_of(letter)
        if left < 0:
            break
        out += letter
    return out + sign


def folded(text: str, columns: int) -> list[str]:
    """The lines of ``text``, each on as many as it needs."""
    out: list[str] = []
    for line in text.expandtabs(4).split("\n"):
        start = used = 0
        for at, letter in enumerate(line):
            used += _columns_of(letter)
            if used > columns and at > start:
                out.append(line[start:at])
                start, used = at, _columns_of(letter)
        out.append(line[start:])
    return out


def wrapped(text: str, columns: int) -> list[str]:
    """The lines of ``text``, those that are too long broken between words where that can be."""
    out: list[str] = []
    for line in text.split("\n"):
        begun = ""
        for word in line.split(" ") if width(line) > columns else ():
            if begun and width(begun) + 1 + width(word) > columns:
                out.append(begun)
                begun = ""
            *full, begun = folded(f"{begun} {word}" if begun else word, columns)
            out += full
        out.append(begun or line)
    return out


def size(count: int) -> str:
    """Bytes for people."""
    if count < 1000:
        return f"{count} B"
    number, unit = count / 1000, "KB"
    for unit in ("KB", "MB", "GB"):
        if number < 999.5 or unit == "GB":
            break
        number /= 1000
    return f"{number:.1f} {unit}" if number < 9.95 else f"{number:.0f} {unit}"


def main_argument(arguments: Mapping[str, Any]) -> str:
    """The argument that tells one call of a tool from another."""
    for name in _MAIN_ARGUMENTS:
        if isinstance(arguments.get(name), str):
            return arguments[name]
    return next((value for value in arguments.values() if isinstance(value, str)), "")
