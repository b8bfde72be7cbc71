"""The children of a run: the fake model, warm workers, cold starts, imports."""

import compileall
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, NamedTuple
from urllib.request import ProxyHandler, build_opener

from bench.common import DELTA, FORBIDDEN, PROJECTS

ROOT = Path(__file__).parent.parent
PACKAGES = ("agent_nodes", "conversation", "bench")
IMPORT = """
import time
begin, cpu = time.perf_counter(), time.process_time()
import {name}
end, cpu_end = time.perf_counter(), time.process_time()
import sys
print(end - begin, cpu_end - cpu, *[name for name in {forbidden} if name in sys.modules])
"""


class Start(NamedTuple):
    """A start in seconds, and which forbidden modules it loaded."""

    wall: float
    cpu: float
    loaded: list[str]


def environment() -> dict[str, str]:
    """Ours without what would slow a start or lead the loopback requests elsewhere."""
    left_out = ("PYTHONDONTWRITEBYTECODE", "PYTHONPROFILEIMPORTTIME", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {name: value for name, value in os.environ.items() if name.upper() not in left_out}


def compile_packages() -> None:
    for package in PACKAGES:
        compileall.compile_dir(ROOT / package, quiet=1)


def spawn(*arguments: str, variables: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment() | dict(variables or {}),
        cwd=ROOT,
    )


def line_of(process: subprocess.Popen[str]) -> str:
    """The child's next line of output; its own errors have gone to our standard error."""
    line = pipe(process.stdout).readline()
    if not line:
        raise RuntimeError(f"{process.args} ended with status {process.wait()} before it answered")
    return line.strip()


def pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


@contextmanager
def running(*arguments: str, variables: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A child that ends when its standard input does."""
    process = spawn(*arguments, variables=variables)
    try:
        yield process
    finally:
        pipe(process.stdin).close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        pipe(process.stdout).close()


@contextmanager
def fake_model() -> Iterator[str]:
    """Yields its address."""
    with running("-m", "bench.fake") as process:
        yield line_of(process)


def last_request(address: str) -> dict[str, Any]:
    with build_opener(ProxyHandler({})).open(address + "/last") as response:
        return json.load(response)


class Worker:
    """A warm subject; `batch` runs one of its batches (see bench/worker.py)."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def batch(self, name: str) -> dict[str, float]:
        stdin = pipe(self.process.stdin)
        stdin.write(name + "\n")
        stdin.flush()
        return json.loads(line_of(self.process))


def turn_counts(address: str, folder: Path) -> dict[str, Any]:
    """Commits and statements of turns of ours (see bench/counts.py)."""
    folder.mkdir()
    with running("-m", "bench.counts", address + "/v1", str(folder)) as process:
        return json.loads(line_of(process))


@contextmanager
def worker(subject: str, address: str, folder: Path) -> Iterator[Worker]:
    with running("-m", "bench.worker", subject, address + "/v1", str(folder)) as process:
        yield Worker(process)


@contextmanager
def node_worker(address: str, folder: Path, variables: Mapping[str, str]) -> Iterator[Worker]:
    """The nodes' process (see bench/nodes.py), with more variables in its environment."""
    folder.mkdir()
    with running("-m", "bench.nodes", address + "/v1", str(folder), variables=variables) as process:
        yield Worker(process)


@contextmanager
def prefect_server(folder: Path) -> Iterator[dict[str, str]]:
    """A Prefect server of its own, new and empty; yields the variables that lead to it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}/api"
    quiet = {
        "PREFECT_HOME": str(folder),
        "PREFECT_LOGGING_LEVEL": "ERROR",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    command = [sys.executable, "-m", "prefect", "server", "start", "--no-ui", "--port", str(port)]
    process = subprocess.Popen(
        command, env=environment() | quiet, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        wait_healthy(f"{url}/health", process)
        yield {**quiet, "PREFECT_API_URL": url, "NO_PROXY": "127.0.0.1"}
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def wait_healthy(url: str, process: "subprocess.Popen[bytes]", seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    opener = build_opener(ProxyHandler({}))
    while process.poll() is None and time.monotonic() < end:
        try:
            with opener.open(url, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the Prefect server was not there after {seconds:.0f} s (status {process.poll()})")


def cold_start(subject: str, address: str, folder: Path) -> Start:
    """From before the process exists to its complete answer; CPU of its whole life."""
    with TemporaryDirectory(dir=folder) as place:
        begin = time.perf_counter()
        with spawn("-m", "bench.cold", subject, address + "/v1", place) as process:
            characters = line_of(process)
            end = time.perf_counter()
            loaded = line_of_modules(process)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or int(characters) != 50 * DELTA:
        raise RuntimeError(f"{process.args}: status {process.returncode}, {characters} characters")
    return Start(end - begin, usage.ru_utime + usage.ru_stime, loaded)


def memory_of(subject: str, address: str, folder: Path) -> float:
    """Bytes that an open session holds (see bench/memory.py)."""
    with (
        TemporaryDirectory(dir=folder) as place,
        running("-m", "bench.memory", subject, address + "/v1", place) as child,
    ):
        return float(line_of(child))


def structure_of(folder: Path) -> float:
    """CPU seconds of a whole `agent-nodes structure` over many projects, those of this repository again and again."""
    sources = sorted((ROOT / "projects").glob("*/project.py"))
    with TemporaryDirectory(dir=folder) as place:
        for number in range(PROJECTS):
            (Path(place) / str(number)).mkdir()
            shutil.copy(sources[number % len(sources)], Path(place) / str(number) / "project.py")
        with spawn("-m", "conversation.cli", "structure", place) as process:
            lines = pipe(process.stdout).readlines()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or len(lines) != PROJECTS:
        raise RuntimeError(f"{process.args}: status {process.returncode}, {len(lines)} lines")
    return usage.ru_utime + usage.ru_stime


def allow_open_files(count: int) -> None:
    """For this process and its children, which inherit it. Raises ``RuntimeError`` where the system allows fewer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise RuntimeError(f"needs {count} open files (ulimit -n), no more than {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def line_of_modules(process: subprocess.Popen[str]) -> list[str]:
    return pipe(process.stdout).readline().split()


def import_of(name: str) -> Start:
    """`import name` in a new interpreter, the interpreter's own start left out."""
    with spawn("-c", IMPORT.format(name=name, forbidden=FORBIDDEN)) as process:
        wall, cpu, *loaded = line_of(process).split()
    return Start(float(wall), float(cpu), loaded)
