"""No server, and none that could be started: a node that asked for one would fail at once."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeServer


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("AGENT_NODES_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PREFECT_SERVER_EPHEMERAL_ENABLED", "false")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    async with FakeServer() as server:
        yield server
        server.assert_accepted()


@pytest.fixture
def model(fake: FakeServer) -> dict[str, Any]:
    """Options that lead to the fake provider."""
    return {
        "provider": "fake",
        "model": "m",
        "base_url": fake.v1,
        "api_key": "k-test",
        "api_kind": "openai-completions",
    }
