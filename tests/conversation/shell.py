"""The command as a user has it: a process of its own, in a folder of its own, with its sessions beside it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).parent / "agent-nodes"
GUARD = 60.0


@dataclass(frozen=True, slots=True)
class Result:
    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What --json printed."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def problem(self) -> str:
        """The one line that says what went wrong."""
        assert "Traceback" not in self.err, self.err
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("agent-nodes: "), self.err
        return lines[0].removeprefix("agent-nodes: ")


class Child:
    """A running command."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process

    def read(self, end: str) -> str:
        """Its stdout until ``end`` has come."""
        assert self.process.stdout is not None
        data = b""
        while not data.endswith(end.encode()):
            piece = os.read(self.process.stdout.fileno(), 1)
            assert piece, f"{data!r} ended before {end!r}"
            data += piece
        return data.decode()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> Result:
        out, err = self.process.communicate(timeout=GUARD)
        return Result(self.process.returncode, out.decode(), err.decode())

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


class Shell:
    """Runs commands in ``folder``; ``home`` is where the sessions are."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "work"
        self.home = tmp_path / "home"
        self.folder.mkdir()
        self.children: list[Child] = []
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "LANG": "C.UTF-8",
            "PYTHONWARNINGS": "error",
            "AGENT_NODES_HOME": str(self.home),
        }
        if "PYTHONPATH" in os.environ:  # another tree than the one that is installed
            self.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]

    def start(self, *arguments: str, stdin: Any = subprocess.DEVNULL, **environment: str) -> Child:
        process = subprocess.Popen(
            [str(COMMAND), *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env={**self.environment, **environment},
        )
        child = Child(process)
        self.children.append(child)
        return child

    def __call__(self, *arguments: str | bytes, stdin: bytes | None = None, **environment: str) -> Result:
        done = subprocess.run(
            [str(COMMAND), *arguments],
            input=b"" if stdin is None else stdin,
            capture_output=True,
            cwd=self.folder,
            env={**self.environment, **environment},
            timeout=GUARD,
            check=False,
        )
        return Result(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))

    def turns(self, key: str) -> list[dict[str, Any]]:
        """What `sessions show` says of a session."""
        shown = self("sessions", "show", key, "--json")
        assert shown.status == 0, shown.err
        return json.loads(shown.out)["turns"]

    def state(self, key: str) -> dict[str, Any]:
        listed = self("sessions", "list", "--json")
        return next(line for line in listed.lines if line["conversation_id"] == key)


Ask = Callable[..., Result]
