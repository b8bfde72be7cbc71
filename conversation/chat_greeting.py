"""What ``chat`` says at a terminal when somebody comes and when they leave."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from agent_nodes.store.locate import is_file
from conversation.chat_talk import Talk
from conversation.chat_view import RED, TurnView
from conversation.opening import NO_KEY
from conversation.text import fit, one_line

if TYPE_CHECKING:
    from agent_nodes.store.inspect import TurnView as StoredTurn


async def greet(talk: Talk, view: TurnView, mark: str) -> bool:
    """Session, model and the last exchange. Whether there is a turn that was cut off, which is offered."""
    opening = talk.opening
    view.note(f"session {one_line(opening.key)} with {one_line(' '.join(talk.model))}; /help tells what can be said")
    for note in (NO_KEY if opening.demo else "", opening.endpoint()):
        if note:
            view.note(note)
    last = await opening.host.last_turn()
    if last is not None:
        _show(last, talk, view, mark)
    unfinished = await talk.unfinished()
    if unfinished:
        view.note(f"this turn was cut off: {fit(one_line(unfinished[0].prompt), 200)}")
        view.note("Enter goes on with it; a new prompt waits until it is finished")
    return bool(unfinished)


def _show(last: StoredTurn, talk: Talk, view: TurnView, mark: str) -> None:
    """The last exchange. A turn that was cut off is shown when it goes on."""
    talk.remember(last)
    if last.status == "unfinished":
        return
    view.prompt(last.prompt, mark)
    if last.tools:
        view.note(f"{len(last.tools)} tool call{'s' * (len(last.tools) != 1)}; /show N shows them")
    view.answer(last.text)
    if last.status in ("failed", "aborted"):
        view.note(f"this turn {'was stopped' if last.status == 'aborted' else 'failed'}; /retry goes on with it")


def part(talk: Talk, view: TurnView, *, shutdown: int | None, unsent: int, cut_off: bool) -> None:
    """How to come back, and to what. ``shutdown`` is the signal that ended it, ``unsent`` counts prompts."""
    view.gap()
    if shutdown is not None:
        view.note(f"shut down by {signal.Signals(shutdown).name}", RED)
    if unsent:
        view.note(f"{unsent} prompt{'s' * (unsent != 1)} not sent; Up finds {'them' if unsent != 1 else 'it'} again")
    if cut_off:
        view.note("the turn can go on")
    if is_file(talk.opening.host.path):
        view.note(f"come back with: {talk.comeback()}", "", whole=True)
