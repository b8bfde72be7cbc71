"""A project's nodes and what follows what: a small graph, checked when it is made."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, cast

from agent_nodes.errors import AgentError, InputValidationError, TurnFailed
from agent_nodes.messages import Usage
from agent_nodes.nodes.dispatch import FUNCTION, AgentNode, NodeFacts, Surroundings, in_flow_run
from agent_nodes.nodes.input import parse_input
from agent_nodes.options import AgentInput
from agent_nodes.submission import AgentOutputPayload


class Node(Protocol):
    """What a workflow runs: one of the agent's nodes, a function, or a Prefect task."""

    @property
    def name(self) -> str: ...
    @property
    def facts(self) -> NodeFacts: ...
    async def __call__(self, given: Any, /) -> Any: ...


NodeLike: TypeAlias = Node | Callable[..., Awaitable[Any]]
OnOutput: TypeAlias = Callable[[str, Any], Awaitable[object] | object]

FAILED = 1


@dataclass(frozen=True, slots=True)
class WorkflowNode:
    """``after`` are the nodes whose outputs this one gets: the one output itself, or a dict of them by name."""

    node: Node
    after: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def facts(self) -> NodeFacts:
        return self.node.facts


@dataclass(frozen=True, slots=True)
class Workflow:
    """Nodes from ``input`` to ``output``. A node runs as soon as all before it have ended; those that depend on nothing
    of each other run at the same time. What ends with an error, or was skipped, passes by all that follows, to the
    output node.

    An agent that follows another one gets its text as the prompt. The output node gets the payload of the first of
    those before it. Inside a flow run each node is a task of it; elsewhere all are plain calls.

    Raises :class:`InputValidationError` for nodes that cannot make a graph.
    """

    name: str
    nodes: tuple[WorkflowNode, ...]
    input: str
    output: str
    _by_name: Mapping[str, WorkflowNode] = field(default_factory=dict[str, WorkflowNode], repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name: dict[str, WorkflowNode] = {}
        for node in self.nodes:
            if node.name in by_name:
                raise _wrong(f"two nodes are named {node.name!r}; give one another name")
            by_name[node.name] = node
        object.__setattr__(self, "_by_name", by_name)
        self._check_edges()
        self._check_ends()
        self._check_sessions()

    def with_node(
        self, node: NodeLike, *, name: str | None = None, after: Iterable[str] = (), before: Iterable[str] = ()
    ) -> Workflow:
        """The workflow with one node more: ``after`` those nodes (default: the input) and ``before`` these, which then
        get its output in place of what they got from the former. Without ``before`` it stands beside all others: the
        answer stays as it is, and waits for it. Names may leave out the workflow's own prefix.

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
        nodes = [_moved(old, behind, made.name) if old.name in ahead else old for old in self.nodes]
        if not ahead:
            nodes = [_moved(old, (), made.name) if old.name == self.output else old for old in nodes]
        return replace(self, nodes=(*nodes, WorkflowNode(made, behind)), _by_name={})

    def node(self, name: str) -> Node:
        """The node of that name, with or without the workflow's prefix."""
        return self._by_name[self._named(name)].node

    @property
    def agents(self) -> tuple[Node, ...]:
        return tuple(item.node for item in self.nodes if item.facts.kind == "agent")

    @property
    def output_item_id(self) -> str:
        """Under which the output node writes the answer of a turn that a host drives."""
        return self._by_name[self.output].facts.output_item_id or ""

    @property
    def answering(self) -> str | None:
        """The agent whose text is the answer as it is spoken; None where another node makes something of it."""
        first = self._by_name[self._by_name[self.output].after[0]]
        return first.name if first.facts.kind == "agent" else None

    async def run(self, value: Any, on_output: OnOutput | None = None) -> dict[str, Any]:
        """Run all nodes and return their outputs by name; ``on_output(name, output)`` hears each when it is there.

        A node that raises ends with a payload that says so; what an :class:`AgentError` other than a failed turn says
        (a session that is busy, a store that is full) ends the run and is raised.
        """
        tasks: dict[str, asyncio.Task[Any]] = {}

        async def play(item: WorkflowNode) -> Any:
            given = {name: await asyncio.shield(tasks[name]) for name in item.after}
            if item.name == self.output:
                before = {name: task.result() for name, task in tasks.items() if name != item.name}
                output = await self._put_out(item, given, before)
            else:
                output = await self._play(item, value, given)
            if on_output is not None:
                heard = on_output(item.name, output)
                if inspect.isawaitable(heard):
                    await heard
            return output

        try:
            async with asyncio.TaskGroup() as group:
                for item in self._ordered():
                    tasks[item.name] = group.create_task(play(item), name=item.name)
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        return {name: task.result() for name, task in tasks.items()}

    async def _play(self, item: WorkflowNode, value: Any, given: Mapping[str, Any]) -> Any:
        failed = next(filter(_passes_by, given.values()), None)
        if failed is not None:
            return failed
        handed = value if not given else next(iter(given.values())) if len(given) == 1 else dict(given)
        if item.facts.kind == "agent":
            try:
                handed = _for_agent(handed, value)
            except InputValidationError as error:
                what = f"The agent {item.name} cannot take what came before it: {error.message}"
                if len(given) > 1:
                    what += f"; a function between {', '.join(given)} and it can make one prompt of them"
                return _failed(given, "input_validation", what)
        try:
            return await item.node(handed)
        except TurnFailed as error:
            return _failed(given, error.code, error.message)
        except AgentError:
            raise
        except Exception as error:
            said = " ".join(str(error).split())[:2_000]
            kind = type(error).__name__ + (f": {said}" if said else "")
            return _failed(given, "runtime_failure", f"The node {item.name} failed ({kind}).")

    async def _put_out(self, item: WorkflowNode, given: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
        """The answer is the first payload, with the first error. What all agents used is what the run used."""
        payloads = [one for one in given.values() if isinstance(one, AgentOutputPayload)]
        answer = next((one for one in payloads if one.turn_id is not None), next(iter(payloads), None))
        failed = next(filter(_passes_by, given.values()), None)
        if failed is not None and failed is not answer:
            reason = failed.reason if isinstance(failed, AgentOutputPayload) else "upstream"
            answer = _failed(given, reason, failed.err_message, failed.err_code)
            if isinstance(failed, AgentOutputPayload):
                answer.status = failed.status
        if answer is None:
            return await item.node(next(iter(given.values())))  # which says what it wants
        agents = [one for name, one in outputs.items() if self._by_name[name].facts.kind == "agent"]
        used = {id(one): one.usage for one in agents if isinstance(one, AgentOutputPayload)}
        return await item.node(replace(answer, usage=sum(used.values(), Usage())))

    # -- checks --------------------------------------------------------------------------------------------------------

    def _named(self, name: str) -> str:
        for known in (name, f"{self.name}-{name}"):
            if known in self._by_name:
                return known
        raise _wrong(f"there is no node {name!r}; there are {', '.join(self._by_name)}")

    def _check_edges(self) -> None:
        for name in (self.input, self.output, *(name for node in self.nodes for name in node.after)):
            if name not in self._by_name:
                raise _wrong(f"there is no node {name!r}; there are {', '.join(self._by_name)}")
        for node in self.nodes:
            if (node.name == self.input) != (not node.after):
                what = "cannot come after another" if node.after else "comes after none; say after which one it runs"
                raise _wrong(f"the node {node.name!r} {what}")
        self._ordered()
        follows = {name for node in self.nodes for name in node.after}
        if self.output in follows:
            raise _wrong(f"nothing can come after the output node {self.output!r}")
        for node in self.nodes:
            if node.name not in follows | {self.output}:
                raise _wrong(f"the node {node.name!r} leads nowhere; put it before another one")

    def _check_ends(self) -> None:
        """Payloads that fit: what the output node takes is the payload of an agent."""
        for end, kind in ((self.input, "input"), (self.output, "output")):
            found = self._by_name[end].facts.kind
            if found != kind:
                raise _wrong(f"the node {end!r} is no {kind} node; make one with create_{kind}_node")
        for node in self.nodes:
            if node.facts.kind in ("input", "output") and node.name not in (self.input, self.output):
                raise _wrong(f"the node {node.name!r} is a second {node.facts.kind} node; there can be only one")
        if not self.agents:
            raise _wrong("no node is an agent; make one with create_agent_node")
        if self._by_name[self.output].after == (self.input,):
            raise _wrong(f"the output node {self.output!r} comes right after the input; an agent belongs between them")

    def _check_sessions(self) -> None:
        """Two agents of one run in one session would stand in each other's way."""
        seen: dict[object, str] = {}
        for node in self.agents:
            if node.facts.session is None:
                continue
            other = seen.setdefault(node.facts.session, node.name)
            if other != node.name:
                key = node.facts.session[-1]
                raise _wrong(
                    f"the agents {other!r} and {node.name!r} have the same session_key {key!r}; give each its own"
                )

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


# -- what nodes hand each other ----------------------------------------------------------------------------------------


def _for_agent(handed: Any, first: Any) -> AgentInput:
    """``handed`` as an agent's input. It works where the run works, changes nothing in a run that is read-only, and
    keeps nothing in one whose history is its host's."""
    given = parse_input(handed)
    if not isinstance(first, AgentInput):
        return given
    kept = {name: getattr(first, name) for name in ("workdir", "allowed_directories") if getattr(given, name) is None}
    if first.permission_policy == "read-only":
        kept["permission_policy"] = "read-only"
    if first.host_input is not None and given.host_input is None:
        kept["host_input"] = {"messages": []}
    changes = {name: value for name, value in kept.items() if value is not None}
    return given.model_copy(update=changes) if changes else given


def _failed(given: Mapping[str, Any], reason: str | None, message: str, code: int = FAILED) -> AgentOutputPayload:
    """An error, on top of what an agent before it has said."""
    answered = (one for one in given.values() if isinstance(one, AgentOutputPayload) and one.turn_id is not None)
    payload = replace(next(answered, AgentOutputPayload(status="failed")), usage=Usage())
    return replace(payload, status="failed", reason=reason, err_code=code, err_message=message)


def _passes_by(value: Any) -> bool:
    if isinstance(value, AgentOutputPayload) and value.status == "skipped":
        return True
    return isinstance(value, AgentOutputPayload | AgentInput) and value.err_code != 0


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error = errors.exceptions[0]
    return _first(cast("BaseExceptionGroup[BaseException]", error)) if isinstance(error, BaseExceptionGroup) else error


# -- nodes -------------------------------------------------------------------------------------------------------------


class TaskNode:
    """A Prefect task as a node: run as itself inside a flow run, as its plain function elsewhere."""

    def __init__(self, name: str, task: Any) -> None:
        self.name = name
        self.facts = FUNCTION
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
    _check_takes_one(function)
    known = name or str(getattr(node, "name", None) or function.__name__).replace("_", "-")
    if function is not node:
        return TaskNode(known, node)

    async def body(value: Any, _: Surroundings) -> Any:
        return await function(value)

    return AgentNode(known, body)


def _check_takes_one(function: Any) -> None:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise _wrong(f"the function {function.__name__!r} must take one value") from None


def _moved(node: WorkflowNode, behind: tuple[str, ...], name: str) -> WorkflowNode:
    """``node`` with ``name`` in the place of those before it that now come before ``name``."""
    at = next((place for place, one in enumerate(node.after) if one in behind), len(node.after))
    kept = [one for one in node.after if one not in behind]
    kept.insert(at, name)
    return replace(node, after=tuple(kept))


def _names(given: Iterable[str] | str, where: str) -> tuple[str, ...]:
    if isinstance(given, str):
        raise _wrong(f"{where}: must be a list of names, as in {where}=[{given!r}]")
    return tuple(given)


def _wrong(what: str) -> InputValidationError:
    return InputValidationError(f"workflow: {what}", field="workflow")
