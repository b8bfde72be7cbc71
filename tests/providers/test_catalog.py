"""From options and environment to one model at one endpoint, or a message that names the option."""

from dataclasses import replace
from typing import Any

import pytest

from agent_nodes import AgentModelAttributes, ModelCost, ModelEntry, ModelRegistry
from agent_nodes.errors import InputValidationError
from agent_nodes.providers.catalog import key_for, resolve
from agent_nodes.providers.known import known

NOTHING: dict[str, Any] = dict.fromkeys(
    ("provider", "model", "base_url", "api_kind", "context_window", "max_tokens"), None
)


def model(environ: dict[str, str] | None = None, **options: Any) -> Any:
    return resolve(**{**NOTHING, **options}, environ=environ or {})


def mistake(field: str, *words: str, environ: dict[str, str] | None = None, **options: Any) -> None:
    with pytest.raises(InputValidationError) as caught:
        model(environ, **options)
    assert caught.value.field == field
    for word in words:
        assert word in caught.value.message


def test_the_services_have_default_models_and_addresses() -> None:
    claude = model(provider="anthropic")
    assert (claude.api, claude.base_url) == ("anthropic-messages", "https://api.anthropic.com")
    assert claude.model.startswith("claude-")
    assert (claude.context_window, claude.max_tokens) == (1_000_000, 128_000)
    gpt = model(provider="openai")
    assert (gpt.api, gpt.base_url) == ("openai-responses", "https://api.openai.com/v1")
    assert gpt.model.startswith("gpt-")
    assert gpt.context_window and gpt.max_tokens is None
    assert model(provider="openai", api_kind="openai-completions").api == "openai-completions"


def test_addresses_come_from_the_option_then_the_environment() -> None:
    environ = {"ANTHROPIC_BASE_URL": "http://gate:1/v1/", "OPENAI_BASE_URL": "http://gate:2/v1"}
    assert model(environ, provider="anthropic").base_url == "http://gate:1", "the path brings /v1 itself"
    assert model(environ, provider="openai").base_url == "http://gate:2/v1"
    assert model(environ, provider="openai", base_url="http://mine/v1/").base_url == "http://mine/v1"
    mine = model(environ, provider="mine", model="m", base_url="http://mine/v1")
    assert (mine.provider, mine.api, mine.base_url) == ("mine", "openai-completions", "http://mine/v1")
    assert model(provider="mine", model="m", base_url="http://mine", api_kind="anthropic-messages").max_tokens is None


def test_explicit_sizes_come_first() -> None:
    found = model(provider="openai", context_window=9_000, max_tokens=500)
    assert (found.context_window, found.max_tokens) == (9_000, 500)
    mistake("context_window", "at least 1", provider="openai", context_window=0)
    mistake("max_tokens", provider="openai", max_tokens=-1)


def test_no_model_is_an_error_that_says_what_to_set() -> None:
    mistake("provider", "no model is configured", "anthropic", "demo")
    mistake("provider", "base_url", provider="", model="m", base_url="http://mine")
    mistake("model", "no default model", provider="mine", base_url="http://mine")


def test_an_own_provider_needs_an_address() -> None:
    mistake("base_url", "'mine'", "address", provider="mine", model="m")


@pytest.mark.parametrize("address", ["mine/v1", "ftp://mine", "http://", "http://mine:port", "http://[x"])
def test_an_address_that_cannot_be_called_is_refused(address: str) -> None:
    mistake("base_url", "http://", provider="mine", model="m", base_url=address)
    mistake("base_url", "OPENAI_BASE_URL", provider="openai", environ={"OPENAI_BASE_URL": address})


def test_an_address_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(InputValidationError) as caught:
        model(provider="mine", model="m", base_url="http://me:hush@mine")
    assert "hush" not in str(caught.value)


def test_the_protocol_is_checked() -> None:
    mistake("api_kind", "'soap'", "openai-responses", provider="mine", model="m", base_url="http://m", api_kind="soap")
    mistake("api_kind", "anthropic-messages", provider="openai", api_kind="anthropic-messages")
    mistake("api_kind", provider="anthropic", api_kind="openai-responses")


def test_the_demo_model_has_no_endpoint() -> None:
    demo = model(provider="demo")
    assert (demo.provider, demo.model, demo.api, demo.context_window) == ("demo", "demo", "demo", None)
    assert model(provider="demo", context_window=5).context_window == 5
    mistake("base_url", provider="demo", base_url="http://mine")
    mistake("api_kind", provider="demo", api_kind="openai-responses")
    mistake("model", "'gpt'", provider="demo", model="gpt")


@pytest.mark.parametrize(
    ("id", "window", "images", "reasoning"),
    [
        ("claude-opus-5-5", 1_000_000, True, True),
        ("claude-haiku-4-5-20251001", 200_000, True, True),
        ("anthropic/claude-sonnet-4-6", 1_000_000, True, True),
        ("us.anthropic.claude-opus-4-5-v1:0", 200_000, True, True),
        ("gpt-5.4-mini", 272_000, True, True),
        ("gpt-5.4", 922_000, True, True),
        ("gpt-4o-mini", 128_000, True, False),
        ("openai/gpt-oss-120b", 131_072, False, True),
        ("meta-llama/Llama-3.3-70B", 128_000, True, True),
    ],
)
def test_windows_are_known_or_guessed_by_the_beginning_of_the_id(
    id: str, window: int, images: bool, reasoning: bool
) -> None:
    found = model(provider="mine", model=id, base_url="http://mine")
    assert (found.context_window, found.images, found.reasoning) == (window, images, reasoning)


def test_of_an_unknown_model_no_window_is_made_up() -> None:
    assert known("my-own") is None
    found = model(provider="mine", model="my-own", base_url="http://mine")
    assert (found.context_window, found.max_tokens, found.images, found.reasoning) == (None, None, True, True)


def test_keys_come_from_the_option_then_the_environment() -> None:
    environ = {"ANTHROPIC_API_KEY": " a-key\n", "OPENAI_API_KEY": "o-key"}
    assert key_for("anthropic", None, environ) == "a-key"
    assert key_for("openai", "mine", environ) == "mine"
    assert key_for("mine", None, environ) is None, "a service's key goes to nobody else"
    assert key_for("demo", None, environ) is None


@pytest.mark.parametrize(("provider", "variable"), [("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")])
def test_a_missing_key_names_its_variable(provider: str, variable: str) -> None:
    with pytest.raises(InputValidationError) as caught:
        key_for(provider, "", {variable: " "})
    assert variable in str(caught.value) and caught.value.field == "api_key"


def test_a_key_that_cannot_be_sent_is_refused_without_showing_it() -> None:
    for key in ("sk-\nhush", "sk-hush…"):
        with pytest.raises(InputValidationError) as caught:
            key_for("mine", key, {})
        assert "hush" not in str(caught.value)


def attributes(**declared: Any) -> Any:
    return AgentModelAttributes(**declared)


@pytest.mark.feature("C02")
def test_attributes_describe_the_model() -> None:
    found = model(
        provider="mine",
        model="m",
        base_url="http://mine",
        attributes=attributes(
            name="Mine",
            reasoning=False,
            web_search=True,
            input=["text"],
            cost={"input": 1, "output": 2, "cache_read": 3, "cache_write": 4},
            context_window=9_000,
            max_tokens=700,
            thinking_level_map={"max": "xhigh", "off": None},
        ),
    )
    assert found == ModelEntry(
        "mine",
        "m",
        "openai-completions",
        "http://mine",
        9_000,
        700,
        images=False,
        reasoning=False,
        name="Mine",
        cost=ModelCost(1, 2, 3, 4),
        levels=(("max", "xhigh"), ("off", None)),
        web_search=True,
    )
    assert hash(found)


@pytest.mark.feature("C02")
@pytest.mark.parametrize("provider", ["anthropic", "openai", "demo"])
def test_what_attributes_leave_out_stays(provider: str) -> None:
    plain = model(provider=provider)
    assert model(provider=provider, attributes=attributes()) == plain
    assert model(provider=provider, attributes=attributes(name="")) == plain
    assert model(provider=provider, attributes=attributes(input=["text"])) == replace(plain, images=False)


@pytest.mark.feature("C02")
def test_an_unchecked_object_reaches_the_model_as_it_is() -> None:
    odd = AgentModelAttributes.model_construct(context_window=-5, cost=ModelCost(input=2))  # type: ignore[arg-type]
    found = model(provider="openai", attributes=odd)
    assert (found.context_window, found.cost) == (-5, ModelCost(input=2))
    half = AgentModelAttributes.model_construct(cost={"output": 2.0, "else": 1})  # type: ignore[arg-type]
    assert model(provider="openai", attributes=half).cost == ModelCost(output=2)


@pytest.mark.feature("A09")
def test_each_figure_comes_from_the_first_that_says_it() -> None:
    claude = "claude-sonnet-5-5"
    registry = ModelRegistry(ModelEntry("anthropic", claude, "anthropic-messages", "", context_window=7, name="R"))
    declared = attributes(context_window=8, max_tokens=80)
    listed = model(provider="anthropic")
    assert (listed.context_window, listed.max_tokens) == (1_000_000, 128_000)
    registered = model(provider="anthropic", registry=registry)
    assert registered == replace(listed, context_window=7, name="R"), "the rest stays"
    both = model(provider="anthropic", registry=registry, attributes=declared)
    assert (both.context_window, both.max_tokens, both.name) == (8, 80, "R")
    asked = model(provider="anthropic", registry=registry, attributes=declared, context_window=9, max_tokens=90)
    assert (asked.context_window, asked.max_tokens) == (9, 90)


@pytest.mark.feature("A09")
def test_a_registered_provider_brings_its_endpoint() -> None:
    entry = ModelEntry(
        "mine",
        "m",
        "anthropic-messages",
        "http://mine/v1",
        images=False,
        cost=ModelCost(1, 2),
        thinking="budget",
        levels=(("low", "low"),),
        web_search=False,
    )
    registry = ModelRegistry(entry)
    assert model(provider="mine", model="m", registry=registry) == replace(entry, base_url="http://mine")
    moved = model(provider="mine", model="m", registry=registry, base_url="http://b/v1", api_kind="openai-responses")
    assert (moved.api, moved.base_url, moved.cost) == ("openai-responses", "http://b/v1", ModelCost(1, 2))
    mistake("base_url", provider="mine", model="other", registry=registry)
    mistake("model", "no default model", provider="mine", base_url="http://b", registry=registry)


@pytest.mark.feature("A09")
def test_a_registered_address_of_a_service_comes_before_the_environment() -> None:
    registry = ModelRegistry(ModelEntry("openai", "gpt-9", "openai-completions", "http://gate/v1"))
    environ = {"OPENAI_BASE_URL": "http://other/v1"}
    found = model(environ, provider="openai", model="gpt-9", registry=registry)
    assert (found.api, found.base_url) == ("openai-completions", "http://gate/v1")
    assert model(environ, provider="openai", registry=registry).base_url == "http://other/v1"
