"""One subject, warm, in a process of its own: runs the batches that the parent asks for.

    python -m bench.worker SUBJECT URL FOLDER

The name of a batch comes in as a line, its numbers go out as a line of JSON (seconds, bytes).
Sessions live in FOLDER, which is the parent's to remove.
"""

import asyncio
import gc
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.common import CROWD, CROWD_TURNS, DELTA, Subject, Turn, Watch
from bench.subjects import start

SHORT, LONG = 10, 200  # turns of history in the prepared sessions
MIDDLE = 50  # with LONG: the turns between which the file's growth is measured
DELTAS, LONG_DELTAS, ROUNDS = 20, 5000, 10


class Sample(NamedTuple):
    """One turn in seconds: `wall`, `cpu` of the whole process, `first` to the first text."""

    wall: float
    cpu: float
    first: float


def question(number: int) -> str:
    return f"question number {number}, please answer"


async def sample(turn: Turn, text: str, deltas: int) -> Sample:
    watch = Watch()
    cpu, begin = time.process_time(), time.perf_counter()
    await turn(text, watch)
    end, cpu_end = time.perf_counter(), time.process_time()
    if watch.characters != deltas * DELTA:
        raise RuntimeError(f"the answer had {watch.characters} characters instead of {deltas * DELTA}")
    return Sample(end - begin, cpu_end - cpu, watch.first - begin)


async def samples(turn: Turn, deltas: int, *, warm: int, count: int, after: int = 0) -> Sample:
    """Median of `count` turns, after `warm` that do not count; `after` turns lie behind them."""
    taken = [await sample(turn, question(after + number), deltas) for number in range(warm + count)]
    return Sample(*map(statistics.median, zip(*taken[warm:], strict=True)))


class Batches:
    """The batches of one subject; each returns named numbers."""

    def __init__(self, subject: Subject, folder: Path) -> None:
        self.subject = subject
        self.folder = folder
        self.by_name: dict[str, Callable[[], Awaitable[dict[str, float]]]] = {
            "prepare": self.prepare,
            "text": self.text,
            "rounds": self.rounds,
            "delta": self.delta,
            "history": self.history,
            "reopen": self.reopen,
            "crowd": self.crowd,
        }

    @contextmanager
    def place(self, turns: int = 0) -> Iterator[Path]:
        """A folder for a session: an empty one, or a copy of the prepared one with that many turns."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            if turns:
                shutil.copytree(self.prepared(turns), name, dirs_exist_ok=True)
                flush(Path(name))  # so that the next commit pays only for itself
            yield Path(name)

    def prepared(self, turns: int) -> Path:
        return self.folder / f"turns-{turns}"

    async def prepare(self) -> dict[str, float]:
        """Real sessions of SHORT and LONG turns, and how much the file grew between MIDDLE and LONG."""
        sizes: dict[int, int] = {}
        done = 0
        with self.place() as place:
            for turns in (SHORT, MIDDLE, LONG):
                async with self.subject.session(place, f"text-{DELTAS}") as turn:
                    for number in range(done, turns):
                        await sample(turn, question(number), DELTAS)
                done = turns
                sizes[turns] = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
                shutil.copytree(place, self.prepared(turns))
        content = statistics.mean(len(question(number)) + DELTAS * DELTA for number in range(MIDDLE, LONG))
        return {"bytes": (sizes[LONG] - sizes[MIDDLE]) / (LONG - MIDDLE), "content": content}

    async def text(self) -> dict[str, float]:
        """A short text turn in a young session."""
        with self.place() as place:
            async with self.subject.session(place, "text-50") as turn:
                return (await samples(turn, 50, warm=2, count=10))._asdict()

    async def rounds(self) -> dict[str, float]:
        """One tool round: what ten rounds add to a turn, by ten."""
        with self.place() as tools, self.place() as plain:
            async with self.subject.session(tools, f"tools-{ROUNDS}-text-{DELTAS}") as turn:
                long = await samples(turn, DELTAS, warm=1, count=3)
            async with self.subject.session(plain, f"text-{DELTAS}") as turn:
                short = await samples(turn, DELTAS, warm=1, count=3)
        return {"wall": (long.wall - short.wall) / ROUNDS, "cpu": (long.cpu - short.cpu) / ROUNDS}

    async def delta(self) -> dict[str, float]:
        """One text delta of a long answer."""
        with self.place() as place:
            async with self.subject.session(place, f"text-{LONG_DELTAS}") as turn:
                taken = await samples(turn, LONG_DELTAS, warm=1, count=2)
        return {"wall": taken.wall / LONG_DELTAS, "cpu": taken.cpu / LONG_DELTAS}

    async def history(self) -> dict[str, float]:
        """A turn just after SHORT and after LONG turns, and the CPU that each turn of history adds to it."""
        with self.place(SHORT) as place:
            async with self.subject.session(place, f"text-{DELTAS}") as turn:
                early = await samples(turn, DELTAS, warm=2, count=8, after=SHORT)
        with self.place(LONG) as place:
            async with self.subject.session(place, f"text-{DELTAS}") as turn:
                late = await samples(turn, DELTAS, warm=2, count=8, after=LONG)
        return {"wall": late.wall, "cpu": late.cpu, "growth": (late.cpu - early.cpu) / (LONG - SHORT)}

    async def reopen(self) -> dict[str, float]:
        """From a closed session of LONG turns to the first text of the next answer."""
        taken = [await self.reopened() for _ in range(4)]
        wall, cpu = map(statistics.median, zip(*taken[1:], strict=True))
        return {"wall": wall, "cpu": cpu}

    async def reopened(self) -> tuple[float, float]:
        with self.place(LONG) as place:
            cpu, begin = time.process_time(), time.perf_counter()
            async with self.subject.session(place, f"text-{DELTAS}") as turn:
                opened, cpu_opened = time.perf_counter(), time.process_time()
                taken = await sample(turn, question(LONG), DELTAS)
        return opened - begin + taken.first, cpu_opened - cpu + taken.cpu

    async def crowd(self, sessions: int = CROWD) -> dict[str, float]:
        """Sessions at the same time, each opened, led through its turns one after the other, and closed."""
        with self.place() as place:
            cpu, begin = time.process_time(), time.perf_counter()
            async with asyncio.TaskGroup() as group:
                for number in range(sessions):
                    group.create_task(self.one_of_crowd(place / str(number)))
            end, cpu_end = time.perf_counter(), time.process_time()
        turns = sessions * CROWD_TURNS
        return {"wall": end - begin, "cpu": cpu_end - cpu, "rate": turns / (end - begin)}

    async def one_of_crowd(self, folder: Path) -> None:
        folder.mkdir()
        async with self.subject.session(folder, f"text-{DELTAS}") as turn:
            for number in range(CROWD_TURNS):
                await sample(turn, question(number), DELTAS)


def flush(folder: Path) -> None:
    for path in folder.iterdir():
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def main(name: str, url: str, folder: str) -> None:
    subject = start(name, url)
    batches = Batches(subject, Path(folder))
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            gc.collect()
            print(json.dumps(runner.run(once(batches.by_name[line.strip()]))), flush=True)
        runner.run(once(subject.close))


async def once(work: Callable[[], Awaitable[Any]]) -> Any:
    return await work()


if __name__ == "__main__":
    main(*sys.argv[1:])
