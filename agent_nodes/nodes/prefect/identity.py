"""Which call of a node this is, in a form that is the same when its task, its flow or its whole process runs again.

Of all ids only the flow run's outlives a retry of the flow, so a call is named by it, the node and its number among the
node's calls in this attempt. That needs calls in the same order each time: concurrent branches of a flow give request
ids of their own.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial

from prefect.context import FlowRunContext, TaskRunContext

from agent_nodes.nodes.dispatch import Surroundings
from agent_nodes.nodes.prefect.blocks import load_connection
from agent_nodes.nodes.prefect.cancel import run_is_cancelling
from agent_nodes.nodes.prefect.publish import TurnPublisher

_counting = threading.Lock()


@dataclass(frozen=True, slots=True)
class Place:
    """The number of a call among those of its node in this attempt of the flow, from 0, and whether it was made by
    something that runs again."""

    ordinal: int
    again: bool


def take_place(node: str) -> Place:
    """The next place in the current flow run; a task that runs again gets those of its first try, in order."""
    flow, task = FlowRunContext.get(), _task_of_flow()
    if flow is None:
        return Place(0, task is not None and task.task_run.run_count > 1)
    # Prefect makes this dict anew for each attempt of the flow, and shares it with the threads of its tasks.
    counters = flow.task_run_dynamic_keys
    key = f"agent-node:{node}"
    with _counting:
        if task is None:
            return Place(_next(counters, key), False)
        run = task.task_run
        position = _next(counters, f"{key}:{run.id}:{run.run_count}")
        known = f"{key}:{run.id}:call-{position}"
        if known not in counters:
            counters[known] = _next(counters, key)
        return Place(int(counters[known]), run.run_count > 1)


def _next(counters: dict[str, int | str], key: str) -> int:
    number = int(counters.get(key, 0))
    counters[key] = number + 1
    return number


def surroundings(node: str, place: Place | None) -> Surroundings:
    """Called in the node's own task run."""
    flow, task = FlowRunContext.get(), _task_of_flow()
    place = place or take_place(node)
    again = place.again or (task is not None and task.task_run.run_count > 1)
    if flow is None or flow.flow_run is None:
        # A task of its own, run by a task worker.
        run_id = None if task is None else str(task.task_run.id)
        return Surroundings(run_id, f"{run_id}:{node}:{place.ordinal}", again, connection=load_connection)
    run_id = str(flow.flow_run.id)
    return Surroundings(
        run_id,
        f"{run_id}:{node}:{place.ordinal}",
        again or flow.flow_run.run_count > 1,
        partial(run_is_cancelling, run_id),
        TurnPublisher(node),
        load_connection,
    )


def _task_of_flow() -> TaskRunContext | None:
    """The task run we are in, unless it is one around the whole flow run."""
    flow, task = FlowRunContext.get(), TaskRunContext.get()
    if task is None or flow is None or flow.flow_run is None or task.task_run.flow_run_id == flow.flow_run.id:
        return task
    return None
