"""An all-round assistant in a folder: it reads and searches files, changes them, and runs commands."""

from conversation import (
    create_agent_conversation_project,
    create_agent_project_input,
    create_agent_project_param_resolver,
    define_executor,
)

executor = define_executor(
    project_type="conversation",
    name="assistant",
    project_name="Assistant",
    workflow=create_agent_conversation_project(name="assistant", output_item_id="assistant-answer"),
    conversation={
        "input_queue": {"enabled": True},
        "recovery": {"enabled": True},
        "openai": {"output_item_id": "assistant-answer"},
    },
    token_usage={"enabled": True, "display": True},
    tools=[
        {"name": "read", "label": "Read files"},
        {"name": "write", "label": "Write files"},
        {"name": "edit", "label": "Change files"},
        {"name": "bash", "label": "Run commands"},
        {"name": "grep", "label": "Search in files"},
        {"name": "find", "label": "Find files"},
        {"name": "ls", "label": "List folders"},
    ],
    params=[
        {
            "name": "model",
            "flags": ["-m", "--model"],
            "label": "Model",
            "description": "the model, or an entry of agent-nodes.toml",
            "group": "Quick",
        },
        {
            "name": "effort",
            "flags": ["--effort"],
            "label": "Effort",
            "description": "how hard the model thinks; '' lets it choose",
            "group": "Quick",
            "choices": ["", "off", "minimal", "low", "medium", "high", "xhigh", "max"],
        },
        {
            "name": "workdir",
            "flags": ["-C", "--workdir"],
            "type": "path",
            "label": "Folder",
            "description": "where it works; the current folder unless told",
        },
        {
            "name": "permission_policy",
            "flags": ["--permission-policy"],
            "label": "Permissions",
            "description": "how far its tools may go",
            "choices": ["read-only", "workspace", "auto"],
            "default": "workspace",
        },
        {
            "name": "provider",
            "flags": ["--provider"],
            "label": "Provider",
            "description": "anthropic, openai or demo; by the keys that are set unless told",
        },
    ],
    create_input=create_agent_project_input,
    resolve_params=create_agent_project_param_resolver(),
)
