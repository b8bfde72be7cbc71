"""How the demo model uses tools that it was not written for: those of the caller's own.

It has no way to know when such a tool helps, so it calls the ones that the prompt names. Arguments are the JSON object
that stands in the prompt, else made of the tool's schema and the words behind its name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agent_nodes.messages import ImageBlock, JsonObject, JsonValue, ToolCall, ToolResultMessage, ToolSpec, repair_json
from agent_nodes.providers.script import Call

BUILT_IN = frozenset({"bash", "edit", "find", "grep", "ls", "read", "write"})
MAX_QUOTE = 200
NO_REASON = "the tool gave no reason"
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x7f]")
# ASCII borders: in many languages a particle follows a name without a blank.
BEFORE, BEHIND = r"(?<![A-Za-z0-9_:/.~-])", r"(?![A-Za-z0-9_/-])"

FILLED_IN = (
    "I filled in the arguments from the tool's schema and your words; "
    "a JSON object behind the tool's name says exactly what to send."
)
_NOT_A_FILE = r"(?!\.[A-Za-z0-9])"
_AROUND = " \t\r\n.,:;!?'\"`()[]{}<>-"
_FILLER = "demo"
_MAX_LINES = 12
_MAX_DEPTH = 8
_DECODER = json.JSONDecoder(parse_constant=lambda _: _no_json())


def own_tools(tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    return [tool for tool in tools if tool.name not in BUILT_IN]


def calls_named(prompt: str, tools: Sequence[ToolSpec], file: str | None) -> list[Call]:
    """One call for each tool that ``prompt`` names as a word of its own, in its order.

    What stands between a tool's name and the next one's is about that tool; so is what stands before the first.
    ``file`` is the first file that the prompt names.
    """
    objects = list(_objects(prompt))
    words = prompt
    for start, end, _ in objects:
        words = words[:start] + " " * (end - start) + words[end:]
    places = _places(words, tools)
    calls: list[Call] = []
    for number, (start, end, tool) in enumerate(places):
        until = places[number + 1][0] if number + 1 < len(places) else len(words)
        given = [value for at, _, value in objects if (start if number else 0) <= at < until]
        behind = words[end:until].strip(_AROUND)
        arguments = given[0] if given else sample(tool.parameters, behind, file)
        calls.append(Call(tool.name, _json(arguments), arguments))
    return calls


def filled_in(prompt: str, calls: Sequence[ToolCall]) -> bool:
    """Whether ``calls`` say anything that does not stand in ``prompt`` as an object."""
    given = [value for _, _, value in _objects(prompt)]
    return any(call.arguments and call.arguments not in given for call in calls)


def sample(schema: JsonObject, words: str = "", file: str | None = None) -> JsonObject:
    """Arguments that fit ``schema``, as far as its required properties tell."""
    return _Filler(schema, words, file).object(schema)


def tell_call(call: ToolCall, result: ToolResultMessage) -> str:
    """A paragraph about what came of ``call``."""
    called = f"`{call.name}` with `{_cut(_json(call.arguments))}`"
    if result.is_error:
        why = " ".join(lines(result.text)[:_MAX_LINES]) or NO_REASON
        return f"I called {called}, and it failed: {_cut(why)}"
    if any(isinstance(block, ImageBlock) for block in result.content):
        return f"I called {called}. It gave a picture, and I cannot see pictures."
    if CONTROL.search(result.text):
        return f"I called {called}. Its result does not look like text, so I quote nothing from it."
    found = lines(result.text)
    if not found:
        return f"I called {called}. Its result is empty."
    quoted = [f"> {_cut(line)}" for line in found[:_MAX_LINES]]
    more = ["> …"] if len(found) > _MAX_LINES else []
    return "\n".join([f"I called {called} and got:\n", *quoted, *more])


def how_to_call(tools: Sequence[ToolSpec]) -> str:
    """One sentence on how to have one of ``tools`` called."""
    names = ", ".join(f"`{tool.name}`" for tool in tools[:_MAX_LINES]) + (", …" if len(tools) > _MAX_LINES else "")
    example = _cut(f"{tools[0].name} {_json(sample(tools[0].parameters))}")
    what = names if len(tools) == 1 else f"one of {names}"
    return f"I call {what} when the prompt names it, best with its arguments behind the name: `{example}`."


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def first_line(text: str) -> str:
    return next(iter(lines(text)), NO_REASON)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_QUOTE else text[:MAX_QUOTE] + " …"


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _places(words: str, tools: Sequence[ToolSpec]) -> list[tuple[int, int, ToolSpec]]:
    """Where the tools are named: start, end and tool, in the order of the text. The exact spelling goes first."""
    found: dict[int, tuple[int, int, ToolSpec]] = {}
    missed: list[ToolSpec] = []
    for tool in tools:
        if hit := re.search(_word(tool.name), words):
            found[hit.start()] = (*hit.span(), tool)
        else:
            missed.append(tool)
    for tool in missed:
        if hit := re.search(_word(tool.name), words, re.IGNORECASE):
            found.setdefault(hit.start(), (*hit.span(), tool))
    return [place for _, place in sorted(found.items())]


def _word(name: str) -> str:
    return BEFORE + re.escape(name) + BEHIND + _NOT_A_FILE


def _objects(text: str) -> Iterator[tuple[int, int, JsonObject]]:
    """The JSON objects in ``text``: where each begins and ends, and what it says."""
    at = text.find("{")
    while at >= 0:
        try:
            value, end = _DECODER.raw_decode(text, at)
            json.dumps(value, allow_nan=False)  # 1e999 is read as a number that JSON does not have
        except (ValueError, RecursionError):
            end = at + 1
        else:
            yield at, end, cast("JsonObject", repair_json(value))
        at = text.find("{", end)


def _no_json() -> Any:
    raise ValueError("NaN and Infinity are no JSON")


@dataclass(frozen=True, slots=True)
class _Filler:
    """Makes values for the schema ``root``; strings are the ``file`` where they seem to want one, else ``words``."""

    root: JsonObject
    words: str
    file: str | None

    def object(self, schema: JsonObject, depth: int = 0) -> JsonObject:
        properties = cast("JsonObject", schema.get("properties") or {})
        required = cast("Sequence[str]", schema.get("required") or ())
        return {name: self.value(properties.get(name), name, depth + 1) for name in required}

    def value(self, given: JsonValue, name: str, depth: int) -> JsonValue:
        schema = _resolved(given, self.root)
        for word in ("const", "default"):
            if word in schema:
                return schema[word]
        choices: Any = schema.get("enum")
        if isinstance(choices, list) and choices:
            return cast("list[JsonValue]", choices)[0]
        kind: object = schema.get("type")
        if isinstance(kind, list):
            kind = next(iter(cast("list[object]", kind)), None)
        match kind:
            case "integer" | "number":
                return 1
            case "boolean":
                return True
            case "array":
                return []
            case "null":
                return None
            case "object":
                return self.object(schema, depth) if depth < _MAX_DEPTH else {}
            case _:
                return self.text(name)

    def text(self, name: str) -> str:
        if self.file is not None and re.search("path|file", name, re.IGNORECASE):
            return self.file
        return self.words or self.file or _FILLER


def _resolved(given: JsonValue, root: JsonObject) -> JsonObject:
    """The schema behind references into ``root`` and, of alternatives, the first."""
    schema: Any = given
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, dict):
            return {}
        here = cast("JsonObject", schema)
        reference = here.get("$ref")
        ways: Any = here.get("anyOf") or here.get("oneOf") or here.get("allOf")
        if isinstance(reference, str) and reference.startswith("#/"):
            schema = root
            for part in reference[2:].split("/"):
                schema = cast("JsonObject", schema).get(part) if isinstance(schema, dict) else None
        elif isinstance(ways, list) and ways and "type" not in here and "default" not in here:
            schema = cast("list[Any]", ways)[0]
        else:
            return here
    return {}
