"""What can be said to ``chat`` itself: lines that begin with a slash."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, get_args

from agent_nodes.errors import InputValidationError
from agent_nodes.messages import AgentEffort
from conversation.chat_talk import Call, Prompt, Talk
from conversation.problems import meant
from conversation.text import one_line, printable, size, usage_parts

if TYPE_CHECKING:
    from agent_nodes.messages import JsonValue

EFFORTS = tuple(level for level in get_args(AgentEffort) if level)

_LONE = re.compile(r"/[A-Za-z][\w-]*")


class Face(Protocol):
    """What commands ask of whatever the conversation is shown on. ``queue`` holds the prompts that wait for their
    turn."""

    talk: Talk
    queue: list[Prompt]

    async def say(self, text: str, *, whole: bool = False) -> None:
        """Show lines about the conversation, which are no answer; ``whole`` ones are never wrapped."""
        ...

    async def send(self, prompt: Prompt) -> None: ...

    def leave(self) -> None: ...


Run: TypeAlias = "Callable[[Face, str], Awaitable[None]]"


@dataclass(frozen=True, slots=True)
class Command:
    """``given`` names what may stand behind the word, ``choices`` what it may be where so much of it stands there."""

    name: str
    help: str
    run: Run
    given: str = ""
    choices: Callable[[Talk, str], Sequence[str]] = lambda talk, rest: ()


def parse(text: str) -> tuple[str, str] | None:
    """The command and what stands behind it, None for a prompt.

    Only the words of commands count, those that are nearly one, and a word with a slash that stands alone: a prompt may
    begin with a path.
    """
    text = text.strip()
    if "\n" in text or not text.startswith("/"):
        return None
    word, _, rest = text.partition(" ")
    name = word[1:]
    known = name in COMMANDS or _LONE.fullmatch(text) or (_LONE.fullmatch(word) and _nearly(name))
    return (name, rest.strip()) if known else None


def _nearly(name: str) -> bool:
    """Whether ``name`` is a slip of the fingers away from a command: a prompt costs a turn."""
    import difflib

    return bool(difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.75))


def choices(talk: Talk, before: str) -> Iterator[tuple[str, str]]:
    """What ``before``, the text in front of the cursor, may become as a command, each with a word about it."""
    word, blank, rest = before.partition(" ")
    if not before.startswith("/") or "\n" in before:
        return
    if not blank:
        yield from ((f"/{name}", command.help) for name, command in COMMANDS.items() if name.startswith(word[1:]))
    elif word[1:] in COMMANDS:
        found = COMMANDS[word[1:]].choices(talk, rest)
        yield from ((f"{word} {choice}", "") for choice in found if choice.startswith(rest))


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
    lines = [f"{heads[name].ljust(room)}  {COMMANDS[name].help}" for name in COMMANDS]
    await face.say("\n".join([*lines, "", KEYS]))


async def _model(face: Face, rest: str) -> None:
    from conversation.chat_models import FIELDS, choose, model_ids

    talk = face.talk
    if not rest:
        provider, model = map(one_line, talk.model)
        ids = ", ".join(map(one_line, model_ids(talk.opening)))
        await face.say(
            f"model {model} of {provider}; another for the next turns: /model ID{ids and f', such as {ids}'}"
        )
        return
    chosen = choose(talk.opening, rest)
    for name in FIELDS if "effort" in talk.flags else (*FIELDS, "effort"):
        talk.choices.pop(name, None)
    talk.choices |= chosen.fields
    talk.flags |= chosen.flags
    await face.say(f"the next turns go to {one_line(chosen.id)} of {one_line(chosen.provider)}")


async def _effort(face: Face, rest: str) -> None:
    talk = face.talk
    if not rest:
        now = talk.choices.get("effort") or talk.opening.given.effort
        await face.say(
            f"effort {now or 'as the service has it'}; another for the next turns: /effort {'|'.join(EFFORTS)}"
        )
        return
    if rest not in EFFORTS:
        raise InputValidationError(f"/effort: {rest!r} is none of {', '.join(EFFORTS)}.", field="effort")
    talk.choices["effort"] = talk.flags["effort"] = rest
    await face.say(f"the next turns think with effort {rest}")


async def _image(face: Face, rest: str) -> None:
    pictures = face.talk.pictures
    if not rest:
        names = ", ".join(one_line(picture.path) for picture in pictures)
        await face.say(
            f"with the next prompt: {names or 'no picture'}; /image PATH adds one, /image drop takes all back"
        )
    elif rest == "drop":
        pictures.clear()
        await face.say("no picture goes with the next prompt")
    else:
        from conversation.chat_pictures import read_picture

        pictures.append(await asyncio.to_thread(read_picture, rest))
        await face.say(f"it goes with the next prompt: {one_line(pictures[-1].path)}")


async def _clear(face: Face, rest: str) -> None:
    await face.talk.opening.host.reset()
    await face.say("the model begins anew; what was said stays in the session")


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
    await face.say(call_text(calls[number - 1]), whole=True)


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
    if face.talk.running:
        raise InputValidationError("/retry: a turn runs; wait for its end, or stop it with Ctrl-C.")
    last = await face.talk.opening.host.last_turn()
    if last is None:
        raise InputValidationError("/retry: nothing was asked in this session yet.")
    if last.status == "answered":
        raise InputValidationError("/retry: the last turn is answered; ask anew.")
    await face.send(Prompt(None, reopen=True))


async def _exit(face: Face, rest: str) -> None:
    face.leave()


def _models(talk: Talk, rest: str) -> Sequence[str]:
    from conversation.chat_models import model_ids

    try:
        return model_ids(talk.opening)
    except InputValidationError:  # of the file; whoever names a model is told
        return ()


def _paths(talk: Talk, rest: str) -> Sequence[str]:
    from conversation.chat_pictures import paths

    return paths(rest)


COMMANDS = {
    command.name: command
    for command in [
        Command("help", "the commands and the keys", _help),
        Command("model", "which model answers, from the next turn on", _model, "[ID]", _models),
        Command("effort", "how hard it thinks, from the next turn on", _effort, "[LEVEL]", lambda talk, rest: EFFORTS),
        Command("image", "a picture goes with the next prompt", _image, "[PATH|drop]", _paths),
        Command("usage", "tokens and cost; how full the context is", _usage),
        Command("show", "arguments and result of a tool call", _show, "[N]"),
        Command(
            "thinking",
            "the last reasoning; whether it is shown",
            _thinking,
            "[on|off]",
            lambda talk, rest: ("on", "off"),
        ),
        Command("queue", "the prompts that wait; takes them back", _queue, "[drop [N]]", lambda talk, rest: ("drop",)),
        Command("retry", "goes on with the last turn", _retry),
        Command("clear", "the model forgets what was said; the session does not", _clear),
        Command("exit", "leaves; a turn that runs can go on later", _exit),
    ]
}

KEYS = """\
Enter sends, also while a turn runs: then the prompt waits for its end.
Alt+Enter, Ctrl-J, or a \\ at the end and Enter, begins a new line.
Up and Ctrl-R find earlier prompts, Tab completes a command.
Ctrl-C stops the turn, twice it leaves; Ctrl-D leaves.
//text is the prompt /text."""


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
