"""A turn as the rows that hosts show: one row for each run of text, and one for each activity, where it happened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent_nodes.engine.inbox import turn_of
from agent_nodes.engine.replay import StoredTurn, stored_turn
from agent_nodes.engine.tool_task import tool_call_id
from agent_nodes.messages import (
    AssistantMessage,
    ImageBlock,
    JsonObject,
    TextBlock,
    ThinkingBlock,
    ToolResultMessage,
    UserMessage,
)
from agent_nodes.store import reads
from agent_nodes.store.beside import read_beside
from agent_nodes.store.line import Tx
from agent_nodes.store.reads import ActivityRow, EntryRow
from agent_nodes.store.records import Turn


@dataclass(frozen=True, slots=True)
class TurnRows:
    """A stored turn as hosts show it: what was asked, and the rows of what came of it."""

    turn: Turn
    prompt: str = ""
    images: int = 0
    items: tuple[JsonObject, ...] = ()

    @property
    def text(self) -> str:
        """What the turn said, the parts before and after a round of tools in paragraphs of their own."""
        said, gap = "", False
        for row in self.items:
            if row["part_type"] == "text":
                said += ("\n\n" if gap and said else "") + row["content"]["text"]
            gap = row["part_type"] == "tool" or (gap and row["part_type"] != "text")
        return said


def read_turns(path: Path, request_id: str, after: int | None = None) -> list[TurnRows]:
    """The turn that ``request_id`` began in the session at ``path``, the last of the list; empty when it holds no such
    turn. ``after``: in front of it those of its line that have ended and are newer than that turn.

    Reads beside a live owner and writes nothing. Raises ``SessionFileError`` or ``StorageError``.
    """

    def read(tx: Tx) -> list[TurnRows]:
        receipt = reads.receipt(tx, request_id)
        turn = None if receipt is None else turn_of(tx, receipt)
        if turn is None:
            return []
        earlier = [] if after is None else reads.turns_between(tx, turn.target_id, after, turn.id)
        wanted = [*(one for one in earlier if one.status != "running"), turn]
        return [turn_rows(stored_turn(tx, one)) for one in wanted]

    return read_beside(path, read)


def turn_rows(stored: StoredTurn) -> TurnRows:
    asked = [
        block
        for row in stored.entries
        if isinstance(row.message, UserMessage) and row.message.kind == "user"
        for block in row.message.content
    ]
    prompt = "".join(block.text for block in asked if isinstance(block, TextBlock))
    images = sum(isinstance(block, ImageBlock) for block in asked)
    return TurnRows(stored.turn, prompt, images, tuple(turn_items(stored)))


def turn_items(stored: StoredTurn) -> list[JsonObject]:
    """``{id, type, part_type, status, content}`` in order. A row keeps its id ``<turn>:<n>`` while the turn grows, so
    upsert by it; n counts from 1, and the one row about the context, which comes last, is number 0.

    ``part_type`` and ``content``: text and reasoning ``{text}``; tool ``{tool_call_id, name, arguments, result,
    is_error}``; retry ``{kind, attempt, max_attempts, reason}``; context ``{used, total}`` in tokens. ``status`` is
    completed, in_progress, failed (a tool's error) or incomplete (text that was cut off and never carried on).
    """
    rows = _Rows(stored.turn)
    results = {row.task_id: row.message for row in stored.entries if isinstance(row.message, ToolResultMessage)}
    for row in sorted([*stored.entries, *stored.activity], key=lambda row: row.id):
        if isinstance(row, EntryRow):
            if isinstance(row.message, AssistantMessage):
                rows.say(row.message)
        elif row.type == "tool_start":
            rows.tool(stored, row, results.get(row.task_id))
        elif row.type == "retry":
            rows.add("retry", "completed", dict(row.data))
    rows.end()
    return rows.items


class _Rows:
    def __init__(self, turn: Turn) -> None:
        self.items: list[JsonObject] = []
        self._turn = turn
        self._text: JsonObject | None = None
        """The row that further text joins."""
        self._cut: JsonObject | None = None
        """The newest row of text, where it was cut off."""

    def add(self, part_type: str, status: str, content: JsonObject) -> JsonObject:
        row: JsonObject = {
            "id": f"{self._turn.id}:{0 if part_type == 'context' else len(self.items) + 1}",
            "type": "message" if part_type == "text" else "activity",
            "part_type": part_type,
            "status": status,
            "content": content,
        }
        self.items.append(row)
        self._text = row if part_type == "text" else None
        return row

    def say(self, message: AssistantMessage) -> None:
        if not message.interrupted:
            self._cut = None
        for block in message.content:
            if isinstance(block, ThinkingBlock) and block.text:
                self.add("reasoning", "completed", {"text": block.text})
            elif isinstance(block, TextBlock) and block.text:
                row = self._text or self.add("text", "completed", {"text": ""})
                row["content"]["text"] += block.text
                if message.interrupted:
                    self._cut = row

    def tool(self, stored: StoredTurn, row: ActivityRow, result: ToolResultMessage | None) -> None:
        task = stored.tasks[row.task_id or 0]
        call_id = tool_call_id(stored.session_id, task)
        content: JsonObject = {"tool_call_id": call_id, "name": task.tool or "", "arguments": task.input}
        if result is None:
            self.add("tool", "in_progress", content)
        else:
            content |= {"result": result.result, "is_error": result.is_error}
            self.add("tool", "failed" if result.is_error else "completed", content)

    def end(self) -> None:
        turn = self._turn
        if self._cut is not None:
            self._cut["status"] = "in_progress" if turn.status == "running" else "incomplete"
        if turn.context_used is not None and turn.context_total is not None:
            self.add("context", "completed", {"used": turn.context_used, "total": turn.context_total})
