"""Options and inputs that are plainly right skip the full validation: both ways must say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent_nodes import options, runtime_options
from agent_nodes.errors import InputValidationError
from agent_nodes.options import AgentInput, agent_input, checked_model
from agent_nodes.runtime_options import AgentOptions

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 5),
    st.floats(-1, 5),
    st.sampled_from(["", "x", "read-only", "auto", "openai-responses", "soap"]),
    st.just(Path("x")),
    st.just(("read", "ls")),
    st.just((Path("x"), "y")),
    st.just((1,)),
    st.just(b"x"),
)


def full(model: Any, values: dict[str, Any]) -> Any:
    try:
        return model.model_validate(values)
    except ValidationError:
        return None


def quick(model: Any, values: dict[str, Any], plain: Any) -> Any:
    try:
        return checked_model(model, values, plain, where="x")
    except InputValidationError:
        return None


@given(st.dictionaries(st.sampled_from([*AgentOptions.model_fields, "unknown"]), ODD, max_size=4))
def test_options_mean_the_same_both_ways(values):
    assert quick(AgentOptions, values, runtime_options._PLAIN) == full(AgentOptions, values)


@given(st.dictionaries(st.sampled_from([*AgentInput.model_fields, "unknown"]), ODD, max_size=4))
def test_inputs_mean_the_same_both_ways(values):
    assert quick(AgentInput, values, options._PLAIN) == full(AgentInput, values)


def test_what_is_plain_needs_no_validator(monkeypatch):
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("a validator was built")

    monkeypatch.setattr(AgentInput, "model_validate", never)
    assert agent_input({"prompt": "hi", "request_id": "r"}).prompt == "hi"
