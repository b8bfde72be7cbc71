"""What a Prefect run shows of an agent node's turn: lines in its log, events, and artifacts.

All of it is best effort and nothing of it holds up the turn: lines and notes are made where the turn runs, and whatever
asks the server is done behind it (see :mod:`~agent_nodes.nodes.prefect.background`).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec
from uuid import UUID

from prefect.context import FlowRunContext, TaskRunContext
from prefect.events import emit_event
from prefect.logging import get_run_logger

from agent_nodes._clock import SYSTEM_CLOCK, Clock
from agent_nodes.errors import AgentError, SessionBusy
from agent_nodes.events import AgentStreamEvent, RetryEvent, TextDelta, ThinkingDelta, ToolEvent
from agent_nodes.host import UsageReport
from agent_nodes.messages import JsonObject
from agent_nodes.nodes.items import read_turns
from agent_nodes.nodes.prefect.background import Api, Background, background
from agent_nodes.nodes.prefect.pages import (
    artifact_key,
    cost_of,
    counted,
    session_name,
    summary,
    transcript,
    usage_table,
)
from agent_nodes.providers.redaction import redact
from agent_nodes.store.locate import session_file
from agent_nodes.submission import AgentOutputPayload, SessionRef

EVENT = "agent_nodes.turn."
"""Behind it stands what happened: started, retry, answered, failed, aborted, waiting, skipped or paused; replayed
where the turn had ended before."""
RESOURCE = "agent_nodes.session."

SHOW_AFTER = 2.0
"""Seconds that a turn takes before its progress is shown."""
SHOW_EVERY = 10.0
"""Seconds after which the progress is shown again although nothing has changed but the time."""
LOG_EVERY = 1.0
"""Seconds between two lines about tools."""
MOST_DETAIL = 500

ASKING, THINKING, ANSWERING = "waiting for the model", "the model thinks", "the model answers"

log = logging.getLogger(__name__)

P = ParamSpec("P")


def _quiet(
    method: Callable[Concatenate[TurnPublisher, P], None],
) -> Callable[Concatenate[TurnPublisher, P], None]:
    """Showing a turn never ends it."""

    def call(self: TurnPublisher, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception:
            log.debug("Could not show something of a turn in Prefect", exc_info=True)

    return call


class TurnPublisher:
    """A :class:`~agent_nodes.nodes.watch.Watch` on one call of a node; made in its task run."""

    def __init__(self, node: str, *, behind: Background | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._node = node
        self._behind = behind or background()
        self._clock = clock
        self._context = copy_context()
        self._log = get_run_logger()
        flow, task = FlowRunContext.get(), TaskRunContext.get()
        self._flow_run_id = None if flow is None or flow.flow_run is None else flow.flow_run.id
        self._task_run_id = None if task is None else task.task_run.id
        self._request_id = ""
        self._session: SessionRef | None = None
        self._path: Path | None = None
        self._doing = ASKING
        self._running: dict[str, str] = {}
        self._tools = self._retries = self._unlogged = 0
        self._logged_at = float("-inf")
        self._began_at = clock.monotonic()
        self._reports: dict[str, UsageReport] = {}
        self._progress = _Progress()

    # -- what happens --------------------------------------------------------------------------------------------------

    @_quiet
    def begins(self, request_id: str, session: SessionRef | None) -> None:
        self._request_id, self._session = request_id, session
        if session is not None:
            self._path = session_file(session.project, session.conversation_id, session.session_key)
        self._behind.follow(self, self._in_context(self._show_progress))

    @_quiet
    def waits(self, busy: SessionBusy) -> None:
        self._doing = f"waits for its session: {busy.message}"
        self._log.info("The session is busy, so the turn waits. %s", busy.message)

    @_quiet
    def runs(self, model: str) -> None:
        self._doing = ASKING
        where = "" if self._session is None else f" in session {session_name(self._session)}"
        self._log.info("Turn %s%s; model %s.", self._request_id, where, model)
        self._emit("started", {"model": model})

    def event(self, event: AgentStreamEvent) -> None:
        kind = type(event)
        if kind is TextDelta:
            self._doing = ANSWERING
        elif kind is ThinkingDelta:
            self._doing = THINKING
        elif isinstance(event, ToolEvent):
            self._tool(event)
        elif isinstance(event, RetryEvent):
            self._retry(event)

    @_quiet
    def usage(self, report: UsageReport) -> None:
        self._reports[report.record_id] = report

    @_quiet
    def ends(self, payload: AgentOutputPayload, secrets: Sequence[str], *, replayed: bool) -> None:
        self._behind.unfollow(self)
        told = self._told(payload, secrets)
        level = logging.INFO if payload.err_code == 0 else logging.WARNING
        self._log.log(level, "Turn %s%s: %s", payload.status, " before this run" if replayed else "", told)
        detail: JsonObject = {"turn_id": payload.turn_id, "usage": payload.usage.to_dict(), "cost": self._cost()}
        if payload.reason is not None:
            detail |= {"reason": payload.reason, "detail": self._detail(payload.err_message, secrets)}
        self._emit("replayed" if replayed else payload.status, detail | {"status": payload.status})
        self._behind.put(self._in_context(partial(self._end_progress, f"{payload.status}: {told}")))
        if payload.turn_id is not None:
            self._behind.put(self._in_context(partial(self._show_transcript, payload, tuple(secrets))))
        if self._reports:
            self._behind.put(self._in_context(self._show_usage))

    @_quiet
    def breaks_off(self, error: BaseException, secrets: Sequence[str]) -> None:
        self._behind.unfollow(self)
        paused = isinstance(error, asyncio.CancelledError)
        if paused:
            self._log.info("Turn paused: it goes on when the run is run again.")
            self._emit("paused", {})
        else:
            code = error.code if isinstance(error, AgentError) else type(error).__name__
            self._emit("failed", {"reason": code, "detail": self._detail(str(error), secrets)})
        self._behind.put(self._in_context(partial(self._end_progress, "paused" if paused else "failed")))

    @_quiet
    def _tool(self, event: ToolEvent) -> None:
        if event.phase == "start":
            self._tools += 1
            self._running[event.tool_call_id] = event.name
            self._log_tool(event.name)
        elif event.phase == "end":
            self._running.pop(event.tool_call_id, None)
        else:
            return
        self._doing = f"runs {', '.join(dict.fromkeys(self._running.values()))}" if self._running else ASKING

    def _log_tool(self, name: str) -> None:
        now = self._clock.monotonic()
        if now - self._logged_at < LOG_EVERY:
            self._unlogged += 1
            return
        before = f" ({counted(self._unlogged, 'more call')} before it)" if self._unlogged else ""
        self._logged_at, self._unlogged = now, 0
        self._log.info("Tool %s starts%s.", name, before)

    @_quiet
    def _retry(self, event: RetryEvent) -> None:
        self._retries += 1
        self._doing = f"asks the model again ({event.kind}, {event.attempt} of {event.max_attempts})"
        self._log.warning(
            "The model is asked again (%s, %d of %d): %s", event.kind, event.attempt, event.max_attempts, event.reason
        )
        self._emit(
            "retry",
            {
                "kind": event.kind,
                "attempt": event.attempt,
                "max_attempts": event.max_attempts,
                "reason": event.reason[:MOST_DETAIL],
            },
        )

    # -- texts ---------------------------------------------------------------------------------------------------------

    def _cost(self) -> float | None:
        return cost_of(list(self._reports.values()))

    def _told(self, payload: AgentOutputPayload, secrets: Sequence[str]) -> str:
        done = summary(payload.usage, self._cost(), self._tools, self._retries)
        if payload.reason is None:
            return done
        return f"{payload.reason}: {self._detail(payload.err_message, secrets)} ({done})"

    def _detail(self, text: str, secrets: Sequence[str]) -> str:
        return " ".join(redact(text, secrets).split())[:MOST_DETAIL]

    # -- events --------------------------------------------------------------------------------------------------------

    def _emit(self, what: str, payload: JsonObject) -> None:
        session = self._session
        names: JsonObject = {"node": self._node, "request_id": self._request_id}
        resource = {"prefect.resource.id": f"{RESOURCE}{self._node}", "prefect.resource.name": self._node}
        if session is not None and self._path is not None:
            names |= {
                "project": session.project,
                "conversation_id": session.conversation_id,
                "session_key": session.session_key,
            }
            folders = (self._path.parts[-3], self._path.parts[-2], self._path.stem)
            resource["prefect.resource.id"] = RESOURCE + "/".join(folders)
            resource["prefect.resource.name"] = session.session_key
        related = [
            {"prefect.resource.id": f"prefect.{kind}.{id}", "prefect.resource.role": kind}
            for kind, id in (("flow-run", self._flow_run_id), ("task-run", self._task_run_id))
            if id is not None
        ]
        send = partial(
            emit_event,
            event=EVENT + what,
            resource=resource,
            related=related,
            payload=names | payload,
            occurred=datetime.fromtimestamp(self._clock.now(), UTC),
        )
        self._behind.put(self._in_context(lambda _: send()))

    def _in_context(self, job: Callable[[Api], object]) -> Callable[[Api], object]:
        """``job`` where the task run's settings are known, and which run it is."""
        return partial(self._context.run, job)

    # -- artifacts, made behind the turn -------------------------------------------------------------------------------

    def _create(self, api: Api, kind: str, type: str, data: Any, description: str) -> UUID:
        return api.create(
            key=None if self._session is None else artifact_key(kind, self._session),
            type=type,
            data=data,
            description=description,
            flow_run_id=self._flow_run_id,
            task_run_id=self._task_run_id,
        )

    def _show_progress(self, api: Api) -> None:
        age = self._clock.monotonic() - self._began_at
        state = f"{self._doing}; {counted(self._tools, 'tool call')}"
        shown = self._progress
        if age < SHOW_AFTER or (state == shown.state and age - shown.age < SHOW_EVERY):
            return
        shown.state, shown.age = state, age
        text = f"**{self._node}** {state}; {age:.0f} s"
        if shown.id is None:
            shown.id = self._create(api, "progress", "progress", 0.0, text)
        else:
            api.update(shown.id, data=0.0, description=text)

    def _end_progress(self, text: str, api: Api) -> None:
        if self._progress.id is not None:
            api.update(self._progress.id, data=100.0, description=f"**{self._node}** {text}")

    def _show_transcript(self, payload: AgentOutputPayload, secrets: Sequence[str], api: Api) -> None:
        found = [] if self._path is None else read_turns(self._path, payload.request_id)
        prompt, items = (found[-1].prompt, found[-1].items) if found else ("", ())
        items = items or ({"part_type": "text", "status": "", "content": {"text": payload.text}},)
        text = redact(transcript(payload, prompt, items), secrets)
        self._create(api, "transcript", "markdown", text, f"What {self._node} said and did.")

    def _show_usage(self, api: Api) -> None:
        table = usage_table(list(self._reports.values()))
        self._create(api, "usage", "table", json.dumps(table), f"What {self._node} used.")


class _Progress:
    """The progress as it is shown: its artifact, the state, and how old the turn was."""

    def __init__(self) -> None:
        self.id: UUID | None = None
        self.state = ""
        self.age = 0.0
