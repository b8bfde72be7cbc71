"""A project as a Prefect flow: served, deployed and scheduled like any."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from prefect import Flow

from agent_nodes.errors import turn_error
from conversation.declarations import MESSAGE, ConversationParamDeclaration

if TYPE_CHECKING:
    from conversation.executor import ConversationExecutorDefinition

ProjectFlow: TypeAlias = Flow[..., Any]

_TYPES: Mapping[str, Any] = {
    "string": str,
    "path": str,
    "json": str,
    "integer": int,
    "number": float,
    "boolean": bool,
}


def project_flow(executor: ConversationExecutorDefinition) -> ProjectFlow:
    """A flow whose parameters are the message and the project's; it returns the answer's text, and fails where there is
    none."""
    from conversation.executor import RunContext

    async def run(**values: Any) -> str:
        from prefect.context import FlowRunContext

        around = FlowRunContext.get()
        run_id = "" if around is None or around.flow_run is None else str(around.flow_run.id)
        conversation_id = values.pop("conversation_id") or ""
        report = await executor.run(values, RunContext(run_id=run_id, conversation_id=conversation_id))
        if report.answer.err_code:
            raise turn_error(report.answer.reason or "", report.answer.err_message)
        return report.answer.text

    signature = inspect.Signature(
        [
            inspect.Parameter(MESSAGE, inspect.Parameter.KEYWORD_ONLY, annotation=str),
            *[_parameter(param) for param in executor.params],
            inspect.Parameter("conversation_id", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=str | None),
        ]
    )
    run.__name__ = run.__qualname__ = executor.name
    run.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    return Flow(run, name=executor.name)


def _parameter(param: ConversationParamDeclaration) -> inspect.Parameter:
    annotation = _TYPES[param.type] | None
    return inspect.Parameter(param.name, inspect.Parameter.KEYWORD_ONLY, default=param.default, annotation=annotation)
