"""A project whose flow a process of its own serves: `python -m tests.prefect.served_project`."""

import os
from pathlib import Path

from agent_nodes import agent_tool
from conversation import define_agent_conversation_executor


@agent_tool
async def pay() -> str:
    """Pay. It hangs for as long as the file HOLD exists."""
    import asyncio

    with Path(os.environ["LEDGER"]).open("a") as file:
        file.write(f"{os.getpid()}\n")
    while Path(os.environ["HOLD"]).exists():  # noqa: ASYNC110  # another process takes it away
        await asyncio.sleep(0.05)
    return "paid"


executor = define_agent_conversation_executor(
    name="till",
    extra_tools=[pay],
    provider="fake",
    model="m",
    base_url=os.environ.get("MODEL_URL", "http://127.0.0.1:9/v1"),
    api_key="k",
    api_kind="openai-completions",
)

if __name__ == "__main__":
    executor.flow.serve(name="served")
