"""What a model may answer, drawn as steps of the script language, with what each answer means for a turn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Literal, TypeAlias, TypeVar

from hypothesis import strategies as st

from agent_nodes.messages import Usage, repair_text
from agent_nodes.providers.script import Call, Drop, LoseCall, Report, Say, Status, Step, Stop, Wait

T = TypeVar("T")

Meaning: TypeAlias = Literal["answer", "calls", "length", "lost-call", "dropped", "fail"]

RETRYABLE = (408, 429, 500, 503, 529)
FINAL = (400, 401, 403, 404)
_FAILED_STOP = {"overflow": "context_overflow", "refusal": "refused", "pause": "model_error"}


@dataclass(frozen=True)
class Answer:
    """One response of the model."""

    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        return f"<{' | '.join(map(_short, self.steps))}>"

    @cached_property
    def text(self) -> str:
        return "".join(repair_text(step.text) for step in self.steps if isinstance(step, Say) and step.kind == "text")

    @cached_property
    def calls(self) -> int:
        return sum(isinstance(step, Call) for step in self.steps)

    @property
    def meaning(self) -> Meaning:
        last = self.steps[-1] if self.steps else None
        match last:
            case Drop():
                return "dropped"
            case Status():
                return "dropped" if last.code in RETRYABLE else "fail"
            case Stop() if last.reason in _FAILED_STOP:
                return "fail"
            case Stop(reason="length"):
                return "length"
            case Stop(reason="tool_use") | LoseCall():
                return "calls" if self.calls else "lost-call"
            case Stop():
                return "calls" if self.calls else "answer"
        if any(isinstance(step, Call) and step.cut for step in self.steps):
            return "length"
        return "calls" if self.calls else "answer"

    @property
    def reason(self) -> str:
        """Of an answer that means ``fail``."""
        last = self.steps[-1]
        return _FAILED_STOP[last.reason] if isinstance(last, Stop) else "model_error"

    @property
    def whole(self) -> bool:
        """Whether the service ended it; such a response is billed also where no tokens were reported."""
        return not self.steps or not isinstance(self.steps[-1], Drop | Status)


def _short(step: Step) -> str:
    match step:
        case Say():
            return f"{step.kind} {step.text!r}"
        case Call():
            return f"{'cut ' if step.cut else ''}{step.name} {step.text}"
        case Report():
            return f"usage {step.usage.output_tokens} {step.usage.cached_input_tokens}"
        case Wait():
            return f"wait {step.seconds}"
        case Stop():
            return f"stop {step.reason}"
        case Status():
            return f"{step.code}" + (f" after {step.retry_after}" if step.retry_after is not None else "")
        case LoseCall() | Drop():
            return type(step).__name__


PLAIN = Answer((Say("text", "fallback"), Report(Usage(1, 1))))


def sometimes(what: st.SearchStrategy[T], percent: int, otherwise: T) -> st.SearchStrategy[T]:
    """``what`` in ``percent`` of a hundred draws (a plain ``one_of`` would weigh by alternatives)."""
    return st.integers(0, 99).flatmap(lambda drawn: what if drawn >= 100 - percent else st.just(otherwise))


_words = st.sampled_from(["ja ", "no", "한국어 ", "\n", "  ", "\n\n", "a\x00b", "\ud800x ", "e\u0301 ", '{"', "---"])
_texts = st.lists(_words, min_size=1, max_size=4).map("".join)
_says = st.builds(Say, st.sampled_from(["text", "text", "text", "thinking"]), _texts)
_reports = st.builds(lambda out, cached: Report(Usage(0, out, cached)), st.integers(0, 9), st.integers(0, 3))
_waits = st.sampled_from([Wait(0.01), Wait(0.06), Wait(1.0)])
_noise = st.lists(st.one_of(_says, _says, _reports, _waits), max_size=3)

TOOLS = ("pay", "look", "step", "peek", "boom", "chat", "deaf", "stuck")


def _call(name: str, turns: int, seconds: float) -> Call:
    return Call(name, f'{{"turns": {turns}, "seconds": {seconds}}}', {"turns": turns, "seconds": seconds})


_calls = sometimes(
    st.sampled_from(
        [
            Call("nowhere", "{}", {}),
            Call("pay", '{"turns": "many"}', {"turns": "many"}),
            Call("pay", '{"turns": ', None),
        ]
    ),
    15,
    None,
).flatmap(
    lambda bad: (
        st.builds(_call, st.sampled_from(TOOLS), st.integers(0, 3), st.sampled_from([0, 0.06, 1]))
        if bad is None
        else st.just(bad)
    )
)
_rounds = st.lists(_calls, min_size=1, max_size=4)
_cut_call = [Call("pay", '{"turns": ', None, cut=True)]
_broken = st.one_of(
    st.just(Drop()),
    st.builds(Status, st.sampled_from(RETRYABLE), st.sampled_from([None, 0.0, 2.0, 60.0])),
    st.just(LoseCall()),
    st.just(Stop("length")),
)
_final = st.one_of(
    st.builds(Status, st.sampled_from(FINAL)),
    st.builds(Stop, st.sampled_from(["end", "tool_use", "pause", "refusal", "overflow"])),
)


def _answer(*parts: list[Step] | Step | None) -> Answer:
    steps: list[Step] = []
    for part in parts:
        steps += part if isinstance(part, list) else [] if part is None else [part]
    return Answer(tuple(steps))


_report = sometimes(_reports, 70, None)
_shapes = {
    "calls": st.builds(_answer, _noise, _rounds, _report),
    "text": st.builds(_answer, _noise, _report),
    "broken": st.builds(_answer, _noise, sometimes(_rounds, 20, []), _report, _broken),
    "cut call": st.builds(_answer, _noise, st.just(_cut_call), _report, sometimes(_broken, 30, None)),
    "final": st.builds(_answer, _noise, sometimes(_rounds, 20, []), _report, _final),
}
_ordinary = st.sampled_from(["calls", "calls", "calls", "broken", "broken", "cut call", "text", "final"]).flatmap(
    lambda shape: _shapes[shape].map(lambda one: (one,))
)
# The same again and again, up to the limits and beyond.
_storms = st.builds(lambda one, times: (one,) * times, _shapes["broken"], st.integers(2, 12))

answers = st.lists(
    sometimes(_storms, 8, ()).flatmap(lambda storm: st.just(storm) if storm else _ordinary), max_size=4
).map(lambda groups: tuple(chain.from_iterable(groups)))
"""The answers of one run; after them the model gives :data:`PLAIN` ones."""
