"""JSON Schemas: compiled once, never fetched, never stalled by a pattern; and what is wrong with a value, in words that
name the field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import orjson

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import JsonObject, JsonValue
from agent_nodes.tools.base import AgentTool
from agent_nodes.tools.effort import MOST_ALTERNATIVES, alternatives, local, steps

SHOWN_MISTAKES = 5
SHOWN_TEXT = 200
CACHED = 256
SLOW_TEXT = 5_000
"""Characters of a text that a pattern with look-around or references back is tried on."""

NAMED_STEPS = 10_000
NAMED_BYTES = 100_000_000
"""Mistakes are named where finding all of them takes so many steps, and so many bytes are copied for that: each holds
the value it is about."""

NAMED_MISTAKES = 10_000
"""As much for pydantic, which counts them before it names them."""

_DIALECTS = frozenset(
    f"json-schema.org/{draft}schema"
    for draft in ("", "draft-04/", "draft-06/", "draft-07/", "draft/2019-09/", "draft/2020-12/")
)

_VALUES = frozenset({"const", "default", "enum", "examples"})

# Compiled validators by the identity of the schema, which is kept beside so that the identity stays its own.
_validators: dict[int, tuple[object, Any]] = {}


class BadSchema(ValueError):
    """A schema that cannot be used; the text says why."""


def check_tool(tool: AgentTool, where: str) -> None:
    """Raises :class:`InputValidationError` for a JSON Schema of the tool that is none; ``where`` is its place."""
    checked = tool.parameters if tool.model is None else None
    for name, schema in (("parameters", checked), ("output_schema", tool.output_schema)):
        if not isinstance(schema, dict):
            continue
        try:
            validator(cast("JsonObject", schema))
        except BadSchema as error:
            raise InputValidationError(
                f"{where}: tool {tool.name}: {name} is no usable JSON Schema: {error}", field=where
            ) from error


def mistakes(schema: JsonObject, value: JsonValue) -> list[str]:
    """What is wrong with ``value``, a line for each field, the first :data:`SHOWN_MISTAKES`. Raises
    :class:`BadSchema`."""
    checked = validator(schema)
    if checked.is_valid(value):
        return []
    work = steps(schema, value)
    if work > NAMED_STEPS or work * len(orjson.dumps(value)) > NAMED_BYTES:
        return ["something in them does not fit the schema; they are too large or too deep to say where"]
    found = [_mistake(error) for error in checked.iter_errors(value)]
    left = len(found) - SHOWN_MISTAKES
    return [*found[:SHOWN_MISTAKES], f"and {left} more"] if left > 0 else found


def model_mistakes(error: Any) -> list[str]:
    """As :func:`mistakes`, of a pydantic ``ValidationError``; without the rejected values."""
    if error.error_count() > NAMED_MISTAKES:
        return [f"{error.error_count():,} mistakes, too many to name"]
    found: list[str] = []
    items: list[Any] = error.errors(include_url=False, include_input=False, include_context=False)
    for item in items[:SHOWN_MISTAKES]:
        path = ".".join(str(part) for part in item["loc"])
        what: str = {"missing": "missing", "extra_forbidden": "unknown field"}.get(item["type"]) or item["msg"]
        found.append(f"{path}: {what}" if path else what)
    left = len(items) - SHOWN_MISTAKES
    return [*found, f"and {left} more"] if left > 0 else found


def validator(schema: JsonObject) -> Any:
    """The compiled ``schema``. Raises :class:`BadSchema`."""
    key = id(schema)
    known = _validators.get(key)
    if known is not None:
        return known[1]
    import jsonschema_rs

    # A dialect nobody knows is read as the newest one, of which it is some extension.
    make: Any = jsonschema_rs.validator_for if _known_dialect(schema) else jsonschema_rs.Draft202012Validator
    try:
        try:
            compiled = make(schema, retriever=_no_retrieval, pattern_options=jsonschema_rs.RegexOptions())
        except jsonschema_rs.ValidationError:  # perhaps of a pattern that only the slow engine knows
            compiled = make(_limited(schema), retriever=_no_retrieval)
        if alternatives(schema) > MOST_ALTERNATIVES:
            raise BadSchema(f"its alternatives multiply to more than {MOST_ALTERNATIVES:,} for one value")
    except jsonschema_rs.ValidationError as error:
        raise BadSchema(_mistake(error).partition("\n")[0]) from error
    except (ValueError, RecursionError) as error:
        raise BadSchema(str(error).partition("\n")[0]) from error
    while len(_validators) >= CACHED:
        _validators.pop(next(iter(_validators)), None)
    _validators[key] = (schema, compiled)
    return compiled


def _limited(schema: Any) -> Any:
    """``schema`` with a limit to the text that a pattern beyond the linear engine is tried on: its time may grow with
    the square of that."""
    if isinstance(schema, list):
        return [_limited(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    node = cast("JsonObject", schema)
    limited = {key: item if key in _VALUES else _limited(item) for key, item in node.items()}
    pattern, names = node.get("pattern"), node.get("patternProperties")
    if isinstance(pattern, str) and not _linear(pattern):
        del limited["pattern"]
        short = {"maxLength": SLOW_TEXT}
        limited["allOf"] = [*limited.get("allOf", []), {"if": short, "then": {"pattern": pattern}, "else": short}]
    for name in cast("JsonObject", names) if isinstance(names, dict) else ():
        if not _linear(name):
            raise BadSchema(f"patternProperties: {name!r} looks around or back, which is for values only")
    return limited


def _linear(pattern: str) -> bool:
    import jsonschema_rs

    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions())
    except jsonschema_rs.ValidationError:
        return False
    return True


def _known_dialect(schema: JsonObject) -> bool:
    dialect = schema.get("$schema")
    return not isinstance(dialect, str) or dialect.partition("://")[2].removesuffix("#") in _DIALECTS


def _no_retrieval(uri: str) -> Any:
    raise ValueError(f"{uri} is elsewhere, and a schema is never fetched; put the definition into $defs")


def _mistake(error: Any) -> str:
    """``field.0.name: what is wrong``; without the value where it is long."""
    path = ".".join(_shown(str(part)) for part in error.instance_path)
    kind = error.kind
    inside = f"{path}." if path else ""
    if kind.name == "required":
        return f"{inside}{kind.property}: missing"
    if kind.name == "additionalProperties":
        return "; ".join(f"{inside}{_shown(name)}: unknown field" for name in kind.unexpected[:SHOWN_MISTAKES])
    message = _shown(error.message)
    return f"{path}: {message}" if path else message


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_TEXT else f"{text[: SHOWN_TEXT // 2]} … {text[-SHOWN_TEXT // 2 :]}"


def branches(schema: object, root: JsonObject, seen: set[str] | None = None) -> Iterator[JsonObject]:
    """What ``schema`` may be: itself, what it refers to within ``root``, or its alternatives. A reference is followed
    once."""
    if not isinstance(schema, dict):
        return
    seen = set() if seen is None else seen
    found = cast("JsonObject", schema)
    reference = found.get("$ref")
    if isinstance(reference, str):
        if reference not in seen:
            seen.add(reference)
            yield from branches(local(reference, root), root, seen)
        return
    alternatives: object = found.get("anyOf", found.get("oneOf"))
    if not isinstance(alternatives, list):
        yield found
        return
    for item in cast("list[object]", alternatives):
        yield from branches(item, root, seen)
