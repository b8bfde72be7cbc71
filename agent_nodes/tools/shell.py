"""The tool bash: a command in a process group of its own, of which nothing is left when the call has ended."""

from __future__ import annotations

import asyncio
import codecs
import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.messages import JsonObject, repair_text
from agent_nodes.tools.base import MARKER, AgentTool, AgentToolResult, ToolContext
from agent_nodes.tools.bounds import MAX_BYTES, MAX_LINES, NOTE_BYTES, end_of
from agent_nodes.tools.environment import ToolError

MODEL_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY")
TIMEOUT = 120.0
GRACE = 2.0
STARTING_LOOKS = 5
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
    marker = context.environment.get(MARKER) or SYSTEM_CLOCK.new_id()
    reader, writer = os.pipe()
    output = _Output(reader, context.update)
    try:
        try:
            process = await _start(command, context, marker, writer)
        finally:
            os.close(writer)
        try:
            ended = await _watch(process, limit, context, output)
        finally:
            await _end_group(process)
    finally:
        # Also what left the group with setsid, and what was started while we were being cancelled.
        try:
            await asyncio.shield(asyncio.to_thread(sweep, marker))
        finally:
            output.close()
    return _result(output, ended, process.returncode, limit)


class _Output:
    """What the command writes, read as it comes: counted, the end of it kept, new parts shown.

    A pipe and not a file, because a script that opens /dev/stderr anew would empty the file.
    """

    def __init__(self, fd: int, update: Callable[[str], None]) -> None:
        self.size = 0
        self._fd = fd
        self._update = update
        self._shown = 0
        self._kept = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        os.set_blocking(fd, False)
        self._loop = asyncio.get_running_loop()
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
            self.size += len(data)
            self._kept += data
            if len(self._kept) > 2 * KEPT_BYTES:
                del self._kept[:-KEPT_BYTES]

    def show(self) -> None:
        """Show what is new, of much of it the last part."""
        new = self.size - self._shown
        if not new:
            return
        self._shown = self.size
        left_out = max(0, new - UPDATE_BYTES)
        text = self._decoder.decode(bytes(self._kept[-min(new, UPDATE_BYTES) :]))
        self._update((f"\n[{left_out:,} bytes not shown]\n" if left_out else "") + repair_text(text))

    def close(self) -> None:
        """Take what still lies in the pipe, but wait for nothing."""
        self._loop.remove_reader(self._fd)
        self._read(PIPE_BYTES // CHUNK)
        os.close(self._fd)

    def end(self) -> tuple[str, int]:
        """The last lines, and how many bytes were before them."""
        text, size = end_of(bytes(self._kept), MAX_BYTES - NOTE_BYTES, MAX_LINES)
        return repair_text(text), self.size - size


async def _start(command: str, context: ToolContext, marker: str, output: int) -> asyncio.subprocess.Process:
    if not hasattr(os, "killpg"):
        raise ToolError("bash runs on POSIX systems only.")
    import shutil

    shell = shutil.which("bash") or "/bin/sh"
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", **context.environment, MARKER: marker}
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


async def _watch(process: asyncio.subprocess.Process, limit: float, context: ToolContext, output: _Output) -> _Ended:
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
                if output.size > FLOOD_BYTES:
                    return "flood"
    except TimeoutError:
        return "timeout"
    finally:
        exited.cancel()
        stopped.cancel()


async def _end_group(process: asyncio.subprocess.Process) -> None:
    """End every process of the group: asked first, killed after GRACE seconds, killed at once when we are cancelled."""
    group = process.pid
    if _signal_group(group, signal.SIGTERM):
        try:
            await _until_gone(group)
        finally:
            _signal_group(group, signal.SIGKILL)
        await _until_gone(group)
    await process.wait()


async def _until_gone(group: int) -> None:
    """Wait until nothing of the group runs, GRACE seconds at most. Nobody tells when that is, so it is looked at."""
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            while _signal_group(group, 0) and await asyncio.to_thread(_has_living, group):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


def _signal_group(group: int, number: int) -> bool:
    """Whether the group was still there."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS says so for a group of zombies; elsewhere nothing in it is ours any more
        return False
    return True


def _has_living(group: int) -> bool:
    """Whether a process of the group still runs. Ended ones stay in it until somebody asks for their status, which in
    a container may be never; where that cannot be told apart (no /proc), they count."""
    pids = _pids()
    return not pids or any(_runs_in(pid, group) for pid in pids)


def _runs_in(pid: int, group: int) -> bool:
    try:
        # "pid (name) state parent group …"; the name may hold anything.
        state, _, own_group, *_ = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return False
    return int(own_group) == group and state not in (b"Z", b"X")


def sweep(marker: str) -> int:
    """Kill every process that carries ``AGENT_NODES_CALL=<marker>`` in the environment it was started with; returns how
    many. Recovery calls it for what a crash left behind. Needs Linux' /proc; elsewhere it does nothing.

    A process that cleared its environment is not found.
    """
    killed: set[int] = set()
    wanted = f"{MARKER}={marker}".encode()
    looks = STARTING_LOOKS
    # Again until nothing new turns up: what was found may have started another one meanwhile.
    while marker and looks:
        marks = {pid: _carries(pid, wanted) for pid in _pids() if pid not in killed and pid != os.getpid()}
        found = {pid for pid, mark in marks.items() if mark and _kill_marked(pid, wanted)}
        killed |= found
        if found:
            continue
        if None not in marks.values():
            break
        looks -= 1
        time.sleep(0.005)
    return len(killed)


def _pids() -> list[int]:
    try:
        return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]
    except OSError:
        return []


def _carries(pid: int, wanted: bytes) -> bool | None:
    """None for a process that shows no environment at all: it may be about to become another program, whose own will
    be there in a moment."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        if not environment:
            Path(f"/proc/{pid}/exe").readlink()  # fails for threads of the kernel and for what has ended
            return None
    except OSError:
        return False
    return wanted in environment.split(b"\0")


def _kill_marked(pid: int, wanted: bytes) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # Looked at again with the handle open: the number may have gone to another process in between.
        if not _carries(pid, wanted):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        select.select([handle], [], [], GRACE)  # readable once it has ended
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _result(output: _Output, ended: _Ended, status: int | None, limit: float) -> AgentToolResult:
    text, left_out = output.end()
    if not output.size:
        text = "[no output]"
    if left_out:
        text = (
            f"[the first {left_out:,} of {output.size:,} bytes are left out; to see them, run it again with the output "
            f"in a file (> out.txt 2>&1) and read that]\n{text}"
        )
    if not text.endswith("\n"):
        text += "\n"
    return AgentToolResult(f"{text}[{_outcome(ended, status, limit)}]", is_error=ended != "exit" or status != 0)


def _outcome(ended: _Ended, status: int | None, limit: float) -> str:
    match ended:
        case "timeout":
            return f"timed out after {limit:g} s; the command and all that it started were ended"
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
    return await run_command(arguments["command"], arguments.get("timeout", TIMEOUT), context)


BASH = AgentTool(
    name="bash",
    description=(
        "Run a command with bash in the working directory, without input and without a terminal. Gives stdout and "
        f"stderr together, of long output the last {MAX_LINES:,} lines or {MAX_BYTES // 1024} KB, then the exit code. "
        f"After `timeout` seconds ({TIMEOUT:g} unless told) it is ended. Background processes end with the call. "
        "Commands are not held to the folders of the file tools."
    ),
    parameters={
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1},
            "timeout": {"type": "number", "exclusiveMinimum": 0, "description": "seconds"},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    execute=_bash,
    execution="sequential",
)
