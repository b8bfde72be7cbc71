"""``agent-nodes chat``: a conversation turn by turn, on a line to type on or on what is piped in."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace

from agent_nodes.store.locate import check_folder
from conversation.chat_talk import Talk
from conversation.opening import check_names, opening_of


def chat(given: Namespace) -> int:
    """Run the command; its exit status. Raises what went wrong before there was a session."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise BrokenPipeError
    check_names(given)
    check_folder()
    return asyncio.run(_hold(Talk(opening_of(given))))


async def _hold(talk: Talk) -> int:
    if _at_terminal():
        from conversation.chat_tty import Tty

        with Tty() as tty:
            from conversation.chat_terminal import TerminalFace

            return await TerminalFace(talk, tty, os.environ).run()
    from conversation.chat_lines import LineFace

    return await LineFace(talk).run()


def _at_terminal() -> bool:
    """Whether there is somebody who types, on a terminal whose cursor can be moved."""
    if sys.stdin is None or not sys.stdin.isatty() or not sys.stdout.isatty():  # pyright: ignore[reportUnnecessaryComparison]
        return False
    return os.environ.get("TERM", "") not in ("dumb", "unknown")
