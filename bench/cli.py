"""`./dev bench`: runs the batches in turn and prints the table."""

import argparse
import json
import os
import platform
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from bench.figures import FIGURES, FLOOR_FIGURES, OPEN_FILES, OURS, Figure, Row
from bench.processes import allow_open_files, compile_packages
from bench.run import Bench

HEADINGS = ("figure", "floor", "target", "reached", "spread", "CPU", "")


def table(rows: Sequence[Row]) -> str:
    """In Markdown, so that lines of it can be quoted."""
    verdicts = {True: "ok", False: "missed", None: ""}
    cells: list[tuple[str, ...]] = [HEADINGS]
    cells += [(row.title, row.floor, row.target, row.reached, row.spread, row.cpu, verdicts[row.ok]) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, tuple("-" * width for width in widths))
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    return "\n".join(f"| {line} |" for line in lines)


def machine() -> str:
    """Versions, cores, and how busy the machine is with other things (asked before a run)."""
    cores = len(os.sched_getaffinity(0))
    versions = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, httpx2 {version('httpx2')}"
    return f"{versions}, {cores} cores, load before {os.getloadavg()[0]:.1f}"


def arguments(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[Figure]]:
    """The options, and the figures that they choose."""
    keys = [figure.key for figure in (*FIGURES, *FLOOR_FIGURES)]
    parser = argparse.ArgumentParser(prog="./dev bench", description="What a turn costs, as ratios against two floors.")
    parser.add_argument("--rounds", type=int, default=9, help="the figure is their median (default 9)")
    parser.add_argument(
        "--only",
        action="append",
        metavar="FIGURE",
        choices=keys,
        help=f"this figure alone (may be repeated): {', '.join(keys)}",
    )
    parser.add_argument("--floors", action="store_true", help="measure the floors alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number there too")
    options = parser.parse_args(argv)
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    known = FLOOR_FIGURES if options.floors else (*FIGURES, *FLOOR_FIGURES)
    chosen = [figure for figure in known if not options.only or figure.key in options.only]
    if not chosen:
        parser.error("--floors leaves nothing of --only")
    return options, chosen


def main(argv: Sequence[str] | None = None) -> int:
    options, chosen = arguments(argv)
    where = machine()
    batches = list(dict.fromkeys(batch for figure in chosen for batch in figure.batches))
    try:
        allow_open_files(max(OPEN_FILES.get(batch, 0) for batch in batches))
    except RuntimeError as error:
        print(f"./dev bench: {error}; raise the limit, or leave such figures out with --only", file=sys.stderr)
        return 2
    compile_packages()
    with ExitStack() as stack:
        bench = Bench(stack, batches, floors_only=options.floors)
        bench.run(options.rounds)
    rows = [figure.row(bench.taken) for figure in chosen]
    print(table(rows))
    print(f"\nMedian of {options.rounds} rounds, spread: the middle half of them. {where}.")
    if OURS in bench.requests:
        sizes = {name: request["bytes"] for name, request in bench.requests.items()}
        print("Bytes of the request after turn 200:", ", ".join(f"{name} {size:,}" for name, size in sizes.items()))
    if options.json:
        everything = {"machine": where, "figures": [asdict(row) for row in rows], "rounds": bench.taken.rounds}
        options.json.write_text(json.dumps(everything, indent=1, ensure_ascii=False) + "\n")
    return 0
