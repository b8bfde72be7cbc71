"""One tool call as a task: checked before its intent is committed, executed after, its result committed with others
that came at the same time. Found again after a crash, a call is repeated only where both its stored and its present
definition say that this is safe."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TypeAlias

from agent_nodes._aio import run_in_thread
from agent_nodes.engine.core import Engine
from agent_nodes.engine.progress import Progress
from agent_nodes.engine.projection import Show
from agent_nodes.engine.scheduler import Definition
from agent_nodes.engine.turn import NAME as TURN_TASK
from agent_nodes.engine.turn import OpenRound
from agent_nodes.errors import AgentError
from agent_nodes.events import TextDelta, ToolEvent
from agent_nodes.messages import JsonObject, ToolCall, ToolResultMessage, repair_text
from agent_nodes.store import reads
from agent_nodes.store.kinds import TaskStatus
from agent_nodes.store.line import Tx
from agent_nodes.store.records import Task
from agent_nodes.store.writes import (
    add_activity,
    add_task,
    add_tool_usage,
    add_wait,
    append_entry,
    drop_progress,
    end_task,
    set_tip,
    step_task,
)
from agent_nodes.tools.arguments import check_arguments
from agent_nodes.tools.base import MARKER, AgentTool, AgentToolResult, ToolContext, is_async
from agent_nodes.tools.environment import ToolError
from agent_nodes.tools.results import result_of

NAME = "tool"

_UNKNOWN_OUTCOME = (
    "[interrupted] The program stopped while this call was running. Whether it took effect is unknown; it was not run "
    "again. Check the state before you repeat it."
)


@dataclass(frozen=True, slots=True)
class Plan:
    """A call of the model, checked: ready to run, or refused with a text for the model."""

    call: ToolCall
    tool: AgentTool | None
    arguments: JsonObject
    refusal: str | None


def plan(tools: Mapping[str, AgentTool], call: ToolCall) -> Plan:
    tool = tools.get(call.name)
    if tool is None:
        offered = ", ".join(tools) or "none"
        return Plan(call, None, {}, f"There is no tool named {call.name!r}. Available tools: {offered}.")
    try:
        return Plan(call, tool, check_arguments(tool, call.arguments, call.invalid), None)
    except ToolError as error:
        return Plan(call, tool, {}, str(error))


def open_calls(engine: Engine, tx: Tx, owner: Task, plans: Sequence[Plan], tip: int) -> tuple[bool, int]:
    """The round's tool tasks under ``owner``: refused calls end at once, parallel ones and the first sequential one
    start, each further sequential one waits for the one before it. Returns whether any is live, and the last entry."""
    live = False
    previous: Task | None = None
    for item in plans:
        sequential = item.tool is not None and item.tool.execution == "sequential"
        if item.refusal is not None:
            task = _new_task(tx, owner, item, "waiting")
            started(engine, tx, task)
            tip, _ = settle(engine, tx, task, failed(item.refusal))
            continue
        live = True
        if sequential and previous is not None:
            task = _new_task(tx, owner, item, "waiting")
            add_wait(tx, task.id, previous.id)
        else:
            task = _new_task(tx, owner, item, "running")
            started(engine, tx, task)
        add_wait(tx, owner.id, task.id)
        if sequential:
            previous = task
    return live, tip


def _new_task(tx: Tx, owner: Task, item: Plan, status: TaskStatus) -> Task:
    task = Task(
        tx.new_id(),
        owner.target_id,
        owner.id,
        owner.turn_id,
        NAME,
        status,
        "call" if status == "waiting" else "execute",
        {},
        item.arguments,
        call_id=item.call.id,
        tool=item.call.name,
        replay=None if item.tool is None else item.tool.replay,
    )
    return add_task(tx, task)


def tool_call_id(session_id: str, task: Task) -> str:
    """The id hosts and tools see: ours, unique over all sessions, the same whenever this call is shown."""
    return f"call-{session_id}-{task.id}"


def output_stream(task: Task) -> str:
    """The name of the call's progress rows."""
    return f"call-{task.id}"


def started(engine: Engine, tx: Tx, task: Task) -> None:
    turn = engine.turn(task)
    add_activity(tx, turn, "tool_start", task_id=task.id)
    tx.changes.append(Show(turn.id, [start_event(engine.session_id, task)]))


def start_event(session_id: str, task: Task) -> ToolEvent:
    return ToolEvent("start", tool_call_id(session_id, task), task.tool or "", arguments=deepcopy(task.input))


def end_event(session_id: str, task: Task, message: ToolResultMessage) -> ToolEvent:
    call_id = tool_call_id(session_id, task)
    return ToolEvent("end", call_id, message.name, result=message.result, is_error=message.is_error)


def settle(
    engine: Engine, tx: Tx, task: Task, result: AgentToolResult, *, shown: bool = True
) -> tuple[int, list[Task]]:
    """The call's result as an entry, its task ended; returns the entry and the tasks this set free."""
    message = ToolResultMessage(
        task.call_id or "", task.tool or "", result.blocks(), result.is_error, result.structured_content
    )
    entry = append_entry(tx, task.target_id, "tool_result", message, turn_id=task.turn_id, task_id=task.id)
    turn = engine.turn(task)
    if result.usage is not None:
        add_tool_usage(tx, turn, task, result.usage)
    if shown:
        add_activity(tx, turn, "tool_end", {"is_error": True} if result.is_error else None, task_id=task.id)
        tx.changes.append(Show(turn.id, [end_event(engine.session_id, task, message)]))
    return entry, end_task(tx, task)


# -- phases ------------------------------------------------------------------------------------------------------------


def wake(engine: Engine, tx: Tx, task: Task) -> None:
    """The sequential call before this one has its result: this one's intent joins that commit."""
    started(engine, tx, step_task(tx, task, "execute", {}))


async def execute(engine: Engine, task: Task) -> None:
    tool = engine.setup(task.turn_id).tools.get(task.tool or "")
    progress = Progress(engine, output_stream(task), output=True)
    if task.status == "pending":
        lost = await _left_behind(engine, task, tool)
        if lost is not None:
            await engine.results.put(task, lost, stored=True)
            return
    try:
        result = await _run(engine, task, tool, progress)
    except asyncio.CancelledError:
        await progress.finish()
        raise
    progress.drop()
    await engine.results.put(task, result, stored=progress.stored or task.status == "pending")


DEFINITION = Definition({"execute": execute}, wake)


async def _left_behind(engine: Engine, task: Task, tool: AgentTool | None) -> AgentToolResult | None:
    """A call that a crash cut off: what it left running is ended first. None when it may run again."""
    from agent_nodes.tools.shell import sweep

    await asyncio.to_thread(sweep, marker(engine, task))
    if tool is None and task.replay == "safe":
        return not_offered(task, " The program stopped while this call was running, and it was not run again.")
    if task.replay == "safe" and tool is not None and tool.replay == "safe":
        return None
    rows = await engine.line.read(lambda tx: reads.progress(tx, output_stream(task)))
    output = "".join(delta for _, _, delta in rows)
    text = f"{_UNKNOWN_OUTCOME}\nIts output until then:\n{output}" if output else _UNKNOWN_OUTCOME
    return failed(text)


def failed(text: str) -> AgentToolResult:
    """An error result, within the bounds of any result."""
    return result_of(AgentToolResult(text, is_error=True))


def not_offered(task: Task, outcome: str) -> AgentToolResult:
    """What is permitted now counts, not what was when the model called."""
    return failed(f"[not permitted] The tool {task.tool!r} is not offered any more.{outcome}")


def marker(engine: Engine, task: Task) -> str:
    return f"{engine.session_id}:{task.id}"


async def _run(engine: Engine, task: Task, tool: AgentTool | None, progress: Progress) -> AgentToolResult:
    if tool is None:
        return not_offered(task, " This call was not run.")
    output = _Output(engine, task, progress)
    setup = engine.setup(task.turn_id)
    context = ToolContext(
        tool_call_id=tool_call_id(engine.session_id, task),
        workdir=setup.workdir,
        roots=setup.roots,
        signal=engine.projection.signal(task.turn_id or 0),
        update=output.update,
        environment={MARKER: marker(engine, task)},
        session_id=engine.session_id,
        request_id=engine.turn(task).request_id,
        background=engine.background,
    )
    # A task of its own: a tool that cancels itself is told from a call that is cancelled by us.
    call = asyncio.ensure_future(_call(tool, task.input, context))
    try:
        return await call
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
        return failed("The call was cancelled inside the tool.")
    finally:
        output.close()


async def _call(tool: AgentTool, arguments: JsonObject, context: ToolContext) -> AgentToolResult:
    """Whatever a tool raises is a result that the model can handle. A plain function runs in a thread. The tool gets
    a copy of the arguments: what it does to them is no part of what the model called."""
    execute = tool.execute
    arguments = deepcopy(arguments)
    try:
        if is_async(execute):
            value = await execute(arguments, context)
        else:
            value = await run_in_thread(lambda: execute(arguments, context))
            if inspect.isawaitable(value):
                value = await value
        return result_of(value, tool.output_schema)
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException as error:
        return failed(_words(error))


def _words(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__


class _Output:
    """What a running call puts out, shown and stored as it comes, from any thread; nothing after its end."""

    def __init__(self, engine: Engine, task: Task, progress: Progress) -> None:
        self._engine = engine
        self._task = task
        self._progress = progress
        self._loop = asyncio.get_running_loop()
        self._open = True

    def update(self, output: str) -> None:
        piece = repair_text(output)
        if piece and _runs_here(self._loop):
            self._show(piece)
        elif piece:
            self._loop.call_soon_threadsafe(self._show, piece)

    def _show(self, piece: str) -> None:
        if not self._open:
            return
        with suppress(AgentError):  # a store that fails is told when the result is committed
            self._progress.add([TextDelta(piece, 0)])
        task = self._task
        event = ToolEvent("update", tool_call_id(self._engine.session_id, task), task.tool or "", output=piece)
        self._engine.projection.show(task.turn_id or 0, [event])

    def close(self) -> None:
        self._open = False


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:  # a thread without a loop
        return False


_Finished: TypeAlias = tuple[Task, AgentToolResult, bool, "asyncio.Future[None]"]
_Rounds: TypeAlias = list[tuple[Task, OpenRound]]


class Results:
    """Collects finished calls; those that come while a commit is under way share the next one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._items: list[_Finished] = []
        self._flush: asyncio.Task[None] | None = None

    async def put(self, task: Task, result: AgentToolResult, *, stored: bool) -> None:
        """Returns when the result is on disk. ``stored``: the call may have progress rows to remove."""
        if not self._engine.scheduler.drives(task.id):
            return  # given up at a stop or shutdown: its end is recorded already
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._items.append((task, result, stored, done))
        if self._flush is None:
            self._flush = self._engine.scheduler.spawn(self._write_all())
        await done

    async def idle(self) -> None:
        if self._flush is not None:
            await asyncio.wait([self._flush])

    async def _write_all(self) -> None:
        try:
            while self._items:
                items, self._items = self._items, []
                try:
                    await self._write(items)
                except Exception as error:
                    for *_, done in items:
                        if not done.done():
                            done.set_exception(error)
                for *_, done in items:
                    if not done.done():
                        done.set_result(None)
        finally:
            self._flush = None

    async def _write(self, items: Sequence[_Finished]) -> None:
        engine = self._engine
        rounds = self._ending(items)

        def write(tx: Tx) -> None:
            free: list[Task] = []
            tip = 0
            for owner, counted in rounds:
                step_task(tx, owner, owner.phase, counted.beside(owner), status=owner.status)
            for task, result, stored, _ in items:
                if stored:
                    drop_progress(tx, output_stream(task))
                tip, woken = settle(engine, tx, task, result)
                free += woken
            set_tip(tx, items[0][0].target_id, tip)
            for task in free:
                engine.wake(tx, task)

        done = {task.id for task, *_ in items}
        owners = {task.owner_task for task, *_ in items}
        left = [t for t in engine.projection.tasks.values() if t.owner_task in owners and t.id not in done]
        goes_on = not left or any(t.status == "waiting" for t in left)
        ends = any(counted.ends for _, counted in rounds)
        await engine.commit("tool.result+settle" if ends else "tool.result+intent" if goes_on else "tool.result", write)

    def _ending(self, items: Sequence[_Finished]) -> _Rounds:
        """The rounds in which some of these results say that the turn ends, with those counted."""
        rounds: _Rounds = []
        for owner_id, count in Counter(task.owner_task for task, result, *_ in items if result.terminate).items():
            owner = self._engine.projection.tasks.get(owner_id or 0)
            if owner is not None and owner.name == TURN_TASK:
                counted = OpenRound.of(owner)
                rounds.append((owner, replace(counted, ending=counted.ending + count)))
        return rounds


def stopped_result(task: Task) -> AgentToolResult:
    """What a call says that a stop or failure of its turn ended."""
    if task.status == "waiting":
        return AgentToolResult("[not run] The turn was stopped before this call started.", is_error=True)
    return AgentToolResult(
        "[stopped] The turn was stopped while this call was running; what it did until then stands.", is_error=True
    )
