"""Leaves out files in which ripgrep finds nothing. What stays is searched by us, so that a result never depends on
whether ripgrep is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

from agent_nodes.tools.searching.lines import FLAGS, HEAD_BYTES, is_binary

FIRST = 200
MOST = 8_000
MAX_ARGUMENTS = 512 * 1024
LARGE = 256 * 1024

_File = tuple[str, str]


def candidates(files: Iterator[_File], ripgrep: str, pattern: str, direct: int) -> Iterator[_File]:
    """Of ``files`` (path as shown, whole path) those that may hold a match for the Rust ``pattern``, in their order.
    Nobody is asked about the first ``direct``: in few files a search is over before ripgrep has started."""
    yield from islice(files, direct)
    count = FIRST
    while (batch := _batch(files, count)) is not None:
        yield from _holding(batch, ripgrep, pattern)
        count = min(4 * count, MOST)


def _batch(files: Iterator[_File], count: int) -> list[_File] | None:
    """None at the end."""
    batch: list[_File] = []
    size = 0
    file = None
    for file in islice(files, count):
        if _is_large_binary(file[1]):
            continue
        batch.append(file)
        size += len(os.fsencode(file[1])) + 9
        if size > MAX_ARGUMENTS:
            break
    return None if file is None else batch


def _is_large_binary(full: str) -> bool:
    """ripgrep would read all of it, and we nothing."""
    try:
        if os.stat(full, follow_symlinks=False).st_size < LARGE:  # noqa: PTH116  # no pathlib in that process
            return False
        fd = os.open(full, FLAGS)
        with os.fdopen(fd, "rb") as file:
            return is_binary(file.read(HEAD_BYTES))
    except OSError:
        return False  # counted when it is searched


def _holding(batch: list[_File], ripgrep: str, pattern: str) -> list[_File]:
    """All of them where ripgrep fails: on a file that it cannot read, on a pattern, or altogether."""
    if not batch:
        return batch
    import subprocess

    command = [ripgrep, "--no-config", "--files-with-matches", "--null", "--text", "--no-messages", "-e", pattern, "--"]
    try:
        done = subprocess.run(
            [*command, *(full for _, full in batch)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except OSError:
        return batch
    if done.returncode not in (0, 1):
        return batch
    named = set(done.stdout.split(b"\0"))
    return [file for file in batch if os.fsencode(file[1]) in named]
