"""The history of conversations: written again without a difference, by several processes, never over other files."""

import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agent_nodes.errors import InputValidationError, SessionFileError, StorageError
from agent_nodes.store.conversations import (
    FILE,
    VERSION,
    RunRecord,
    append_runs,
    history_file,
    list_conversations,
    newest_turn,
    read_conversation,
    remove_conversation,
    set_title,
    title_of,
)


def run(run_id: str = "r-1", **fields: object) -> RunRecord:
    number = int(run_id.rpartition("-")[2])
    known: dict[str, object] = {
        "project": "p",
        "conversation_id": "c",
        "run_id": run_id,
        "session_key": "agent",
        "turn_id": number,
        "prompt": f"question {number}",
        "answer": f"answer {number}",
        "status": "answered",
        "usage": {"calls": number},
        "items": [{"id": f"{number}:1", "part_type": "text"}],
        **fields,
    }
    return RunRecord(**known)  # type: ignore[arg-type]


def said(root: Path) -> list[tuple[str, str, str]]:
    found = read_conversation("p", "c", root)
    assert found is not None
    return [(message.run_id, message.role, message.text) for message in found.messages]


def test_runs_are_read_in_the_order_they_were_written(tmp_path: Path) -> None:
    append_runs([run("r-2"), run("r-1")], 5.0, tmp_path)
    append_runs([run("r-3", status="failed", reason="model_error", detail="no", answer="", images=2)], 6.0, tmp_path)
    found = read_conversation("p", "c", tmp_path)
    assert found is not None
    assert [(one.run_id, one.status, one.reason, one.detail, one.usage) for one in found.runs] == [
        ("r-2", "answered", None, "", {"calls": 2}),
        ("r-1", "answered", None, "", {"calls": 1}),
        ("r-3", "failed", "model_error", "no", {"calls": 3}),
    ]
    assert found.runs[0].items == ({"id": "2:1", "part_type": "text"},)
    assert (found.runs[0].session_key, found.runs[0].turn_id, found.runs[0].written_at) == ("agent", 2, 5.0)
    assert said(tmp_path) == [
        ("r-2", "user", "question 2"),
        ("r-2", "assistant", "answer 2"),
        ("r-1", "user", "question 1"),
        ("r-1", "assistant", "answer 1"),
        ("r-3", "user", "question 3"),
    ]
    assert found.messages[-1].images == 2
    summary = found.summary
    assert (summary.title, summary.runs, summary.created_at, summary.updated_at) == ("question 2", 3, 5.0, 6.0)


@pytest.mark.feature("N04")
def test_writing_a_run_again_changes_nothing(tmp_path: Path) -> None:
    append_runs([run("r-1"), run("r-2")], 5.0, tmp_path)
    before = read_conversation("p", "c", tmp_path)
    append_runs([run("r-1")], 5.0, tmp_path)
    assert read_conversation("p", "c", tmp_path) == before


def test_what_is_known_better_takes_the_place_of_what_was(tmp_path: Path) -> None:
    append_runs([run(status="failed", answer="", items=[{"id": "1:1"}, {"id": "1:2"}])], 5.0, tmp_path)
    append_runs([run(answer="at last")], 9.0, tmp_path)
    found = read_conversation("p", "c", tmp_path)
    assert found is not None
    [one] = found.runs
    assert (one.status, one.written_at, one.updated_at, one.items) == (
        "answered",
        5.0,
        9.0,
        ({"id": "1:1", "part_type": "text"},),
    )
    assert [message.text for message in found.messages] == ["question 1", "at last"]


def test_a_prompt_in_other_words_takes_the_place_of_none(tmp_path: Path) -> None:
    append_runs([run("r-1", prompt="mine"), run("r-2", prompt="rewritten", in_other_words=True)], 5.0, tmp_path)
    append_runs([run("r-1", prompt="rewritten", in_other_words=True)], 6.0, tmp_path)
    assert [text for _, role, text in said(tmp_path) if role == "user"] == ["mine", "rewritten"]
    append_runs([run("r-2", prompt="mine too")], 7.0, tmp_path)
    assert [text for _, role, text in said(tmp_path) if role == "user"] == ["mine", "mine too"]


@pytest.mark.feature("N04")
def test_an_empty_message_is_none(tmp_path: Path) -> None:
    append_runs([run("r-1", answer=" \n"), run("r-2", prompt="", images=1)], 5.0, tmp_path)
    assert said(tmp_path) == [("r-1", "user", "question 1"), ("r-2", "user", ""), ("r-2", "assistant", "answer 2")]


def test_it_knows_up_to_which_turn_of_a_session_it_goes(tmp_path: Path) -> None:
    assert newest_turn("p", "c", "agent", tmp_path) == 0
    append_runs([run("r-7"), run("r-4"), run("r-9", session_key="other")], 5.0, tmp_path)
    assert newest_turn("p", "c", "agent", tmp_path) == 7
    assert newest_turn("p", "c", "other", tmp_path) == 9
    assert newest_turn("p", "d", "agent", tmp_path) == 0


def test_conversations_are_listed_by_their_last_change(tmp_path: Path) -> None:
    assert list_conversations(root=tmp_path) == []
    for number, (project, key) in enumerate([("p", "a"), ("q", "b"), ("p", "c")]):
        append_runs([run("r-1", project=project, conversation_id=key)], float(number), tmp_path)
    append_runs([run("r-2", conversation_id="a")], 9.0, tmp_path)
    assert [(one.project, one.conversation_id, one.runs) for one in list_conversations(root=tmp_path)] == [
        ("p", "a", 2),
        ("p", "c", 1),
        ("q", "b", 1),
    ]
    assert [one.conversation_id for one in list_conversations("q", tmp_path)] == ["b"]


def test_a_title_comes_from_the_first_prompt_until_somebody_gives_one(tmp_path: Path) -> None:
    append_runs([run("r-1", prompt="", images=1)], 1.0, tmp_path)
    assert list_conversations(root=tmp_path)[0].title == ""
    append_runs([run("r-2", prompt="\n  Plan the garden \nplease")], 2.0, tmp_path)
    assert list_conversations(root=tmp_path)[0].title == "Plan the garden"
    assert set_title("p", "c", " Garden ", tmp_path)
    append_runs([run("r-3")], 3.0, tmp_path)
    assert list_conversations(root=tmp_path)[0].title == "Garden"
    assert not set_title("p", "nobody", "x", tmp_path)
    with pytest.raises(InputValidationError, match="title: must not be empty"):
        set_title("p", "c", " ", tmp_path)


@pytest.mark.parametrize("length", [79, 80, 81, 5000])
def test_a_long_title_is_cut(length: int) -> None:
    title = title_of("x" * length)
    assert len(title) == min(length, 80)
    assert title.endswith("…") == (length > 80)


def test_a_conversation_is_removed_alone(tmp_path: Path) -> None:
    append_runs([run(), run(conversation_id="d")], 1.0, tmp_path)
    assert remove_conversation("p", "c", tmp_path)
    assert not remove_conversation("p", "c", tmp_path)
    assert read_conversation("p", "c", tmp_path) is None
    assert [one.conversation_id for one in list_conversations(root=tmp_path)] == ["d"]


def test_runs_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    append_runs([run("r-1")], 1.0, tmp_path)
    broken = replace(run("r-3"), items=({"id": "1"}, {"id": "1"}))
    with pytest.raises(StorageError):
        append_runs([run("r-2"), broken], 2.0, tmp_path)
    assert [run_id for run_id, role, _ in said(tmp_path) if role == "user"] == ["r-1"]


APPEND = """
import sys
from pathlib import Path
from tests.store.test_conversations import append_runs, run
name, root = sys.argv[1], Path(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    append_runs([run(f"{name}-{number}")], float(number), root)
"""


@pytest.mark.feature("N05")
def test_several_processes_write_to_one_history(tmp_path: Path) -> None:
    root = tmp_path / "made" / "by" / "whoever is first"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", APPEND, name, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for name in ("a", "b", "c")
    ]
    for child in children:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        _, err = child.communicate(timeout=60)
        assert (child.returncode, err) == (0, "")
    found = read_conversation("p", "c", root)
    assert found is not None
    assert sorted(one.run_id for one in found.runs) == sorted(f"{name}-{n}" for name in "abc" for n in range(20))
    for name in "abc":
        assert [one.run_id for one in found.runs if one.run_id[0] == name] == [f"{name}-{n}" for n in range(20)]
    assert len(found.messages) == 120


def test_another_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / FILE
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = path.read_bytes()
    for call in (lambda: append_runs([run()], 1.0, tmp_path), lambda: list_conversations(root=tmp_path)):
        with pytest.raises(SessionFileError, match="no history of conversations") as caught:
            call()
        assert caught.value.kind == "foreign"
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [FILE]


def test_a_newer_history_is_left_as_it_is(tmp_path: Path) -> None:
    append_runs([run()], 1.0, tmp_path)
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute(f"PRAGMA user_version={VERSION + 1}")
    connection.close()
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(SessionFileError, match="newer than") as caught:
        append_runs([run("r-2")], 2.0, tmp_path)
    assert caught.value.kind == "newer"
    assert (tmp_path / FILE).read_bytes() == before


@pytest.mark.parametrize("content", [b"hello, this is a text and no database at all, whoever reads it. " * 40])
def test_what_is_no_database_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(SessionFileError, match=r"The session history .*conversations\.sqlite is damaged"):
        append_runs([run()], 1.0, tmp_path)
    assert (tmp_path / FILE).read_bytes() == content


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"history .*cannot be opened"):
        append_runs([run()], 1.0, tmp_path / "file")
    assert read_conversation("p", "c", tmp_path / "file") is None


def test_the_history_is_for_its_owner_alone_and_in_the_log_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_NODES_HOME", str(tmp_path / "home"))
    append_runs([run()], 1.0)
    assert history_file() == tmp_path / "home" / FILE
    assert history_file().stat().st_mode & 0o777 == 0o600
    with sqlite3.connect(history_file()) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_the_place_of_a_run_is_found_without_looking_at_the_others(tmp_path: Path) -> None:
    append_runs([run()], 1.0, tmp_path)
    of_it = "FROM run WHERE project = 'p' AND conversation_id = 'c'"
    with sqlite3.connect(tmp_path / FILE) as connection:
        for question in (f"SELECT max(number) {of_it}", f"SELECT max(turn_id) {of_it} AND session_key = 'agent'"):
            [plan] = connection.execute(f"EXPLAIN QUERY PLAN {question}")
            assert "COVERING INDEX run_" in plan[3]
    connection.close()
