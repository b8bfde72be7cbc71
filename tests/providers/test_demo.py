"""The demo model over the real file tools, and over whatever text a tool could give."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_nodes._aio import AbortSignal
from agent_nodes.events import TextDelta
from agent_nodes.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from agent_nodes.providers.base import EncodedPrefix, Failed, Finished, Fold, ModelEntry, ModelRequest, UsageUpdate
from agent_nodes.providers.demo import DEMO_MODELS, DemoProvider
from agent_nodes.providers.demo_tools import BUILT_IN, sample
from agent_nodes.providers.scripted import check_history
from agent_nodes.tools.base import AgentTool, AgentToolResult, ToolContext
from agent_nodes.tools.files import LS
from agent_nodes.tools.policy import builtin_tools
from agent_nodes.tools.read import READ
from tests.fakes.clock import FakeClock

pytestmark = pytest.mark.feature("C06")
TOOLS = (LS, READ)


def entry(model: str = "demo") -> ModelEntry:
    return ModelEntry("demo", model, "demo", "")


class Talk:
    """A conversation with the demo model: real tools, and a history that real services would take at every step."""

    def __init__(self, workdir: Path, tools: Sequence[AgentTool] = TOOLS, max_tokens: int | None = None) -> None:
        self.workdir, self.tools, self.max_tokens = workdir, {tool.name: tool for tool in tools}, max_tokens
        self.messages: list[Message] = []
        self.called: list[ToolCall] = []

    def request(self, model: str = "demo") -> ModelRequest:
        specs = tuple(tool.spec() for tool in self.tools.values())
        system = SystemMessage(("Be helpful.",), specs, "openai-completions", "demo", model)
        return ModelRequest(entry(model), system, tuple(self.messages), 0, EncodedPrefix(), self.max_tokens)

    async def reply(self) -> AssistantMessage:
        assert check_history(self.messages) is None
        fold, end = Fold(), None
        async for events in DemoProvider(FakeClock()).stream(self.request()):
            for event in events:
                fold.add(event)
                end = event
        assert isinstance(end, Finished)
        assert fold.usage is not None and fold.usage.input_tokens > 0 and fold.usage.output_tokens > 0
        message = fold.message(entry(), end.stop)
        self.messages.append(message)
        return message

    async def ask(self, prompt: str, *images: ImageBlock) -> str:
        """The answer; the tools called on the way are in ``called``."""
        self.called = []
        self.messages.append(UserMessage((TextBlock(prompt), *images)))
        while (message := await self.reply()).calls:
            for call in message.calls:
                self.called.append(call)
                self.messages.append(await self._run(call))
            assert len(self.called) < 10, "the demo model does not come to an end"
        return message.text

    async def _run(self, call: ToolCall) -> ToolResultMessage:
        context = ToolContext(call.id, self.workdir, (self.workdir,), AbortSignal(), lambda _: None)
        try:
            value = await self.tools[call.name].execute(call.arguments, context)
            result = value if isinstance(value, AgentToolResult) else AgentToolResult(value)
        except Exception as error:
            result = AgentToolResult(str(error), is_error=True)
        return ToolResultMessage(call.id, call.name, result.blocks(), result.is_error)

    def calls(self) -> list[tuple[str, str]]:
        return [(call.name, call.arguments["path"]) for call in self.called]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text("# Harbour\n\n![badge](x.svg)\n\nA small boat rental for two lakes.\n")
    (tmp_path / "boats.py").write_text("import os\n\nPORT = 8080  # the port of the boat server\n")
    (tmp_path / "notes.txt").write_text("Paint the jetty before May.\n")
    (tmp_path / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text("Row with both oars at once.\n")
    return tmp_path


async def test_the_first_prompt_lists_the_folder_reads_files_and_quotes_them(folder: Path):
    talk = Talk(folder)
    answer = await talk.ask("What is in this folder?")
    assert talk.calls() == [("ls", "."), ("read", "README.md"), ("read", "boats.py")]
    assert "4 files and 1 folder" in answer
    assert "`docs/`" in answer
    assert "In `README.md` I read:\n\n> A small boat rental for two lakes." in answer
    assert "In `boats.py` I read:\n\n> " in answer


async def test_results_are_told_in_the_order_of_the_calls_whichever_was_done_first(folder: Path):
    talk = Talk(folder)
    await talk.ask("What is in this folder?")
    at = max(i for i, message in enumerate(talk.messages) if isinstance(message, AssistantMessage) and message.calls)
    swapped = Talk(folder)
    swapped.messages = [*talk.messages[: at + 1], *reversed(talk.messages[at + 1 : -1])]
    assert len(swapped.messages) - at > 2, "one round has several reads"
    told, turned = talk.messages[-1], await swapped.reply()
    assert isinstance(told, AssistantMessage)
    assert turned.text == told.text


async def test_every_answer_says_that_it_is_the_demo_and_how_to_get_a_model(folder: Path):
    talk = Talk(folder)
    for prompt in ("What is here?", "And now?", "Read notes.txt", "List docs/"):
        answer = await talk.ask(prompt)
        assert "demo model" in answer
        assert "not a language model" in answer
        assert "ANTHROPIC_API_KEY or OPENAI_API_KEY" in answer


async def test_a_file_named_in_the_first_prompt_is_read_and_the_fitting_line_quoted(folder: Path):
    talk = Talk(folder)
    answer = await talk.ask("Which port does boats.py use?")
    assert talk.calls() == [("ls", "."), ("read", "boats.py")]
    assert "> PORT = 8080  # the port of the boat server" in answer


async def test_a_later_prompt_that_names_a_file_reads_just_that(folder: Path):
    talk = Talk(folder)
    await talk.ask("What is in this folder?")
    answer = await talk.ask("And what does notes.txt say?")
    assert talk.calls() == [("read", "notes.txt")]
    assert "> Paint the jetty before May." in answer


async def test_a_later_prompt_that_names_none_answers_from_what_is_known(folder: Path):
    talk = Talk(folder)
    await talk.ask("Look at README.md")
    answer = await talk.ask("How many lakes are there?")
    assert talk.calls() == []
    assert "From before" in answer
    assert "> A small boat rental for two lakes." in answer
    assert "name a file" in answer


async def test_a_later_prompt_about_the_folder_looks_again(folder: Path):
    talk = Talk(folder)
    await talk.ask("Hello")
    (folder / "new.md").write_text("Fresh words for everybody.\n")
    answer = await talk.ask("Please list the files again.")
    assert talk.calls()[0] == ("ls", ".")
    assert "`new.md`" in answer


async def test_a_named_folder_is_listed_and_its_files_read(folder: Path):
    talk = Talk(folder)
    answer = await talk.ask("What is in docs/?")
    assert talk.calls() == [("ls", "docs"), ("read", "docs/guide.md")]
    assert "> Row with both oars at once." in answer


@pytest.mark.parametrize(
    ("prompt", "paths"),
    [
        ("Compare notes.txt and `boats.py`.", ["notes.txt", "boats.py"]),
        ("README.md를 읽어 주세요", ["README.md"]),
        ("what does the readme say?", ["README.md"]),
        ("read docs/guide.md, please", ["docs/guide.md"]),
        ("Explain guide to me, e.g. in 3.11 steps", ["README.md", "boats.py"]),
        ("See https://example.com/page.html", ["README.md", "boats.py"]),
        ("READ NOTES.TXT", ["notes.txt"]),
        ("Read lost.txt", ["lost.txt"]),
        ("notes.txt, boats.py and README.md", ["notes.txt", "boats.py"]),
    ],
)
async def test_which_files_a_prompt_names(folder: Path, prompt: str, paths: list[str]):
    talk = Talk(folder)
    await talk.ask(prompt)
    assert [path for name, path in talk.calls() if name == "read"] == paths


async def test_a_name_with_blanks_is_found(folder: Path):
    (folder / "my plan.txt").write_text("Buy a second boat.\n")
    talk = Talk(folder)
    assert "> Buy a second boat." in await talk.ask("What does my plan.txt say?")


async def test_an_empty_folder_is_called_empty(tmp_path: Path):
    talk = Talk(tmp_path)
    answer = await talk.ask("What is in this folder?")
    assert talk.calls() == [("ls", ".")]
    assert "empty" in answer
    assert "read:" not in answer


async def test_a_folder_without_text_files_is_told_and_nothing_read(tmp_path: Path):
    (tmp_path / "logo.png").write_bytes(b"\x89PNG")
    (tmp_path / ".env").write_text("SECRET=1")
    talk = Talk(tmp_path)
    answer = await talk.ask("What is in this folder?")
    assert talk.calls() == [("ls", ".")]
    assert "`logo.png`" in answer
    assert "read none" in answer


async def test_tool_errors_are_told(folder: Path):
    answer = await Talk(folder).ask("Read lost.txt")
    assert "I could not read `lost.txt`: " in answer
    answer = await Talk(folder).ask("What is in nowhere/ ?")
    assert "I could not list the folder `nowhere`: " in answer


async def test_a_folder_that_could_not_be_listed_is_looked_at_again(tmp_path: Path):
    talk = Talk(tmp_path)
    await talk.ask("What is in sub/ ?")
    (tmp_path / "sub").mkdir()
    await talk.ask("And sub/ now?")
    assert talk.calls() == [("ls", "sub")]


async def test_a_binary_and_an_empty_file_are_not_quoted(folder: Path):
    (folder / "void.txt").touch()
    (folder / "logo.bin").write_bytes(b"\x01\x00\x02")
    answer = await Talk(folder).ask("Read logo.bin and void.txt")
    assert "`logo.bin` holds no line that I could quote: logo.bin is binary data" in answer
    assert "`void.txt` holds no line that I could quote: void.txt is empty" in answer


async def test_a_picture_is_told_from_a_broken_one(folder: Path):
    (folder / "dot.gif").write_bytes(
        bytes.fromhex("47494638396101000100800000ffffff0000002c00000000010001000002024401003b")
    )
    answer = await Talk(folder).ask("Read dot.gif and logo.png")
    assert "`dot.gif` is a picture, and I cannot see pictures" in answer
    assert "could not read `logo.png`: logo.png: the picture (image/png) is cut off" in answer


async def test_a_long_line_is_cut(folder: Path):
    (folder / "long.txt").write_text("word " * 500)
    answer = await Talk(folder).ask("Read long.txt")
    assert len(answer) < 600
    assert " …" in answer


async def test_a_cut_listing_says_at_least(tmp_path: Path):
    for number in range(520):
        (tmp_path / f"f{number:03}.dat").touch()
    answer = await Talk(tmp_path).ask("What is here?")
    assert "at least 500 files and 0 folders" in answer
    assert "and 488 more" in answer


async def test_without_tools_it_says_so(folder: Path):
    talk = Talk(folder, tools=())
    answer = await talk.ask("What is in this folder?")
    assert talk.calls() == []
    assert "no tool" in answer


async def test_with_ls_alone_it_names_the_files(folder: Path):
    talk = Talk(folder, tools=(LS,))
    answer = await talk.ask("What is in this folder?")
    assert talk.calls() == [("ls", ".")]
    assert "`README.md`" in answer
    assert "no tool that reads files" in answer


async def test_with_read_alone_it_tries_the_readme(folder: Path):
    talk = Talk(folder, tools=(READ,))
    answer = await talk.ask("Hello")
    assert talk.calls() == [("read", "README.md")]
    assert "> A small boat rental for two lakes." in answer


async def test_a_picture_in_the_prompt_is_not_seen(folder: Path):
    assert "cannot see pictures" in await Talk(folder).ask("What is this?", ImageBlock("aGk=", "image/png"))


async def test_a_picture_that_a_tool_gave_is_not_seen(folder: Path):
    talk = Talk(folder)
    talk.messages = [
        UserMessage((TextBlock("Read pic.png"),)),
        AssistantMessage((ToolCall("c1", "ls", {"path": "."}),), "openai-completions", "demo", "demo", "tool_use"),
        ToolResultMessage("c1", "ls", (TextBlock("pic.png"),)),
        AssistantMessage((ToolCall("c2", "read", {"path": "pic.png"}),), "openai-completions", "demo", "demo"),
        ToolResultMessage("c2", "read", (ImageBlock("aGk=", "image/png"),)),
    ]
    assert "`pic.png` is a picture" in (await talk.reply()).text


def broken_off(text: str) -> AssistantMessage:
    return AssistantMessage((TextBlock(text),), "openai-completions", "demo", "demo", "end", True)


async def test_a_broken_answer_goes_on_where_it_ended(folder: Path):
    talk = Talk(folder)
    whole = await talk.ask("What is in this folder?")
    talk.messages[-1] = broken_off(whole[:40])
    talk.messages.append(UserMessage((TextBlock("Go on."),), "continuation"))
    rest = (await talk.reply()).text
    assert whole[:40] + rest == whole
    talk.messages[-1] = broken_off(rest)
    talk.messages.append(UserMessage((TextBlock("Go on."),), "continuation"))
    assert (await talk.reply()).text == "(That was the whole answer.)"


async def test_a_broken_opening_still_leads_to_the_calls(folder: Path):
    talk = Talk(folder)
    talk.messages = [UserMessage((TextBlock("What is here?"),)), broken_off("Let me ")]
    talk.messages.append(UserMessage((TextBlock("Go on."),), "continuation"))
    message = await talk.reply()
    assert message.text.startswith("look at this folder")
    assert [call.name for call in message.calls] == ["ls"]


async def test_max_tokens_cuts_the_answer_and_a_continuation_ends_it(folder: Path):
    whole = await Talk(folder).ask("Read notes.txt")
    talk = Talk(folder, max_tokens=50)
    first = await talk.ask("Read notes.txt")
    last = talk.messages[-1]
    assert isinstance(last, AssistantMessage)
    assert (last.stop, len(first)) == ("length", 200)
    talk.messages.append(UserMessage((TextBlock("Go on."),), "continuation"))
    assert first + (await talk.reply()).text == whole


async def test_it_streams_by_words_and_reports_usage_once(folder: Path):
    talk = Talk(folder, tools=())
    talk.messages = [UserMessage((TextBlock("Hello"),))]
    events = [event async for batch in DemoProvider(FakeClock()).stream(talk.request()) for event in batch]
    deltas = [event.delta for event in events if isinstance(event, TextDelta)]
    assert all(len(delta.split()) <= 1 for delta in deltas)
    (usage,) = [event.usage for event in events if isinstance(event, UsageUpdate)]
    assert usage == Usage(input_tokens=4, output_tokens=-(-len("".join(deltas)) // 4))


async def test_the_same_request_gives_the_same_events(folder: Path):
    talk = Talk(folder)
    talk.messages = [UserMessage((TextBlock("Hello"),))]
    one, two = [[e async for e in DemoProvider(FakeClock()).stream(talk.request())] for _ in range(2)]
    assert one == two


async def test_demo_slow_pauses_before_each_word_on_the_clock(folder: Path):
    talk, clock = Talk(folder, tools=()), FakeClock()
    talk.messages = [UserMessage((TextBlock("Hello"),))]
    stream = DemoProvider(clock).stream(talk.request("demo-slow"))
    for _ in range(3):
        following = asyncio.ensure_future(anext(stream))
        assert await clock.wait_timer() == pytest.approx(DEMO_MODELS["demo-slow"])
        clock.advance(DEMO_MODELS["demo-slow"])
        await following


async def test_an_unknown_model_fails_by_name(folder: Path):
    talk = Talk(folder)
    talk.messages = [UserMessage((TextBlock("Hello"),))]
    ((event,),) = [events async for events in DemoProvider(FakeClock()).stream(talk.request("demo-xl"))]
    assert isinstance(event, Failed)
    assert (event.failure.kind, event.failure.retryable) == ("invalid", False)
    assert "'demo-xl'" in event.failure.message
    assert "demo, demo-slow" in event.failure.message


# -- tools of the caller's own -----------------------------------------------------------------------------------------

AMOUNT = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
NOTHING = {"type": "object"}


def own(name: str, parameters: dict[str, Any] = NOTHING, result: str | None = None) -> AgentTool:
    """A tool whose result is ``result``, or the arguments it got."""

    async def execute(arguments: dict[str, Any], _: ToolContext) -> str:
        return f"{name} got {sorted(arguments.items())}" if result is None else result

    return AgentTool(name=name, description="", parameters=parameters, execute=execute)


def made(talk: Talk) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in talk.called]


def test_the_demo_knows_which_tools_are_built_in():
    assert {tool.name for tool in builtin_tools()} == BUILT_IN


async def test_an_own_tool_that_the_prompt_names_is_called_with_the_json_object_of_the_prompt(folder: Path):
    talk = Talk(folder, (*TOOLS, own("ledger", AMOUNT)))
    answer = await talk.ask('Call ledger with {"amount": 7, "note": {"of": ["x"]}}, please.')
    assert made(talk) == [("ledger", {"amount": 7, "note": {"of": ["x"]}})]
    assert "> ledger got [('amount', 7), ('note', {'of': ['x']})]" in answer
    assert "I filled in" not in answer
    assert "demo model" in answer


async def test_without_an_object_the_arguments_come_from_the_schema_and_the_answer_says_so(folder: Path):
    talk = Talk(folder, (own("ledger", AMOUNT),))
    answer = await talk.ask("Please use the ledger.")
    assert made(talk) == [("ledger", {"amount": 1})]
    assert "> ledger got [('amount', 1)]" in answer
    assert "a JSON object behind the tool's name" in answer


async def test_the_answer_says_so_also_where_only_another_call_was_given_an_object(folder: Path):
    answer = await Talk(folder, (own("add", AMOUNT), own("take", AMOUNT))).ask('take {"amount": 2} and add')
    assert "a JSON object behind the tool's name" in answer


async def test_a_tool_without_arguments_needs_no_word_about_them(folder: Path):
    talk = Talk(folder, (own("ledger"),))
    answer = await talk.ask("ledger!")
    assert made(talk) == [("ledger", {})]
    assert "I filled in" not in answer


@pytest.mark.parametrize(
    ("prompt", "value"),
    [
        ("look_up: the price of basil.", "the price of basil"),
        ("How many words has README.md? Use look_up.", "README.md"),
        ("Use look_up on the file README.md", "README.md"),
        ("look_up", "demo"),
    ],
)
async def test_strings_are_the_file_that_is_named_or_the_words_behind_the_name(folder: Path, prompt: str, value: str):
    talk = Talk(folder, (own("look_up", PATH),))
    await talk.ask(prompt)
    assert made(talk) == [("look_up", {"path": value})]


async def test_several_named_tools_are_called_in_one_round_each_with_what_stands_behind_it(folder: Path):
    talk = Talk(folder, (own("add", AMOUNT), own("take", AMOUNT), own("other")))
    answer = await talk.ask('First take {"amount": 2}, then add {"amount": 3, "note": "other"}.')
    assert made(talk) == [("take", {"amount": 2}), ("add", {"amount": 3, "note": "other"})]
    assert sum(isinstance(message, AssistantMessage) for message in talk.messages) == 2
    assert answer.index("> take got") < answer.index("> add got")


@pytest.mark.parametrize("prompt", ["ledgers", "my-ledger", "ledger.txt", "x/ledger", "What is in docs/?", "ledger_2"])
async def test_a_tool_is_named_by_the_whole_word_alone(folder: Path, prompt: str):
    talk = Talk(folder, (*TOOLS, own("ledger", AMOUNT)))
    answer = await talk.ask(prompt)
    assert "ledger" not in [call.name for call in talk.called]
    assert (
        'I call `ledger` when the prompt names it, best with its arguments behind the name: `ledger {"amount": 1}`.'
        in (answer)
    )


@pytest.mark.parametrize("prompt", ["Ledger, please", "ledger를 불러 주세요", "`ledger`", "Call the (ledger)."])
async def test_a_name_is_found_whatever_stands_around_it(folder: Path, prompt: str):
    talk = Talk(folder, (*TOOLS, own("ledger")))
    await talk.ask(prompt)
    assert made(talk) == [("ledger", {})]


async def test_of_names_that_differ_by_case_the_exact_one_is_called(folder: Path):
    talk = Talk(folder, (own("Ledger"), own("ledger")))
    await talk.ask("ledger")
    assert made(talk) == [("ledger", {})]


async def test_with_own_tools_alone_it_says_how_to_call_one_and_not_that_there_is_none(folder: Path):
    answer = await Talk(folder, (own("ledger", AMOUNT), own("rain"))).ask("What is in this folder?")
    assert "no tool" not in answer
    assert "I call one of `ledger`, `rain` when the prompt names it" in answer


async def test_a_failed_an_empty_and_a_binary_result_are_told(folder: Path):
    async def fail(*_) -> str:
        raise OSError("no paper\nsecond line")

    broken = AgentTool(name="print_it", description="", parameters=NOTHING, execute=fail)
    talk = Talk(folder, (broken, own("hush", result=""), own("noise", result="a\x01b")))
    answer = await talk.ask("print_it, hush and noise")
    assert "I called `print_it` with `{}`, and it failed: no paper second line\n" in answer
    assert "I called `hush` with `{}`. Its result is empty." in answer
    assert "I called `noise` with `{}`. Its result does not look like text" in answer


async def test_a_long_result_is_quoted_in_part(folder: Path):
    answer = await Talk(folder, (own("novel", result="a long line " * 50 + "\nline\n" * 50),)).ask("novel")
    assert len(answer) < 1_000
    assert answer.count("> line") == 11
    assert "\n> …" in answer


async def test_the_next_prompt_is_a_new_one(folder: Path):
    talk = Talk(folder, (*TOOLS, own("ledger", AMOUNT)))
    await talk.ask('ledger {"amount": 7}')
    answer = await talk.ask("What is in this folder?")
    assert talk.calls() == [("ls", "."), ("read", "README.md"), ("read", "boats.py")]
    assert "ledger got" not in answer


@pytest.mark.parametrize(
    "properties",
    [
        {"a": {"type": "string"}, "b": {"type": "number"}, "c": {"type": "boolean"}, "d": {"type": "array"}},
        {"a": {"enum": ["red", "green"]}, "b": {"const": 7}, "c": {"type": "integer", "default": 5}},
        {"a": {"type": ["null", "string"]}, "b": {"type": "null"}, "c": {"type": ["integer", "null"]}},
        {"a": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "b": {}, "c": True},
        {"a": {"$ref": "#/$defs/Size"}, "b": {"allOf": [{"$ref": "#/$defs/Place"}]}},
        {"a": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
    ],
)
def test_filled_in_arguments_fit_the_schema(properties: dict[str, Any]):
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {**properties, "left_out": {"type": "integer"}},
        "required": [*properties],
        "$defs": {
            "Size": {"enum": ["s", "m"]},
            "Place": {"type": "object", "properties": {"size": {"$ref": "#/$defs/Size"}}, "required": ["size"]},
        },
    }
    arguments = sample(schema, "some words")
    assert list(arguments) == [*properties]
    jsonschema_rs.validator_for(schema).validate(arguments)


def test_a_schema_that_nothing_fits_is_given_up():
    loop = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    assert "a" in sample(loop)
    assert sample({"type": "object", "properties": {"a": {"$ref": "#/$defs/lost"}}, "required": ["a"]}) == {"a": "demo"}
    assert sample({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}, "required": ["a"]})


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": 1e999}', "{'a': 1}", '{"a":' * 700, "{" * 3_000, "{]"])
async def test_what_is_no_json_object_is_none(folder: Path, text: str):
    talk = Talk(folder, (own("ledger", AMOUNT),))
    await talk.ask("ledger " + text)
    assert made(talk) == [("ledger", {"amount": 1})]


async def test_half_a_surrogate_pair_in_the_object_is_replaced(folder: Path):
    talk = Talk(folder, (own("ledger"),))
    await talk.ask(r'ledger {"a": "\ud800"}')
    assert made(talk) == [("ledger", {"a": "\ufffd"})]


_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=80)


@given(prompt=_TEXT.filter(str.strip), listing=_TEXT, content=_TEXT, failed=st.booleans())
def test_any_prompt_and_any_result_lead_to_an_answer(prompt: str, listing: str, content: str, failed: bool):
    async def ls(*_) -> str:
        return listing

    async def read(*_) -> str:
        if failed:
            raise OSError(content)
        return content

    tools = [
        AgentTool(name="ls", description="", parameters={"type": "object"}, execute=ls),
        AgentTool(name="read", description="", parameters={"type": "object"}, execute=read),
        AgentTool(name="own", description="", parameters=PATH, execute=read),
    ]

    async def run() -> None:
        talk = Talk(Path(), tools)
        for text in (prompt, "Read " + listing, "own " + prompt):
            assert "demo model" in await talk.ask(text)

    asyncio.run(run())
