"""Options and inputs that are plainly right skip the full validation: both ways must say the same."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent_nodes.options import AgentInput, AgentOptions, agent_input, checked_submission
from agent_nodes.runtime_options import PLAIN_OPTIONS, AgentOptionsDict, Options
from agent_nodes.submission import OVERRIDES, PLAIN_INPUT, Submission, plain, submission, submission_of

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 5),
    st.floats(-1, 5),
    st.sampled_from(["", "x", "read-only", "auto", "openai-responses", "soap", "high", "ultra"]),
    st.just(Path("x")),
    st.just(("read", "ls")),
    st.just((Path("x"), "y")),
    st.just((1,)),
    st.just(b"x"),
)


def full(model: Any, values: dict[str, Any]) -> dict[str, Any] | None:
    try:
        return dict(model.model_validate(values))
    except ValidationError:
        return None


@given(st.dictionaries(st.sampled_from([*AgentOptions.model_fields, "unknown"]), ODD, max_size=4))
def test_options_that_are_plain_are_right_and_mean_the_same(values):
    if plain(values, PLAIN_OPTIONS):
        options = Options(**values)
        assert {name: getattr(options, name) for name in AgentOptions.model_fields} == full(AgentOptions, values)


@given(st.dictionaries(st.sampled_from([*AgentInput.model_fields, "unknown"]), ODD, max_size=4))
def test_inputs_that_are_plain_are_right_and_mean_the_same(values):
    if plain(values, PLAIN_INPUT):
        assert submission(values) == checked_submission(values)


def test_both_forms_have_the_same_fields():
    assert [item.name for item in fields(Options)] == list(AgentOptions.model_fields)
    light = {item.name for item in fields(Submission)} - {"overrides", "pictures"}
    assert light | set(OVERRIDES) == set(AgentInput.model_fields)
    assert set(AgentOptionsDict.__annotations__) == set(AgentOptions.model_fields)
    assert set(OVERRIDES) <= set(AgentOptions.model_fields)


def test_the_two_forms_of_an_input_turn_into_each_other():
    model = agent_input({"prompt": "hi", "request_id": "r", "reopen": True})
    assert submission_of(model) == Submission("hi", "r", True)
    assert submission_of({"prompt": "hi"}) == submission_of("hi")


def test_what_is_plain_loads_no_validator():
    script = (
        "import sys; from agent_nodes.submission import submission_of; from agent_nodes.runtime_options import *;"
        "submission_of({'prompt': 'x'}); agent_options({'provider': 'demo', 'tools': []});"
        "print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
