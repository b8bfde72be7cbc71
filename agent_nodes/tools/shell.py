"""The tool bash: a command in a process group of its own, of which nothing is left when the call, or for one in the
background the turn, has ended."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
from collections.abc import Callable
from typing import Literal, TypeAlias

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.messages import JsonObject, repair_text
from agent_nodes.tools.base import MARKER, AgentTool, AgentToolResult, ToolContext
from agent_nodes.tools.bounds import MAX_BYTES, MAX_LINES, NOTE_BYTES, end_of, printable
from agent_nodes.tools.environment import BROKEN, ToolError
from agent_nodes.tools.outputs import FILE_LIMIT, KeptOutput
from agent_nodes.tools.processes import end_group, sweep
from agent_nodes.tools.terminal_text import Overwritten, Unescaped, new_part

MODEL_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY")
ALONE = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "SSH_ASKPASS_REQUIRE": "never",
    "TERM": "dumb",
    "PYTHONUNBUFFERED": "1",
}
"""Nobody is there to page, to type or to be asked, and what is printed before a timeout shall be seen."""
TIMEOUT = 120.0
SETTLE = 1.0
"""Seconds that a call waits for a background command which fails at once."""
MAX_BACKGROUND = 8
POLL = 0.2
UPDATE_BYTES = 4_096
KEPT_BYTES = 64 * 1024
CHUNK = 64 * 1024
PIPE_BYTES = 1 << 20
FLOOD_BYTES = 1 << 30

_Ended: TypeAlias = Literal["exit", "timeout", "stopped", "flood"]


async def run_command(command: str, limit: float, context: ToolContext) -> AgentToolResult:
    """Run ``command`` with bash for at most ``limit`` seconds. The end of the shell ends the call, and whatever else it
    started is ended with it; a child that keeps the output open holds nothing up.

    Real seconds count here, not those of an injected clock: the command lives in real time.
    """
    output = _Output(context, whole=False)
    ended, status = await _run(command, limit, context, output)
    return _result(output, ended, status, limit)


async def run_in_background(command: str, limit: float | None, context: ToolContext) -> AgentToolResult:
    """Start ``command`` and return, while it runs on to the end of the turn (or for ``limit`` seconds). One that ends
    within :data:`SETTLE` seconds gives the result of an ordinary call."""
    background = context.background
    if background is None:
        raise ToolError("Nothing can run in the background here. Run it without background.")
    if len(background) >= MAX_BACKGROUND:
        raise ToolError(f"{len(background)} commands run in the background already; end one of them first.")
    output = _Output(context, whole=True)
    started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = background.start(context.request_id, _run(command, limit, context, output, started))
    try:
        await asyncio.wait({task}, timeout=SETTLE)
        await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
        raise
    if task.done():
        return _result(output, *task.result(), limit)
    output.go_on_unseen()
    text, left_out = output.end()
    place = output.place()
    note = f"[the first {left_out:,} bytes are left out]\n" if left_out else ""
    return AgentToolResult(
        f"{note}{text}[running in the background until the turn ends; `kill -- -{started.result()}` ends it; its "
        f"output goes to {place}]"
    )


async def _run(
    command: str,
    limit: float | None,
    context: ToolContext,
    output: _Output,
    started: asyncio.Future[int] | None = None,
) -> tuple[_Ended, int | None]:
    """How the command ended, with its status. ``started`` hears the number of its process group."""
    marker = context.environment.get(MARKER) or SYSTEM_CLOCK.new_id()
    reader, writer = os.pipe()
    output.read_from(reader)
    ended: _Ended = "stopped"
    process: asyncio.subprocess.Process | None = None
    try:
        try:
            process = await _start(command, context, marker, writer)
        finally:
            os.close(writer)
        if started is not None:
            started.set_result(process.pid)
        try:
            ended = await _watch(process, limit, context, output)
        finally:
            await end_group(process)
    finally:
        # Also what left the group with setsid, and what was started while we were being cancelled.
        try:
            await asyncio.shield(asyncio.to_thread(sweep, marker))
        finally:
            status = None if process is None else process.returncode
            output.close(_outcome(ended, status, limit))
    return ended, status


class _Output:
    """What the command writes, read as it comes, as text that a terminal would end up showing: counted, the end of it
    held, new parts shown, and kept in a file once it is more than a result shows (from the start if ``whole``).

    A pipe and not a file, because a script that opens /dev/stderr anew would empty the file.
    """

    def __init__(self, context: ToolContext, *, whole: bool) -> None:
        self.taken = 0
        self.size = 0
        self._whole = self._to_the_end = whole
        self._kept = KeptOutput(context.session_id)
        if whole:
            self._kept.open()
        self._update: Callable[[str], None] | None = context.update
        self._unescaped = Unescaped()
        self._overwritten = Overwritten()
        self._last = bytearray()
        self._new = bytearray()
        self._unseen = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._loop = asyncio.get_running_loop()
        self._fd = -1

    def read_from(self, fd: int) -> None:
        """Closed by :meth:`close`."""
        self._fd = fd
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    def _read(self, times: int = 4) -> None:
        for _ in range(times):
            try:
                data = os.read(self._fd, CHUNK)
            except BlockingIOError:
                return
            if not data:
                self._loop.remove_reader(self._fd)
                return
            self.taken += len(data)
            plain = self._unescaped.feed(data)
            if self._update is not None:
                self._new += plain
                if len(self._new) > 2 * UPDATE_BYTES:
                    self._unseen += len(self._new) - UPDATE_BYTES
                    del self._new[:-UPDATE_BYTES]
            self._hold(self._overwritten.feed(plain))

    def _hold(self, data: bytes) -> None:
        self.size += len(data)
        self._last += data
        if self._whole:
            self._kept.write(data)
        if len(self._last) > 2 * KEPT_BYTES:
            self._keep_all()
            del self._last[:-KEPT_BYTES]

    def _keep_all(self) -> None:
        """Nothing was left out so far: from here on the file has all of it."""
        if not self._whole:
            self._whole = True
            self._kept.write(bytes(self._last))

    def show(self) -> None:
        """Show what is new, of much of it the last part."""
        if self._update is None or not self._new:
            return
        left_out = self._unseen + max(0, len(self._new) - UPDATE_BYTES)
        data = bytes(self._new[-UPDATE_BYTES:])
        self._new.clear()
        self._unseen = 0
        text = self._decoder.decode(new_part(data))
        self._update((f"\n[{left_out:,} bytes not shown]\n" if left_out else "") + repair_text(text))

    def go_on_unseen(self) -> None:
        """The call is over: nobody is shown more."""
        self._update = None
        self._new.clear()

    def close(self, outcome: str) -> None:
        """Take what still lies in the pipe, but wait for nothing. What ran in the background says how it ended."""
        self._loop.remove_reader(self._fd)
        self._read(PIPE_BYTES // CHUNK)
        os.close(self._fd)
        self._hold(self._overwritten.finish())
        self.show()
        if self.end()[1]:
            self._keep_all()
        self._kept.close(f"[{outcome}]\n".encode() if self._to_the_end else b"")

    def end(self) -> tuple[str, int]:
        """The last lines, and how many bytes were before them."""
        text, size = end_of(bytes(self._last), MAX_BYTES - NOTE_BYTES, MAX_LINES)
        return repair_text(text), self.size - size

    def place(self) -> str:
        """Where all of it is, in words."""
        kept = self._kept
        if kept.path is None or kept.problem:
            return f"nowhere, because it could not be kept ({kept.problem or 'there is none yet'})"
        whole = "" if kept.size < FILE_LIMIT else f" (its first {FILE_LIMIT >> 20} MB)"
        return f"{printable(str(kept.path))}{whole}"


async def _start(command: str, context: ToolContext, marker: str, output: int) -> asyncio.subprocess.Process:
    if not hasattr(os, "killpg"):
        raise ToolError("bash runs on POSIX systems only.")
    if BROKEN in command:
        raise ToolError(
            "The command was not run: it holds U+FFFD, which NUL and half a surrogate pair are replaced by on the way "
            "here. Where that very character is meant, write it as $'\\xef\\xbf\\xbd'."
        )
    import shutil

    shell = shutil.which("bash") or "/bin/sh"
    environment = {"DEBIAN_FRONTEND": "noninteractive", **os.environ, **ALONE, **context.environment, MARKER: marker}
    for name in MODEL_KEYS:  # what a command prints is stored and sent: a model's key must not be there to print
        environment.pop(name, None)
    try:
        return await asyncio.create_subprocess_exec(
            shell,
            "-c",
            command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=context.workdir,
            env=environment,
            start_new_session=True,  # a group to end as one, and no terminal to ask on
        )
    except ValueError as error:
        raise ToolError(
            "The command holds a character that no command can have (NUL or half a surrogate pair)."
        ) from error
    except OSError as error:
        # Linux takes 128 KB for one argument.
        hint = " Write a long script to a file and run that." if len(command) > 100_000 else ""
        raise ToolError(f"The command did not start: {error.strerror} ({error.filename or shell}).{hint}") from error


async def _watch(
    process: asyncio.subprocess.Process, limit: float | None, context: ToolContext, output: _Output
) -> _Ended:
    exited = asyncio.ensure_future(process.wait())
    stopped = asyncio.ensure_future(context.signal.wait())
    try:
        async with asyncio.timeout(limit):
            while True:
                done, _ = await asyncio.wait({exited, stopped}, timeout=POLL, return_when=asyncio.FIRST_COMPLETED)
                output.show()
                if exited in done:
                    return "exit"
                if stopped in done:
                    return "stopped"
                if output.taken > FLOOD_BYTES:
                    return "flood"
    except TimeoutError:
        return "timeout"
    finally:
        exited.cancel()
        stopped.cancel()


def _result(output: _Output, ended: _Ended, status: int | None, limit: float | None) -> AgentToolResult:
    text, left_out = output.end()
    if not output.size:
        text = "[no output]"
    if left_out:
        text = (
            f"[the first {left_out:,} of {output.size:,} bytes are left out; the whole output is in {output.place()}; "
            f"read or grep it there]\n{text}"
        )
    if not text.endswith("\n"):
        text += "\n"
    return AgentToolResult(f"{text}[{_outcome(ended, status, limit)}]", is_error=ended != "exit" or status != 0)


def _outcome(ended: _Ended, status: int | None, limit: float | None) -> str:
    match ended:
        case "timeout":
            return f"timed out after {limit or 0:g} s; the command and all that it started were ended"
        case "stopped":
            return "stopped; the command and all that it started were ended"
        case "flood":
            return f"ended: more than {FLOOD_BYTES >> 20:,} MB of output"
        case "exit" if status is not None and status < 0:
            return f"ended by signal {_signal_name(-status)}"
        case "exit":
            return f"exit code {status}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


async def _bash(arguments: JsonObject, context: ToolContext) -> AgentToolResult:
    if arguments.get("background", False):
        return await run_in_background(arguments["command"], arguments.get("timeout"), context)
    return await run_command(arguments["command"], arguments.get("timeout", TIMEOUT), context)


BASH = AgentTool(
    name="bash",
    description=(
        "Run a command with bash in the working directory, without input and without a terminal. Gives stdout and "
        f"stderr together, of long output the last {MAX_LINES:,} lines or {MAX_BYTES // 1024} KB with the file that "
        f"holds all of it, then the exit code. After `timeout` seconds ({TIMEOUT:g} unless told) it is ended, with all "
        "that it started. For a server or a watcher set `background`: the call returns at once with the file that the "
        "output goes to, and the command runs until the turn ends. Commands are not held to the folders of the file "
        "tools."
    ),
    parameters={
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1},
            "timeout": {"type": "number", "exclusiveMinimum": 0, "description": "seconds"},
            "background": {"type": "boolean", "description": "run on after the call, to the end of the turn"},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    execute=_bash,
    execution="sequential",
)
