"""What a service says about an error, read out of the many shapes such bodies have."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, replace
from typing import Any, cast

from agent_nodes.messages import JsonObject, JsonValue
from agent_nodes.providers.sse import loads

_PAGE_LIMIT = 8192  # of a web page, in search of its title


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """The service's text on one line, its codes in lower case, finest first, and, where the body has one, a status and
    the field of the request that is wrong."""

    text: str = ""
    codes: tuple[str, ...] = ()
    status: int | None = None
    param: str | None = None


def report_of_body(body: bytes) -> ErrorReport:
    """JSON, a web page or plain text."""
    text = body.decode("utf-8", "replace").strip()
    if text[:1] in {"{", "["}:
        try:
            return report_of_json(loads(body))
        except ValueError:
            return ErrorReport(one_line(text))
    return ErrorReport(page_text(text) if text.startswith("<") else one_line(text))


def report_of_json(value: JsonValue) -> ErrorReport:
    """``{"error": {…}}``, ``{"error": "text"}``, ``{"detail": …}``, ``{"message": …}``, text, or a list of these."""
    if isinstance(value, list):
        return report_of_json(value[0] if value else None)
    if not isinstance(value, dict):
        return ErrorReport("" if value is None else one_line(str(value)))
    outer = cast("JsonObject", value)
    inner = outer.get("error") or outer.get("detail")
    if isinstance(inner, dict):
        return _from_object(cast("JsonObject", inner))
    if isinstance(inner, str):
        return replace(_from_object(outer), text=one_line(inner))
    return _from_object(outer)


def page_text(page: str) -> str:
    """A web page boiled down to its title, or to the beginning of its text."""
    page = re.sub(r"(?is)<(script|style)\b.*?</\1\s*>", " ", page[:_PAGE_LIMIT])
    title = re.search(r"(?is)<title\b[^>]*>(.*?)</title", page)
    text = title[1] if title else re.sub(r"(?s)<[^>]*>?", " ", page)
    return one_line(html.unescape(text))[:200]


def one_line(text: str) -> str:
    """``text`` on one line, without control characters and lone surrogates."""
    return " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+", " ", text).split())


def _from_object(error: JsonObject) -> ErrorReport:
    codes: list[str] = []
    status: int | None = None
    for value in (_part(error, "details", "error_code"), error.get("code"), error.get("type"), error.get("status")):
        word = str(value).lower() if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
        if re.fullmatch(r"[45]\d\d", word):
            status = status or int(word)
        elif word and word != "error" and not word.isdecimal():
            codes.append(word)
    text = _text_of(error)
    # A relay keeps the words of the service behind it here, and has nothing to say itself.
    behind = _part(error, "metadata", "raw")
    if isinstance(behind, str) and behind:
        text = f"{text}: {behind}"
    param = error.get("param")
    return ErrorReport(one_line(text), tuple(codes), status, one_line(param) if isinstance(param, str) else None)


def _part(error: JsonObject, field: str, name: str) -> JsonValue:
    inner = error.get(field)
    return cast("JsonObject", inner).get(name) if isinstance(inner, dict) else None


def _text_of(error: JsonObject) -> str:
    said: Any = error.get("message") or error.get("detail") or error.get("msg") or error.get("errors")
    parts: list[str] = []
    for item in cast("list[Any]", said) if isinstance(said, list) else [said]:
        if isinstance(item, dict):
            entry = cast("JsonObject", item)
            place = entry.get("loc")
            where = ".".join(str(step) for step in cast("list[Any]", place)) if isinstance(place, list) else ""
            parts.append(f"{where}: {_text_of(entry)}" if where else _text_of(entry))
        elif item is not None:
            parts.append(str(item))
    return "; ".join(parts)
