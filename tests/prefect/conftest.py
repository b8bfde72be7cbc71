"""One real Prefect server for the folder, on a free port, with a home copied from one that was migrated once."""

import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeServer

QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "2",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_LOGGING_SERVER_LEVEL": "ERROR",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_CLI_PROMPT": "false",
}
START_SECONDS = 150


def prefect(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "prefect", *arguments]


def migrated_home() -> Path:
    """A home whose database is made and migrated, kept beside the environment: that takes longer than all else."""
    kept = Path(sys.prefix) / f"prefect-home-{version('prefect')}"
    if not kept.is_dir():
        made = Path(tempfile.mkdtemp(dir=sys.prefix))
        environment = {**os.environ, **QUIET, "PREFECT_HOME": str(made)}
        subprocess.run(prefect("server", "database", "upgrade", "--yes"), env=environment, check=True, timeout=300)
        try:
            made.replace(kept)
        except OSError:  # somebody else was faster
            shutil.rmtree(made)
    return kept


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of its API; this process is set up to use it."""
    home = tmp_path_factory.mktemp("prefect") / "home"
    shutil.copytree(migrated_home(), home)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}/api"
    before = dict(os.environ)
    os.environ.update(QUIET, PREFECT_HOME=str(home))
    log = (home / "server.log").open("w")
    process = subprocess.Popen(
        prefect("server", "start", "--no-ui", "--port", str(port)), stdout=log, stderr=log, start_new_session=True
    )
    try:
        wait_healthy(url, process, home / "server.log")
        os.environ["PREFECT_API_URL"] = url
        from prefect.context import refresh_global_settings_context

        refresh_global_settings_context()  # in case somebody had imported it before
        yield url
        drain()
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.close()
        os.environ.clear()
        os.environ.update(before)
        # Prefect's clients leave sockets to the garbage collector, whose complaints would fail pytest at its very end.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def drain() -> None:
    """What this process still has to tell the server is told, and the connections for that are closed."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    from agent_nodes.nodes.prefect.background import background

    assert background().close()
    for worker in (APILogWorker, EventsWorker):
        worker.drain_all(timeout=10)
    gc.collect()  # Prefect leaves sockets to it; here the tests look away


def wait_healthy(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}:\n{log.read_text()[-4000:]}")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"no healthy server within {START_SECONDS} s:\n{log.read_text()[-4000:]}")


@pytest.fixture
def home(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where sessions of this test are."""
    monkeypatch.setenv("AGENT_NODES_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
async def fake(home: Path) -> AsyncIterator[FakeServer]:
    async with FakeServer() as model:
        yield model
        model.assert_accepted()


@pytest.fixture
def threaded(home: Path) -> Iterator[FakeServer]:
    """For tests whose flows are other processes, or block the test's loop."""
    with FakeServer.in_thread() as model:
        yield model
        model.assert_accepted()


def options(model: FakeServer) -> dict[str, Any]:
    return {"provider": "fake", "model": "m", "base_url": model.v1, "api_key": "k", "api_kind": "openai-completions"}
