"""What is opened is a session or refused untouched; a new session appears whole or not at all."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent_nodes.errors import SessionFileError, StorageError
from agent_nodes.store import _empty, _sql, files, schema
from agent_nodes.store.storage import connect, sqlite_storage

NEWER = schema.SCHEMA_VERSION + 1


async def fill(open_line: Callable, path: Path, entries: int = 40) -> None:
    """A closed session with some history."""
    line = await open_line(path)

    def add(tx):
        for _ in range(entries):
            message = {"role": "user", "content": [{"type": "text", "text": "word " * 40}]}
            tx.insert(_sql.INSERT_ENTRY, id=tx.new_id(), target_id=1, kind="user", message=message, seq=tx.seq)

    await line.commit("fill", add)
    await line.close()


def kill_after_commit(path: Path, statements: str) -> None:
    """Run `statements` on the session in a process that is killed before anything is written back from the log."""
    script = (
        "import os, sys; from agent_nodes.store.storage import connect; from agent_nodes.store import schema;"
        "c = connect(sys.argv[1]); schema.configure(c); c.executescript(sys.argv[2]); os.kill(os.getpid(), 9)"
    )
    child = subprocess.run([sys.executable, "-c", script, str(path), statements], timeout=60, check=False)
    assert child.returncode == -signal.SIGKILL
    assert Path(f"{path}-wal").stat().st_size > 0


def names(path: Path) -> set[str]:
    return {found.name for found in path.parent.iterdir()}


async def refused(open_line: Callable, path: Path, kind: str, text: str) -> None:
    """Opening fails as `kind`, and neither a byte nor a name in the folder changes, the lock file apart."""
    before = path.read_bytes()
    companions = names(path)
    with pytest.raises(SessionFileError, match=text) as caught:
        await open_line(path)
    assert caught.value.kind == kind
    assert path.name in str(caught.value)
    assert path.read_bytes() == before
    assert names(path) - {f"{path.name}.owner"} == companions - {f"{path.name}.owner"}


@pytest.mark.parametrize("whole", [True, False], ids=["checked whole", "too big to check whole"])
async def test_du_07_a_noise_in_a_session_is_damage(open_line, path, monkeypatch, whole):
    await fill(open_line, path)
    if not whole:
        monkeypatch.setattr(files, "CHECKED_WHOLE", 0)
    noise = random.Random(7).randbytes(4096)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(noise)
    await refused(open_line, path, "damaged", "is damaged")
    other = path.with_name("other.sqlite")
    await fill(open_line, other)


async def test_du_07_b_an_empty_file_is_a_new_session(open_line, path, add_entry):
    path.touch()
    line = await open_line(path)
    assert line.seq == 0
    assert await line.commit("a", add_entry) == 2


@pytest.mark.parametrize("text", [b"notes, not rows\n", b"x", os.urandom(9000)], ids=["text", "one byte", "noise"])
async def test_du_07_c_another_file_is_refused(open_line, path, text):
    path.write_bytes(text)
    await refused(open_line, path, "foreign", "is no agent session")


async def test_du_07_c_a_database_of_another_program_is_refused(open_line, path):
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE meta (sid, seq)")
        other.commit()
    await refused(open_line, path, "foreign", "not an agent session")


async def test_du_07_d_a_newer_schema_is_refused_naming_both_versions(open_line, path):
    await fill(open_line, path)
    with closing(sqlite3.connect(path)) as newer:
        newer.execute(f"PRAGMA user_version={NEWER}")
        newer.commit()
    await refused(
        open_line, path, "newer", f"version {NEWER}, this program knows versions up to {schema.SCHEMA_VERSION}"
    )


async def test_du_07_d_a_newer_schema_that_only_the_log_holds_is_refused(open_line, path):
    await fill(open_line, path)
    kill_after_commit(path, f"PRAGMA user_version={NEWER};")
    log = Path(f"{path}-wal").read_bytes()
    await refused(open_line, path, "newer", f"schema version {NEWER}")
    Path(f"{path}-shm").unlink()
    await refused(open_line, path, "newer", f"schema version {NEWER}")
    assert Path(f"{path}-wal").read_bytes() == log


async def test_a_session_cut_short_is_damage(open_line, path):
    await fill(open_line, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 6 * schema.PAGE_SIZE])
    await refused(open_line, path, "damaged", "is damaged")


async def test_damage_anywhere_in_a_session_of_ordinary_size_is_found_at_open(open_line, path):
    await fill(open_line, path, entries=400)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 20 * schema.PAGE_SIZE)
        file.write(b"\xff" * 20 * schema.PAGE_SIZE)
    await refused(open_line, path, "damaged", "is damaged")


async def test_damage_that_only_a_later_read_meets_is_reported_as_damage(open_line, path, monkeypatch, entries):
    await fill(open_line, path, entries=400)
    monkeypatch.setattr(files, "CHECKED_WHOLE", 0)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 20 * schema.PAGE_SIZE)
        file.write(b"\xff" * 20 * schema.PAGE_SIZE)
    line = await open_line(path)
    with pytest.raises(SessionFileError) as caught:
        await line.read(entries)
    assert caught.value.kind == "damaged"


async def test_a_log_without_its_session_is_damage_and_not_a_new_session(open_line, path):
    await fill(open_line, path)
    kill_after_commit(path, "UPDATE meta SET project = 'lost';")
    path.write_bytes(b"")
    await refused(open_line, path, "damaged", "-wal file holds data")


async def test_what_a_killed_process_had_committed_is_there(open_line, path):
    await fill(open_line, path)
    kill_after_commit(path, "UPDATE meta SET project = 'kept';")
    line = await open_line(path)
    assert [row[4] for row in await line.read(lambda tx: tx.rows(_sql.ABOUT))] == ["kept"]
    await line.close()
    assert names(path) == {"session.sqlite", "session.sqlite.owner"}


async def test_closing_leaves_one_file_and_an_empty_lock(open_line, path):
    await fill(open_line, path)
    assert names(path) == {"session.sqlite", "session.sqlite.owner"}
    assert Path(f"{path}.owner").read_bytes() == b""


async def test_closing_brings_the_log_into_the_file_also_beside_a_reader(open_line, path):
    await fill(open_line, path)
    line = await open_line(path)
    with closing(files.reading(path, immutable=False)) as reader:
        assert reader.execute("SELECT seq FROM meta").fetchone() == (1,)
        await line.commit("a", lambda tx: None)
        await line.close()
        assert Path(f"{path}-wal").stat().st_size == 0
        assert reader.execute("SELECT seq FROM meta").fetchone() == (2,)


async def test_a_reader_in_a_transaction_does_not_hold_up_closing(open_line, path):
    await fill(open_line, path)
    line = await open_line(path)
    with closing(files.reading(path, immutable=False)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT seq FROM meta").fetchone() == (1,)
        await line.commit("a", lambda tx: None)
        # Far less than the 30 s for which a commit waits.
        await asyncio.wait_for(line.close(), 20)
        assert reader.execute("SELECT seq FROM meta").fetchone() == (1,)
    assert (await open_line(path)).seq == 2


def test_a_folder_or_a_pipe_is_no_session(tmp_path):
    folder = tmp_path / "folder.sqlite"
    folder.mkdir()
    with pytest.raises(SessionFileError, match="no regular file"):
        sqlite_storage(folder).open()
    pipe = tmp_path / "pipe.sqlite"
    os.mkfifo(pipe)
    with pytest.raises(SessionFileError, match="no regular file"):
        sqlite_storage(pipe).open()


def test_a_new_session_that_could_not_be_written_leaves_nothing(path, monkeypatch):
    def full(_fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="no room left"):
        sqlite_storage(path).open()
    assert names(path) == {"session.sqlite.owner"}
    monkeypatch.undo()
    sqlite_storage(path).open().release()


def test_a_new_file_left_half_written_is_written_over(path):
    Path(f"{path}.new").write_bytes(b"half")
    sqlite_storage(path).open().release()
    assert path.read_bytes() == _empty.database()
    assert not Path(f"{path}.new").exists()


@pytest.mark.parametrize("what", ["file", "folder"])
async def test_a_read_only_session_is_refused_unchanged(open_line, unprivileged, what):
    path = unprivileged / "session.sqlite"
    await fill(open_line, path)
    before = path.read_bytes()
    target, mode = (path, 0o400) if what == "file" else (path.parent, 0o500)
    target.chmod(mode)
    try:
        with pytest.raises(StorageError, match=r"read-only|denied|cannot be opened"):
            await open_line(path)
    finally:
        target.chmod(0o700)
    assert path.read_bytes() == before
    await fill(open_line, path)


def test_a_session_in_a_folder_that_cannot_be_made_is_a_storage_error(unprivileged):
    closed = unprivileged / "closed"
    closed.mkdir(mode=0o500)
    with pytest.raises(StorageError, match="access is denied"):
        sqlite_storage(closed / "deeper" / "session.sqlite").open()


def test_a_path_through_a_file_is_a_storage_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"no folder"):
        sqlite_storage(tmp_path / "file" / "session.sqlite").open()


@pytest.mark.parametrize("length", [300, 480, 700])
async def test_du_10_a_long_path_works_or_says_that_it_is_too_long(open_line, tmp_path, add_entry, length):
    folder = tmp_path
    while len(str(folder)) < length - 60:
        folder = folder / ("d" * min(50, length - 60 - len(str(folder))))
    path = folder / "session.sqlite"
    if length > 500:
        with pytest.raises(StorageError, match="the path is too long"):
            await open_line(path)
        assert not any(tmp_path.iterdir())
        return
    for expected in (2, 3):
        line = await open_line(path)
        assert await line.commit("a", add_entry) == expected
        await line.close()
    assert [found.name for found in folder.iterdir()]


def test_du_10_the_longest_path_that_is_let_through_is_one_that_sqlite_opens(tmp_path):
    folder = tmp_path
    while len(str(folder)) < 440:
        folder = folder / ("d" * min(50, 440 - len(str(folder))))
    path = folder / ("s" * (503 - len(str(folder)) - 1))
    assert len(str(path)) == 503
    storage = sqlite_storage(path).open()
    with closing(storage.connect()) as connection:
        schema.prepare(connection, "long")
        connection.execute("UPDATE meta SET project = 'long'")
    storage.release()


def test_du_10_a_long_windows_path_gets_its_prefix():
    long = "C:\\" + "d" * 300
    assert files.long_path(long, windows=True) == "\\\\?\\" + long
    assert files.long_path("\\\\host\\share\\" + "d" * 300, windows=True).startswith("\\\\?\\UNC\\host\\share\\")
    assert files.long_path("\\\\?\\" + long, windows=True) == "\\\\?\\" + long
    assert files.long_path("C:\\short", windows=True) == "C:\\short"
    assert files.long_path(long, windows=False) == long


def test_a_name_with_a_nul_is_a_storage_error():
    with pytest.raises(StorageError, match="no path can have"):
        sqlite_storage("bad\x00name").open()


@pytest.mark.parametrize("name", ["with space?.sqlite", "per%20cent#.sqlite", "한국어.sqlite"])
async def test_names_with_signs_of_their_own_in_addresses_work(open_line, tmp_path, name):
    path = tmp_path / name
    await fill(open_line, path)
    await fill(open_line, path)
    assert names(path) == {name, f"{name}.owner"}


async def test_du_11_a_full_disk_stores_nothing_and_the_line_goes_on_when_there_is_room(
    open_line, path, add_entry, entries
):
    await fill(open_line, path)
    line = await open_line(path)
    pages = line._connection.execute("PRAGMA page_count").fetchone()[0]
    line._connection.execute(f"PRAGMA max_page_count={pages}").fetchone()
    heard = []
    line.subscribe(lambda label, _changes, _seq: heard.append(label))
    with pytest.raises(StorageError, match="no room left") as caught:
        await line.commit("step", lambda tx: add_entry(tx, "long " * 5000))
    assert str(path) in str(caught.value)
    assert heard == []
    line._connection.execute("PRAGMA max_page_count=100000").fetchone()
    assert len(await line.read(entries)) == 40
    assert await line.commit("step", lambda tx: add_entry(tx, "long " * 5000)) == 42
    await line.close()
    with closing(connect(str(path))) as reopened:
        assert reopened.execute("SELECT seq, next_id FROM meta").fetchone() == (2, 43)


def test_a_session_is_its_owners_alone_whatever_the_umask(tmp_path):
    path = tmp_path / "s.sqlite"
    before = os.umask(0)
    try:
        files.prepare(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
