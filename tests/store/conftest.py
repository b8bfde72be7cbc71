"""Sessions for the tests of the store: opened on a file or in memory, closed at the end whatever happened."""

import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TypeAlias

import pytest

from agent_nodes.store import _sql
from agent_nodes.store import line as line_module
from agent_nodes.store.line import Line, Tx
from agent_nodes.store.storage import AgentStorageFactory, memory_storage, sqlite_storage

OpenLine: TypeAlias = Callable[..., Awaitable[Line]]


@pytest.fixture
async def open_line() -> AsyncIterator[OpenLine]:
    lines: list[Line] = []
    owners = count(1)

    async def open_one(where: Path | AgentStorageFactory | None = None) -> Line:
        factory = memory_storage() if where is None else sqlite_storage(where) if isinstance(where, Path) else where
        line = await Line.open(factory, owner_id=f"owner-{next(owners)}")
        lines.append(line)
        return line

    yield open_one
    for line in lines:
        await line.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.sqlite"


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder in which permissions count: the super-user, whom they do not bind, acts as somebody else meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        if os.name == "nt" or os.geteuid() != 0:
            yield Path(folder)
            return
        nobody = 65534
        os.chown(folder, nobody, -1)
        os.seteuid(nobody)
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)


@pytest.fixture
def add_entry() -> Callable[[Tx], int]:
    """One user entry; its id."""

    def add(tx: Tx, text: str = "hello") -> int:
        new = tx.new_id()
        message = {"role": "user", "content": [{"type": "text", "text": text}]}
        tx.insert(_sql.INSERT_ENTRY, id=new, target_id=1, kind="user", message=message, seq=tx.seq)
        return new

    return add


@pytest.fixture
def entries() -> Callable[[Tx], list[tuple]]:
    def read(tx: Tx) -> list[tuple]:
        return tx.rows(_sql.CONTEXT, target_id=1, head=0)

    return read


@pytest.fixture(autouse=True)
def by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions run in writer threads, as on a slow disk; tests of the other way say so themselves."""
    monkeypatch.setattr(line_module, "IN_PLACE_SECONDS", 0.0)
