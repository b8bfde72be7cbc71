"""Flow runs in processes of their own, started by a serving process: killed, run again, cancelled."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_nodes.store.inspect import view
from agent_nodes.store.locate import session_file
from tests.fakes import FakeServer, call, text

ROOT = Path(__file__).parents[2]
GUARD = 120

# Prefect's own clients leave sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


@pytest.fixture
def serving(home: Path, tmp_path: Path) -> Iterator[Path]:
    """The serving process; yields its log."""
    log = tmp_path / "serving.log"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PREFECT_RUNNER_POLL_FREQUENCY": "1"}
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.prefect.served"],
            env=environment,
            cwd=ROOT,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    yield log
    process.send_signal(signal.SIGINT)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def until(log: Path, look: Callable[[], Awaitable[Any]]) -> Any:
    try:
        async with asyncio.timeout(GUARD):
            while not (found := await look()):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"waited {GUARD} s in vain\n{log.read_text()[-4000:]}") from None
    return found


async def start(log: Path, client: Any, name: str, **parameters: str) -> Any:
    from prefect.exceptions import ObjectNotFound

    async def deployment() -> Any:
        try:
            return await client.read_deployment_by_name(f"{name}/served")
        except ObjectNotFound:
            return None

    found = await until(log, deployment)
    return (await client.create_flow_run_from_deployment(found.id, parameters=parameters)).id


async def state(log: Path, client: Any, run: Any, *names: str) -> str:
    """Wait for one of the states."""

    async def look() -> str | None:
        now = (await client.read_flow_run(run)).state.name
        return now if now in names else None

    return await until(log, look)


async def content(log: Path, path: Path) -> str:
    async def look() -> str:
        return path.read_text().strip() if path.exists() else ""

    return await until(log, look)


@pytest.mark.feature("P02")
async def test_pr_05_a_flow_run_killed_during_a_tool_meets_the_same_turn_when_it_is_run_again(
    threaded: FakeServer, serving: Path, home: Path, tmp_path: Path
) -> None:
    from prefect import get_client
    from prefect.states import AwaitingRetry

    threaded.script(text("a plan"), call("pay", id="c1"), text("bought, I think"))
    ledger, hold = tmp_path / "ledger", tmp_path / "hold"
    hold.touch()
    async with get_client() as client:
        run = await start(serving, client, "shop", base_url=threaded.v1, ledger=str(ledger), hold=str(hold))
        process = int(await content(serving, ledger))
        os.kill(process, signal.SIGKILL)
        await state(serving, client, run, "Crashed")
        assert len(threaded.requests) == 2
        hold.unlink()
        await client.set_flow_run_state(run, AwaitingRetry(), force=True)
        await state(serving, client, run, "Completed")
    assert ledger.read_text().split() == [str(process)]
    # The plan was not asked for again, nor the first answer of the purchase; the model heard what happened to its call.
    assert len(threaded.requests) == 3
    [(_, outcome)] = threaded.requests[2].messages()[-1].results
    assert "Whether it took effect is unknown" in outcome
    [turn] = view(session_file("default", str(run), "buyer", home)).turns
    assert (turn.request_id, turn.text) == (f"{run}:buyer:0", "bought, I think")


@pytest.mark.feature("P01")
async def test_cancelling_a_served_run_stops_its_turn_and_its_commands(
    threaded: FakeServer, serving: Path, home: Path, tmp_path: Path
) -> None:
    from prefect import get_client
    from prefect.states import Cancelling

    pidfile = tmp_path / "pid"
    threaded.script(call("bash", {"command": f"echo $$ > {pidfile}; sleep 60"}, id="c1"))
    async with get_client() as client:
        run = await start(serving, client, "work", base_url=threaded.v1, pidfile=str(pidfile))
        command = int(await content(serving, pidfile))
        await client.set_flow_run_state(run, Cancelling())
        await state(serving, client, run, "Cancelled")
    with pytest.raises(ProcessLookupError):
        os.kill(command, 0)
    [turn] = view(session_file("default", str(run), "agent", home)).turns
    assert (turn.status, turn.detail) == ("aborted", "The flow run was cancelled.")
    assert len(threaded.requests) == 1


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
