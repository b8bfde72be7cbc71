"""What ``agent-nodes run`` takes: the project's parameters, and its own options beside them."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conversation.declarations import ConversationParamDeclaration, ParamType
from conversation.loading import LoadedProject, project_names
from conversation.params import parse_words
from conversation.problems import command


@dataclass(frozen=True, slots=True)
class OwnOption:
    """An option of the command itself; no project can declare its flags or its name."""

    name: str
    flags: tuple[str, ...]
    type: ParamType
    help: str
    metavar: str | None = None


OWN = (
    OwnOption("session", ("--session",), "string", "the conversation to go on with (any name)", "KEY"),
    OwnOption("request_id", ("--request-id",), "string", "names the run; the same id again goes on with it", "ID"),
    OwnOption("reopen", ("--reopen",), "boolean", "go on with a run that failed or was stopped"),
    OwnOption("json", ("--json",), "boolean", "events as lines of JSON; the last line is the result"),
    OwnOption("help", ("-h", "--help"), "boolean", "show this help and exit"),
)

ABOUT = """\
One run of a project: a project.py, its folder, or the name of a folder in ./projects. WORDS are the message; without
any it is what stdin holds, and a last word - puts stdin behind the words. Each project has flags of its own.
"""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What was given, told apart: the words, the project's parameters by name, and the command's own options."""

    words: list[str]
    values: Mapping[str, Any]
    session: str | None
    request_id: str | None
    reopen: bool
    json: bool


def read_options(params: Sequence[ConversationParamDeclaration], words: Sequence[str]) -> RunOptions:
    """Raises :class:`~agent_nodes.errors.InputValidationError` for an unknown flag or one that lacks its value."""
    values, rest = parse_words([*params, *OWN], words)
    own = {option.name: values.pop(option.name, None) for option in OWN}
    return RunOptions(
        list(rest),
        values,
        session=own["session"],
        request_id=own["request_id"],
        reopen=own["reopen"] is True,
        json=own["json"] is True,
    )


def wants_help(words: Sequence[str]) -> bool:
    before = words[: list(words).index("--")] if "--" in words else words
    return any(word in ("-h", "--help") for word in before)


def general_help() -> str:
    names = project_names()
    here = f"\nprojects here: {', '.join(names)}\n" if names else ""
    usage = f"usage: {command('run')} PROJECT [WORDS...] [FLAGS]"
    return f"{usage}\n\n{ABOUT}{here}\nPROJECT --help tells the flags of a project.\n"


def project_help(project: LoadedProject, given: str, params: Sequence[ConversationParamDeclaration]) -> str:
    """The flags of a project in its groups, then the command's own."""
    parser = ArgumentParser(
        prog=command("run", given),
        usage="%(prog)s [WORDS...] [FLAGS]",
        description=f"{project.executor.project_name} ({project.file.name} in {project.folder.name})",
        formatter_class=RawDescriptionHelpFormatter,
        add_help=False,
    )
    for title in ("Quick", "Mode", "Auxiliary"):
        shown = [param for param in params if param.group == title and not param.hidden and param.flags]
        group = parser.add_argument_group(title.lower()) if shown else parser
        for param in shown:
            metavar = None if param.type == "boolean" else param.name.upper()
            _add(group, param.flags, param.name, metavar, _told(param))
    group = parser.add_argument_group("of every project")
    for option in OWN:
        _add(group, option.flags, option.name, option.metavar, option.help)
    return parser.format_help()


def _add(group: Any, flags: Sequence[str], name: str, metavar: str | None, text: str) -> None:
    kind: dict[str, Any] = {"action": "store_true"} if metavar is None else {"metavar": metavar}
    group.add_argument(*sorted(flags, key=len), dest=name, help=text.replace("%", "%%"), **kind)


def _told(param: ConversationParamDeclaration) -> str:
    parts = [param.description or param.label or param.name.replace("_", " ")]
    if param.choices:
        parts.append("one of " + ", ".join(str(choice.value) or "''" for choice in param.choices))
    if param.default is not None:
        parts.append(f"default: {param.default}")
    elif param.required:
        parts.append("must be given")
    return "; ".join(parts)
