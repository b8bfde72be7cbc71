"""Where session files are, and what one says of itself to others."""

import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_nodes.errors import InputValidationError, SessionFileError, StorageError
from agent_nodes.store import locate
from agent_nodes.store.storage import connect

ROOT = Path("root")


def test_the_data_folder_is_the_one_that_was_named_or_the_platforms(monkeypatch, tmp_path):
    assert locate.data_dir({"AGENT_NODES_HOME": str(tmp_path)}) == tmp_path
    monkeypatch.setenv("AGENT_NODES_HOME", "~/agents")
    assert locate.data_dir() == Path("~/agents").expanduser()
    assert locate.data_dir({}).name == "agent-nodes"
    assert locate.data_dir({"AGENT_NODES_HOME": ""}) == locate.data_dir({})


def test_a_session_file_is_readable_and_stable():
    path = locate.session_file("My Project!", "conversation/1", "main", ROOT)
    assert path == ROOT / "My-Project-z6wueskqzucm" / "conversation-1-f5n3wyuhqh5q" / "main-bvxea6pdm4b6.sqlite"


def test_a_name_in_another_script_stays_readable_in_one_form():
    for form in ("NFC", "NFD"):
        name = unicodedata.normalize(form, "회의록")
        assert locate.session_file(name, "c", "k", ROOT).parts[1].startswith("회의록-")


def test_without_a_root_the_data_folder_is_meant(monkeypatch, tmp_path):
    monkeypatch.setenv("AGENT_NODES_HOME", str(tmp_path))
    assert locate.session_file("p", "c", "k").is_relative_to(tmp_path)
    assert locate.list_session_files() == []


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_any_string_is_a_safe_part_of_at_most_100_bytes(name):
    path = locate.session_file(name, name, name, ROOT)
    for part in path.relative_to(ROOT).parts:
        assert 12 <= len(part.encode()) <= 100
        assert not set(part) & set('/\\:*?"<>|\x00 ')
        assert not part.startswith((".", "-"))


@given(st.lists(st.text(max_size=8), unique=True, min_size=2, max_size=20))
def test_different_strings_are_different_even_where_letter_case_does_not_count(keys):
    made = {str(locate.session_file("p", "c", key, ROOT)).casefold() for key in keys}
    assert len(made) == len(keys)


@pytest.mark.parametrize("name", ["..", "/etc/passwd", "C:\\x", "a/../../b", "", ".", "con", "가" * 200])
def test_names_that_mean_something_to_a_file_system_do_not(name):
    path = locate.session_file(name, "c", "k", ROOT)
    assert len(path.relative_to(ROOT).parts) == 3
    assert path.resolve().is_relative_to(ROOT.resolve())


@pytest.mark.parametrize("field", ["project", "conversation_id", "session_key"])
def test_half_a_surrogate_pair_in_a_name_is_refused_by_name(field):
    names = {"project": "p", "conversation_id": "c", "session_key": "k", field: "a\udcff"}
    with pytest.raises(InputValidationError, match=f"^{field}: ") as caught:
        locate.session_file(**names, root=ROOT)
    assert caught.value.field == field


def test_a_data_folder_of_nobody_is_refused_by_its_variable():
    with pytest.raises(InputValidationError, match="AGENT_NODES_HOME: '~nobody-of-that-name/x'"):
        locate.data_dir({"AGENT_NODES_HOME": "~nobody-of-that-name/x"})


def test_a_data_folder_that_is_none_is_said(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(StorageError, match=f"^{file} cannot be used for sessions: it is no folder"):
        locate.list_session_files(file)
    monkeypatch.setenv("AGENT_NODES_HOME", str(file))
    with pytest.raises(StorageError, match=f"^AGENT_NODES_HOME={file} cannot be used"):
        locate.list_session_files()


async def test_a_folder_that_cannot_be_read_stands_for_its_files_and_hides_no_others(open_line, tmp_path):
    path = locate.session_file("p", "c", "k", tmp_path)
    await open_line(path)
    closed = tmp_path / "closed"
    closed.symlink_to(closed)
    (tmp_path / "a file").write_text("x")
    assert locate.list_session_files(tmp_path) == sorted([closed, path])


async def test_session_files_are_listed_in_order_without_their_companions(open_line, tmp_path):
    wanted = [locate.session_file("p", f"c{n}", "k", tmp_path) for n in range(3)]
    for path in wanted:
        await open_line(path)
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "notes.sqlite").write_text("not deep enough")
    assert locate.list_session_files(tmp_path) == sorted(wanted)
    assert locate.list_session_files(tmp_path / "nowhere") == []


async def test_a_session_says_what_it_is_beside_its_owner_and_at_rest(open_line, path):
    line = await open_line(path)
    line._connection.execute("UPDATE meta SET project = 'p', session_key = 'k', created_at = 12.5")
    open_names = {found.name for found in path.parent.iterdir()}
    about = locate.read_meta(path)
    assert (about.project, about.session_key, about.created_at, about.seq) == ("p", "k", 12.5, 0)
    assert about.owner_id == line.owner_id
    assert about.main_target == 1
    assert about.path == path
    assert {found.name for found in path.parent.iterdir()} == open_names
    await line.commit("a", lambda tx: None)
    assert locate.read_meta(path).seq == 1
    await line.close()
    rest = path.read_bytes()
    assert locate.read_meta(path).project == "p"
    assert path.read_bytes() == rest
    assert {found.name for found in path.parent.iterdir()} == {"session.sqlite", "session.sqlite.owner"}


async def test_a_session_says_what_it_is_after_its_owner_was_killed(open_line, path):
    line = await open_line(path)
    await line.commit("begin", lambda tx: None)
    await line.close()
    script = (
        "import os, sys; from agent_nodes.store.storage import connect;"
        "c = connect(sys.argv[1]); c.execute(\"UPDATE meta SET project = 'logged'\"); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], timeout=60, check=False)
    before = path.read_bytes()
    assert locate.read_meta(path).project == "logged"
    assert path.read_bytes() == before


def test_what_is_no_session_does_not_say_what_it_is(path):
    with pytest.raises(StorageError, match="cannot be opened"):
        locate.read_meta(path)
    path.write_bytes(b"text")
    with pytest.raises(SessionFileError):
        locate.read_meta(path)
    path.unlink()
    connection = connect(str(path))
    connection.execute("CREATE TABLE other (a)")
    connection.close()
    with pytest.raises(SessionFileError) as caught:
        locate.read_meta(path)
    assert caught.value.kind == "foreign"
