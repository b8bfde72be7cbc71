"""A project's nodes and what follows what: a small graph, checked when it is made."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, cast

from agent_nodes.errors import AgentError, InputValidationError, TurnFailed
from agent_nodes.nodes.dispatch import AgentNode, Surroundings, in_flow_run
from agent_nodes.nodes.input import parse_input
from agent_nodes.options import AgentInput
from agent_nodes.submission import AgentOutputPayload


class Node(Protocol):
    """What a workflow runs: an agent's node, or a Prefect task in its place."""

    @property
    def name(self) -> str: ...
    async def __call__(self, given: Any, /) -> Any: ...


NodeLike: TypeAlias = Node | Callable[..., Awaitable[Any]]
OnOutput: TypeAlias = Callable[[str, Any], Awaitable[object] | object]

FAILED = 1


@dataclass(frozen=True, slots=True)
class WorkflowNode:
    """``after`` are the nodes whose outputs this one gets: the one output itself, or a dict of them by name."""

    name: str
    node: Node
    after: tuple[str, ...] = ()
    takes_payload: bool = False
    """Whether it takes the payload of an agent; else an agent's payload becomes an input again."""


@dataclass(frozen=True, slots=True)
class Workflow:
    """Nodes from ``input`` to ``output``. A node runs as soon as all before it have ended; those that depend on nothing
    of each other run at the same time. What ends with an error, or was skipped, passes by all that follows, to the
    output node.

    Inside a flow run each node is a task of it; elsewhere all are plain calls.
    """

    name: str
    nodes: tuple[WorkflowNode, ...]
    input: str
    output: str
    output_item_id: str | None = None
    """Under which the output node writes the answer of a turn that a host drives."""
    _by_name: Mapping[str, WorkflowNode] = field(default_factory=dict[str, WorkflowNode], repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name: dict[str, WorkflowNode] = {}
        for node in self.nodes:
            if node.name in by_name:
                raise _wrong(f"two nodes are named {node.name!r}; give one another name")
            by_name[node.name] = node
        object.__setattr__(self, "_by_name", by_name)
        self._check_edges()

    def with_node(
        self, node: NodeLike, *, name: str | None = None, after: Iterable[str] = (), before: Iterable[str] = ()
    ) -> Workflow:
        """The workflow with one node more: ``after`` those nodes (default: the input) and ``before`` these, which then
        get its output in place of what they got from the former. Names may leave out the workflow's own prefix.

        ``node`` is an agent node, any async function of one value, or a Prefect task. Raises
        :class:`InputValidationError` for an unknown or repeated name, a circle, and a function that takes no value.
        """
        made = as_node(node, name)
        behind = tuple(self._named(one) for one in _names(after, "after")) or (self.input,)
        ahead = tuple(self._named(one) for one in _names(before, "before"))
        if self.output in behind:
            raise _wrong(f"{made.name!r} cannot come after the output node {self.output!r}")
        if self.input in ahead:
            raise _wrong(f"{made.name!r} cannot come before the input node {self.input!r}")
        added = WorkflowNode(made.name, made, behind)
        nodes = [_moved(old, behind, made.name) if old.name in ahead else old for old in self.nodes]
        return Workflow(self.name, (*nodes, added), self.input, self.output, self.output_item_id)

    def node(self, name: str) -> Node:
        """The node of that name, with or without the workflow's prefix."""
        return self._by_name[self._named(name)].node

    async def run(self, value: Any, on_output: OnOutput | None = None) -> dict[str, Any]:
        """Run all nodes and return their outputs by name; ``on_output(name, output)`` hears each when it is there.

        A node that raises ends with a payload that says so; what is no ordinary error (a cancellation, the store) ends
        the run.
        """
        outputs: dict[str, asyncio.Task[Any]] = {}

        async def play(item: WorkflowNode) -> Any:
            given = [await asyncio.shield(outputs[name]) for name in item.after]
            output = await self._play(item, value, given)
            if on_output is not None:
                heard = on_output(item.name, output)
                if inspect.isawaitable(heard):
                    await heard
            return output

        try:
            async with asyncio.TaskGroup() as group:
                for item in self._ordered():
                    outputs[item.name] = group.create_task(play(item), name=item.name)
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        return {name: task.result() for name, task in outputs.items()}

    async def _play(self, item: WorkflowNode, value: Any, given: list[Any]) -> Any:
        failed = next((payload for payload in given if _err_code(payload) or _skipped(payload)), None)
        if failed is not None and item.name != self.output:
            return failed
        handed = value if not item.after else given[0] if len(given) == 1 else dict(zip(item.after, given, strict=True))
        if item.name == self.output:
            handed = failed if failed is not None else _payload(given)
            if isinstance(handed, AgentInput):  # an error that came with the input, or met an earlier node
                handed = AgentOutputPayload(
                    status="failed", reason="upstream", err_code=handed.err_code, err_message=handed.err_message
                )
        elif isinstance(handed, AgentOutputPayload) and not item.takes_payload:
            handed = parse_input(handed)
        try:
            return await item.node(handed)
        except TurnFailed as error:
            return AgentOutputPayload(status="failed", reason=error.code, err_code=FAILED, err_message=error.message)
        except AgentError:
            raise
        except Exception as error:
            said = " ".join(str(error).split())[:2_000] or type(error).__name__
            return AgentOutputPayload(
                status="failed",
                reason="runtime_failure",
                err_code=FAILED,
                err_message=f"The node {item.name} failed ({type(error).__name__}: {said}).",
            )

    # -- checks --------------------------------------------------------------------------------------------------------

    def _named(self, name: str) -> str:
        for known in (name, f"{self.name}-{name}"):
            if known in self._by_name:
                return known
        raise _wrong(f"there is no node {name!r}; there are {', '.join(self._by_name)}")

    def _check_edges(self) -> None:
        for end in (self.input, self.output):
            self._named(end)
        for node in self.nodes:
            if not node.after and node.name != self.input:
                raise _wrong(f"the node {node.name!r} comes after none; say after which one it runs")
            for name in node.after:
                self._named(name)
        if self._by_name[self.input].after:
            raise _wrong(f"the input node {self.input!r} cannot come after another")
        self._ordered()
        follows = {name for node in self.nodes for name in node.after}
        if self.output in follows:
            raise _wrong(f"nothing can come after the output node {self.output!r}")

    def _ordered(self) -> list[WorkflowNode]:
        """Each behind all that come before it."""
        out: list[WorkflowNode] = []
        done: set[str] = set()
        waiting = list(self.nodes)
        while waiting:
            ready = [node for node in waiting if done.issuperset(node.after)]
            if not ready:
                raise _wrong(f"the nodes {', '.join(node.name for node in waiting)} wait for each other in a circle")
            out += ready
            done.update(node.name for node in ready)
            waiting = [node for node in waiting if node.name not in done]
        return out


class TaskNode:
    """A Prefect task as a node: run as itself inside a flow run, as its plain function elsewhere."""

    def __init__(self, name: str, task: Any) -> None:
        self.name = name
        self._task = task

    async def __call__(self, given: Any, /) -> Any:
        return await (self._task(given) if in_flow_run() else self._task.fn(given))


def as_node(node: NodeLike, name: str | None = None) -> Node:
    """An agent's node as it is; an async function of one value as a node, a Prefect task as itself."""
    if isinstance(node, AgentNode | TaskNode):
        if name is not None and name != node.name:
            raise _wrong(f"the node {node.name!r} has a name already; leave name out")
        return cast("Node", node)
    function: Any = getattr(node, "fn", node)
    if not inspect.iscoroutinefunction(function):
        raise _wrong(f"{node!r} is neither a node nor an async function of one value")
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not any(parameter.kind in kinds for parameter in inspect.signature(function).parameters.values()):
        raise _wrong(f"the function {function.__name__!r} takes no value")
    known = name or str(getattr(node, "name", None) or function.__name__).replace("_", "-")
    if function is not node:
        return TaskNode(known, node)

    async def body(value: Any, _: Surroundings) -> Any:
        return await function(value)

    return AgentNode(known, body)


def _moved(node: WorkflowNode, behind: tuple[str, ...], name: str) -> WorkflowNode:
    """``node`` with ``name`` in the place of those before it that now come before ``name``."""
    kept = [one for one in node.after if one not in behind]
    return replace(node, after=(*kept, name))


def _names(given: Iterable[str] | str, where: str) -> tuple[str, ...]:
    if isinstance(given, str):
        raise _wrong(f"{where}: must be a list of names, as in {where}=[{given!r}]")
    return tuple(given)


def _payload(given: list[Any]) -> Any:
    """What the output node gets of several: the payload of an agent."""
    payloads = [one for one in given if isinstance(one, AgentOutputPayload)]
    return payloads[-1] if payloads else given[-1]


def _skipped(value: Any) -> bool:
    return isinstance(value, AgentOutputPayload) and value.status == "skipped"


def _err_code(value: Any) -> int:
    code = getattr(value, "err_code", 0)
    return code if isinstance(code, int) else 0


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error = errors.exceptions[0]
    return _first(cast("BaseExceptionGroup[BaseException]", error)) if isinstance(error, BaseExceptionGroup) else error


def _wrong(what: str) -> InputValidationError:
    return InputValidationError(f"workflow: {what}", field="workflow")
