"""Which effort levels and how much output each of OpenAI's models can be asked for, in the words of its refusals."""

import re
from typing import Any

from tests.fakes.refused import Refused

ALL = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

# The first that fits; an empty row takes no effort at all.
_MODELS = [
    (re.compile(pattern), tuple(levels.split()))
    for pattern, levels in {
        r"gpt-6(\.2)?-astra|gpt-6\.[12]-sol": "low medium high xhigh max",
        r"gpt-6|gpt-5\.6": "none low medium high xhigh max",
        r"gpt-5-pro": "high",
        r"gpt-5\.[245]-pro": "medium high xhigh",
        r"gpt-5\.3-codex|gpt-5\.1-codex-max": "low medium high xhigh",
        r"gpt-5\.[2345]": "none low medium high xhigh",
        r"gpt-5\.1-codex": "low medium high",
        r"gpt-5\.1": "none low medium high",
        r"gpt-5": "minimal low medium high",
        r"o\d": "low medium high",
        r"gpt-[34]": "",
    }.items()
]

_OUTPUT = [
    (re.compile(pattern), most)
    for pattern, most in {r"gpt-[5-9]": 128_000, r"gpt-4\.1": 32_768, r"gpt-4o": 16_384, r"o\d": 100_000}.items()
]


def check_effort(effort: Any, model: str, where: str) -> None:
    """Raise Refused where the model takes no effort, or not this one. Models of other makers take any that exists."""
    if effort is None:
        return
    known = next((levels for pattern, levels in _MODELS if pattern.match(model)), ALL)
    if not known:
        message = f"Unsupported parameter: '{where}' is not supported with this model."
        raise Refused(message, param=where, code="unsupported_parameter")
    if effort not in ALL:
        message = f"Invalid value: '{effort}'. Supported values are: {_listed(ALL)}."
        raise Refused(message, param=where, code="invalid_value")
    if effort not in known:
        raise Refused(
            f"Unsupported value: '{effort}' is not supported with the '{model}' model. Supported values are: "
            f"{_listed(known)}.",
            param=where,
            code="unsupported_value",
        )


def most_output(model: str) -> int | None:
    """How many tokens of output a model may be asked for; None where no limit is known."""
    return next((most for pattern, most in _OUTPUT if pattern.match(model)), None)


def _listed(levels: tuple[str, ...]) -> str:
    *first, last = [f"'{level}'" for level in levels]
    return f"{', '.join(first)}, and {last}" if first else last
