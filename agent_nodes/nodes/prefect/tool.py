"""``prefect_tool``: a Prefect task or flow as a tool of an agent."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from prefect import Flow, Task

from agent_nodes.errors import InputValidationError
from agent_nodes.nodes.dispatch import in_flow_run
from agent_nodes.tools.base import Execution, PrepareArguments, ReplayPolicy
from agent_nodes.tools.decorator import FunctionTool, function_tool

TaskOrFlow: TypeAlias = "Task[..., Any] | Flow[..., Any]"


def prefect_tool(
    task_or_flow: TaskOrFlow,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    prepare_arguments: PrepareArguments | None = None,
    output_schema: Any = None,
    replay: ReplayPolicy = "never",
    execution: Execution = "parallel",
) -> FunctionTool[..., Any]:
    """A tool from a Prefect task or flow, read and called as :func:`agent_nodes.agent_tool` does it with its function.

    While the agent runs inside a flow run, a call is a task run of that flow run, or a subflow, with its own retries,
    cache and state. Elsewhere it is a plain call of the function, and no server is asked. The name is the function's;
    a description given to the task or flow goes before its docstring.

    Raises :class:`~agent_nodes.errors.InputValidationError` for what is neither, for a generator, and for a parameter
    that a model cannot fill.
    """
    if not isinstance(task_or_flow, Task | Flow):  # pyright: ignore[reportUnnecessaryIsInstance]
        kind = type(task_or_flow).__name__
        raise InputValidationError(
            f"prefect_tool: must be a Prefect task or flow, not {kind}; agent_tool takes functions",
            field="task_or_flow",
        )
    function: Callable[..., Any] = task_or_flow.fn
    if description is None and task_or_flow.description != inspect.getdoc(function):
        description = task_or_flow.description
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    return function_tool(
        function,
        task_or_flow,
        called=_called(task_or_flow, function),
        name=name,
        description=description,
        local={} if caller is None else dict(caller.f_locals),
        prepare_arguments=prepare_arguments,
        output_schema=output_schema,
        replay=replay,
        execution=execution,
    )


def _called(made: TaskOrFlow, function: Callable[..., Any]) -> Callable[..., Any]:
    """By keywords; which of the two it is, is known when it is called."""

    async def call_async(**values: Any) -> Any:
        return await (made(**values) if in_flow_run() else function(**values))

    def call(**values: Any) -> Any:
        return made(**values) if in_flow_run() else function(**values)

    return call_async if inspect.iscoroutinefunction(function) else call
