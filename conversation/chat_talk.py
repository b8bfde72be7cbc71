"""The conversation that ``chat`` holds, whatever it is typed and shown on: its turns, what they did and cost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from agent_nodes._aio import AbortSignal
from agent_nodes._clock import SYSTEM_CLOCK, Clock
from agent_nodes.errors import AgentError
from agent_nodes.host import AgentHost, UsageReport
from agent_nodes.messages import JsonValue
from agent_nodes.runtime import AgentRunResult, ContextUsage
from conversation.host import ConversationRun
from conversation.opening import Opening
from conversation.problems import problem

if TYPE_CHECKING:
    from agent_nodes.events import AgentStreamEvent, ToolEvent
    from agent_nodes.store.inspect import TurnView

LEAVING = "Ctrl-C again, or Ctrl-D, leaves"

Show: TypeAlias = "Callable[[AgentStreamEvent], Awaitable[None]]"


@dataclass(slots=True)
class Call:
    """A call of a tool, to be looked at later under its ``number``. ``seconds`` are None until it has ended, and for a
    call of an earlier process."""

    number: int
    name: str
    arguments: dict[str, Any]
    started: float = 0.0
    seconds: float | None = None
    result: JsonValue = None
    is_error: bool = False
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """A file that goes with a prompt, as the input takes it."""

    path: str
    data: str
    mime_type: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a turn is asked for. Without ``text`` it is a turn that there is: one that was cut off, with ``reopen`` the
    last one."""

    text: str | None
    reopen: bool = False
    pictures: tuple[Picture, ...] = ()


@dataclass(slots=True)
class Talk:
    """``choices`` are fields of the input of all turns to come, chosen on the way (the model, how hard it thinks),
    ``flags`` the same for the command that comes back. ``pictures`` go with the next prompt.

    ``thinking`` says whether reasoning is shown, ``thoughts`` is that of the last turn. ``run`` is the last turn's, and
    ``resumed`` says whether that one began in an earlier process."""

    opening: Opening
    clock: Clock = SYSTEM_CLOCK
    choices: dict[str, Any] = field(default_factory=dict[str, Any])
    flags: dict[str, Any] = field(default_factory=dict[str, Any])
    pictures: list[Picture] = field(default_factory=list[Picture])
    calls: list[Call] = field(default_factory=list[Call])
    thinking: bool = False
    thoughts: str = ""
    run: ConversationRun | None = None
    resumed: bool = False
    running: bool = False
    _by_id: dict[str, Call] = field(default_factory=dict[str, Call])
    _reports: dict[str, UsageReport] = field(default_factory=dict[str, UsageReport])

    async def unfinished(self, prompt: str | None = None) -> list[TurnView]:
        """Turns that were cut off and go before ``prompt``, oldest first; the one that it means ends the list."""
        out: list[TurnView] = []
        for turn in await self.opening.host.unfinished():
            if turn.prompt == prompt:
                break
            out.append(turn)
        return out

    async def turn(self, prompt: Prompt, stop: AbortSignal, show: Show) -> AgentRunResult:
        """One turn, shown as it goes. Raises as :class:`~agent_nodes.AgentRun` does; where ``show`` raises, the turn is
        stopped."""
        fields: dict[str, Any] = {**self.choices}
        if prompt.text is not None:
            fields["prompt"] = prompt.text
        if prompt.reopen:
            fields["reopen"] = True
        if prompt.pictures:
            fields["images"] = [{"data": one.data, "mime_type": one.mime_type} for one in prompt.pictures]
        return await self._run(fields, stop, show)

    async def finish(self, turn: TurnView, stop: AbortSignal, show: Show) -> str:
        """Go on with a turn that was cut off, with what it was asked for. Empty when it is answered, else why not;
        raises where it has not ended, and where it was stopped."""
        try:
            await self._run({"request_id": turn.request_id}, stop, show, resumed=True)
        except AgentError as error:
            if self.run is None or self.run.result is None or stop.is_set:
                raise
            return problem(error)
        return ""

    async def _run(
        self, fields: dict[str, Any], stop: AbortSignal, show: Show, *, resumed: bool = False
    ) -> AgentRunResult:
        self.thoughts, self.run, self.running = "", None, True
        try:
            host = AgentHost(abort_signal=stop, report_usage=self._report)
            run = self.run = await self.opening.host.start(fields, host)
            self.resumed = resumed or run.resumed
            async with aclosing(run.events()) as events:
                async for event in events:
                    self._note(event)
                    await show(event)
        finally:
            self.running = False
        assert run.result is not None  # a run that ends without raising has one
        return run.result

    @property
    def admitted(self) -> bool:
        """Whether there is a turn of the last prompt in the session, whatever came of it."""
        result = self.run.result if self.run is not None else None
        return self.run is not None and (result is None or result.turn_id is not None)

    def cost(self, request_id: str) -> float | None:
        """US dollars for the turn, None where a price is not known."""
        costs = [report.cost for report in self._reports.values() if report.request_id == request_id]
        return sum(cost for cost in costs if cost is not None) if None not in costs and costs else None

    @property
    def model(self) -> tuple[str, str]:
        """Provider and id of the model that the next turn goes to."""
        provider, model = self.opening.host.model
        return self.choices.get("provider", provider), self.choices.get("model", model)

    def prompt(self, text: str) -> Prompt:
        """``text`` as a prompt, with the pictures that were chosen for it."""
        pictures, self.pictures = tuple(self.pictures), []
        return Prompt(text, pictures=pictures)

    def comeback(self) -> str:
        """The command line that goes on with this conversation."""
        return self.opening.again("chat", **self.flags)

    def context(self) -> ContextUsage | None:
        return self.opening.host.context_usage()

    def remember(self, turn: TurnView) -> None:
        """The calls of an earlier turn can be looked at too."""
        for tool in turn.tools:
            call = self._add(tool.name, tool.arguments)
            call.result, call.is_error, call.ended = tool.result, tool.is_error, tool.result is not None

    def call_of(self, event: ToolEvent) -> Call:
        """The call that an event of this turn is about."""
        return self._by_id[event.tool_call_id]

    def _report(self, report: UsageReport) -> None:
        self._reports[report.record_id] = report

    def _add(self, name: str, arguments: dict[str, Any]) -> Call:
        call = Call(len(self.calls) + 1, name, arguments, self.clock.monotonic())
        self.calls.append(call)
        return call

    def _note(self, event: AgentStreamEvent) -> None:
        if event.type == "thinking_delta":
            self.thoughts += event.delta
        elif event.type == "tool" and event.phase == "start":
            known = self._by_id.get(event.tool_call_id)  # shown again by a turn that goes on
            self._by_id[event.tool_call_id] = known or self._add(event.name, event.arguments or {})
        elif event.type == "tool" and event.phase == "end":
            call = self._by_id[event.tool_call_id]
            call.seconds, call.ended = self.clock.monotonic() - call.started, True
            call.result, call.is_error = event.result, bool(event.is_error)
