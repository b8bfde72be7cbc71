"""A script's whole life: start, one turn, the answer on standard output.

    python -m bench.cold SUBJECT URL FOLDER

The first line is printed when the answer is complete; the second, after closing, lists what was
loaded of the modules that a turn must not load.
"""

import asyncio
import sys
from pathlib import Path

from bench.common import FORBIDDEN, Watch
from bench.subjects import start


async def main(name: str, url: str, folder: str) -> None:
    subject = start(name, url)
    watch = Watch()
    async with subject.session(Path(folder), "text-50") as turn:
        await turn("hello", watch)
        print(watch.characters, flush=True)
    await subject.close()
    print(*[module for module in FORBIDDEN if module in sys.modules], flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
