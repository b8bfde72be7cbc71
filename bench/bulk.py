"""Turns written straight into a session's file, at once: the rows that as many real text turns leave in it."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from agent_nodes.engine.inbox import SUBMIT, content_digest
from agent_nodes.engine.turn import Checkpoint, begin
from agent_nodes.messages import AssistantMessage, TextBlock, Usage, UserMessage
from agent_nodes.store import _sql
from agent_nodes.store.line import Tx
from agent_nodes.store.records import Task, Turn
from agent_nodes.store.storage import connect
from agent_nodes.store.writes import (
    add_receipt,
    add_turn,
    add_usage,
    append_entry,
    end_task,
    end_turn,
    set_context,
    set_tip,
)
from agent_nodes.submission import Submission
from bench.common import BY_PROMPT, words
from bench.ours import API, PROVIDER

MAIN = 1


def add_turns(path: Path, count: int, deltas: int) -> None:
    """Appends `count` turns of `deltas` text deltas to the session at `path`, which is closed and had a turn before.

    Each turn is numbered as the two commits that it really takes; all of them are one transaction.
    """
    with closing(connect(str(path))) as connection:
        cursor = connection.cursor()
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.execute("BEGIN IMMEDIATE")
        was, next_id = cursor.execute(_sql.COUNTERS.text, _sql.COUNTERS.bind({})).fetchone()
        (owner,) = cursor.execute("SELECT owner_id FROM meta").fetchone()
        seq = was
        for _ in range(count):
            tx = Tx(cursor.execute, seq + 1, next_id, writes=True)
            turn, task = admit(tx, f"text-{deltas}")
            tx = Tx(cursor.execute, seq + 2, tx.end(), writes=True)
            settle(tx, turn, task, "".join(words(deltas)), Usage(20 * seq, deltas, calls=1))
            next_id, seq = tx.end(), seq + 2
        cursor.execute(_sql.FENCE.text, _sql.FENCE.bind({"me": owner, "was": was, "now": seq, "nid": next_id}))
        cursor.execute("COMMIT")


def admit(tx: Tx, prompt: str) -> tuple[Turn, Task]:
    turn_id, task_id, request_id = tx.new_id(), tx.new_id(), uuid4().hex
    digest = content_digest(Submission(prompt))
    add_receipt(tx, request_id, MAIN, kind=SUBMIT, digest=digest, result={"turn_id": turn_id})
    turn = add_turn(tx, turn_id, MAIN, request_id, task_id)
    message = UserMessage((TextBlock(prompt),))
    set_tip(tx, MAIN, append_entry(tx, MAIN, "user", message, turn_id=turn_id, task_id=task_id))
    return turn, begin(tx, turn, task_id, {})


def settle(tx: Tx, turn: Turn, task: Task, text: str, usage: Usage) -> None:
    stream = Checkpoint.of(task).stream
    bill = {"record_id": stream, "provider": PROVIDER, "model": BY_PROMPT, "usage": usage}
    turn = add_usage(tx, turn, task.id, **bill, ends=True)
    message = AssistantMessage((TextBlock(text),), API, PROVIDER, BY_PROMPT)
    tip = append_entry(tx, MAIN, "assistant", message, turn_id=turn.id, task_id=task.id, stream=stream)
    set_context(tx, MAIN, tip, usage.total_tokens, None)
    end_task(tx, task)
    end_turn(tx, replace(turn, status="answered", last_entry=tip, context_used=usage.total_tokens))
