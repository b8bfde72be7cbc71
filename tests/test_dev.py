"""The helper script, on a copy of it with stand-ins for the tools: what it calls, in which order, what it refuses."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# A tool that notes its own name and arguments, and where it ran.
TOOL = """#!/bin/sh
echo "${0##*/}${1:+ $*}" >>"$LOG"
pwd >>"$LOG.cwd"
"""

# A uv that makes the environment by copying the stand-in tools.
UV = """#!/bin/sh
echo "uv $1 $2" >>"$LOG"
case "$1 $3" in
"pip --help") echo " --group NAME" ;;
venv*) for last; do :; done; mkdir -p "$last" && cp -R "$TOOLS" "$last/bin" ;;
esac
"""

# A python3 that answers the script's questions about its version and its modules.
PYTHON = """#!/bin/sh
case "$*" in
-V) echo "Python $VERSION" ;;
*version_info*) [ "$VERSION" != 3.10.1 ] ;;
*sys.executable*) echo "$0" ;;
*) exit 1 ;;
esac
"""


@dataclass(frozen=True, slots=True)
class Result:
    """Exit status, output, lines of the error output, and the tools' calls in order."""

    status: int
    out: str
    err: list[str]
    calls: list[str]


@dataclass(frozen=True, slots=True)
class Checkout:
    """A directory with the script, a PATH of stand-ins, and the log that they write."""

    root: Path
    tools: Path
    path: Path
    log: Path

    def environment(self, **more: str) -> dict[str, str]:
        """What the stand-ins need, and nothing else."""
        path = f"{self.path}:/usr/bin:/bin"
        return {"PATH": path, "LOG": str(self.log), "TOOLS": str(self.tools), "VERSION": "3.11.7", **more}

    def dev(self, *args: str, script: str | None = None, cwd: Path | None = None, **env: str) -> Result:
        """Run the script to its end, from its own directory unless told another."""
        command = ["sh", script or str(self.root / "dev"), *args]
        done = subprocess.run(
            command,
            cwd=cwd or self.root,
            env=self.environment(**env),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        calls = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return Result(done.returncode, done.stdout, done.stderr.splitlines(), calls)


def executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    root, tools, path = tmp_path / "check out", tmp_path / "tools", tmp_path / "path"
    for folder in (root / "agent_nodes", root / "conversation", tools, path):
        folder.mkdir(parents=True)
    for name in ("dev", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, root / name)
    for name in ("python", "agent-nodes", "ruff", "pyright", "lint-imports"):
        executable(tools / name, TOOL)
    executable(path / "uv", UV)
    executable(path / "python3", PYTHON)
    return Checkout(root, tools, path, tmp_path / "log")


def test_first_call_sets_up_and_second_starts_at_once(checkout: Checkout) -> None:
    first = checkout.dev("run", "hello")
    assert first.status == 0, first.err
    assert [line.split(":")[0] for line in first.err] == ["dev"] * 4
    assert "uv pip install" in first.calls
    assert not {"uv sync", "uv run", "uv lock"}.intersection(first.calls)
    assert first.calls[-1] == "agent-nodes ask hello"
    second = checkout.dev("run", "two words", "--json")
    assert (second.calls, second.err) == (["agent-nodes ask two words --json"], [])
    assert not (checkout.root / ".venv.lock").is_symlink()


def test_run_keeps_the_callers_directory_also_through_a_link(checkout: Checkout, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "dev").symlink_to("../check out/dev")
    (elsewhere / "d").symlink_to("dev")
    assert checkout.dev("run", script="./d", cwd=elsewhere).calls[-1] == "agent-nodes ask"
    assert checkout.dev("test", "-x", script="./d", cwd=elsewhere).calls == ["python -m pytest -x"]
    places = Path(f"{checkout.log}.cwd").read_text().splitlines()
    assert places[-2:] == [str(elsewhere), str(checkout.root)]


def test_whole_check_lints_before_the_tests(checkout: Checkout) -> None:
    checkout.dev("lint")
    assert checkout.dev("test").calls == [
        "ruff check .",
        "ruff format --check .",
        "pyright",
        "lint-imports",
        "python -m pytest",
    ]


def test_whole_check_stops_at_a_red_lint(checkout: Checkout) -> None:
    executable(checkout.tools / "ruff", f"{TOOL}exit 1\n")
    red = checkout.dev("test")
    assert red.status == 1
    assert red.calls[-1] == "ruff check ."


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_changed_requirements_renew_the_environment_in_place(checkout: Checkout, name: str) -> None:
    checkout.dev("lint")
    with (checkout.root / name).open("a") as file:
        file.write("# changed\n")
    renewed = checkout.dev("run")
    assert "uv pip install" in renewed.calls
    assert not any(call.startswith("uv venv") for call in renewed.calls)
    assert checkout.dev("run").err == []


def test_another_interpreter_makes_another_environment(checkout: Checkout) -> None:
    checkout.dev("lint")
    other = checkout.path / "python3.12"
    executable(other, PYTHON)
    assert any(call.startswith("uv venv") for call in checkout.dev("run", PYTHON=str(other)).calls)
    assert checkout.dev("run").err == []


def test_lock_of_a_killed_process_is_taken_over(checkout: Checkout) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    (checkout.root / ".venv.lock").symlink_to(str(gone.pid))
    assert checkout.dev("run").status == 0
    assert sorted(path.name for path in checkout.root.glob(".venv*")) == [".venv"]


def test_second_caller_waits_for_the_first(checkout: Checkout) -> None:
    lock = checkout.root / ".venv.lock"
    lock.symlink_to(str(os.getpid()))
    with subprocess.Popen(
        ["sh", str(checkout.root / "dev"), "run"], env=checkout.environment(), stderr=subprocess.PIPE, text=True
    ) as second:
        assert second.stderr is not None
        assert "waiting for another ./dev" in second.stderr.readline()
        assert not (checkout.root / ".venv").exists()
        lock.unlink()
        assert second.wait(timeout=60) == 0
    assert (checkout.root / ".venv").exists()


def test_old_python_is_refused_in_one_line(checkout: Checkout) -> None:
    refused = checkout.dev("run", VERSION="3.10.1")
    assert refused.status == 2
    assert len(refused.err) == 1
    assert "3.10.1" in refused.err[0] and "3.11 or newer" in refused.err[0]


def test_the_command_is_told_how_it_was_called(checkout: Checkout) -> None:
    executable(checkout.tools / "agent-nodes", f'{TOOL}echo "$AGENT_NODES_DEV"\n')
    assert checkout.dev("run", script="./dev").out == "./dev\n"
    listed = checkout.dev("sessions", "list", script="dev")
    assert (listed.out, listed.calls[-1]) == ("./dev\n", "agent-nodes sessions list")
    held = checkout.dev("chat", "--session", "my notes", script="dev")
    assert (held.out, held.calls[-1]) == ("./dev\n", "agent-nodes chat --session my notes")


def test_a_missing_package_index_is_said_by_name(checkout: Checkout) -> None:
    executable(checkout.path / "uv", UV.replace("esac", '*"-q"*) exit 1 ;;\nesac'))
    failed = checkout.dev("run")
    assert failed.status == 2
    assert "is there a package index?" in failed.err[-1]


def test_missing_python_is_refused_in_one_line(checkout: Checkout) -> None:
    refused = checkout.dev("run", PYTHON="no-such-python")
    assert (refused.status, len(refused.err)) == (2, 1)
    assert "no-such-python not found" in refused.err[0]


def test_python_without_ensurepip_and_pip_names_the_package(checkout: Checkout) -> None:
    executable(checkout.path / "uv", "#!/bin/sh\nexit 127\n")
    refused = checkout.dev("run")
    assert (refused.status, len(refused.err)) == (2, 1)
    assert "python3-venv" in refused.err[0]
    assert list(checkout.root.glob(".venv*")) == []


def test_help_and_unknown_commands_set_nothing_up(checkout: Checkout) -> None:
    shown = checkout.dev("help")
    assert (shown.status, shown.out) == (0, checkout.dev().out)
    for command in ("run", "chat", "sessions", "test", "lint", "fmt", "gen", "catalog", "bench", "help"):
        assert f"\n  {command} " in shown.out
    unknown = checkout.dev("frobnicate")
    assert (unknown.status, unknown.err[-1]) == (2, "dev: no such command: frobnicate")
    assert not (checkout.root / ".venv").exists()
