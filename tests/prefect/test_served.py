"""Flow runs in processes of their own, started by a serving process: killed, run again, cancelled."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agent_nodes import create_agent
from agent_nodes.store.inspect import view
from agent_nodes.store.locate import session_file
from tests.fakes import FakeServer, call, gate, text
from tests.prefect.serving import GUARD, ROOT, content, deployment, state, until
from tests.prefect.serving import serving as serving_process
from tests.prefect.shown import shown

CANCEL_SECONDS = 30
"""Prefect's own limit: what has not ended by then is killed."""

# Prefect's own clients leave sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


@dataclass(frozen=True)
class Serving:
    """A process that serves our flows as deployments named ``name``; their sessions are under ``home``."""

    process: "subprocess.Popen[bytes]"
    name: str
    home: Path
    log: Path

    def turns(self, conversation_id: object, session_key: str = "agent") -> Sequence[Any]:
        return view(session_file("default", str(conversation_id), session_key, self.home)).turns


@contextmanager
def serve(name: str, folder: Path) -> Iterator[Serving]:
    home, log = folder / "home", folder / "serving.log"
    with serving_process(log, "-m", "tests.prefect.served", name, AGENT_NODES_HOME=str(home)) as process:
        yield Serving(process, name, home, log)


@pytest.fixture(scope="module")
def serving(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serve("served", tmp_path_factory.mktemp("serving")) as found:
        yield found


@pytest.fixture
def model(home: Path) -> Iterator[FakeServer]:
    with FakeServer.in_thread() as fake:
        yield fake
        fake.assert_accepted()


async def start(serving: Serving, client: Any, flow: str, **parameters: str) -> Any:
    found = await deployment(serving.log, client, f"{flow}/{serving.name}")
    return (await client.create_flow_run_from_deployment(found.id, parameters=parameters)).id


async def cancelled(serving: Serving, client: Any, run: Any) -> None:
    """Cancel the run, as the UI does."""
    from prefect.states import Cancelling

    await client.set_flow_run_state(run, Cancelling())
    async with asyncio.timeout(CANCEL_SECONDS):
        await state(serving.log, client, run, "Cancelled")


async def stays_aborted(serving: Serving, run: Any, fake: FakeServer) -> None:
    """The session says so, and whoever opens it again starts nothing."""
    requests = len(fake.requests)
    assert fake.open_connections == 0
    [turn] = serving.turns(run)
    assert (turn.status, turn.detail) == ("aborted", "The flow run was cancelled.")
    path = session_file("default", str(run), "agent", serving.home)
    async with create_agent(database_path=path, provider="demo") as agent:
        assert agent.unfinished() == []
    assert len(fake.requests) == requests == 1


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.feature("P02")
async def test_pr_05_a_flow_run_killed_during_a_tool_meets_the_same_turn_when_it_is_run_again(
    model: FakeServer, serving: Serving, tmp_path: Path
) -> None:
    from prefect import get_client
    from prefect.states import AwaitingRetry

    model.script(text("a plan"), call("pay", id="c1"), text("bought, I think"))
    ledger, hold = tmp_path / "ledger", tmp_path / "hold"
    hold.touch()
    async with get_client() as client:
        run = await start(serving, client, "shop", base_url=model.v1, ledger=str(ledger), hold=str(hold))
        process = int(await content(serving.log, ledger))
        os.kill(process, signal.SIGKILL)
        await state(serving.log, client, run, "Crashed")
        assert len(model.requests) == 2
        hold.unlink()
        await client.set_flow_run_state(run, AwaitingRetry(), force=True)
        await state(serving.log, client, run, "Completed")
    assert ledger.read_text().split() == [str(process)]
    # The plan was not asked for again, nor the first answer of the purchase; the model heard what happened to its call.
    assert len(model.requests) == 3
    [(_, outcome)] = model.requests[2].messages()[-1].results
    assert "Whether it took effect is unknown" in outcome
    [turn] = serving.turns(run, "buyer")
    assert (turn.request_id, turn.text) == (f"{run}:buyer:0", "bought, I think")


@pytest.mark.feature("P05")
async def test_pr_03_a_cancelling_during_a_model_stream_ends_the_request_and_stops_the_turn(
    model: FakeServer, serving: Serving, tmp_path: Path
) -> None:
    from prefect import get_client

    held = gate()
    model.script(text("half ", "an answer").hold(held, before=1))
    async with get_client() as client:
        run = await start(serving, client, "work", base_url=model.v1, notes=str(tmp_path))
        await held.reached.wait(GUARD)
        await cancelled(serving, client, run)
    await stays_aborted(serving, run, model)
    [turn] = serving.turns(run)
    assert turn.text == "half "
    found = await shown(str(run), lambda now: len(now.events) == 2 and "markdown" in now.artifacts)
    assert found.happened == ["started", "aborted"]
    assert "half" in found.data("markdown")
    held.open()


@pytest.mark.feature("P05")
async def test_pr_03_b_cancelling_during_a_command_of_a_submitted_task_ends_its_processes(
    model: FakeServer, serving: Serving, tmp_path: Path
) -> None:
    from prefect import get_client

    pidfile = tmp_path / "pid"
    model.script(call("bash", {"command": f"echo $$ > {pidfile}; sleep 60"}, id="c1"))
    async with get_client() as client:
        run = await start(serving, client, "review", base_url=model.v1)
        command = int(await content(serving.log, pidfile))
        await cancelled(serving, client, run)
    assert gone(command)
    await stays_aborted(serving, run, model)


@pytest.mark.feature("P05")
async def test_pr_03_d_cancelling_during_a_tool_in_a_thread_tells_it_and_waits_for_it_no_longer(
    model: FakeServer, serving: Serving, tmp_path: Path
) -> None:
    from prefect import get_client

    model.script(call("dawdle", id="c1"))
    async with get_client() as client:
        run = await start(serving, client, "work", base_url=model.v1, notes=str(tmp_path))
        process = int(await content(serving.log, tmp_path / "begun"))
        await cancelled(serving, client, run)
    assert (tmp_path / "told").exists()
    assert gone(process)
    await stays_aborted(serving, run, model)


@pytest.mark.feature("P03", "P05")
async def test_a_runner_that_is_shut_down_leaves_the_turn_to_be_gone_on_with(model: FakeServer, tmp_path: Path) -> None:
    from prefect import get_client

    held = gate()
    model.script(text("half ", "an answer").hold(held, before=1))
    async with get_client() as client:
        with serve("leaving", tmp_path) as leaving:
            run = await start(leaving, client, "work", base_url=model.v1, notes=str(tmp_path))
            await held.reached.wait(GUARD)
            leaving.process.send_signal(signal.SIGTERM)
            ended = await state(leaving.log, client, run, "Cancelled", "Crashed", "Failed")
        [turn] = leaving.turns(run)
    assert (turn.status, turn.text) == ("unfinished", "half ")
    assert ended.message != "Flow run was cancelled successfully."
    held.open()


@pytest.mark.feature("P03")
async def test_pr_01_a_scheduled_run_that_finds_the_last_one_at_work_leaves_its_turn_out(
    model: FakeServer, serving: Serving, tmp_path: Path
) -> None:
    from prefect import get_client
    from prefect.client.schemas.schedules import IntervalSchedule

    held, ledger = gate(), tmp_path / "ledger"
    model.script(text("nothing new").hold(held, before=0))
    model.respond(lambda _: text("still nothing"))

    async def lines(least: int) -> list[str]:
        async def look() -> list[str]:
            found = ledger.read_text().splitlines() if ledger.exists() else []
            return found if len(found) >= least else []

        return await until(serving.log, look)

    client: Any
    async with get_client() as client:
        found = (await deployment(serving.log, client, f"tick/{serving.name}")).id
        [schedule] = await client.create_deployment_schedules(
            found,
            [(IntervalSchedule(interval=timedelta(seconds=2)), True)],
            max_scheduled_runs=2,
            parameters={"base_url": model.v1, "ledger": str(ledger)},
        )
        await held.reached.wait(GUARD)
        skipped = await lines(2)
        await client.delete_deployment_schedule(found, schedule.id)
        held.open()
        await lines(3)

        async def at_rest() -> Any:
            runs = [run for run in await client.read_flow_runs() if run.deployment_id == found]
            return runs if all(run.state.is_final() for run in runs) else None

        runs = await until(serving.log, at_rest)
    assert all(line.startswith("skipped The session") and "process" in line for line in skipped)
    assert {run.state.name for run in runs} == {"Completed"}
    outcomes = [line.split()[0] for line in ledger.read_text().splitlines()]
    assert len(outcomes) == len(runs)
    assert [turn.status for turn in serving.turns("ticks")] == ["answered"] * outcomes.count("answered")
    assert len(model.requests) == outcomes.count("answered") >= 1


@pytest.mark.feature("P01")
async def test_the_example_is_a_flow_run_where_there_is_a_server(home: Path, tmp_path: Path) -> None:
    from prefect import get_client

    (tmp_path / "notes.md").write_text("remember the milk\n")
    example = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "flows" / "hello_agent.py"),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, errors = await asyncio.wait_for(example.communicate(), GUARD)
    assert example.returncode == 0, errors.decode()
    assert "notes.md" in out.decode()
    async with get_client() as client:
        [run] = [
            run for run in await client.read_flow_runs() if run.parameters == {"question": "What is in this folder?"}
        ]
        assert run.state_name == "Completed"
    # What the process had still to tell when its flow ended, it told before it was gone.
    found = await shown(str(run.id), lambda now: len(now.artifacts) == 2 and len(now.events) == 2)
    assert "notes.md" in found.data("markdown")
