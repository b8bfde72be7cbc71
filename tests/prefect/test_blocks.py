"""A model and its key, kept by the server."""

import asyncio
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from agent_nodes import InputValidationError, ModelConnection, create_agent_node
from agent_nodes.errors import ModelError
from tests.fakes import FakeServer, error, text
from tests.prefect.shown import logged, server_database, shown
from tests.prefect.test_publish import flow_run_id

GUARD = 60
KEY = "k-secret-of-the-block-1"
ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.feature("P05"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]


def connection(model: FakeServer, **fields: Any) -> ModelConnection:
    return ModelConnection(
        provider="acme", model="m", base_url=model.v1, api_kind="openai-completions", **{"api_key": KEY, **fields}
    )


async def test_a_node_reads_its_block_when_it_runs_and_the_key_stays_in_it(fake: FakeServer) -> None:
    from prefect import flow

    fake.api_key = KEY
    fake.script(text("hello"), error(401, f"{KEY} is no key any more"))
    await connection(fake, attributes={"context_window": 4_000}).save("acme-tests", overwrite=True)  # type: ignore[misc]
    ask, same = create_agent_node(connection="acme-tests"), create_agent_node(connection="model-connection/acme-tests")
    runs: list[str] = []

    @flow
    async def talk() -> str:
        runs.append(flow_run_id())
        return (await ask("hi")).text

    @flow
    async def fail() -> None:
        runs.append(flow_run_id())
        await same("hi")

    with logged():
        async with asyncio.timeout(GUARD):
            assert await talk() == "hello"
            with pytest.raises(ModelError, match="\\*\\*\\* is no key any more"):
                await fail()
        await shown(runs[0], lambda now: len(now.artifacts) == 2)
        await shown(runs[1], lambda now: "failed" in now.happened and now.says("Finished in state Failed"))
    kept = server_database()
    assert b"acme-tests" in kept
    assert b"is no key any more" in kept
    assert KEY.encode() not in kept


async def test_a_block_that_is_not_there_is_named(home: Path) -> None:
    from prefect import flow

    ask = create_agent_node(connection="nobody-s").with_options(retries=3)

    @flow
    async def talk() -> None:
        await ask("hi")

    with pytest.raises(InputValidationError, match="no ModelConnection block named 'nobody-s'") as caught:
        await asyncio.wait_for(talk(), GUARD)
    assert caught.value.field == "connection"


def test_the_package_names_the_block_to_prefect() -> None:
    from prefect.blocks.core import Block
    from prefect.utilities.dispatch import get_registry_for_type

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["prefect.collections"]
    [(name, value)] = declared.items()
    module = EntryPoint(name, value, "prefect.collections").load()
    registry = get_registry_for_type(Block) or {}
    assert module.ModelConnection in registry.values()
    assert ModelConnection.get_block_type_slug() == "model-connection"
