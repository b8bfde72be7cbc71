"""Agent turns over durable sessions: the runtime and its nodes.

Names load when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_nodes._aio import AbortSignal as AbortSignal
    from agent_nodes.errors import (
        AgentBusy as AgentBusy,
    )
    from agent_nodes.errors import (
        AgentClosed as AgentClosed,
    )
    from agent_nodes.errors import (
        AgentError as AgentError,
    )
    from agent_nodes.errors import (
        ExecutionAborted as ExecutionAborted,
    )
    from agent_nodes.errors import (
        InputValidationError as InputValidationError,
    )
    from agent_nodes.errors import (
        RequestConflict as RequestConflict,
    )
    from agent_nodes.errors import (
        SessionBusy as SessionBusy,
    )
    from agent_nodes.errors import (
        SessionFileError as SessionFileError,
    )
    from agent_nodes.errors import (
        SessionLost as SessionLost,
    )
    from agent_nodes.errors import (
        StorageError as StorageError,
    )
    from agent_nodes.errors import (
        TurnFailed as TurnFailed,
    )
    from agent_nodes.errors import (
        UserInputRequired as UserInputRequired,
    )
    from agent_nodes.events import AgentStreamEvent as AgentStreamEvent
    from agent_nodes.host import AgentHost as AgentHost
    from agent_nodes.host import UsageReport as UsageReport
    from agent_nodes.messages import ImageBlock as ImageBlock
    from agent_nodes.messages import TextBlock as TextBlock
    from agent_nodes.messages import Usage as Usage
    from agent_nodes.model_attributes import AgentModelAttributes as AgentModelAttributes
    from agent_nodes.nodes.agent import create_agent_node as create_agent_node
    from agent_nodes.nodes.agent import run_agent as run_agent
    from agent_nodes.nodes.input import create_input_node as create_input_node
    from agent_nodes.nodes.input import parse_input as parse_input
    from agent_nodes.nodes.output import create_output_node as create_output_node
    from agent_nodes.nodes.output import write_output as write_output
    from agent_nodes.nodes.prefect.blocks import ModelConnection as ModelConnection
    from agent_nodes.nodes.prefect.tool import prefect_tool as prefect_tool
    from agent_nodes.options import AgentInput as AgentInput
    from agent_nodes.options import AgentOptions as AgentOptions
    from agent_nodes.providers.base import ModelCost as ModelCost
    from agent_nodes.providers.base import ModelEntry as ModelEntry
    from agent_nodes.providers.registry import ModelRegistry as ModelRegistry
    from agent_nodes.runtime import (
        AgentRun as AgentRun,
    )
    from agent_nodes.runtime import (
        AgentRunResult as AgentRunResult,
    )
    from agent_nodes.runtime import (
        AgentRuntime as AgentRuntime,
    )
    from agent_nodes.runtime import (
        create_agent as create_agent,
    )
    from agent_nodes.store.storage import (
        AgentStorage as AgentStorage,
    )
    from agent_nodes.store.storage import (
        AgentStorageFactory as AgentStorageFactory,
    )
    from agent_nodes.store.storage import (
        memory_storage as memory_storage,
    )
    from agent_nodes.store.storage import (
        sqlite_storage as sqlite_storage,
    )
    from agent_nodes.submission import AgentOutputPayload as AgentOutputPayload
    from agent_nodes.tools.base import AgentTool as AgentTool
    from agent_nodes.tools.base import AgentToolResult as AgentToolResult
    from agent_nodes.tools.base import ToolContext as ToolContext
    from agent_nodes.tools.decorator import agent_tool as agent_tool
    from agent_nodes.tools.policy import ToolPermissionDefinition as ToolPermissionDefinition

_HOME = {
    "AbortSignal": "_aio",
    "AgentBusy": "errors",
    "AgentClosed": "errors",
    "AgentError": "errors",
    "AgentHost": "host",
    "AgentInput": "options",
    "AgentModelAttributes": "model_attributes",
    "AgentOptions": "options",
    "AgentOutputPayload": "submission",
    "AgentRun": "runtime",
    "AgentRunResult": "runtime",
    "AgentRuntime": "runtime",
    "AgentStorage": "store.storage",
    "AgentStorageFactory": "store.storage",
    "AgentStreamEvent": "events",
    "AgentTool": "tools.base",
    "AgentToolResult": "tools.base",
    "ExecutionAborted": "errors",
    "ImageBlock": "messages",
    "InputValidationError": "errors",
    "ModelConnection": "nodes.prefect.blocks",
    "ModelCost": "providers.base",
    "ModelEntry": "providers.base",
    "ModelRegistry": "providers.registry",
    "RequestConflict": "errors",
    "SessionBusy": "errors",
    "SessionFileError": "errors",
    "SessionLost": "errors",
    "StorageError": "errors",
    "TextBlock": "messages",
    "ToolContext": "tools.base",
    "ToolPermissionDefinition": "tools.policy",
    "TurnFailed": "errors",
    "Usage": "messages",
    "UsageReport": "host",
    "UserInputRequired": "errors",
    "agent_tool": "tools.decorator",
    "create_agent": "runtime",
    "create_agent_node": "nodes.agent",
    "create_input_node": "nodes.input",
    "create_output_node": "nodes.output",
    "memory_storage": "store.storage",
    "parse_input": "nodes.input",
    "prefect_tool": "nodes.prefect.tool",
    "run_agent": "nodes.agent",
    "sqlite_storage": "store.storage",
    "write_output": "nodes.output",
}

__all__ = [
    "AbortSignal",
    "AgentBusy",
    "AgentClosed",
    "AgentError",
    "AgentHost",
    "AgentInput",
    "AgentModelAttributes",
    "AgentOptions",
    "AgentOutputPayload",
    "AgentRun",
    "AgentRunResult",
    "AgentRuntime",
    "AgentStorage",
    "AgentStorageFactory",
    "AgentStreamEvent",
    "AgentTool",
    "AgentToolResult",
    "ExecutionAborted",
    "ImageBlock",
    "InputValidationError",
    "ModelConnection",
    "ModelCost",
    "ModelEntry",
    "ModelRegistry",
    "RequestConflict",
    "SessionBusy",
    "SessionFileError",
    "SessionLost",
    "StorageError",
    "TextBlock",
    "ToolContext",
    "ToolPermissionDefinition",
    "TurnFailed",
    "Usage",
    "UsageReport",
    "UserInputRequired",
    "agent_tool",
    "create_agent",
    "create_agent_node",
    "create_input_node",
    "create_output_node",
    "memory_storage",
    "parse_input",
    "prefect_tool",
    "run_agent",
    "sqlite_storage",
    "write_output",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'agent_nodes' has no attribute {name!r}")
    value = getattr(import_module(f"agent_nodes.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
