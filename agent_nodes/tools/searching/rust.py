"""A pattern for ripgrep that fits wherever a Python one does, and in further places: it chooses files, no lines.

The two dialects differ in much (look-around, references, classes, what counts as a letter), so what need not be kept is
widened: an anchor holds everywhere, a class of letters is any run of bytes, three to five times is once or more.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

SOMETHING = r"(?-u:[^\n])+"
ANYTHING = r"(?-u:[^\n])*"

# What Python finds for an ASCII letter, ignoring case, beside its two cases.
_OTHER_CASES = {"i": "\u0130\u0131", "k": "\u212a", "s": "\u017f"}
_REPLACED = 0xFFFD


def rust_pattern(pattern: str, *, ignore_case: bool) -> str | None:
    """None where it would fit nearly everywhere. Raises ``re.error`` as ``re.compile`` does."""
    tree = import_module("re._parser").parse(pattern, re.IGNORECASE if ignore_case else 0)
    text = _sequence(tree, bool(tree.state.flags & re.IGNORECASE))
    return text if "\\x{" in text else None


def _sequence(tree: Any, fold: bool) -> str:
    return "".join(_node(str(kind), value, fold) for kind, value in tree)


def _node(kind: str, value: Any, fold: bool) -> str:
    match kind:
        case "LITERAL":
            return _letter(value, fold)
        case "IN":
            return _one_of(value, fold)
        case "ANY" | "NOT_LITERAL":
            return SOMETHING
        case "AT" | "ASSERT" | "ASSERT_NOT":
            return ""
        case _:
            return _group(kind, value, fold)


def _group(kind: str, value: Any, fold: bool) -> str:
    match kind:
        case "BRANCH":
            return f"(?:{'|'.join(_sequence(branch, fold) for branch in value[1])})"
        case "SUBPATTERN":
            _, added, removed, inner = value
            fold = (fold or bool(added & re.IGNORECASE)) and not removed & re.IGNORECASE
            return f"(?:{_sequence(inner, fold)})"
        case "ATOMIC_GROUP":
            return f"(?:{_sequence(value, fold)})"
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, _, inner = value
            return f"(?:{_sequence(inner, fold)}){'+' if least else '*'}"
        case _:  # a reference to a group, or what a later Python brings
            return ANYTHING


def _letter(code: int, fold: bool) -> str:
    char = chr(code)
    if _is_odd(code) or (fold and not char.isascii()):
        return SOMETHING
    if fold and char.isalpha():
        others = _OTHER_CASES.get(char.lower(), "")
        return f"[{''.join(map(_code, sorted({char.lower(), char.upper(), *others})))}]"
    return _code(char)


def _one_of(items: Any, fold: bool) -> str:
    parts: list[str] = []
    for kind, value in items:
        first, last = value if str(kind) == "RANGE" else (value, value)
        if fold or str(kind) not in ("RANGE", "LITERAL") or _is_odd(last) or first <= 10 <= last:
            return SOMETHING
        parts.append(f"{_code(chr(first))}-{_code(chr(last))}")
    return f"[{''.join(parts)}]"


def _is_odd(code: int) -> bool:
    """Whether the letter may stand for bytes that are no UTF-8, or never stands in a line."""
    return code == 10 or code >= 0xD800


def _code(char: str) -> str:
    return f"\\x{{{ord(char):x}}}"
