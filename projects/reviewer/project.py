"""A code reviewer: it takes a diff or the names of files, looks around in the code, and changes nothing."""

import re

from agent_nodes import AgentInput
from conversation import (
    ProjectArgs,
    RunContext,
    create_agent_conversation_project,
    create_agent_project_input,
    create_agent_project_param_resolver,
    define_executor,
)

PERSONA = """\
You review code. You are given a diff, or told what to look at; the code is in the working directory.

Read what surrounds the lines in question before you judge them: callers, tests, the other side of an interface. Report
what is wrong, not what you would have done differently. A finding has the place (file and line), what happens, with
which input, and what to do about it. Begin with the gravest. Say plainly what you could not check. When nothing is
wrong, say so in one sentence; praise and summaries of the change are of no use.
"""

FOCUS = {
    "all": "",
    "bugs": "Look for what goes wrong when it runs, and leave style aside.\n",
    "security": "Look for what somebody with bad intentions can make of it.\n",
    "tests": "Look for what no test would notice if it broke.\n",
}

_DIFF = re.compile(r"^(diff --git |--- \S|\+\+\+ \S|@@ )", re.MULTILINE)


def create_input(args: ProjectArgs, context: RunContext) -> AgentInput:
    """The message, with a task in front of a bare diff; the focus goes into the instructions."""
    given = create_agent_project_input(args, context)
    changes = {"system_prompt": PERSONA + FOCUS[args.params["focus"]]}
    if given.prompt is not None and _DIFF.match(given.prompt):
        changes["prompt"] = f"Review this change.\n\n{given.prompt}"
    return given.model_copy(update=changes)


executor = define_executor(
    project_type="conversation",
    name="reviewer",
    project_name="Code reviewer",
    workflow=create_agent_conversation_project(
        name="reviewer",
        output_item_id="reviewer-answer",
        permission_policy="read-only",
    ),
    conversation={
        "recovery": {"enabled": True},
        "openai": {"output_item_id": "reviewer-answer"},
    },
    token_usage={"enabled": True, "display": True},
    tools=[
        {"name": "read", "label": "Read files"},
        {"name": "grep", "label": "Search in files"},
        {"name": "find", "label": "Find files"},
        {"name": "ls", "label": "List folders"},
    ],
    params=[
        {
            "name": "focus",
            "flags": ["-f", "--focus"],
            "label": "Focus",
            "description": "what to look for",
            "group": "Mode",
            "choices": ["all", "bugs", "security", "tests"],
            "default": "all",
        },
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
            "default": "high",
        },
        {
            "name": "workdir",
            "flags": ["-C", "--workdir"],
            "type": "path",
            "label": "Folder",
            "description": "where the code is; the current folder unless told",
        },
        {
            "name": "provider",
            "flags": ["--provider"],
            "label": "Provider",
            "description": "anthropic, openai or demo; by the keys that are set unless told",
        },
    ],
    create_input=create_input,
    resolve_params=create_agent_project_param_resolver(),
)
