"""The reader of server-sent events, and the JSON of their payloads."""

import json
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_nodes.providers.sse import EventTooLarge, SseReader, loads


def read(body: bytes, cuts: list[int] | None = None) -> list[bytes]:
    """All payloads of ``body``, fed in the pieces between ``cuts``."""
    reader = SseReader()
    edges = [0, *sorted(cut % (len(body) + 1) for cut in cuts or []), len(body)]
    found: list[bytes] = []
    for start, stop in pairwise(edges):
        found += reader.feed(body[start:stop])
    return found + reader.end()


def by_the_book(body: bytes) -> list[bytes]:
    """The specification line by line, as slow as it likes."""
    found: list[bytes] = []
    data: list[bytes] = []
    text = body.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for line in [*text.split(b"\n"), b""]:
        if not line:
            if any(data) or len(data) > 1:
                found.append(b"\n".join(data))
            data = []
        field, _colon, value = line.partition(b":")
        if field == b"data" and b":" in line:
            data.append(value.removeprefix(b" "))
    return found


LINES = st.sampled_from(
    [
        "data: {}",
        "data:x",
        "data: 점심 🍜",
        "data:  two",
        "data:",
        "data",
        "event: a",
        ": note",
        "id: 1",
        "",
        "",
        "datax: 1",
    ]
)
BODIES = st.lists(st.tuples(LINES, st.sampled_from(["\n", "\n", "\r\n", "\r"])), max_size=20).map(
    lambda rows: "".join(line + end for line, end in rows).encode()
)


@given(BODIES, st.lists(st.integers(0, 400), max_size=8), st.booleans())
@example(b"data: a\r\n\r\ndata: b\r\r", [9, 10, 8], False)
@example(b"data: a\n\n\ndata: b\n\n", [9], True)
def test_any_split_of_the_bytes_gives_the_payloads_of_the_specification(
    body: bytes, cuts: list[int], bom: bool
) -> None:
    body = b"\xef\xbb\xbf" * bom + body
    assert read(body, cuts) == by_the_book(body)
    assert read(body, list(range(len(body)))) == by_the_book(body)


def test_st_01_a_character_cut_by_every_chunk_is_whole_in_the_payload() -> None:
    payload = json.dumps({"text": "점심 🍜 끝"}, ensure_ascii=False).encode()
    body = b"event: delta\ndata: " + payload + b"\n\n"
    assert read(body, list(range(len(body)))) == [payload]
    assert loads(payload) == {"text": "점심 🍜 끝"}


@pytest.mark.parametrize(
    ("body", "payloads"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"event: x\ndata: a\n\n", [b"a"]),
        (b"event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\rdata: b\r\r", [b"a\nb"]),
        (b"data: a\n: note\nid: 7\nretry: 10\ndata: b\n\n", [b"a\nb"]),
        (b": note\n\n: note\n\n", []),
        (b"event: ping\ndata: \n\nevent: ping\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b'data: {"t":"\xe2\x80\xa8\xc2\x85"}\n\n', [b'{"t":"\xe2\x80\xa8\xc2\x85"}']),
    ],
)
def test_the_payloads_of_a_body(body: bytes, payloads: list[bytes]) -> None:
    assert read(body) == payloads


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r"])
def test_an_event_is_given_out_with_the_byte_that_completes_it(end: bytes) -> None:
    reader = SseReader()
    for number in range(3):  # in CRLF the last LF adds nothing
        body = b"data: %d" % number + end
        found = [reader.feed(body[at : at + 1]) for at in range(len(body))]
        last = len(body) - 1 - (end == b"\r\n\r\n")
        assert found == [[b"%d" % number] if at == last else [] for at in range(len(body))]


def test_an_event_without_its_blank_line_comes_only_with_the_end() -> None:
    reader = SseReader()
    assert reader.feed(b"data: a\n\ndata: b\n") == [b"a"]
    assert reader.end() == [b"b"]
    assert reader.end() == []


def test_an_event_of_many_chunks_is_searched_only_where_it_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = 0

    class Counting(bytearray):
        def rfind(self, mark: bytes, start: int = 0) -> int:  # type: ignore[override]
            nonlocal searched
            searched += len(self) - start
            return super().rfind(mark, start)

    reader = SseReader()
    reader._tail = Counting()
    chunk = b"x" * 1000
    reader.feed(b"data: ")
    for _ in range(500):
        reader.feed(chunk)
    assert reader.feed(b"\n\n") == [chunk * 500]
    assert searched < 2 * 500 * 1000


def test_an_event_above_the_limit_is_given_up() -> None:
    reader = SseReader(limit=100)
    assert reader.feed(b"data: " + b"x" * 90 + b"\n\n" + b"data: ") == [b"x" * 90]
    with pytest.raises(EventTooLarge, match="100 bytes"):
        reader.feed(b"y" * 100)


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        (b'{"a":1,"b":[1.5,null,"x"]}', {"a": 1, "b": [1.5, None, "x"]}),
        (b'{"a":123456789012345678901234}', {"a": 123456789012345678901234}),
        (b"[-9223372036854775809, 18446744073709551616]", [-9223372036854775809, 18446744073709551616]),
        (b'{"a":"9223372036854775808999"}', {"a": "9223372036854775808999"}),
        (b'"\\ud83d"', "\ud83d"),
        (b'"\xff"', "\ufffd"),
        (b"[NaN, Infinity]", [None, None]),
        (b'"tab\there"', "tab\there"),
    ],
)
def test_json_that_the_fast_parser_refuses_or_rounds_is_read_exactly(payload: bytes, value: object) -> None:
    assert loads(payload) == value


@pytest.mark.parametrize("payload", [b"", b"{", b'{"a":', b"[DONE]", b"[" * 100_000])
def test_what_is_no_json_is_a_value_error(payload: bytes) -> None:
    with pytest.raises(ValueError):
        loads(payload)
