"""Models that a program describes itself: what is taken, and that a wrong entry is refused by name."""

from dataclasses import replace
from typing import Any

import pytest

from agent_nodes import InputValidationError, ModelCost, ModelEntry, ModelRegistry
from agent_nodes.providers.registry import check_entry

MINE = ModelEntry("mine", "m-1", "openai-completions", "http://127.0.0.1:8080/v1")


@pytest.mark.feature("A09")
def test_entries_are_found_by_provider_and_model_and_replaced() -> None:
    registry = ModelRegistry(MINE)
    other = replace(MINE, model="m-2")
    registry.register(other)
    newer = replace(MINE, context_window=5)
    registry.register(newer)
    assert registry.get("mine", "m-1") is newer
    assert registry.get("mine", "m-3") is None
    assert registry.get("other", "m-1") is None
    assert list(registry) == [newer, other]
    assert len(registry) == 2


@pytest.mark.feature("A09")
def test_an_official_provider_needs_no_address() -> None:
    ModelRegistry(ModelEntry("openai", "gpt-mine", "openai-responses", ""))


@pytest.mark.feature("A09")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("provider", ""),
        ("provider", "demo"),
        ("provider", None),
        ("model", " "),
        ("model", "a\nb"),
        ("model", 5),
        ("api", "soap"),
        ("api", "demo"),
        ("api", ["openai-responses"]),
        ("base_url", ""),
        ("base_url", None),
        ("base_url", "mine:8080"),
        ("base_url", "http://me:hush@mine"),
        ("context_window", 0),
        ("context_window", True),
        ("max_tokens", 1.5),
        ("images", None),
        ("reasoning", 1),
        ("name", "x" * 201),
        ("cost", {"input": 1}),
        ("cost", ModelCost(input=-1)),
        ("cost", ModelCost(output=float("nan"))),
        ("cost", ModelCost(cache_read=True)),
        ("thinking", "hard"),
        ("levels", {"low": "low"}),
        ("levels", (("ultra", "max"),)),
        ("levels", (("low", ""),)),
        ("levels", ("low",)),
        ("web_search", "yes"),
    ],
)
def test_a_wrong_entry_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    registry = ModelRegistry()
    with pytest.raises(InputValidationError) as caught:
        registry.register(replace(MINE, **{field: value}))
    assert caught.value.field == field
    assert f"{field}: must" in caught.value.message or "take a name of your own" in caught.value.message
    assert "hush" not in caught.value.message
    assert len(registry) == 0


@pytest.mark.feature("A09")
@pytest.mark.parametrize("entry", [None, "mine/m-1", {"provider": "mine"}])
def test_only_an_entry_is_one(entry: Any) -> None:
    with pytest.raises(InputValidationError, match="resolved_model: expected a ModelEntry, got"):
        check_entry(entry, where="resolved_model")
