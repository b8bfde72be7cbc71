"""One request over a wire, as model events: whatever happens, exactly one terminal event comes, and it comes last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, cast

from agent_nodes._clock import Clock, Timer
from agent_nodes.messages import JsonObject
from agent_nodes.providers.base import Failed, Failure, ModelEvent
from agent_nodes.providers.error_report import one_line, page_text
from agent_nodes.providers.failures import dropped, error_failure, http_failure, invalid, sealed, transport_failure
from agent_nodes.providers.sse import EVENT_LIMIT, EventTooLarge, SseReader, loads
from agent_nodes.providers.wire import Wire, WireResponse

_ERROR_BODY_LIMIT = 64 * 1024
_ERROR_BODY_TIME = 10.0
_SHOWN = 4096  # bytes of an unreadable payload that go into a message, where they are cut again
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError)
_BLANK = b"\xef\xbb\xbf \t\r\n"


class Decoder(Protocol):
    """Turns the payloads of one response into events; a new one for each response.

    May raise ``ValueError``, ``KeyError``, ``TypeError``, ``AttributeError`` or ``IndexError`` on what it cannot read.
    """

    done: bool
    """A terminal event was appended; nothing is fed after it."""

    def feed(self, payload: bytes, out: list[ModelEvent]) -> None:
        """Append the events of one payload."""
        ...

    def end(self, out: list[ModelEvent]) -> None:
        """The body ended in order: append the terminal event where the protocol allows such an end, else nothing."""
        ...

    def whole(self, answer: JsonObject, out: list[ModelEvent]) -> None:
        """A JSON document came in place of a stream: append all its events, or nothing if it is no response."""
        ...


async def stream_response(
    wire: Wire,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
    decoder: Decoder,
    *,
    clock: Clock,
    stall_timeout: float,
) -> AsyncGenerator[list[ModelEvent], None]:
    """POST ``body`` and yield the events of each network read that brought some.

    ``stall_timeout`` is how many seconds the consumer may wait without an event; comments are none. Raises nothing but
    ``CancelledError``. A consumer that stops early must close the generator.
    """
    stall = _Stall(clock, stall_timeout)
    out: list[ModelEvent] | None
    try:
        stall.wait()
        async with wire.open(path, body, headers) as response:
            if not 200 <= response.status < 300:
                out = [Failed(await _refusal(response, clock, stall))]
            else:
                intake = _Intake(decoder, response.headers.get("content-type", ""))
                async for chunk in response:
                    out = intake.feed(chunk)
                    if intake.done:
                        if decoder.done:
                            response.finish()
                        break
                    if out is not None:
                        if out:
                            stall.pause()
                            yield out
                        stall.wait()
                else:
                    out = intake.end()
            stall.pause()
    except asyncio.CancelledError:
        if not stall.caught():
            raise
        out = [Failed(dropped(f"{wire.origin} sent no event for {stall_timeout:g} seconds (stall_timeout)."))]
    except Exception as error:
        out = [Failed(transport_failure(error, wire.origin))]
    finally:
        stall.stop()
    yield _sealed(out or [], wire.secrets())


async def _refusal(response: WireResponse, clock: Clock, stall: _Stall) -> Failure:
    """The failure of an answer outside 2xx; of a body that breaks off or hangs, what came is enough."""
    body = bytearray()
    stall.shorten(_ERROR_BODY_TIME)
    try:
        with suppress(Exception):
            async for chunk in response:
                body += chunk
                if len(body) > _ERROR_BODY_LIMIT:
                    break
    except asyncio.CancelledError:
        if not stall.caught():
            raise
    return http_failure(response.status, response.headers, bytes(body), now=clock.now())


def _sealed(out: list[ModelEvent], secrets: Sequence[str]) -> list[ModelEvent]:
    last = out[-1]
    if isinstance(last, Failed):
        out[-1] = Failed(sealed(last.failure, secrets))
    return out


class _Intake:
    """Takes the body of a good answer in, which should be a stream of events and may be a document."""

    __slots__ = ("_decoder", "_document", "_html", "_reader", "_start", "done")

    def __init__(self, decoder: Decoder, content_type: str) -> None:
        self.done = False
        self._decoder = decoder
        self._html = "html" in content_type.lower()
        self._reader: SseReader | None = None
        self._document = False
        self._start = bytearray()

    def feed(self, chunk: bytes) -> list[ModelEvent] | None:
        """The events in ``chunk``; None where not one payload was complete. ``done`` with the terminal event."""
        reader = self._reader
        if reader is None:
            return self._open(chunk)
        try:
            payloads = reader.feed(chunk)
        except EventTooLarge as error:
            return self._give_up([], invalid(f"The answer was given up: {error}."))
        return self._decode(payloads) if payloads else None

    def end(self) -> list[ModelEvent]:
        """What the end of the body brings: the terminal event, in any case."""
        if self._reader is None:
            return self._whole(bytes(self._start).strip(_BLANK))
        out: list[ModelEvent] = []
        rest = self._reader.end()
        if rest and _readable(rest[0]):  # else half an event, cut by the end: as if it had not come
            out = self._decode(rest)
        if self.done:
            return out
        if not self._decoder.done:
            self._decoder.end(out)
        if not self._decoder.done:
            out.append(Failed(dropped("The answer ended before it was complete.")))
        return out

    def _open(self, chunk: bytes) -> list[ModelEvent] | None:
        """The first character tells a document from a stream; the declared type is often wrong."""
        self._start += chunk
        if not self._document:
            first = bytes(self._start).lstrip(_BLANK)[:1]
            self._document = self._html or (first != b"" and first in b"{[<")
            if first and not self._document:
                self._reader = SseReader()
                return self.feed(bytes(self._start))
        if len(self._start) > EVENT_LIMIT:
            return self._give_up([], invalid(f"The answer was given up: it is larger than {EVENT_LIMIT} bytes."))
        return None

    def _decode(self, payloads: list[bytes]) -> list[ModelEvent]:
        out: list[ModelEvent] = []
        decoder = self._decoder
        for payload in payloads:
            try:
                decoder.feed(payload, out)
            except _UNREADABLE:
                return self._give_up(out, dropped(f"The answer holds an event that cannot be read: {_shown(payload)}"))
            if decoder.done:
                self.done = True
                break
        return out

    def _whole(self, body: bytes) -> list[ModelEvent]:
        if not body:
            return [Failed(dropped("The answer ended before it began."))]
        if self._html or body.startswith(b"<"):
            page = page_text(body.decode("utf-8", "replace"))
            return [Failed(invalid(f"A web page came in place of a model's answer: {page} (check base_url)"))]
        try:
            answer = loads(body)
        except ValueError:
            return [Failed(dropped(f"The answer is a broken JSON document: {_shown(body)}"))]
        if not isinstance(answer, dict):
            return [Failed(_no_response(body))]
        document = cast("JsonObject", answer)
        if document.get("error") or document.get("type") == "error":
            return [Failed(error_failure(document))]
        out: list[ModelEvent] = []
        with suppress(*_UNREADABLE):
            self._decoder.whole(document, out)
        return out if self._decoder.done else [Failed(_no_response(body))]

    def _give_up(self, out: list[ModelEvent], failure: Failure) -> list[ModelEvent]:
        self.done = True
        out.append(Failed(failure))
        return out


def _no_response(body: bytes) -> Failure:
    return invalid(f"The answer is no response of this protocol (check base_url and api_kind): {_shown(body)}")


def _readable(payload: bytes) -> bool:
    try:
        loads(payload)
    except ValueError:
        return payload.startswith(b"[DONE]")
    return True


def _shown(payload: bytes) -> str:
    return one_line(payload[:_SHOWN].decode("utf-8", "replace"))


class _Stall:
    """Cancels the task that waits when no event came in time. One timer, looked after only when it rings."""

    __slots__ = ("_cancelling", "_clock", "_limit", "_rang", "_since", "_task", "_timer")

    def __init__(self, clock: Clock, limit: float) -> None:
        self._clock = clock
        self._limit = limit
        self._since = 0.0
        self._task: asyncio.Task[object] | None = None
        self._timer: Timer | None = None
        self._rang = False
        self._cancelling = 0

    def wait(self) -> None:
        """From now on the current task waits for an event."""
        self._task = asyncio.current_task()
        self._since = self._clock.monotonic()
        if self._timer is None:
            self._timer = self._clock.call_later(self._limit, self._ring)

    def pause(self) -> None:
        """Nobody waits: the consumer is busy."""
        self._task = None

    def shorten(self, limit: float) -> None:
        """Wait anew, and no longer than ``limit``."""
        self.stop()
        self._limit = min(self._limit, limit)
        self.wait()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def caught(self) -> bool:
        """Whether the cancellation just caught is this timer's, and no one else asked for one too."""
        task = asyncio.current_task()
        return self._rang and task is not None and task.uncancel() <= self._cancelling

    def _ring(self) -> None:
        self._timer = None
        if self._task is None:
            return  # the next wait sets the timer again
        left = self._since + self._limit - self._clock.monotonic()
        if left > 0.001:  # not a rounding error
            self._timer = self._clock.call_later(left, self._ring)
            return
        self._rang = True
        self._cancelling = self._task.cancelling()
        self._task.cancel()
