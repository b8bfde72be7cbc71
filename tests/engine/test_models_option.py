"""Entries of one's own: a registry, and one model that every turn uses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent_nodes import ModelCost, ModelEntry, ModelRegistry, create_agent
from agent_nodes.errors import InputValidationError
from tests.fakes import FakeServer, text
from tests.support import take

pytestmark = pytest.mark.feature("A09")


def entry(fake: FakeServer, model: str = "m-own", **changes: Any) -> ModelEntry:
    made = ModelEntry("lab", model, "openai-completions", fake.v1, context_window=7_000)
    return replace(made, **changes)


async def test_a_registered_model_is_known_by_its_names_alone():
    async with FakeServer(strict=False) as fake:
        fake.respond(lambda _: text("x").using(1_000_000, 1_000_000))
        cost = ModelCost(input=2.0, output=3.0)
        models = ModelRegistry(entry(fake, cost=cost), entry(fake, "m-two", context_window=9_000))
        reports: list[Any] = []
        async with create_agent(provider="lab", model="m-own", models=models) as agent:
            first = await take(agent.run("1", {"report_usage": reports.append}))
            second = await take(agent.run({"prompt": "2", "model": "m-two"}, {"report_usage": reports.append}))
            models.register(entry(fake, "m-three"))
            third = await take(agent.run({"prompt": "3", "model": "m-three"}))
        assert [outcome.text for outcome in (first, second, third)] == ["x", "x", "x"]
        assert [outcome.of("context_usage")[-1].total for outcome in (first, second)] == [7_000, 9_000]
        assert [(report.model, report.cost) for report in reports] == [("m-own", 5.0), ("m-two", None)]


async def test_an_explicit_size_and_declared_attributes_go_before_the_registry():
    async with FakeServer(strict=False) as fake:
        fake.respond(lambda _: text("x"))
        options: dict[str, Any] = {"provider": "lab", "model": "m-own", "models": ModelRegistry(entry(fake))}
        async with create_agent(**options, model_attributes={"context_window": 8_000}) as agent:
            declared = await take(agent.run("1"))
            explicit = await take(agent.run({"prompt": "2", "context_window": 5_000}))
        assert declared.of("context_usage")[-1].total == 8_000
        assert explicit.of("context_usage")[-1].total == 5_000


async def test_every_turn_uses_a_resolved_model():
    async with FakeServer(strict=False) as fake:
        fake.respond(lambda _: text("x"))
        async with create_agent(resolved_model=entry(fake)) as agent:
            outcome = await take(agent.run({"prompt": "1", "max_tokens": 33, "effort": "low"}))
            assert outcome.text == "x"
            for name, value in (("model", "m-two"), ("provider", "openai"), ("base_url", fake.v1)):
                refused = await take(agent.run({"prompt": "2", name: value}))
                assert isinstance(refused.error, InputValidationError)
                assert refused.error.field == name
        assert [request.json["model"] for request in fake.requests] == ["m-own"]
        assert fake.requests[0].json["max_tokens"] == 33


@pytest.mark.feature("E05")
async def test_what_an_answer_costs_is_kept_and_told_again(tmp_path):
    async with FakeServer(strict=False) as fake:
        fake.script(text("x").using(100, 50, cached=200, cache_write=300))
        cost = ModelCost(input=1.0, output=2.0, cache_read=0.1, cache_write=1.25)
        reports: list[Any] = []
        resolved = entry(fake, cost=cost)
        async with create_agent(resolved_model=resolved, database_path=tmp_path / "s.sqlite") as agent:
            for given in ({"prompt": "1", "request_id": "r"}, {"request_id": "r"}):
                await take(agent.run(given, {"report_usage": reports.append}))
    want = (100 * 1.0 + 50 * 2.0 + 200 * 0.1 + 300 * 1.25) / 1_000_000
    assert [report.cost for report in reports] == [pytest.approx(want)] * 2
