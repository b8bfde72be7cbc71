"""The machine that the file tools work on: what a path means, how far it may reach, work off the event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias, TypeVar

from agent_nodes._aio import run_in_thread
from agent_nodes.tools.base import ToolContext
from agent_nodes.tools.bounds import as_printed, printable
from agent_nodes.tools.outputs import outputs_folder

T = TypeVar("T")

# Raises ToolError once nobody waits for the work any more; long loops call it.
Check: TypeAlias = Callable[[], None]

BROKEN = "\ufffd"
"""What a model's arguments hold where it sent what no text can hold."""

MAX_NAME = 255
MAX_PATH = 4_095


class ToolError(Exception):
    """A failure that the model can handle; the text is what it reads."""


def resolve_path(text: str, context: ToolContext, *, to_read: bool = False) -> Path:
    """The real path that ``text`` means: relative to the working directory, ``~`` the home folder, ``@name`` also
    ``name``, and a name with escapes also the one that is shown so. It need not exist; every link on the way is
    followed, so it must be opened as it is returned.

    Raises :class:`ToolError` when it is no path or lies outside of ``context.roots``; ``to_read`` allows the kept
    outputs of the session too.
    """
    shown = short(text)
    if not text.strip():
        raise ToolError("The path is empty; '.' is the working directory.")
    if "\x00" in text:
        raise ToolError(f"{shown}: a path cannot hold a NUL character.")
    try:
        full = _full(text, context.workdir)
        if BROKEN in text and not os.path.lexists(full):
            raise ToolError(
                f"{shown}: there is no such file, and none can be made: the path holds U+FFFD, which NUL and half a "
                "surrogate pair are replaced by on the way here."
            )
        real = _real(full)
        _check_length(real, shown)
    except UnicodeEncodeError as error:
        raise ToolError(f"{shown}: the path holds a character that no file name can have.") from error
    except OSError as error:
        raise os_error(text, error) from error
    if context.roots is not None and not _is_below(real, context.roots):
        kept = outputs_folder(context.session_id) if to_read else None
        if kept is not None and real.is_relative_to(kept):
            return real
        allowed = ", ".join(printable(str(root)) for root in context.roots)
        raise ToolError(f"{shown}: outside of the folders that file tools may reach ({allowed}).")
    return real


def _is_below(path: Path, roots: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(root) for root in roots)


def _full(text: str, workdir: Path) -> Path:
    if text.startswith("@") and len(text) > 1 and not os.path.lexists(workdir / text):
        text = text[1:]
    path = Path(text).expanduser() if text == "~" or text.startswith("~/") else workdir / text
    if "\\" in text and "\\x00" not in text and not os.path.lexists(path):
        meant = Path(as_printed(str(path)))
        return meant if os.path.lexists(meant) else path
    return path


def _real(path: Path) -> Path:
    """``path`` with no link left in it. One pass is not enough: behind a link that points at itself the rest of the
    path is taken by its letters, and may hold links again."""
    for _ in range(16):
        real = Path(os.path.realpath(path))
        if real == path:
            return real
        path = real
    raise ToolError(f"{short(str(path))}: too many links.")


def _check_length(path: Path, shown: str) -> None:
    if len(os.fsencode(path)) > MAX_PATH or any(len(os.fsencode(part)) > MAX_NAME for part in path.parts):
        raise ToolError(f"{shown}: the name is too long (at most {MAX_NAME} bytes a name, {MAX_PATH} a path).")


def short(text: str) -> str:
    """``text`` as an error names it."""
    shown = printable(text)
    return shown if len(shown) <= 200 else f"{shown[:200]}…"


def display(path: Path, context: ToolContext) -> str:
    """``path`` as a model may use it again: relative inside of the working directory."""
    workdir = Path(os.path.realpath(context.workdir))
    return printable(str(path.relative_to(workdir) if path.is_relative_to(workdir) else path))


def os_error(text: str, error: OSError) -> ToolError:
    return ToolError(f"{short(text)}: {error.strerror or type(error).__name__}.")


@contextmanager
def os_errors(text: str) -> Generator[None]:
    """Turns an ``OSError`` about the path ``text`` into a :class:`ToolError` that names its cause."""
    try:
        yield
    except OSError as error:
        raise os_error(text, error) from error


async def off_loop(work: Callable[[Check], T], context: ToolContext) -> T:
    """Run ``work(check)`` in a thread. When the call is stopped or cancelled, ``check`` raises in the thread, and the
    end of the thread is awaited, so that nothing is written after this returned."""
    cancelled = threading.Event()

    def check() -> None:
        if cancelled.is_set() or context.signal.is_set:
            raise ToolError("Stopped before it was done.")

    # A future, not a task: whoever cancels all tasks of the loop must not lose sight of the thread.
    future = run_in_thread(lambda: work(check))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        cancelled.set()
        await asyncio.wait([future])
        future.exception()  # seen: the cancellation is what counts
        raise
