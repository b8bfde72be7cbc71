"""What a caller may hand to ``run(input, host)``: hooks and the abort signal, all optional."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from typing import Any

from agent_nodes._aio import AbortSignal, EitherSignal
from agent_nodes.errors import InputValidationError
from agent_nodes.events import AgentStreamEvent
from agent_nodes.messages import Usage


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Tokens of one returned model response, or of what a tool says that its call spent: then ``provider`` is ``tool``
    and ``model`` the tool's name, and the turn's own usage leaves it out. ``record_id`` is stable: a run that resumes
    or replays a turn reports the same records again, so upsert by it. ``cost`` is in US dollars where the model's
    prices are known."""

    record_id: str
    request_id: str
    turn_id: int
    provider: str
    model: str
    usage: Usage
    cost: float | None = None


@dataclass(slots=True)
class AgentHost:
    """``on_event`` and ``report_usage`` may be plain or async functions; an async one is awaited before the run
    goes on. One that raises ends the turn as ``runtime_failure``. ``abort_signal`` is the user's stop."""

    report_usage: Callable[[UsageReport], Awaitable[object] | object] | None = None
    abort_signal: AbortSignal | None = None
    on_event: Callable[[AgentStreamEvent], Awaitable[object] | object] | None = None


def host_of(value: Any) -> AgentHost:
    """``value`` as an :class:`AgentHost`: None, one, a dict of its members, or any object that has some of them.

    Raises :class:`InputValidationError` naming a dict key that is no member or a member of the wrong kind.
    """
    if value is None:
        return AgentHost()
    names = [item.name for item in fields(AgentHost)]
    if isinstance(value, dict):
        unknown = [str(key) for key in value if key not in names]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        if unknown:
            raise InputValidationError(f"host.{unknown[0]}: unknown member; known: {', '.join(names)}", field="host")
        found: dict[str, Any] = {str(key): item for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    else:
        found = {name: getattr(value, name, None) for name in names}
        if all(item is None for item in found.values()) and not isinstance(value, AgentHost):
            raise InputValidationError(f"host: has none of {', '.join(names)}", field="host")
    for name in ("report_usage", "on_event"):
        if found.get(name) is not None and not callable(found[name]):
            raise InputValidationError(f"host.{name}: must be a function", field=f"host.{name}")
    signal = found.get("abort_signal")
    if signal is not None and not isinstance(signal, AbortSignal):
        raise InputValidationError("host.abort_signal: must be an AbortSignal", field="host.abort_signal")
    return AgentHost(**found)


def both_hosts(own: AgentHost, around: AgentHost) -> AgentHost:
    """A host whose hooks are those of both, ``own`` first, stopped by either signal."""

    def each(name: str) -> Callable[[Any], Awaitable[None]] | None:
        hooks = [hook for hook in (getattr(own, name), getattr(around, name)) if hook is not None]
        if len(hooks) < 2:
            return hooks[0] if hooks else None

        async def call(value: Any) -> None:
            for hook in hooks:
                outcome = hook(value)
                if inspect.isawaitable(outcome):
                    await outcome

        return call

    signal = own.abort_signal or around.abort_signal
    if own.abort_signal is not None and around.abort_signal is not None:
        signal = EitherSignal(own.abort_signal, around.abort_signal)
    return AgentHost(report_usage=each("report_usage"), abort_signal=signal, on_event=each("on_event"))
