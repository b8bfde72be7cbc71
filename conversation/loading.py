"""A project from its file: imported, and the one executor in it found."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from agent_nodes.errors import InputValidationError
from conversation.executor import ConversationExecutorDefinition
from conversation.structure import FILE

PROJECTS = "projects"


@dataclass(frozen=True, slots=True)
class LoadedProject:
    file: Path
    executor: ConversationExecutorDefinition

    @property
    def folder(self) -> Path:
        return self.file.parent


def load_project(given: str) -> LoadedProject:
    """The project that ``given`` means: its file, its folder, or the name of a folder in ``./projects``. Its file is
    imported, with its folder in front of the module path.

    Raises :class:`InputValidationError` where there is none, where it cannot be imported, and where it holds no
    executor or several.
    """
    file = find_project(given)
    known = {id(value): name for name, value in _imported(file).items() if _is_executor(value)}
    if len(known) != 1:
        what = f"several ({', '.join(known.values())})" if known else "none"
        raise InputValidationError(
            f"{file}: a project is one executor under a name of the module, and there is {what}; write "
            "executor = define_executor(...)",
            field="project",
        )
    [name] = known.values()
    return LoadedProject(file, vars(sys.modules[_module_name(file)])[name])


def find_project(given: str) -> Path:
    """The file of the project. Raises :class:`InputValidationError` where there is none."""
    path = Path(given)
    candidates = [path, path / FILE]
    if given == path.name:
        candidates.append(Path(PROJECTS) / given / FILE)
    for candidate in candidates:
        if candidate.is_file():
            return candidate.resolve()
    if path.is_dir():
        raise InputValidationError(f"{given}: the folder holds no {FILE}.", field="project")
    names = project_names()
    close = get_close_matches(given, names, 1)
    if close:
        hint = f"did you mean {close[0]}?"
    else:
        hint = f"./{PROJECTS} has {', '.join(names)}." if names else f"give the path of a {FILE} or of its folder."
    raise InputValidationError(f"There is no project {given!r}; {hint}", field="project")


def project_names() -> list[str]:
    """Those in ``./projects``."""
    return sorted(file.parent.name for file in Path(PROJECTS).glob(f"*/{FILE}"))


def _is_executor(value: object) -> bool:
    return isinstance(value, ConversationExecutorDefinition)


def _module_name(file: Path) -> str:
    """One that no other module has."""
    return "agent_project_" + re.sub(r"\W", "_", file.parent.name if file.name == FILE else file.stem)


def _imported(file: Path) -> dict[str, object]:
    name = _module_name(file)
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InputValidationError(f"{file}: is no Python file.", field="project")
    module = module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    except InputValidationError as error:
        raise InputValidationError(f"{file}{_line(error, file)}: {error.message}", field=error.field) from error
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())
        kind = type(error).__name__ + (f": {said}" if said else "")
        raise InputValidationError(
            f"{file}{_line(error, file)}: cannot be imported ({kind}).", field="project"
        ) from error
    return dict(vars(module))


def _line(error: BaseException, file: Path) -> str:
    """Where in the file it went wrong, as ``:12``."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return f":{error.lineno}"
    line = 0
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == str(file):
            line = frame.tb_lineno
        frame = frame.tb_next
    return f":{line}" if line else ""
