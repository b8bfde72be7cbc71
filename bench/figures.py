"""The figures: what each compares with what, and where it should arrive."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.common import CROWD, CROWD_TURNS, FILES, OPEN, PROJECTS

OURS, RAW, STEP, PYDANTIC = "ours", "raw", "raw-step", "pydantic"
PLAIN, TASK = "ours, plain", "empty task"
MB = 1_000_000

# For each batch the floors that run beside ours, round by round.
FLOORS: Mapping[str, tuple[str, ...]] = {
    "cold": (RAW,),
    "import": (PYDANTIC,),
    "text": (STEP, RAW),
    "rounds": (STEP, RAW),
    "delta": (RAW,),
    "history": (STEP,),
    "reopen": (RAW, STEP),
    "crowd": (STEP,),
    "memory": (STEP,),
    "structure": (),
    "node": (),
    "flow": (),
}

# How many files a child may have open for it, where those are more than any system allows.
OPEN_FILES: Mapping[str, int] = {"crowd": CROWD * FILES + 64, "memory": OPEN * FILES + 64}


@dataclass(slots=True)
class Taken:
    """Everything measured: by batch, for each round, by subject, named numbers (seconds, bytes)."""

    rounds: dict[str, list[dict[str, dict[str, float]]]] = field(default_factory=dict)
    disk: dict[str, float] = field(default_factory=dict)
    counts: dict[str, list[list[int]]] = field(default_factory=dict)
    loaded: set[str] = field(default_factory=set)

    def ratios(self, batch: str, number: str, subject: str, floor: str) -> list[float]:
        return [each[subject][number] / each[floor][number] for each in self.rounds[batch]]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table; `ok` is None where there is nothing to reach."""

    key: str
    title: str
    floor: str
    target: str
    reached: str
    spread: str
    cpu: str
    ok: bool | None


@dataclass(frozen=True, slots=True)
class Figure:
    """`batches` must run for it; `row` makes its line."""

    key: str
    batches: tuple[str, ...]
    row: Callable[[Taken], Row]


def ratio(
    key: str,
    title: str,
    batch: str,
    floor: str,
    target: float | None,
    *,
    number: str = "wall",
    subject: str = OURS,
    least: bool = False,
) -> Figure:
    """`target` is the most that the ratio may be, with `least` the least; None where there is none."""

    def row(taken: Taken) -> Row:
        values = taken.ratios(batch, number, subject, floor)
        cpu = statistics.median(taken.ratios(batch, "cpu", subject, floor))
        reached = statistics.median(values)
        return Row(
            key,
            title,
            floor,
            "" if target is None else f"{'≥' if least else '≤'} {target}x",
            f"{reached:.2f}x",
            spread(values, ".2f"),
            f"{cpu:.2f}x",
            None if target is None else (reached >= target if least else reached <= target),
        )

    return Figure(key, (batch,), row)


def spread(values: list[float], form: str) -> str:
    """The middle half of the rounds."""
    if len(values) < 2:
        return ""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{low:{form}}–{high:{form}}"


def growth(taken: Taken) -> Row:
    values = [each[OURS]["growth"] * 1e6 for each in taken.rounds["history"]]
    reached = statistics.median(values)
    return Row(
        "growth",
        "CPU that a turn of history adds to a turn",
        "",
        "≤ 20 µs",
        f"{reached:.1f} µs",
        spread(values, ".1f"),
        "",
        reached <= 20,
    )


def memory(taken: Taken) -> Row:
    ours, floor = ([each[name]["bytes"] / MB for each in taken.rounds["memory"]] for name in (OURS, STEP))
    values = [mine - its for mine, its in zip(ours, floor, strict=True)]
    reached = statistics.median(values)
    sizes = f"{statistics.median(ours):.2f} - {statistics.median(floor):.2f}"
    title = f"memory of an open session after a turn, of {OPEN}"
    return Row(
        "memory", title, STEP, "≤ 1 MB more", f"{reached:.2f} MB ({sizes})", spread(values, ".2f"), "", reached <= 1
    )


def structure(taken: Taken) -> Row:
    values = [each[OURS]["cpu"] for each in taken.rounds["structure"]]
    reached = statistics.median(values)
    title = f"CPU of agent-nodes structure over {PROJECTS} projects"
    return Row("structure", title, "", "≤ 1 s", f"{reached:.2f} s", spread(values, ".2f"), "", reached <= 1)


def modules(taken: Taken) -> Row:
    title = "heavy modules loaded by the import, and by a turn"
    reached = ", ".join(sorted(taken.loaded)) or "none"
    return Row("modules", title, "", "none", reached, "", "", not taken.loaded)


def disk(taken: Taken) -> Row:
    limit = 3 * taken.disk["content"] + 1024
    reached = taken.disk["bytes"]
    title = "bytes on disk a turn (3x content + 1 KB)"
    return Row("disk", title, "", f"≤ {limit:,.0f}", f"{reached:,.0f}", "", "", reached <= limit)


def of_node(
    key: str, title: str, floor: str, target: float, reached: Callable[[Mapping[str, float], str], float]
) -> Figure:
    """A figure of one batch of the nodes, whose parts were measured side by side in one process. ``reached(numbers,
    which)`` is of ``""``, the wall time, or ``"-cpu"``."""
    batch = "flow" if floor == TASK else "node"

    def row(taken: Taken) -> Row:
        values = [reached(each[OURS], "") for each in taken.rounds[batch]]
        cpu = statistics.median(reached(each[OURS], "-cpu") for each in taken.rounds[batch])
        middle = statistics.median(values)
        form = (f"≤ {target}x", f"{middle:.2f}x", spread(values, ".2f"), f"{cpu:.2f}x")
        return Row(key, title, floor, *form, middle <= target)

    return Figure(key, (batch,), row)


def call_of_node(numbers: Mapping[str, float], which: str) -> float:
    return numbers[f"node{which}"] / numbers[f"plain{which}"]


def added_by_node(numbers: Mapping[str, float], which: str) -> float:
    return (numbers[f"node{which}"] - numbers[f"plain{which}"]) / numbers[f"task{which}"]


def added_to_first(numbers: Mapping[str, float], which: str) -> float:
    if which:
        return added_by_node(numbers, which)
    return (numbers["node-first"] - numbers["plain-first"]) / numbers["task"]


def count(key: str, title: str, kind: str) -> Figure:
    def row(taken: Taken) -> Row:
        early, late = taken.counts[kind]
        target, reached = (f"{commits}, {statements}" for commits, statements in (early, late))
        return Row(key, title, "ours, turn 10", target, reached, "", "", early == late)

    return Figure(key, ("counts",), row)


FIGURES = (
    ratio("cold", "process start to answer, from a script", "cold", RAW, 1.5),
    ratio("import", "import agent_nodes", "import", PYDANTIC, 2),
    Figure("modules", ("cold", "import"), modules),
    ratio("turn", "text turn, 50 deltas", "text", STEP, 1.3),
    ratio("first", "time to first text", "text", STEP, 1.3, number="first"),
    ratio("round", "one tool round", "rounds", STEP, 1.3),
    ratio("delta", "one delta of 5,000: CPU, wire to consumer", "delta", RAW, 2, number="cpu"),
    ratio("long", "turn 200", "history", STEP, 1.5),
    Figure("growth", ("history",), growth),
    count("count", "commits, statements of text turn 10,000", "text"),
    count("count-round", "the same of a turn with one tool round", "round"),
    ratio("reopen", "reopening 200 turns, to first text", "reopen", RAW, 2),
    ratio(
        "sessions",
        f"{CROWD} sessions x {CROWD_TURNS} turns at once: turns a second",
        "crowd",
        STEP,
        0.8,
        number="rate",
        least=True,
    ),
    Figure("memory", ("memory",), memory),
    Figure("disk", ("prepare",), disk),
    Figure("structure", ("structure",), structure),
    of_node("node", "a node's call, a turn of one delta", PLAIN, 1.1, call_of_node),
    of_node("flow", "what a node in a flow adds to that turn", TASK, 1.3, added_by_node),
    of_node("flow-first", "the same to its first text", TASK, 1.3, added_to_first),
)

# How far the floors lie apart: tells what the disk of this machine costs, and whether it is quiet.
FLOOR_FIGURES = (
    ratio("floor-turn", "floor raw-step: text turn", "text", RAW, None, subject=STEP),
    ratio("floor-round", "floor raw-step: one tool round", "rounds", RAW, None, subject=STEP),
    ratio("floor-reopen", "floor raw-step: reopening 200 turns", "reopen", RAW, None, subject=STEP),
)
