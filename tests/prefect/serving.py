"""Processes that serve flows, and waiting for what becomes of their runs."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
GUARD = 120


@contextmanager
def serving(log: Path, *command: str, **variables: str) -> Iterator["subprocess.Popen[bytes]"]:
    """The serving process, ended as its user ends it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PREFECT_RUNNER_POLL_FREQUENCY": "1", **variables}
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, *command], env=environment, cwd=ROOT, stdout=file, stderr=file, start_new_session=True
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


async def until(log: Path, look: Callable[[], Awaitable[Any]]) -> Any:
    try:
        async with asyncio.timeout(GUARD):
            while not (found := await look()):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"waited {GUARD} s in vain\n{log.read_text()[-4000:]}") from None
    return found


async def deployment(log: Path, client: Any, name: str) -> Any:
    from prefect.exceptions import ObjectNotFound

    async def look() -> Any:
        try:
            return await client.read_deployment_by_name(name)
        except ObjectNotFound:
            return None

    return await until(log, look)


async def state(log: Path, client: Any, run: Any, *names: str) -> Any:
    """The run's state, once it is one of these."""

    async def look() -> Any:
        now = (await client.read_flow_run(run)).state
        return now if now.name in names else None

    return await until(log, look)


async def content(log: Path, path: Path) -> str:
    async def look() -> str:
        return path.read_text().strip() if path.exists() else ""

    return await until(log, look)
