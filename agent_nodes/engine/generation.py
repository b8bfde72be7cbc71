"""The turn's own task: ask the model, decide what its response means, commit that, and again until the turn ends.

Phases: ``request`` (a response streams in), ``backoff`` (waiting to ask again), ``tools`` (the round's calls run).
Commits that nothing lies between are one: a request's intent is part of the commit that made it due.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, replace

from agent_nodes.engine import tool_task
from agent_nodes.engine.classify import Answer, CallTools, Continue, Fail, Outcome, Retry, classify
from agent_nodes.engine.continuation import Budgets, delay
from agent_nodes.engine.core import Engine, put_system
from agent_nodes.engine.progress import Progress
from agent_nodes.engine.projection import ContextMeter, Show
from agent_nodes.engine.recovery import take_over
from agent_nodes.engine.scheduler import Definition
from agent_nodes.engine.tokens import message_tokens
from agent_nodes.engine.turn import (
    Checkpoint,
    Ending,
    OpenRound,
    ask_to_continue,
    bill,
    close_turn,
    intend,
    newest_entry,
    note_retry,
)
from agent_nodes.events import ContextUsageEvent, TextDelta, ThinkingDelta
from agent_nodes.messages import AssistantMessage, Usage
from agent_nodes.providers.base import Failed, Failure, Finished, Fold, ModelEntry, ModelRequest
from agent_nodes.store.line import Tx
from agent_nodes.store.records import Task, Turn
from agent_nodes.store.writes import append_entry, drop_progress, set_context, set_tip, step_task


@dataclass(slots=True)
class Attempt:
    """One response on its way in."""

    fold: Fold
    progress: Progress
    end: Finished | Failed | None = None


def wake(engine: Engine, tx: Tx, task: Task) -> None:
    """All calls of the round have results: the model is asked again, unless all of them end the turn."""
    if OpenRound.of(task).ends:
        close_turn(engine, tx, engine.turn(task), None, tip=newest_entry(tx, task.target_id))
        return
    put_system(tx, task.target_id, engine.new_system(task.target_id, engine.setup(task.turn_id).system))
    intend(tx, task, Checkpoint.of(task).step + 1, Budgets())


# -- phases ------------------------------------------------------------------------------------------------------------


async def request(engine: Engine, task: Task) -> None:
    if task.status == "pending":
        await take_over(engine, task)
        return
    checkpoint = Checkpoint.of(task)
    attempt = Attempt(Fold(), Progress(engine, checkpoint.stream))
    try:
        await _stream(engine, task, attempt)
    except asyncio.CancelledError:
        await _cut(engine, task, attempt)
        raise
    attempt.progress.drop()
    end = attempt.end or Failed(Failure("dropped", "the provider's stream ended without saying so", retryable=True))
    message = _message(engine.setup(task.turn_id).model, attempt, end)
    outcome = classify(end, message, produced=attempt.fold.produced, budgets=checkpoint.budgets)
    await _commit(engine, task, attempt, message, outcome)


async def backoff(engine: Engine, task: Task) -> None:
    wait = (task.wake_at or 0.0) - engine.clock.now()
    if wait > 0:
        await engine.clock.sleep(wait)
    checkpoint = Checkpoint.of(task)

    def due(tx: Tx) -> None:
        put_system(tx, task.target_id, engine.new_system(task.target_id, engine.setup(task.turn_id).system))
        intend(tx, task, checkpoint.step, checkpoint.budgets)

    await engine.commit("request.intent", due)


DEFINITION = Definition({"request": request, "backoff": backoff}, wake)


# -- one response ------------------------------------------------------------------------------------------------------


async def _stream(engine: Engine, task: Task, attempt: Attempt) -> None:
    context = engine.context(task.target_id)
    setup = engine.setup(task.turn_id)
    model_request = ModelRequest(
        model=setup.model,
        system=context.system or setup.system,
        messages=context.messages,
        reasoning_from=context.reasoning_from,
        prefix=context.prefix,
        max_tokens=setup.max_tokens,
        effort=setup.effort,
        cache_key=engine.session_id,
    )
    turn_id = task.turn_id or 0
    fold, progress, projection = attempt.fold, attempt.progress, engine.projection
    first = True
    async with aclosing(setup.provider.stream(model_request)) as stream:
        async for events in stream:
            shown: list[TextDelta | ThinkingDelta] = []
            for event in events:
                fold.add(event)
                if isinstance(event, TextDelta | ThinkingDelta):
                    shown.append(event)
                elif isinstance(event, Finished | Failed):
                    attempt.end = event
            if shown:
                progress.add(shown)
                projection.show(turn_id, shown)
                if first:  # a burst would keep the loop busy until its end: let the first words be read now
                    first = False
                    await asyncio.sleep(0)
                await projection.room(turn_id)


async def _cut(engine: Engine, task: Task, attempt: Attempt) -> None:
    """Stopped or shut down in mid-stream: everything that is known goes to disk before we let go."""
    await attempt.progress.finish()
    usage = attempt.fold.usage
    if usage is not None:
        turn, model = engine.turn(task), engine.setup(task.turn_id).model
        billed = replace(usage, calls=1)
        await engine.commit("request.cut", lambda tx: bill(tx, turn, task, model=model, usage=billed))


def _message(model: ModelEntry, attempt: Attempt, end: Finished | Failed) -> AssistantMessage:
    """What the response amounts to: whole when it ended as such, else what can be kept of it."""
    if isinstance(end, Finished) and end.stop in ("end", "tool_use"):
        return attempt.fold.message(model, end.stop)
    return attempt.fold.partial(model)


# -- outcomes ----------------------------------------------------------------------------------------------------------


async def _commit(engine: Engine, task: Task, attempt: Attempt, message: AssistantMessage, outcome: Outcome) -> None:
    match outcome:
        case Answer():
            await _settle(engine, task, attempt, message)
        case CallTools():
            await _open_round(engine, task, attempt, message, outcome)
        case Retry():
            await _retry(engine, task, attempt, outcome)
        case Continue():
            await _continue(engine, task, attempt, message, outcome)
        case Fail():
            await _fail(engine, task, attempt, message, outcome)


def _bill(engine: Engine, tx: Tx, task: Task, attempt: Attempt, *, whole: bool, ends: bool = False) -> Turn:
    """Usage of this response. One that ended whole counts as a call even where the provider reports no tokens."""
    turn = engine.turn(task)
    usage = attempt.fold.usage
    if usage is None and not whole:
        return turn
    usage = replace(usage or Usage(), calls=1)
    return bill(tx, turn, task, model=engine.setup(turn.id).model, usage=usage, ends=ends)


def _keep(engine: Engine, tx: Tx, task: Task, attempt: Attempt, message: AssistantMessage) -> int:
    """The response as an entry; its progress rows have served."""
    stream = Checkpoint.of(task).stream
    entry = append_entry(tx, task.target_id, "assistant", message, turn_id=task.turn_id, task_id=task.id, stream=stream)
    if attempt.progress.stored:
        drop_progress(tx, stream)
    return entry


def _meter(engine: Engine, tx: Tx, task: Task, usage: Usage | None, message: AssistantMessage, *, tip: int) -> None:
    """How full the context is now: the provider's own count, an estimate where it gave none."""
    used = usage.total_tokens if usage else 0
    if not used:
        used = engine.context(task.target_id).tokens + message_tokens(message)
    total = engine.setup(task.turn_id).model.context_window
    set_context(tx, task.target_id, tip, used, total)
    tx.changes.append(ContextMeter(task.target_id, used, total))
    if total is not None:
        tx.changes.append(Show(task.turn_id or 0, [ContextUsageEvent(used, total)]))


async def _settle(engine: Engine, task: Task, attempt: Attempt, message: AssistantMessage) -> None:
    def settle(tx: Tx) -> None:
        turn = _bill(engine, tx, task, attempt, whole=True, ends=True)
        tip = _keep(engine, tx, task, attempt, message)
        _meter(engine, tx, task, attempt.fold.usage, message, tip=tip)
        close_turn(engine, tx, turn, None, tip=tip)

    await engine.commit("answer.settle", settle)


async def _open_round(
    engine: Engine, task: Task, attempt: Attempt, message: AssistantMessage, outcome: CallTools
) -> None:
    tools = engine.setup(task.turn_id).tools
    plans = [tool_task.plan(tools, call) for call in outcome.calls]

    def open_round(tx: Tx) -> None:
        _bill(engine, tx, task, attempt, whole=True)
        tip = _keep(engine, tx, task, attempt, message)
        _meter(engine, tx, task, attempt.fold.usage, message, tip=tip)
        waiting = step_task(tx, task, "tools", OpenRound(len(plans)).beside(task), status="waiting")
        live, tip = tool_task.open_calls(engine, tx, task, plans, tip)
        set_tip(tx, task.target_id, tip)
        if not live:
            wake(engine, tx, waiting)

    await engine.commit("round.open+intent", open_round)


async def _retry(engine: Engine, task: Task, attempt: Attempt, outcome: Retry) -> None:
    checkpoint = Checkpoint.of(task)
    budgets = checkpoint.budgets.spend("dropped")
    wait = delay(budgets.connection, outcome.retry_after, engine.clock.random())

    def retry(tx: Tx) -> None:
        turn = _bill(engine, tx, task, attempt, whole=False)
        if attempt.progress.stored:
            drop_progress(tx, checkpoint.stream)
        note_retry(tx, turn, "dropped", budgets, outcome.reason)
        after = replace(checkpoint, budgets=budgets)
        step_task(tx, task, "backoff", after.to_json(), wake_at=engine.clock.now() + wait)

    await engine.commit("retry", retry)


async def _continue(engine: Engine, task: Task, attempt: Attempt, message: AssistantMessage, outcome: Continue) -> None:
    """Keep what came and ask for the rest: at once when the wire is not to blame, after a wait when it is."""
    checkpoint = Checkpoint.of(task)
    budgets = checkpoint.budgets.spend(outcome.kind)
    at_once = outcome.kind != "dropped"
    wait = 0.0 if at_once else delay(budgets.connection, outcome.retry_after, engine.clock.random())
    whole = outcome.kind in ("length", "lost-call")

    def carry_on(tx: Tx) -> None:
        turn = _bill(engine, tx, task, attempt, whole=whole)
        tip = _keep(engine, tx, task, attempt, message)
        if whole:
            _meter(engine, tx, task, attempt.fold.usage, message, tip=tip)
        tip = ask_to_continue(tx, task, outcome.kind, message)
        set_tip(tx, task.target_id, tip)
        note_retry(tx, turn, outcome.kind, budgets, outcome.reason)
        if at_once:
            intend(tx, task, checkpoint.step + 1, budgets)
        else:
            after = replace(checkpoint, step=checkpoint.step + 1, budgets=budgets)
            step_task(tx, task, "backoff", after.to_json(), wake_at=engine.clock.now() + wait)

    await engine.commit("continue+intent" if at_once else "continue", carry_on)


async def _fail(engine: Engine, task: Task, attempt: Attempt, message: AssistantMessage, outcome: Fail) -> None:
    def fail(tx: Tx) -> None:
        turn = _bill(engine, tx, task, attempt, whole=isinstance(attempt.end, Finished), ends=True)
        tip = None
        if message.content:
            tip = _keep(engine, tx, task, attempt, message)
            set_tip(tx, task.target_id, tip)
        elif attempt.progress.stored:
            drop_progress(tx, Checkpoint.of(task).stream)
        close_turn(engine, tx, turn, Ending(outcome.reason, outcome.detail), tip=tip)

    await engine.commit("answer.fail", fail)
