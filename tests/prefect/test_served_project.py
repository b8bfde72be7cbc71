"""Projects and the watcher as flows that a process of their own serves: checked by the server, killed, scheduled."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from agent_nodes.store.inspect import view
from agent_nodes.store.locate import session_file
from tests.fakes import FakeServer, call, text
from tests.prefect.serving import ROOT, content, deployment, serving, state, until

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


@pytest.mark.feature("N01", "P02", "P03")
async def test_a_served_project_is_checked_by_the_server_and_meets_its_turn_again_after_a_kill(
    threaded: FakeServer, home: Path, tmp_path: Path
) -> None:
    from prefect import get_client
    from prefect.exceptions import PrefectHTTPStatusError
    from prefect.states import AwaitingRetry

    threaded.script(call("pay", id="c1"), text("paid, I think"))
    log, ledger, hold = tmp_path / "log", tmp_path / "ledger", tmp_path / "hold"
    hold.touch()
    paths = {"LEDGER": str(ledger), "HOLD": str(hold)}
    with serving(log, "-m", "tests.prefect.served_project", MODEL_URL=threaded.v1, **paths):
        async with get_client() as client:
            found = await deployment(log, client, "till/served")
            assert found.entrypoint == "tests/prefect/served_project.py:executor.flow"
            for wrong, field in (({}, "message"), ({"message": "pay", "effort": "huge"}, "effort")):
                with pytest.raises(PrefectHTTPStatusError, match=field):
                    await client.create_flow_run_from_deployment(found.id, parameters=wrong)
            parameters = {"message": "pay", "effort": "low", "conversation_id": "friday"}
            run = (await client.create_flow_run_from_deployment(found.id, parameters=parameters)).id
            process = int(await content(log, ledger))
            os.kill(process, signal.SIGKILL)
            await state(log, client, run, "Crashed")
            hold.unlink()
            await client.set_flow_run_state(run, AwaitingRetry(), force=True)
            await state(log, client, run, "Completed")
    assert ledger.read_text().split() == [str(process)]
    assert len(threaded.requests) == 2
    [turn] = view(session_file("till", "friday", "agent", home)).turns
    assert (turn.request_id, turn.prompt, turn.text) == (str(run), "pay", "paid, I think")


SERVE = "from watch_notes import watch_notes as w; w.serve('ticking', interval=5, limit=1, parameters={'folder': %r})"


@pytest.mark.feature("P03")
async def test_a_schedule_goes_on_with_one_conversation_and_ticks_in_silence_when_nothing_is_new(
    home: Path, tmp_path: Path
) -> None:
    from prefect import get_client
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId

    notes, log = tmp_path / "notes", tmp_path / "log"
    notes.mkdir()
    (notes / "beds.md").write_text("Beans along the fence.\n")
    session = session_file("default", "watch-notes", "watcher", home)
    path = os.pathsep.join([str(ROOT), str(ROOT / "flows")])
    with serving(log, "-c", SERVE % str(notes), PYTHONPATH=path):
        async with get_client() as client:
            found = await deployment(log, client, "watch-notes/ticking")
            only = DeploymentFilter(id=DeploymentFilterId(any_=[found.id]))

            async def ended() -> list[Any]:
                """The runs that are over, in the order in which they were due."""
                runs = await client.read_flow_runs(deployment_filter=only)
                over = [run for run in runs if run.state is not None and run.state.is_final()]
                return sorted(over, key=lambda run: run.expected_start_time)

            async def two() -> bool:
                return len(await ended()) >= 2

            async def spoken() -> bool:
                return len(view(session).turns) == 2 and view(session).turns[1].status == "answered"

            await until(log, two)
            assert len(view(session).turns) == 1
            (notes / "seeds.md").write_text("Basil, in May.\n")
            await until(log, spoken)
            runs = await ended()
    assert {run.state_name for run in runs} == {"Completed"}
    assert all(run.auto_scheduled for run in runs)
    first, second = view(session).turns
    assert (first.prompt[:24], second.prompt[:25]) == ("New or changed: beds.md.", "New or changed: seeds.md.")
    assert first.status == "answered"
