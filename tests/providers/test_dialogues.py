"""Whole dialogues, drawn at random: the strict service takes every request, every split of a reply reads alike."""

import asyncio
import json
from itertools import pairwise
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_nodes.messages import (
    AgentEffort,
    AssistantMessage,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
)
from agent_nodes.providers.base import EncodedPrefix, Failed, Finished, ModelEntry
from agent_nodes.providers.efforts import LEVELS
from agent_nodes.providers.stream import stream_response
from tests.fakes.clock import FakeClock
from tests.fakes.issued import Issued
from tests.fakes.render import Context, dump
from tests.fakes.scripts import Answer, call, redacted, reply, search, text, thinking
from tests.providers.protocols import (
    APIS,
    CODECS,
    PNG,
    RENDERERS,
    TOOLS,
    Decoded,
    decode,
    entry,
    payloads,
    refusal,
    request,
    system,
    user,
)
from tests.providers.streaming import QueueWire

every_protocol = pytest.mark.parametrize("api", APIS)
NAMES = {"anthropic-messages": "anthropic", "openai-responses": "responses", "openai-completions": "completions"}
EFFORTS: tuple[AgentEffort | None, ...] = (None, *get_args(AgentEffort))


def only(values: str) -> Any:
    return tuple((level, None) for level in LEVELS if level not in values.split())


BUDGETED = tuple(
    (level, min(level, "high", key=["minimal", "low", "medium", "high", "xhigh", "max"].index)) for level in LEVELS[2:]
)
MODELS: dict[str, list[dict[str, Any]]] = {
    "anthropic-messages": [
        {"model": "claude-opus-5-5", "thinking": "always", "levels": only("low medium high xhigh max")},
        {"model": "claude-sonnet-5-5", "thinking": "between", "levels": only("off low medium high xhigh max")},
        {"model": "claude-haiku-5-5", "thinking": "adaptive", "levels": only("off low medium high xhigh max")},
        {"model": "claude-opus-4-8", "thinking": "adaptive", "levels": only("off low medium high xhigh max")},
        {"model": "claude-sonnet-4-6", "thinking": "adaptive", "levels": only("off low medium high max")},
        {"model": "claude-opus-4-5", "thinking": "budget", "levels": (("minimal", "low"), *BUDGETED)},
        {"model": "claude-haiku-4-5", "thinking": "budget"},
        {"model": "textonly-a", "thinking": "budget", "images": False},
    ],
    "openai-responses": [
        {"model": "gpt-6.1-sol", "levels": only("low medium high xhigh max"), "provider": "openai"},
        {"model": "gpt-5.2", "levels": only("off low medium high xhigh")},
        {"model": "gpt-5-pro", "levels": only("high")},
        {"model": "gpt-4.1", "reasoning": False, "provider": "openai"},
        {"model": "textonly-a", "images": False},
    ],
    "openai-completions": [
        {"model": "gpt-5.1", "levels": only("off low medium high"), "provider": "openai"},
        {"model": "qwen-3"},
        {"model": "gpt-4o", "reasoning": False},
        {"model": "textonly-a", "images": False},
    ],
}


def model_of(api: str) -> st.SearchStrategy[ModelEntry]:
    return st.sampled_from([entry(api, **fields) for fields in MODELS[api]])


@st.composite
def answers(draw: st.DrawFn, model: ModelEntry, round: int) -> Answer:
    """What a model may say: reasoning, text, searches and calls, in any order that ends in something."""
    parts: list[Any] = []
    kinds = ["thinking", "text", "call"]
    if model.api == "anthropic-messages":
        kinds += ["redacted", "search"]
    elif model.api == "openai-responses":
        kinds.append("search")
    for place in range(draw(st.integers(1, 4))):
        match draw(st.sampled_from(kinds)):
            case "thinking" if model.reasoning:
                parts.append(thinking(f"hm {round}.{place}"))
            case "redacted":
                parts.append(redacted(f"sealed {round}.{place}"))
            case "search":
                parts.append(search("q", ("https://a.test", "A")))
            case "call":
                parts.append(
                    call("read", {"path": "a"}, id=draw(st.sampled_from([f"c{round}_{place}", f"same_{place}"])))
                )
            case _:
                parts.append(text(draw(st.sampled_from(["so", "점심 🍜", " "]))))
    return reply(*parts)


class Dialogue:
    """A context as the engine keeps it, and the service that answers it and remembers what it sealed."""

    def __init__(self, model: ModelEntry) -> None:
        self.issued = Issued()
        self.model = model
        self.models: set[str] = set()
        self.prefix = EncodedPrefix()
        self.messages: list[Message] = []
        self.number = 0
        self.reasoning_from = 0
        self.change(system(model))

    def change(self, told: SystemMessage) -> None:
        self.system, self.reasoning_from = told, len(self.messages)
        self.models.add(self.model.model)
        self.messages.append(told)

    def asked(self, effort: AgentEffort | None, limit: int | None) -> Any:
        return request(
            self.model,
            list(self.messages),
            prefix=self.prefix,
            reasoning_from=self.reasoning_from,
            system=self.system,
            effort=effort,
            max_tokens=limit,
            cache_key="key",
        )

    def answer(self, asked: Any, given: Answer) -> Decoded:
        body = json.loads(CODECS[self.model.api].draft(asked).encode())
        self.number += 1
        rendered = RENDERERS[self.model.api](given, Context(body, self.number, f"seed {self.number}"))
        self.issued.note(NAMES[self.model.api], body, rendered.content, rendered.document)
        found = [dump(event.data) for event in rendered.events]
        return decode(self.model, [*found, b"[DONE]"] if self.model.api == "openai-completions" else found)


RESULTS = st.sampled_from(
    [(TextBlock("r"),), (), (ImageBlock(PNG, "image/png"),), (TextBlock(" "), ImageBlock("PHN2Zz4=", "image/svg+xml"))]
)


@every_protocol
@given(data=st.data())
@settings(max_examples=40)
@pytest.mark.feature("C04")
def test_every_request_of_any_dialogue_is_taken(api: str, data: st.DataObject) -> None:
    talk = Dialogue(data.draw(model_of(api)))
    talk.messages.append(user("start"))
    for round in range(data.draw(st.integers(1, 5))):
        asked = talk.asked(data.draw(st.sampled_from(EFFORTS)), data.draw(st.sampled_from([None, 3000, 16_000])))
        assert refusal(asked, talk.issued) is None
        found = talk.answer(asked, data.draw(answers(talk.model, round)))
        assert isinstance(found.last, Finished)
        message = found.message
        if data.draw(st.integers(0, 6)) == 0:  # the connection broke
            kept = tuple(block for block in message.content if isinstance(block, TextBlock))
            message = AssistantMessage(kept, message.api, message.provider, message.model, "end", interrupted=True)
        talk.messages.append(message)
        results = [ToolResultMessage(one.id, one.name, data.draw(RESULTS)) for one in message.calls]
        talk.messages += data.draw(st.permutations(results))
        match data.draw(st.sampled_from(["", "", "", "tools", *["model"] * (len(talk.models) < 3)])):
            case "model":
                talk.model = data.draw(model_of(api).filter(lambda model: model.model not in talk.models))
                talk.change(system(talk.model))
            case "tools":
                more = ToolSpec(f"more_{round}", "", {"type": "object", "properties": {}})
                talk.change(system(talk.model, tools=(*TOOLS, more)))
            case _:
                pass
        if not results or data.draw(st.booleans()):
            talk.messages.append(UserMessage((TextBlock("on"),)))


# Bytes.

SAID = reply(thinking("hm ", "점"), text("a", "점심 🍜", "\n\n"), call("read", {"path": "점심.txt"}, id="c1")).using(
    11, 2
)


async def read(api: str, chunks: list[bytes]) -> list[Any]:
    model = entry(api)
    stream = stream_response(
        QueueWire(*chunks, None), "/", b"{}", {}, CODECS[api].Decoder(model), clock=FakeClock(), stall_timeout=300
    )
    return [event for batch in [batch async for batch in stream] for event in batch]


@every_protocol
@given(
    cuts=st.lists(st.integers(0, 100_000), max_size=30),
    newline=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    noise=st.sampled_from([b"", b": keep-alive\n\n", b"event: ping\ndata:\n\n"]),
    lines=st.booleans(),
)
@settings(max_examples=40)
def test_st_01_any_split_of_a_stream_reads_alike(
    api: str, cuts: list[int], newline: bytes, noise: bytes, lines: bool
) -> None:
    found = payloads(api, SAID)
    name = b"event: something\n" if lines else b""
    body = noise + b"".join(name + b"data: " + payload + b"\n\n" + noise for payload in found)
    body = body.replace(b"\n", newline)
    edges = sorted({0, len(body), *(cut % len(body) for cut in cuts)})
    events = asyncio.run(read(api, [body[start:stop] for start, stop in pairwise(edges)]))
    plain = asyncio.run(read(api, [b"data: " + payload + b"\n\n" for payload in found]))
    assert events == plain
    assert isinstance(events[-1], Finished)


@every_protocol
@given(cut=st.integers(0, 100_000))
@settings(max_examples=40)
def test_st_03_a_stream_cut_anywhere_ends_in_one_drop_or_as_a_whole(api: str, cut: int) -> None:
    body = b"".join(b"data: " + payload + b"\n\n" for payload in payloads(api, SAID))
    whole = asyncio.run(read(api, [body]))
    events = asyncio.run(read(api, [body[: cut % len(body)]]))
    last = events[-1]
    assert [isinstance(event, Finished | Failed) for event in events] == [False] * (len(events) - 1) + [True]
    if isinstance(last, Failed):
        assert (last.failure.kind, last.failure.retryable) == ("dropped", True)
        assert events[:-1] == whole[: len(events) - 1], "what came before the cut is as it was"
    else:
        assert last == whole[-1]
