"""One owner a session, by an operating system lock that ends with its process."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from agent_nodes.errors import SessionBusy, StorageError
from agent_nodes.store.lock import OwnerLock
from agent_nodes.store.storage import sqlite_storage

HOLDER = """
import sys
from pathlib import Path
from agent_nodes.store.storage import sqlite_storage
storage = sqlite_storage(sys.argv[1]).open()
print("open", flush=True)
sys.stdin.read()
storage.release()
"""


def start_holder(path: Path) -> subprocess.Popen:
    """Another process that owns the session at `path` until its input ends."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    return holder


def end(holder: subprocess.Popen) -> None:
    holder.communicate(timeout=60)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_du_03_a_second_process_is_told_who_owns_the_session_and_changes_nothing(path, tmp_path, monkeypatch):
    holder = start_holder(path)
    try:
        link = tmp_path / "link.sqlite"
        link.symlink_to(path)
        folder = tmp_path / "other"
        folder.symlink_to(tmp_path, target_is_directory=True)
        monkeypatch.chdir(tmp_path)
        before = snapshot(tmp_path)
        for name in (path, link, folder / path.name, "session.sqlite", f"../{tmp_path.name}/session.sqlite"):
            with pytest.raises(SessionBusy, match=f"process {holder.pid} on this host") as caught:
                sqlite_storage(name).open()
            assert (caught.value.pid, caught.value.host) == (holder.pid, socket.gethostname())
        assert snapshot(tmp_path) == before
    finally:
        end(holder)
    sqlite_storage(path).open().release()


def test_du_03_a_killed_owner_frees_the_session_at_once(path):
    holder = start_holder(path)
    with holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait(60)
    storage = sqlite_storage(path).open()
    assert json.loads(Path(f"{path}.owner").read_bytes())["pid"] == os.getpid()
    storage.release()


def test_a_second_open_in_one_process_is_refused_naming_this_process(path):
    storage = sqlite_storage(path).open()
    with pytest.raises(SessionBusy, match=rf"this process \(pid {os.getpid()}\)"):
        sqlite_storage(path).open()
    storage.release()
    storage.release()
    sqlite_storage(path).open().release()


def test_a_holder_that_did_not_say_who_it_is_still_holds(path):
    lock = OwnerLock.acquire(path)
    for text in (b"", b"not json", b"[]", b'{"pid": "x"}'):
        Path(f"{path}.owner").write_bytes(text)
        with pytest.raises(SessionBusy, match="another process") as caught:
            OwnerLock.acquire(path)
        assert caught.value.pid is None
    lock.release()


def test_a_child_process_does_not_keep_the_session(path):
    storage = sqlite_storage(path).open()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False) as child:
        storage.release()
        sqlite_storage(path).open().release()
        child.communicate(b"\n", timeout=60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_does_not_keep_the_session(path):
    storage = sqlite_storage(path).open()
    here, there = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(there)
        os.read(here, 1)
        os._exit(0)
    try:
        storage.release()
        sqlite_storage(path).open().release()
    finally:
        os.close(there)
        os.close(here)
        os.waitpid(pid, 0)


FORKING_HOLDER = """
import os, sys
from agent_nodes.store.storage import sqlite_storage
storage = sqlite_storage(sys.argv[1]).open()
here, there = os.pipe()
if os.fork() == 0:
    os.write(there, b".")
    sys.stdin.read()
    os._exit(0)
os.read(here, 1)
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_keep_the_session_of_a_killed_one(path):
    command = [sys.executable, "-c", FORKING_HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        holder.send_signal(signal.SIGKILL)
        assert holder.wait(60) == -signal.SIGKILL
        sqlite_storage(path).open().release()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
async def test_opening_and_closing_leaves_no_descriptor(path, open_line):
    await (await open_line(path)).close()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        line = await open_line(path)
        with pytest.raises(SessionBusy):
            await open_line(path)
        await line.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_lock_file_that_cannot_be_made_is_a_storage_error(path):
    Path(f"{path}.owner").mkdir()
    with pytest.raises(StorageError, match="is a folder"):
        sqlite_storage(path).open()
    assert not path.exists()
