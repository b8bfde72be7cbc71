"""What an HTTP answer, an error in a stream or a broken connection is taken for."""

import json
import ssl
from email.utils import formatdate
from typing import Any

import httpx2
import pytest

from agent_nodes.providers.base import Failure
from agent_nodes.providers.failures import (
    MESSAGE_LIMIT,
    error_failure,
    http_failure,
    is_overflow,
    redact,
    sealed,
    transport_failure,
)

NOW = 1_800_000_000.0


def answered(status: int, body: Any = b"", **headers: str) -> Failure:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http_failure(status, {name.replace("_", "-"): value for name, value in headers.items()}, raw, now=NOW)


def anthropic(type: str, message: str = "words", code: str | None = None) -> dict[str, Any]:
    return {"type": "error", "error": {"type": type, "message": message, "details": code and {"error_code": code}}}


def openai(message: str = "words", *, type: str | None = None, code: str | int | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, "invalid", False),
        (401, "auth", False),
        (402, "quota", False),
        (403, "auth", False),
        (404, "invalid", False),
        (405, "invalid", False),
        (408, "transient", True),
        (409, "transient", True),
        (413, "overflow", False),
        (422, "invalid", False),
        (429, "transient", True),
        (500, "transient", True),
        (502, "transient", True),
        (503, "transient", True),
        (504, "transient", True),
        (529, "transient", True),
    ],
)
def test_a_status_decides_where_nothing_else_is_said(status: int, kind: str, retryable: bool) -> None:
    for body in (b"", b"words", {"error": {"message": "words"}}):
        failure = answered(status, body)
        assert (failure.kind, failure.retryable, failure.status) == (kind, retryable, status)


def test_re_03_an_empty_account_is_not_retried_and_says_so() -> None:
    body = b'{"error":{"code":"insufficient_quota","message":"no credit left"}}'
    failure = answered(429, body, retry_after="3", x_should_retry="true")
    assert (failure.kind, failure.retryable) == ("quota", False)
    assert "no credit left" in failure.message


@pytest.mark.parametrize(
    "failure",
    [
        answered(429, openai("You exceeded your current quota, please check your plan.", type="insufficient_quota")),
        answered(429, anthropic("rate_limit_error", code="contract_spend_limit_reached")),
        answered(429, b"You exceeded your current quota, please check your plan and billing details."),
        answered(400, anthropic("invalid_request_error", "Your credit balance is too low to access the API.")),
        answered(403, anthropic("billing_error")),
        answered(402, {"error": {"message": "Insufficient credits", "code": 402}}),
        error_failure({"type": "error", "code": "insufficient_quota", "message": "no credit left", "param": None}),
        error_failure({"code": "insufficient_quota", "message": "no credit left"}),
    ],
)
def test_quota_and_billing_are_never_retried(failure: Failure) -> None:
    assert (failure.kind, failure.retryable) == ("quota", False)


def test_a_used_up_minute_is_no_empty_account() -> None:
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your current quota."}}
    assert (answered(429, body).kind, answered(429, body).retryable) == ("transient", True)


OVERFLOWS = [
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
    "maximum context length is 4096 tokens. However, you requested",
    "the request exceeds the available context size, try increasing it",
    "context shift is disabled",
    "prompt is too long: 5000 tokens > 4096",
    "input length and `max_tokens` exceed context limit: 186433 + 20000 > 200000, decrease input length",
    "Request size exceeds model context window",
    "Request exceeds the maximum size",
    "Input is too long for requested model.",
    "too many input tokens",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "Input tokens exceed the configured limit of 272000 tokens",
    "litellm.ContextWindowExceededError: This model's limit",
    "The input (5000 tokens) exceeds the model's maximum context length of 4096",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Please reduce the length of the messages or completion.",
    "Maximum allowed input length of 3000",
    "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    "Prompt contains 5000 tokens, too large for model with 4096 maximum context length",
    "prompt token count of 5000 exceeds the limit of 4096",
    "invalid params, context window exceeds limit",
    "Your request exceeded model token limit: 4096",
    "The prompt (length 5000) is longer than the maximum model length of 4096.",
    "Context size has been exceeded.",
    "The number of tokens to keep from the initial prompt is greater than the context length.",
    "Trying to keep the first 5000 tokens when context the overflows.",
    "prompt too long; exceeded max context length by 4 tokens",
    "the input length exceeds the context length",
    "context length exceeded",
    "context_length_exceeded",
    "token limit exceeded",
]


@pytest.mark.parametrize("text", OVERFLOWS)
def test_co_01_texts_of_an_overflow(text: str) -> None:
    assert is_overflow(text)
    seen = [
        answered(400, openai(text, type="invalid_request_error")),
        answered(400, anthropic("invalid_request_error", text)),
        answered(500, openai(text, type="server_error")),
        answered(413, text.encode()),
        error_failure({"error": text}),
    ]
    assert [(failure.kind, failure.retryable) for failure in seen] == [("overflow", False)] * len(seen)


@pytest.mark.parametrize(
    "failure",
    [
        answered(400, openai("no words for it", code="context_length_exceeded")),
        answered(400, {"error": {"code": 400, "message": "x", "type": "exceed_context_size_error", "n_ctx": 4096}}),
        answered(413, anthropic("request_too_large")),
        answered(413, b"<html><head><title>413 Request Entity Too Large</title></head></html>"),
        error_failure({"code": "context_length_exceeded", "message": "x"}),
    ],
)
def test_co_01_codes_of_an_overflow(failure: Failure) -> None:
    assert (failure.kind, failure.retryable) == ("overflow", False)


@pytest.mark.parametrize(
    "text",
    [
        "Request too large for gpt-5.5 on tokens per minute (TPM): Limit 30000, Requested 41112.",
        "Rate limit reached: too many tokens per min",
        "Too many tokens, please wait before trying again.",
        "Throttling: too many input tokens",
    ],
)
def test_co_01_a_limit_on_the_rate_is_no_overflow(text: str) -> None:
    assert not is_overflow(text)
    assert answered(400, text.encode()).kind == "invalid"
    assert answered(413, text.encode()).kind == "transient"
    assert answered(413, openai(text, code="rate_limit_exceeded")).kind == "transient"
    assert answered(429, text.encode()).kind == "transient"


def test_co_01_a_limit_on_the_output_is_no_overflow() -> None:
    text = "max_tokens: 300000 > 64000, which is the maximum allowed number of output tokens"
    assert answered(400, anthropic("invalid_request_error", text)).kind == "invalid"


@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (403, "auth"), (404, "invalid")])
def test_a_text_about_models_and_keys_is_no_overflow_and_no_empty_account(status: int, kind: str) -> None:
    for text in ("No model here has a maximum context length of 1000000.", "This key has a spend limit of its own."):
        assert answered(status, openai(text)).kind == kind


def test_an_overflow_text_behind_429_is_a_rate_limit() -> None:
    assert answered(429, openai("prompt is too long: 5 tokens > 4")).kind == "transient"


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (anthropic("overloaded_error", "Overloaded"), "transient", True),
        (anthropic("api_error"), "transient", True),
        (anthropic("rate_limit_error"), "transient", True),
        (anthropic("timeout_error"), "transient", True),
        (anthropic("invalid_request_error"), "invalid", False),
        (anthropic("authentication_error"), "auth", False),
        (anthropic("invalid_request_error", "prompt is too long: 5 tokens > 4 maximum"), "overflow", False),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow down"}, "transient", True),
        ({"code": "server_error", "message": "sorry"}, "transient", True),
        ({"code": "invalid_prompt", "message": "flagged"}, "refused", False),
        ({"error": {"message": "Provider returned error", "code": 502}}, "transient", True),
        ({"error": {"message": "Bad key", "code": "401"}}, "auth", False),
        ({"error": "something broke"}, "transient", True),
        ({"error": {"type": "new_kind_of_error", "message": "who knows"}}, "transient", True),
        (None, "transient", True),
    ],
)
def test_an_error_inside_a_stream(error: Any, kind: str, retryable: bool) -> None:
    failure = error_failure(error)
    assert (failure.kind, failure.retryable) == (kind, retryable)


@pytest.mark.parametrize("kind", ["insufficient_quota", "context_length_exceeded", "content_filter"])
def test_no_header_makes_quota_overflow_or_refusal_retryable(kind: str) -> None:
    assert not answered(400, openai(code=kind), x_should_retry="true").retryable


def test_the_service_may_say_whether_to_retry() -> None:
    assert not answered(500, x_should_retry="false").retryable
    assert not answered(429, x_should_retry="false").retryable
    assert answered(400, x_should_retry="true").retryable
    assert answered(400, x_should_retry="true").kind == "transient"
    assert answered(500, x_should_retry="maybe").retryable


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "3"}, 3.0),
        ({"retry_after": "0"}, 0.0),
        ({"retry_after": "1.5"}, 1.5),
        ({"retry_after": formatdate(NOW + 42, usegmt=True)}, 42.0),
        ({"retry_after": formatdate(NOW - 42, usegmt=True)}, 0.0),
        ({"retry_after_ms": "250", "retry_after": "3"}, 0.25),
        ({"retry_after_ms": "soon", "retry_after": "3"}, 3.0),
        ({"retry_after": "-3"}, None),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "9" * 20}, 1e12),
        ({"retry_after": "9" * 4_000}, 1e12),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "Mon, 99 Foo 99999 99:99:99 GMT"}, None),
        ({}, None),
    ],
)
def test_re_01_the_wait_that_the_service_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    for status in (429, 503):
        assert answered(status, **headers).retry_after == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Rate limit reached. Please try again in 11.054s. Visit the site.", 11.054),
        ("Please try again in 353ms.", 0.353),
        ("Please try again in 6m0s.", 360.0),
        ("try again in 1h2m3.5s", 3723.5),
        ("Please retry after 20 seconds.", 20.0),
        ("Please try again in 2 minutes", 120.0),
        ("Please retry in 34.07s.", 34.07),
        ("try again in 5 milliseconds", 0.005),
        ("try again in a while", None),
        ("try again in 3 songs", None),
    ],
)
def test_re_01_the_wait_may_stand_in_the_text(text: str, seconds: float | None) -> None:
    assert answered(429, openai(text)).retry_after == pytest.approx(seconds)
    assert error_failure({"code": "rate_limit_exceeded", "message": text}).retry_after == pytest.approx(seconds)
    assert answered(429, openai(text), retry_after="3").retry_after == 3.0
    assert answered(400, openai(text)).retry_after is None


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (anthropic("api_error", "It broke"), "It broke (HTTP 500, api_error)"),
        (openai("It broke", code="server_error", type="x"), "It broke (HTTP 500, server_error)"),
        ({"error": "It broke"}, "It broke (HTTP 500)"),
        ({"message": "It broke", "object": "error", "type": "Boom"}, "It broke (HTTP 500, boom)"),
        ({"detail": "It broke"}, "It broke (HTTP 500)"),
        ({"detail": [{"loc": ["body", "model"], "msg": "field required"}]}, "body.model: field required (HTTP 500)"),
        ([{"error": {"code": 500, "message": "It broke", "status": "INTERNAL"}}], "It broke (HTTP 500, internal)"),
        ({"error": {"message": "Relay", "metadata": {"raw": "It broke"}}}, "Relay: It broke (HTTP 500)"),
        (b"It\nbroke\x1b[31m", "It broke [31m (HTTP 500)"),
        (b'{"error": {"message": "It br', '{"error": {"message": "It br (HTTP 500)'),
        (
            b"<html><style>p{}</style><head><title> Bad\n gateway &amp; co </title></head><p>x</p>",
            "Bad gateway & co (HTTP 500)",
        ),
        (b"<p>No <b>title</b></p><script>var x</script>", "No title (HTTP 500)"),
        (b"", "The service answered with HTTP 500 (Internal Server Error) and no text."),
        ({}, "The service answered with HTTP 500 (Internal Server Error) and no text."),
        ([], "The service answered with HTTP 500 (Internal Server Error) and no text."),
        (
            {"error": {"message": None, "code": None}},
            "The service answered with HTTP 500 (Internal Server Error) and no",
        ),
    ],
)
def test_the_message_keeps_the_words_of_the_service(body: Any, said: str) -> None:
    message = answered(500, body).message
    assert message.startswith(said)
    assert "\n" not in message


def test_an_unknown_status_has_no_phrase() -> None:
    assert answered(529).message == "The service answered with HTTP 529 and no text."


def test_a_refused_key_says_what_to_check() -> None:
    assert answered(401, anthropic("authentication_error", "invalid x-api-key")).message == (
        "invalid x-api-key (HTTP 401, authentication_error). Check the API key and what it may be used for."
    )


def test_a_redirect_is_not_followed_and_names_its_target() -> None:
    failure = answered(307, location="https://api.example.com/v1?token=abc")
    assert (failure.kind, failure.retryable) == ("invalid", False)
    assert "https://api.example.com/v1 " in failure.message
    assert "token" not in failure.message


def test_no_secret_and_no_flood_leaves_in_a_message() -> None:
    key = "sk-live 'quoted' key"
    text = f"bad key {key} and {key!r} and " + "x" * (MESSAGE_LIMIT - 70) + key
    message = sealed(Failure("auth", text, retryable=False), (key, "", "abc")).message
    assert "sk-live" not in message
    assert message.startswith("bad key *** and '***'") or message.startswith('bad key *** and "***"')
    assert len(message) <= MESSAGE_LIMIT
    assert redact("abc is short", ("abc",)) == "abc is short"
    assert redact("key sk-12345\\n", (" sk-12345\n",)) == "key ***\\n"


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


NOT_TRUSTED = ssl.SSLCertVerificationError(1, "certificate verify failed")
NOT_TRUSTED.verify_message = "self-signed certificate"


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (httpx2.ReadError(""), "dropped", "The connection to http://m broke off."),
        (
            caused(httpx2.ReadError(""), ConnectionResetError(104, "x")),
            "dropped",
            "The connection to http://m broke off: Connection reset by peer.",
        ),
        (httpx2.RemoteProtocolError("peer closed"), "dropped", "The connection to http://m broke off: peer closed."),
        (httpx2.ReadTimeout(""), "dropped", "http://m did not answer in time."),
        (httpx2.ConnectTimeout(""), "dropped", "No connection to http://m in time."),
        (
            caused(httpx2.ConnectError("All failed"), ExceptionGroup("g", [ConnectionRefusedError(111, "x")])),
            "dropped",
            "No connection to http://m: Connection refused.",
        ),
        (httpx2.DecodingError("zlib"), "dropped", "The answer of http://m could not be decompressed."),
        (httpx2.ProxyError("403 Forbidden"), "dropped", "The proxy gave no connection to http://m: 403 Forbidden."),
        (
            caused(httpx2.ConnectError("tls"), NOT_TRUSTED),
            "invalid",
            "The certificate of http://m is not trusted: self",
        ),
        (httpx2.UnsupportedProtocol("x"), "invalid", "http://m is no address that can be called; check base_url."),
        (EOFError(), "dropped", "The connection to http://m broke off."),
    ],
)
def test_re_06_a_broken_connection_is_told_in_plain_words(error: Exception, kind: str, message: str) -> None:
    failure = transport_failure(error, "http://m")
    assert (failure.kind, failure.retryable) == (kind, kind == "dropped")
    assert failure.message.startswith(message)
    assert "Error" not in failure.message
