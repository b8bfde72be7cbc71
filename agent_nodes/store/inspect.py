"""What a session shows to somebody who does not own it, for lists and reports.

Nothing here takes the owner lock, waits for an owner or changes the session; a live owner may be at work meanwhile.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import orjson

from agent_nodes.errors import SessionFileError, StorageError
from agent_nodes.messages import (
    AssistantMessage,
    JsonObject,
    Message,
    ToolResultMessage,
    Usage,
    UserMessage,
    message_from_json,
)
from agent_nodes.store import _sql, files, lock, reads
from agent_nodes.store.beside import read_beside
from agent_nodes.store.line import Tx
from agent_nodes.store.records import Turn, turn_of
from agent_nodes.store.statement import decode

SessionState: TypeAlias = Literal["idle", "running", "unfinished", "unreadable"]
TurnState: TypeAlias = Literal["answered", "waiting", "aborted", "failed", "running", "unfinished"]


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that has a session open."""

    pid: int
    host: str


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """One session at a glance.

    ``state``: ``running`` while a turn runs in the process ``holder``, ``unfinished`` when one was cut off and nobody
    is at work on it, ``idle`` otherwise, ``unreadable`` for a file that cannot be read (``problem`` says why). ``size``
    is in bytes with the write-ahead log, ``last_used`` in seconds since the epoch.
    """

    path: Path
    project: str
    conversation_id: str
    session_key: str
    turns: int
    state: SessionState
    size: int
    last_used: float
    holder: Holder | None = None
    problem: str = ""

    def to_dict(self) -> JsonObject:
        out: JsonObject = {
            "project": self.project,
            "conversation_id": self.conversation_id,
            "session_key": self.session_key,
            "path": str(self.path),
            "turns": self.turns,
            "state": self.state,
            "size": self.size,
            "last_used": self.last_used,
        }
        if self.holder is not None:
            out["holder"] = {"pid": self.holder.pid, "host": self.holder.host}
        if self.problem:
            out["problem"] = self.problem
        return out


@dataclass(slots=True)
class ToolView:
    """A call as the model made it; ``result`` is None while it runs."""

    name: str
    arguments: JsonObject
    result: str | None = None
    is_error: bool = False

    def to_dict(self) -> JsonObject:
        return {"name": self.name, "arguments": self.arguments, "result": self.result, "is_error": self.is_error}


@dataclass(slots=True)
class TurnView:
    """``text`` is what the turn has said so far, the parts before and after a round of tools in paragraphs of their
    own. ``reason`` and ``detail`` say why there is no answer."""

    turn_id: int
    request_id: str
    status: TurnState
    usage: Usage
    prompt: str = ""
    text: str = ""
    tools: list[ToolView] = field(default_factory=list[ToolView])
    reason: str | None = None
    detail: str | None = None

    def to_dict(self) -> JsonObject:
        return {
            "turn_id": self.turn_id,
            "request_id": self.request_id,
            "status": self.status,
            "prompt": self.prompt,
            "text": self.text,
            "tools": [tool.to_dict() for tool in self.tools],
            "usage": self.usage.to_dict(),
            "reason": self.reason,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session whole: all turns of its main line, oldest first."""

    summary: SessionSummary
    turns: Sequence[TurnView]

    def to_dict(self) -> JsonObject:
        return {**self.summary.to_dict(), "turns": [turn.to_dict() for turn in self.turns]}


@dataclass(frozen=True, slots=True)
class SessionUsage:
    """What a session has taken so far. ``cost`` is in US dollars, None where the price of something is not known."""

    turns: int
    usage: Usage
    cost: float | None


def summary(path: Path) -> SessionSummary:
    """The session at ``path`` at a glance. A file that cannot be read has the state ``unreadable``."""
    owner = holder(path)
    try:
        return read_beside(path, lambda tx: _summary(path, tx, owner))
    except (SessionFileError, StorageError) as error:
        size, last_used = _measure(path)
        return SessionSummary(path, "", "", "", 0, "unreadable", size, last_used, owner, error.message)


def view(path: Path) -> SessionView:
    """The session at ``path`` with its turns. Raises ``SessionFileError`` or ``StorageError``."""
    owner = holder(path)

    def read(tx: Tx) -> SessionView:
        found = _summary(path, tx, owner)
        return SessionView(found, _turns(tx, found))

    return read_beside(path, read)


def holder(path: Path) -> Holder | None:
    """Who has the session at ``path`` open; None when nobody has, also where a process died with it open.

    A process on another host cannot be looked at: what it wrote is taken for true.
    """
    owner = Path(f"{files.real_path(path)}{lock.SUFFIX}")
    try:
        found = orjson.loads(owner.read_bytes())
    except (OSError, ValueError):
        return None
    data: dict[str, Any] = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    pid, host = data.get("pid"), data.get("host")
    if not isinstance(pid, int) or not isinstance(host, str):
        return None
    if host == socket.gethostname() and not _holds(pid, owner):
        return None
    return Holder(pid, host)


def _holds(pid: int, owner: Path) -> bool:
    """Whether process ``pid`` lives and has the lock file open, as far as that can be seen."""
    if os.name == "nt":
        return True  # signal 0 would end a process there
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    try:
        # The number may have gone to another process.
        with os.scandir(f"/proc/{pid}/fd") as entries:
            return any(os.path.realpath(entry.path) == str(owner) for entry in entries)
    except OSError:
        return True


def _measure(path: Path) -> tuple[int, float]:
    """Bytes and time of the last change, with the log."""
    size, last = 0, 0.0
    for part in (path, Path(f"{path}-wal")):
        try:
            status = part.stat()
        except OSError:
            continue
        size += status.st_size
        if status.st_size:
            last = max(last, status.st_mtime)
    return size, last


def _summary(path: Path, tx: Tx, owner: Holder | None) -> SessionSummary:
    about = dict(zip(_sql.INSERT_META.names, tx.rows(_sql.SESSION)[0], strict=True))
    turns = tx.rows(_sql.TURN_COUNT, after=0)[0][0]
    live = bool(tx.rows(_sql.LIVE_TASKS))
    state: SessionState = "idle" if not live else "unfinished" if owner is None else "running"
    names = (about["project"], about["conversation_id"], about["session_key"])
    return SessionSummary(path, *names, turns, state, *_measure(path), owner)


# -- turns -------------------------------------------------------------------------------------------------------------


def unfinished(tx: Tx) -> list[TurnView]:
    """Turns that were cut off, oldest first, with their prompts alone."""
    out: list[TurnView] = []
    live = {task.turn_id for task in reads.live_tasks(tx) if task.turn_id is not None}
    for turn in [reads.turn(tx, turn_id) for turn_id in sorted(live)]:
        shown = TurnView(turn.id, turn.request_id, "unfinished", turn.usage)
        for entry in reads.turn_entries(tx, turn, 2**62):
            _add(_Builder(shown), entry.message)
        out.append(shown)
    return out


def last_turn(tx: Tx) -> TurnView | None:
    """The newest turn, None in an empty session."""
    for row in tx.rows(_sql.LAST_TURN, after=0):
        turn = turn_of(row)
        shown = TurnView(turn.id, turn.request_id, _state(turn, None), turn.usage)
        builder = _Builder(shown)
        for entry in reads.turn_entries(tx, turn, 2**62):
            _add(builder, entry.message)
        return shown
    return None


def session_usage(tx: Tx) -> SessionUsage:
    """Of all turns, the one under way included."""
    turns = [turn_of(row) for row in tx.rows(_sql.TURNS, after=0)]
    records = [record for turn in turns for record in reads.turn_usage(tx, turn.id)]
    costs = [record.cost for record in records]
    cost = None if None in costs or not costs else sum(cost for cost in costs if cost is not None)
    return SessionUsage(len(turns), sum((record.usage for record in records), Usage()), cost)


@dataclass(slots=True)
class _Builder:
    view: TurnView
    gap: bool = False
    open: dict[str, ToolView] = field(default_factory=dict[str, ToolView])

    def say(self, text: str) -> None:
        if text:
            self.view.text += "\n\n" + text if self.gap and self.view.text else text
            self.gap = False


def _turns(tx: Tx, about: SessionSummary) -> list[TurnView]:
    main = tx.rows(_sql.SESSION)[0][_sql.INSERT_META.names.index("main_target")]
    builders: dict[int, _Builder] = {}
    for row in tx.rows(_sql.TURNS, after=0):
        turn = turn_of(row)
        if turn.target_id == main:
            shown = TurnView(turn.id, turn.request_id, _state(turn, about.holder), turn.usage)
            shown.reason, shown.detail = turn.reason, turn.detail
            builders[turn.id] = _Builder(shown)
    for turn_id, text in tx.rows(_sql.ENTRIES, target_id=main, after=0):
        builder = builders.get(turn_id)
        if builder is not None:
            _add(builder, message_from_json(decode(text)))
    for task in reads.live_tasks(tx):
        # What is streaming in just now is in no entry yet.
        builder, stream = builders.get(task.turn_id or 0), task.checkpoint.get("stream")
        if builder is not None and stream is not None:
            builder.say("".join(delta for _, kind, delta in reads.progress(tx, stream) if kind == "text"))
    return [builder.view for builder in builders.values()]


def _add(builder: _Builder, message: Message) -> None:
    match message:
        case UserMessage() if message.kind == "user":
            builder.view.prompt += "".join(block.text for block in message.content if block.type == "text")
        case AssistantMessage():
            builder.say(message.text)
            for call in message.calls:
                tool = builder.open[call.id] = ToolView(call.name, call.arguments)
                builder.view.tools.append(tool)
                builder.gap = True
        case ToolResultMessage():
            tool = builder.open.pop(message.call_id, None)
            if tool is not None:
                tool.result, tool.is_error = message.text, message.is_error
        case _:
            pass


def _state(turn: Turn, owner: Holder | None) -> TurnState:
    if turn.status == "running":
        return "unfinished" if owner is None else "running"
    if turn.status == "unanswered":
        return "aborted" if turn.reason == "aborted" else "failed"
    return turn.status
