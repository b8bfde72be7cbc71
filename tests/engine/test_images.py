"""Pictures: in with the prompt, from a host's file store, out of tools, and through the history of every model."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agent_nodes import AgentInput, create_agent
from agent_nodes.errors import InputValidationError, RequestConflict
from agent_nodes.messages import ImageBlock, TextBlock, UserMessage
from agent_nodes.nodes.input import create_input_node
from agent_nodes.submission import AgentImageInput, FileReference
from tests.fakes import FakeServer, call, text, tools
from tests.support import model_of, online, scripted, take

KINDS = ["anthropic-messages", "openai-responses", "openai-completions"]
every_kind = pytest.mark.parametrize("kind", KINDS)


def png(colour: str = "red", size: tuple[int, int] = (2, 2), kind: str = "PNG") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, colour).save(out, kind)
    return out.getvalue()


def encoded(data: bytes) -> dict[str, str]:
    return {"data": base64.b64encode(data).decode(), "mime_type": "image/png"}


RED, BLUE = encoded(png()), encoded(png("blue"))


class Store:
    """Files by id, kept by the host."""

    def __init__(self, **files: bytes) -> None:
        self.files = files

    async def read(self, reference: FileReference) -> bytes:
        if reference.id not in self.files:
            raise FileNotFoundError(f"no file {reference.id}")
        return self.files[reference.id]


def sent(request: Any) -> list[str]:
    """The kinds of content of the newest user message, as the scripted model got it."""
    message = [m for m in request.messages if isinstance(m, UserMessage)][-1]
    return [block.type for block in message.content]


@every_kind
@pytest.mark.feature("B03")
async def test_pictures_go_with_the_prompt_and_stay_in_the_history(kind):
    async with FakeServer() as fake, online(fake, kind) as agent:
        fake.script(text("red and blue"), text("still"))
        outcome = await take(agent.run({"prompt": "what colours?", "images": [RED, BLUE]}))
        assert outcome.text == "red and blue"
        await take(agent.run("and now?"))
        for request in fake.requests:
            for image in (RED, BLUE):
                assert image["data"] in request.raw.decode()
        fake.assert_accepted()


@every_kind
@pytest.mark.feature("B01", "B03")
@pytest.mark.parametrize("prompt", ["", "  ", None])
async def test_pictures_without_a_prompt_are_a_turn(kind, prompt):
    async with FakeServer() as fake, online(fake, kind) as agent:
        fake.script(text("a red square"))
        outcome = await take(agent.run({"prompt": prompt, "images": [RED]}))
        assert outcome.text == "a red square"
        fake.assert_accepted()


@pytest.mark.feature("B01")
@pytest.mark.parametrize("given", [{"prompt": ""}, {"prompt": "", "images": []}, {"images": []}, {}])
async def test_neither_prompt_nor_picture_is_no_turn(given):
    async with scripted("text: x") as agent:
        with pytest.raises(InputValidationError, match="prompt"):
            agent.run(given)


@pytest.mark.feature("B02", "B03")
async def test_a_request_with_other_pictures_is_another_request():
    async with scripted("text: one") as agent:
        first = await take(agent.run({"prompt": "p", "images": [RED], "request_id": "r"}))
        for same in ({"images": [RED]}, {}, {"prompt": "p", "images": [RED]}):
            again = await take(agent.run({"request_id": "r", **same}))
            conflict = "prompt" not in same and "images" in same
            assert isinstance(again.error, RequestConflict) if conflict else again.text == first.text
        for other in ({"prompt": "p", "images": [BLUE]}, {"prompt": "p"}, {"prompt": "p", "images": [RED, RED]}):
            outcome = await take(agent.run({"request_id": "r", **other}))
            assert isinstance(outcome.error, RequestConflict), other
        assert len(model_of(agent).requests) == 1


@pytest.mark.feature("B02", "B03")
async def test_pictures_alone_are_found_again_by_themselves():
    async with scripted("text: one") as agent:
        await take(agent.run({"images": [RED], "request_id": "r"}))
        again = await take(agent.run({"images": [RED], "request_id": "r"}))
        assert again.text == "one"
        assert again.run.result is not None
        assert again.run.result.replayed


BROKEN = png()[:40]
BAD_IMAGES = [
    ([{"data": "!!!", "mime_type": "image/png"}], "images.0", "base64"),
    ([{"data": "", "mime_type": "image/png"}], "images.0", "empty"),
    ([{"data": RED["data"]}], "images.0", "mime_type is missing"),
    ([RED, {"dat": "x"}], "images.1", "'dat' is unknown"),
    ([{"data": 5, "mime_type": "image/png"}], "images.0", "must be a text"),
    (["x"], "images.0", "AgentImageInput"),
    ("x", "images", "list"),
    ([encoded(b"just text")], "images", "images.0 is no picture"),
    ([RED, encoded(BROKEN)], "images", "images.1"),
]


@pytest.mark.feature("B03")
@pytest.mark.parametrize(("images", "field", "said"), BAD_IMAGES)
async def test_a_wrong_picture_is_named_and_nothing_is_asked(images, field, said):
    async with scripted("text: x") as agent:
        with pytest.raises(InputValidationError) as caught:
            outcome = await take(agent.run({"prompt": "p", "images": images}))
            raise outcome.error or AssertionError("accepted")
        assert caught.value.field == field
        assert said in str(caught.value)
        assert model_of(agent).requests == []
        assert (await take(agent.run("p"))).text == "x"


@pytest.mark.feature("B03")
async def test_a_large_picture_is_made_smaller_before_it_is_sent():
    large = encoded(png("green", (4000, 3000)))
    async with scripted("text: green") as agent:
        await take(agent.run({"prompt": "p", "images": [large]}))
        message = [m for m in model_of(agent).requests[0].messages if isinstance(m, UserMessage)][-1]
        (image,) = [block for block in message.content if isinstance(block, ImageBlock)]
        width, height = Image.open(io.BytesIO(base64.b64decode(image.data))).size
        assert max(width, height) <= 2000


# -- files of the host -------------------------------------------------------------------------------------------------


@pytest.mark.feature("B03")
async def test_files_of_the_host_are_pictures_like_any():
    store = Store(a=png(), b=png("blue", kind="JPEG"))
    async with scripted("text: x", file_store=store) as agent:
        references = [{"id": "a", "name": "red.png"}, FileReference("b")]
        await take(agent.run({"prompt": "p", "images": [RED], "image_files": references}))
        assert sent(model_of(agent).requests[0]) == ["image", "image", "image", "text"]


@pytest.mark.feature("B03")
@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ({"id": "gone", "name": "holiday.png"}, ["holiday.png", "no file gone"]),
        ({"id": "text", "name": "notes.png"}, ["notes.png", "is no picture"]),
        ({"id": "broken"}, ["broken"]),
    ],
)
async def test_a_file_that_cannot_be_read_or_is_no_picture_is_named(reference, said):
    store = Store(text=b"hello", broken=BROKEN)
    async with scripted("text: x", file_store=store) as agent:
        outcome = await take(agent.run({"prompt": "p", "image_files": [reference]}))
        assert isinstance(outcome.error, InputValidationError)
        for word in said:
            assert word in str(outcome.error)
        assert model_of(agent).requests == []


@pytest.mark.feature("B03")
async def test_files_need_a_store():
    async with scripted("text: x") as agent:
        outcome = await take(agent.run({"prompt": "p", "image_files": [{"id": "a", "name": "cat.png"}]}))
        assert isinstance(outcome.error, InputValidationError)
        assert "cat.png" in str(outcome.error)
        assert "file_store" in str(outcome.error)


@pytest.mark.feature("B03")
async def test_the_input_node_turns_files_into_pictures():
    node = create_input_node(file_store=Store(a=png()))
    given = await node({"prompt": "p", "image_files": [{"id": "a"}]})
    assert isinstance(given, AgentInput)
    assert given.image_files == ()
    assert [type(image) for image in given.images] == [AgentImageInput]
    async with scripted("text: x") as agent:
        await take(agent.run(given))
        assert sent(model_of(agent).requests[0]) == ["image", "text"]
    with pytest.raises(InputValidationError, match=r"cat\.png"):
        await node({"prompt": "p", "image_files": [{"id": "gone", "name": "cat.png"}]})


# -- through the history -----------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.feature("B03", "B04", "C02")
async def test_hi_09_a_picture_of_a_tool_is_a_placeholder_for_a_text_model_and_comes_back(kind, tmp_path: Path):
    (tmp_path / "pic.png").write_bytes(png())
    async with FakeServer() as fake, online(fake, kind, workdir=tmp_path) as agent:
        fake.script(tools(call("read", {"path": "pic.png"}, id="c1")), text("red"), text("hi"), text("red still"))
        await take(agent.run("look"))
        await take(agent.run({"prompt": "hi", "model": "m-text", "model_attributes": {"input": ["text"]}}))
        await take(agent.run("and now?"))
        fake.assert_accepted()
        first, blind, last = (request.raw.decode() for request in fake.requests[1:])
        for body in (first, last):
            assert "data:image/png;base64," in body or '"media_type":"image/png"' in body
        assert "base64" not in blind
        assert "left out" in blind
        assert "c1" in fake.requests[2].results()


@every_kind
@pytest.mark.feature("B03", "C02")
async def test_a_picture_of_the_user_is_a_placeholder_for_a_text_model_and_comes_back(kind):
    async with FakeServer() as fake, online(fake, kind) as agent:
        fake.script(text("a"), text("b"), text("c"))
        await take(agent.run({"images": [RED]}))
        await take(agent.run({"prompt": "hi", "model": "m-text", "model_attributes": {"input": ["text"]}}))
        await take(agent.run("and now?"))
        held = [RED["data"] in request.raw.decode() for request in fake.requests]
        assert held == [True, False, True]
        fake.assert_accepted()


async def test_a_prompt_that_is_stored_with_a_picture_says_so_first():
    async with scripted("text: x") as agent:
        await take(agent.run({"prompt": "p", "images": [RED]}))
        message = agent.read_transcript()[0]
        assert [block["type"] for block in message["content"]] == ["image", "text"]
        assert TextBlock(message["content"][1]["text"]) == TextBlock("p")


@pytest.mark.parametrize("field", ["images", "image_files"])
async def test_what_is_no_list_is_asked_for_as_one(field):
    async with create_agent(provider="demo") as agent:
        with pytest.raises(InputValidationError, match=f"{field}: Input should be a list"):
            await agent.run({"prompt": "p", field: 5})


async def test_a_reference_that_is_half_a_character_is_refused_in_words_that_can_be_printed():
    async with create_agent(provider="demo") as agent:
        with pytest.raises(InputValidationError, match="image_files") as caught:
            await agent.run({"prompt": "p", "image_files": [{"id": "a\ud800"}]})
    assert str(caught.value).encode()
