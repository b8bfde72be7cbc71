"""A whole conversation project in one call, and the parts of it that projects reuse."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_nodes.messages import AgentEffort
from agent_nodes.options import AgentInput, agent_input
from agent_nodes.tools.policy import BUILTIN_NAMES
from conversation.declarations import ConversationParamDeclaration, ParamChoice
from conversation.executor import (
    ConversationExecutorDefinition,
    ResolveParams,
    RunContext,
    create_agent_conversation_project,
    define_executor,
)
from conversation.params import ProjectArgs
from conversation.workspace import load_models

_POLICIES = ("read-only", "workspace", "auto")
_EFFORTS: tuple[AgentEffort, ...] = ("", "off", "minimal", "low", "medium", "high", "xhigh", "max")


def default_params(options: Mapping[str, Any] | None = None) -> tuple[ConversationParamDeclaration, ...]:
    """The parameters of an agent project; ``options`` of the agent give their defaults."""
    given = options or {}

    def param(name: str, *flags: str, **fields: Any) -> ConversationParamDeclaration:
        default = given.get(name)
        text = default if default is None or isinstance(default, int) else str(default)
        return ConversationParamDeclaration(name=name, flags=flags, default=text, **fields)

    efforts = tuple(ParamChoice(value=value, label=value or "automatic") for value in _EFFORTS)
    policies = tuple(ParamChoice(value=value) for value in _POLICIES)
    return (
        param("workdir", "--workdir", "-C", type="path", label="Working directory"),
        param("provider", "--provider", label="Provider"),
        param("model", "--model", "-m", label="Model", group="Quick"),
        param("effort", "--effort", label="Effort", group="Quick", choices=efforts),
        param("context_window", "--context-window", type="integer", label="Context window"),
        param("model_attributes", "--model-attributes", type="json", label="Model attributes"),
        param("permission_policy", "--permission-policy", label="Permissions", choices=policies),
    )


def create_agent_project_input(args: ProjectArgs) -> AgentInput:
    """The input of an agent's turn: the message, else the words left over, and the parameters that are set. A model
    that the project's configuration names means that entry.

    Raises :class:`~agent_nodes.errors.InputValidationError` naming the parameter that is wrong.
    """
    known = set(AgentInput.model_fields)
    fields = {name: value for name, value in args.params.items() if name in known}
    configured = args.models.get(str(fields.get("model")))
    if configured is not None:
        fields |= {"provider": configured.provider, "model": configured.model, "base_url": None}
        if configured.effort is not None:
            fields.setdefault("effort", configured.effort)
    return agent_input({"prompt": args.prompt, **{name: value for name, value in fields.items() if value is not None}})


def _create_input(args: ProjectArgs, context: RunContext) -> AgentInput:
    return create_agent_project_input(args)


def create_agent_project_param_resolver() -> ResolveParams:
    """Parameters as the project's configuration has them: the models of ``agent-nodes.toml`` to choose from, the first
    of them the default, and no provider to ask for. Without configured models they stay as they are, and only declared
    parameters are touched."""

    def resolve(
        params: Sequence[ConversationParamDeclaration], context: RunContext
    ) -> Sequence[ConversationParamDeclaration]:
        models = load_models(Path(context.config or Path.cwd()), os.environ)
        if not models:
            return params
        choices = tuple(
            ParamChoice(
                value=model.id, label=model.attributes.name if model.attributes and model.attributes.name else ""
            )
            for model in models
        )
        changes: dict[str, dict[str, Any]] = {
            "model": {"choices": choices, "default": choices[0].value},
            "provider": {"hidden": True, "default": None},
        }
        return [param.model_copy(update=changes.get(param.name, {})) for param in params]

    return resolve


def define_agent_conversation_executor(
    *,
    name: str = "agent",
    project_name: str = "",
    output_item_id: str = "agent-answer",
    collapse_intermediate: bool = True,
    params: Sequence[ConversationParamDeclaration | Mapping[str, Any]] | None = None,
    **agent_options: Any,
) -> ConversationExecutorDefinition:
    """A complete project around one agent: its nodes, parameters, tools, token usage and conversation.

    ``name`` is the workflow's and the prefix of its nodes, ``project_name`` what people see. ``agent_options`` are
    those of :func:`agent_nodes.create_agent_node`; they give the defaults of the parameters. ``params`` takes the place
    of the whole table. Static analysis cannot see what is declared here; a project that it is to read calls
    :func:`define_executor` with the blocks inline.

    Raises :class:`~agent_nodes.errors.InputValidationError` naming the option that is wrong.
    """
    workflow = create_agent_conversation_project(name=name, output_item_id=output_item_id, **agent_options)
    own = [tool.name for tool in agent_options.get("extra_tools") or ()]
    return define_executor(
        project_type="conversation",
        name=name,
        project_name=project_name,
        workflow=workflow,
        conversation={
            "input_queue": {"enabled": True},
            "recovery": {"enabled": True},
            "collapse_intermediate": collapse_intermediate,
            "openai": {"output_item_id": output_item_id},
        },
        token_usage={"enabled": True, "display": True},
        tools=[{"name": tool} for tool in (*BUILTIN_NAMES, *own)],
        params=default_params(agent_options) if params is None else params,
        create_input=_create_input,
        resolve_params=create_agent_project_param_resolver(),
    )
