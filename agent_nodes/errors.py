"""Every error this package raises.

    AgentError
    ├── InputValidationError   input_validation      an option, input field or setting is wrong; nothing was opened
    ├── RequestConflict        request_conflict      a request_id is used again with other content
    ├── UserInputRequired      user_input_required   the turn waits for a person
    ├── ExecutionAborted       execution_aborted     the turn was stopped for good
    ├── AgentBusy              agent_busy            a second run on one runtime
    ├── AgentClosed            agent_closed          the runtime was closed (the turn stays resumable)
    ├── AgentNotReady          AGENT_NOT_READY       a command outside a run
    ├── SessionBusy            session_busy          another owner holds the session
    ├── SessionLost            session_lost          ownership was lost while running
    ├── SessionFileError       session_file          not a session file, damaged, or of a newer schema
    ├── StorageError           storage               disk full, read-only, I/O error
    ├── UpstreamError          upstream              the input already carried an error of an earlier node
    └── TurnFailed             (the turn's reason)   a turn ended without an answer
        ├── ModelError         model_error
        ├── RetriesExhausted   retries_exhausted
        ├── OutputLimit        output_limit
        ├── LostCall           lost_call
        ├── ContextOverflow    context_overflow
        ├── CompactionFailed   compaction_failed
        ├── Refused            refused
        ├── InputTimeout       input_timeout
        ├── BudgetExceeded     budget_exceeded
        └── RuntimeFailure     runtime_failure

Messages say what is wrong, where, and what to do next; none holds a secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from agent_nodes.messages import JsonObject


class AgentError(Exception):
    """Base of all errors here; ``code`` is stable and meant for programs."""

    code: ClassVar[str] = "agent"

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else self.code


SHOWN = 2_000
"""Characters of a message about a value that may be of any length."""


def _printable(message: str) -> str:
    """``message`` as any terminal and store takes it."""
    if len(message) > SHOWN:
        message = f"{message[: SHOWN // 2]} … {message[-SHOWN // 4 :]}"
    return message.encode("utf-8", "backslashreplace").decode()


class InputValidationError(AgentError):
    """``field`` names the option, input field or setting that is wrong (dotted path for nested ones)."""

    code = "input_validation"

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(_printable(message))
        self.field = field


class RequestConflict(AgentError):
    code = "request_conflict"


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """One question that waits for a person; ``request_id`` is its own, never the turn's."""

    request_id: str
    kind: Literal["approval", "plan", "question", "budget"]
    payload: JsonObject


class UserInputRequired(AgentError):
    code = "user_input_required"

    def __init__(self, message: str, requests: Sequence[OpenRequest] = ()) -> None:
        super().__init__(message)
        self.requests = tuple(requests)


class ExecutionAborted(AgentError):
    code = "execution_aborted"


class AgentBusy(AgentError):
    code = "agent_busy"


class AgentClosed(AgentError):
    code = "agent_closed"


class AgentNotReady(AgentError):
    code = "AGENT_NOT_READY"


class SessionBusy(AgentError):
    code = "session_busy"

    def __init__(self, message: str, *, pid: int | None = None, host: str | None = None) -> None:
        super().__init__(message)
        self.pid = pid
        self.host = host


class SessionLost(AgentError):
    code = "session_lost"


class SessionFileError(AgentError):
    code = "session_file"

    def __init__(self, message: str, *, kind: Literal["foreign", "damaged", "newer"]) -> None:
        super().__init__(message)
        self.kind = kind


class StorageError(AgentError):
    code = "storage"


class UpstreamError(AgentError):
    """The input carried ``err_code``; it is passed on and no model was called."""

    code = "upstream"

    def __init__(self, err_code: int, err_message: str) -> None:
        super().__init__(" ".join(err_message.split()) or f"An earlier node failed with err_code {err_code}.")
        self.err_code = err_code
        self.err_message = err_message


class TurnFailed(AgentError):
    """A turn ended without an answer; ``code`` is the turn's reason, the message its detail."""


class ModelError(TurnFailed):
    code = "model_error"


class RetriesExhausted(TurnFailed):
    code = "retries_exhausted"


class OutputLimit(TurnFailed):
    code = "output_limit"


class LostCall(TurnFailed):
    code = "lost_call"


class ContextOverflow(TurnFailed):
    code = "context_overflow"


class CompactionFailed(TurnFailed):
    code = "compaction_failed"


class Refused(TurnFailed):
    code = "refused"


class InputTimeout(TurnFailed):
    code = "input_timeout"


class BudgetExceeded(TurnFailed):
    code = "budget_exceeded"


class RuntimeFailure(TurnFailed):
    code = "runtime_failure"


_BY_REASON: dict[str, type[TurnFailed]] = {
    error.code: error
    for error in (
        ModelError,
        RetriesExhausted,
        OutputLimit,
        LostCall,
        ContextOverflow,
        CompactionFailed,
        Refused,
        InputTimeout,
        BudgetExceeded,
        RuntimeFailure,
    )
}


def turn_error(reason: str, detail: str) -> AgentError:
    """The error that a turn's stored reason stands for (``aborted`` is :class:`ExecutionAborted`)."""
    if reason == "aborted":
        return ExecutionAborted(detail)
    return _BY_REASON.get(reason, RuntimeFailure)(detail)


def validation_error(error: Any, *, where: str, known: Sequence[str] = ()) -> InputValidationError:
    """One sentence a field of a pydantic ``ValidationError``, without the rejected values (they may be secrets).

    ``known`` are the names there are, told where one is not.
    """
    said: dict[str, str] = {}
    for item in error.errors(include_url=False, include_input=False, include_context=False):
        # Behind the field stand list places, and then names of the validator's own.
        name, *rest = item["loc"] or ("",)
        path = ".".join([_shown(str(name)), *(str(part) for part in rest if isinstance(part, int))])
        text = item["msg"]
        if item["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
            text = _unknown(str(name), known)
        elif item["type"] == "tuple_type":  # what is kept as one, and given as a list
            text = "Input should be a list"
        if path in said and text not in said[path]:
            said[path] += f", or {text}"
        else:
            said.setdefault(path, text)
    first = next(iter(said), "")
    return InputValidationError(f"{where}: " + "; ".join(f"{path}: {text}" for path, text in said.items()), field=first)


def _unknown(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, known, 1)
    if close:
        return f"unknown field; did you mean {close[0]}?"
    return f"unknown field; known are {', '.join(known)}" if known else "unknown field"


def _shown(name: str) -> str:
    return name if name.isidentifier() else repr(name)
