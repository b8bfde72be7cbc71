"""Two agents with sessions of their own: one writes, the other reviews, and what the reviewer says goes back to the
writer once. The demo model quotes the file in both parts; no key is needed.

python flows/write_and_review.py [FILE]     a flow run where PREFECT_API_URL names a server, else plain calls
python flows/write_and_review.py --serve    offer it to the server, to be started from there
"""

import asyncio
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

from prefect import flow
from prefect.runtime import flow_run
from prefect.settings import PREFECT_API_URL

from agent_nodes import create_agent_node

# For a language model write "anthropic" or "openai", with its key in the environment. Each agent may have another one.
OPTIONS: dict[str, Any] = {"provider": "demo", "permission_policy": "read-only"}


@flow(name="write-and-review")
async def write_and_review(file: str = "README.md") -> str:
    path = Path(file).resolve()
    if not path.is_file():
        raise ValueError(f"{path} is no file")
    # One conversation for the run, so that the writer still knows its draft when it is asked again. In a flow run that
    # goes without saying; without a server somebody has to name it.
    conversation = flow_run.get_id() or str(uuid4())
    options = {**OPTIONS, "workdir": path.parent, "conversation_id": conversation}
    write = create_agent_node("writer", system_prompt="You write short, plain summaries.", **options)
    review = create_agent_node(
        "reviewer", system_prompt="You check summaries against their source. You do not rewrite them.", **options
    )

    draft = await write(f"Summarize {path.name} in five sentences.")
    remarks = await review(f"What is wrong or missing in this summary of {path.name}?\n\n{draft.text}")
    final = await write(f"A reviewer read your summary of {path.name}. Write it once more.\n\n{remarks.text}")
    return final.text


def main(arguments: list[str]) -> None:
    if arguments == ["--serve"]:
        write_and_review.serve(name="write-and-review")
        return
    # Calling a flow needs a server; its plain function does not, and then neither do the nodes in it.
    run = write_and_review if PREFECT_API_URL.value() else write_and_review.fn
    print(asyncio.run(run(*arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])
