"""The write line of a session: one first-in-first-out queue, one transaction at a time.

A transaction runs in a writer thread, so that a slow disk holds up nobody else; or right in place while the last one
took less than this session's share of :data:`IN_PLACE_SECONDS`, since then handing it over would cost more than it.

What runs in a transaction is plain and synchronous, so it never waits for a model, a tool or a person. Waiters only
wait: one that is cancelled changes nothing about its commit. The last statement of every commit is a fence on owner and
sequence, so a process that lost the session cannot write to it.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.errors import AgentClosed, AgentError, SessionLost, StorageError
from agent_nodes.store import _sql, faults, pool, schema
from agent_nodes.store.lock import held
from agent_nodes.store.statement import Statement
from agent_nodes.store.storage import AgentStorage, AgentStorageFactory

T = TypeVar("T")

# Jobs that may take long however fast the disk: files are made and checked, the log is brought in.
_SLOW = frozenset({"open", "close"})

Subscriber: TypeAlias = Callable[[str, list[Any], int], None]
Execute: TypeAlias = Callable[..., sqlite3.Cursor]


# A disk that answers within this may hold up the event loop for as long; the sessions of the process share it.
IN_PLACE_SECONDS = 0.001


class Tx:
    """One transaction; valid only inside the function it was handed to.

    ``seq`` is the number this commit will carry (in a read: of the last commit). ``changes`` takes whatever in-memory
    records subscribers should see.
    """

    __slots__ = ("_execute", "_next_id", "_writes", "changes", "seq", "statements")

    def __init__(self, execute: Execute, seq: int, next_id: int, *, writes: bool) -> None:
        self._execute = execute
        self._next_id = next_id
        self._writes = writes
        self.seq = seq
        self.statements = 0
        self.changes: list[Any] = []

    def new_id(self) -> int:
        """The next id of the session; given back when the transaction is rolled back."""
        new = self._next_id
        self._next_id = new + 1
        return new

    def insert(self, statement: Statement, /, **values: Any) -> None:
        """One row; columns left out take their default."""
        self.run(statement, **values)

    def run(self, statement: Statement, /, **values: Any) -> int:
        """The number of rows it changed."""
        if not self._writes:
            raise RuntimeError("a read cannot write; use Line.commit")
        self.statements += 1
        return self._execute(statement.text, statement.bind(values)).rowcount

    def rows(self, statement: Statement, /, **values: Any) -> list[tuple[Any, ...]]:
        """All rows, columns in the order of the statement, JSON columns as text."""
        self.statements += 1
        return self._execute(statement.text, statement.bind(values)).fetchall()

    def end(self) -> int:
        """Make every later use fail; returns the next free id."""
        self._execute = _ended
        return self._next_id


def _ended(*_: Any) -> NoReturn:
    raise RuntimeError("this transaction has ended")


class _Job:
    __slots__ = ("error", "future", "label", "result", "run", "tx")

    def __init__(self, run: Callable[[_Job], Any], label: str, future: asyncio.Future[Any]) -> None:
        self.run = run
        self.label = label
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None
        # Set by a commit that was stored: what subscribers hear of.
        self.tx: Tx | None = None


class Line:
    """Made by :meth:`open`, bound to the event loop and the process it was opened in.

    ``commits`` counts stored commits, ``statements`` all statements run by them and by reads, fences included.
    """

    storage: AgentStorage

    def __init__(self, label: str, owner_id: str) -> None:
        self.label = label
        self.owner_id = owner_id
        self.commits = 0
        self.statements = 0
        self._loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        self._jobs: deque[_Job] = deque()
        self._lock = threading.Lock()
        self._working = False
        self._landing = 0  # jobs of threads that the loop has not been told of; the loop alone counts
        self._subscribers: list[Subscriber] = []
        # How long the last transaction took; a disk is fast until it was slow once.
        self._pace = 0.0
        self._closing: asyncio.Future[None] | None = None
        # From here on only the writer thread of the current job changes anything.
        self._release: Callable[[], None] | None = None
        self._connection: sqlite3.Connection | None = None
        self._execute: Execute = _ended
        self._poison: SessionLost | StorageError | None = None
        self._durable: bool = False
        self._place: tuple[int, int] | None = None
        self._seq = 0
        self._next_id = 0

    @classmethod
    async def open(cls, factory: AgentStorageFactory, *, owner_id: str) -> Line:
        """Become the owner of the session ``factory`` leads to; ``owner_id`` is new for every open.

        Raises ``SessionBusy``, ``SessionFileError`` or ``StorageError``; then nothing is held.
        """
        line = cls(factory.label, owner_id)
        try:
            later = await line._submit(lambda _: line._open(factory), "open")
            if later is not None:
                line._take(await later)
            await line._submit(line._connect, "open")
        except BaseException:
            await line.close()
            raise
        return line

    @property
    def seq(self) -> int:
        """Number of the last commit that was stored."""
        return self._seq

    def subscribe(self, fn: Subscriber) -> None:
        """Call ``fn(label, tx.changes, seq)`` on the event loop after each commit, in order, before its waiter goes on.

        What ``fn`` raises goes to that waiter, although the commit is stored.
        """
        self._subscribers.append(fn)

    async def commit(self, label: str, fn: Callable[[Tx], T], *, durable: bool = True) -> T:
        """Run ``fn`` in one transaction and store it; its result, once stored.

        ``durable`` waits for the disk, so that the commit and all before it survive power loss; without it they survive
        the end of this process only. What ``fn`` raises undoes the transaction and is raised here; the line goes on.
        Raises ``StorageError`` (nothing stored, or the outcome is unknown and the line is dead), ``SessionFileError``
        (damaged), ``SessionLost`` (another owner; the line is dead), ``AgentClosed``.
        """
        return await self._submit(lambda job: self._write(job, fn, durable), label)

    async def read(self, fn: Callable[[Tx], T]) -> T:
        """Run ``fn`` in a read transaction, in its turn among the commits. Raises as :meth:`commit` does."""
        return await self._submit(lambda _: self._read(fn), "read")

    async def close(self) -> None:
        """Let what is queued finish, close the connection, give the session free. Later calls wait for the same.

        The lock is free when this returns or raises.
        """
        if self._closing is None:
            self._closing = self._submit(self._close, "close")
        await asyncio.shield(self._closing)

    # -- the queue -----------------------------------------------------------------------------------------------------

    def _submit(self, run: Callable[[_Job], Any], label: str) -> asyncio.Future[Any]:
        if self._pid != os.getpid():
            raise SessionLost(f"The session {self.label} was opened by another process; open it anew in this one.")
        if self._closing is not None:
            raise AgentClosed(f"The session {self.label} is closed.")
        future: asyncio.Future[Any] = self._loop.create_future()
        job = _Job(run, label, future)
        with self._lock:
            self._jobs.append(job)
            if self._working:
                self._landing += 1
                return future
            self._working = True
        # In place it would be known before what a thread has committed and the loop has not been told yet.
        if self._pace * max(held(), 1) < IN_PLACE_SECONDS and label not in _SLOW and not self._landing:
            self._work_in_place()
        else:
            self._landing += 1
            pool.submit(self._work)
        return future

    def _work_in_place(self) -> None:
        """The one job there is, on the event loop. What subscribers submit meanwhile waits for a thread."""
        job = self._jobs.popleft()
        self._run(job)
        self._settle(job)
        with self._lock:
            self._working = bool(self._jobs)
            if not self._working:
                return
        pool.submit(self._work)

    def _work(self) -> bool:
        """One job, in a writer thread; whether there are more, which wait behind those of other sessions."""
        job = self._jobs.popleft()
        self._run(job)
        _call_soon(self._loop, lambda: self._land(job))
        with self._lock:
            self._working = bool(self._jobs)
            return self._working

    def _run(self, job: _Job) -> None:
        began = SYSTEM_CLOCK.monotonic()
        try:
            job.result = job.run(job)
        except BaseException as error:
            # A future cannot carry StopIteration.
            job.error = RuntimeError(f"{job.label}: {error!r}") if isinstance(error, StopIteration) else error
        if job.tx is not None:
            self._pace = SYSTEM_CLOCK.monotonic() - began

    def _land(self, job: _Job) -> None:
        try:
            self._settle(job)
        finally:
            self._landing -= 1

    def _settle(self, job: _Job) -> None:
        """On the event loop: subscribers first, then whoever waits."""
        error = job.error
        if job.tx is not None and error is None:
            for subscriber in self._subscribers:
                try:
                    subscriber(job.label, job.tx.changes, job.tx.seq)
                except Exception as raised:
                    error = error or raised
        if not job.future.done():
            if error is None:
                job.future.set_result(job.result)
            else:
                job.future.set_exception(error)
        elif error is not None:
            message = f"{job.label} of the session {self.label} failed after its caller was cancelled"
            self._loop.call_exception_handler({"message": message, "exception": error})

    # -- in a writer thread --------------------------------------------------------------------------------------------

    def _open(self, factory: AgentStorageFactory) -> Awaitable[AgentStorage] | None:
        storage = factory.open()
        if not isinstance(storage, AgentStorage):
            return storage
        self._take(storage)
        return None

    def _take(self, storage: AgentStorage) -> None:
        self.storage = storage
        self.label = storage.label
        self._release = storage.release

    def _connect(self, _: _Job) -> None:
        try:
            connection = self._connection = self.storage.connect()
            self._place = None if self.storage.path is None else _place(self.storage.path)
            schema.prepare(connection, self.label)
            self._execute = execute = connection.cursor().execute
            execute("BEGIN IMMEDIATE")
            execute(_sql.OWN.text, _sql.OWN.bind({"owner_id": self.owner_id}))
            self._seq, self._next_id = execute(_sql.COUNTERS.text, _sql.COUNTERS.bind({})).fetchone()
            execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise self._meaning(error) from error

    def _write(self, job: _Job, fn: Callable[[Tx], T], durable: bool) -> T:
        if self._poison is not None:
            raise _again(self._poison)
        observe = self.storage.observe
        execute = self._execute
        was = self._seq
        tx = Tx(execute, was + 1, self._next_id, writes=True)
        try:
            if observe is not None:
                observe("begin", job.label)
            if durable is not self._durable:
                # Refused inside a transaction.
                execute("PRAGMA synchronous=FULL" if durable else "PRAGMA synchronous=NORMAL")
                self._durable = durable
            execute("BEGIN IMMEDIATE")
            result = fn(tx)
            next_id = tx.end()
            self._fence(was, next_id)
            if durable:
                self._check_place()
            if observe is not None:
                observe("commit", job.label)
        except BaseException as error:
            tx.end()
            self._roll_back()
            self._raise(error)
        self._store()
        self._seq = was + 1
        self._next_id = next_id
        self.commits += 1
        self.statements += tx.statements + 1
        job.tx = tx
        if observe is not None:
            observe("committed", job.label)
        return result

    def _fence(self, was: int, next_id: int) -> None:
        values = {"me": self.owner_id, "was": was, "now": was + 1, "nid": next_id}
        if self._execute(_sql.FENCE.text, _sql.FENCE.bind(values)).rowcount != 1:
            self._poison = SessionLost(
                f"The session {self.label} was taken over by another owner. Nothing of this step was stored; "
                "open it again to go on from what the other one left."
            )
            raise self._poison

    def _check_place(self) -> None:
        """What is written to a file that was deleted or replaced would be gone with this process."""
        if self._place is not None and self.storage.path is not None and _place(self.storage.path) != self._place:
            self._poison = SessionLost(
                f"The session file {self.label} was deleted or replaced while it was open. Nothing of this step was "
                "stored; put the file back and open it again."
            )
            raise self._poison

    def _store(self) -> None:
        try:
            self._execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            # These are decided before the log takes the commit's last page; after anything else it may be there.
            if faults.primary_code(error) in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY}:
                raise self._meaning(error) from error
            self._poison = faults.unknown_outcome(error, self.label)
            raise self._poison from error

    def _roll_back(self) -> None:
        """SQLite may have done it by itself. One that fails leaves the connection in a state nobody knows."""
        if self._connection is not None and self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error as error:
                self._poison = self._poison or faults.unknown_outcome(error, self.label)

    def _meaning(self, error: BaseException) -> BaseException:
        if isinstance(error, sqlite3.Error):
            return faults.database_error(error, self.label) or error
        return error

    def _raise(self, error: BaseException) -> NoReturn:
        meant = self._meaning(error)
        if meant is error:
            raise error
        raise meant from error

    def _read(self, fn: Callable[[Tx], T]) -> T:
        if self._poison is not None:
            raise _again(self._poison)
        tx = Tx(self._execute, self._seq, self._next_id, writes=False)
        try:
            self._execute("BEGIN")
            result = fn(tx)
            self._execute("COMMIT")
        except BaseException as error:
            self._roll_back()
            self._raise(error)
        finally:
            tx.end()
            self.statements += tx.statements
        return result

    def _close(self, _: _Job) -> None:
        self._execute = _ended
        try:
            if self._connection is not None:
                if self._poison is None:
                    self._tidy(self._connection)
                self._connection.close()
            if self._release is not None and self.commits == 0 and self._poison is None:
                self.storage.discard()
        finally:
            if self._release is not None:
                self._release()

    def _tidy(self, connection: sqlite3.Connection) -> None:
        """Bring the log into the file and the planner's figures up to date; a reader or a full disk may prevent it."""
        try:
            for pragma in ("busy_timeout=0", "analysis_limit=400", "optimize", "wal_checkpoint(TRUNCATE)"):
                connection.execute(f"PRAGMA {pragma}").fetchall()
        except sqlite3.Error:
            self._roll_back()


def _place(path: Path) -> tuple[int, int] | None:
    """Which file is at ``path`` now; None without one."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _again(error: SessionLost | StorageError) -> AgentError:
    """A new error of the same kind and text: raising one object twice would tie its tracebacks together."""
    return type(error)(*error.args)


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        # The loop was closed meanwhile: what is stored stays stored, and nobody is left to tell.
        if not loop.is_closed():
            raise
