"""What to change in a request that a service refused because of one field, so that it is taken at the next try.

Services and models differ in what they know: a level of effort, a limit, an option of the stream. A refusal that names
such a field is answered once per field and request with another body, before anything was produced; a correction that
helped is kept for all later requests to that model, for as long as the process lives.

A rule looks at what the service said and at the body's head (all but the messages), and gives a :class:`Fix` or None.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from agent_nodes.providers.amend import (
    EFFORTS,
    Head,
    Path,
    at,
    at_least,
    at_most,
    clamped,
    effort_path,
    limit_name,
    not_strict,
    renamed,
    same,
    thinks_otherwise,
    without,
)
from agent_nodes.providers.base import Failure
from agent_nodes.providers.payload import as_object

MOST_FIXES = 8
"""How often one request may be corrected, whatever the fields."""

_MODELS_KEPT = 256
_LEAST_ROOM = 1024  # tokens of output below which a context counts as too long


@dataclass(frozen=True, slots=True)
class Fix:
    """``field`` is what it corrects. ``apply`` gives the head it is for, changed, or the same one where nothing in it
    needs the change. ``kept``: it holds for later requests to the model, too. ``unseal``: the messages are to be sent
    without signed reasoning."""

    field: str
    apply: Callable[[Head], Head]
    kept: bool = True
    unseal: bool = False


class Memory:
    """The corrections that helped, by address and model; the models used last are kept."""

    def __init__(self, size: int = _MODELS_KEPT) -> None:
        self._size = size
        self._fixes: OrderedDict[tuple[str, str], dict[str, Fix]] = OrderedDict()

    def fixes(self, origin: str, model: str) -> Sequence[Fix]:
        return tuple(self._fixes.get((origin, model), {}).values())

    def keep(self, origin: str, model: str, fix: Fix) -> None:
        place = (origin, model)
        self._fixes.setdefault(place, {})[fix.field] = fix
        self._fixes.move_to_end(place)
        if len(self._fixes) > self._size:
            self._fixes.popitem(last=False)

    def clear(self) -> None:
        self._fixes.clear()


MEMORY = Memory()
"""Of the whole process: what one runtime has learnt about a service holds for the next. Written by ``WireProvider``."""


def correction(failure: Failure, head: Head, tried: Collection[str] = ()) -> Fix | None:
    """What to change after ``failure``; None where it names nothing that can be changed. ``tried`` names the fields
    that were corrected before in this request."""
    if failure.kind not in {"invalid", "overflow"}:
        return None
    said = _Said(failure, head, tried)
    rules = _RULES if failure.kind == "invalid" else (_room,)
    return next((fix for rule in rules if (fix := rule(said)) is not None), None)


@dataclass(frozen=True, slots=True)
class _Said:
    failure: Failure
    head: Head
    tried: Collection[str]

    @property
    def text(self) -> str:
        """The service's words, with the field in front that it names apart from them."""
        return f"{self.failure.param}: {self.failure.message}" if self.failure.param else self.failure.message

    def find(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return pattern.search(self.text)


# Signed reasoning.

_SEALED = re.compile(
    r"invalid_encrypted_content|encrypted[ _]content.{0,80}could not be (?:verified|decrypted)"
    r"|invalid `?signature`? in `?(?:redacted_)?thinking"
    r"|expected `?thinking`? or `?redacted_thinking"
    r"|thinking`? (?:or `?redacted_thinking`? )?blocks?\b.{0,80}(?:cannot be modified|kept or removed together)"
    r"|must start with a thinking block"
    r"|item with id '?rs_[^ ]* not found"
    r"|type 'reasoning' was provided without its required"
    r"|without its required 'reasoning' item",
    re.I | re.S,
)


def _sealed(said: _Said) -> Fix | None:
    return Fix("signed reasoning", same, kept=False, unseal=True) if said.find(_SEALED) else None


# Limits of the output.

_ASKED_LIMIT = re.compile(r"(?<![\w.])max_(?:completion_|output_)?tokens?\b|output tokens|completion tokens", re.I)
_NUMBER = r"[`'\"]?(\d[\d,_]*)"
_ABOVE = re.compile(
    rf"max_\w*tokens\W{{0,3}}\d+ > (\d+)"
    r"|(?:at most|up to|no more than|not exceed|<=|less than or equal to|limit (?:is|of)"
    rf"|maximum (?:value |allowed )?(?:is|of|:))\s*{_NUMBER}"
    r"|range\b[^\d]{0,40}\d+[^\d]{1,20}(\d+)",
    re.I,
)
_BELOW = re.compile(rf"(?:at least|>=|greater than or equal to|minimum (?:value )?(?:is|of|:))\s*{_NUMBER}", re.I)
_USE_INSTEAD = re.compile(r"\buse\s+[`'\"]?(max_completion_tokens|max_tokens)[`'\"]?\s+instead", re.I)
_ROOM = (
    re.compile(r"input length and `?max_tokens`? exceed context limit: (?P<input>\d+) \+ \d+ > (?P<window>\d+)", re.I),
    re.compile(
        r"maximum context length is (?P<window>\d+) tokens.{0,60}requested \d+ tokens \((?P<input>\d+) in the "
        r"(?:messages|prompt|input)",
        re.I | re.S,
    ),
    re.compile(
        r"maximum context length is (?P<window>\d+) tokens and your request has (?P<input>\d+) input tokens", re.I
    ),
)


def _other_limit(said: _Said) -> Fix | None:
    """The limit under its other name."""
    name = limit_name(said.head)
    if name is None:
        return None
    instead = said.find(_USE_INSTEAD)
    if instead is not None and instead[1].lower() != name:
        return Fix("name of the limit", partial(renamed, name, instead[1].lower()))
    if not (said.find(_REFUSES) and _mentions(said.text, (name,))):
        return None
    other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}.get(name)
    return Fix("name of the limit", partial(renamed, name, other) if other else partial(without, (name,)))


def _limit(said: _Said) -> Fix | None:
    """The limit as the service can take it."""
    name = limit_name(said.head)
    if name is None or said.find(_ASKED_LIMIT) is None:
        return None
    given = said.head[name]
    above, below = said.find(_ABOVE), said.find(_BELOW)
    most = _integer(next(filter(None, above.groups()), "")) if above is not None else 0
    least = _integer(below[1]) if below is not None else 0
    if 0 < most < given:
        return Fix("limit", partial(at_most, most))
    if least > given:
        return Fix("limit", partial(at_least, least))
    return None


def _room(said: _Said) -> Fix | None:
    """Less output, where the context itself has its place in the window."""
    name = limit_name(said.head)
    found = next((match for pattern in _ROOM if (match := said.find(pattern))), None)
    if name is None or found is None:
        return None
    room = int(found["window"]) - int(found["input"])
    return Fix("limit", partial(at_most, room), kept=False) if _LEAST_ROOM <= room < said.head[name] else None


# Effort and thinking.

_VERIFY = re.compile(r"must be verified to .{0,40}reasoning summar", re.I)
_ONE_OF = re.compile(
    r"\b(?:supported values?|should be|must be|expected|allowed values?|valid (?:values|options)|one of|choose from)\b"
    r"(.*?)(?:\[type|input_value|\b(?:got|received)\b|$)",
    re.I | re.S,
)
_LEVEL = re.compile(r"(?<![\w-])(none|minimal|low|medium|high|xhigh|max)(?![\w-])", re.I)
_THINKING_TYPE = re.compile(
    r"thinking\.type\.[`'\"]?(\w+)[`'\"]?.{0,40}not supported"
    r"|\b(adaptive|enabled|disabled)\b[`'\"]? thinking is not supported"
    r"|input tag [`'\"](adaptive|enabled|disabled|between_tools)[`'\"] found using [`'\"]?type",
    re.I | re.S,
)


def _summary(said: _Said) -> Fix | None:
    if said.find(_VERIFY):
        return Fix("reasoning.summary", partial(without, ("reasoning", "summary")))
    return None


def _thinking_type(said: _Said) -> Fix | None:
    found = said.find(_THINKING_TYPE)
    given = as_object(said.head.get("thinking")).get("type")
    if found is None or given is None:
        return None
    refused = next(filter(None, found.groups())).lower()
    if refused != given:
        return None
    if "thinking.type" in said.tried:  # neither kind is known
        return Fix("thinking", partial(without, ("thinking",)))
    return Fix("thinking.type", partial(thinks_otherwise, refused))


def _effort_value(said: _Said) -> Fix | None:
    """The nearest of the levels that the service lists, or the one next to that which it refuses."""
    path = effort_path(said.head)
    if path is None or "effort" not in said.text.lower():
        return None
    given: str = at(said.head, path)
    listed = said.find(_ONE_OF)
    allowed = (
        frozenset(value.lower() for value in _LEVEL.findall(listed[1])) if listed is not None else frozenset[str]()
    )
    if allowed:
        return Fix("effort", partial(clamped, allowed)) if given not in allowed else None
    named = re.search(rf"[`'\"]{re.escape(given)}[`'\"]", said.text) and said.find(_REFUSES)
    if not named or any(field.startswith("effort") for field in said.tried):
        return None
    others = ("low", "medium", "high", "xhigh", "max") + ("none", "minimal") * (path[0] != "output_config")
    return Fix(f"effort {given}", partial(clamped, frozenset(others) - {given}))


# Fields that a service does not know at all.

_REFUSES = re.compile(
    r"\b(?:un(?:known|recogni[sz]ed|supported|expected)"
    r"|not (?:supported|permitted|allowed|available|recogni[sz]ed|valid)"
    r"|(?:does not|doesn't|do not|cannot) (?:support|accept|allow|be used)"
    r"|extra[_ ](?:inputs|fields|forbidden)|deprecated|no such (?:parameter|field)"
    r"|invalid (?:parameter|field|argument|request argument|property))",
    re.I,
)
# What is left out where it is named, the finer part before the coarser.
_DROPPED: tuple[Path, ...] = (
    ("reasoning", "summary"),
    *EFFORTS,
    ("reasoning",),
    ("output_config",),
    ("thinking", "display"),
    ("thinking",),
    ("stream_options", "include_obfuscation"),
    ("stream_options",),
    ("parallel_tool_calls",),
    ("prompt_cache_key",),
    ("cache_control",),
    ("temperature",),
    ("top_p",),
    ("include",),
    ("store",),
)
# Words of every day, which count only where they are plainly names.
_ORDINARY = frozenset({"effort", "reasoning", "thinking", "temperature", "include", "store", "strict"})


def _unknown_field(said: _Said) -> Fix | None:
    if said.find(_REFUSES) is None:
        return None
    for path in _DROPPED:
        if at(said.head, path) is not None and _mentions(said.text, path):
            return Fix(".".join(path), partial(without, path))
    if (path := effort_path(said.head)) and re.search(r"\beffort\b", said.text, re.I):
        return Fix("effort", partial(without, path))
    return Fix("strict", not_strict) if re.search(r"[.\]`'\"]strict\b", said.text) else None


def _mentions(text: str, path: Path) -> bool:
    """Whether ``text`` speaks of the field. The names of a path may have one in between (``thinking.adaptive.display``)
    and a wrapper in front (``body.store``)."""
    name = r"\.(?:\w+\.)?".join(map(re.escape, path))
    found = rf"[`'\"](?:\w+\.)*{name}[`'\"]|(?:^|[\s:(;,])(?:body\.|request\.)?{name}:|supplied: {name}\b"
    if len(path) > 1 or not _ORDINARY.issuperset(path):
        found += rf"|(?<![\w.]){name}(?!\w|\.\w)"
    return re.search(found, text) is not None


_RULES: tuple[Callable[[_Said], Fix | None], ...] = (
    _sealed,
    _summary,
    _thinking_type,
    _effort_value,
    _limit,
    _other_limit,
    _room,
    _unknown_field,
)


def _integer(text: str) -> int:
    digits = re.sub(r"\D", "", text)
    return int(digits) if digits else 0
