"""The demo model: a script computed from the request, so that the first command works without a key.

It drives the real loop: it lists the working directory and reads a few text files through the tools it is offered, or
calls the caller's own tools that the prompt names, and says nothing but what their results hold. The same request
always gives the same answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from agent_nodes._clock import Clock
from agent_nodes.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from agent_nodes.providers.base import Failed, Failure, ModelEvent, ModelRequest
from agent_nodes.providers.demo_tools import (
    BEFORE,
    BEHIND,
    BUILT_IN,
    CONTROL,
    FILLED_IN,
    MAX_QUOTE,
    calls_named,
    filled_in,
    first_line,
    how_to_call,
    lines,
    own_tools,
    tell_call,
)
from agent_nodes.providers.script import Call, Report, Say, Step, Stop
from agent_nodes.providers.scripted import call_ids, play

DEMO_MODELS: Mapping[str, float] = {"demo": 0.0, "demo-slow": 0.03}
"""The models of the provider ``demo`` and their pause before each word, in seconds; the first is the default."""

_INTRO = "This is the demo model: a script that comes with the package, not a language model."
_OUTRO = "For a real model, set ANTHROPIC_API_KEY or OPENAI_API_KEY and ask again."
_ABILITIES = "Ask me what is in a folder, or name a file, and I look at it and quote from it."

_MAX_PROMPT = 4_000  # characters in which names are looked for; the patterns are not linear
_MAX_READS = 2
_READ_LINES = 200
_MAX_NAMES = 12
_CHARS_PER_TOKEN = 4
_CHARS_PER_IMAGE = 4_000

_README = re.compile(r"readme(\.(md|rst|txt))?\Z", re.IGNORECASE)
_TEXT_FILE = re.compile(
    r"(?!\.).+\.(md|rst|txt|py|toml|json|ya?ml|cfg|ini|csv|html?|css|[jt]sx?|sh|sql|rs|go|java|kt|swift|rb|php|c|h|cpp)\Z"
    r"|(license|makefile|dockerfile|changelog)\Z",
    re.IGNORECASE,
)
_PATH = re.compile(BEFORE + r"(?:/|[\w.~-]+/)*[\w-]{2,}(?:\.[\w-]+)*\.[A-Za-z][A-Za-z0-9]{0,7}" + BEHIND)
_FOLDER = re.compile(BEFORE + r"/?(?:[\w.~-]+/)+(?![\w/.-])")
_LOOK = re.compile(r"\b(folders?|director(y|ies)|files?|list|ls)\b", re.IGNORECASE)
_NOTE = re.compile(r"[\[(].*[\])]\Z|\.\.\.|…")
_CUT = re.compile(r"\b(more|limit|cut|truncated|left out)\b", re.IGNORECASE)
_QUOTABLE = re.compile(r"(?=.*\w)[^\ufffd]*\Z")
_TERM = re.compile(r"\w{4,}")
_COMMON = frozenset(
    {
        "about",
        "does",
        "file",
        "files",
        "folder",
        "from",
        "have",
        "list",
        "read",
        "says",
        "tell",
        "that",
        "there",
        "this",
        "what",
        "which",
        "with",
    }
)


class DemoProvider:
    """The :class:`~agent_nodes.providers.base.Provider` behind ``provider="demo"``.

    The request's model must be one of :data:`DEMO_MODELS`; another ends in ``Failed`` of kind ``invalid``.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        name = request.model.model
        if name not in DEMO_MODELS:
            text = f"the provider demo has no model {name!r}; it has {', '.join(DEMO_MODELS)}"
            yield [Failed(Failure("invalid", text, retryable=False))]
            return
        ids = call_ids(request.messages)
        async for events in play(demo(request), clock=self._clock, ids=ids, pause=DEMO_MODELS[name]):
            yield events

    async def close(self) -> None:
        """Nothing is held open."""


def demo(request: ModelRequest) -> list[Step]:
    """What the demo model does next: calls of tools, or the answer of the turn."""
    at = max((i for i, message in enumerate(request.messages) if _is_prompt(message)), default=-1)
    scene = _scene(request, at)
    calls = _calls(scene)
    whole = _opening(scene, calls) if calls else "\n\n".join(_answer(scene))
    text = _unspoken(whole, request.messages[at + 1 :])
    if not calls and not text.strip():
        text = "(That was the whole answer.)"
    room = None if request.max_tokens is None else request.max_tokens * _CHARS_PER_TOKEN
    steps: list[Step] = [Say("text", text)] if text else []
    ending: list[Step] = []
    if room is not None and len(text) > room:
        steps, ending = [Say("text", text[:room])], [Stop("length")]
    else:
        steps += calls
    written = sum(len(step.text) for step in steps if isinstance(step, Say | Call))
    return [*steps, Report(Usage(_tokens(_size(request)), _tokens(written))), *ending]


@dataclass(slots=True)
class _Seen:
    """What the tools said: the last result for each listed folder and each read path, the newest last, and of tools
    of the caller's own each call."""

    folders: dict[str, ToolResultMessage] = field(default_factory=dict[str, ToolResultMessage])
    files: dict[str, ToolResultMessage] = field(default_factory=dict[str, ToolResultMessage])
    own: list[tuple[ToolCall, ToolResultMessage]] = field(default_factory=list[tuple[ToolCall, ToolResultMessage]])

    def add(self, call: ToolCall, result: ToolResultMessage) -> None:
        known = {"ls": self.folders, "read": self.files}.get(call.name)
        if known is not None:
            path = str(call.arguments.get("path", "."))
            known.pop(path, None)
            known[path] = result
        elif call.name not in BUILT_IN:
            self.own.append((call, result))

    def listed(self) -> list[str]:
        """The paths of all files in the listings, those of the newest first."""
        paths = [_join(folder, name) for folder, result in reversed(self.folders.items()) for name in _names(result)]
        return [path for path in paths if not path.endswith("/")]


@dataclass(frozen=True, slots=True)
class _Scene:
    """The prompt, the tools that may be called, and what was seen before the prompt and since."""

    prompt: str
    pictures: bool
    tools: frozenset[str]
    own: tuple[ToolSpec, ...]
    before: _Seen
    now: _Seen

    @property
    def folder(self) -> str:
        """The folder that the prompt names with a slash behind it, else the working directory."""
        found = _FOLDER.search(self.prompt)
        return "." if found is None else found[0].rstrip("/") or "/"

    @property
    def named(self) -> list[str]:
        return _named(self.prompt, list(dict.fromkeys([*self.now.listed(), *self.before.listed()])))


def _is_prompt(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.kind == "user"


def _scene(request: ModelRequest, at: int) -> _Scene:
    before, now = _Seen(), _Seen()
    calls: dict[str, tuple[int, ToolCall]] = {}
    results: list[tuple[int, ToolCall, ToolResultMessage, _Seen]] = []
    made = 0
    for number, message in enumerate(request.messages):
        if isinstance(message, AssistantMessage):
            calls.update((call.id, (made + place, call)) for place, call in enumerate(message.calls))
            made += len(message.calls)
        elif isinstance(message, ToolResultMessage) and (found := calls.pop(message.call_id, None)):
            results.append((*found, message, before if number < at else now))
    # In the order of the calls: that of the results depends on which of them was done first.
    for _, call, result, seen in sorted(results, key=lambda item: item[0]):
        seen.add(call, result)
    content = message.content if at >= 0 and isinstance(message := request.messages[at], UserMessage) else ()
    prompt = "\n".join(block.text for block in content if isinstance(block, TextBlock))[:_MAX_PROMPT]
    pictures = any(isinstance(block, ImageBlock) for block in content)
    tools = request.system.tools
    return _Scene(prompt, pictures, frozenset(tool.name for tool in tools), tuple(own_tools(tools)), before, now)


def _calls(scene: _Scene) -> list[Call]:
    """The caller's tools that the prompt names; without any one look at a folder, then one round of reads."""
    if scene.now.files or scene.now.own:
        return []
    if called := calls_named(scene.prompt, scene.own, next(iter(scene.named), None)):
        return called
    if "ls" in scene.tools and not scene.now.folders and _wants_look(scene):
        return [_call("ls", path=scene.folder)]
    if "read" in scene.tools:
        return [_call("read", path=path, limit=_READ_LINES) for path in _choose(scene)[:_MAX_READS]]
    return []


def _call(name: str, **arguments: str | int) -> Call:
    return Call(name, json.dumps(arguments, ensure_ascii=False), dict(arguments))


def _wants_look(scene: _Scene) -> bool:
    if all(result.is_error for result in scene.before.folders.values()):
        return True
    return not scene.named and (scene.folder != "." or bool(_LOOK.search(scene.prompt)))


def _choose(scene: _Scene) -> list[str]:
    """The files to read: those named in the prompt, else a README and other text files of a folder just listed."""
    if named := scene.named:
        return named
    if scene.now.folders:
        listed = scene.now.listed()
        first = [path for path in listed if _README.match(PurePosixPath(path).name)]
        return first + [path for path in listed if path not in first and _TEXT_FILE.match(PurePosixPath(path).name)]
    nothing_known = not scene.before.files and not scene.before.folders
    return ["README.md"] if nothing_known and "ls" not in scene.tools else []


def _named(prompt: str, known: Sequence[str]) -> list[str]:
    """The files that ``prompt`` names, in its order: known ones by path or name, else whatever looks like a path."""
    found: dict[int, str] = {}
    folded = prompt.casefold()
    for path in known:
        for name in (path, PurePosixPath(path).name):
            # The plain search first: a pattern for each of hundreds of names would take long.
            if name.casefold() in folded and (hit := re.search(BEFORE + re.escape(name) + BEHIND, prompt, re.I)):
                found.setdefault(hit.start(), path)
                break
    for hit in _PATH.finditer(prompt):
        found.setdefault(hit.start(), hit[0])
    if not found:
        words = set(_TERM.findall(folded))
        # README and LICENSE are spoken of without their suffix.
        stems = [(PurePosixPath(path).name.split(".")[0], path) for path in known]
        return [path for stem, path in stems if stem.isupper() and stem.casefold() in words]
    return list(dict.fromkeys(path for _, path in sorted(found.items())))


def _opening(scene: _Scene, calls: Sequence[Call]) -> str:
    return f"Let me look at {_folder_label(scene.folder)} first." if calls[0].name == "ls" else ""


def _unspoken(text: str, since: Sequence[Message]) -> str:
    """``text`` without what an answer that broke off has said of it already (text of whole calls is another one's)."""
    spoken = ""
    for message in since:
        if isinstance(message, AssistantMessage):
            broken = message.interrupted or message.stop == "length"
            spoken = spoken + message.text if broken else ""
    return text.removeprefix(spoken)


def _answer(scene: _Scene) -> Iterator[str]:
    """The paragraphs of the answer."""
    yield _INTRO
    if scene.pictures:
        yield "I cannot see pictures."
    for folder, result in scene.now.folders.items():
        yield _tell_folder(folder, result)
    for path, result in scene.now.files.items():
        yield _tell_file(path, result, scene.prompt)
    if scene.now.folders and not scene.now.files and scene.now.listed():
        if "read" in scene.tools:
            yield "I see no file there of which I know that it is text, so I read none."
        else:
            yield "I was offered no tool that reads files, so the names are all I can tell."
    for call, result in scene.now.own:
        yield tell_call(call, result)
    if scene.now.own:
        if filled_in(scene.prompt, [call for call, _ in scene.now.own]):
            yield FILLED_IN
    elif not scene.now.folders and not scene.now.files:
        yield from _recall(scene)
    if scene.own and not scene.now.own:
        yield how_to_call(scene.own)
    yield _OUTRO


def _recall(scene: _Scene) -> Iterator[str]:
    """An answer without a new look: what is known from before, and what could be asked."""
    if not scene.own and not scene.tools & {"ls", "read"}:
        yield "I was offered no tool that lists or reads files, so I cannot look at any."
    known = [(path, result) for path, result in scene.before.files.items() if not result.is_error]
    for path, result in known[-1:]:
        yield "From before I know this. " + _tell_file(path, result, scene.prompt)
    if not known:
        for folder, result in list(scene.before.folders.items())[-1:]:
            yield "From before I know this. " + _tell_folder(folder, result)
    if scene.tools & {"ls", "read"}:
        yield _ABILITIES


def _tell_folder(folder: str, result: ToolResultMessage) -> str:
    label = _folder_label(folder)
    if result.is_error:
        return f"I could not list {label}: {first_line(result.text)}"
    names = _names(result)
    if not names:
        return f"I looked at {label}: it is empty, so there is nothing to read."
    folders = sum(name.endswith("/") for name in names)
    cut = any(_NOTE.match(line) and _CUT.search(line) for line in lines(result.text))
    shown = ", ".join(f"`{name}`" for name in names[:_MAX_NAMES])
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    counts = f"{_count(len(names) - folders, 'file')} and {_count(folders, 'folder')}"
    return f"I looked at {label} and saw {'at least ' if cut else ''}{counts}: {shown}{more}."


def _tell_file(path: str, result: ToolResultMessage, prompt: str) -> str:
    if result.is_error:
        return f"I could not read `{path}`: {first_line(result.text)}"
    if any(isinstance(block, ImageBlock) for block in result.content):
        return f"`{path}` is a picture, and I cannot see pictures."
    if CONTROL.search(result.text):
        return f"`{path}` does not look like text, so I quote nothing from it."
    line = _quote(result.text, prompt, path)
    if not line:
        first = first_line(result.text)
        note = f": {first.strip('[]()')}" if _NOTE.match(first) else ""
        return f"`{path}` holds no line that I could quote{note}."
    return f"In `{path}` I read:\n\n> {line if len(line) <= MAX_QUOTE else line[:MAX_QUOTE] + ' …'}"


def _quote(text: str, prompt: str, path: str) -> str:
    """The line that shares most words with the prompt, of equal ones the first that reads like a sentence."""
    terms = set(_TERM.findall(prompt.casefold())) - _COMMON - set(_TERM.findall(path.casefold()))

    def worth(line: str) -> tuple[int, bool]:
        return len(terms.intersection(_TERM.findall(line.casefold()))), len(line.split()) >= 3 and line[0].isalnum()

    quotable = [line for line in lines(text) if not _NOTE.match(line) and _QUOTABLE.match(line)]
    return max(quotable, key=worth, default="")


def _names(result: ToolResultMessage) -> list[str]:
    """The entries of a listing, folders with a slash behind them, links without their target; notes are no entries."""
    if result.is_error:
        return []
    entries = [line.partition(" -> ") for line in lines(result.text) if not _NOTE.match(line)]
    return [name + "/" if target.endswith("/") else name for name, _, target in entries]


def _folder_label(folder: str) -> str:
    return "this folder" if folder == "." else f"the folder `{folder}`"


def _join(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder.rstrip('/')}/{name}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _tokens(chars: int) -> int:
    return -(-chars // _CHARS_PER_TOKEN)


def _size(request: ModelRequest) -> int:
    """The characters of the whole request, pictures at a flat rate."""
    size = sum(map(len, request.system.sections))
    size += sum(len(tool.name) + len(tool.description) + len(str(tool.parameters)) for tool in request.system.tools)
    for message in request.messages:
        if not isinstance(message, SystemMessage):
            for block in message.content:
                match block:
                    case TextBlock():
                        size += len(block.text)
                    case ToolCall():
                        size += len(block.name) + len(str(block.arguments))
                    case ImageBlock():
                        size += _CHARS_PER_IMAGE
                    case _:  # reasoning and native blocks are another model's and not read
                        pass
    return size
