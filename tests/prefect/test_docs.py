"""The blocks of the documents that only run where there is a server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, fences

PAGE = ROOT / "docs" / "guide" / "flows.md"
NEEDED = "needs a Prefect server"
LIMIT = 120


@pytest.mark.feature("P01", "P05")
def test_blocks_that_need_a_server_run_with_one(home: Path, tmp_path: Path) -> None:
    blocks = [fence for fence in fences(PAGE) if fence.not_run == NEEDED]
    assert len(blocks) == 2
    (tmp_path / "README.md").write_text("# Garden plan\n")
    for block in blocks:
        done = subprocess.run(
            [sys.executable, "-c", block.text],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 0, f"{block.where}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
