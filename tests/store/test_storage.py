"""Factories: file, memory, and others that follow the same protocol."""

import asyncio
import threading

import pytest

from agent_nodes.errors import SessionBusy
from agent_nodes.store.line import Line
from agent_nodes.store.storage import AgentStorage, connect, memory_storage, sqlite_storage


class Other:
    """A factory of somebody else: async, over a connection of its own."""

    label = "other"

    def __init__(self, path) -> None:
        self.path = path
        self.released = 0

    async def open(self) -> AgentStorage:
        await asyncio.sleep(0)
        return AgentStorage("other storage", lambda: connect(str(self.path)), self.release)

    def release(self) -> None:
        self.released += 1


async def test_sessions_in_memory_are_apart_and_end_with_their_line(open_line, add_entry, entries):
    first, second = await open_line(), await open_line()
    await first.commit("a", add_entry)
    assert len(await first.read(entries)) == 1
    assert await second.read(entries) == []
    await first.close()
    assert await (await open_line()).read(entries) == []


async def test_an_async_factory_is_opened_filled_and_released_once(open_line, path, add_entry, entries):
    other = Other(path)
    line = await open_line(other)
    assert line.label == "other storage"
    assert await line.commit("a", add_entry) == 2
    await line.close()
    await line.close()
    assert other.released == 1
    assert len(await (await open_line(other)).read(entries)) == 1


async def test_a_storage_that_cannot_connect_is_released(path):
    class Broken(Other):
        async def open(self) -> AgentStorage:
            def refuse():
                raise LookupError("no route")

            return AgentStorage("broken", refuse, self.release)

    broken = Broken(path)
    with pytest.raises(LookupError, match="no route"):
        await Line.open(broken, owner_id="a")
    assert broken.released == 1


async def test_an_opening_that_is_cancelled_leaves_the_session_free(path, open_line):
    inside, go_on = threading.Event(), threading.Event()

    class Slow:
        label = "slow"

        def open(self) -> AgentStorage:
            storage = sqlite_storage(path).open()
            inside.set()
            assert go_on.wait(30)
            return storage

    opening = asyncio.ensure_future(Line.open(Slow(), owner_id="a"))
    assert await asyncio.to_thread(inside.wait, 30)
    with pytest.raises(SessionBusy):
        await open_line(path)
    opening.cancel()
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.wait([opening])
    assert opening.cancelled()
    await open_line(path)


async def test_a_session_file_is_made_with_its_folders(open_line, tmp_path):
    await open_line(tmp_path / "a" / "b" / "session.sqlite")
    assert (tmp_path / "a" / "b" / "session.sqlite").stat().st_size > 0


async def test_opening_a_session_loads_no_table_library(tmp_path):
    import subprocess
    import sys

    script = (
        "import asyncio, sys\n"
        "from agent_nodes.store.line import Line\n"
        "from agent_nodes.store.storage import sqlite_storage\n"
        "async def main():\n"
        "    line = await Line.open(sqlite_storage(sys.argv[1]), owner_id='a')\n"
        "    await line.commit('a', lambda tx: tx.new_id())\n"
        "    await line.close()\n"
        "asyncio.run(main())\n"
        "print(sorted({'sqlalchemy', 'sqlmodel', 'pydantic', 'filelock'} & set(sys.modules)))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "s.sqlite")]
    child = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (child.stdout, child.stderr) == ("[]\n", "")


def test_the_label_of_a_factory_says_where():
    assert sqlite_storage("somewhere/s.sqlite").label == "somewhere/s.sqlite"
    assert memory_storage().label == "in memory"


async def test_a_session_that_was_never_begun_is_taken_away_again(open_line, path):
    line = await open_line(path)
    assert path.is_file()
    await line.close()
    assert [found.name for found in path.parent.iterdir()] == [f"{path.name}.owner"]


async def test_a_session_that_was_there_before_stays(open_line, path):
    line = await open_line(path)
    await line.commit("begin", lambda tx: None)
    await line.close()
    before = path.read_bytes()
    await (await open_line(path)).close()
    assert path.is_file()
    assert len(path.read_bytes()) == len(before)
    path.write_bytes(b"")  # somebody's own empty file, made a session
    await (await open_line(path)).close()
    assert path.is_file()
