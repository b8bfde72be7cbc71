"""Commits and statements of one turn of ours, early in a session and late: counted, not timed.

    python -m bench.counts URL FOLDER

Prints a line of JSON: for each kind of turn and each history, `[commits, statements]`.
"""

import asyncio
import json
import sys
from pathlib import Path

from agent_nodes import AgentRuntime
from bench.bulk import add_turns
from bench.common import BY_PROMPT
from bench.ours import FILE, Ours

EARLY, LATE = 10, 10_000  # the number of the first counted turn
DELTAS = 20
TURNS = {"text": f"text-{DELTAS}", "round": f"tools-1-text-{DELTAS}"}
TRIES = 3

Count = tuple[int, int]


async def counted(agent: AgentRuntime, prompt: str) -> Count:
    line = agent.harness.engine.line
    commits, statements = line.commits, line.statements
    async for _ in agent.run({"prompt": prompt}):
        pass
    return line.commits - commits, line.statements - statements


async def counts(ours: Ours, folder: Path, number: int) -> dict[str, Count]:
    """Of each kind of turn, from turn `number` on; the history before it is made in bulk, but for its first turn.

    The least of a few turns: where the machine stalls, a batch of the streamed text is stored as well.
    """
    folder.mkdir()
    async with ours.agent(folder, BY_PROMPT) as agent:
        await counted(agent, TURNS["text"])
    add_turns(folder / FILE, number - 2, DELTAS)
    async with ours.agent(folder, BY_PROMPT) as agent:
        taken = {kind: [await counted(agent, prompt) for _ in range(TRIES)] for kind, prompt in TURNS.items()}
    return {kind: min(each) for kind, each in taken.items()}


async def main(url: str, folder: str) -> None:
    ours = Ours(url)
    found = {number: await counts(ours, Path(folder) / f"turn-{number}", number) for number in (EARLY, LATE)}
    print(json.dumps({kind: [found[EARLY][kind], found[LATE][kind]] for kind in TURNS}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
