"""Which tools a turn has, and which folders its file tools reach."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from agent_nodes.errors import InputValidationError
from agent_nodes.tools.arguments import check_arguments
from agent_nodes.tools.base import AgentTool
from agent_nodes.tools.environment import ToolError
from agent_nodes.tools.policy import (
    BUILTIN_NAMES,
    ToolPermissionDefinition,
    builtin_tools,
    exposed,
    resolve,
    roots,
    tool_definitions,
)

ALL = ["read", "write", "edit", "bash", "grep", "find", "ls"]


async def nothing(arguments: Any, context: Any) -> None:
    return None


def own(name: str) -> AgentTool:
    return AgentTool(name=name, description="", parameters={"type": "object"}, execute=nothing)


def names(*arguments: Any) -> list[str]:
    return [tool.name for tool in resolve(*arguments)]


@pytest.mark.feature("D02")
def test_read_only_has_no_tool_that_changes_anything() -> None:
    assert names("workspace", None) == names("auto", None) == ALL
    assert names("read-only", None) == ["read", "grep", "find", "ls"]


@pytest.mark.feature("D02")
def test_narrowing_takes_away_and_never_gives_back() -> None:
    assert names("workspace", ("ls", "bash", "ls")) == ["bash", "ls"]
    assert names("read-only", ("ls", "bash")) == ["ls"]
    assert names("workspace", ()) == []


def test_own_tools_are_governed_by_neither() -> None:
    assert names("read-only", ("ls",), [own("deploy")]) == ["ls", "deploy"]
    assert names("read-only", ("deploy",), [own("deploy")]) == ["deploy"]


@pytest.mark.parametrize(
    ("arguments", "field", "said"),
    [
        (("workspace", ("raed",)), "tools", ["'raed'", "read", "bash"]),
        (("workspace", None, [own("bash")]), "extra_tools", ["bash"]),
        (("workspace", None, [own("a"), own("a")]), "extra_tools", ["a"]),
        (("workspace", None, [own("update_plan")]), "extra_tools", ["update_plan"]),
        (("everything", None), "permission_policy", ["'everything'", "read-only"]),
    ],
)
def test_a_mistake_is_named(arguments, field, said) -> None:
    with pytest.raises(InputValidationError) as caught:
        resolve(*arguments)
    assert caught.value.field == field
    assert all(word in str(caught.value) for word in said)


@pytest.mark.feature("D03")
def test_declarations_decide_what_is_there_of_all_tools_and_narrowing_takes_away_from_that() -> None:
    extra = [own("deploy"), own("pay")]
    declared = [{"name": "pay"}, ToolPermissionDefinition("read"), {"name": "bash"}, {"name": "ls", "enabled": False}]
    assert names("workspace", None, extra, declared) == ["read", "bash", "pay"]
    assert names("read-only", None, extra, declared) == ["read", "pay"]
    assert names("workspace", ("bash", "grep", "ls"), extra, declared) == ["bash", "pay"]
    assert names("workspace", None, extra, []) == []
    assert names("workspace", None, extra, None) == [*ALL, "deploy", "pay"]
    assert names("workspace", None, extra, [{"name": "pay", "auto_approve": False}]) == ["pay"]


@pytest.mark.feature("D03")
def test_declarations_govern_tools_that_come_from_elsewhere_too() -> None:
    declared = tool_definitions([{"name": "update_plan"}, {"name": "subagent", "enabled": False}])
    assert declared == (ToolPermissionDefinition("update_plan"), ToolPermissionDefinition("subagent", enabled=False))
    assert [exposed(name, declared) for name in ("update_plan", "subagent", "ask_user")] == [True, False, False]
    assert tool_definitions(None) is None
    assert exposed("anything", None)
    assert names("workspace", (), [], declared) == []


@pytest.mark.feature("D03")
@pytest.mark.parametrize(
    ("definitions", "field", "said"),
    [
        ([{"name": "read"}, {"name": "deplyo"}], "1.name", "'deplyo' is no tool here; did you mean deploy?"),
        ([{"name": "fly"}], "0.name", "'fly' is no tool here; known are read, write"),
        ([{"name": "ls"}, ToolPermissionDefinition("ls", enabled=False)], "1.name", "'ls' is declared twice"),
        ([{"name": "ls", "auto_aprove": False}], "0.auto_aprove", "unknown field; did you mean auto_approve?"),
        ([{"enabled": True}], "0.name", "missing"),
        ([{"name": 5}], "0.name", "must be the name of a tool"),
        ([{"name": "ls", "enabled": "no"}], "0.enabled", "must be True or False"),
        ([ToolPermissionDefinition("ls", auto_approve=None)], "0.auto_approve", "must be True or False"),  # type: ignore[arg-type]
        (["ls"], "0", "must be a ToolPermissionDefinition or a dict"),
    ],
    ids=range(9),
)
def test_a_wrong_declaration_is_named(definitions, field, said) -> None:
    with pytest.raises(InputValidationError) as caught:
        resolve("workspace", None, [own("deploy")], definitions)
    assert caught.value.field == f"tool_definitions.{field}"
    assert str(caught.value).startswith(f"tool_definitions.{field}: {said}")


@pytest.mark.feature("D01")
def test_reading_may_be_repeated_and_side_by_side_changing_may_not() -> None:
    kinds = {tool.name: (tool.replay, tool.execution) for tool in builtin_tools()}
    assert {name for name in kinds if kinds[name] == ("safe", "parallel")} == {"read", "grep", "find", "ls"}
    assert {name for name in kinds if kinds[name] == ("never", "sequential")} == {"write", "edit", "bash"}


@pytest.mark.feature("D01")
@pytest.mark.parametrize("tool", builtin_tools(), ids=lambda tool: tool.name)
def test_every_schema_compiles_and_can_be_sent(tool) -> None:
    assert json.loads(json.dumps(tool.spec().parameters)) == tool.spec().parameters
    with pytest.raises(ToolError, match="unknown field"):
        check_arguments(tool, {"no_such_field": 1})


@pytest.mark.feature("D02")
def test_roots_are_real_folders_the_working_directory_first(tmp_path, monkeypatch) -> None:
    work, more, home = tmp_path / "work", tmp_path / "more", tmp_path / "home"
    for folder in (work, work / "sub", more, home):
        folder.mkdir()
    (tmp_path / "link").symlink_to(more)
    monkeypatch.setenv("HOME", str(home))
    assert roots("workspace", work) == (work.resolve(),)
    found = roots("workspace", work, ["sub", "../link", more, "~", work])
    assert found == tuple(path.resolve() for path in (work, work / "sub", more, home))
    assert roots("auto", work, ["sub"]) is None
    assert roots("read-only", tmp_path / "link") == (more.resolve(),)


@pytest.mark.feature("D02")
@pytest.mark.parametrize("policy", ["workspace", "auto", "read-only"])
@pytest.mark.parametrize("entry", ["missing", "file.txt", "a\x00b", "loop"])
def test_a_root_that_is_no_folder_is_named(tmp_path, policy, entry) -> None:
    (tmp_path / "file.txt").touch()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputValidationError) as caught:
        roots(policy, tmp_path, [entry])
    assert caught.value.field == "allowed_directories"
    assert repr(entry) in str(caught.value)
    with pytest.raises(InputValidationError) as caught:
        roots(policy, tmp_path / entry)
    assert caught.value.field == "workdir"


def test_the_names_are_those_of_the_tools() -> None:
    assert tuple(tool.name for tool in builtin_tools()) == BUILTIN_NAMES


def test_importing_the_tools_loads_nothing_heavy() -> None:
    script = "import agent_nodes.tools.policy as policy, sys; policy.resolve('workspace', None); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "agent_nodes.tools.shell" in loaded
    assert not {"pydantic", "jsonschema_rs", "difflib", "tempfile", "shutil"}.intersection(loaded)
