"""A node as its Prefect task. Prefect sees the node and its state; what the turn does is kept by its session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from types import CoroutineType
from typing import Any, TypeAlias, TypeVar, cast

from prefect import Task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.futures import PrefectFuture, PrefectFutureList
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.transactions import get_transaction

from agent_nodes.errors import InputValidationError, RequestConflict
from agent_nodes.nodes.dispatch import Body, TaskOptions
from agent_nodes.nodes.gate import Gate
from agent_nodes.nodes.prefect.cancel import stopped_with_flow
from agent_nodes.nodes.prefect.identity import Place, surroundings

T = TypeVar("T")

NodeTask: TypeAlias = "Task[..., CoroutineType[Any, Any, T]]"
Future: TypeAlias = PrefectFuture[T]
Futures: TypeAlias = PrefectFutureList[T]


def node_task(name: str, body: Body[Any, T], options: TaskOptions) -> NodeTask[T]:
    """Its runs are named after the node and the number of the call. Left out, ``place`` is taken when it runs."""

    async def run(given: Any, place: Place | None = None) -> T:
        around = surroundings(name, place)
        async with stopped_with_flow(around), _place():
            with _as_if_in_the_flow():
                return await body(given, around)

    # Prefect tells tasks apart by the function's own name.
    run.__name__ = run.__qualname__ = name
    names: Any = _names(name)
    task = Task(
        run,
        name=name,
        description=f"The node {name!r} of a flow of agents.",
        task_run_name=names,
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=0,
        retry_condition_fn=_may_help,
    )
    return task.with_options(**cast("dict[str, Any]", options)) if options else task


_gate: ContextVar[Gate | None] = ContextVar("agent_nodes_map_gate", default=None)


@contextmanager
def bounded(limit: int | None) -> Generator[None]:
    """Of the tasks that are submitted in the block at most ``limit`` run at a time."""
    if limit is None:
        yield
        return
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputValidationError("map: limit: must be a whole number above 0", field="limit")
    flow = FlowRunContext.get()
    if flow is not None and not isinstance(flow.task_runner, ThreadPoolTaskRunner):
        kind = type(flow.task_runner).__name__
        raise InputValidationError(
            f"map: limit: the flow's {kind} runs tasks elsewhere; give it a number of workers instead", field="limit"
        )
    token = _gate.set(Gate(limit))  # each submitted task has a copy of this context
    try:
        yield
    finally:
        _gate.reset(token)


@asynccontextmanager
async def _place() -> AsyncGenerator[None]:
    """A place at the gate that the task was submitted through; what it calls itself does not wait there."""
    gate = _gate.get()
    if gate is None:
        yield
        return
    async with gate.place():
        token = _gate.set(None)
        try:
            yield
        finally:
            _gate.reset(token)


@contextmanager
def _as_if_in_the_flow() -> Generator[None]:
    """Tasks that the body calls end on their own: what they cache is there at once, and one that fails takes nothing of
    the others back. Prefect would have them wait for the end of the node's task."""
    own = get_transaction()
    if own is None:
        yield
        return
    active: ContextVar[Any] = type(own).__var__
    token = active.set(own.get_parent())
    try:
        yield
    finally:
        active.reset(token)


def _may_help(_task: object, _run: object, state: State[Any]) -> bool:
    """Whether another try can end differently; what the caller got wrong stays wrong."""
    return not isinstance(state.data, InputValidationError | RequestConflict)


def _names(node: str) -> Callable[[dict[str, Any]], str]:
    def name(parameters: dict[str, Any]) -> str:
        place = parameters.get("place")
        return f"{node}-{place.ordinal}" if isinstance(place, Place) else node

    return name


def submit(
    task: NodeTask[T], given: Any, place: Place, wait_for: Iterable[PrefectFuture[Any]] | None
) -> PrefectFuture[T]:
    # Prefect's own type is of the coroutine, not of what comes of it.
    start: Any = task.submit  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return start(given, place, wait_for=wait_for)


def together(futures: Iterable[PrefectFuture[T]]) -> PrefectFutureList[T]:
    return PrefectFutureList(futures)  # pyright: ignore[reportAbstractUsage]  # it says Iterator, and is a list
