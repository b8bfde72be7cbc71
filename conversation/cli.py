"""The command ``agent-nodes``.

Importing this loads next to nothing, and a command only what it needs: argparse takes a tenth of the time of a richer
parser to load, and that time is paid on every start.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from agent_nodes.errors import InputValidationError
from conversation.problems import command, give_up_stdout, interrupted, meant, problem, put, say, trace

USAGE = """\
usage: agent-nodes COMMAND [OPTION...]

Agent turns over durable sessions: a turn that was cut off goes on where it was.

  ask [PROMPT...]      one turn; the answer on stdout
  chat                 a conversation, turn by turn
  sessions list        the sessions there are
  sessions show KEY    what was said in one
  models [WORD]        the models there are: windows, prices, efforts
  run PROJECT          one run of a project, with flags of its own
  structure [PATH]     what projects declare, read without running them

  --help, --version    COMMAND --help tells the options of a command

examples:
  agent-nodes ask "What is in this folder?"
  git diff | agent-nodes ask "Review this change:" -
  agent-nodes ask --session notes "And what did I ask before?"
  agent-nodes chat --session notes
"""

ASK = """\
One turn with the model, over the files of the working directory. The prompt is the words given, or what
stdin holds; a last word - puts stdin behind the words.
"""

ASK_MORE = """\
Keys and addresses come from ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, OPENAI_API_KEY and OPENAI_BASE_URL. Without a
provider Anthropic's key is used, else OpenAI's, else the demo answers: a script and no language model.

Every turn is kept in a session. One that was cut off (a crash, SIGTERM) goes on where it was when the session is
asked again with the same prompt or none; with another prompt it is finished first. Ctrl-C stops the turn, twice ends
the program at once; a stopped or failed turn goes on with --reopen.

exit status: 0 answered, 1 failed or the session is busy, 2 wrong usage, 130 stopped, 141 stdout was closed (the turn
is stopped), 143 SIGTERM (the turn can go on)

examples:
  agent-nodes ask "What is in this folder?"
  agent-nodes ask --session notes -m claude-sonnet-5 "Summarise README.md"
  agent-nodes ask --provider local --base-url http://127.0.0.1:8080/v1 -m qwen "hello"
  agent-nodes ask --json "hello" | tail -n 1
"""


CHAT = """\
A conversation with the model, over the files of the working directory: type a prompt, read the answer, type the
next one, also while the model still works. /help tells the commands and the keys.
"""

CHAT_MORE = """\
Keys and addresses are those of ask. Every turn is kept in the session; --session KEY comes back to it, shows what was
said last, and offers to go on with a turn that was cut off.

Ctrl-C stops the turn, twice it leaves. Where stdin or stdout is no terminal, each line of stdin is a prompt or a
command, the answers stand on stdout with an empty line between them, and all else on stderr.

exit status: 0 left, in a pipe that of the last turn: 0 answered, 1 failed, 130 stopped; 1 the session is busy, 2 wrong
usage, 130 Ctrl-C twice, 141 stdout was closed, 143 SIGTERM (the turn can go on)

examples:
  agent-nodes chat
  agent-nodes chat --session notes -m claude-sonnet-5-5
  printf 'What is in this folder?\\nAnd which file is the newest?\\n' | agent-nodes chat
"""

LIST = """\
The sessions there are, the one used last first: session, turns, state, size, last used. At a terminal it is a table
with these names above, else the values stand between tabs and there is no header.
"""

MODELS = """\
The models configured in agent-nodes.toml (here and in the user's configuration folder), then those of the built-in list
by who made them. At a terminal it is a table; else the values stand between tabs: id, provider, model, window, longest
output, US dollars per million tokens of input, output, cache read and cache write, efforts, pictures yes or no.
"""

STRUCTURE = """\
What projects declare, read from their source: no project is imported or run. A line for each project, or one for
each thing in it that cannot be seen or does not hold: file, line, column, code, and what to do. PATH is a project.py,
a folder with one, or a folder of such folders. Exit status 1 where anything is found.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status. Nothing that goes wrong ends in a traceback, unless AGENT_NODES_DEBUG is set."""
    try:
        _prepare_streams()
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except BrokenPipeError:
        give_up_stdout()
        return 141
    except (Exception, KeyboardInterrupt) as error:
        if interrupted(error):
            say("stopped")
            return 130
        trace(error)
        say(problem(error))
        return 2 if isinstance(error, InputValidationError) else 1


def _run(arguments: list[str]) -> int:
    match arguments:
        case []:
            print(USAGE, end="", file=sys.stderr)
            return 2
        case ["-h" | "--help" | "help"]:
            put(USAGE, end="")
            return 0
        case ["--version"]:
            from importlib.metadata import version

            put(f"agent-nodes {version('prefect-agent-nodes')}")
            return 0
        case [name, *rest] if name in _COMMANDS:
            return _COMMANDS[name](rest)
        case _:
            close = meant(arguments[0], tuple(_COMMANDS))
            raise InputValidationError(f"There is no command {arguments[0]!r}{close} See agent-nodes --help.")


def _chat(arguments: list[str]) -> int:
    given = _chat_parser().parse_args(arguments)
    from conversation.chat import chat

    return chat(given)


def _sessions(arguments: list[str]) -> int:
    match arguments:
        case ["list", *rest]:
            given = _list_parser().parse_args(rest)
            from conversation.sessions import list_command

            return list_command(given)
        case ["show", *rest]:
            given = _show_parser().parse_args(rest)
            from conversation.sessions import show_command

            return show_command(given)
        case ["-h"] | ["--help"]:
            put("usage: agent-nodes sessions list|show KEY [--json]")
            return 0
        case _:
            raise InputValidationError("sessions: say list or show KEY.")


def _models(arguments: list[str]) -> int:
    given = _models_parser().parse_args(arguments)
    from conversation.models import models_command

    return models_command(given)


def _structure(arguments: list[str]) -> int:
    given = _structure_parser().parse_args(arguments)
    from conversation.check import structure_command

    return structure_command(given)


def _ask(arguments: list[str]) -> int:
    with _result_at_the_end(arguments):
        given = _parse(_ask_parser(), arguments)
        from conversation.ask import ask

        return ask(given)


def _run_project(arguments: list[str]) -> int:
    with _result_at_the_end(arguments):
        from conversation.run import run_command

        return run_command(arguments)


_COMMANDS: Mapping[str, Callable[[list[str]], int]] = {
    "ask": _ask,
    "chat": _chat,
    "run": _run_project,
    "sessions": _sessions,
    "models": _models,
    "structure": _structure,
}


@contextmanager
def _result_at_the_end(arguments: list[str]) -> Generator[None]:
    """With ``--json`` the last line is a result also where nothing came to a session."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        if "--json" in _split(arguments)[0]:
            put(_without_session(error))
        raise


def _without_session(error: BaseException) -> str:
    import json

    result: dict[str, str | None] = {"type": "result", "status": "failed", "text": "", "request_id": None}
    if interrupted(error):
        result |= {"status": "aborted", "reason": "aborted", "detail": "stopped"}
    else:
        result |= {"reason": getattr(error, "code", "runtime_failure"), "detail": problem(error)}
    return json.dumps(result | {"session": None}, separators=(",", ":"))


class _Parser(ArgumentParser):
    def print_help(self, file: Any = None) -> None:
        put(self.format_help(), end="")

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ").split()[0].partition("=")[0]
        known = [*self._option_string_actions] if unknown.startswith("--") else []
        raise InputValidationError(f"{message}{meant(unknown, known)} See {self.prog} --help.")


def _parser(name: str, description: str, epilog: str | None = None) -> _Parser:
    parser = _Parser(
        prog=command(*name.split()),
        description=description,
        epilog=epilog,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.register("type", None, _text)  # of every value that says no other
    return parser


def _parse(parser: ArgumentParser, arguments: list[str]) -> Namespace:
    """Options and words in any order; behind ``--`` everything is a word."""
    options, words = _split(arguments)
    given = parser.parse_intermixed_args(options)
    given.prompt = [*given.prompt, *words]
    return given


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What stands before and behind the first ``--``."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at + 1 :]


def _ask_parser() -> ArgumentParser:
    parser = _parser("ask", ASK, ASK_MORE.replace("agent-nodes ask", command("ask")))
    add = parser.add_argument
    add("prompt", type=str, nargs="*", metavar="PROMPT", help="the words of the prompt; - is stdin")
    _add_session(parser)
    add("--request-id", metavar="ID", help="names the turn; the same id again gives its result and no new turn")
    add("--reopen", action="store_true", help="go on with a turn that failed or was stopped")
    add("--json", action="store_true", help="events as lines of JSON; the last line is the result")
    return parser


def _chat_parser() -> ArgumentParser:
    parser = _parser("chat", CHAT, CHAT_MORE.replace("agent-nodes chat", command("chat")))
    _add_session(parser)
    return parser


def _add_session(parser: ArgumentParser) -> None:
    """Which session, and the options of :data:`conversation.problems.OPTIONS`: who answers and how."""
    add = parser.add_argument
    add(
        "--session",
        metavar="KEY",
        help="the session to go on with (any name); without it a new one is started",
    )
    add("--project", metavar="NAME", help="the session's project, where it is not default")
    add("--session-key", metavar="NAME", help="which session of the conversation KEY, where it is not agent")
    add(
        "--provider",
        metavar="NAME",
        help="anthropic, openai, demo, or your own name together with --base-url",
    )
    add("-m", "--model", metavar="ID", help="the model, or one of agent-nodes.toml; default: the provider's own")
    add("--base-url", metavar="URL", help="address of the service")
    kinds = ("anthropic-messages", "openai-responses", "openai-completions")
    add("--api-kind", choices=kinds, help="protocol of the service")
    add("--system-prompt", metavar="TEXT", help="instructions instead of the built-in ones")
    add("-C", "--workdir", metavar="DIR", help="where tools work; default: the current directory")
    add("--allow", dest="allowed_directories", action="append", metavar="DIR", help="one more folder for file tools")
    policies = ("read-only", "workspace", "auto")
    add("--permission-policy", choices=policies, help="how far tools may go; default: workspace")
    efforts = ("off", "minimal", "low", "medium", "high", "xhigh", "max", "ultra", "")
    add(
        "--effort",
        choices=efforts,
        metavar="LEVEL",
        help="how hard it thinks: off, minimal, low ... max; '' lets it choose",
    )
    add("--model-attributes", metavar="JSON", help="what the model is, such as '{\"context_window\": 200000}'")
    add("--max-tokens", type=_count, metavar="N", help="longest output of one model response, in tokens")
    add("--context-window", type=_count, metavar="N", help="the model's window, in tokens")
    add("--stall-timeout", type=_seconds, metavar="SECONDS", help="silence after which a connection counts as lost")


def _list_parser() -> ArgumentParser:
    parser = _parser("sessions list", LIST)
    parser.add_argument("--json", action="store_true", help="one line of JSON a session")
    return parser


def _show_parser() -> ArgumentParser:
    parser = _parser("sessions show", "The turns of a session, also while one is running.")
    add = parser.add_argument
    add("key", metavar="KEY", help="the session's key, as the list shows it")
    add("--project", metavar="NAME", help="where several projects have such a session")
    add("--session-key", metavar="NAME", help="where a conversation has several sessions")
    add("--json", action="store_true", help="one JSON document")
    return parser


def _models_parser() -> ArgumentParser:
    parser = _parser("models", MODELS)
    parser.add_argument("filter", nargs="?", default="", metavar="WORD", help="only models with this in id or name")
    parser.add_argument("--json", action="store_true", help="one line of JSON a model")
    return parser


def _structure_parser() -> ArgumentParser:
    parser = _parser("structure", STRUCTURE)
    parser.add_argument("path", nargs="?", default=".", metavar="PATH", help="a project.py, its folder, or one of such")
    parser.add_argument("--json", action="store_true", help="one line of JSON a project")
    return parser


def _text(text: str) -> str:
    """Bytes of a command line that are no text come as lone surrogates, which no name and no store can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ArgumentTypeError("holds bytes that are no text") from error
    return text


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise ArgumentTypeError(f"{text!r} is no whole number above 0")
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def _prepare_streams() -> None:
    """No file that is opened later may take the place of a closed stdin, stdout or stderr, and no letter that a stream
    cannot write may end the program."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open to the end
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and stream.errors == "strict":  # pyright: ignore[reportUnnecessaryComparison]
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
