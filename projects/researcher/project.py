"""A researcher with a folder of its own: it answers from the notes in it, and writes down there what it learns."""

from pathlib import Path

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
You do research and keep notes. Your folder is the working directory; everything you know from earlier is in it, and
whatever you learn goes into it. Material that you are to work with lies there too.

Begin with the list of notes in index.md, and read those that matter. Answer the question from them and from the
material, and name the file behind each statement. Tell apart what a source says, what you conclude, and what you do not
know. Then write down what is new: one subject a file, in short sentences, with its sources; correct a note that turned
out wrong instead of adding a second one. Keep index.md current, a line for each file.
"""


def create_input(args: ProjectArgs, context: RunContext) -> AgentInput:
    """A turn in the folder of the notes, which is made where it is not there yet."""
    folder = Path(args.params["folder"]).expanduser().resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return create_agent_project_input(args, context).model_copy(update={"workdir": str(folder)})


executor = define_executor(
    project_type="conversation",
    name="researcher",
    project_name="Researcher",
    workflow=create_agent_conversation_project(
        name="researcher",
        output_item_id="researcher-answer",
        system_prompt=PERSONA,
    ),
    conversation={
        "recovery": {"enabled": True},
        "openai": {"output_item_id": "researcher-answer"},
    },
    token_usage={"enabled": True, "display": True},
    tools=[
        {"name": "read", "label": "Read notes and material"},
        {"name": "write", "label": "Write notes"},
        {"name": "edit", "label": "Change notes"},
        {"name": "bash", "enabled": False},  # it could write anywhere
        {"name": "grep", "label": "Search in notes"},
        {"name": "find", "label": "Find notes"},
        {"name": "ls", "label": "List notes"},
    ],
    params=[
        {
            "name": "folder",
            "flags": ["-C", "--folder"],
            "type": "path",
            "label": "Folder",
            "description": "where notes and material are, and nothing else is read or written",
            "group": "Quick",
            "default": "research",
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
