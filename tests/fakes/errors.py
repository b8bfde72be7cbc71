"""Error bodies in the shape of each service."""

from tests.fakes.scripts import Error, Json

ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
OPENAI_TYPES = {429: "rate_limit_exceeded", 401: "authentication_error"}
MESSAGES = {
    401: "invalid api key",
    402: "Your credit balance is too low.",
    403: "Your account may not use this resource.",
    404: "not found",
    429: "This request would exceed the rate limit of your account.",
    503: "Service unavailable",
    529: "Overloaded",
}


def error_body(protocol: str | None, error: Error) -> Json:
    message = error.message if error.message is not None else MESSAGES.get(error.status, "Internal server error")
    if protocol == "anthropic":
        type = error.type or ANTHROPIC_TYPES.get(
            error.status, "api_error" if error.status >= 500 else "invalid_request_error"
        )
        return anthropic_error(type, message, error.code)
    type = error.type or OPENAI_TYPES.get(
        error.status, "server_error" if error.status >= 500 else "invalid_request_error"
    )
    return openai_error(message, type=type, code=error.code)


def anthropic_error(type: str, message: str, code: str | None = None) -> Json:
    details = {"error_code": code} if code else None
    return {
        "type": "error",
        "error": {"type": type, "message": message, "details": details},
        "request_id": "req_fake",
    }


def openai_error(
    message: str, *, type: str = "invalid_request_error", param: str | None = None, code: str | None = None
) -> Json:
    return {"error": {"message": message, "type": type, "param": param, "code": code}}
