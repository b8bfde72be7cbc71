"""The history of conversations, for hosts and people: what there is, what was said, titles, and a text to keep."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import JsonObject
from agent_nodes.store.conversations import (
    ConversationHistory,
    ConversationSummary,
    HistoryMessage,
    HistoryRun,
    list_conversations,
    read_conversation,
    remove_conversation,
    set_title,
)

__all__ = [
    "ConversationHistory",
    "ConversationSummary",
    "HistoryMessage",
    "HistoryRun",
    "export_conversation",
    "list_conversations",
    "read_conversation",
    "remove_conversation",
    "set_title",
]

Format: TypeAlias = Literal["markdown", "json"]


def export_conversation(
    project: str, conversation_id: str, fmt: Format = "markdown", *, root: Path | None = None
) -> str:
    """A conversation as a text: ``markdown`` for people, or a ``json`` document with all that the history holds.

    Raises :class:`~agent_nodes.errors.InputValidationError` where there is no such conversation, ``SessionFileError``
    or ``StorageError``.
    """
    if fmt not in ("markdown", "json"):
        raise InputValidationError(f"fmt: {fmt!r} is unknown; there are 'markdown' and 'json'", field="fmt")
    found = read_conversation(project, conversation_id, root)
    if found is None:
        raise InputValidationError(
            f"conversation_id: the project {project!r} has no conversation {conversation_id!r}", field="conversation_id"
        )
    if fmt == "json":
        return json.dumps(_document(found), ensure_ascii=False, indent=2) + "\n"
    return "\n\n".join(_markdown(found)) + "\n"


def _document(found: ConversationHistory) -> JsonObject:
    return {
        **asdict(found.summary),
        "messages": [asdict(message) for message in found.messages],
        "runs": [asdict(run) for run in found.runs],
    }


def _markdown(found: ConversationHistory) -> Iterator[str]:
    about = found.summary
    yield f"# {_line(about.title) or 'Conversation'}"
    yield f"Project {about.project}, conversation {about.conversation_id}."
    asked = {message.run_id: message for message in found.messages if message.role == "user"}
    for number, run in enumerate(found.runs, start=1):
        yield f"## {number}. {datetime.fromtimestamp(run.written_at, UTC):%Y-%m-%d %H:%M} UTC"
        question = asked.get(run.run_id)
        if question is not None:
            yield from _question(question)
        for item in run.items:
            yield from _item(item)
        if run.status != "answered":
            yield f"*{run.status}: {_line(run.detail or run.reason or 'no answer')}*"


def _question(message: HistoryMessage) -> Iterator[str]:
    if message.text.strip():
        yield "\n".join(f"> {line}".rstrip() for line in message.text.strip().splitlines())
    if message.images:
        yield f"> *{message.images} picture{'s' * (message.images != 1)}*"


def _item(item: JsonObject) -> Iterator[str]:
    """What was said, and which tools were called; the rest is in the JSON."""
    content = item["content"]
    if item["part_type"] == "text" and content["text"].strip():
        yield content["text"].strip()
    elif item["part_type"] == "tool":
        arguments = json.dumps(content.get("arguments"), ensure_ascii=False)
        failed = ", which failed" if content.get("is_error") else ""
        yield f"- called {content['name']} with {_code(arguments)}{failed}"


def _code(text: str) -> str:
    """In code marks, longer ones where the text holds some."""
    shown = _line(text)
    shown = shown if len(shown) <= 200 else f"{shown[:199]}…"
    if "`" not in shown:
        return f"`{shown}`"
    marks = "`" * (1 + max(map(len, re.findall("`+", shown))))
    return f"{marks} {shown} {marks}"


def _line(text: str) -> str:
    return " ".join(text.split())
