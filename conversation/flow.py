"""A project as a Prefect flow: called, served, deployed and scheduled like any."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Mapping
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, Literal

from prefect import Flow
from prefect.context import FlowRunContext
from prefect.states import Cancelled, Completed
from pydantic import Field

from agent_nodes.errors import InputValidationError, UpstreamError, turn_error
from agent_nodes.submission import AgentOutputPayload
from conversation.declarations import MESSAGE, ConversationParamDeclaration

if TYPE_CHECKING:
    from conversation.executor import ConversationExecutorDefinition

_TYPES: Mapping[str, Any] = {
    "string": str,
    "path": str,
    "json": str,
    "integer": int,
    "number": float,
    "boolean": bool,
}

_WITHOUT_ANSWER: Mapping[str, str] = {"waiting": "Waiting", "skipped": "Skipped"}
"""What the flow run is called that ends in order, but has no answer."""


class ProjectFlow(Flow[..., Coroutine[Any, Any, AgentOutputPayload]]):
    """Made by :attr:`ConversationExecutorDefinition.flow`.

    The function in it belongs to no file of the project, so a flow that is served or deployed looks up the name under
    which the process that runs it will find it.
    """

    executor: ConversationExecutorDefinition

    def with_options(self, *args: Any, **options: Any) -> ProjectFlow:
        made: Any = super().with_options(*args, **options)
        made.__class__ = ProjectFlow  # Prefect makes a plain flow
        made.executor = self.executor
        return made

    def to_deployment(self, *args: Any, **options: Any) -> Any:
        self._name_place()
        return super().to_deployment(*args, **options)

    async def ato_deployment(self, *args: Any, **options: Any) -> Any:
        self._name_place()
        return await super().ato_deployment(*args, **options)

    def _name_place(self) -> None:
        """Put where the flow is found to where Prefect reads it."""
        module, name = _place(self, self.executor)
        self.__module__, self.__name__, self.fn.__qualname__ = module, name, name


def project_flow(executor: ConversationExecutorDefinition) -> ProjectFlow:
    """A flow whose parameters are the message, the project's, and ``conversation_id``.

    It returns the answer, an :class:`AgentOutputPayload`. Inside a flow run a failed one raises its error, and one that
    was stopped ends the run as cancelled.
    """
    from conversation.executor import RunContext

    params = {param.name: param for param in executor.params}

    async def run(message: str, *, conversation_id: str | None = None, **values: Any) -> Any:
        around = FlowRunContext.get()
        run_id = "" if around is None or around.flow_run is None else str(around.flow_run.id)
        # What was left out comes as its default here; where the project runs, its configuration may have another one.
        given = {name: value for name, value in values.items() if value != params[name].default}
        context = RunContext(run_id=run_id, conversation_id=conversation_id or "")
        report = await executor.run({MESSAGE: message, **given}, context)
        return _ended(report.answer) if run_id else report.answer

    run.__name__ = run.__qualname__ = "flow"
    run.__signature__ = Signature(  # pyright: ignore[reportFunctionMemberAccess]
        [
            Parameter(MESSAGE, Parameter.POSITIONAL_OR_KEYWORD, annotation=_told(str, "Message", "What is asked.")),
            *[_parameter(param) for param in executor.params],
            Parameter(
                "conversation_id",
                Parameter.KEYWORD_ONLY,
                default=None,
                annotation=_told(
                    str | None,
                    "Conversation",
                    "The conversation to go on with; left out, the run has one of its own.",
                ),
            ),
        ]
    )
    flow = ProjectFlow(run, name=executor.name, description=executor.project_name)
    flow.executor = executor
    return flow


def _ended(answer: AgentOutputPayload) -> Any:
    """The answer, or the state in which a flow run ends that has none."""
    if answer.status == "failed":
        if answer.reason == UpstreamError.code:
            raise UpstreamError(answer.err_code, answer.err_message)
        raise turn_error(answer.reason or "", answer.err_message)
    if answer.status == "aborted":
        return Cancelled(message=answer.err_message)
    if answer.status in _WITHOUT_ANSWER:
        return Completed(name=_WITHOUT_ANSWER[answer.status], message=answer.err_message or None, data=answer)
    return answer


def _parameter(param: ConversationParamDeclaration) -> Parameter:
    values = tuple(choice.value for choice in param.choices)
    kind: Any = Literal[values] if values else _TYPES[param.type]
    if param.default is None and not param.required:
        kind = kind | None
    labels = [f"{choice.value!r}: {choice.label}" for choice in param.choices if choice.label]
    described = "\n".join([param.description, *labels]).strip()
    default: Any = Parameter.empty if param.required and param.default is None else param.default
    annotation = _told(kind, param.label, described)
    return Parameter(param.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _told(kind: Any, title: str, description: str) -> Any:
    """``kind`` with what people see of it, said where Prefect puts nothing of its own in its place."""
    extra: Any = {name: text for name, text in (("title", title), ("description", description)) if text}
    return Annotated[kind, Field(json_schema_extra=extra)]


def _place(flow: ProjectFlow, executor: ConversationExecutorDefinition) -> tuple[str, str]:
    """The module and the name under which ``flow`` stands in a file: its own name, or the project's."""
    behind: tuple[str, str] | None = None
    # Their dicts alone: asking a module that loads late for a name would load it.
    for names in [dict(vars(module)) for module in list(sys.modules.values()) if hasattr(module, "__dict__")]:
        if names.get("__file__") is None:
            continue
        for name, value in names.items():
            if value is flow:
                return names["__name__"], name
            if value is executor and executor.flow is flow:
                behind = behind or (names["__name__"], f"{name}.flow")
    if behind is None:
        raise InputValidationError(
            "flow: the process that is to run it cannot find it; write `flow = executor.flow` at the module level of "
            "the project's file",
            field="flow",
        )
    return behind
