"""What a node adds to a turn, in a process of its own: as a plain call, and as a task of a flow run.

    python -m bench.nodes URL FOLDER

The name of a batch comes in as a line, its numbers go out as a line of JSON (seconds). For `flow` the environment leads
to a Prefect server. All turns are of one delta, each opens its session and closes it.
"""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from agent_nodes import AgentHost, create_agent, create_agent_node
from bench.common import SYSTEM, Watch
from bench.ours import API, PROVIDER

WARM, COUNT = 3, 15
PROMPT = "a question, please answer"

Sample = tuple[float, float, float]
"""Seconds to the end, to the first text, and of the CPU."""
Call = Callable[[], Awaitable[Sample]]


class Nodes:
    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self.watch = Watch()
        self.options: dict[str, Any] = {
            "provider": PROVIDER,
            "model": "text-1",
            "base_url": url,
            "api_key": "k",
            "api_kind": API,
            "system_prompt": SYSTEM,
            "tools": [],
        }
        host = AgentHost(on_event=lambda event: self.watch(event.delta) if event.type == "text_delta" else None)
        self.ask = create_agent_node(conversation_id="bench", host=host, **self.options)

    async def plain(self) -> Sample:
        watch = Watch()
        cpu, begin = time.process_time(), time.perf_counter()
        async with create_agent(database_path=self.folder / "plain.db", **self.options) as agent:
            async for event in agent.run(PROMPT):
                if event.type == "text_delta":
                    watch(event.delta)
        return time.perf_counter() - begin, watch.first - begin, time.process_time() - cpu

    async def node(self) -> Sample:
        self.watch = Watch()
        cpu, begin = time.process_time(), time.perf_counter()
        payload = await self.ask(PROMPT)
        end, cpu_end = time.perf_counter(), time.process_time()
        if payload.status != "answered":
            raise RuntimeError(f"the turn ended as {payload.status}: {payload.err_message}")
        return end - begin, self.watch.first - begin, cpu_end - cpu

    async def by_turns(self, **calls: Call) -> dict[str, float]:
        """Medians of each call; who begins changes."""
        taken: dict[str, list[Sample]] = {name: [] for name in calls}
        names = list(calls)
        for number in range(WARM + COUNT):
            first = number % len(names)
            for name in (*names[first:], *names[:first]):
                taken[name].append(await calls[name]())
        numbers: dict[str, float] = {}
        for name, samples in taken.items():
            wall, first, cpu = map(statistics.median, zip(*samples[WARM:], strict=True))
            numbers |= {name: wall, f"{name}-first": first, f"{name}-cpu": cpu}
        return numbers

    async def batch_node(self) -> dict[str, float]:
        return await self.by_turns(plain=self.plain, node=self.node)

    async def batch_flow(self) -> dict[str, float]:
        from prefect import flow, task
        from prefect.cache_policies import NO_CACHE

        @task(cache_policy=NO_CACHE, persist_result=False)
        async def empty() -> None:
            pass

        async def alone() -> Sample:
            cpu, begin = time.process_time(), time.perf_counter()
            await empty()
            taken = time.perf_counter() - begin
            return taken, taken, time.process_time() - cpu

        @flow
        async def measured() -> dict[str, float]:
            return await self.by_turns(task=alone, plain=self.plain, node=self.node)

        return await measured()


def main(arguments: Sequence[str]) -> None:
    url, folder = arguments
    os.environ["AGENT_NODES_HOME"] = str(Path(folder) / "home")
    nodes = Nodes(url, Path(folder))
    batches = {"node": nodes.batch_node, "flow": nodes.batch_flow}
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            print(json.dumps(runner.run(batches[line.strip()]())), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
