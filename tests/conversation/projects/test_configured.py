"""Models of agent-nodes.toml in a project: chosen by id, asked at their address with their key."""

from pathlib import Path
from typing import Any

import pytest

from agent_nodes import InputValidationError, ModelEntry, ModelRegistry
from conversation import (
    ConversationParamDeclaration,
    RunContext,
    create_agent_conversation_project,
    create_agent_project_input,
    create_agent_project_param_resolver,
    define_agent_conversation_executor,
    define_executor,
)
from tests.fakes import FakeServer, text

FOLDER = Path("configured")


def configure(content: str) -> Path:
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "agent-nodes.toml").write_text(content)
    return FOLDER


def entry(id: str, fake: FakeServer, **fields: Any) -> str:
    values = {"provider": "gateway", "model": f"{id}-1", "base_url": fake.v1, **fields}
    return f"[models.{id}]\n" + "".join(f"{name} = {_toml(value)}\n" for name, value in values.items())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(item)}" for name, item in value.items()) + " }"
    return str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')


def key_of(fake: FakeServer, number: int = -1) -> str:
    return fake.requests[number].headers["authorization"].removeprefix("Bearer ")


@pytest.mark.feature("N03")
async def test_the_configured_models_are_the_choices_and_the_first_is_the_default(fake: FakeServer) -> None:
    config = configure(entry("fast", fake, attributes={"name": "Fast one"}) + entry("deep", fake))
    executor = define_agent_conversation_executor(name="pi", provider="demo")
    resolved = {param.name: param for param in executor.resolved_params(RunContext(config=config))}
    model = resolved["model"]
    assert [(choice.value, choice.label) for choice in model.choices] == [("fast", "Fast one"), ("deep", "")]
    assert model.default == "fast"
    assert (resolved["provider"].hidden, resolved["provider"].default) == (True, None)
    declared = {param.name: param for param in executor.params}
    assert {name for name in declared if declared[name] != resolved[name]} == {"model", "provider"}
    assert executor.resolved_params(RunContext(config=Path.cwd())) == executor.params


@pytest.mark.feature("N03")
async def test_a_model_is_asked_at_its_address_with_its_key(fake: FakeServer) -> None:
    fake.respond(lambda _: text("ok"))
    config = configure(
        entry("fast", fake, api_key_env="FAST_KEY", effort="low", attributes={"reasoning": True})
        + entry("deep", fake, api_key_env="DEEP_KEY")
    )
    executor = define_agent_conversation_executor(name="pi", provider="demo")
    context = RunContext(conversation_id="c", config=config, environ={"FAST_KEY": "k-fast", "DEEP_KEY": "k-deep"})
    await executor.run(["hi"], context)
    assert (fake.requests[-1].model, key_of(fake)) == ("fast-1", "k-fast")
    assert fake.requests[-1].json["reasoning_effort"] == "low"
    await executor.run(["hi", "-m", "deep"], context)
    assert (fake.requests[-1].model, key_of(fake)) == ("deep-1", "k-deep")
    assert "reasoning_effort" not in fake.requests[-1].json
    await executor.run({"message": "hi", "model": "fast", "effort": "high"}, context)
    assert (fake.requests[-1].model, key_of(fake)) == ("fast-1", "k-fast")
    assert fake.requests[-1].json["reasoning_effort"] == "high"


@pytest.mark.feature("N03")
async def test_of_two_entries_for_one_model_each_has_its_key(fake: FakeServer) -> None:
    fake.respond(lambda _: text("ok"))
    config = configure(
        entry("work", fake, model="m", api_key_env="WORK") + entry("home", fake, model="m", api_key_env="HOME_KEY")
    )
    executor = define_agent_conversation_executor(name="pi", provider="demo")
    context = RunContext(config=config, environ={"WORK": "k-work", "HOME_KEY": "k-home"})
    for id, key in (("work", "k-work"), ("home", "k-home"), ("work", "k-work")):
        await executor.run(["hi", "-m", id], context)
        assert (fake.requests[-1].model, key_of(fake)) == ("m", key)


@pytest.mark.feature("N03")
async def test_the_key_is_in_no_input_and_in_no_file(fake: FakeServer, home: Path) -> None:
    fake.respond(lambda _: text("ok"))
    config = configure(entry("fast", fake, api_key_env="FAST_KEY"))
    outputs: list[Any] = []
    context = RunContext(
        config=config, environ={"FAST_KEY": "k-very-secret"}, on_output=lambda _, output: outputs.append(output)
    )
    await define_agent_conversation_executor(name="pi", provider="demo").run(["hi"], context)
    assert key_of(fake) == "k-very-secret"
    assert "k-very-secret" not in repr(outputs)
    for path in home.rglob("*"):
        assert path.is_dir() or b"k-very-secret" not in path.read_bytes()


async def test_a_key_that_is_not_set_is_said_before_anything_is_opened(fake: FakeServer, home: Path) -> None:
    config = configure(entry("fast", fake, api_key_env="FAST_KEY"))
    executor = define_agent_conversation_executor(name="pi", provider="demo")
    with pytest.raises(InputValidationError, match="FAST_KEY is not set") as caught:
        await executor.run(["hi"], RunContext(config=config, environ={}))
    assert caught.value.field == "models.fast.api_key_env"
    assert not home.exists()


async def test_an_unknown_model_is_refused_by_the_choices(fake: FakeServer) -> None:
    config = configure(entry("fast", fake))
    executor = define_agent_conversation_executor(name="pi", provider="demo")
    with pytest.raises(InputValidationError, match=r"model: 'slow' must be one of 'fast'"):
        await executor.run(["hi", "-m", "slow"], RunContext(config=config))


@pytest.mark.feature("N03")
async def test_an_agent_with_a_registry_of_its_own_has_both(fake: FakeServer) -> None:
    fake.respond(lambda _: text("ok"))
    config = configure(entry("fast", fake, api_key_env="FAST_KEY"))
    own = ModelRegistry()
    own.register(ModelEntry("mine", "m", "openai-completions", fake.v1), api_key="k-mine")
    workflow = create_agent_conversation_project(name="pi", provider="mine", model="m", models=own)
    param = ConversationParamDeclaration(name="model", flags=("-m",))
    executor = define_executor(workflow=workflow, create_input=create_agent_project_input, params=[param])
    context = RunContext(config=config, environ={"FAST_KEY": "k-fast"})
    await executor.run(["hi"], context)
    assert (fake.requests[-1].model, key_of(fake)) == ("m", "k-mine")
    await executor.run(["hi", "-m", "fast"], context)
    assert (fake.requests[-1].model, key_of(fake)) == ("fast-1", "k-fast")


@pytest.mark.feature("N03")
async def test_a_resolver_touches_declared_parameters_only(fake: FakeServer) -> None:
    config = configure(entry("fast", fake))
    resolve = create_agent_project_param_resolver()
    params = (ConversationParamDeclaration(name="model"), ConversationParamDeclaration(name="tone", default="dry"))
    resolved = resolve(params, RunContext(config=config))
    assert [param.name for param in resolved] == ["model", "tone"]
    assert resolved[1] == params[1]
    assert resolve(params[1:], RunContext(config=config)) == list(params[1:])


async def test_a_resolver_that_returns_other_parameters_is_refused() -> None:
    workflow = create_agent_conversation_project(provider="demo")
    executor = define_executor(
        workflow=workflow,
        create_input=create_agent_project_input,
        params=[{"name": "tone"}],
        resolve_params=lambda params, context: [],
    )
    with pytest.raises(InputValidationError, match="resolve_params: must return the declared parameters"):
        await executor.run(["hi"])


async def test_a_broken_file_is_named(fake: FakeServer) -> None:
    config = configure("[models.fast]\nmodel = 'm'\n")
    with pytest.raises(InputValidationError, match=r"agent-nodes\.toml: models\.fast\.provider: missing"):
        await define_agent_conversation_executor(provider="demo").run(["hi"], RunContext(config=config))


async def test_an_agent_without_a_model_has_that_of_the_run_else_the_one_its_host_names(fake: FakeServer) -> None:
    fake.respond(lambda _: text("ok"))
    executor = define_agent_conversation_executor(name="pi")
    with pytest.raises(InputValidationError, match="no model is configured"):
        await executor.run(["hi"])
    report = await executor.run(["hi"], RunContext(provider="demo"))
    assert "demo model" in report.answer.text
    config = configure(entry("fast", fake, api_key_env="FAST_KEY"))
    await executor.run(["hi"], RunContext(provider="demo", config=config, environ={"FAST_KEY": "k"}))
    assert fake.requests[-1].model == "fast-1"
