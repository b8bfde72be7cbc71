"""What went wrong, in one form: from an HTTP answer, from an error inside a stream, from a broken connection.

The service's own text stays the message. Whether another try may help is read from its codes first, then from the text,
then from the status. Quota, overflow and refusal are never retried, whatever a header says.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from email.utils import mktime_tz, parsedate_tz
from http import HTTPStatus
from typing import cast

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import JsonValue
from agent_nodes.providers.base import Failure, FailureKind
from agent_nodes.providers.error_report import ErrorReport, one_line, report_of_body, report_of_json
from agent_nodes.providers.redaction import redact

MESSAGE_LIMIT = 1000
_FAR = 1e12  # seconds; as far away as dates get

# Codes that settle the matter, most telling first: a service may send a fine code inside a coarse type.
_DECISIVE: tuple[tuple[FailureKind, frozenset[str]], ...] = (
    (
        "quota",
        frozenset(
            {
                "insufficient_quota",
                "billing_error",
                "billing_hard_limit_reached",
                "billing_not_active",
                "insufficient_balance",
                "insufficient_credits",
                "contract_spend_limit_reached",
                "enforced_spend_limit_reached",
                "linked_organization_spend_limit_reached",
            }
        ),
    ),
    (
        "overflow",
        frozenset(
            {
                "context_length_exceeded",
                "exceed_context_size_error",
                "model_context_window_exceeded",
                "contextwindowexceedederror",
                "request_too_large",
            }
        ),
    ),
    (
        "refused",
        frozenset(
            {
                "content_filter",
                "content_policy_violation",
                "invalid_prompt",
                "bio_policy",
                "misalignment_policy_violation",
            }
        ),
    ),
    (
        "transient",
        frozenset(
            {
                "rate_limit_error",
                "rate_limit_exceeded",
                "resource_exhausted",
                "too_many_requests",
                "overloaded_error",
                "timeout_error",
            }
        ),
    ),
)
# Codes so coarse that the text decides before them.
_COARSE: dict[str, FailureKind] = {
    "authentication_error": "auth",
    "permission_error": "auth",
    "permission_denied": "auth",
    "unauthenticated": "auth",
    "invalid_api_key": "auth",
    "invalid_request_error": "invalid",
    "invalid_argument": "invalid",
    "not_found_error": "invalid",
    "model_not_found": "invalid",
    "string_above_max_length": "invalid",
    "data_residency_mismatch": "invalid",
    "validationexception": "invalid",
    "resourcenotfoundexception": "invalid",
    "accessdeniedexception": "auth",
}

_RATE = re.compile(
    r"rate.?limit|too many requests|throttl|quota|please wait|per[ -](?:minute|min|hour|day)\b|\btp[md]\b", re.I
)
_QUOTA = re.compile(
    r"exceeded your current quota|credit balance is too low|insufficient (?:quota|balance|credits?|funds)"
    r"|out of credits?|no credits? left|payment required|spend(?:ing)? limit|billing (?:hard )?limit",
    re.I,
)
_OVERFLOW = re.compile(
    "|".join(
        (
            r"prompt (?:is )?too long",
            r"input is too long for requested model",
            r"input length and `?max_tokens`? exceed context limit",
            r"exceeds? (?:the |this )?(?:model(?:'s)? |available |maximum |max )?context (?:window|size|length)",
            r"context[ _]?(?:window|length|size) (?:has been )?exceed(?:ed|s)",
            r"context[ _]?(?:window|length)_?exceeded",
            r"maximum (?:context|model) length",
            r"maximum prompt length is",
            r"maximum allowed input length",
            r"exceeds? the maximum size",
            r"too many (?:input )?tokens",
            r"input tokens exceed the configured limit",
            r"input token count .{0,40}exceeds? the maximum",
            r"prompt token count .{0,40}exceeds? the limit",
            r"token limit exceeded",
            r"exceeded model token limit",
            r"(?:longer|greater) than the (?:model's |maximum )?context length",
            r"reduce the length of the (?:messages|prompt|input)",
            r"context shift is disabled",
            r"context the overflows",
        )
    ),
    re.I,
)
_WAIT = re.compile(
    r"(?:try again|retry)\s+(?:in|after)\s+((?:\d+(?:\.\d+)?\s*"
    r"(?:ms|milliseconds?|s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:ours?)?)(?![a-z])\s*)+)",
    re.I,
)
_WAIT_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|s|m|h)")
_SECONDS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def dropped(message: str) -> Failure:
    """The connection or the stream gave out before the response was whole."""
    return Failure("dropped", message, retryable=True)


def invalid(message: str) -> Failure:
    """The request or its address is wrong, and would be again."""
    return Failure("invalid", message, retryable=False)


def http_failure(status: int, headers: Mapping[str, str], body: bytes, *, now: float) -> Failure:
    """What an answer outside 2xx stands for. ``headers`` are asked by lower-case name; ``now`` is wall time in seconds,
    for a Retry-After that is a date."""
    if 300 <= status < 400:
        return invalid(_redirect(status, headers.get("location", "")))
    failure = _failure(report_of_body(body), status)
    wait = _header_wait(headers, now)
    if wait is not None:
        failure = replace(failure, retry_after=wait)
    asked = headers.get("x-should-retry", "").lower()
    if asked == "false":
        failure = replace(failure, retryable=False)
    elif asked == "true" and failure.kind in {"invalid", "auth"}:
        failure = replace(failure, kind="transient", retryable=True)
    return failure


def error_failure(error: JsonValue) -> Failure:
    """What an error in a stream or in a 200 answer stands for; takes the whole event or the error object in it."""
    report = report_of_json(error)
    return _failure(report, report.status)


def is_overflow(text: str) -> bool:
    """Whether a service's text says that the context is too long; a limit on tokens a minute is something else."""
    return _OVERFLOW.search(text) is not None and _RATE.search(text) is None


class ProxyFailed(Exception):
    """A proxy gave no connection; ``proxy`` is what it is called, with the variable that names it."""

    def __init__(self, proxy: str) -> None:
        super().__init__()
        self.proxy = proxy


def transport_failure(error: Exception, origin: str) -> Failure:
    """What an exception of the HTTP client stands for; ``origin`` is the address as it may be shown."""
    import httpx2

    reason = _reason(error)
    untrusted = next((cause for cause in _chain(error) if isinstance(cause, ssl.SSLCertVerificationError)), None)
    if untrusted is not None:
        return invalid(f"The certificate of {origin} is not trusted: {untrusted.verify_message}.")
    match error:
        case InputValidationError():
            return invalid(str(error))
        case httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
            return invalid(f"{origin} is no address that can be called; check base_url.")
        case ProxyFailed():
            text = f"{error.proxy} gave no connection to {origin}{reason}."
        case httpx2.ProxyError():
            text = f"The proxy gave no connection to {origin}{reason}."
        case httpx2.ConnectTimeout():
            text = f"No connection to {origin} in time."
        case httpx2.ConnectError():
            text = f"No connection to {origin}{reason}."
        case httpx2.TimeoutException():
            text = f"{origin} did not answer in time."
        case httpx2.DecodingError():
            text = f"The answer of {origin} could not be decompressed."
        case _:
            text = f"The connection to {origin} broke off{reason}."
    return dropped(text)


def sealed(failure: Failure, secrets: Iterable[str]) -> Failure:
    """``failure`` as it may be shown and stored: no secret, one line, at most ``MESSAGE_LIMIT`` characters."""
    # Blotted out before it is cut: half a key at the end would not be found.
    text = one_line(redact(failure.message, secrets))
    if len(text) > MESSAGE_LIMIT:
        text = text[: MESSAGE_LIMIT - 1] + "…"
    return replace(failure, message=text)


def _failure(report: ErrorReport, status: int | None) -> Failure:
    kind = _kind(report, status)
    transient = kind == "transient"
    wait = _text_wait(report.text) if transient else None
    return Failure(kind, _message(report, status, kind), transient, status, wait, report.param)


def _kind(report: ErrorReport, status: int | None) -> FailureKind:
    decisive = _decisive_code(report, status)
    if decisive is not None:
        return decisive
    if status not in {401, 403, 404}:  # those texts speak of keys and models
        if is_overflow(report.text):
            return "overflow"
        if _QUOTA.search(report.text):
            return "quota"
    return _kind_of_status(report, status)


def _decisive_code(report: ErrorReport, status: int | None) -> FailureKind | None:
    for kind, known in _DECISIVE:
        if not known.isdisjoint(report.codes):
            return kind
    if status == 402:
        return "quota"
    if status == 429:  # may be an empty account, is never an overflow
        return "quota" if _QUOTA.search(report.text) else "transient"
    return None


def _kind_of_status(report: ErrorReport, status: int | None) -> FailureKind:
    if status in {401, 403}:
        return "auth"
    if status in {408, 409} or (status is not None and status >= 500):
        return "transient"
    if status == 413:
        return "transient" if _RATE.search(report.text) else "overflow"
    for code in report.codes:
        if code in _COARSE:
            return _COARSE[code]
    # A status of its own class left: the request. None at all, in mid-stream: the service's own trouble.
    return "transient" if status is None else "invalid"


def _message(report: ErrorReport, status: int | None, kind: FailureKind) -> str:
    where = ", ".join([f"HTTP {status}"] * (status is not None) + list(report.codes[:1]))
    if report.text:
        text = f"{report.text} ({where})" if where else report.text
    elif status is not None:
        text = f"The service answered with {_status_line(status)} and no text."
    else:
        text = f"The service reported an error ({where or 'no details given'})."
    return f"{text.rstrip('.')}. Check the API key and what it may be used for." if kind == "auth" else text


def _status_line(status: int) -> str:
    known = status in HTTPStatus._value2member_map_
    return f"HTTP {status} ({HTTPStatus(status).phrase})" if known else f"HTTP {status}"


def _redirect(status: int, location: str) -> str:
    target = location.partition("?")[0]
    to = f" to {target}" if target else ""
    return f"The service redirects{to} (HTTP {status}), which is not followed; set base_url to the final address."


def _header_wait(headers: Mapping[str, str], now: float) -> float | None:
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "").strip()
    seconds = _number(value)
    return seconds if seconds is not None else _seconds_until(value, now)


def _number(value: str) -> float | None:
    return min(float(value), _FAR) if re.fullmatch(r"\d+(?:\.\d*)?", value.strip()) else None


def _seconds_until(date: str, now: float) -> float | None:
    parsed = parsedate_tz(date)
    if parsed is None:
        return None
    try:
        return max(0.0, mktime_tz(parsed) - now)
    except (ValueError, OverflowError):  # a date that no calendar has
        return None


def _text_wait(text: str) -> float | None:
    found = _WAIT.search(text)
    if found is None:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _WAIT_PART.findall(found[1].lower()))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what led to it, the first of a group for the group."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        if isinstance(seen, BaseExceptionGroup):
            seen = cast("BaseExceptionGroup[BaseException]", seen).exceptions[0]
            continue
        # The client hands an error of the layer below on as its argument, and cuts the chain there.
        wrapped = seen.args[0] if seen.args and isinstance(seen.args[0], BaseException) else None
        seen = seen.__cause__ or wrapped or (None if seen.__suppress_context__ else seen.__context__)


def _reason(error: BaseException) -> str:
    """``: `` and what was said at the bottom of it; empty where nothing was."""
    text = ""
    for cause in _chain(error):
        text = _said(cause) or text
    text = one_line(text).rstrip(".")
    return f": {text}" if text else ""


def _said(error: BaseException) -> str:
    if not isinstance(error, OSError):
        return str(error)
    # The numbers of name resolution and of TLS are not the system's.
    if error.errno and not isinstance(error, (ssl.SSLError, socket.gaierror)):
        return os.strerror(error.errno)
    return error.strerror or str(error)
