"""From words or values to the parameters of a run."""

from typing import Any

import pytest

from agent_nodes import InputValidationError
from conversation import ConversationParamDeclaration, ProjectArgs
from conversation.agent_executor import create_agent_project_input, default_params
from conversation.params import parse_args

PARAMS = (
    *default_params(),
    ConversationParamDeclaration(name="rounds", flags=("--rounds", "-r"), type="integer", default=3),
    ConversationParamDeclaration(name="share", flags=("--share",), type="number"),
    ConversationParamDeclaration(name="loud", flags=("--loud",), type="boolean", default=False),
    ConversationParamDeclaration(name="size", flags=("--size",), type="integer", choices=(1, 2)),  # type: ignore[arg-type]
)
DEFAULTS = {"rounds": 3, "loud": False}


def parsed(*words: str) -> ProjectArgs:
    return parse_args(PARAMS, words)


@pytest.mark.feature("N03")
def test_flags_stand_anywhere_between_the_words() -> None:
    found = parsed("fix", "-C", "src", "the", "--effort=high", "test", "-m", "m-1", "--loud", "now", "-r", "5")
    assert found.prompt == "fix the test now"
    assert found.params == {"workdir": "src", "effort": "high", "model": "m-1", "loud": True, "rounds": 5}
    assert found.given == {"workdir", "effort", "model", "loud", "rounds"}


@pytest.mark.feature("N03")
def test_behind_two_dashes_every_word_is_one() -> None:
    found = parsed("--rounds", "1", "--", "--effort", "--", "-C")
    assert (found.prompt, found.params["rounds"]) == ("--effort -- -C", 1)
    assert "effort" not in found.params


@pytest.mark.feature("N03")
def test_numbers_and_lone_dashes_are_words() -> None:
    assert parsed("what", "is", "-3", "-", "-1.5", "a=b").prompt == "what is -3 - -1.5 a=b"


@pytest.mark.feature("N03")
def test_an_empty_text_is_unset_except_where_a_choice_is_empty() -> None:
    found = parsed("--model", "", "--effort", "", "--rounds=", "go")
    assert found.params == {"effort": "", **DEFAULTS}
    assert found.given == {"effort"}
    assert parse_args(PARAMS, {"workdir": "", "effort": "", "rounds": None}).params == {"effort": "", **DEFAULTS}


@pytest.mark.feature("N03")
def test_values_come_by_name_as_well() -> None:
    found = parse_args(PARAMS, {"message": "hi", "rounds": 7, "share": 1, "loud": True})
    assert (found.prompt, found.rest) == ("hi", ())
    assert found.params == {"rounds": 7, "share": 1, "loud": True}


@pytest.mark.feature("N03")
def test_the_message_comes_before_the_words() -> None:
    assert ProjectArgs("from the composer", rest=("from", "words")).prompt == "from the composer"
    assert ProjectArgs(" ", rest=("from", "words")).prompt == "from words"
    assert ProjectArgs().prompt is None
    assert ProjectArgs("", rest=(" ",)).prompt is None


@pytest.mark.parametrize(
    ("words", "field", "said"),
    [
        (["--efort", "low"], "--efort", "did you mean --effort?"),
        (["-x"], "-x", "known are --workdir"),
        (["--model"], "model", "--model: a value is missing"),
        (["--model", "--effort", "low"], "model", "--model: a value is missing"),
        (["--model", "--", "m"], "model", "--model: a value is missing"),
        (["--rounds", "many"], "rounds", "'many' is no value of type integer"),
        (["--share", "nan"], "share", "no value of type number"),
        (["--loud=perhaps"], "loud", "no value of type boolean"),
        (["--effort", "extreme"], "effort", "must be one of 'off', 'minimal'"),
        (["--size", "3"], "size", "must be one of 1, 2"),
        (["--model-attributes", "{"], "model_attributes", "is no JSON"),
        (["--permission-policy", "all"], "permission_policy", "must be one of 'read-only'"),
    ],
)
def test_a_wrong_word_is_named(words: list[str], field: str, said: str) -> None:
    with pytest.raises(InputValidationError) as caught:
        parse_args(PARAMS, words)
    assert caught.value.field == field
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("values", "field", "said"),
    [
        ({"efort": "low"}, "efort", "did you mean effort?"),
        ({"massage": "hi"}, "massage", "did you mean message?"),
        ({"message": 1}, "message", "must be a text"),
        ({"rounds": "7"}, "rounds", "'7' is no value of type integer"),
        ({"rounds": True}, "rounds", "True is no value of type integer"),
        ({"loud": 1}, "loud", "no value of type boolean"),
        ({"workdir": ["a"]}, "workdir", "no value of type path"),
    ],
)
def test_a_wrong_value_is_named(values: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(InputValidationError) as caught:
        parse_args(PARAMS, values)
    assert caught.value.field == field
    assert said in caught.value.message


def test_what_is_required_must_be_there() -> None:
    needed = (ConversationParamDeclaration(name="topic", flags=("-t", "--topic"), required=True),)
    with pytest.raises(InputValidationError, match=r"topic: missing; set it with --topic") as caught:
        parse_args(needed, ["go"])
    assert caught.value.field == "topic"
    with pytest.raises(InputValidationError, match="topic: missing"):
        parse_args(needed, {"message": "go", "topic": ""})
    assert parse_args(needed, ["-t", "owls"]).params == {"topic": "owls"}


def test_a_long_wrong_value_is_not_shown_whole() -> None:
    with pytest.raises(InputValidationError) as caught:
        parse_args(PARAMS, {"effort": "x" * 5000})
    assert len(caught.value.message) < 300


@pytest.mark.feature("N01", "N03")
def test_the_input_of_an_agent_is_made_of_message_and_parameters() -> None:
    made = create_agent_project_input(parsed("do", "it", "--effort", "", "-C", "/x", "--context-window", "4000"))
    assert (made.prompt, made.effort, made.workdir, made.context_window) == ("do it", "", "/x", 4000)
    assert (made.model, made.request_id) == (None, None)  # nor anything of `rounds`, which is the project's own


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ([], {"provider": "a", "model": "a-1", "context_window": 1000, "effort": "high"}),
        (["-m", "a-2"], {"provider": "a", "model": "a-2", "context_window": None, "effort": "high"}),
        (["--provider", "b"], {"provider": "b", "model": None, "context_window": None, "effort": "high"}),
        (["-m", "a-2", "--context-window", "5"], {"provider": "a", "model": "a-2", "context_window": 5}),
    ],
)
def test_a_default_that_describes_one_model_says_nothing_of_another(words: list[str], kept: dict[str, Any]) -> None:
    params = default_params({"provider": "a", "model": "a-1", "context_window": 1000, "effort": "high"})
    made = create_agent_project_input(parse_args(params, ["go", *words]))
    assert {name: getattr(made, name) for name in kept} == kept
