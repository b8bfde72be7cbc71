"""What a run showed to its caller."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent_nodes import UsageReport
from agent_nodes.events import AgentStreamEvent, TextDelta, ToolEvent
from agent_nodes.runtime import AgentRun
from tests.machine.reference import Talk
from tests.machine.stored import task_of
from tests.machine.trouble import Trouble


@dataclass
class Seen:
    """What a run showed to its caller, and what happened meanwhile."""

    request_id: str
    events: list[AgentStreamEvent] = field(default_factory=list[AgentStreamEvent])
    reports: dict[str, UsageReport] = field(default_factory=dict[str, UsageReport])
    error: BaseException | None = None
    run: AgentRun | None = None
    trouble: Trouble | None = None
    faults: int = 0
    left: bool = False
    finished: bool = False

    @property
    def disturbed(self) -> bool:
        return self.trouble is not None or self.faults > 0

    @property
    def text(self) -> str:
        talk = Talk()
        for event in self.events:
            if isinstance(event, TextDelta):
                talk.say(event.delta)
            elif isinstance(event, ToolEvent):
                talk.gap = True
        return talk.text

    @property
    def retries(self) -> list[tuple[str, int]]:
        return [(event.kind, event.attempt) for event in self.events if event.type == "retry"]  # type: ignore[union-attr]

    def tool_events(self, phase: str) -> list[int]:
        """The tasks of the calls, in the order of their events."""
        return [
            task_of(event.tool_call_id)
            for event in self.events
            if isinstance(event, ToolEvent) and event.phase == phase
        ]
