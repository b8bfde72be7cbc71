"""A flow of three nodes: input, agent, output. The demo model looks around in the working directory; no key is needed.

python flows/hello_agent.py ["a question"]     a flow run where PREFECT_API_URL names a server, else plain calls
python flows/hello_agent.py --serve            offer it to the server, to be started from there
"""

import asyncio
import sys

from prefect import flow
from prefect.settings import PREFECT_API_URL

from agent_nodes import AgentHost, AgentStreamEvent, create_agent_node, create_input_node, create_output_node

QUESTION = "What is in this folder?"


class Show:
    """Called with every event while the turn runs. Text goes to stdout, with an empty line where tools ran."""

    def __init__(self) -> None:
        self.said, self.gap = False, ""

    def __call__(self, event: AgentStreamEvent) -> None:
        if event.type == "text_delta":
            print(self.gap + event.delta, end="", flush=True)
            self.said, self.gap = True, ""
        elif event.type == "tool":
            if event.phase == "start":
                print(f"[{event.name}] {event.arguments}", file=sys.stderr)
            if self.said:
                self.gap = "\n\n"


read_question = create_input_node()
ask_agent = create_agent_node(provider="demo", model="demo", host=AgentHost(on_event=Show()))
write_answer = create_output_node()


@flow(name="hello-agent")
async def hello_agent(question: str = QUESTION) -> str:
    payload = await write_answer(await ask_agent(await read_question(question)))
    return payload.text


def main(arguments: list[str]) -> None:
    if arguments == ["--serve"]:
        hello_agent.serve(name="hello-agent")
        return
    question = " ".join(arguments) or QUESTION
    # Calling a flow needs a server; its plain function does not, and then neither do the nodes in it.
    run = hello_agent if PREFECT_API_URL.value() else hello_agent.fn
    asyncio.run(run(question))
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
