"""A project as one object: what it declares, its graph of nodes, and a run of it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.errors import AgentError, InputValidationError
from agent_nodes.host import AgentHost
from agent_nodes.messages import JsonObject
from agent_nodes.nodes.agent import create_agent_node
from agent_nodes.nodes.input import create_input_node
from agent_nodes.nodes.output import create_output_node
from agent_nodes.nodes.scope import Scope, scoped
from agent_nodes.options import AgentInput, agent_input
from agent_nodes.submission import AgentOutputPayload
from conversation.declarations import (
    ConversationDeclaration,
    ConversationParamDeclaration,
    ProjectType,
    TokenUsageDeclaration,
    ToolDeclaration,
    declared,
    declared_list,
    declared_params,
)
from conversation.params import ProjectArgs, parse_args
from conversation.workflow import Workflow, WorkflowNode
from conversation.workspace import load_models, registry_of

if TYPE_CHECKING:
    from conversation.flow import ProjectFlow

CreateInput: TypeAlias = Callable[..., AgentInput | Mapping[str, Any] | Awaitable[AgentInput | Mapping[str, Any]]]
ResolveParams: TypeAlias = Callable[..., Sequence[ConversationParamDeclaration]]

PROJECT_TYPE: ProjectType = "conversation"


@dataclass(frozen=True, slots=True)
class RunContext:
    """Who runs a project and where.

    ``run_id`` names the run, and with it each of its turns: the same one again goes on with it, or gives what it gave.
    ``conversation_id`` goes on from run to run; left out it is the run's id. ``host`` hears events and usage and can
    stop the run. ``on_output(node, output)`` hears what each node put out. ``config`` is the folder whose
    ``agent-nodes.toml`` names models. ``host_input`` is the history of a host that keeps it.
    """

    run_id: str = ""
    conversation_id: str = ""
    project: str = ""
    host: AgentHost | Mapping[str, Any] | None = None
    on_output: Callable[[str, Any], Awaitable[object] | object] | None = None
    config: Any = None
    host_input: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class NodeOutput:
    """What one node put out: an :class:`AgentInput`, an :class:`AgentOutputPayload`, or what a function returned."""

    node: str
    output: Any


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run as it ended: the outputs of its nodes, and first of all its ``answer``, the output node's."""

    run_id: str
    project: str
    conversation_id: str
    answer: AgentOutputPayload
    outputs: tuple[NodeOutput, ...] = ()

    @property
    def status(self) -> Literal["answered", "waiting", "aborted", "failed", "skipped"]:
        return self.answer.status


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationExecutorDefinition:
    """A checked project; made by :func:`define_executor`."""

    project_type: ProjectType
    name: str
    project_name: str
    workflow: Workflow
    conversation: ConversationDeclaration
    token_usage: TokenUsageDeclaration
    tools: tuple[ToolDeclaration, ...]
    params: tuple[ConversationParamDeclaration, ...]
    create_input: CreateInput
    resolve_params: ResolveParams | None = None
    _made: dict[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)

    def resolved_params(self, context: RunContext | None = None) -> tuple[ConversationParamDeclaration, ...]:
        """The parameters as they are to be shown here: those declared, with what the project's configuration says.

        Only fields of declared parameters change. Raises :class:`InputValidationError` for a broken configuration.
        """
        if self.resolve_params is None:
            return self.params
        given = self.resolve_params(self.params, context or RunContext())
        resolved = declared_params(tuple(given))
        if [param.name for param in resolved] != [param.name for param in self.params]:
            raise InputValidationError(
                "resolve_params: must return the declared parameters, in their order", field="resolve_params"
            )
        return resolved

    async def run(self, args: Sequence[str] | Mapping[str, Any], context: RunContext | None = None) -> RunReport:
        """One run: ``args`` are the words of a command line, or a dict of the message and the parameters.

        What ends without an answer is a status of the report. Raises :class:`InputValidationError` naming what is wrong
        with the arguments, ``SessionBusy``, ``SessionFileError`` and ``StorageError``; the run can then be made again
        under its id.
        """
        context = self._context(context)
        configured = load_models(Path(context.config or Path.cwd()))
        parsed = parse_args(self.resolved_params(context), args)
        parsed = replace(parsed, models={model.id: model for model in configured})
        given = await self._input(parsed, context)
        models = registry_of(configured, os.environ)
        scope = Scope(context.project, context.conversation_id, context.run_id, context.host, models)
        with scoped(scope):
            outputs = await self.workflow.run(given, context.on_output)
        answer = outputs[self.workflow.output]
        self._check_answer(answer, context)
        listed = tuple(NodeOutput(node.name, outputs[node.name]) for node in self.workflow.nodes)
        return RunReport(context.run_id, context.project, context.conversation_id, answer, listed)

    @property
    def flow(self) -> ProjectFlow:
        """The project as a Prefect flow, with the message and the parameters as its own; it is served, deployed and
        scheduled like any. Asking for it imports Prefect."""
        if "flow" not in self._made:
            from conversation.flow import project_flow

            self._made["flow"] = project_flow(self)
        return self._made["flow"]

    def _context(self, context: RunContext | None) -> RunContext:
        context = context or RunContext()
        run_id = context.run_id or SYSTEM_CLOCK.new_id()
        return RunContext(
            run_id,
            context.conversation_id or run_id,
            context.project or self.name,
            context.host,
            context.on_output,
            context.config,
            context.host_input,
        )

    async def _input(self, parsed: ProjectArgs, context: RunContext) -> AgentInput:
        import inspect

        made: Any = self.create_input(parsed, context)
        if inspect.isawaitable(made):
            made = await made
        given = agent_input(made)
        changes: dict[str, Any] = {}
        if given.request_id is None:
            changes["request_id"] = context.run_id
        if context.host_input is not None and given.host_input is None:
            changes["host_input"] = context.host_input
        return given.model_copy(update=changes) if changes else given

    def _check_answer(self, answer: object, context: RunContext) -> None:
        if not isinstance(answer, AgentOutputPayload):
            what = type(answer).__name__
            raise AgentError(f"The output node {self.workflow.output} put out {what}, no AgentOutputPayload.")
        wanted = self.conversation.openai.output_item_id
        driven = context.host_input is not None and answer.status == "answered" and answer.text.strip()
        if driven and not any(item.get("id") == wanted for item in answer.items):
            raise AgentError(
                f"The run did not produce the output item {wanted!r} (conversation.openai.output_item_id), in which "
                "its host looks for the answer; give the output node the same output_item_id."
            )


def define_executor(
    *,
    workflow: Workflow,
    create_input: CreateInput,
    project_type: ProjectType = PROJECT_TYPE,
    name: str = "",
    project_name: str = "",
    conversation: ConversationDeclaration | Mapping[str, Any] | None = None,
    token_usage: TokenUsageDeclaration | Mapping[str, Any] | None = None,
    tools: Sequence[ToolDeclaration | Mapping[str, Any]] = (),
    params: Sequence[ConversationParamDeclaration | Mapping[str, Any]] = (),
    resolve_params: ResolveParams | None = None,
) -> ConversationExecutorDefinition:
    """A project out of its parts. The blocks may be dicts; a mistake in one is an :class:`InputValidationError` with
    the path of the field.

    ``create_input(args, context)`` makes the input of a run out of the :class:`ProjectArgs`; ``resolve_params(params,
    context)`` returns the same parameters as they are to be shown.
    """
    if project_type != PROJECT_TYPE:
        raise InputValidationError(
            f"project_type: {project_type!r} is unknown; there is {PROJECT_TYPE!r}", field="project_type"
        )
    if not isinstance(workflow, Workflow):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputValidationError("workflow: must be a Workflow", field="workflow")
    for field_name, function in (("create_input", create_input), ("resolve_params", resolve_params)):
        if function is not None and not callable(function):
            raise InputValidationError(f"{field_name}: must be a function", field=field_name)
    block = declared(ConversationDeclaration, conversation or {}, "conversation")
    made = ConversationExecutorDefinition(
        project_type=project_type,
        name=name or workflow.name,
        project_name=project_name or name or workflow.name,
        workflow=workflow,
        conversation=block,
        token_usage=declared(TokenUsageDeclaration, token_usage or {}, "token_usage"),
        tools=cast("tuple[ToolDeclaration, ...]", declared_list(ToolDeclaration, tools, "tools")),
        params=declared_params(params),
        create_input=create_input,
        resolve_params=resolve_params,
    )
    written = workflow.output_item_id
    if written is not None and written != block.openai.output_item_id:
        raise InputValidationError(
            f"conversation.openai.output_item_id: is {block.openai.output_item_id!r}, but the workflow's output node "
            f"writes the answer under {written!r}; give both the same",
            field="conversation.openai.output_item_id",
        )
    return made


def create_agent_conversation_project(
    *,
    name: str = "agent",
    output_item_id: str = "agent-answer",
    session_key: Any = None,
    **agent_options: Any,
) -> Workflow:
    """The workflow of an agent: ``<name>-input``, ``<name>-agent``, ``<name>-output``.

    ``agent_options`` are those of :func:`agent_nodes.create_agent_node`. Raises :class:`InputValidationError` naming
    the option that is wrong.
    """
    options: dict[str, Any] = {"session_key": session_key or "agent", "raise_on_failure": False, **agent_options}
    given, agent, output = f"{name}-input", f"{name}-agent", f"{name}-output"
    nodes = (
        WorkflowNode(given, create_input_node(given, file_store=agent_options.get("file_store"))),
        WorkflowNode(agent, create_agent_node(agent, **options), (given,)),
        WorkflowNode(output, create_output_node(output, output_item_id=output_item_id), (agent,), takes_payload=True),
    )
    return Workflow(name, nodes, given, output, output_item_id)
