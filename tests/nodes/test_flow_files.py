"""The flows that people copy run as plain calls where there is no server, and start none."""

from pathlib import Path

import pytest

from tests.nodes.test_no_server import ROOT, child

SAID = {
    "etl_with_agent": "5 of 5 rows are in feedback.sqlite\n",
    "review_many": "# notes.md\n",
    "watch_notes": "In `notes.md` I read:\n\n> remember the milk\n",
    "write_and_review": "In `notes.md` I read:\n\n> remember the milk\n",
}


@pytest.mark.feature("P03")
@pytest.mark.parametrize("name", sorted(SAID))
def test_the_flow_runs_without_a_server_and_starts_none(name: str, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("remember the milk\n")
    arguments = ["notes.md"] if name == "write_and_review" else []
    done = child(tmp_path, str(ROOT / "flows" / f"{name}.py"), *arguments)
    assert done.returncode == 0, done.stderr
    assert SAID[name] in done.stdout
    assert "Traceback" not in done.stderr
    # A server would have made its database there.
    assert list((tmp_path / "prefect").glob("**/*.db")) == []


def test_every_flow_of_the_folder_is_run() -> None:
    assert {path.stem for path in (ROOT / "flows").glob("*.py")} == {"hello_agent", *SAID}
