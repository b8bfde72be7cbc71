"""Flows that a process of its own serves: `python -m tests.prefect.served NAME`, the name of their deployments."""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

from prefect import flow, serve

from agent_nodes import AgentTool, create_agent_node
from agent_nodes.tools.base import ToolContext

SCHEMA = {"type": "object", "properties": {}}


def model(base_url: str) -> dict[str, Any]:
    return {"provider": "fake", "model": "m", "base_url": base_url, "api_key": "k", "api_kind": "openai-completions"}


@flow
async def shop(base_url: str, ledger: str, hold: str) -> str:
    """Plans in one turn, pays in the next; paying hangs for as long as the file ``hold`` exists."""

    async def pay(_: dict[str, Any], context: ToolContext) -> str:
        with Path(ledger).open("a") as file:
            file.write(f"{os.getpid()}\n")
        while Path(hold).exists():  # noqa: ASYNC110  # another process takes it away
            await asyncio.sleep(0.05)
        return "paid"

    tool = AgentTool(name="pay", description="Pay.", parameters=SCHEMA, execute=pay)
    plan = await create_agent_node("plan", **model(base_url))("plan it")
    paid = await create_agent_node("buyer", extra_tools=[tool], **model(base_url))("buy it")
    return f"{plan.text}; {paid.text}"


@flow
async def work(base_url: str, notes: str) -> None:
    """One turn: an answer, a command or a tool in a thread, none of which ends by itself. The tool writes ``begun``
    into the folder ``notes``, and ``told`` once it is told to stop, and goes on all the same."""

    def dawdle(_: dict[str, Any], context: ToolContext) -> str:
        (Path(notes) / "begun").write_text(str(os.getpid()))
        while not context.signal.is_set:
            time.sleep(0.02)
        (Path(notes) / "told").write_text("told")
        while True:
            time.sleep(60)

    tool = AgentTool(name="dawdle", description="Take your time.", parameters=SCHEMA, execute=dawdle)
    await create_agent_node(permission_policy="auto", extra_tools=[tool], **model(base_url))("work for long")


@flow
def review(base_url: str) -> None:
    """A plain flow whose one turn is a submitted task: no signal reaches its thread."""
    create_agent_node(permission_policy="auto", **model(base_url)).submit("review it").result()


@flow
async def tick(base_url: str, ledger: str) -> None:
    """For a schedule: every run has the same session, and one that finds it taken leaves its turn out."""
    payload = await create_agent_node(conversation_id="ticks", on_busy="skip", **model(base_url))("what is new?")
    with Path(ledger).open("a") as file:
        file.write(f"{payload.status} {payload.err_message}\n")


if __name__ == "__main__":
    serve(*[each.to_deployment(sys.argv[1]) for each in (shop, work, review, tick)], limit=2)  # type: ignore[arg-type]
