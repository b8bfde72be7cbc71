"""The one class behind all three nodes: called inside a flow run a node is a task of it, called anywhere else a plain
function that needs no server. Prefect is not imported before somebody else has imported it and started a flow run."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, Unpack

from agent_nodes.errors import AgentNotReady, InputValidationError
from agent_nodes.nodes.connection import Connection
from agent_nodes.nodes.watch import Watch

if TYPE_CHECKING:
    from agent_nodes.nodes.prefect.task import Future, Futures, NodeTask

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a call takes from where it runs: nothing outside a flow run.

    ``run_id`` names the flow run, ``request_id`` this call within it, the same however often the run is repeated;
    ``again`` says that this is such a repetition. ``cancelling`` finds out, when the call's asyncio task is cancelled,
    whether somebody cancelled the flow run; a process that is merely shut down looks the same from inside. ``watch``
    shows in the flow run what the call does, ``connection`` finds a model that is kept by name.
    """

    run_id: str | None = None
    request_id: str | None = None
    again: bool = False
    cancelling: Callable[[], Awaitable[bool]] | None = None
    watch: Watch | None = None
    connection: Callable[[str], Awaitable[Connection]] | None = None


ALONE = Surroundings()

Body: TypeAlias = Callable[[In, Surroundings], Coroutine[Any, Any, Out]]


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What whoever builds a graph may know of a node before it runs.

    Of an agent: ``tools`` are the names of its own tools, None where they are known only later; ``session`` are project
    and conversation (None: those of the run) and key of its session, None where that depends on the input;
    ``has_model`` says that it names a model itself. Of an output node: ``output_item_id`` as it was given.
    """

    kind: Literal["function", "input", "agent", "output"] = "function"
    tools: frozenset[str] | None = frozenset()
    session: tuple[str | None, str | None, str] | None = None
    has_model: bool = True
    output_item_id: str | None = None


FUNCTION = NodeFacts()


class TaskOptions(TypedDict, total=False):
    """What :meth:`AgentNode.with_options` takes; each as in Prefect's own ``Task.with_options``."""

    description: str
    tags: Iterable[str]
    task_run_name: str | Callable[..., str]
    retries: int
    retry_delay_seconds: float | list[float] | Callable[[int], list[float]]
    retry_jitter_factor: float
    retry_condition_fn: Callable[..., Any]
    timeout_seconds: float
    log_prints: bool
    on_completion: list[Callable[..., Any]]
    on_failure: list[Callable[..., Any]]
    on_running: list[Callable[..., Any]]
    viz_return_value: Any


class AgentNode(Generic[In, Out]):
    """``await node(value)`` or, where the value has fields, ``await node(prompt=...)``.

    Inside a flow run that is a run of :attr:`task`, which the Prefect UI shows; elsewhere a plain call. Made by
    ``create_input_node``, ``create_agent_node`` and ``create_output_node``.
    """

    def __init__(
        self, name: str, body: Body[In, Out], options: TaskOptions | None = None, facts: NodeFacts = FUNCTION
    ) -> None:
        if not name.strip():
            raise InputValidationError("node name: must not be empty", field="name")
        self.name = name
        self.facts = facts
        self._body = body
        self._options: TaskOptions = options or {}
        self._task: NodeTask[Out] | None = None

    def __repr__(self) -> str:
        return f"<AgentNode {self.name!r}>"

    async def __call__(self, given: In | None = None, /, **fields: Any) -> Out:
        value = self._value(given, fields)
        if in_flow_run():
            from agent_nodes.nodes.prefect.identity import take_place

            return await self.task(value, take_place(self.name))
        return await self._body(value, ALONE)

    async def fn(self, given: In | None = None, /, **fields: Any) -> Out:
        """The plain function, also inside a flow run: no task run, no identity from the flow, no server."""
        return await self._body(self._value(given, fields), ALONE)

    @property
    def task(self) -> NodeTask[Out]:
        """The node as a Prefect task, made once; it caches nothing, persists no result and retries only when told to.
        Asking for it imports Prefect."""
        if self._task is None:
            from agent_nodes.nodes.prefect.task import node_task

            self._task = node_task(self.name, self._body, self._options)
        return self._task

    def submit(
        self, given: In | None = None, /, *, wait_for: Iterable[Future[Any]] | None = None, **fields: Any
    ) -> Future[Out]:
        """Start the node's task at the flow's task runner and return its future.

        Raises :class:`~agent_nodes.errors.AgentNotReady` outside a flow run.
        """
        self._require_flow_run("submit")
        from agent_nodes.nodes.prefect.identity import take_place
        from agent_nodes.nodes.prefect.task import submit

        return submit(self.task, self._value(given, fields), take_place(self.name), wait_for)

    def map(
        self, values: Iterable[In], *, limit: int | None = None, wait_for: Iterable[Future[Any]] | None = None
    ) -> Futures[Out]:
        """:meth:`submit` for each of ``values``; the futures come in their order. At most ``limit`` of them are at work
        at a time; while one waits for its place, its task's ``timeout_seconds`` pass.

        An agent node needs a ``session_key`` that differs for each: calls on one session take turns. Raises
        :class:`InputValidationError` where the flow's task runner has no threads here that could be held back.
        """
        self._require_flow_run("map")
        from agent_nodes.nodes.prefect.task import bounded, together

        waited = None if wait_for is None else list(wait_for)
        with bounded(limit):
            return together(self.submit(value, wait_for=waited) for value in values)

    def with_options(self, **options: Unpack[TaskOptions]) -> AgentNode[In, Out]:
        """The same node with other task options. Raises :class:`InputValidationError` naming one that it cannot take:
        what a turn did stands in its session, so nothing is cached or persisted by Prefect a second time."""
        for name in options:
            if name not in TaskOptions.__annotations__:
                known = ", ".join(TaskOptions.__annotations__)
                raise InputValidationError(f"with_options: {name}: not an option of a node; known: {known}", field=name)
        return AgentNode(self.name, self._body, {**self._options, **options}, self.facts)

    def _value(self, given: In | None, fields: dict[str, Any]) -> Any:
        if given is not None and fields:
            names = ", ".join(fields)
            raise InputValidationError(f"node {self.name}: give one value or fields ({names}), not both", field=names)
        return fields if given is None else given

    def _require_flow_run(self, what: str) -> None:
        if not in_flow_run():
            raise AgentNotReady(
                f"node {self.name}: {what} needs a running flow; outside of one, await the node "
                "(several at a time: asyncio.TaskGroup)."
            )


def in_flow_run() -> bool:
    """Whether the caller runs inside a Prefect flow run; imports nothing."""
    context = sys.modules.get("prefect.context")
    if context is None:
        return False
    flow = context.FlowRunContext.get()
    return flow is not None and flow.flow_run is not None
