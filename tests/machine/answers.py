"""What a model may answer, drawn as steps of the script language, with what each answer means for a turn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from hypothesis import strategies as st

from agent_nodes.messages import Usage, repair_text
from agent_nodes.providers.script import Call, Drop, LoseCall, Report, Say, Status, Step, Stop, Wait

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

_words = st.sampled_from(["ja ", "no", "한국어 ", "\n", "  ", "\n\n", "a\x00b", "\ud800x ", "e\u0301 ", '{"', "---"])
_texts = st.lists(_words, min_size=1, max_size=4).map("".join)
_says = st.builds(Say, st.sampled_from(["text", "text", "text", "thinking"]), _texts)

TOOLS = ("pay", "look", "step", "peek", "boom", "chat", "deaf", "stuck")
_arguments = st.fixed_dictionaries({"turns": st.integers(0, 3), "seconds": st.sampled_from([0, 0, 0.06, 1])})


def _call(name: str, arguments: dict[str, object]) -> Call:
    return Call(name, f'{{"turns": {arguments["turns"]}, "seconds": {arguments["seconds"]}}}', dict(arguments))


_good_calls = st.builds(_call, st.sampled_from(TOOLS), _arguments)
_calls = st.one_of(
    _good_calls,
    _good_calls,
    _good_calls,
    st.just(Call("nowhere", "{}", {})),
    st.just(Call("pay", '{"turns": "many"}', {"turns": "many"})),
    st.just(Call("pay", '{"turns": ', None)),
)
_cut_calls = st.just(Call("pay", '{"turns": ', None, cut=True))
_reports = st.builds(lambda out, cached: Report(Usage(0, out, cached)), st.integers(0, 9), st.integers(0, 3))
_waits = st.sampled_from([Wait(0.01), Wait(0.06), Wait(1.0)])
_ends = st.one_of(
    st.just(Drop()),
    st.just(Drop()),
    st.just(LoseCall()),
    st.builds(Status, st.sampled_from(RETRYABLE), st.sampled_from([None, 0.0, 2.0, 60.0])),
    st.builds(Status, st.sampled_from(FINAL)),
    st.builds(Stop, st.sampled_from(["end", "tool_use", "length", "length", "pause", "refusal", "overflow"])),
)
_noise = st.one_of(_says, _reports, _waits)


def _answer(before: list[Step], calls: list[Step], after: list[Step], end: Step | None) -> Answer:
    return Answer((*before, *calls, *after, *(() if end is None else (end,))))


_ordinary = st.builds(
    _answer,
    st.lists(_noise, max_size=3),
    st.one_of(st.just([]), st.lists(_calls, max_size=3), st.lists(_cut_calls, min_size=1, max_size=1)),
    st.lists(_reports, max_size=1),
    st.one_of(st.none(), st.none(), _ends),
)
_storms = st.builds(
    lambda answer, times: [answer] * times,
    st.builds(_answer, st.lists(_says, max_size=1), st.just([]), st.lists(_reports, max_size=1), _ends),
    st.integers(2, 12),
)

answers = st.lists(
    st.one_of(_ordinary.map(lambda one: [one]), _ordinary.map(lambda one: [one]), _storms), max_size=4
).map(lambda groups: [answer for group in groups for answer in group])
"""The answers of one run; after them the model gives :data:`PLAIN` ones."""
