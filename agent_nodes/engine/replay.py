"""A turn's own committed output, in order, as the events it was shown by: for a repeated request, and for a run that
takes a turn over and has to show first what there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_nodes.engine.tool_task import end_event, start_event
from agent_nodes.engine.turn import shown_again
from agent_nodes.events import AgentStreamEvent, ContextUsageEvent
from agent_nodes.messages import AssistantMessage, ToolResultMessage
from agent_nodes.store import reads
from agent_nodes.store.line import Tx
from agent_nodes.store.reads import ActivityRow, EntryRow
from agent_nodes.store.records import Task, Turn, UsageRow


@dataclass(frozen=True, slots=True)
class StoredTurn:
    entries: Sequence[EntryRow]
    activity: Sequence[ActivityRow]
    tasks: dict[int, Task]
    usage: Sequence[UsageRow]

    def events(self) -> list[AgentStreamEvent]:
        """One delta a stored block, tool starts and ends, the last context usage; no retries."""
        rows = sorted([*self.entries, *self.activity], key=lambda row: row.id)
        results: dict[int, ToolResultMessage] = {
            row.task_id or 0: row.message for row in self.entries if isinstance(row.message, ToolResultMessage)
        }
        out: list[AgentStreamEvent] = []
        usage: ContextUsageEvent | None = None
        for row in rows:
            if isinstance(row, EntryRow):
                if isinstance(row.message, AssistantMessage):
                    out += shown_again(row.message)
                continue
            task = self.tasks.get(row.task_id or 0)
            if row.type == "tool_start" and task is not None:
                out.append(start_event(task))
            elif row.type == "tool_end" and task is not None:
                out.append(end_event(task, results[task.id]))
            elif row.type == "turn_end" and "used" in row.data:
                usage = ContextUsageEvent(row.data["used"], row.data["total"])
        if usage is not None:
            out.append(usage)
        return out


def stored_turn(tx: Tx, turn: Turn, tip: int) -> StoredTurn:
    """Reads one turn; ``tip`` is the newest entry of its target, the bound for a turn that has not ended."""
    activity = reads.turn_activity(tx, turn.id)
    last = tip
    if turn.status == "answered":
        last = max([row.data.get("entry", 0) for row in activity if row.type == "turn_end"], default=tip)
    tasks = {row.task_id: reads.task(tx, row.task_id) for row in activity if row.task_id is not None}
    return StoredTurn(reads.turn_entries(tx, turn, last), activity, tasks, reads.turn_usage(tx, turn.id))
