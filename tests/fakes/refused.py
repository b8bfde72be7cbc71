"""The exception of the checks, and the small questions that all three share."""

import re
from collections.abc import Iterable
from typing import Any

from tests.fakes.scripts import Json

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Refused(Exception):
    """The request would be answered with `status` and this message."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        type: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.type, self.param, self.code = status, type, param, code


def text_only(model: str) -> bool:
    """Models named so have no eyes."""
    return "textonly" in model


def only_fields(value: Any, allowed: Iterable[str], where: str) -> Json:
    """`value` as an object without unknown fields."""
    if not isinstance(value, dict):
        raise Refused(f"{where}: Input should be an object", param=where)
    for name in value.keys() - set(allowed):
        raise Refused(f"{where}.{name}: Extra inputs are not permitted", param=f"{where}.{name}")
    return value


def whole_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def strict_valid(schema: Any) -> bool:
    """Whether a tool schema keeps the rules of `strict`: closed objects with every property required."""
    if isinstance(schema, list):
        return all(map(strict_valid, schema))
    if not isinstance(schema, dict):
        return True
    if "properties" in schema or schema.get("type") == "object":
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", [])) != set(properties):
            return False
        if not all(map(strict_valid, properties.values())):
            return False
    return all(strict_valid(schema[name]) for name in ("items", "anyOf", "$defs") if name in schema)
