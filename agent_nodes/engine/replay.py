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
    session_id: str
    turn: Turn
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
        for row in rows:
            if isinstance(row, EntryRow):
                if isinstance(row.message, AssistantMessage):
                    out += shown_again(row.message)
                continue
            task = self.tasks.get(row.task_id or 0)
            if row.type == "tool_start" and task is not None:
                out.append(start_event(self.session_id, task))
            elif row.type == "tool_end" and task is not None:
                out.append(end_event(self.session_id, task, results[task.id]))
        turn = self.turn
        if turn.context_used is not None and turn.context_total is not None:
            out.append(ContextUsageEvent(turn.context_used, turn.context_total))
        return out


NEWEST = 2**62


def stored_turn(tx: Tx, turn: Turn) -> StoredTurn:
    activity = reads.turn_activity(tx, turn.id)
    last = turn.last_entry if turn.status == "answered" and turn.last_entry is not None else NEWEST
    tasks = {row.task_id: reads.task(tx, row.task_id) for row in activity if row.task_id is not None}
    return StoredTurn(
        reads.session_id(tx), turn, reads.turn_entries(tx, turn, last), activity, tasks, reads.turn_usage(tx, turn.id)
    )
