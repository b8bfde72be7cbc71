"""What an open session holds in memory, measured on many of them in a process of their own.

    python -m bench.memory SUBJECT URL FOLDER

Prints the bytes of each of many sessions that are open at the same time, after one turn of each. A session before them
loads what only the first one of a process loads, and is closed again.
"""

import asyncio
import gc
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from bench.common import OPEN, Subject, Turn
from bench.subjects import start
from bench.worker import DELTAS, question, sample


def resident() -> int:
    """Bytes of this process that lie in memory now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:  # not on Linux
        return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(os.getpid())])) * 1024


async def opened(stack: AsyncExitStack, subject: Subject, folder: Path) -> Turn:
    folder.mkdir()
    return await stack.enter_async_context(subject.session(folder, f"text-{DELTAS}"))


async def bytes_a_session(subject: Subject, folder: Path, sessions: int = OPEN) -> float:
    async with AsyncExitStack() as stack:
        await sample(await opened(stack, subject, folder / "first"), question(0), DELTAS)
    async with AsyncExitStack() as stack:
        gc.collect()
        before = resident()
        turns = [await opened(stack, subject, folder / str(number)) for number in range(sessions)]
        await asyncio.gather(*[sample(turn, question(0), DELTAS) for turn in turns])
        gc.collect()
        return (resident() - before) / sessions


async def main(name: str, url: str, folder: str) -> None:
    subject = start(name, url)
    print(await bytes_a_session(subject, Path(folder)), flush=True)
    await subject.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
