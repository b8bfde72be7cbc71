"""Projects read from their source: what is seen through which spelling, and each thing that can be wrong, by its place.

In the broken projects ``§`` stands in front of the places that are to be named.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_nodes import InputValidationError
from conversation import Problem, check_structure, read_structure
from conversation.structure import CODES
from tests.conversation.shell import Result

GOOD = """\
from conversation import create_agent_conversation_project, create_agent_project_input, define_executor

executor = define_executor(
    project_type="conversation",
    workflow=create_agent_conversation_project(name="x"),
    conversation={"recovery": {"enabled": True}},
    token_usage={"display": False},
    tools=[
        {"name": "read"}, {"name": "write"}, {"name": "edit"}, {"name": "bash", "enabled": False},
        {"name": "grep"}, {"name": "find"}, {"name": "ls"},
    ],
    params=[{"name": "depth", "flags": ("-d", "--depth"), "type": "integer", "default": -1, "choices": [-1, 2]}],
    create_input=create_agent_project_input,
)
"""
USAGE = '    token_usage={"display": False},\n'
A = '{"name": "a", "flags": ["-d"]}'
TOOLS = GOOD[GOOD.index("    tools=[") : GOOD.index("    params=")]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(source: str) -> Path:
        file = tmp_path / "project.py"
        file.write_text(source)
        return file

    return write


def found(file: Path) -> list[str]:
    return [f"{problem.code} {problem.line}:{problem.column}" for problem in check_structure(file)]


# -- what is seen ------------------------------------------------------------------------------------------------------


@pytest.mark.feature("N06")
def test_the_blocks_are_read_as_they_would_be_declared(write: Callable[[str], Path]) -> None:
    [project] = read_structure(write(GOOD))
    assert project.problems == ()
    names: dict[str, Any] = {}
    exec(GOOD, names)
    executor = names["executor"]
    assert project.conversation == executor.conversation.model_dump(mode="json")
    assert project.token_usage == executor.token_usage.model_dump(mode="json")
    assert project.tools == [tool.model_dump(mode="json") for tool in executor.tools]
    assert project.params == [param.model_dump(mode="json") for param in executor.params]
    assert project.params is not None and project.params[0]["default"] == -1


IMPORT = GOOD.splitlines()[0]


@pytest.mark.feature("N06")
@pytest.mark.parametrize(
    ("imports", "prefix"),
    [
        (IMPORT, ""),
        ("import conversation", "conversation."),
        ("import conversation as c", "c."),
        ("import conversation.executor", "conversation.executor."),
        ("import conversation as c\nd = c", "d."),
        ("from conversation import *", ""),
        ("from conversation import define_executor as a\nfrom conversation import executor as e\n"
         "from conversation import create_agent_conversation_project, create_agent_project_input\n"
         "define_executor = a", ""),
        ("try:\n    from conversation import *\nexcept ImportError:\n    raise", ""),
        ("if True:\n    from conversation.executor import *\n    from conversation import *", ""),
    ],
)  # fmt: skip
def test_the_call_is_found_through_imports_and_aliases(write: Callable[[str], Path], imports: str, prefix: str) -> None:
    source = GOOD.replace(IMPORT, imports)
    for name in ("define_executor(", "create_agent_conversation_project(", "create_agent_project_input,"):
        source = source.replace(name, ("conversation." if "input" in name and "executor" in prefix else prefix) + name)
    file = write(source)
    assert check_structure(file) == []
    exec(compile(source, str(file), "exec"), {})  # and that is what Python understands too


@pytest.mark.feature("N06")
@pytest.mark.parametrize("form", ["executor: object = define_executor(", "a = b = define_executor("])
def test_any_name_of_the_module_will_do(write: Callable[[str], Path], form: str) -> None:
    assert check_structure(write(GOOD.replace("executor = define_executor(", form))) == []


@pytest.mark.feature("N06")
def test_declarations_may_be_calls_of_our_classes(write: Callable[[str], Path]) -> None:
    imports = (
        "import conversation as c\n"
        "from conversation.declarations import Switch\n"
        "from conversation import ConversationDeclaration, ToolDeclaration as T\n"
    )
    source = imports + GOOD
    source = source.replace('{"recovery": {"enabled": True}}', "ConversationDeclaration(recovery=Switch(enabled=True))")
    source = source.replace('{"display": False}', "c.TokenUsageDeclaration(display=False)")
    source = source.replace('{"name": "ls"}', 'T(name="ls", label="List")')
    [project] = read_structure(write(source))
    assert project.problems == ()
    assert project.conversation is not None and project.conversation["recovery"] == {"enabled": True}
    assert project.token_usage == {"enabled": True, "display": False}
    assert project.tools is not None and project.tools[-1]["label"] == "List"


@pytest.mark.feature("N06")
def test_nothing_of_the_project_is_imported_or_run(write: Callable[[str], Path], tmp_path: Path) -> None:
    trap = f"import a_module_that_is_not_there\nopen({str(tmp_path / 'owned')!r}, 'w')\nraise SystemExit(3)\n"
    assert check_structure(write(trap + GOOD)) == []
    assert not (tmp_path / "owned").exists()


NODES = """\
from agent_nodes import AgentTool, agent_tool, create_agent_node

@agent_tool
def weigh(what: str) -> str: "Weighs."

@agent_tool(name="look-up", replace="safe")
async def search(what: str) -> str: "Searches."

PAY = AgentTool(name="pay", description="", parameters={}, execute=None)
made = AgentTool(name="made-" + "up", description="", parameters={}, execute=None)

async def shout(given): return given

critic = create_agent_node("critic", extra_tools=[PAY], tools=["read"])
"""


@pytest.mark.feature("N06")
def test_own_tools_are_seen_by_their_literal_names(write: Callable[[str], Path]) -> None:
    source = NODES + GOOD.replace('(name="x")', '(name="x", extra_tools=[weigh, search, PAY])')
    assert [problem.message.split()[1] for problem in check_structure(write(source))] == ["weigh", "look-up", "pay"]
    source = source.replace('{"name": "ls"}', '{"name": "ls"}, {"name": "weigh"}, {"name": "look-up"}, {"name": "pay"}')
    assert check_structure(write(source)) == []


@pytest.mark.feature("N06")
@pytest.mark.parametrize("own", ["[made]", "[*more]", "everything()", "[shop.buy]", "[weigh, made]"])
def test_where_an_own_tool_cannot_be_seen_any_may_be_declared(write: Callable[[str], Path], own: str) -> None:
    source = NODES + GOOD.replace('(name="x")', f'(name="x", extra_tools={own})')
    source = source.replace('{"name": "ls"}', '{"name": "ls"}, {"name": "weigh"}, {"name": "unseen"}')
    assert check_structure(write(source)) == []
    source = source.replace('(name="x"', '(name="x", create_tools=open_tools')
    assert check_structure(write(source)) == []


@pytest.mark.feature("N06", "N07")
def test_nodes_around_the_agent_are_seen(write: Callable[[str], Path]) -> None:
    workflow = 'create_agent_conversation_project(name="x").with_node(shout, before=["agent"]).with_node(critic)'
    source = NODES + GOOD.replace('create_agent_conversation_project(name="x")', workflow)
    assert [problem.message.split()[1] for problem in check_structure(write(source))] == ["pay"]
    inline = source.replace("with_node(critic)", 'with_node(create_agent_node("critic", extra_tools=[weigh]))')
    assert [problem.message.split()[1] for problem in check_structure(write(inline))] == ["weigh"]
    own = source.replace(
        "with_node(critic)", 'with_node(create_agent_node("b", extra_tools=[PAY], tool_definitions=[]))'
    )
    assert check_structure(write(own)) == []


@pytest.mark.feature("N06")
@pytest.mark.parametrize(
    ("options", "left"),
    [
        ('permission_policy="read-only"', '{"name": "read"}, {"name": "grep"}, {"name": "find"}, {"name": "ls"}'),
        ('tools=["read"]', '{"name": "read"}'),
        ('tools=("read", "bash"), permission_policy="read-only"', '{"name": "read"}'),
        ("tools=[]", ""),
        ("tool_definitions=[]", ""),
    ],
)
def test_what_the_options_leave_out_need_not_be_declared(write: Callable[[str], Path], options: str, left: str) -> None:
    source = GOOD.replace(TOOLS, f"    tools=[{left}],\n").replace('(name="x")', f'(name="x", {options})')
    assert check_structure(write(source)) == []


@pytest.mark.feature("N06")
def test_a_session_needs_its_tools_and_switches(write: Callable[[str], Path]) -> None:
    session = 'session={"subagents": {"tools": ["read"]}}'
    source = GOOD.replace('(name="x")', f'(name="x", {session})')
    codes = [(problem.code, problem.message.split()[1]) for problem in check_structure(write(source))]
    assert codes == [
        ("missing-durable", "an"),
        ("undeclared-tool", "update_plan"),
        ("undeclared-tool", "subagent"),
    ]
    source = source.replace('{"recovery": {"enabled": True}}', '{"recovery": {}, "durable": {"enabled": True}}')
    source = source.replace('{"name": "ls"}', '{"name": "ls"}, {"name": "update_plan"}, {"name": "subagent"}')
    assert check_structure(write(source)) == []
    assert check_structure(write(source.replace(session, "session=None"))) == []


# -- what can be wrong -------------------------------------------------------------------------------------------------


def swap(old: str, new: str) -> str:
    assert old in GOOD, old
    return GOOD.replace(old, new)


BROKEN: list[tuple[str, str, str]] = [
    ("invalid-syntax", "§x = = 1\n".replace("§x = ", "x = §"), "invalid syntax"),
    ("invalid-syntax", "§x = '\0'\n", "null bytes"),
    ("no-executor", "§x = 1\n", "a project is one call of it"),
    ("no-executor", "§from elsewhere import define_executor\nexecutor = define_executor()\n", "no define_executor"),
    ("no-executor", "§from .conversation import define_executor\nexecutor = define_executor()\n", "no define_executor"),
    ("no-executor", swap("executor =", "def define_executor(**_): ...\nexecutor =").replace("from", "§from", 1), "no"),
    ("no-executor", swap("executor =", "define_executor = print\nexecutor =").replace("from", "§from", 1), "no"),
    ("several-executors", GOOD + "other = §define_executor()\n", "line 3 calls define_executor already"),
    (
        "hidden-executor",
        "from conversation import define_agent_conversation_executor as d\nexecutor = §d(provider='demo')\n",
        "declares conversation, token_usage, tools and params unseen",
    ),
    ("hidden-executor", GOOD + "import conversation as c\nx = §c.define_agent_conversation_executor()\n", "unseen"),
    ("nested-executor", swap("executor = ", "if True:\n  executor = §"), "at the module's top"),
    (
        "nested-executor",
        "def make():\n    from conversation import define_executor\n    return §define_executor()\n",
        "at the module's top",
    ),
    ("unnamed-executor", swap("executor = define", "§define"), "executor = define_executor(...)"),
    ("unnamed-executor", swap("executor = define_executor(", "executors = [§define_executor(")[:-2] + ")]\n", "a name"),
    ("unnamed-executor", swap("executor = define", "holder.executor = §define"), "a name"),
    ("missing-argument", swap(USAGE, "").replace("= define", "= §define"), "token_usage: missing"),
    ("missing-argument", swap(TOOLS, "").replace("= define", "= §define"), "tools: missing"),
    ("unknown-argument", swap("token_usage=", "§tokenUsage={},\n    token_usage="), "did you mean token_usage?"),
    ("hidden-arguments", swap("    token_usage", "    **§more,\n    token_usage"), "what ** brings is not read"),
    ("hidden-arguments", swap("executor(\n", "executor(\n    §more,\n"), "by their names"),
    ("hidden-arguments", swap('{"display": False}', '{"display": False, **§more}'), "what ** brings is not read"),
    ("hidden-arguments", swap('(name="x")', '(name="x", **§more)'), "create_agent_conversation_project one by one"),
    ("not-literal", swap('{"display": False}', "§USAGE"), "token_usage: a name cannot be read"),
    ("not-literal", swap('{"display": False}', '{"display": §not True}'), "token_usage.display: an expression"),
    ("not-literal", swap('{"display": False}', '{§KEY: False}'), "must be a text in quotes"),
    ("not-literal", swap('{"name": "ls"}', '{"name": §f"ls"}'), "tools.6.name: an f-string"),
    ("not-literal", swap('{"name": "ls"}', "§*more"), "an unpacked value"),
    ("not-literal", swap('{"name": "ls"}', '§dict(name="ls")'), "a call cannot be read"),
    ("not-literal", swap(TOOLS, '    tools=§[{"name": n} for n in NAMES],\n'), "tools: a comprehension"),
    ("not-literal", swap('"choices": [-1, 2]', '"choices": §{-1, 2}'), "params.0.choices: a set"),
    ("not-literal", swap('"type": "integer"', '"type": §types.INTEGER'), "an attribute"),
    ("not-literal", swap('(name="x")', '(name="x", output_item_id=§ID)'), "workflow.output_item_id"),
    ("not-literal", swap('"conversation",', "§KIND,"), "project_type: a name"),
    ("repeated-key", swap('{"display": False}', '{"display": False, §"display": True}'), "'display' is there twice"),
    ("repeated-key", swap("    params=", "    params=[],\n    §params="), "params: is given twice"),
    ("invalid-value", swap('"conversation",', '§"chat",'), "there is 'conversation'"),
    ("invalid-value", swap('"conversation",', '"conversation", name=§3,'), "name: must be a text"),
    ("invalid-value", swap('{"display": False}', '{§"displayed": False}'), "did you mean display?"),
    ("invalid-value", swap('{"display": False}', "§[]"), "a TokenUsageDeclaration or a dict"),
    ("invalid-value", swap('{"enabled": True}', '{"enabled": §1}'), "conversation.recovery.enabled"),
    ("invalid-value", swap('{"name": "ls"}', '{"name": §"l s"}'), "tools.6.name"),
    ("invalid-value", swap('{"name": "ls"}', '§{"label": "x"}'), "tools.6.name: missing"),
    ("invalid-value", swap('{"name": "ls"}', '§"ls"'), "tools.6: must be a ToolDeclaration"),
    ("invalid-value", swap(TOOLS, '    tools=§{"name": "read"},\n'), "tools: must be a list"),
    ("invalid-value", swap('"--depth"', '§"depth"'), "params.0.flags.1"),
    ("invalid-value", swap('"--depth"', '§"--json"'), "a flag of the command itself"),
    ("invalid-value", swap('"default": -1', '"default": §-3'), "must be one of -1, 2"),
    ("repeated-name", swap('{"name": "ls"}', '{"name": "ls"}, {"name": §"read"}'), "already, at tools.0"),
    ("repeated-flag", swap("params=[", f"params=[{A}, ").replace('("-d"', '(§"-d"'), "params.0 already"),
    ("hidden-workflow", swap('create_agent_conversation_project(name="x")', "§WORKFLOW"), "inline"),
    ("hidden-workflow", swap('create_agent_conversation_project(name="x")', "§make()"), "inline"),
    ("different-output-ids", swap('{"recovery"', '{"openai": {"output_item_id": §"a"}, "recovery"'), "'agent-answer'"),
    ("different-output-ids", swap('(name="x")', '(name="x", output_item_id=§"a")'), "Give both the same"),
    ("undeclared-tool", swap(', {"name": "ls"}', "").replace("tools=[", "tools=§["), "ls is not declared"),
    ("unknown-tool", swap('{"name": "ls"}', '{"name": "ls"}, {"name": §"wiegh"}'), "no agent has a tool 'wiegh'"),
    (
        "missing-recovery",
        swap('{"recovery": {"enabled": True}}', '{"recovery": §{"enabled": False}, "durable": {}}')
        .replace('(name="x")', '(name="x", session={})')
        .replace('{"name": "ls"}', '{"name": "ls"}, {"name": "update_plan"}'),
        'declare "recovery"',
    ),
    (
        "missing-durable",
        swap('{"recovery"', '§{"recovery"')
        .replace('(name="x")', '(name="x", session={})')
        .replace('{"name": "ls"}', '{"name": "ls"}, {"name": "update_plan"}'),
        'declare "durable"',
    ),
]  # fmt: skip


@pytest.mark.feature("N06")
@pytest.mark.parametrize(("code", "source", "said"), BROKEN)
def test_what_is_wrong_is_said_with_its_place_and_code(
    write: Callable[[str], Path], code: str, source: str, said: str
) -> None:
    line = source[: source.index("§")].count("\n") + 1
    column = len(source[: source.index("§")].rpartition("\n")[2]) + 1
    file = write(source.replace("§", "", 1))
    problems = check_structure(file)
    assert [(problem.code, problem.line, problem.column) for problem in problems] == [(code, line, column)]
    assert said in problems[0].message
    assert problems[0].file == file
    assert str(problems[0]).startswith(f"{file}:{line}:{column}: {code}: ")


@pytest.mark.feature("N06")
def test_every_code_has_a_broken_project() -> None:
    elsewhere = {"no-project", "unreadable-file"}  # below, as they are of no source
    assert {code for code, _, _ in BROKEN} | elsewhere == set(CODES)


@pytest.mark.feature("N06")
def test_what_structure_finds_in_values_define_executor_refuses(write: Callable[[str], Path]) -> None:
    """The two say the same of the same declarations."""
    for code, source, _ in BROKEN:
        if code not in ("invalid-value", "repeated-name", "repeated-flag", "different-output-ids"):
            continue
        file = write(source.replace("§", "", 1))
        with pytest.raises(InputValidationError) as caught:
            exec(file.read_text(), {})
        [problem] = check_structure(file)
        assert caught.value.message.partition(":")[0] in problem.message or code == "different-output-ids"


@pytest.mark.feature("N06")
def test_everything_that_is_wrong_is_said_at_once(write: Callable[[str], Path]) -> None:
    source = swap('{"name": "grep"}, ', '{"name": 1}, ').replace('{"display": False}', "USAGE")
    source = source.replace('"type": "integer"', '"type": "int"').replace("project_type=", "project_typ=")
    [project] = read_structure(write(source))
    assert [problem.code for problem in project.problems] == [
        "unknown-argument",
        "not-literal",
        "invalid-value",
        "invalid-value",
    ]
    assert (project.token_usage, project.tools, project.params) == (None, None, None)
    assert project.conversation is not None


def test_columns_count_letters_and_not_bytes(write: Callable[[str], Path]) -> None:
    assert found(write(swap('{"display": False}', '{"é한글": 1, "x": y}'))) == ["not-literal 7:33"]


def test_warnings_about_the_project_are_not_ours(write: Callable[[str], Path]) -> None:
    assert check_structure(write('PATTERN = "\\d"\n' + GOOD)) == []


def test_what_is_nested_without_end_is_an_answer_too(write: Callable[[str], Path]) -> None:
    [problem] = check_structure(write(swap('{"display": False}', "(" * 5000 + ")" * 5000)))
    assert problem.code == "invalid-syntax"
    deep = "[" * 90 + "]" * 90
    assert {problem.code for problem in check_structure(write(swap('{"display": False}', deep)))} == {"invalid-value"}


# -- where it looks ----------------------------------------------------------------------------------------------------


@pytest.mark.feature("N06")
def test_a_file_a_folder_and_a_folder_of_folders(tmp_path: Path) -> None:
    for name in ("b", "a", "no-project"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "project.py").write_text(GOOD)
    (tmp_path / "b" / "project.py").write_text("x = 1\n")
    (tmp_path / "own.py").write_text(GOOD)
    assert [project.file for project in read_structure(tmp_path)] == [
        tmp_path / "a" / "project.py",
        tmp_path / "b" / "project.py",
    ]
    assert [problem.code for problem in check_structure(tmp_path)] == ["no-executor"]
    assert check_structure(str(tmp_path / "a")) == check_structure(tmp_path / "own.py") == []


@pytest.mark.feature("N06")
def test_a_folder_without_a_project_and_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert [problem.code for problem in check_structure(tmp_path)] == ["no-project"]
    (tmp_path / "project.py").symlink_to(tmp_path / "project.py")
    with pytest.raises(InputValidationError, match="nothing of that name"):
        check_structure(tmp_path / "nowhere")
    (tmp_path / "project.py").unlink()
    (tmp_path / "project.py").mkdir()
    assert [problem.code for problem in check_structure(tmp_path)] == ["unreadable-file"]


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.mark.feature("N06", "O01")
def test_the_command_says_what_it_finds_and_ends_with_1(inside: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "project.py").write_text(GOOD)
    good = inside("structure", str(tmp_path / "good"))
    assert (good.status, good.err) == (0, "")
    assert good.out == f"{tmp_path / 'good' / 'project.py'}: 7 tools, 1 parameter\n"
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "project.py").write_text(swap('{"display": False}', "USAGE"))
    both = inside("structure", str(tmp_path))
    assert both.status == 1
    assert both.out.splitlines()[0].startswith(f"{tmp_path / 'bad' / 'project.py'}:7:17: not-literal: token_usage: ")
    assert both.out.splitlines()[1] == good.out.strip()


@pytest.mark.feature("N06", "O01")
def test_the_command_speaks_json_a_line_a_project(inside: Callable[..., Result], tmp_path: Path) -> None:
    for name, source in (("a", GOOD), ("b", swap('{"display": False}', "USAGE"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "project.py").write_text(source)
    result = inside("structure", "--json", str(tmp_path))
    assert result.status == 1
    a, b = result.lines
    assert (a["ok"], a["problems"], a["token_usage"]) == (True, [], {"enabled": True, "display": False})
    assert next(tool["name"] for tool in a["tools"]) == "read"
    assert (b["ok"], b["token_usage"]) == (False, None)
    [problem] = b["problems"]
    assert set(problem) == {"file", "line", "column", "code", "message"}
    assert Problem(Path(problem.pop("file")), **problem) == check_structure(tmp_path / "b")[0]


def test_the_command_looks_here_when_no_path_is_given(inside: Callable[..., Result], shell: Any) -> None:
    (shell.folder / "project.py").write_text(GOOD)
    assert inside("structure").out == "project.py: 7 tools, 1 parameter\n"
    result = inside("structure", "nowhere")
    assert (result.status, result.problem) == (2, "nowhere: there is nothing of that name")


def test_reading_projects_loads_no_runtime_and_no_prefect(tmp_path: Path) -> None:
    (tmp_path / "project.py").write_text(GOOD)
    script = (
        "import sys; from conversation import check_structure; assert check_structure(sys.argv[1]) == []\n"
        "heavy = ('prefect', 'sqlmodel', 'sqlalchemy', 'anthropic', 'openai', 'PIL', 'httpx2', 'agent_nodes.engine')\n"
        "assert not [name for name in heavy if name in sys.modules]"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], cwd=root, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_json_of_a_problem_is_plain(write: Callable[[str], Path]) -> None:
    [problem] = check_structure(write("x = 1\n"))
    assert json.loads(json.dumps(problem.to_dict()))["code"] == "no-executor"
