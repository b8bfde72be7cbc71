"""The script language, the player and the scripted provider's strictness."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_nodes.errors import InputValidationError
from agent_nodes.events import TextDelta, ThinkingDelta
from agent_nodes.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from agent_nodes.providers.base import (
    ArgsDelta,
    BlockEnd,
    BlockStart,
    EncodedPrefix,
    Failed,
    Finished,
    Fold,
    ModelEntry,
    ModelEvent,
    ModelRequest,
    UsageUpdate,
)
from agent_nodes.providers.script import (
    Call,
    Drop,
    LoseCall,
    Report,
    Say,
    Status,
    Step,
    Stop,
    Wait,
    parse,
)
from agent_nodes.providers.scripted import ScriptedProvider, check_history, play
from tests.fakes.clock import FakeClock

ENTRY = ModelEntry("scripted", "scripted", "demo", "")
SYSTEM = SystemMessage(("Be brief.",), (), "openai-completions", "scripted", "scripted")


def user(text: str = "hi") -> UserMessage:
    return UserMessage((TextBlock(text),))


def assistant(*content, **fields) -> AssistantMessage:
    return AssistantMessage(tuple(content), "openai-completions", "scripted", "scripted", **fields)


def called(*ids: str) -> AssistantMessage:
    return assistant(*(ToolCall(name, "read", {}) for name in ids), stop="tool_use")


def result(call_id: str, name: str = "read") -> ToolResultMessage:
    return ToolResultMessage(call_id, name, (TextBlock("ok"),))


def request(*messages: Message) -> ModelRequest:
    return ModelRequest(ENTRY, SYSTEM, messages or (user(),), 0, EncodedPrefix())


async def played(script: str, *messages: Message) -> list[ModelEvent]:
    provider = ScriptedProvider(script, clock=FakeClock())
    return [event async for events in provider.stream(request(*messages)) for event in events]


def folded(events: Sequence[ModelEvent]) -> AssistantMessage:
    fold = Fold()
    for event in events:
        fold.add(event)
    last = events[-1]
    return fold.message(ENTRY, last.stop) if isinstance(last, Finished) else fold.partial(ENTRY)


# The language


def test_every_word_of_the_language_is_read():
    script = """
        # a comment, then a blank line

        think: Let me see.
        text: Two words
        text: " exact\\n"
        call: read {"path": "a.txt"}
        call: ls
        invalid-call: read [1]
        call-cut: edit {"path
        usage: 10 5
        usage: 10 5 3
        wait: 200
        stop: length
        ---
        lost-call
        ---
        drop
        ---
        status: 529
        ---
        status: 429 2.5 "slow down"
    """
    assert parse(script) == [
        [
            Say("thinking", "Let me see."),
            Say("text", "Two words"),
            Say("text", " exact\n"),
            Call("read", '{"path": "a.txt"}', {"path": "a.txt"}),
            Call("ls", "{}", {}),
            Call("read", "[1]", None),
            Call("edit", '{"path', None, cut=True),
            Report(Usage(10, 5)),
            Report(Usage(10, 5, 3)),
            Wait(0.2),
            Stop("length"),
        ],
        [LoseCall()],
        [Drop()],
        [Status(529)],
        [Status(429, 2.5, "slow down")],
    ]


def test_plain_lines_of_one_kind_are_lines_of_one_block_and_quoted_ones_add_nothing():
    (steps,) = parse('text: one\nwait: 5\ntext: two\ntext: ", three"\nthink: new\ntext: block')
    assert [step.text for step in steps if isinstance(step, Say)] == ["one", "\ntwo", ", three", "new", "block"]


@pytest.mark.parametrize(
    ("script", "line", "word"),
    [
        ("text: a\nsing: b", 2, "sing"),
        ("text a", 1, "text"),
        (": a", 1, ": a"),
        ("drop: now", 1, "drop"),
        ("drop\ntext: more", 2, "text: more"),
        ("stop: tired", 1, "tired"),
        ("stop:", 1, ""),
        ('text: "open', 1, '"open'),
        ('text: "a" b', 1, '"a" b'),
        ("call:", 1, ""),
        ('call: read {"path"', 1, '{"path"'),
        ("call: read [1]", 1, "[1]"),
        ('call: read {"n": NaN}', 1, '{"n": NaN}'),
        ('invalid-call: read {"a": 1}', 1, '{"a": 1}'),
        ("call-cut: read {}", 1, "{}"),
        ("usage: 10", 1, "10"),
        ("usage: 10 many", 1, "many"),
        ("usage: -1 5", 1, "-1"),
        ("wait: 0", 1, "0"),
        ("wait: soon", 1, "soon"),
        ("status: 200", 1, "200"),
        ("status: 529 soon", 1, "529 soon"),
        ("text: a\n---\n\n---\ntext: b", 4, "---"),
        ("text: a\n---", 2, "---"),
        ("", 1, "---"),
    ],
)
def test_a_mistake_names_line_and_word(script: str, line: int, word: str):
    with pytest.raises(InputValidationError) as caught:
        parse(script)
    assert caught.value.message.startswith(f"script line {line}, {word!r}: ")
    assert caught.value.field == "script"


_WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
_OBJECTS = st.dictionaries(_WORDS, _WORDS | st.integers() | st.none() | st.lists(st.booleans()), max_size=3)
_NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True)


def _written(step: Step) -> str:  # noqa: PLR0911  # one line a kind
    match step:
        case Say():
            return f"{'think' if step.kind == 'thinking' else 'text'}: {json.dumps(step.text)}"
        case Call(arguments=None):
            return f"{'call-cut' if step.cut else 'invalid-call'}: {step.name} {step.text}"
        case Call():
            return f"call: {step.name} {step.text}"
        case Report():
            return f"usage: {step.usage.input_tokens} {step.usage.output_tokens} {step.usage.cached_input_tokens}"
        case Wait():
            return f"wait: {round(step.seconds * 1000)}"
        case Stop():
            return f"stop: {step.reason}"
        case Status():
            return f"status: {step.code} {step.retry_after or 0} {json.dumps(step.body)}"
        case LoseCall():
            return "lost-call"
        case Drop():
            return "drop"


def _whole(name: str, arguments: dict) -> Call:
    return Call(name, json.dumps(arguments), arguments)


_COUNTS = st.integers(0, 10**9 - 1)
_STEPS = st.one_of(
    st.builds(Say, st.sampled_from(["text", "thinking"]), _WORDS),
    st.builds(_whole, _NAMES, _OBJECTS),
    st.builds(Call, _NAMES, st.sampled_from(["[1]", '{"a', "nonsense"]), st.none(), st.booleans()),
    st.builds(Report, st.builds(Usage, _COUNTS, _COUNTS, _COUNTS)),
    st.builds(lambda ms: Wait(ms / 1000), st.integers(1, 10**9 - 1)),
)
_ENDS = st.one_of(
    st.just(LoseCall()),
    st.just(Drop()),
    st.builds(Stop, st.sampled_from(["end", "tool_use", "length", "pause", "refusal", "overflow"])),
    st.builds(Status, st.integers(300, 599), st.integers(0, 999).map(float), _WORDS),
)
_ANSWERS = st.lists(st.tuples(st.lists(_STEPS, max_size=5), _ENDS).map(lambda both: [*both[0], both[1]]), min_size=1)


@given(_ANSWERS)
def test_what_is_written_is_read_back(answers: list[list[Step]]):
    assert parse("\n---\n".join("\n".join(map(_written, steps)) for steps in answers)) == answers


@given(st.text())
def test_any_text_is_a_script_or_a_named_mistake(script: str):
    try:
        answers = parse(script)
    except InputValidationError as error:
        assert error.message.startswith("script line ")
    else:
        assert all(answers)


@given(_ANSWERS)
def test_any_answer_ends_in_exactly_one_end(answers: list[list[Step]]):
    async def run() -> None:
        for steps in answers:
            quick = [step for step in steps if not isinstance(step, Wait)]
            events = [e async for batch in play(quick, clock=FakeClock(), ids=iter(map(str, range(99)))) for e in batch]
            assert [isinstance(event, Finished | Failed) for event in events].index(True) == len(events) - 1
            said = "".join(step.text for step in quick if isinstance(step, Say) and step.kind == "text")
            assert "".join(event.delta for event in events if isinstance(event, TextDelta)) == said

    asyncio.run(run())


# Playing


async def test_text_streams_word_by_word_and_folds_to_the_whole():
    provider = ScriptedProvider("text: Hello big  world\ntext: again", clock=FakeClock())
    lists = [list(events) async for events in provider.stream(request())]
    assert lists == [
        [BlockStart(0, "text"), TextDelta("Hello ", 0)],
        [TextDelta("big  ", 0)],
        [TextDelta("world", 0)],
        [TextDelta("\nagain", 0)],
        [BlockEnd(0), Finished("end")],
    ]
    assert folded([event for events in lists for event in events]).text == "Hello big  world\nagain"


async def test_reasoning_text_and_calls_are_blocks_of_their_own_in_order():
    message = folded(await played('think: Hm.\ntext: I look.\ncall: read {"path": "a b.txt"}\ncall: ls'))
    assert message.content == (
        ThinkingBlock("Hm."),
        TextBlock("I look."),
        ToolCall("call_1", "read", {"path": "a b.txt"}),
        ToolCall("call_2", "ls", {}),
    )
    assert message.stop == "tool_use"


async def test_arguments_stream_in_pieces_that_join_to_the_text():
    events = await played('call: write {"path": "a.txt", "content": "a longer text than one piece"}')
    pieces = [event.delta for event in events if isinstance(event, ArgsDelta)]
    assert len(pieces) > 2
    assert "".join(pieces) == '{"path": "a.txt", "content": "a longer text than one piece"}'


async def test_ids_go_on_behind_the_calls_of_the_history():
    history = [user(), called("call_1", "call_3"), result("call_1"), result("call_3"), user("more")]
    message = folded(await played("call: ls\ncall: ls", *history))
    assert [call.id for call in message.calls] == ["call_4", "call_5"]


async def test_the_same_request_gives_the_same_ids():
    assert await played("call: ls\ncall: ls") == await played("call: ls\ncall: ls")


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ("text: a", Finished("end")),
        ("call: ls", Finished("tool_use", 1)),
        ('text: a\ncall-cut: read {"p', Finished("length")),
        ("text: a\nstop: refusal", Finished("refusal")),
        ("stop: end", Finished("end")),
        ("text: a\nlost-call", Finished("tool_use", 1)),
        ("call: ls\nlost-call", Finished("tool_use", 2)),
        ("stop: tool_use", Finished("tool_use", 1)),
        ("call: ls\nstop: end", Finished("end")),
    ],
)
async def test_the_end_fits_what_was_played(script: str, end: Finished):
    assert (await played(script))[-1] == end


async def test_a_cut_call_is_an_invalid_one_with_its_text():
    message = folded(await played('call-cut: read {"path": "a'))
    assert message.calls == (ToolCall("call_1", "read", {}, invalid='{"path": "a'),)
    assert message.stop == "length"


async def test_an_invalid_call_keeps_its_text():
    message = folded(await played("invalid-call: read not json"))
    assert message.calls == (ToolCall("call_1", "read", {}, invalid="not json"),)
    assert message.stop == "tool_use"


async def test_a_drop_keeps_the_text_and_leaves_the_block_open():
    events = await played("text: half an\ndrop")
    last = events[-1]
    assert isinstance(last, Failed)
    assert (last.failure.kind, last.failure.retryable) == ("dropped", True)
    assert not any(isinstance(event, BlockEnd) for event in events)
    assert folded(events).text == "half an"


async def test_a_drop_inside_a_call_leaves_the_call_open():
    events = await played('call-cut: read {"pa\ndrop')
    assert not any(isinstance(event, BlockEnd) for event in events)
    assert folded(events).content == ()


@pytest.mark.parametrize(
    ("script", "kind", "retryable", "after"),
    [
        ("status: 529 3", "transient", True, 3.0),
        ("status: 500", "transient", True, None),
        ("status: 401", "auth", False, None),
        ("status: 400", "invalid", False, None),
        ('status: 400 "prompt is too long: 9 tokens > 8 maximum"', "overflow", False, None),
        ("status: 402", "quota", False, None),
    ],
)
async def test_a_status_fails_as_the_wire_would(script: str, kind: str, retryable: bool, after: float | None):
    (event,) = await played(script)
    assert isinstance(event, Failed)
    assert (event.failure.kind, event.failure.retryable, event.failure.retry_after) == (kind, retryable, after)
    assert event.failure.status == int(script.split()[1])


async def test_usage_is_reported_where_it_stands():
    events = await played("usage: 10 1\ntext: a\nusage: 10 5 2")
    assert [event for event in events if isinstance(event, UsageUpdate)] == [
        UsageUpdate(Usage(10, 1)),
        UsageUpdate(Usage(10, 5, 2)),
    ]


async def test_a_wait_takes_the_clocks_time_and_no_block_ends_in_it():
    clock = FakeClock()
    stream = ScriptedProvider("text: one\nwait: 250\ntext: two", clock=clock).stream(request())
    assert list(await anext(stream)) == [BlockStart(0, "text"), TextDelta("one", 0)]
    following = asyncio.ensure_future(anext(stream))
    assert await clock.wait_timer() == pytest.approx(0.25)
    assert not following.done()
    clock.advance(0.25)
    assert list(await following) == [TextDelta("\ntwo", 0)]


async def test_broken_characters_are_repaired_in_every_block():
    script = r"""
        think: "\ud800"
        text: "a\u0000"
        call: read {"path": "\udfff"}
    """
    events = await played(script)
    message = folded(events)
    assert message.content == (ThinkingBlock("�"), TextBlock("a�"), ToolCall("call_1", "read", {"path": "�"}))
    assert [e.delta for e in events if isinstance(e, TextDelta | ThinkingDelta)] == ["�", "a�"]


# The provider


async def test_each_request_gets_the_next_answer_and_is_kept():
    provider = ScriptedProvider(["text: one\n---\ntext: two", "text: three"], clock=FakeClock())
    history: list[Message] = [user()]
    for number, text in enumerate(["one", "two", "three"], start=1):
        assert folded([e async for batch in provider.stream(request(*history)) for e in batch]).text == text
        history += [assistant(TextBlock(text)), user(f"more {number}")]
    assert [len(kept.messages) for kept in provider.requests] == [1, 3, 5]
    assert provider.remaining == 0


async def test_kept_requests_do_not_grow_with_the_list_they_came_from():
    messages: list[Message] = [user()]
    provider = ScriptedProvider("text: a", clock=FakeClock())
    _ = [e async for e in provider.stream(ModelRequest(ENTRY, SYSTEM, messages, 0, EncodedPrefix()))]
    messages.append(user("later"))
    assert provider.requests[0].messages == (user(),)


async def test_a_request_behind_the_last_answer_fails_by_name():
    provider = ScriptedProvider("text: only", clock=FakeClock())
    _ = [events async for events in provider.stream(request())]
    ((event,),) = [events async for events in provider.stream(request())]
    assert isinstance(event, Failed)
    assert (event.failure.kind, event.failure.retryable) == ("invalid", False)
    assert "1 answers" in event.failure.message


async def test_a_refused_history_uses_up_no_answer():
    provider = ScriptedProvider("text: only", clock=FakeClock())
    ((event,),) = [events async for events in provider.stream(request(user(), called("a")))]
    assert isinstance(event, Failed)
    assert event.failure.kind == "invalid"
    assert "no result" in event.failure.message
    assert provider.remaining == 1


PNG = ImageBlock("aGk=", "image/png")


@pytest.mark.parametrize(
    "messages",
    [
        [user()],
        [SYSTEM, user(), SYSTEM],
        [user(), user("two in a row")],
        [UserMessage((PNG,))],
        [user(), called("a", "b"), result("b"), result("a")],
        [user(), called("a"), SYSTEM, result("a"), user("steer")],
        [user(), assistant(TextBlock(" \n")), user("on")],
        [user(), assistant(TextBlock("searching"), stop="pause")],
        [user(), assistant(TextBlock("half"), interrupted=True), UserMessage((TextBlock("go on"),), "continuation")],
    ],
)
def test_a_history_that_services_take_passes(messages: list[Message]):
    assert check_history(messages) is None


@pytest.mark.parametrize(
    ("messages", "part"),
    [
        ([], "no message"),
        ([SYSTEM], "no message"),
        ([assistant(TextBlock("hi")), user()], "first message"),
        ([user(), assistant(TextBlock("hi"))], "last message"),
        ([user(), called("a")], "no result for the calls ['a']"),
        ([user(), called("a"), user("go on")], "message 2: no result"),
        ([user(), called("a", "b"), result("a"), called("c"), result("c")], "message 3: no result for the calls ['b']"),
        ([user(), result("a")], "without its call: 'a'"),
        ([user(), called("a"), result("a"), result("a")], "without its call: 'a'"),
        ([user(), called("a", "a"), result("a")], "'a' comes twice"),
        ([user(), called("a"), result("a"), called("a"), result("a")], "'a' comes twice"),
        ([user(), called("a"), result("a", "write")], "of 'read'"),
        ([user("")], "blank text"),
        ([user("a"), UserMessage((PNG, TextBlock(" \n")))], "blank text"),
        ([UserMessage(())], "without content"),
        (
            [user(), assistant(ToolCall("a", "read", {}), interrupted=True), result("a")],
            "interrupted",
        ),
    ],
)
def test_a_history_that_services_refuse_is_refused(messages: list[Message], part: str):
    assert part in (check_history(messages) or "")


def test_scripted_and_demo_load_nothing_heavy():
    code = (
        "import sys, agent_nodes.providers.scripted, agent_nodes.providers.demo\n"
        "heavy = {'pydantic', 'httpx2', 'anthropic', 'openai', 'sqlalchemy', 'prefect', 'orjson'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
