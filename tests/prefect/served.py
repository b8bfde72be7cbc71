"""Flows that a process of its own serves: `python -m tests.prefect.served`."""

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
    import asyncio
    import os

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
async def work(base_url: str, pidfile: str) -> None:
    """Runs a command that does not end by itself."""
    await create_agent_node(permission_policy="auto", **model(base_url))("work for long")


if __name__ == "__main__":
    serve(*[each.to_deployment("served") for each in (shop, work)])  # type: ignore[arg-type]
