"""Conversations on top of the runtime: projects and their runs, the host that drives turns, the command line.

Names load when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conversation.agent_executor import create_agent_project_input as create_agent_project_input
    from conversation.agent_executor import create_agent_project_param_resolver as create_agent_project_param_resolver
    from conversation.agent_executor import define_agent_conversation_executor as define_agent_conversation_executor
    from conversation.declarations import ConversationDeclaration as ConversationDeclaration
    from conversation.declarations import ConversationParamDeclaration as ConversationParamDeclaration
    from conversation.declarations import TokenUsageDeclaration as TokenUsageDeclaration
    from conversation.declarations import ToolDeclaration as ToolDeclaration
    from conversation.executor import ConversationExecutorDefinition as ConversationExecutorDefinition
    from conversation.executor import NodeOutput as NodeOutput
    from conversation.executor import RunContext as RunContext
    from conversation.executor import RunReport as RunReport
    from conversation.executor import create_agent_conversation_project as create_agent_conversation_project
    from conversation.executor import define_executor as define_executor
    from conversation.history import ConversationHistory as ConversationHistory
    from conversation.history import ConversationSummary as ConversationSummary
    from conversation.history import HistoryMessage as HistoryMessage
    from conversation.history import HistoryRun as HistoryRun
    from conversation.history import export_conversation as export_conversation
    from conversation.history import list_conversations as list_conversations
    from conversation.history import read_conversation as read_conversation
    from conversation.history import remove_conversation as remove_conversation
    from conversation.history import set_title as set_title
    from conversation.host import ConversationHost as ConversationHost
    from conversation.host import ConversationRun as ConversationRun
    from conversation.host import list_sessions as list_sessions
    from conversation.host import read_session as read_session
    from conversation.params import ProjectArgs as ProjectArgs
    from conversation.structure import Problem as Problem
    from conversation.structure import ProjectStructure as ProjectStructure
    from conversation.structure import check_structure as check_structure
    from conversation.structure import read_structure as read_structure
    from conversation.workflow import Workflow as Workflow

_HOME = {
    "ConversationDeclaration": "declarations",
    "ConversationExecutorDefinition": "executor",
    "ConversationHistory": "history",
    "ConversationHost": "host",
    "ConversationParamDeclaration": "declarations",
    "ConversationRun": "host",
    "ConversationSummary": "history",
    "HistoryMessage": "history",
    "HistoryRun": "history",
    "NodeOutput": "executor",
    "Problem": "structure",
    "ProjectArgs": "params",
    "ProjectStructure": "structure",
    "RunContext": "executor",
    "RunReport": "executor",
    "TokenUsageDeclaration": "declarations",
    "ToolDeclaration": "declarations",
    "Workflow": "workflow",
    "check_structure": "structure",
    "create_agent_conversation_project": "executor",
    "create_agent_project_input": "agent_executor",
    "create_agent_project_param_resolver": "agent_executor",
    "define_agent_conversation_executor": "agent_executor",
    "define_executor": "executor",
    "export_conversation": "history",
    "list_conversations": "history",
    "list_sessions": "host",
    "read_conversation": "history",
    "read_session": "host",
    "read_structure": "structure",
    "remove_conversation": "history",
    "set_title": "history",
}

__all__ = [
    "ConversationDeclaration",
    "ConversationExecutorDefinition",
    "ConversationHistory",
    "ConversationHost",
    "ConversationParamDeclaration",
    "ConversationRun",
    "ConversationSummary",
    "HistoryMessage",
    "HistoryRun",
    "NodeOutput",
    "Problem",
    "ProjectArgs",
    "ProjectStructure",
    "RunContext",
    "RunReport",
    "TokenUsageDeclaration",
    "ToolDeclaration",
    "Workflow",
    "check_structure",
    "create_agent_conversation_project",
    "create_agent_project_input",
    "create_agent_project_param_resolver",
    "define_agent_conversation_executor",
    "define_executor",
    "export_conversation",
    "list_conversations",
    "list_sessions",
    "read_conversation",
    "read_session",
    "read_structure",
    "remove_conversation",
    "set_title",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'conversation' has no attribute {name!r}")
    value = getattr(import_module(f"conversation.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
