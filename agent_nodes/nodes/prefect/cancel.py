"""Telling a cancelled flow run from a process that is shut down: both end a task in the same way."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import UUID

from prefect import get_client
from prefect.context import FlowRunContext, TaskRunContext

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.nodes.dispatch import Surroundings

ASK_SECONDS = 2.0
_LOOK_SECONDS = 0.2

log = logging.getLogger(__name__)


async def run_is_cancelling(flow_run_id: str) -> bool:
    """Whether the flow run, or the run this process was started for, is being cancelled; False where the server does
    not say so within :data:`ASK_SECONDS`."""
    # A subflow has a run of its own, but only the outermost one can be cancelled.
    runs = {flow_run_id, os.environ.get("PREFECT__FLOW_RUN_ID") or flow_run_id}
    try:
        async with asyncio.timeout(ASK_SECONDS), get_client() as client:
            for run in runs:
                state = (await client.read_flow_run(UUID(run))).state
                if state is not None and (state.is_cancelling() or state.is_cancelled()):
                    return True
    except Exception as error:  # the server is not needed for a turn; a shutdown loses nothing
        log.debug("Could not ask whether flow run %s is being cancelled: %r", flow_run_id, error)
    return False


@asynccontextmanager
async def stopped_with_flow(around: Surroundings) -> AsyncGenerator[None]:
    """A submitted task runs in a thread that no signal reaches. Its runner notes when the flow has ended around it;
    where that is a cancellation, the task in the block is cancelled too."""
    ended = _flow_ended()
    if ended is None or around.cancelling is None:
        yield
        return
    task = asyncio.current_task()
    watcher = asyncio.create_task(_watch(ended, around.cancelling, task))
    try:
        yield
    finally:
        watcher.cancel()


async def _watch(
    ended: threading.Event, cancelling: Callable[[], Awaitable[bool]], task: asyncio.Task[object] | None
) -> None:
    while not ended.is_set():  # a thread's event, which no loop can wait for
        await SYSTEM_CLOCK.sleep(_LOOK_SECONDS)
    if task is not None and await cancelling():
        task.cancel()


def _flow_ended() -> threading.Event | None:
    """The event that the flow's task runner keeps for a task it runs in a thread; None where it keeps none."""
    flow, task = FlowRunContext.get(), TaskRunContext.get()
    if flow is None or task is None:
        return None
    kept: dict[UUID, object] = getattr(flow.task_runner, "_cancel_events", {})
    event = kept.get(task.task_run.id)
    return event if isinstance(event, threading.Event) else None
