"""The flows that people copy, as flow runs of a real server, and as the deployments that their prefect.yaml makes."""

import asyncio
import importlib.util
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_nodes import AgentInput
from agent_nodes.store.inspect import view
from agent_nodes.store.locate import list_session_files, session_file
from conversation import ConversationHost
from tests.docs.markdown import fences
from tests.prefect.conftest import prefect
from tests.prefect.test_flows import GUARD, within

FLOWS = Path(__file__).parents[2] / "flows"

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


def load(name: str) -> Any:
    """The file as a module; it imports Prefect, so it is read when there is a server."""
    spec = importlib.util.spec_from_file_location(f"flow_file_{name}", FLOWS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def notes(home: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "beds.md").write_text("# Beds\n\nBeans along the fence.\n")
    (folder / "seeds.md").write_text("# Seeds\n\nBasil, in May.\n")
    return folder


def turns(path: Path) -> list[Any]:
    return list(view(path).turns)


# -- each as a flow run ------------------------------------------------------------------------------------------------


@pytest.mark.feature("P03")
async def test_the_pipeline_loads_what_the_agent_put_away(home: Path, tmp_path: Path) -> None:
    module = load("etl_with_agent")
    for _ in range(2):
        assert await within(GUARD, module.etl_with_agent()) == 5
    with closing(sqlite3.connect(tmp_path / "feedback.sqlite")) as connection:
        rows = connection.execute("SELECT * FROM feedback ORDER BY id").fetchall()
    assert [row[:2] for row in rows] == [(str(number), "other") for number in range(1, 6)]
    assert rows[0][2] == "The beans came up in a week, thank you"
    with pytest.raises(ValueError, match=r"no \.csv file"):
        await within(GUARD, module.etl_with_agent(folder=str(tmp_path)))


async def test_a_row_that_fails_leaves_the_others(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("etl_with_agent")
    sorter = module.sorter

    async def poor(**given: Any) -> Any:
        if given["request_id"] == "row-2":
            given |= {"err_code": 7, "err_message": "disk gone"}
        return await sorter(**given)

    monkeypatch.setattr(module, "sorter", poor)
    assert await within(GUARD, module.etl_with_agent()) == 4


@pytest.mark.feature("P03")
async def test_many_files_are_reviewed_a_few_at_a_time_into_one_report(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("review_many")
    reviewer, running, most = module.reviewer, 0, 0

    async def counted(given: AgentInput) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        model = "unknown" if "03" in (given.prompt or "") else None
        try:
            return await reviewer(given.model_copy(update={"model": model}))
        finally:
            running -= 1

    monkeypatch.setattr(module, "reviewer", counted)
    for number in range(4):
        (notes / f"more-{number:02}.md").write_text(f"This is note {number} of four.\n")
    report = await within(GUARD, module.review_many(str(notes), at_once=2))
    assert most == 2
    assert [line for line in report.splitlines() if line.startswith("# ")] == [
        f"# {name}.md" for name in ("beds", "more-00", "more-01", "more-02", "more-03", "seeds")
    ]
    assert "Beans along the fence." in report
    assert (
        "Not reviewed: model: the provider 'demo' has no model 'unknown'"
        in report.partition("# more-03.md")[2].partition("# seeds.md")[0]
    )
    assert len(list_session_files(None)) == 6


@pytest.mark.feature("P03", "N07")
async def test_what_the_reviewer_says_goes_back_to_the_writer_once(notes: Path) -> None:
    module = load("write_and_review")
    assert "Beans along the fence." in await within(GUARD, module.write_and_review(str(notes / "beds.md")))
    found = {path.name.partition("-")[0]: turns(path) for path in list_session_files(None)}
    assert {key: len(each) for key, each in found.items()} == {"writer": 2, "reviewer": 1}
    draft, final = found["writer"]
    [remarks] = found["reviewer"]
    assert draft.text in remarks.prompt
    assert remarks.text in final.prompt


@pytest.mark.feature("P03")
async def test_the_watcher_is_silent_until_a_note_changes_and_goes_on_with_its_conversation(notes: Path) -> None:
    flow = load("watch_notes").watch_notes
    session = session_file("default", "watch-notes", "watcher")
    assert "Beans along the fence." in await within(GUARD, flow(str(notes)))
    [first] = turns(session)
    assert await within(GUARD, flow(str(notes))) is None
    assert turns(session) == [first]
    (notes / "seeds.md").unlink()
    (notes / "beds.md").write_text("# Beds\n\nTomatoes grow there now.\n")
    assert "Tomatoes grow there now." in await within(GUARD, flow(str(notes)))
    [_, second] = turns(session)
    assert second.prompt.startswith("New or changed: beds.md. Gone: seeds.md.")
    with pytest.raises(ValueError, match="is no folder"):
        await within(GUARD, flow(str(notes / "nowhere")))


async def test_changes_that_a_killed_or_failed_run_saw_are_the_same_turn_to_the_next(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("watch_notes")
    session = session_file("default", "watch-notes", "watcher")
    watcher = module.watcher

    async def failing(**given: Any) -> Any:
        return await watcher(**given, model="unknown")

    monkeypatch.setattr(module, "watcher", failing)
    with pytest.raises(Exception, match="no model 'unknown'"):
        await within(GUARD, module.watch_notes(str(notes)))
    monkeypatch.setattr(module, "watcher", watcher)

    def killed(*_: Any) -> None:
        raise RuntimeError("killed before it could write down what it saw")

    with monkeypatch.context() as patch:
        patch.setattr(module, "remember", killed)
        with pytest.raises(RuntimeError, match="killed"):
            await within(GUARD, module.watch_notes(str(notes)))
    [before] = turns(session)
    assert before.status == "answered"
    said = await within(GUARD, module.watch_notes(str(notes)))
    assert said == before.text
    [after] = turns(session)
    assert after.usage == before.usage


async def test_a_tick_that_finds_the_one_before_at_work_ends_in_silence(notes: Path) -> None:
    flow = load("watch_notes").watch_notes
    async with ConversationHost("default", "watch-notes", "watcher", options={"provider": "demo"}):
        assert await within(GUARD, flow(str(notes))) is None
    assert not (notes / ".watch-notes.json").exists()
    assert await within(GUARD, flow(str(notes))) is not None


# -- as deployments ----------------------------------------------------------------------------------------------------


@pytest.mark.feature("P03")
async def test_prefect_yaml_deploys_every_flow_of_the_folder(home: Path, tmp_path: Path) -> None:
    from prefect import get_client
    from prefect.client.schemas.actions import WorkPoolCreate

    folder = tmp_path / "flows"
    shutil.copytree(FLOWS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    async with get_client() as client:
        await client.create_work_pool(WorkPoolCreate(name="agents", type="process"))
        try:
            await command(folder, *prefect("--no-prompt", "deploy", "--all"))
            found = {each.name: each for each in await client.read_deployments() if each.work_pool_name == "agents"}
        finally:
            await client.delete_work_pool("agents")
    assert {name.replace("-", "_") for name in found} == {path.stem for path in FLOWS.glob("*.py")}
    for name, each in found.items():
        file = name.replace("-", "_")
        assert each.entrypoint == f"{file}.py:{file}"
        assert each.pull_steps == [{"prefect.deployments.steps.set_working_directory": {"directory": str(folder)}}]
        # What they look at is there.
        assert all((folder / value).exists() for value in each.parameters.values())
    crons = [(each.name, getattr(one.schedule, "cron", "")) for each in found.values() for one in each.schedules]
    assert crons == [("watch-notes", "*/5 * * * *")]


@pytest.mark.feature("P03")
async def test_the_guide_deploys_its_flow_and_a_worker_runs_it(home: Path, tmp_path: Path) -> None:
    from prefect import get_client

    folder = tmp_path / "garden"
    folder.mkdir()
    (folder / "README.md").write_text("Tomatoes go into the south bed.\n")
    code, yaml, shell = guide()
    (folder / "watch.py").write_text(code)
    (folder / "prefect.yaml").write_text(yaml)
    make_pool, deploy, start_worker = shell.splitlines()
    async with get_client() as client:
        try:
            await command(folder, *make_pool.split())
            await command(folder, *deploy.split())
            found = await client.read_deployment_by_name("watch/every-five-minutes")
            assert [getattr(one.schedule, "cron", "") for one in found.schedules] == ["*/5 * * * *"]
            run = await client.create_flow_run_from_deployment(found.id)
            await command(folder, *start_worker.split(), "--run-once")
            assert (await client.read_flow_run(run.id)).state_name == "Completed"
        finally:
            await client.delete_work_pool("agents")
    assert json.loads((folder / ".seen.json").read_text()).keys() == {"README.md"}
    [turn] = turns(session_file("default", "garden", "watcher", home))
    assert "Tomatoes go into the south bed." in turn.text


async def command(folder: Path, *arguments: str) -> None:
    """Run it as a user does, in the folder."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    settings = {"PYTHONPATH": str(FLOWS.parent), "PATH": path, "PWD": str(folder), "PREFECT_WORKER_QUERY_SECONDS": "1"}
    process = await asyncio.create_subprocess_exec(
        *arguments, env={**os.environ, **settings}, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), GUARD)
    assert process.returncode == 0, out.decode()


def guide() -> tuple[str, str, str]:
    """The flow, the prefect.yaml and the commands of the guide."""
    found = fences(FLOWS.parent / "docs" / "guide" / "schedule.md")
    [code] = [each.text for each in found if each.text.startswith("# watch.py")]
    [yaml] = [each.text for each in found if each.language == "yaml"]
    [shell] = [each.text for each in found if "prefect work-pool" in each.text]
    return code, yaml, shell
