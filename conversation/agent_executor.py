"""A whole conversation project in one call, and the parts of it that projects reuse."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from agent_nodes.messages import AgentEffort
from agent_nodes.model_attributes import model_attributes_of
from agent_nodes.options import AgentInput, checked_input
from agent_nodes.submission import AgentPermissionPolicy
from agent_nodes.tools.policy import BUILTIN_NAMES, tool_definitions
from conversation.declarations import PROJECT_TYPE, ConversationParamDeclaration, ParamChoice
from conversation.executor import (
    ConversationExecutorDefinition,
    ResolveParams,
    RunContext,
    create_agent_conversation_project,
    define_executor,
)
from conversation.params import ProjectArgs
from conversation.workspace import ConfiguredModel, load_models, options_of

_OF_AN_ENDPOINT = ("provider", "model", "base_url", "api_kind")
_OF_A_MODEL = ("model_attributes", "context_window", "max_tokens")


def default_params(options: Mapping[str, Any] | None = None) -> tuple[ConversationParamDeclaration, ...]:
    """The parameters of an agent project; ``options`` of the agent give their defaults."""
    given = options or {}

    def param(name: str, *flags: str, **fields: Any) -> ConversationParamDeclaration:
        return ConversationParamDeclaration(name=name, flags=flags, default=_default(name, given.get(name)), **fields)

    efforts = tuple(ParamChoice(value=value, label=value or "automatic") for value in get_args(AgentEffort))
    policies = tuple(ParamChoice(value=value) for value in get_args(AgentPermissionPolicy))
    return (
        param("workdir", "--workdir", "-C", type="path", label="Working directory"),
        param("provider", "--provider", label="Provider"),
        param("model", "--model", "-m", label="Model", group="Quick"),
        param("effort", "--effort", label="Effort", group="Quick", choices=efforts),
        param("context_window", "--context-window", type="integer", label="Context window"),
        param("model_attributes", "--model-attributes", type="json", label="Model attributes"),
        param("permission_policy", "--permission-policy", label="Permissions", choices=policies),
    )


def _default(name: str, value: Any) -> Any:
    if name == "model_attributes" and value is not None:
        attributes = model_attributes_of(value)
        return None if attributes is None else attributes.to_json()
    return str(value) if isinstance(value, os.PathLike) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def create_agent_project_input(args: ProjectArgs, context: RunContext | None = None) -> AgentInput:
    """The input of an agent's turn: the message, else the words left over, and the parameters that are set. A model
    that the project's configuration names means that entry, with its address, effort and attributes; its key goes
    another way and is in no input.

    Raises :class:`~agent_nodes.errors.InputValidationError` naming the parameter that is wrong, and the variable of a
    configured model's key that is not set.
    """
    fields = {name: value for name, value in args.params.items() if name in AgentInput.model_fields}
    given = {name: value for name, value in fields.items() if name in args.given}
    defaults = {name: value for name, value in fields.items() if name not in given}
    configured = args.models.get(str(fields.get("model")))
    if configured is not None and given.get("provider") in (None, configured.provider):
        environ = context.environ if context is not None and context.environ is not None else os.environ
        entry = options_of(configured, environ)
        entry.pop("api_key", None)
        for name in ("provider", "model"):
            given.pop(name, None)
        fields = _without(defaults, *_OF_AN_ENDPOINT, *_OF_A_MODEL) | entry | given
    elif "provider" in given:
        fields = _without(defaults, *_OF_AN_ENDPOINT, *_OF_A_MODEL) | given
    elif "model" in given:
        fields = _without(defaults, *_OF_A_MODEL) | given
    return checked_input({"prompt": args.prompt, **fields})


def _without(defaults: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """A default that describes the project's own model says nothing of another one."""
    return {name: value for name, value in defaults.items() if name not in names}


def create_agent_project_param_resolver() -> ResolveParams:
    """Parameters as the project's configuration has them: the models of ``agent-nodes.toml`` to choose from, the first
    of them the default, and no provider to ask for. Without configured models they stay as they are, and only declared
    parameters are touched."""

    def resolve(
        params: Sequence[ConversationParamDeclaration], context: RunContext
    ) -> Sequence[ConversationParamDeclaration]:
        models = load_models(context.folder, context.environ)
        if not models:
            return params
        choices = tuple(ParamChoice(value=model.id, label=_label(model)) for model in models)
        changes: dict[str, dict[str, Any]] = {
            "model": {"choices": choices, "default": choices[0].value},
            "provider": {"hidden": True, "default": None},
        }
        return [param.model_copy(update=changes.get(param.name, {})) for param in params]

    return resolve


def _label(model: ConfiguredModel) -> str:
    return (model.attributes.name if model.attributes is not None else None) or ""


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
    those of :func:`agent_nodes.create_agent_node`; they give the defaults of the parameters, and ``tool_definitions``
    take the place of the declared tools. ``params`` takes the place of the whole table. Static analysis cannot see what
    is declared here; a project that it is to read calls :func:`define_executor` with the blocks inline.

    Raises :class:`~agent_nodes.errors.InputValidationError` naming the option that is wrong.
    """
    workflow = create_agent_conversation_project(name=name, output_item_id=output_item_id, **agent_options)
    return define_executor(
        project_type=PROJECT_TYPE,
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
        tools=_tools(agent_options),
        params=default_params(agent_options) if params is None else params,
        create_input=create_agent_project_input,
        resolve_params=create_agent_project_param_resolver(),
    )


def _tools(agent_options: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """None where the agent's tools are known only when it runs."""
    definitions = agent_options.get("tool_definitions")
    if definitions is not None:
        return [
            {"name": one.name, "enabled": one.enabled, "auto_approve": one.auto_approve}
            for one in tool_definitions(definitions) or ()
        ]
    if agent_options.get("create_tools") is not None:
        return None
    own = [tool.name for tool in agent_options.get("extra_tools") or ()]
    return [{"name": tool} for tool in (*BUILTIN_NAMES, *own)]
