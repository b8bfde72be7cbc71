"""What went wrong, said on one line of stderr and in the words of the command line."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress

from agent_nodes.errors import AgentError, InputValidationError

KEY_VARIABLES = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")

# The options of ask that say who answers and how; each is an option of create_agent. They belong to the command that
# goes on with a turn.
OPTIONS = {
    "provider": "--provider",
    "model": "--model",
    "base_url": "--base-url",
    "api_kind": "--api-kind",
    "effort": "--effort",
    "model_attributes": "--model-attributes",
    "system_prompt": "--system-prompt",
    "workdir": "--workdir",
    "allowed_directories": "--allow",
    "permission_policy": "--permission-policy",
    "max_tokens": "--max-tokens",
    "context_window": "--context-window",
    "stall_timeout": "--stall-timeout",
}

_FLAGS = {
    **OPTIONS,
    "project": "--project",
    "conversation_id": "--session",
    "session_key": "--session-key",
    "request_id": "--request-id",
    "reopen": "--reopen",
}
# Names that are no words of English as well, outside quotes.
_NAMES = re.compile(r"'[^']*'|\b(" + "|".join(name for name in _FLAGS if "_" in name) + r")\b")
_PHRASES = (
    (", or give api_key", ""),
    ("give the key as api_key", "give the key in the environment"),
    ("give provider a", "give --provider a"),
    ("with project and session_key", "with --project and --session-key"),
    ("leave reopen out", "leave --reopen out"),
)


def command(name: str, *arguments: str) -> str:
    """The command line that calls this program's ``name``, also where the script ``dev`` has started it."""
    script = os.environ.get("AGENT_NODES_DEV", "") if name != "run" else ""
    called = [script, "run" if name == "ask" else name] if script else ["agent-nodes", name]
    return shlex.join([*called, *arguments])


def problem(error: BaseException) -> str:
    """What went wrong on one line, without a key. Options are called as the command line calls them."""
    if isinstance(error, InputValidationError):
        text = _in_flags(error)
    elif isinstance(error, AgentError):
        text = error.message
    else:
        text = f"unexpected {type(error).__name__}: {error}. Set AGENT_NODES_DEBUG=1 to see where."
    for name in KEY_VARIABLES:
        key = os.environ.get(name, "").strip()
        if key:
            text = text.replace(key, f"[{name}]")
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())


def _in_flags(error: InputValidationError) -> str:
    text = error.message
    if error.field.startswith("models."):  # of a file, whose words are its own
        return text
    if error.field.partition(".")[0] == "model_attributes":
        return "--model-attributes: " + text.removeprefix("model_attributes: ").replace("model_attributes.", "")
    text = text.removeprefix("create_agent: ").removeprefix("input.")
    for said, meant in _PHRASES:
        text = text.replace(said, meant)
    name, colon, rest = text.partition(":")
    if colon and name == "api_key":
        text = rest.lstrip()
    elif colon and name in _FLAGS:
        text = f"{_FLAGS[name]}:{rest}"
    return _NAMES.sub(lambda found: _FLAGS.get(found.group(), found.group()), text)


def meant(word: str, known: Sequence[str], before: str = "") -> str:
    """The end of a sentence about ``word``: a question where it looks like one that there is, written behind
    ``before``."""
    import difflib

    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {before}{close[0]}?" if close else "."


def interrupted(error: BaseException | None) -> bool:
    """Whether it was Ctrl-C, also where what that broke off failed once more on its way out."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def put(text: str, end: str = "\n") -> None:
    """Write to stdout, at once. Raises ``BrokenPipeError`` when its reader is gone, ``AgentError`` when it takes none
    for another reason."""
    try:
        print(text, end=end, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        give_up_stdout()
        reason = error.strerror or type(error).__name__
        raise AgentError(f"stdout cannot be written ({reason}).") from error


def say(text: str) -> None:
    with suppress(OSError):
        print(f"agent-nodes: {text}", file=sys.stderr, flush=True)


def trace(error: BaseException) -> None:
    """Where it went wrong, for whoever asked to see that."""
    text = trace_text(error)
    if text:
        with suppress(OSError):
            print(text, end="", file=sys.stderr, flush=True)


def trace_text(error: BaseException) -> str:
    """Where it went wrong; empty unless somebody asked to see that."""
    if not os.environ.get("AGENT_NODES_DEBUG"):
        return ""
    import traceback

    return "".join(traceback.format_exception(error))


def give_up_stdout() -> None:
    """Its reader is gone. The interpreter would fail once more when it flushes what is left, so that goes nowhere."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
