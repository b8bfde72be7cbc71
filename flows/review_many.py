"""One reviewer for many files: a few at a time, each in a session of its own, all in one report. A review that fails
stands in the report and fails nothing else. The demo model quotes a line of each file; no key is needed.

python flows/review_many.py [FOLDER] [PATTERN]     a flow run where PREFECT_API_URL names a server, else plain calls
python flows/review_many.py --serve                offer it to the server, to be started from there
"""

import asyncio
import sys
from pathlib import Path

from prefect import flow
from prefect.settings import PREFECT_API_URL

from agent_nodes import AgentError, AgentInput, create_agent_node

reviewer = create_agent_node(
    "reviewer",
    provider="demo",  # for a language model "anthropic" or "openai", with its key in the environment
    permission_policy="read-only",
    # A session has one turn at a time, so what runs side by side needs sessions of its own.
    session_key=lambda given: given.request_id or "file",
    raise_on_failure=True,
)


async def reviews(folder: Path, files: list[str], at_once: int) -> dict[str, str]:
    places = asyncio.Semaphore(at_once)
    found: dict[str, str] = {}

    async def review(file: str) -> None:
        # Side by side the order of calls is chance, so each turn is named by what it is about: a run that is repeated
        # then has the stored answer for every file that was done.
        asked = AgentInput(
            prompt=f"Review {file}: what does it say, and what is wrong with it?",
            request_id=f"review-{file}",
            workdir=folder,
        )
        try:
            async with places:
                found[file] = (await reviewer(asked)).text
        except AgentError as error:
            found[file] = f"Not reviewed: {error.message}"

    async with asyncio.TaskGroup() as group:
        for file in files:
            group.create_task(review(file))
    return found


@flow(name="review-many")
async def review_many(folder: str = ".", pattern: str = "*.md", at_once: int = 4) -> str:
    root = Path(folder).resolve()
    files = sorted(str(path.relative_to(root)) for path in root.glob(pattern) if path.is_file())
    if not files:
        raise ValueError(f"no file in {root} is like {pattern}")
    found = await reviews(root, files, at_once)
    return "\n\n".join(f"# {file}\n\n{found[file]}" for file in files)


def main(arguments: list[str]) -> None:
    if arguments == ["--serve"]:
        review_many.serve(name="review-many")
        return
    # Calling a flow needs a server; its plain function does not, and then neither do the nodes in it.
    run = review_many if PREFECT_API_URL.value() else review_many.fn
    folder, pattern = (arguments + [".", "*.md"][len(arguments) :])[:2]
    print(asyncio.run(run(folder, pattern)))


if __name__ == "__main__":
    main(sys.argv[1:])
