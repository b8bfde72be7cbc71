"""``agent-nodes sessions``: what there is and what was said, read beside whoever is at work on it."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.messages import JsonObject
from agent_nodes.store.inspect import SessionSummary, ToolView, TurnView
from agent_nodes.store.locate import data_dir
from conversation.host import PROJECT, SESSION_KEY, full_name, list_sessions, read_session
from conversation.problems import command, put, say
from conversation.text import main_argument, one_line, size

HEADER = ("session", "turns", "state", "size", "last used")


def list_command(given: Namespace) -> int:
    sessions = list_sessions()
    if given.json:
        for session in sessions:
            put(_json(session.to_dict()))
        return 0
    if not sessions:
        say(f"there are no sessions in {data_dir()}; {command('ask')} starts one")
        return 0
    rows = [_row(session) for session in sessions]
    if sys.stdout.isatty():
        _table(rows)
    else:
        for row in rows:
            put("\t".join(row))
    for session in sessions:
        if session.problem and not _empty(session):
            say(one_line(session.problem))
    return 0


def show_command(given: Namespace) -> int:
    found = read_session(given.key, given.session_key, given.project)
    if given.json:
        put(_json(found.to_dict()))
        return 0
    about = found.summary
    put(f"session {_name(about)}: {about.turns} turn{'s' * (about.turns != 1)}, {_state(about)}, {size(about.size)}")
    if not found.turns:
        put("nothing was asked in it yet")
    for number, turn in enumerate(found.turns, start=1):
        _show(number, turn)
    hint = _how_to_go_on(about, found.turns)
    if hint:
        put(f"\n[{hint}]")
    return 0


def _row(session: SessionSummary) -> tuple[str, ...]:
    turns = str(session.turns) if session.state != "unreadable" else ""
    return _name(session), turns, _state(session), size(session.size), _when(session.last_used)


def _name(session: SessionSummary) -> str:
    """What ``ask --session`` and ``sessions show`` take: the key, of a session of another project or node all three
    names."""
    if (session.project, session.session_key) == (PROJECT, SESSION_KEY):
        return one_line(session.conversation_id)
    if not session.conversation_id:
        return str(session.path)
    return one_line(full_name(session))


def _how_to_go_on(about: SessionSummary, turns: Sequence[TurnView]) -> str:
    """The command that goes on with a turn that was cut off, or with a last one that has no answer."""
    again = command("ask", "--session", _name(about))
    if about.state == "unfinished":
        return f"a turn was cut off; go on with: {again}"
    if about.holder is None and turns and turns[-1].status in ("failed", "aborted"):
        return f"go on with the last turn: {again} --reopen"
    return ""


def _empty(session: SessionSummary) -> bool:
    return session.state == "unreadable" and not session.size and session.path.is_file()


def _state(session: SessionSummary) -> str:
    if _empty(session):
        return "empty"
    holder = session.holder
    if holder is None:
        return session.state
    return f"{session.state} (pid {holder.pid})" if session.state == "running" else f"open (pid {holder.pid})"


def _when(seconds: float) -> str:
    """In the time of this place; of today the time of day is enough."""
    if not seconds:
        return ""
    then = datetime.fromtimestamp(seconds, UTC).astimezone()
    today = datetime.fromtimestamp(SYSTEM_CLOCK.now(), UTC).astimezone().date()
    return then.strftime("%H:%M") if then.date() == today else then.strftime("%Y-%m-%d %H:%M")


def _table(rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in HEADER:
        table.add_column(name, justify="right" if name in ("turns", "size") else "left", overflow="fold")
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    Console().print(table)


def _show(number: int, turn: TurnView) -> None:
    usage = turn.usage
    tokens = f"{usage.total_tokens - usage.output_tokens:,} tokens in, {usage.output_tokens:,} out"
    put(f"\n--- turn {number}: {turn.status}, {tokens}, request {turn.request_id}")
    put("".join(f"> {line}\n" for line in turn.prompt.splitlines()), end="")
    for tool in turn.tools:
        put(f"  {tool.name} {one_line(main_argument(tool.arguments))[:200]}  {_outcome(tool)}")
    if turn.text:
        put(f"\n{turn.text}" if turn.text.endswith("\n") else f"\n{turn.text}\n", end="")
    if turn.detail:
        put(f"[{turn.reason}: {one_line(turn.detail)}]")


def _outcome(tool: ToolView) -> str:
    if tool.result is None:
        return "no result yet"
    return f"failed: {one_line(tool.result[:1000])[:200]}" if tool.is_error else size(len(tool.result.encode()))


def _json(data: JsonObject) -> str:
    return json.dumps(data, ensure_ascii=(sys.stdout.encoding or "").lower().replace("-", "") != "utf8")
