"""What went wrong, said on one line of stderr."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from agent_nodes.errors import AgentError

KEY_VARIABLES = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")


def problem(error: BaseException) -> str:
    """What went wrong on one line, without a key."""
    if isinstance(error, AgentError):
        text = error.message
    else:
        text = f"unexpected {type(error).__name__}: {error}. Set AGENT_NODES_DEBUG=1 to see where."
    for name in KEY_VARIABLES:
        key = os.environ.get(name, "").strip()
        if key:
            text = text.replace(key, f"[{name}]")
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())


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
    if os.environ.get("AGENT_NODES_DEBUG"):
        import traceback

        with suppress(OSError):
            traceback.print_exception(error)


def give_up_stdout() -> None:
    """Its reader is gone. The interpreter would fail once more when it flushes what is left, so that goes nowhere."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
