"""``agent_tool``: a tool made from a typed function, which can still be called as that function."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from agent_nodes.messages import JsonObject
from agent_nodes.tools.base import (
    AgentTool,
    AgentToolResult,
    Execution,
    PrepareArguments,
    ReplayPolicy,
    ToolContext,
    ToolExecute,
    is_async,
)

if TYPE_CHECKING:
    from agent_nodes.tools.signature import Values

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTool(AgentTool, Generic[P, R]):
    """An :class:`AgentTool` made from ``function``; calling it calls the function, as if it were not decorated."""

    function: Callable[P, R]
    arguments_model: Any

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    @property
    def __wrapped__(self) -> Callable[P, R]:
        return self.function

    @property
    def model(self) -> Any:
        return self.arguments_model


@overload
def agent_tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def agent_tool(
    *,
    name: str | None = None,
    description: str | None = None,
    prepare_arguments: PrepareArguments | None = None,
    output_schema: Any = None,
    replay: ReplayPolicy = "never",
    execution: Execution = "parallel",
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def agent_tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    prepare_arguments: PrepareArguments | None = None,
    output_schema: Any = None,
    replay: ReplayPolicy = "never",
    execution: Execution = "parallel",
) -> Any:
    """A tool from a typed function, sync or async: ``@agent_tool`` or ``@agent_tool(replay="safe")``.

    The name is the function's, the description what its docstring says before the first section, the descriptions of
    the parameters what its docstring says about them (Google, NumPy and Sphinx style) or their ``Field``. The schema
    comes from the annotations by way of pydantic, and the function gets values of those types. A parameter annotated
    :class:`ToolContext` gets the context of the call and is not in the schema. A return annotation that is a pydantic
    model, a dataclass or a TypedDict is the ``output_schema``. Methods are handed over bound: ``agent_tool(shop.buy)``.

    Raises :class:`InputValidationError` for a parameter that a model cannot fill, naming it.
    """
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    local = {} if caller is None else dict(caller.f_locals)  # annotations may name what is defined there only

    def make(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        return function_tool(
            function,
            function,
            name=name,
            description=description,
            local=local,
            prepare_arguments=prepare_arguments,
            output_schema=output_schema,
            replay=replay,
            execution=execution,
        )

    return make if function is None else make(function)


def function_tool(
    described: Callable[..., Any],
    function: Callable[..., Any],
    *,
    name: str | None,
    description: str | None,
    local: Mapping[str, Any],
    output_schema: Any,
    called: Callable[..., Any] | None = None,
    **options: Any,
) -> FunctionTool[..., Any]:
    """The tool of ``function``, whose name, docstring and annotations are those of ``described``; a call of the model
    calls ``called`` in its place, where that is given. ``local``: names that the annotations may use."""
    from agent_nodes.tools.signature import read_signature

    read = read_signature(described, name, local)
    plain = output_schema is None and read.output is None
    return FunctionTool(
        name=read.name,
        description=read.description if description is None else description,
        parameters=read.parameters,
        execute=_executor(called or function, read.values, plain=plain),
        output_schema=read.output if output_schema is None else output_schema,
        function=function,
        arguments_model=read.model,
        **options,
    )


def _executor(function: Callable[..., Any], values: Values, *, plain: bool) -> ToolExecute:
    """``execute`` of the tool: types the stored JSON, calls, and where no output schema does it, makes JSON of what
    comes back."""

    def given_back(value: Any) -> Any:
        if not plain or value is None or isinstance(value, str | AgentToolResult):
            return value
        from agent_nodes.tools.signature import plain_value

        return plain_value(value)

    async def awaited(work: Awaitable[Any]) -> Any:
        return given_back(await work)

    async def call_async(arguments: JsonObject, context: ToolContext) -> Any:
        return await awaited(function(**values(arguments, context)))

    def call(arguments: JsonObject, context: ToolContext) -> Any:
        value = function(**values(arguments, context))
        return awaited(value) if inspect.isawaitable(value) else given_back(value)

    return call_async if is_async(function) else call
