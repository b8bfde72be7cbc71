"""What is played: the prompts and plans, the faults, the processes of a clean run, and what follows a kill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.crash.model import Fault, Plans, Round

Act = Literal["abort", "close", "raise"]
Ends = Literal["answered", "aborted", "failed", "closed", "broken", "settled"]
"""``settled``: answered or failed; a kill decides which request the fault strikes."""

AFTER = "and then?"
"""The prompt by which every case shows in the end that its session goes on."""


@dataclass(frozen=True, slots=True)
class Run:
    """One process: it submits ``request`` and, at the point ``at``, stops or closes and lets nothing more come.

    With ``raise`` its host fails when it is told of usage. Before it submits, it ``seeds`` a session without history
    or, where no turn is unfinished, ``resets`` the context. ``asks`` are fields of the input in place of options.
    """

    prompt: str
    request: str = "R1"
    ends: Ends = "answered"
    reopen: bool = False
    system: str | None = None
    act: Act | None = None
    at: str = ""
    seeds: bool = False
    resets: bool = False
    asks: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Scene:
    """``after`` are the runs that follow a kill. ``stops``: its turn counts as stopped once the stop was marked.

    ``sees`` says how often a prompt stands in the history of the requests of other prompts.
    """

    name: str
    plans: Plans
    runs: tuple[Run, ...]
    after: tuple[Run, ...]
    faults: Mapping[int, Fault] = field(default_factory=dict[int, Fault])
    stops: bool = False
    sees: Mapping[str, int] = field(default_factory=dict[str, int])
    builtin: tuple[str, ...] = ()
    leaves: bool = False
    """Whether a killed run leaves a process behind."""

    def plan(self, prompt: str) -> tuple[Round, ...]:
        return {**self.plans, AFTER: ANSWER_AFTER}[prompt]


ANSWER_AFTER = (Round("Nothing more."),)

BEFORE = "what was before"
ANSWER_BEFORE = (Round("Much was."),)

HELLO = "greet me"
GREETING = (Round("Hello there, my friend.", thinking="A greeting is due."),)

PAY = "pay the bill"
PAYING = (
    Round("I pay first.", (("pay", {"sum": 5}), ("look", {}), ("slow", {}))),
    Round("Now both steps.", (("first", {}), ("second", {}))),
    Round("All is done now."),
)

CHECK = "check the doors"
CHECKING = (
    Round("", (("nothing", {}), ("pay", '{"sum": '))),
    Round("So.", (("fly", {}), ("pay", {"sum": 7}), ("late", {}))),
    Round("Checked, all of them."),
)

COUNT = "count to ten"
COUNTING = (Round("one two three four five six seven eight nine ten"),)

ONCE = "pay once"
PAYING_ONCE = (Round("I pay.", (("pay", {"sum": 3}),)), Round("Paid."))

BOTH = "pay and look"
PAYING_BOTH = (
    Round("I pay and I look.", (("pay", {"sum": 4}), ("look", {})), thinking="Both at once."),
    Round("Paid and seen.", thinking="That was all."),
)

FINISH = "finish it"
FINISHING = (Round("I finish it.", (("finish", {}), ("shut", {}), ("seal", {}))),)

HANG = "wait for me"
HANGING = (
    Round("I wait.", (("pay", {"sum": 1}), ("hang", {}), ("second", {}))),
    Round("Waited long enough."),
)

SHELL = "start a job"
SHELLING = (
    Round("I start it.", (("bash", {"command": "sleep 3600 & (setsid sleep 3600) & echo started; wait"}),)),
    Round("Started."),
)


def _one(name: str, prompt: str, plan: tuple[Round, ...], faults: Mapping[int, Fault] | None = None) -> Scene:
    run = Run(prompt)
    return Scene(name, {prompt: plan}, (run,), (run,), faults or {})


def _scenes() -> list[Scene]:
    counting, hanging = {COUNT: COUNTING}, {HANG: HANGING}
    stop_stream = Run(COUNT, ends="aborted", act="abort", at="request 1 delta 3")
    stop_tool = Run(HANG, ends="aborted", act="abort", at="tool hang wait")
    reopen_count, reopen_hang = Run(COUNT, reopen=True), Run(HANG, reopen=True)
    both = {HELLO: GREETING, ONCE: PAYING_ONCE}
    return [
        _one("text", HELLO, GREETING),
        _one("tools", PAY, PAYING),
        _one("refused-calls", CHECK, CHECKING),
        _one("ended-by-tools", FINISH, FINISHING),
        _one("retry", HELLO, GREETING, {1: "overloaded", 2: "overloaded"}),
        _one("dropped", COUNT, COUNTING, {1: "dropped", 2: "dropped"}),
        _one("length", COUNT, COUNTING, {1: "length", 2: "length"}),
        _one("length-in-a-call", ONCE, PAYING_ONCE, {1: "cut-call", 2: "cut-call"}),
        _one("lost-call", ONCE, PAYING_ONCE, {1: "lost-call", 2: "lost-call"}),
        Scene("stop-in-a-stream", counting, (stop_stream,), (Run(COUNT),), stops=True),
        Scene("stop-in-a-tool", hanging, (stop_tool,), (Run(HANG),), stops=True),
        Scene("reopen-a-stopped-stream", counting, (stop_stream, reopen_count), (reopen_count,)),
        Scene("reopen-a-stopped-tool", hanging, (stop_tool, reopen_hang), (reopen_hang,)),
        Scene(
            "reopen-a-failed-turn",
            {HELLO: GREETING},
            (Run(HELLO, ends="failed"), Run(HELLO, reopen=True)),
            (Run(HELLO, reopen=True, ends="settled"), Run(HELLO, reopen=True)),
            {1: "invalid"},
        ),
        Scene(
            "reopen-after-the-host-failed",
            {ONCE: PAYING_ONCE},
            (Run(ONCE, ends="broken", act="raise"), Run(ONCE, reopen=True)),
            (Run(ONCE, reopen=True),),
        ),
        Scene(
            "shutdown-in-a-stream",
            counting,
            (Run(COUNT, ends="closed", act="close", at="request 1 delta 3"), Run(COUNT)),
            (Run(COUNT),),
        ),
        Scene(
            "shutdown-in-a-tool",
            hanging,
            (Run(HANG, ends="closed", act="close", at="tool hang wait"), Run(HANG)),
            (Run(HANG),),
        ),
        Scene(
            "another-system-prompt",
            {ONCE: PAYING_ONCE},
            (Run(ONCE),),
            (Run(ONCE, system="You are somebody else now."),),
        ),
        Scene(
            "with-a-limit-of-its-own",
            {ONCE: PAYING_ONCE},
            (Run(ONCE, asks={"max_tokens": 50}),),
            (Run(ONCE),),
            {1: "dropped"},
        ),
        Scene(
            "seeded",
            {BEFORE: ANSWER_BEFORE, HELLO: GREETING},
            (Run(HELLO, seeds=True),),
            (Run(HELLO, seeds=True),),
            sees={BEFORE: 1},
        ),
        Scene(
            "reset",
            {BEFORE: ANSWER_BEFORE, ONCE: PAYING_ONCE},
            (Run(BEFORE, "R0"), Run(ONCE, resets=True)),
            (Run(BEFORE, "R0"), Run(ONCE, resets=True)),
            sees={BEFORE: 0},
        ),
        Scene("a-second-turn", both, (Run(HELLO, "R0"), Run(ONCE)), (Run(HELLO, "R0"), Run(ONCE))),
        Scene("a-new-request", both, (Run(ONCE, "R0"), Run(HELLO)), (Run(HELLO), Run(ONCE, "R0"))),
    ]


SCENES: Mapping[str, Scene] = {scene.name: scene for scene in _scenes()}

BASH = Scene("bash", {SHELL: SHELLING}, (Run(SHELL),), (Run(SHELL),), builtin=("bash",), leaves=True)

# One for every protocol, over a real wire: an overload, a broken answer, a round of calls, the answer.
WIRE = _one("wire", BOTH, PAYING_BOTH, {1: "overloaded", 2: "dropped"})

ALL: Mapping[str, Scene] = {**SCENES, BASH.name: BASH, WIRE.name: WIRE}
