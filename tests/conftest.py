"""What holds for every test: nothing of the developer's environment leaks in, and the fast tests run first."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# No test asserts speed. In CI Hypothesis takes a profile of its own (no deadline, the same examples each time).
if "CI" not in os.environ:
    settings.register_profile("local", deadline=None)
    settings.load_profile("local")

TESTS = Path(__file__).parent

# Keys, addresses and settings of whoever runs the tests: none may change what a test sees.
GUARDED = ("AGENT_NODES_", "ANTHROPIC_", "OPENAI_", "PREFECT_")

# Kinds that take long, in the order in which they run after everything else. Each is a marker and a
# folder of `tests/`: what lies in the folder carries the marker without saying so.
LATE = ("crash", "prefect")


def pytest_configure() -> None:
    """Clear the guarded variables before any test module is imported; some libraries read them at import."""
    for name in [name for name in os.environ if name.startswith(GUARDED)]:
        del os.environ[name]


@pytest.fixture(autouse=True)
def clean_environment() -> Iterator[None]:
    """Give back the environment as the test found it, also what was set without monkeypatch."""
    before = dict(os.environ)
    yield
    if dict(os.environ) != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark by folder (before `-m` selects), then put the slow kinds last, each in the order it was collected."""
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        if folder in LATE:
            item.add_marker(folder)
    items.sort(key=_lateness)


def _lateness(item: pytest.Item) -> int:
    return max((place for place, kind in enumerate(LATE, start=1) if item.get_closest_marker(kind)), default=0)
