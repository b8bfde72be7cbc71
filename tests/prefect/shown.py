"""What the server holds of a flow run, asked for until it is there."""

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GUARD = 60


@dataclass
class Shown:
    """``artifacts`` by type, newest version last; ``events`` of ours in order; ``lines`` of the log."""

    artifacts: dict[str, list[Any]] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def happened(self) -> list[str]:
        return [event["event"].removeprefix("agent_nodes.turn.") for event in self.events]

    def says(self, start: str) -> bool:
        """Whether a line begins like that."""
        return any(line.startswith(start) for line in self.lines)

    def data(self, kind: str) -> Any:
        return self.artifacts[kind][-1].data


async def shown(run: str, until: Callable[[Shown], bool]) -> Shown:
    """All of flow run ``run``, as soon as ``until`` holds of it."""
    from prefect import get_client

    found = Shown()
    client: Any
    async with get_client() as client:
        try:
            async with asyncio.timeout(GUARD):
                while not until(found := await _read(client, run)):  # noqa: ASYNC110  # the server tells nobody
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"waited in vain; there is {found}") from None
    return found


async def _read(client: Any, run: str) -> Shown:
    from prefect.client.schemas.filters import (
        ArtifactFilter,
        ArtifactFilterFlowRunId,
        LogFilter,
        LogFilterFlowRunId,
    )
    from prefect.client.schemas.sorting import ArtifactSort

    by_run: Any = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run]))  # type: ignore[list-item]
    found = Shown()
    for artifact in reversed(await client.read_artifacts(artifact_filter=by_run, sort=ArtifactSort.UPDATED_DESC)):
        found.artifacts.setdefault(artifact.type, []).append(artifact)
    logs = await client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run])))  # type: ignore[list-item]
    found.lines = [log.message for log in logs]
    wanted = {
        "event": {"prefix": ["agent_nodes."]},
        "related": {"id": [f"prefect.flow-run.{run}"]},
        "order": "ASC",
    }
    found.events = (await client.request("POST", "/events/filter", json={"filter": wanted})).json()["events"]
    return found


@contextmanager
def logged() -> Iterator[None]:
    """Lines of runs go to the server, as they do by default."""
    import prefect.main  # noqa: F401  # sets up the logging, whose levels are changed here
    from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

    loggers = [logging.getLogger(name) for name in ("prefect.task_runs", "prefect.flow_runs")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.INFO)
    try:
        with temporary_settings({PREFECT_LOGGING_TO_API_ENABLED: True}):
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def server_database() -> bytes:
    """Every byte that the server keeps."""
    path = Path(os.environ["PREFECT_HOME"]) / "prefect.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    return b"".join(file.read_bytes() for file in path.parent.glob("prefect.db*"))
