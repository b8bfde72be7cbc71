"""Importing the packages is cheap: the heavy libraries load only where they are used."""

import json
import subprocess
import sys

import pytest

HEAVY = ("prefect", "sqlmodel", "sqlalchemy", "anthropic", "openai", "starlette", "httpx2")


def loaded_by(code: str) -> set[str]:
    """Top level modules that a fresh interpreter holds after running `code`."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert child.returncode == 0, child.stderr
    return set(json.loads(child.stdout.splitlines()[-1]))


@pytest.mark.parametrize("package", ["agent_nodes", "conversation"])
def test_importing_a_package_loads_no_heavy_library(package: str) -> None:
    loaded = loaded_by(f"import {package}")
    assert package in loaded
    assert loaded.isdisjoint(HEAVY), f"import {package} loaded {sorted(loaded.intersection(HEAVY))}"


def test_the_guard_sees_a_heavy_library() -> None:
    assert "httpx2" in loaded_by("import httpx2")
