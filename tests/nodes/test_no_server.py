"""Outside a flow run a node is a plain call: no server is asked for, and Prefect is not even imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_nodes import InputValidationError, create_agent_node
from agent_nodes.errors import AgentNotReady

ROOT = Path(__file__).parents[2]

PLAIN = """
import asyncio, sys
from agent_nodes import create_agent_node, create_input_node, create_output_node

async def main():
    given = await create_input_node()("What is in this folder?")
    payload = await create_output_node()(await create_agent_node(provider="demo", model="demo")(given))
    print(payload.status, [item["part_type"] for item in payload.items])

asyncio.run(main())
heavy = {"prefect", "sqlalchemy", "sqlmodel", "openai", "anthropic"} & {name.partition(".")[0] for name in sys.modules}
print("imported:", sorted(heavy))
"""


def child(tmp_path: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """A process that could start a server of Prefect's, but knows none."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment |= {
        "AGENT_NODES_HOME": str(tmp_path / "home"),
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "DO_NOT_TRACK": "1",
        "PYTHONPATH": str(ROOT),
        **variables,
    }
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.feature("P01")
def test_the_three_nodes_run_without_importing_prefect(tmp_path: Path) -> None:
    done = child(tmp_path, "-c", PLAIN)
    assert done.returncode == 0, done.stderr
    answered, imported = done.stdout.splitlines()
    assert answered.startswith("answered ['text', 'tool', ")
    assert imported == "imported: []"


@pytest.mark.feature("P01")
def test_the_example_flow_runs_without_a_server_and_starts_none(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("remember the milk\n")
    done = child(tmp_path, str(ROOT / "flows" / "hello_agent.py"))
    assert done.returncode == 0, done.stderr
    assert "Let me look at this folder first.\n\nThis is the demo model" in done.stdout
    assert "notes.md" in done.stdout
    # A server would have made its database there.
    assert list((tmp_path / "prefect").glob("**/*.db")) == []


@pytest.mark.parametrize("name", ["submit", "map"])
def test_futures_need_a_flow_run(name: str) -> None:
    node = create_agent_node(provider="demo", model="demo")
    with pytest.raises(AgentNotReady, match=f"{name} needs a running flow"):
        getattr(node, name)(["hi"])


@pytest.mark.parametrize("option", ["cache_policy", "persist_result", "cache_key_fn", "refresh_cache", "retires"])
def test_task_options_that_would_cache_or_do_not_exist_are_refused_by_name(option: str) -> None:
    with pytest.raises(InputValidationError, match=option):
        create_agent_node().with_options(**{option: True})  # type: ignore[arg-type]
