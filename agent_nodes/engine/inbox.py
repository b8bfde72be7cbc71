"""Submissions: one commit makes a prompt a turn with its first request intended, or finds that it is known already."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import orjson

from agent_nodes.engine.config import TurnConfig
from agent_nodes.engine.continuation import reopened
from agent_nodes.engine.core import Engine, put_system
from agent_nodes.engine.turn import begin
from agent_nodes.errors import InputValidationError, RequestConflict
from agent_nodes.messages import ContentBlock, JsonObject, TextBlock, UserMessage, repair_text
from agent_nodes.store import reads
from agent_nodes.store.line import Tx
from agent_nodes.store.records import Receipt, Turn
from agent_nodes.store.writes import add_receipt, add_turn, append_entry, reopen_turn, set_tip
from agent_nodes.submission import Submission

SUBMIT = "submit"


@dataclass(frozen=True, slots=True)
class Known:
    """The request id stands in the session already, with its turn."""

    turn: Turn


class _KnownRequest(Exception):
    """Rolls an admission back: the id is taken."""

    def __init__(self, receipt: Receipt, turn: Turn | None) -> None:
        self.receipt = receipt
        self.turn = turn


def content_digest(given: Submission) -> str:
    """Of what is compared when a request id comes again: the prompt, and pictures and a host's history where there
    are some."""
    content: JsonObject = {"prompt": None if given.prompt is None else repair_text(given.prompt)}
    if given.images:
        content["prompt"] = content["prompt"] or ""
        content["images"] = [[image.mime_type, image.digest()] for image in given.images]
    return blake2b(orjson.dumps(content, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


async def admit(engine: Engine, given: Submission, request_id: str, setup: TurnConfig) -> Turn | Known:
    """Admit a new submission, or find the turn of a known one.

    Raises :class:`RequestConflict` when the id is known with other content or for another kind of request, and
    :class:`InputValidationError` when a prompt is needed and missing.
    """
    target_id = engine.main_target
    system = engine.new_system(target_id, setup.system)
    digest = content_digest(given)

    def write(tx: Tx) -> Turn:
        receipt = reads.receipt(tx, request_id)
        if receipt is not None:
            raise _KnownRequest(receipt, turn_of(tx, receipt))
        message = UserMessage(check_content(given, request_id))
        turn_id, task_id = tx.new_id(), tx.new_id()
        add_receipt(tx, request_id, target_id, kind=SUBMIT, digest=digest, result={"turn_id": turn_id})
        turn = add_turn(tx, turn_id, target_id, request_id, task_id)
        put_system(tx, target_id, system)
        tip = append_entry(tx, target_id, "user", message, turn_id=turn_id, task_id=task_id)
        set_tip(tx, target_id, tip)
        begin(tx, turn, task_id, dict(given.overrides))
        return turn

    try:
        turn = await engine.commit("admit+intent", write)
    except _KnownRequest as known:
        return Known(check_known(given, request_id, known.receipt, known.turn))
    engine.projection.setups[turn.id] = setup
    return turn


def check_content(given: Submission, request_id: str) -> tuple[ContentBlock, ...]:
    """The content that a request not known here must bring: its pictures, then its text."""
    if given.prompt is None and not given.images:
        raise InputValidationError(
            f"input.prompt: missing; request_id {request_id!r} is not known here", field="prompt"
        )
    text = repair_text(given.prompt or "")
    return (*given.pictures, TextBlock(text)) if text.strip() else given.pictures


def turn_of(tx: Tx, receipt: Receipt) -> Turn | None:
    """The turn a submission's receipt names."""
    return reads.turn(tx, receipt.result["turn_id"]) if receipt.type == SUBMIT else None


def check_known(given: Submission, request_id: str, receipt: Receipt, turn: Turn | None) -> Turn:
    if turn is None:
        raise RequestConflict(
            f"request_id {request_id!r} belongs to a {receipt.type} command of this session; use a new one."
        )
    if (given.prompt is not None or given.images) and receipt.digest != content_digest(given):
        raise RequestConflict(
            f"request_id {request_id!r} was used with another prompt or other images. Repeat it with the same (or "
            "none) to get its result, or use a new request_id for new input."
        )
    return turn


async def reopen(engine: Engine, turn: Turn, given: Submission) -> Turn:
    """A failed or stopped turn goes on: fresh budgets, everything committed stays. Overrides that come with it count
    over those it began with.

    Raises :class:`InputValidationError` where they cannot be had here and now.
    """
    stored = await engine.line.read(lambda tx: reads.task(tx, turn.task_id or 0).input)
    overrides = {**stored, **given.overrides}
    setup = engine.config.resolve(overrides) if overrides else engine.config.base
    context = engine.context(turn.target_id)
    system = engine.new_system(turn.target_id, setup.system)

    def write(tx: Tx) -> Turn:
        task_id = tx.new_id()
        again = reopen_turn(tx, turn, task_id)
        put_system(tx, turn.target_id, system)
        if not context.open_end:
            message = reopened()
            tip = append_entry(tx, turn.target_id, "continuation", message, turn_id=turn.id, task_id=task_id)
            set_tip(tx, turn.target_id, tip)
        begin(tx, again, task_id, overrides)
        return again

    again = await engine.commit("reopen+intent", write)
    engine.projection.setups[again.id] = setup
    return again
