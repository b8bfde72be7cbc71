"""Taking a request over from an owner that is gone, and giving one up: both start from what was stored of it."""

from __future__ import annotations

from collections.abc import Sequence

from agent_nodes.engine.continuation import exhausted
from agent_nodes.engine.core import Engine, put_system
from agent_nodes.engine.projection import Show
from agent_nodes.engine.turn import Checkpoint, Ending, ask_to_continue, close_turn, intend, note_retry, shown_again
from agent_nodes.events import TextDelta, ThinkingDelta
from agent_nodes.messages import AssistantMessage
from agent_nodes.providers.base import Fold, ModelEntry
from agent_nodes.store import reads
from agent_nodes.store.line import Tx
from agent_nodes.store.records import Task
from agent_nodes.store.writes import append_entry, drop_progress, set_tip


async def take_over(engine: Engine, task: Task) -> None:
    """A request whose outcome nobody knows. What was stored of its answer is kept and carried on from; with nothing
    stored the request is sent again. Both spend the connection budget."""
    checkpoint = Checkpoint.of(task)
    rows = await engine.line.read(lambda tx: reads.progress(tx, checkpoint.stream))
    kept = kept_of(engine.setup(task.turn_id).model, rows)
    if not checkpoint.budgets.left("recovery"):
        detail = exhausted("recovery", checkpoint.budgets, "the program was interrupted")
        ending = Ending("retries_exhausted", detail)
        await engine.commit("answer.fail", lambda tx: abandon(engine, tx, task, kept, ending))
        return
    budgets = checkpoint.budgets.spend("recovery")
    system = engine.new_system(task.target_id, engine.setup(task.turn_id).system)

    def recover(tx: Tx) -> None:
        turn = engine.turn(task)
        if kept.content:
            keep_partial(tx, task, kept)
            tx.changes.append(Show(turn.id, shown_again(kept)))
            tip = ask_to_continue(tx, task, "recovery", kept)
            set_tip(tx, task.target_id, tip)
        put_system(tx, task.target_id, system)
        note_retry(tx, turn, "recovery", budgets, "the program was interrupted while the model answered")
        intend(tx, task, checkpoint.step + bool(kept.content), budgets)

    await engine.commit("continue+intent" if kept.content else "request.again", recover)


def kept_of(model: ModelEntry, rows: Sequence[tuple[int, str, str]]) -> AssistantMessage:
    """The stored pieces of a broken response as a message."""
    fold = Fold()
    for index, kind, delta in rows:
        fold.add(TextDelta(delta, index) if kind == "text" else ThinkingDelta(delta, index))
    return fold.partial(model)


def keep_partial(tx: Tx, task: Task, kept: AssistantMessage) -> int:
    stream = Checkpoint.of(task).stream
    drop_progress(tx, stream)
    return append_entry(tx, task.target_id, "assistant", kept, turn_id=task.turn_id, task_id=task.id, stream=stream)


def abandon(engine: Engine, tx: Tx, task: Task, kept: AssistantMessage, ending: Ending) -> None:
    """Ends the turn of a request that will not be made again, with what was stored of it."""
    tip = None
    if kept.content:
        tip = keep_partial(tx, task, kept)
        set_tip(tx, task.target_id, tip)
        if task.status == "pending":  # streamed by an owner that is gone: nobody here has been shown it
            tx.changes.append(Show(task.turn_id or 0, shown_again(kept)))
    close_turn(engine, tx, engine.turn(task), ending, tip=tip)
