"""A project as one object: what it declares, its graph of nodes, and a run of it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.errors import AgentError, InputValidationError
from agent_nodes.host import AgentHost
from agent_nodes.messages import JsonObject
from agent_nodes.nodes.agent import create_agent_node
from agent_nodes.nodes.busy import OnBusy
from agent_nodes.nodes.input import create_input_node
from agent_nodes.nodes.output import create_output_node
from agent_nodes.nodes.scope import Asked, Scope, scoped
from agent_nodes.options import AgentInput, agent_input, checked_input
from agent_nodes.providers.registry import ModelRegistry
from agent_nodes.submission import AgentOutputPayload, AgentTurnStatus
from agent_nodes.tools.policy import BUILTIN_NAMES, SESSION_NAMES, ToolPermissionDefinition
from conversation.declarations import (
    PROJECT_TYPE,
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
from conversation.workflow import OnOutput, Workflow, WorkflowNode
from conversation.workspace import load_models, registry_of

if TYPE_CHECKING:
    from conversation.flow import ProjectFlow

Input: TypeAlias = AgentInput | Mapping[str, Any]
CreateInput: TypeAlias = Callable[[ProjectArgs, "RunContext"], Input | Awaitable[Input]]
ResolveParams: TypeAlias = Callable[
    [Sequence[ConversationParamDeclaration], "RunContext"], Sequence[ConversationParamDeclaration]
]


@dataclass(frozen=True, slots=True)
class RunContext:
    """Who runs a project and where.

    ``run_id`` names the run, and with it each of its turns: the same one again goes on with it, or gives what it gave;
    ``reopen`` lets what failed or was stopped in it go on. ``conversation_id`` goes on from run to run; left out it is
    the run's id.

    ``host`` hears events and usage of all agents and can stop the run; ``hosts`` gives, in its place, the host of each
    agent by the name of its node. ``on_output(node, output)`` hears what each node put out, ``on_session(session_id)``
    which sessions are opened. ``on_busy`` (wait, skip, refuse) stands in place of what the agents do while somebody
    else has their session.

    ``config`` is the folder whose ``agent-nodes.toml`` names models (default: the current one), ``environ`` holds their
    keys (default: the process's own). ``provider`` answers where nothing names one. ``disabled_tools`` are declared
    tools that are not there in this run. ``host_input`` is the history of a host that keeps it.
    """

    run_id: str = ""
    conversation_id: str = ""
    project: str = ""
    reopen: bool = False
    host: AgentHost | Mapping[str, Any] | None = None
    hosts: Callable[[str], Any] | None = None
    on_output: OnOutput | None = None
    on_session: Callable[[str], object] | None = None
    on_busy: OnBusy | None = None
    config: str | os.PathLike[str] | None = None
    environ: Mapping[str, str] | None = None
    provider: str | None = None
    disabled_tools: Collection[str] = ()
    host_input: JsonObject | None = None

    @property
    def folder(self) -> Path:
        return Path.cwd() if self.config is None else Path(self.config)


@dataclass(frozen=True, slots=True)
class NodeOutput:
    """What one node put out: an :class:`AgentInput`, an :class:`AgentOutputPayload`, or what a function returned."""

    node: str
    output: Any


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run as it ended: the outputs of its nodes, and first of all its ``answer``, the output node's, with the usage
    of the whole run."""

    run_id: str
    project: str
    conversation_id: str
    answer: AgentOutputPayload
    outputs: tuple[NodeOutput, ...] = ()

    @property
    def status(self) -> AgentTurnStatus:
        return self.answer.status


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationExecutorDefinition:
    """A checked project; made by :func:`define_executor`. ``tools`` is None where nothing is declared: then the agents'
    options alone decide."""

    project_type: ProjectType
    name: str
    project_name: str
    workflow: Workflow
    conversation: ConversationDeclaration
    token_usage: TokenUsageDeclaration
    tools: tuple[ToolDeclaration, ...] | None
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
        """One run: ``args`` are the words of a command line, or a dict of the message and the parameters. Of a run that
        is known by its ``run_id`` they may be left out.

        What ends without an answer is a status of the report. Raises :class:`InputValidationError` naming what is wrong
        with the arguments, ``SessionBusy``, ``SessionFileError`` and ``StorageError``; the run can then be made again
        under its id.
        """
        given = context or RunContext()
        run_id = given.run_id or SYSTEM_CLOCK.new_id()
        context = replace(
            given,
            run_id=run_id,
            conversation_id=given.conversation_id or run_id,
            project=given.project or self.name,
        )
        parsed, value = await self._parsed(args, context)
        if not given.run_id and value.prompt is None and not (value.images or value.image_files or value.err_code):
            raise InputValidationError("message: missing; say what this run is to do", field="message")
        value = agent_input(value.model_copy(update={"request_id": context.run_id}))
        with scoped(self._scope(context, parsed, value)):
            outputs = await self.workflow.run(value, context.on_output)
        answer = outputs[self.workflow.output]
        self._check_answer(answer, context)
        listed = tuple(NodeOutput(node.name, outputs[node.name]) for node in self.workflow.nodes)
        return RunReport(context.run_id, context.project, context.conversation_id, answer, listed)

    async def input(self, args: Sequence[str] | Mapping[str, Any], context: RunContext | None = None) -> AgentInput:
        """The input that a run of ``args`` begins with. Raises :class:`InputValidationError` as :meth:`run` does."""
        _, value = await self._parsed(args, context or RunContext())
        return value

    @property
    def flow(self) -> ProjectFlow:
        """The project as a Prefect flow, with the message and the parameters as its own; it is served, deployed and
        scheduled like any. Asking for it imports Prefect."""
        if "flow" not in self._made:
            from conversation.flow import project_flow

            self._made["flow"] = project_flow(self)
        return self._made["flow"]

    async def _parsed(
        self, args: Sequence[str] | Mapping[str, Any], context: RunContext
    ) -> tuple[ProjectArgs, AgentInput]:
        models = {model.id: model for model in load_models(context.folder, context.environ)}
        parsed = replace(parse_args(self.resolved_params(context), args), models=models)
        made = self.create_input(parsed, context)
        given = checked_input(await made if inspect.isawaitable(made) else made)
        if context.host_input is not None and given.host_input is None:
            given = given.model_copy(update={"host_input": context.host_input})
        return parsed, given

    def _scope(self, context: RunContext, parsed: ProjectArgs, given: AgentInput) -> Scope:
        images = len(given.images) + len(given.image_files)
        prompt = parsed.prompt if parsed.prompt is not None else given.prompt

        def host(node: str) -> Any:
            return context.host if context.hosts is None else context.hosts(node)

        return Scope(
            project=context.project,
            conversation_id=context.conversation_id,
            request_id=context.run_id,
            reopen=context.reopen,
            asked=None if prompt is None and not images else Asked(prompt or "", images),
            host=host,
            on_session=context.on_session,
            on_busy=context.on_busy,
            models=_registry(parsed, context),
            provider=context.provider,
            tools=self._tool_definitions(context),
        )

    def _tool_definitions(self, context: RunContext) -> tuple[ToolPermissionDefinition, ...] | None:
        """As declared; a host may only switch one off."""
        declared = [tool.name for tool in self.tools or ()]
        for name in context.disabled_tools:
            if name not in declared:
                hint = _meant(name, declared)
                raise InputValidationError(f"disabled_tools: {name!r} is not declared{hint}", field="disabled_tools")
        if self.tools is None:
            return None
        off = set(context.disabled_tools)
        return tuple(
            ToolPermissionDefinition(tool.name, tool.enabled and tool.name not in off, tool.auto_approve)
            for tool in self.tools
        )

    def _check_answer(self, answer: object, context: RunContext) -> None:
        if not isinstance(answer, AgentOutputPayload):
            what = type(answer).__name__
            raise AgentError(f"The output node {self.workflow.output} put out {what}, no AgentOutputPayload.")
        wanted = self.conversation.openai.output_item_id
        driven = context.host_input is not None and answer.status == "answered"
        if driven and not any(item.get("id") == wanted for item in answer.items):
            raise AgentError(
                f"The run did not produce the output item {wanted!r} (conversation.openai.output_item_id), in which "
                "its host looks for the answer; give the output node the same output_item_id."
            )


def _registry(parsed: ProjectArgs, context: RunContext) -> ModelRegistry | None:
    """The configured models; of two entries for one model the key of the chosen one counts."""
    chosen = parsed.models.get(str(parsed.params.get("model")))
    models = [model for model in parsed.models.values() if model is not chosen]
    environ = os.environ if context.environ is None else context.environ
    return registry_of([*models, *([] if chosen is None else [chosen])], environ)


def _meant(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, 1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known are {', '.join(known)}" if known else ""


def define_executor(
    *,
    workflow: Workflow,
    create_input: CreateInput,
    project_type: ProjectType = PROJECT_TYPE,
    name: str = "",
    project_name: str = "",
    conversation: ConversationDeclaration | Mapping[str, Any] | None = None,
    token_usage: TokenUsageDeclaration | Mapping[str, Any] | None = None,
    tools: Sequence[ToolDeclaration | Mapping[str, Any]] | None = None,
    params: Sequence[ConversationParamDeclaration | Mapping[str, Any]] = (),
    resolve_params: ResolveParams | None = None,
) -> ConversationExecutorDefinition:
    """A project out of its parts. The blocks may be dicts; a mistake in one is an :class:`InputValidationError` with
    the path of the field.

    ``tools`` are the tools there are, for every agent of the workflow that declares none itself; left out, the agents'
    own options decide. ``create_input(args, context)`` makes the input of a run out of the :class:`ProjectArgs`;
    ``resolve_params(params, context)`` returns the same parameters as they are to be shown.
    """
    if project_type != PROJECT_TYPE:
        raise InputValidationError(
            f"project_type: {project_type!r} is unknown; there is {PROJECT_TYPE!r}", field="project_type"
        )
    if not isinstance(workflow, Workflow):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputValidationError(
            "workflow: must be a Workflow, such as create_agent_conversation_project(...)", field="workflow"
        )
    for field_name, text in (("name", name), ("project_name", project_name)):
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputValidationError(f"{field_name}: must be a text", field=field_name)
    _check_function("create_input", create_input, "args, context")
    if resolve_params is not None:
        _check_function("resolve_params", resolve_params, "params, context")
    block = declared(ConversationDeclaration, {} if conversation is None else conversation, "conversation")
    usage = declared(TokenUsageDeclaration, {} if token_usage is None else token_usage, "token_usage")
    made = ConversationExecutorDefinition(
        project_type=project_type,
        name=name or workflow.name,
        project_name=project_name or name or workflow.name,
        workflow=workflow,
        conversation=block,
        token_usage=usage,
        tools=None if tools is None else _declared_tools(tools, workflow),
        params=declared_params(params),
        create_input=create_input,
        resolve_params=resolve_params,
    )
    written = workflow.output_item_id
    if written != block.openai.output_item_id:
        raise InputValidationError(
            f"conversation.openai.output_item_id: is {block.openai.output_item_id!r}, but the workflow's output node "
            f"writes the answer under {written!r}; give both the same",
            field="conversation.openai.output_item_id",
        )
    return made


def _check_function(field_name: str, function: Any, parameters: str) -> None:
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        raise InputValidationError(f"{field_name}: must be a function of ({parameters})", field=field_name) from None


def _declared_tools(tools: Sequence[Any], workflow: Workflow) -> tuple[ToolDeclaration, ...]:
    made = declared_list(ToolDeclaration, tools, "tools")
    own = [node.facts.tools for node in workflow.agents]
    known = {*BUILTIN_NAMES, *SESSION_NAMES, *(name for names in own for name in names or ())}
    for n, tool in enumerate(made):
        # Where an agent makes its tools only when it runs, any name may be one of them.
        if tool.name not in known and None not in own:
            hint = _meant(tool.name, sorted(known - SESSION_NAMES))
            raise InputValidationError(f"tools.{n}.name: {tool.name!r} is no tool here{hint}", field=f"tools.{n}.name")
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
    if not name.strip():
        raise InputValidationError("create_agent_conversation_project: name: must not be empty", field="name")
    options: dict[str, Any] = {"session_key": session_key or "agent", "raise_on_failure": False, **agent_options}
    given, agent, output = f"{name}-input", f"{name}-agent", f"{name}-output"
    nodes = (
        WorkflowNode(create_input_node(given, file_store=agent_options.get("file_store"))),
        WorkflowNode(create_agent_node(agent, **options), (given,)),
        WorkflowNode(create_output_node(output, output_item_id=output_item_id), (agent,)),
    )
    return Workflow(name, nodes, given, output)
