"""An agent in the middle of an ordinary pipeline: CSV files are read, the agent sorts and tidies each row, and what
comes of it goes into a SQLite table. The demo model sorts everything into the first drawer; no key is needed.

python flows/etl_with_agent.py [FOLDER] [DATABASE]     a flow run where PREFECT_API_URL names a server, else plain calls
python flows/etl_with_agent.py --serve                 offer it to the server, to be started from there
"""

import asyncio
import csv
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Literal, TypedDict

from prefect import flow, task
from prefect.settings import PREFECT_API_URL
from pydantic import BaseModel

from agent_nodes import AgentOutputPayload, agent_tool, create_agent_node, create_output_node

FOLDER = str(Path(__file__).parent / "feedback")

Drawer = Literal["other", "praise", "complaint", "question", "billing"]


class Row(TypedDict):
    id: str
    text: str


class Sorted(BaseModel):
    drawer: Drawer
    text: str


# It has no effect of its own: what it returns is the result that the flow reads.
@agent_tool(replay="safe")
def put_away(drawer: Drawer, text: str) -> Sorted:
    """Put one piece of feedback away.

    Args:
        drawer: Where it belongs.
        text: The feedback, tidied: no stray blanks, no shouting, nothing left out.
    """
    return Sorted(drawer=drawer, text=" ".join(text.split()))


sorter = create_agent_node(
    "sorter",
    provider="demo",  # for a language model "anthropic" or "openai", with its key in the environment
    system_prompt="You sort feedback. Call put_away exactly once for what you are given, then say that it is done.",
    tools=[],
    extra_tools=[put_away],
    # Each row has a session of its own: no row makes the next one's conversation longer.
    session_key=lambda given: given.request_id or "row",
    # One row that fails is no reason to lose the others; the payload says so, and the flow decides.
    raise_on_failure=False,
)
# Reads back what the turn did, the calls of its tools included.
read_back = create_output_node("read-back")


@task
def extract(folder: str) -> list[Row]:
    files = sorted(Path(folder).glob("*.csv"))
    if not files:
        raise ValueError(f"no .csv file in {folder}")
    rows: list[Row] = []
    for path in files:
        with path.open(newline="") as file:
            rows += [Row(id=line["id"], text=line["text"]) for line in csv.DictReader(file)]
    return rows


@task
def load(database: str, rows: list[Row], results: list[Sorted | None]) -> int:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS feedback (id TEXT PRIMARY KEY, drawer TEXT, text TEXT)")
        # A second run over the same rows writes them once.
        connection.executemany(
            "INSERT OR REPLACE INTO feedback VALUES (?, ?, ?)",
            [(row["id"], found.drawer, found.text) for row, found in zip(rows, results, strict=True) if found],
        )
    return sum(found is not None for found in results)


def sorted_as(payload: AgentOutputPayload) -> Sorted | None:
    """What the turn put away. It is read from the stored turn, so it is there also when the run is repeated and the
    turn is not."""
    for item in payload.items:
        if item["part_type"] == "tool" and item["status"] == "completed":
            return Sorted.model_validate(item["content"]["result"])
    return None


@flow(name="etl-with-agent", log_prints=True)
async def etl_with_agent(folder: str = FOLDER, database: str = "feedback.sqlite") -> int:
    # Without a server a task is called as its plain function. Nodes do that by themselves.
    read, write = (extract, load) if PREFECT_API_URL.value() else (extract.fn, load.fn)
    rows = read(folder)
    results: list[Sorted | None] = []
    for row in rows:
        payload = await sorter(prompt=f"Sort this feedback with put_away: {row['text']}", request_id=f"row-{row['id']}")
        results.append(sorted_as(await read_back(payload)))
    loaded = write(database, rows, results)
    print(f"{loaded} of {len(rows)} rows are in {database}")
    return loaded


def main(arguments: list[str]) -> None:
    if arguments == ["--serve"]:
        etl_with_agent.serve(name="etl-with-agent")
        return
    # Calling a flow needs a server; its plain function does not, and then neither do the nodes in it.
    run = etl_with_agent if PREFECT_API_URL.value() else etl_with_agent.fn
    asyncio.run(run(*arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
