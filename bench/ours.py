"""Our side, over the public API alone."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from agent_nodes import AgentRuntime, AgentTool, AgentToolResult, create_agent
from bench.common import SYSTEM, TOOL_NAME, TOOL_SCHEMA, TOOL_TEXT, Turn, Watch, echoed

FILE = "session.db"
PROVIDER = "bench"
API = "openai-completions"


async def execute(arguments: dict[str, Any], context: Any) -> AgentToolResult:
    return AgentToolResult(echoed(arguments["text"]))


class Ours:
    def __init__(self, url: str) -> None:
        self.url = url

    async def close(self) -> None:
        """Each session has closed what it opened."""

    def agent(self, folder: Path, script: str) -> AbstractAsyncContextManager[AgentRuntime]:
        return create_agent(
            database_path=folder / FILE,
            provider=PROVIDER,
            model=script,
            base_url=self.url,
            api_key="k",
            api_kind=API,
            system_prompt=SYSTEM,
            tools=[],
            extra_tools=[AgentTool(name=TOOL_NAME, description=TOOL_TEXT, parameters=TOOL_SCHEMA, execute=execute)],
        )

    @asynccontextmanager
    async def session(self, folder: Path, script: str) -> AsyncIterator[Turn]:
        async with self.agent(folder, script) as agent:

            async def turn(text: str, watch: Watch) -> None:
                async for event in agent.run({"prompt": text}):
                    if event.type == "text_delta":
                        watch(event.delta)

            yield turn
