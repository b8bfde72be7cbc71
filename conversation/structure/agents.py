"""What the source of a workflow shows of its agents: their tools, and whether they have a session."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agent_nodes.tools.policy import BUILTIN_NAMES
from conversation.structure.problems import Problems
from conversation.structure.source import Module
from conversation.structure.values import named_arguments

PROJECT = "create_agent_conversation_project"
NODE = "create_agent_node"
OUTPUT_ITEM_ID = "agent-answer"

_CHANGING = ("write", "edit", "bash")


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent's call. ``tools`` are those it is seen to have; ``all_seen`` says that there are no others. ``own`` are
    places where its own ones stand. ``declares``: it has tool definitions of its own."""

    call: ast.Call
    tools: Mapping[str, ast.AST]
    all_seen: bool
    declares: bool
    session: ast.AST | None


@dataclass(frozen=True, slots=True)
class WorkflowShown:
    """``output_item_id`` with where it stands; ``agents`` as far as they are seen, ``all_seen`` if that is all."""

    output_item_id: tuple[str, ast.AST] | None
    agents: tuple[Agent, ...]
    all_seen: bool


def shown_workflow(node: ast.expr, module: Module, problems: Problems) -> WorkflowShown | None:
    """The workflow: an inline ``create_agent_conversation_project(...)``, with nodes added by ``.with_node(...)``; else
    None, which is a problem."""
    added: list[ast.Call] = []
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "with_node":
        added.append(node)
        node = node.func.value
    if not isinstance(node, ast.Call) or module.meant(node.func) != PROJECT:
        problems.add(
            "hidden-workflow", f"workflow: must be {PROJECT}(...), inline, where its output_item_id can be seen", node
        )
        return None
    arguments = named_arguments(node, PROJECT, "workflow", problems)
    given = {keyword.arg or "": keyword.value for keyword in arguments.named}
    agents = [_agent(node, given, module, all_seen=arguments.whole)]
    all_seen = True
    for call in reversed(added):
        agent = _added(call, module, problems)
        all_seen = all_seen and agent is not None
        if agent is not None:
            agents += agent
    output_item_id = _output_item_id(node, given, problems) if arguments.whole else None
    return WorkflowShown(output_item_id, tuple(agents), all_seen)


def _output_item_id(call: ast.Call, given: Mapping[str, ast.expr], problems: Problems) -> tuple[str, ast.AST] | None:
    value = given.get("output_item_id")
    if value is None:
        return OUTPUT_ITEM_ID, call
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value, value
    problems.add("not-literal", "workflow.output_item_id: must be a text in quotes", value)
    return None


def _added(call: ast.Call, module: Module, problems: Problems) -> list[Agent] | None:
    """The agent that ``with_node`` adds; none for a function, None where that cannot be told."""
    node = call.args[0] if call.args else next((key.value for key in call.keywords if key.arg == "node"), None)
    if isinstance(node, ast.Name):
        if node.id in module.functions:
            return []
        node = module.values.get(node.id)
    if isinstance(node, ast.Call) and module.meant(node.func) == NODE:
        given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
        return [_agent(node, given, module, all_seen=len(given) == len(node.keywords))]
    return None


def _agent(call: ast.Call, given: Mapping[str, ast.expr], module: Module, *, all_seen: bool) -> Agent:
    own, own_seen = _own_tools(given.get("extra_tools"), module)
    session = given.get("session")
    tools: dict[str, ast.AST] = dict.fromkeys(_builtin(given), call)
    if session is not None and not _is_none(session):
        tools |= dict.fromkeys(_session_tools(session), session)
    return Agent(
        call,
        tools | own,
        all_seen and own_seen and "create_tools" not in given,
        not _is_none(given.get("tool_definitions")),
        None if session is None or _is_none(session) else session,
    )


def _builtin(given: Mapping[str, ast.expr]) -> Iterator[str]:
    """What is left by options that are literals."""
    policy = given.get("permission_policy")
    read_only = isinstance(policy, ast.Constant) and policy.value == "read-only"
    narrowed = _texts(given.get("tools"))
    for name in BUILTIN_NAMES:
        if (narrowed is None or name in narrowed) and not (read_only and name in _CHANGING):
            yield name


def _texts(node: ast.expr | None) -> list[str] | None:
    if not isinstance(node, ast.List | ast.Tuple):
        return None
    found = [item.value for item in node.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return found if len(found) == len(node.elts) else None


def _session_tools(session: ast.expr) -> Iterator[str]:
    yield "update_plan"
    if isinstance(session, ast.Dict):
        keys = [key.value for key in session.keys if isinstance(key, ast.Constant)]
        with_children = "subagents" in keys
    else:
        with_children = isinstance(session, ast.Call) and any(key.arg == "subagents" for key in session.keywords)
    if with_children:
        yield "subagent"


def _own_tools(node: ast.expr | None, module: Module) -> tuple[dict[str, ast.AST], bool]:
    """Names of the agent's own tools with where they stand, and whether those are all."""
    if node is None or _is_none(node):
        return {}, True
    if not isinstance(node, ast.List | ast.Tuple):
        return {}, False
    names = {item: _tool_name(item, module) for item in node.elts}
    return {name: item for item, name in names.items() if name is not None}, None not in names.values()


def _tool_name(node: ast.expr, module: Module) -> str | None:
    """Of a tool made here by ``AgentTool(name=...)`` or ``@agent_tool``."""
    if isinstance(node, ast.Name):
        function = module.functions.get(node.id)
        if function is not None:
            return next(
                (name for each in function.decorator_list if (name := _decorated(each, function, module))), None
            )
        value = module.values.get(node.id)
        return None if value is None or isinstance(value, ast.Name) else _tool_name(value, module)
    if isinstance(node, ast.Call):
        made = module.meant(node.func)
        if made == "AgentTool":
            return _name_argument(node)
        if made == "agent_tool" and len(node.args) == 1 and isinstance(node.args[0], ast.Name):
            return _name_argument(node) or (node.args[0].id if node.args[0].id in module.functions else None)
    return None


def _decorated(decorator: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef, module: Module) -> str | None:
    if isinstance(decorator, ast.Call):
        if module.meant(decorator.func) != "agent_tool":
            return None
        named = any(keyword.arg in ("name", None) for keyword in decorator.keywords)
        return _name_argument(decorator) if named else function.name
    return function.name if module.meant(decorator) == "agent_tool" else None


def _name_argument(call: ast.Call) -> str | None:
    for keyword in call.keywords:
        if keyword.arg == "name" and isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str):
            return keyword.value.value
    return None


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)
