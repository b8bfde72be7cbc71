"""What the reference lists is what the program has: an addition that no document tells of fails here."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

import agent_nodes
import conversation.ask
from agent_nodes import errors, events, host, model_attributes, options, runtime, submission
from agent_nodes.engine import continuation
from agent_nodes.messages import EffortLevel
from agent_nodes.nodes import agent as agent_node
from agent_nodes.nodes.dispatch import TaskOptions
from agent_nodes.providers import catalog
from agent_nodes.providers.base import ModelEntry, ThinkingStyle
from agent_nodes.store import _sql, storage
from agent_nodes.tools import base, policy
from conversation import declarations, executor, structure, workspace
from tests.docs.markdown import ROOT, codes, rows

REFERENCE = ROOT / "docs" / "reference"
GUIDE = ROOT / "docs" / "guide"


def errors_of_the_package() -> list[type[errors.AgentError]]:
    found = vars(errors).values()
    return [kind for kind in found if isinstance(kind, type) and issubclass(kind, errors.AgentError)]


def test_every_error_is_listed_with_its_code() -> None:
    text = (REFERENCE / "errors.md").read_text()
    listed = set(codes(REFERENCE / "errors.md"))
    for kind in errors_of_the_package():
        if kind not in (errors.AgentError, errors.TurnFailed):
            assert f"| `{kind.__name__}` | `{kind.code}` |" in text
    assert listed <= {kind.__name__ for kind in errors_of_the_package()}


def test_every_event_is_listed_with_its_fields() -> None:
    listed: dict[str, list[str]] = {}
    for line in (REFERENCE / "events.md").read_text().splitlines():
        row = re.match(r"\| (?:`(?P<type>\w+)`)? *\| `(?P<field>\w+)` \|", line)
        if row is not None:
            last = row["type"] or next(reversed(listed))
            listed.setdefault(last, []).append(row["field"])
    assert listed == {kind.type: [item.name for item in fields(kind)] for kind in get_args(events.AgentStreamEvent)}


def test_every_event_stands_in_the_guide() -> None:
    kinds = {kind.type for kind in get_args(events.AgentStreamEvent)}
    assert kinds <= set(codes(GUIDE / "runtime.md"))


def test_every_kind_of_continuation_is_explained() -> None:
    assert set(get_args(continuation.ContinuationKind)) <= set(codes(GUIDE / "durability.md"))


def test_every_option_and_field_of_the_runtime_stands_in_the_guide() -> None:
    listed = set(codes(GUIDE / "runtime.md"))
    assert set(options.AgentOptions.model_fields) <= listed
    assert set(options.AgentInput.model_fields) <= listed
    assert {item.name for item in fields(runtime.AgentRunResult)} <= listed


def test_every_hook_and_everything_about_a_tool_stands_in_a_guide() -> None:
    hooks, tools = (GUIDE / "runtime.md").read_text(), (GUIDE / "own-tools.md").read_text()
    of_tools = (base.AgentTool, base.AgentToolResult, base.ToolContext, policy.ToolPermissionDefinition)
    for text, kinds in ((hooks, [host.AgentHost]), (tools, of_tools)):
        for kind in kinds:
            names = [item.name for item in fields(kind)]
            assert [name for name in names if f"`{name}" not in text and f"{name}=" not in text] == []


def test_every_option_of_the_decorator_stands_in_the_guide() -> None:
    listed = set(codes(GUIDE / "own-tools.md"))
    options = set(inspect.signature(agent_nodes.agent_tool).parameters) - {"function"}
    assert options <= listed
    assert {item.name for item in fields(base.AgentTool)} <= listed


def test_the_built_in_tools_are_listed_as_they_are() -> None:
    listed = {}
    for line in (GUIDE / "runtime.md").read_text().splitlines():
        row = re.match(r"\| `(\w+)` \| [^|]+ \| (yes|–) \| (yes|–) \| (yes|–) \| (yes|no) \|", line)
        if row is not None:
            listed[row[1]] = (row[2] == "yes", row[3] == "yes", row[4] == "yes", row[5] == "yes")
    offered = [{tool.name for tool in policy.resolve(kind, None)} for kind in ("read-only", "workspace", "auto")]
    assert listed == {
        tool.name: (*(tool.name in names for names in offered), tool.replay == "safe")
        for tool in policy.builtin_tools()
    }


def test_the_providers_are_listed_as_they_are() -> None:
    text = (GUIDE / "runtime.md").read_text()
    for name, service in catalog._SERVICES.items():
        protocols = ", or ".join(f"`{kind}`" for kind in service.apis)
        variables = f"`{service.key_variable}` | `{service.url_variable}`"
        assert f"| `{name}` | {protocols} | {variables} | `{service.model}` |" in text


def test_every_field_of_a_model_stands_in_the_guide() -> None:
    text = (GUIDE / "models.md").read_text()
    names = {
        *model_attributes.AgentModelAttributes.model_fields,
        *(item.name for item in fields(ModelEntry)),
        *(item.name for item in fields(workspace.ConfiguredModel)),
        *get_args(EffortLevel),
        *(style for style in get_args(ThinkingStyle) if style != "effort"),
    } - {"id", "file"}
    assert [name for name in sorted(names) if f"`{name}`" not in text and f"{name}=" not in text] == []


def test_every_option_and_field_of_the_nodes_stands_in_the_guide() -> None:
    listed = set(codes(GUIDE / "flows.md"))
    named = inspect.signature(agent_node.create_agent_node).parameters
    assert {name for name in named if name != "create_agent_options"} <= listed
    assert {item.name for item in fields(submission.AgentOutputPayload)} <= listed
    text = (GUIDE / "flows.md").read_text()
    assert [name for name in TaskOptions.__annotations__ if f"`{name}`" not in text] == []


def test_every_argument_of_a_built_in_tool_stands_in_its_part_of_the_guide() -> None:
    parts = (GUIDE / "tools.md").read_text().split("\n## ")
    for tool in policy.builtin_tools():
        part = next(part for part in parts if part.startswith(f"{tool.name}\n"))
        listed = re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)
        assert listed == list(tool.schema()["properties"]), tool.name


def test_every_commit_is_listed() -> None:
    assert set(codes(REFERENCE / "commits.md")) == set(labels())


def labels() -> Iterator[str]:
    """The names that the engine gives to commits, wherever it does."""
    for path in sorted((ROOT / "agent_nodes" / "engine").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                at = {"commit": 0, "_settle_turns": 1}.get(node.func.attr)
                if at is not None and len(node.args) > at:
                    yield from texts(node.args[at])


def texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from texts(node.body)
        yield from texts(node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def test_every_code_of_structure_is_listed() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \|", (REFERENCE / "structure.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(structure.CODES)


def test_every_point_of_a_commit_is_named() -> None:
    text = (REFERENCE / "commits.md").read_text()
    assert [point for point in get_args(storage.Point) if f"`{point}`" not in text] == []


def test_every_table_is_listed() -> None:
    tables = re.findall(r"CREATE TABLE (\w+)", _sql.DDL)
    page = REFERENCE / "session-file.md"
    listed = re.findall(r"^\| `(\w+)` \|", page.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(tables)


def test_every_exit_status_of_the_command_is_listed() -> None:
    listed = {int(cell) for cell in rows(REFERENCE / "exit-statuses.md") if cell.isdigit()}
    said = {int(number) for number in re.findall(r"\b(\d+) [a-zA-Z]", help_on_statuses())}
    values = [value for name, value in vars(conversation.ask).items() if name.isupper()]
    given = {
        item for value in values for item in (value if isinstance(value, tuple) else (value,)) if type(item) is int
    }
    assert said | given <= listed
    assert {0, 1, 2, 130, 141, 143} <= said


def help_on_statuses() -> str:
    text = (GUIDE / "command-line.md").read_text()
    return text[text.index("exit status: 0") :].partition("\n\n")[0]


def test_every_public_name_stands_somewhere() -> None:
    documents = [path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]]
    text = "\n".join(documents)
    assert [name for name in agent_nodes.__all__ if not re.search(rf"\b{name}\b", text)] == []


def test_every_public_name_of_projects_stands_somewhere() -> None:
    text = "\n".join(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md")))
    sessions = {"ConversationHost", "ConversationRun", "list_sessions", "read_session"}  # of hosts, with no guide yet
    assert [name for name in conversation.__all__ if name not in sessions and not re.search(rf"\b{name}\b", text)] == []


def test_every_field_of_a_project_stands_in_the_guide() -> None:
    listed = set(codes(GUIDE / "projects.md"))
    blocks = (declarations.ConversationDeclaration, declarations.TokenUsageDeclaration, declarations.ToolDeclaration)
    text = (GUIDE / "projects.md").read_text()
    assert set(declarations.ConversationParamDeclaration.model_fields) <= listed
    assert [name for block in blocks for name in block.model_fields if f"`{name}" not in text] == []
    assert {item.name for item in fields(executor.RunContext)} <= listed
    assert set(inspect.signature(executor.define_executor).parameters) - {"project_type"} <= listed


def test_decisions_are_numbered_in_a_row_and_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    records = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
    assert [int(path.name[:4]) for path in records] == list(range(1, len(records) + 1))
    listed = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text())
    assert listed == [path.name for path in records]
    for path in records:
        assert_shape(path)


def assert_shape(path: Path) -> None:
    text = path.read_text()
    assert re.match(rf"# {int(path.name[:4])}\. \w", text), path.name
    parts = re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE)
    assert parts == ["Context", "Decision", "Rejected", "Consequence"], path.name
    assert len(text.splitlines()) <= 45, path.name
