"""What a project's source must show: one executor with its blocks, which hold and fit the workflow."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, cast

from agent_nodes.tools.policy import BUILTIN_NAMES, SESSION_NAMES
from conversation.declarations import (
    PROJECT_TYPE,
    ConversationDeclaration,
    ConversationParamDeclaration,
    TokenUsageDeclaration,
    ToolDeclaration,
    declared,
    repeated,
    repeated_flags,
)
from conversation.structure.agents import Agent, WorkflowShown, shown_workflow
from conversation.structure.problems import Problems
from conversation.structure.source import Called, Module, calls
from conversation.structure.values import Reader, Value, named_arguments

DEFINE = "define_executor"
HELPER = "define_agent_conversation_executor"

_BLOCKS = ("conversation", "token_usage", "tools", "params")
_NEEDED = ("workflow", *_BLOCKS, "create_input")
_KNOWN = (*_NEEDED, "project_type", "name", "project_name", "resolve_params")


def find_executor(module: Module, problems: Problems) -> ast.Call | None:
    """The one call of ``define_executor`` that makes a project; None with a problem where there is not exactly one."""
    found = list(calls(module, frozenset({DEFINE, HELPER})))
    helpers = [each for each in found if each.function == HELPER]
    defining = [each for each in found if each.function == DEFINE]
    for each in helpers:
        message = f"{HELPER} declares conversation, token_usage, tools and params unseen; call {DEFINE} with them"
        problems.add("hidden-executor", message, each.call)
    if helpers:
        return None
    if not defining:
        problems.add("no-executor", f"there is no {DEFINE}(...); a project is one call of it at the module's top")
        return None
    for each in defining[1:]:
        first = defining[0].call.lineno
        problems.add("several-executors", f"line {first} calls {DEFINE} already; a module is one project", each.call)
    if len(defining) > 1 or not _is_named(defining[0], problems):
        return None
    return defining[0].call


def _is_named(found: Called, problems: Problems) -> bool:
    statement = found.statement
    match statement:
        case ast.Assign(value=value) if value is found.call:
            named = any(isinstance(target, ast.Name) for target in statement.targets)
        case ast.AnnAssign(value=value, target=ast.Name()) if value is found.call:
            named = True
        case ast.Assign() | ast.AnnAssign() | ast.Expr() | ast.AugAssign():
            named = False
        case _:
            message = f"{DEFINE} must be called at the module's top, not inside of another statement"
            problems.add("nested-executor", message, found.call)
            return False
    if not named:
        message = f"give what {DEFINE} returns a name, as in: executor = {DEFINE}(...)"
        problems.add("unnamed-executor", message, found.call)
    return named


def read_blocks(call: ast.Call, module: Module, problems: Problems) -> Mapping[str, Value]:
    """The declared blocks, each as far as it can be read; those that hold are ``whole``."""
    arguments = named_arguments(call, DEFINE, DEFINE, problems)
    given: dict[str, ast.expr] = {}
    for keyword in arguments.named:
        name = keyword.arg or ""
        if name not in _KNOWN:
            close = get_close_matches(name, _KNOWN, 1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(_KNOWN)}"
            problems.add("unknown-argument", f"{name}: {DEFINE} has no such argument; {hint}", keyword)
        elif name in given:
            problems.add("repeated-key", f"{name}: is given twice", keyword)
        given[name] = keyword.value
    if arguments.whole:
        for name in _NEEDED:
            if name not in given:
                problems.add("missing-argument", f"{name}: missing; a project declares it inline", call)
    reader = Reader(module, problems)
    for name in ("project_type", "name", "project_name"):
        if name in given:
            _check_text(reader.read(given[name], name), name, problems)
    blocks = {name: reader.read(given[name], name) for name in _BLOCKS if name in given}
    _check_blocks(reader, blocks, problems)
    shown = shown_workflow(given["workflow"], module, problems) if "workflow" in given else None
    if shown is not None:
        _compare(shown, blocks, problems)
    return blocks


def _check_text(value: Value, name: str, problems: Problems) -> None:
    if not value.whole:
        return
    if not isinstance(value.data, str):
        problems.add("invalid-value", f"{name}: must be a text", value.node)
    elif name == "project_type" and value.data != PROJECT_TYPE:
        problems.add("invalid-value", f"{name}: {value.data!r} is unknown; there is {PROJECT_TYPE!r}", value.node)


# -- the blocks --------------------------------------------------------------------------------------------------------


def _check_blocks(reader: Reader, blocks: Mapping[str, Value], problems: Problems) -> None:
    for name, kind in (("conversation", ConversationDeclaration), ("token_usage", TokenUsageDeclaration)):
        value = blocks.get(name)
        if value is not None and value.whole:
            reader.check(kind, value, name)
            if value.whole:
                value.data = declared(kind, value.data, name)
    for name, kind in (("tools", ToolDeclaration), ("params", ConversationParamDeclaration)):
        if name in blocks:
            _check_list(reader, kind, blocks[name], name, problems)


def _check_list(reader: Reader, kind: type[Any], value: Value, where: str, problems: Problems) -> None:
    if not isinstance(value.data, list):
        if value.whole:
            problems.add("invalid-value", f"{where}: must be a list", value.node)
        value.whole = False
        return
    for n, part in value.parts.items():
        if part.whole:
            reader.check(kind, part, f"{where}.{n}")
            if part.whole:
                part.data = declared(kind, part.data, f"{where}.{n}")
    value.data = [part.data for part in value.parts.values()]
    value.whole = value.whole and all(part.whole for part in value.parts.values())
    # Also of those that do not hold for another reason; what has no name is no repetition.
    names = [_name(item) or f" {n}" for n, item in enumerate(value.data)]
    found = [("repeated-name", mistake) for mistake in repeated(names, where)]
    if kind is ConversationParamDeclaration:
        flags = [_flags(item) for item in value.data]
        found += [("repeated-flag", mistake) for mistake in repeated_flags(flags)]
    for code, mistake in found:
        value.whole = False
        at = value.at(mistake.field.split(".")[1:])
        problems.add(code, f"{mistake.field}: {mistake.text}", at)


def _name(item: Any) -> str | None:
    name = cast("dict[str, Any]", item).get("name") if isinstance(item, dict) else getattr(item, "name", None)
    return name if isinstance(name, str) else None


def _flags(item: Any) -> list[str]:
    flags: Any = cast("dict[str, Any]", item).get("flags") if isinstance(item, dict) else getattr(item, "flags", ())
    return [flag for flag in flags if isinstance(flag, str)] if isinstance(flags, list | tuple) else []  # pyright: ignore[reportUnknownVariableType]


# -- the blocks and the workflow ---------------------------------------------------------------------------------------


def _compare(shown: WorkflowShown, blocks: Mapping[str, Value], problems: Problems) -> None:
    block = blocks.get("conversation")
    if block is not None and block.whole:
        _compare_output_ids(shown, block, problems)
        session = next((agent.session for agent in shown.agents if agent.session is not None), None)
        if session is not None:
            _check_session(block, problems)
    tools = blocks.get("tools")
    if tools is not None and tools.whole:
        _compare_tools(shown, tools, problems)


def _compare_output_ids(shown: WorkflowShown, block: Value, problems: Problems) -> None:
    declared_id = block.data.openai.output_item_id
    if shown.output_item_id is None or shown.output_item_id[0] == declared_id:
        return
    written, at = shown.output_item_id
    message = (
        f"conversation.openai.output_item_id is {declared_id!r}, and the workflow's output_item_id {written!r}; hosts "
        "look for the answer under the one and would find it under the other. Give both the same"
    )
    problems.add(
        "different-output-ids", message, block.at(["openai", "output_item_id"]) if "openai" in block.parts else at
    )


def _check_session(block: Value, problems: Problems) -> None:
    for name in ("recovery", "durable"):
        switch = getattr(block.data, name)
        if switch is None or not switch.enabled:
            message = f'conversation.{name}: an agent has a session; declare "{name}": {{"enabled": True}}'
            problems.add(f"missing-{name}", message, block.at([name]))


def _compare_tools(shown: WorkflowShown, tools: Value, problems: Problems) -> None:
    names = [tool.name for tool in tools.data]
    governed = [agent for agent in shown.agents if not agent.declares]
    missing: dict[str, Agent] = {}
    for agent in governed:
        for name in agent.tools:
            if name not in names:
                missing.setdefault(name, agent)
    for name in missing:
        message = (
            f"tools: {name} is not declared, so no agent gets it. Declare it (with enabled=False to leave it out), or "
            "narrow the agent's own options"
        )
        problems.add("undeclared-tool", message, tools.node)
    if not shown.all_seen or not all(agent.all_seen for agent in shown.agents):
        return
    known = {*BUILTIN_NAMES, *SESSION_NAMES, *(name for agent in shown.agents for name in agent.tools)}
    for n, name in enumerate(names):
        if name not in known:
            message = f"tools.{n}.name: no agent has a tool {name!r}{_hint(name, sorted(known))}"
            problems.add("unknown-tool", message, tools.at([str(n), "name"]))


def _hint(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, 1)
    return f"; did you mean {close[0]}?" if close else "; give one to the agent as extra_tools"
