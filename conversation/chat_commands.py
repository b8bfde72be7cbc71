"""What can be said to ``chat`` itself: lines that begin with a slash."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, get_args

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import AgentEffort
from conversation.chat_talk import Call, Prompt, Talk
from conversation.problems import meant
from conversation.render import one_line, printable, size, usage_parts

if TYPE_CHECKING:
    from agent_nodes.messages import JsonValue

_LONE = re.compile(r"/[A-Za-z][\w-]*")


class Face(Protocol):
    """What commands ask of whatever the conversation is shown on. ``queue`` holds the prompts that wait for their
    turn."""

    talk: Talk
    queue: list[Prompt]

    async def say(self, text: str) -> None:
        """Show lines about the conversation; they are no answer."""
        ...

    async def send(self, prompt: Prompt) -> None: ...

    def leave(self) -> None: ...


Run: TypeAlias = "Callable[[Face, str], Awaitable[None]]"


@dataclass(frozen=True, slots=True)
class Command:
    """``given`` names what may stand behind the word, ``choices`` what it may be, for completion."""

    name: str
    help: str
    run: Run
    given: str = ""
    choices: Sequence[str] = ()


def parse(text: str) -> tuple[str, str] | None:
    """The command and what stands behind it, None for a prompt.

    Only the words of commands count, and a word with a slash that stands alone: a prompt may begin with a path.
    """
    text = text.strip()
    if "\n" in text or not text.startswith("/"):
        return None
    word, _, rest = text.partition(" ")
    name = word[1:]
    return (name, rest.strip()) if name in COMMANDS or _LONE.fullmatch(text) else None


def choices(before: str) -> Iterator[tuple[str, str]]:
    """What ``before``, the text in front of the cursor, may become as a command, each with a word about it."""
    word, blank, rest = before.partition(" ")
    if not before.startswith("/") or "\n" in before:
        return
    if not blank:
        yield from ((f"/{name}", command.help) for name, command in COMMANDS.items() if name.startswith(word[1:]))
    elif word[1:] in COMMANDS:
        yield from ((f"{word} {choice}", "") for choice in COMMANDS[word[1:]].choices if choice.startswith(rest))


def prompt_of(text: str) -> str:
    """The prompt that was typed; ``//text`` is the prompt ``/text``."""
    return text[1:] if text.startswith("//") else text


async def run(face: Face, name: str, rest: str) -> None:
    """Raises ``InputValidationError`` for what is no command, or not understood by it."""
    command = COMMANDS.get(name)
    if command is None:
        known = ", ".join(f"/{word}" for word in COMMANDS)
        raise InputValidationError(
            f"There is no command /{name}{meant(name, [*COMMANDS], '/')} There are {known}; "
            f"a prompt that begins with a slash is typed with two: //{name}."
        )
    if rest and not command.given:
        raise InputValidationError(f"/{name} takes nothing behind it.")
    await command.run(face, rest)


# -- the commands ------------------------------------------------------------------------------------------------------


async def _help(face: Face, rest: str) -> None:
    heads = {command.name: f"/{command.name} {command.given}".rstrip() for command in COMMANDS.values()}
    room = max(map(len, heads.values()))
    await face.say("\n".join(f"{heads[name].ljust(room)}  {COMMANDS[name].help}" for name in COMMANDS))
    await face.say(KEYS)


async def _model(face: Face, rest: str) -> None:
    talk = face.talk
    if rest:
        talk.choices["model"] = rest
        await face.say(f"the next turns go to {one_line(rest)}")
    else:
        await face.say(f"model {one_line(talk.model)}; another for the next turns: /model ID")


async def _effort(face: Face, rest: str) -> None:
    levels = [level for level in get_args(AgentEffort) if level]
    if not rest:
        now = face.talk.choices.get("effort")
        await face.say(
            f"effort {now or 'as the service has it'}; another for the next turns: /effort {'|'.join(levels)}"
        )
        return
    if rest not in levels:
        raise InputValidationError(f"/effort: {rest!r} is none of {', '.join(levels)}.", field="effort")
    face.talk.choices["effort"] = rest
    await face.say(f"the next turns think with effort {rest}")


async def _usage(face: Face, rest: str) -> None:
    talk = face.talk
    lines: list[str] = []
    last = talk.run.result if talk.run is not None else None
    if last is not None:
        parts = usage_parts(last.usage, replayed=last.replayed, cost=talk.cost(last.request_id))
        lines.append(f"last turn  {', '.join(parts)}")
    whole = await talk.opening.host.usage()
    parts = [f"{whole.turns} turn{'s' * (whole.turns != 1)}", *usage_parts(whole.usage, cost=whole.cost)]
    lines.append(f"session    {', '.join(parts)}")
    context = talk.context()
    if context is not None:
        lines.append(f"context    {context.used:,} of {context.total:,} tokens ({context.used / context.total:.0%})")
    await face.say("\n".join(lines))


async def _show(face: Face, rest: str) -> None:
    calls = face.talk.calls
    if not calls:
        raise InputValidationError("/show: no tool was called yet.")
    number = int(rest) if rest.isdecimal() else 0 if rest else len(calls)
    if not 1 <= number <= len(calls):
        raise InputValidationError(f"/show: there is no call {rest!r}; give a number from 1 to {len(calls)}, or none.")
    await face.say(call_text(calls[number - 1]))


async def _thinking(face: Face, rest: str) -> None:
    if rest not in ("", "on", "off"):
        raise InputValidationError(f"/thinking: {rest!r} is neither on nor off.")
    if rest:
        face.talk.thinking = rest == "on"
        await face.say(f"reasoning is {'shown' if face.talk.thinking else 'not shown'} from now on")
        return
    thoughts = printable(face.talk.thoughts).strip()
    await face.say(thoughts or "the last turn has shown no reasoning")


async def _queue(face: Face, rest: str) -> None:
    word, _, which = rest.partition(" ")
    if rest and word != "drop":
        raise InputValidationError(f"/queue: {rest!r} is not understood; say /queue, or /queue drop N, or /queue drop.")
    if not face.queue:
        await face.say("no prompt is waiting")
        return
    if not rest:
        lines = [f"{n}  {one_line(prompt.text or '')}" for n, prompt in enumerate(face.queue, start=1)]
        await face.say("\n".join([*lines, "/queue drop N takes one back, /queue drop all of them"]))
        return
    number = int(which) if which.isdecimal() else 0
    if which and not 1 <= number <= len(face.queue):
        raise InputValidationError(f"/queue drop: there is no prompt {which!r}; {len(face.queue)} are waiting.")
    at = slice(number - 1, number) if which else slice(None)
    dropped = face.queue[at]
    del face.queue[at]
    await face.say("\n".join(f"taken back: {one_line(prompt.text or '')}" for prompt in dropped))


async def _retry(face: Face, rest: str) -> None:
    talk = face.talk
    last = await talk.opening.host.last_turn()
    if last is None:
        raise InputValidationError("/retry: nothing was asked in this session yet.")
    if last.status == "answered":
        raise InputValidationError("/retry: the last turn is answered; ask anew.")
    await face.send(Prompt(None, reopen=True))


async def _exit(face: Face, rest: str) -> None:
    face.leave()


COMMANDS = {
    command.name: command
    for command in [
        Command("help", "what can be said and which keys do what", _help),
        Command("model", "which model answers; with ID another one from the next turn on", _model, "[ID]"),
        Command(
            "effort",
            "how hard the model thinks, from the next turn on",
            _effort,
            "[LEVEL]",
            [level for level in get_args(AgentEffort) if level],
        ),
        Command("usage", "tokens and cost of the last turn and the session, and how full the context is", _usage),
        Command("show", "arguments and result of a tool call, the last one or number N", _show, "[N]"),
        Command(
            "thinking", "the last reasoning; with on or off, whether it is shown", _thinking, "[on|off]", ["on", "off"]
        ),
        Command(
            "queue", "prompts that wait for their turn; with drop they are taken back", _queue, "[drop [N]]", ["drop"]
        ),
        Command("retry", "go on with a last turn that was stopped, failed or was cut off", _retry),
        Command("exit", "leave; the session stays, and a turn that runs can go on later", _exit),
    ]
}

KEYS = """\
Enter sends, also while a turn runs: the prompt waits for its turn. Alt+Enter, Ctrl-J or a \\ at the end begins a new
line. Up and Ctrl-R find earlier prompts. Ctrl-C stops the turn, twice it leaves; Ctrl-D leaves."""


def call_text(call: Call) -> str:
    """A call whole: arguments and result, as they are."""
    took = "" if call.seconds is None else f"  {call.seconds:.1f}s"
    lines = [f"{call.number}  {one_line(call.name)}{took}"]
    for name, value in call.arguments.items():
        shown = _text(value)
        lines.append(f"{one_line(name)}:\n{shown}" if "\n" in shown else f"{one_line(name)}: {shown}")
    if not call.ended:
        return "\n".join([*lines, "no result yet"])
    result = _text(call.result)
    lines.append(f"{'failed' if call.is_error else 'result'} ({size(len(result.encode('utf-8', 'replace')))}):")
    return "\n".join([*lines, result])


def _text(value: JsonValue) -> str:
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2))
