"""One run: starts the children, and lets the subjects take turns, round by round."""

import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figures import FLOORS, OURS, Taken
from bench.processes import (
    Worker,
    cold_start,
    fake_model,
    import_of,
    last_request,
    memory_of,
    node_worker,
    prefect_server,
    structure_of,
    turn_counts,
    worker,
)

# A disk that others use too is fast for a while and slow for a while: short turns let all subjects meet both.
PASSES = 3
NODES = ("node", "flow")  # batches of the nodes' own process
LONG = ("crowd", "memory", "structure", *NODES)  # batches that are long enough by themselves
COLD = ("cold", "import")  # batches that start a process each time
# Batches that start one too, but whose numbers are the same each time: so many rounds of them.
ROUNDS = {"memory": 3, "structure": 3}
ONCE = ("prepare", "counts")  # batches whose numbers are no times: once is enough
STORED = ("history", "reopen", "prepare")  # batches that need, or are, the prepared sessions


class Bench:
    """One run: its children, and what they measured."""

    def __init__(self, stack: ExitStack, batches: Sequence[str], *, floors_only: bool) -> None:
        self.batches = batches
        self.ours = () if floors_only else (OURS,)
        self.folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-")))
        self.address = stack.enter_context(fake_model())
        self.stack = stack
        self.workers: dict[str, Worker] = {}
        self.nodes: Worker | None = None
        self.requests: dict[str, dict[str, object]] = {}
        self.taken = Taken()

    def subjects(self, batch: str) -> tuple[str, ...]:
        return (*self.ours, *FLOORS[batch])

    def start(self) -> None:
        """Warm workers, what is taken once, and a first start of every child that is measured cold."""
        warm = [batch for batch in self.batches if batch not in (*COLD, *ROUNDS, *ONCE, *NODES)]
        stored = any(batch in STORED for batch in self.batches)
        names = {name for batch in warm for name in self.subjects(batch)} | (set(self.ours) if stored else set())
        for name in sorted(names):
            folder = self.folder / name
            folder.mkdir()
            self.workers[name] = self.stack.enter_context(worker(name, self.address, folder))
            if stored:
                sizes = self.workers[name].batch("prepare")
                if name == OURS:
                    self.taken.disk = sizes
        if self.ours and any(batch in NODES for batch in self.batches):
            self.start_nodes()
        if "counts" in self.batches:
            self.taken.counts = turn_counts(self.address, self.folder / "counts")
        for batch in COLD:
            for name in self.subjects(batch) if batch in self.batches else ():
                self.measure(batch, name)

    def start_nodes(self) -> None:
        """Their process, and for flows a server."""
        variables: dict[str, str] = {}
        if "flow" in self.batches:
            progress("starting a Prefect server")
            variables = self.stack.enter_context(prefect_server(self.folder / "prefect"))
        self.nodes = self.stack.enter_context(node_worker(self.address, self.folder / "nodes", variables))

    def round(self, batch: str, number: int) -> dict[str, dict[str, float]]:
        """A few short batches of each subject, by turns; who begins changes. Their numbers are the batches' means."""
        subjects = self.subjects(batch)
        taken: dict[str, list[dict[str, float]]] = {name: [] for name in subjects}
        for turn in range(number, number + (1 if batch in LONG else PASSES)):
            first = turn % len(subjects)
            for name in (*subjects[first:], *subjects[:first]):
                taken[name].append(self.measure(batch, name))
        return {name: means(each) for name, each in taken.items()}

    def measure(self, batch: str, name: str) -> dict[str, float]:
        if batch == "memory":
            return {"bytes": memory_of(name, self.address, self.folder)}
        if batch == "structure":
            return {"cpu": structure_of(self.folder)}
        if batch in COLD:
            return self.measure_start(batch, name)
        if batch in NODES:
            assert self.nodes is not None
            return self.nodes.batch(batch)
        numbers = self.workers[name].batch(batch)
        if batch == "history":
            self.requests[name] = last_request(self.address)
        return numbers

    def measure_start(self, batch: str, name: str) -> dict[str, float]:
        """One start; what ours loads is noted."""
        module = "agent_nodes" if name == OURS else name
        start = cold_start(name, self.address, self.folder) if batch == "cold" else import_of(module)
        if name == OURS:
            self.taken.loaded.update(start.loaded)
        return {"wall": start.wall, "cpu": start.cpu}

    def run(self, rounds: int) -> None:
        self.start()
        measured = [batch for batch in self.batches if batch not in ONCE]
        for number in range(rounds):
            progress(f"round {number + 1} of {rounds}")
            for batch in measured:
                if number < ROUNDS.get(batch, rounds):
                    self.taken.rounds.setdefault(batch, []).append(self.round(batch, number))
        progress("")
        self.check_requests()

    def check_requests(self) -> None:
        """Ratios mean something only when all ask the same."""
        shapes = {
            name: {key: value for key, value in request.items() if key != "bytes"}
            for name, request in self.requests.items()
        }
        if any(shape != next(iter(shapes.values())) for shape in shapes.values()):
            raise RuntimeError(f"the subjects sent requests of different shape: {shapes}")


def means(batches: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.mean(batch[name] for batch in batches) for name in batches[0]}


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
