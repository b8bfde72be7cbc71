"""An agent in the background that looks after a folder of notes. All its runs go on with one conversation. Where no
note has changed since the run before, nothing is said and no model is called. The demo model answers; no key is needed.

python flows/watch_notes.py [FOLDER]             look once: a flow run where PREFECT_API_URL names a server, else plain
python flows/watch_notes.py [FOLDER] --serve     look every five minutes, as flow runs of the server
"""

import asyncio
import hashlib
import json
import sys
from pathlib import Path

from prefect import flow
from prefect.settings import PREFECT_API_URL

from agent_nodes import create_agent_node

SEEN = ".watch-notes.json"

watcher = create_agent_node(
    "watcher",
    provider="demo",  # for a language model "anthropic" or "openai", with its key in the environment
    permission_policy="read-only",
    conversation_id="watch-notes",  # the same in every run: it knows what it said before
    on_busy="skip",  # a run that takes longer than the time to the next one is left in peace
    raise_on_failure=True,
)


def notes_of(folder: Path) -> dict[str, str]:
    """The notes by name, each with a fingerprint of what it says."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.md"))}


def news(before: dict[str, str], now: dict[str, str]) -> str:
    changed = [name for name in now if now[name] != before.get(name)]
    gone = [name for name in before if name not in now]
    parts = [("New or changed", changed), ("Gone", gone)]
    return " ".join(f"{what}: {', '.join(names)}." for what, names in parts if names)


def remember(file: Path, now: dict[str, str]) -> None:
    """In one step, so that no crash leaves half of it."""
    beside = file.with_name(f"{file.name}.new")
    beside.write_text(json.dumps(now))
    beside.replace(file)


@flow(name="watch-notes", log_prints=True)
async def watch_notes(folder: str = ".") -> str | None:
    notes = Path(folder).resolve()
    if not notes.is_dir():
        raise ValueError(f"{notes} is no folder")
    seen = notes / SEEN
    before = json.loads(seen.read_text()) if seen.exists() else {}
    now = notes_of(notes)
    changes = news(before, now)
    if not changes:
        return None
    # The turn is named by what it is about. A run that is killed leaves it as it stands; the next run sees the same
    # changes, comes with the same name, and goes on with it. `reopen` does the same for a turn that failed.
    state = hashlib.sha256(json.dumps([before, now]).encode()).hexdigest()[:16]
    payload = await watcher(
        prompt=f"{changes} Read what is new and say in one sentence what it is about.",
        request_id=f"notes-{state}",
        reopen=True,
        workdir=notes,
    )
    if payload.status == "skipped":
        print("The run before is still at it.")
        return None
    remember(seen, now)
    print(payload.text)
    return payload.text


def main(arguments: list[str]) -> None:
    serve = "--serve" in arguments
    folder = next((word for word in arguments if word != "--serve"), ".")
    if serve:
        watch_notes.serve(name="watch-notes", cron="*/5 * * * *", parameters={"folder": str(Path(folder).resolve())})
        return
    # Calling a flow needs a server; its plain function does not, and then neither do the nodes in it.
    run = watch_notes if PREFECT_API_URL.value() else watch_notes.fn
    asyncio.run(run(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
