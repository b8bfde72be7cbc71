"""The checks of the real services, as pure functions of one request and of what this fake handed out before."""

import json
import re
from collections.abc import Mapping
from typing import Any

from tests.fakes.errors import anthropic_error, openai_error
from tests.fakes.issued import Issued
from tests.fakes.refused import Refused
from tests.fakes.requests import Protocol, protocol_of
from tests.fakes.scripts import Json
from tests.fakes.strict_anthropic import check_messages
from tests.fakes.strict_chat import check_chat
from tests.fakes.strict_responses import check_responses

_CHECKS = {"anthropic": check_messages, "responses": check_responses, "completions": check_chat}
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(rb"\\u[dD][89abAB]|\\u[dD][c-fC-F]")


def check(
    path: str, headers: Mapping[str, str], body: bytes | Json, issued: Issued | None = None
) -> tuple[int, Json] | None:
    """(status, error body) where the real service would refuse, else None.

    `headers` by lower-case name. `body` as sent, or already as an object. Without `issued` every seal is foreign.
    """
    protocol = protocol_of(path)
    if protocol is None:
        return 404, not_found(path)
    try:
        _check_headers(protocol, headers)
        request = _parsed(body if isinstance(body, bytes) else json.dumps(body).encode())
        if request.get("stream") is not True:
            raise Refused("stream: this server only streams", param="stream")
        _CHECKS[protocol](request, issued or Issued())
    except Refused as refused:
        return refused.status, _body(protocol, refused)
    return None


def not_found(path: str) -> Json:
    message = f"Invalid URL (POST {path})"
    return anthropic_error("not_found_error", message) if "messages" in path else openai_error(message)


def keys_in(headers: Mapping[str, str]) -> set[str]:
    found = {headers["x-api-key"]} if "x-api-key" in headers else set[str]()
    scheme, _space, key = headers.get("authorization", "").partition(" ")
    return found | {key.strip()} if scheme.lower() == "bearer" else found


def wrong_key(path: str) -> tuple[int, Json]:
    refused = Refused("invalid x-api-key", status=401, type="authentication_error", code="invalid_api_key")
    return 401, _body(protocol_of(path), refused)


def _body(protocol: Protocol | None, refused: Refused) -> Json:
    if protocol == "anthropic":
        return anthropic_error(refused.type, str(refused))
    return openai_error(str(refused), type=refused.type, param=refused.param, code=refused.code)


def _check_headers(protocol: Protocol, headers: Mapping[str, str]) -> None:
    if not any(keys_in(headers)):
        raise Refused("no api key was sent", status=401, type="authentication_error")
    if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Refused(f"content-type: expected application/json, got {headers.get('content-type')!r}")
    if protocol == "anthropic" and not headers.get("anthropic-version"):
        raise Refused("anthropic-version: header is required")


def _parsed(raw: bytes) -> Json:
    try:
        request = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except ValueError as problem:  # UnicodeDecodeError is one too
        raise Refused(f"The request body is not valid JSON: {problem}") from problem
    if not isinstance(request, dict):
        raise Refused("The request body must be a JSON object")
    if _ESCAPE.search(raw):
        _no_lone_surrogate(request, "$")
    return request


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _no_lone_surrogate(value: Any, where: str) -> None:
    if isinstance(value, str):
        if _SURROGATE.search(value):
            raise Refused(f"The request body is not valid JSON: no low surrogate in string at {where}")
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            _no_lone_surrogate(entry, f"{where}[{index}]")
    elif isinstance(value, dict):
        for name, entry in value.items():
            _no_lone_surrogate(name, where)
            _no_lone_surrogate(entry, f"{where}.{name}")
