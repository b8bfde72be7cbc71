"""What was typed before: kept in order, for its user alone, and never too much of it."""

import stat
from pathlib import Path

import pytest

from conversation.chat_history import KEPT, LARGEST, ChatHistory

pytestmark = pytest.mark.feature("O01")


def test_the_newest_comes_first_in_another_process_too(tmp_path: Path) -> None:
    path = tmp_path / "new" / "chat-history"
    first = ChatHistory(path)
    assert list(first.load_history_strings()) == []
    for text in ("one", "two\nlines \ud800 한글", "three"):
        first.append_string(text)
    assert list(ChatHistory(path).load_history_strings()) == ["three", "two\nlines \ud800 한글", "one"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_a_killed_process_left_half_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "chat-history"
    path.write_bytes(b'"one"\n{"no": "text"}\n\xff\n"tw')
    history = ChatHistory(path)
    assert list(history.load_history_strings()) == ["one"]
    history.append_string("two")
    assert list(ChatHistory(path).load_history_strings()) == ["two", "one"]


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "chat-history"
    long = "x" * (LARGEST // KEPT)
    path.write_text("".join(f'\n"{n} {long}"' for n in range(KEPT + 50)))
    loaded = list(ChatHistory(path).load_history_strings())
    assert (len(loaded), loaded[0].split()[0], loaded[-1].split()[0]) == (KEPT, str(KEPT + 49), "50")
    assert list(ChatHistory(path).load_history_strings()) == loaded
    assert len(path.read_bytes().split()) == 2 * KEPT
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["chat-history"]


def test_that_it_cannot_be_kept_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = ChatHistory(tmp_path / "file" / "chat-history")
    history.append_string("one")
    assert history.get_strings() == ["one"]
    assert list(history.load_history_strings()) == []
