"""The write line: order, rollback, fencing, and what its waiters and subscribers see."""

import asyncio
import gc
import os
import sqlite3
import threading
import weakref
from contextlib import closing

import pytest

from agent_nodes.errors import AgentClosed, SessionLost, StorageError
from agent_nodes.store import _sql, pool
from agent_nodes.store.line import Line
from agent_nodes.store.storage import AgentStorage, connect, memory_storage


class Failing(sqlite3.Connection):
    """A connection whose next statement of a kind fails as told."""

    fail: tuple[str, int] | None = None

    def cursor(self, *_):
        return super().cursor(FailingCursor)


class FailingCursor(sqlite3.Cursor):
    def execute(self, text, *parameters):
        assert isinstance(self.connection, Failing)
        if self.connection.fail and text.startswith(self.connection.fail[0]):
            _, code = self.connection.fail
            self.connection.fail = None
            error = sqlite3.OperationalError("told to fail")
            error.sqlite_errorcode = code
            raise error
        return super().execute(text, *parameters)


class FailingStorage:
    label = "failing"

    def __init__(self, path) -> None:
        self.path = path
        self.connection: Failing | None = None

    def open(self) -> AgentStorage:
        def connected() -> sqlite3.Connection:
            self.connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, factory=Failing)
            return self.connection

        return AgentStorage(self.label, connected)

    def fail(self, statement: str, code: int) -> None:
        """The next statement that begins like this fails with `code`."""
        assert self.connection is not None
        self.connection.fail = (statement, code)


async def test_commits_are_stored_in_the_order_in_which_they_were_asked_for(open_line, path, add_entry, entries):
    line = await open_line(path)
    heard = []
    line.subscribe(lambda label, changes, seq: heard.append((label, changes, seq)))

    def step(number):
        def fn(tx):
            tx.changes.append(number)
            return add_entry(tx), tx.seq

        return fn

    results = [asyncio.ensure_future(line.commit(f"step {n}", step(n), durable=n % 2 == 0)) for n in range(20)]
    ids = [await result for result in results]
    assert ids == [(n + 2, n + 1) for n in range(20)]
    assert heard == [(f"step {n}", [n], n + 1) for n in range(20)]
    assert [row[0] for row in await line.read(entries)] == [n + 2 for n in range(20)]
    assert (line.seq, line.commits, line.statements) == (20, 20, 41)


async def test_subscribers_hear_of_a_commit_before_its_waiter_goes_on(open_line):
    line = await open_line()
    order = []
    line.subscribe(lambda label, _changes, _seq: order.append(f"heard {label}"))
    await line.commit("a", lambda tx: None)
    order.append("waiter of a")
    assert order == ["heard a", "waiter of a"]


async def test_a_cancelled_waiter_does_not_cancel_its_commit_nor_disturb_the_next(open_line, path, add_entry, entries):
    line = await open_line(path)
    heard = []
    line.subscribe(lambda label, _changes, _seq: heard.append(label))
    inside, go_on = threading.Event(), threading.Event()

    def slow(tx):
        inside.set()
        assert go_on.wait(30)
        return add_entry(tx)

    running = asyncio.ensure_future(line.commit("running", slow))
    queued = asyncio.ensure_future(line.commit("queued", add_entry))
    after = asyncio.ensure_future(line.commit("after", add_entry))
    assert await asyncio.to_thread(inside.wait, 30)
    running.cancel()
    queued.cancel()
    await asyncio.wait([running, queued])
    assert running.cancelled()
    assert queued.cancelled()
    go_on.set()
    assert await after == 4
    assert heard == ["running", "queued", "after"]
    assert len(await line.read(entries)) == 3


async def test_a_failure_whose_waiter_is_gone_is_reported_to_the_loop(open_line):
    line = await open_line()
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context["exception"]))
    failing = asyncio.ensure_future(line.commit("bad", lambda tx: 1 / 0))
    await asyncio.sleep(0)
    failing.cancel()
    await line.commit("next", lambda tx: None)
    assert [type(error) for error in reported] == [ZeroDivisionError]


async def test_what_a_function_raises_undoes_its_transaction_and_gives_its_ids_back(
    open_line, path, add_entry, entries
):
    line = await open_line(path)
    heard = []
    line.subscribe(lambda label, _changes, _seq: heard.append(label))

    def bad(tx):
        add_entry(tx)
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await line.commit("bad", bad)
    assert await line.commit("good", lambda tx: (add_entry(tx), tx.seq)) == (2, 1)
    assert heard == ["good"]
    assert len(await line.read(entries)) == 1


async def test_a_function_that_raises_stop_iteration_does_not_leave_its_waiter_hanging(open_line):
    line = await open_line()
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(line.commit("bad", lambda tx: next(iter(()))), 30)


async def test_a_wrong_statement_stays_a_fault_of_ours(open_line, add_entry):
    line = await open_line()

    def twice(tx):
        for _ in range(2):
            tx.insert(_sql.INSERT_RECEIPT, request_id="r", target_id=1, type="run", digest="", seq=tx.seq)

    with pytest.raises(sqlite3.IntegrityError):
        await line.commit("twice", twice)
    assert await line.commit("good", add_entry) == 2


async def test_what_a_subscriber_raises_reaches_the_waiter_and_the_others_still_hear(open_line, add_entry, entries):
    line = await open_line()
    heard = []

    def broken(*_):
        raise LookupError("projection")

    line.subscribe(broken)
    line.subscribe(lambda label, _changes, _seq: heard.append(label))
    with pytest.raises(LookupError, match="projection"):
        await line.commit("stored", add_entry)
    assert heard == ["stored"]
    assert len(await line.read(entries)) == 1


async def test_a_transaction_is_over_when_its_function_is(open_line, add_entry):
    line = await open_line()
    kept = await line.commit("keep", lambda tx: tx)
    with pytest.raises(RuntimeError, match="has ended"):
        add_entry(kept)


async def test_a_read_cannot_write_and_sees_what_was_committed_before_it(open_line, add_entry, entries):
    line = await open_line()
    committed = asyncio.ensure_future(line.commit("a", add_entry))
    seen = asyncio.ensure_future(line.read(lambda tx: (tx.seq, len(entries(tx)))))
    await committed
    assert await seen == (1, 1)
    with pytest.raises(RuntimeError, match="cannot write"):
        await line.read(add_entry)
    assert line.commits == 1


async def test_a_second_writer_is_found_by_the_fence_and_ends_the_line(open_line, path, add_entry, entries):
    line = await open_line(path)
    await line.commit("mine", add_entry)
    with closing(connect(str(path))) as thief:
        thief.execute("UPDATE meta SET owner_id = 'thief'")
    with pytest.raises(SessionLost, match="taken over"):
        await line.commit("lost", add_entry)
    with pytest.raises(SessionLost, match="taken over"):
        await line.commit("later", add_entry)
    with pytest.raises(SessionLost, match="taken over"):
        await line.read(entries)
    with closing(connect(str(path))) as thief:
        assert thief.execute("SELECT count(*), max(id) FROM entry").fetchone() == (1, 2)
        assert thief.execute("SELECT owner_id, seq, next_id FROM meta").fetchone() == ("thief", 1, 3)


async def test_a_writer_with_the_same_owner_is_found_by_its_sequence(open_line, path, add_entry):
    line = await open_line(path)
    with closing(connect(str(path))) as twin:
        twin.execute("UPDATE meta SET seq = seq + 1")
    with pytest.raises(SessionLost):
        await line.commit("lost", add_entry)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
async def test_a_forked_process_cannot_use_the_line_but_can_open_its_own(open_line, path, tmp_path, add_entry):
    line = await open_line(path)
    await line.commit("before", add_entry)
    here, there = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = b"nothing"
        try:
            said = _in_child(line, tmp_path / "own.sqlite", add_entry)
        finally:
            os.write(there, said)
            os._exit(0)
    os.close(there)
    with os.fdopen(here, "rb") as answer:
        said = await asyncio.to_thread(answer.read)
    await asyncio.to_thread(os.waitpid, pid, 0)
    assert said == b"SessionLost 2"
    assert await line.commit("after", add_entry) == 3


def _in_child(line, own, add_entry) -> bytes:
    async def work() -> bytes:
        from agent_nodes.store.storage import sqlite_storage

        try:
            await line.commit("stolen", add_entry)
        except SessionLost:
            mine = await Line.open(sqlite_storage(own), owner_id="child")
            new = await mine.commit("own", add_entry)
            await mine.close()
            return f"SessionLost {new}".encode()
        return b"committed"

    # The parent's loop is marked as running in this thread, which the copy inherited.
    asyncio.events._set_running_loop(None)
    loop = asyncio.new_event_loop()
    return loop.run_until_complete(asyncio.wait_for(work(), 30))


async def test_only_durable_commits_wait_for_the_disk(open_line, path, add_entry):
    line = await open_line(path)
    levels = []

    def level(tx):
        # Asked on the line's own connection: 1 is NORMAL, 2 is FULL.
        levels.append(line._connection.execute("PRAGMA synchronous").fetchone()[0])

    for durable in (True, False, False, True):
        await line.commit("step", level, durable=durable)
    assert levels == [2, 1, 1, 2]


async def test_observers_see_three_points_of_each_commit_in_the_writer_thread(open_line, path, add_entry):
    line = await open_line(path)
    seen = []

    def observe(point, label):
        with closing(connect(str(path))) as other:
            stored = other.execute("SELECT count(*) FROM entry").fetchone()[0]
        seen.append((point, label, stored, threading.current_thread().name))

    line.storage.observe = observe
    await line.commit("a", add_entry)
    await line.read(lambda tx: None)
    name = "agent-nodes-writer"
    assert seen == [("begin", "a", 0, name), ("commit", "a", 0, name), ("committed", "a", 1, name)]


@pytest.mark.parametrize("point", ["begin", "commit"])
async def test_a_failing_observer_fails_its_commit_only(open_line, point, add_entry, entries):
    line = await open_line()

    def observe(at, _label):
        if at == point:
            raise LookupError(point)

    line.storage.observe = observe
    with pytest.raises(LookupError):
        await line.commit("a", add_entry)
    line.storage.observe = None
    assert await line.commit("b", add_entry) == 2
    assert len(await line.read(entries)) == 1


async def test_a_commit_of_unknown_outcome_ends_the_line(open_line, path, add_entry):
    storage = FailingStorage(path)
    line = await open_line(storage)
    await line.commit("good", add_entry)
    storage.fail("COMMIT", sqlite3.SQLITE_IOERR_FSYNC)
    with pytest.raises(StorageError, match="is unknown"):
        await line.commit("unknown", add_entry)
    for _ in range(2):
        with pytest.raises(StorageError, match="is unknown"):
            await line.commit("later", add_entry)


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY])
async def test_a_commit_that_surely_was_not_stored_leaves_the_line_usable(open_line, path, add_entry, entries, code):
    storage = FailingStorage(path)
    line = await open_line(storage)
    storage.fail("COMMIT", code)
    with pytest.raises(StorageError, match="Nothing of this step was stored"):
        await line.commit("refused", add_entry)
    assert await line.commit("again", add_entry) == 2
    assert len(await line.read(entries)) == 1


async def test_an_input_output_error_inside_a_transaction_undoes_it(open_line, path, add_entry, entries):
    storage = FailingStorage(path)
    line = await open_line(storage)
    storage.fail("UPDATE meta", sqlite3.SQLITE_IOERR_WRITE)
    with pytest.raises(StorageError, match="reading or writing failed"):
        await line.commit("refused", add_entry)
    assert await line.commit("again", add_entry) == 2
    assert len(await line.read(entries)) == 1


async def test_closing_finishes_what_is_queued_and_refuses_what_comes_later(open_line, path, add_entry, entries):
    line = await open_line(path)
    queued = [asyncio.ensure_future(line.commit("queued", add_entry)) for _ in range(3)]
    await asyncio.sleep(0)
    first = asyncio.ensure_future(line.close())
    await line.close()
    await first
    assert [await task for task in queued] == [2, 3, 4]
    with pytest.raises(AgentClosed):
        await line.commit("late", add_entry)
    assert len(await (await open_line(path)).read(entries)) == 3


async def test_ids_and_sequence_go_on_after_reopening(open_line, path, add_entry):
    line = await open_line(path)
    assert await line.commit("a", add_entry) == 2
    await line.close()
    line = await open_line(path)
    assert line.seq == 1
    assert await line.commit("b", lambda tx: (add_entry(tx), tx.seq)) == (3, 2)


async def test_many_sessions_share_four_threads_and_an_idle_one_is_not_kept(open_line, add_entry):
    lines = [await open_line() for _ in range(12)]
    for _ in range(3):
        tasks = [asyncio.ensure_future(line.commit("a", add_entry)) for line in lines]
        await asyncio.wait(tasks)
    writers = [thread for thread in threading.enumerate() if thread.name == "agent-nodes-writer"]
    assert 1 <= len(writers) <= pool.THREADS
    assert all(thread.daemon for thread in writers)
    line = await Line.open(memory_storage(), owner_id="gone")
    await line.commit("a", add_entry)
    await line.close()
    gone = weakref.ref(line)
    del line
    gc.collect()
    assert gone() is None


async def test_a_loop_that_is_gone_does_not_end_the_writer_thread(path, open_line, add_entry, entries):
    inside, go_on = threading.Event(), threading.Event()

    def slow(tx):
        inside.set()
        assert go_on.wait(30)
        add_entry(tx)

    def elsewhere():
        loop = asyncio.new_event_loop()

        async def work():
            from agent_nodes.store.storage import sqlite_storage

            line = await Line.open(sqlite_storage(path), owner_id="short")
            task = asyncio.ensure_future(line.commit("slow", slow))
            assert await asyncio.to_thread(inside.wait, 30)
            task.cancel()
            return line

        line = loop.run_until_complete(work())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        return line

    line = await asyncio.to_thread(elsewhere)
    go_on.set()
    done = threading.Event()

    def stop() -> bool:
        # Behind the slow commit: nothing else waits in that line.
        if line.commits == 0:
            return True
        assert line._connection is not None
        assert line._release is not None
        line._connection.close()
        line._release()
        done.set()
        return False

    pool.submit(stop)
    assert await asyncio.to_thread(done.wait, 30)
    assert len(await (await open_line(path)).read(entries)) == 1
