"""Projects on the fake provider, with sessions, history and configuration in folders of their own, and no server."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeServer

Options = dict[str, Any]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AGENT_NODES_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AGENT_NODES_CONFIG", "")
    monkeypatch.setenv("PREFECT_SERVER_EPHEMERAL_ENABLED", "false")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    async with FakeServer() as server:
        yield server
        server.assert_accepted()


@pytest.fixture
def model(fake: FakeServer) -> Options:
    """Options that lead to the fake provider."""
    return {
        "provider": "fake",
        "model": "m",
        "base_url": fake.v1,
        "api_key": "k-test",
        "api_kind": "openai-completions",
    }
