"""The built-in list of models: well-formed, with the figures that the services publish, and careful with new ids."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from agent_nodes.messages import EffortLevel
from agent_nodes.providers import _models, families, generate
from agent_nodes.providers.base import ModelCost, ThinkingStyle
from agent_nodes.providers.families import only
from agent_nodes.providers.generate import MAKERS, Row, rows
from agent_nodes.providers.known import KnownModel, known, listed, plain_id

FILE = Path(_models.__file__)


def model(id: str) -> KnownModel:
    found = known(id)
    assert found is not None
    return found


def levels(id: str) -> str:
    """The efforts that a model takes, as they are sent over the OpenAI protocols."""
    given = dict(model(id).levels)
    sent = {level: "none" if level == "off" else level for level in get_args(EffortLevel)}
    return " ".join(value for level in sent if (value := given.get(level, sent[level])) is not None)


# -- figures -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "window", "output", "cost", "thinking"),
    [
        ("claude-fable-5-2", 1_000_000, 128_000, ModelCost(8, 40, 0.2, 10), "always"),
        ("claude-opus-5-5", 1_000_000, 128_000, ModelCost(4, 20, 0.2, 5), "always"),
        ("claude-sonnet-5-5", 1_000_000, 128_000, ModelCost(2, 10, 0.1, 2.5), "between"),
        ("claude-haiku-5-5", 1_000_000, 128_000, ModelCost(0.1, 0.5, 0.01, 0.125), "adaptive"),
        ("claude-opus-5", 1_000_000, 128_000, ModelCost(5, 25, 0.5, 6.25), "adaptive"),
        ("claude-sonnet-4-6", 1_000_000, 128_000, ModelCost(3, 15, 0.3, 3.75), "adaptive"),
        ("claude-opus-4-5", 200_000, 64_000, ModelCost(5, 25, 0.5, 6.25), "budget"),
        ("claude-haiku-4-5", 200_000, 64_000, ModelCost(1, 5, 0.1, 1.25), "budget"),
        ("gpt-6-astra", 922_000, 128_000, ModelCost(10, 50, 1, 12.5), "effort"),
        ("gpt-6.2-astra", 922_000, 128_000, ModelCost(8, 40, 0.8, 10), "effort"),
        ("gpt-6.2-sol", 922_000, 128_000, ModelCost(2, 10, 0.1, 2.5), "effort"),
        ("gpt-6.1-sol", 922_000, 128_000, ModelCost(2, 10, 0.1, 2.5), "effort"),
        ("gpt-5.5", 922_000, 128_000, ModelCost(5, 30, 0.5, 5), "effort"),
        ("gpt-5.4", 922_000, 128_000, ModelCost(2.5, 15, 0.25, 2.5), "effort"),
        ("gpt-5.4-mini", 272_000, 128_000, ModelCost(0.75, 4.5, 0.075, 0.75), "effort"),
        ("gpt-5", 272_000, 128_000, ModelCost(1.25, 10, 0.125, 1.25), "effort"),
        ("gpt-4.1", 1_047_576, 32_768, ModelCost(2, 8, 0.5, 2), None),
        ("o3", 200_000, 100_000, ModelCost(2, 8, 0.5, 2), "effort"),
        ("deepseek-v4-pro", 1_000_000, 393_216, ModelCost(1.32, 3.96, 0.044, 1.32), None),
    ],
)
def test_known_models_have_the_published_figures(
    id: str, window: int, output: int, cost: ModelCost, thinking: ThinkingStyle | None
) -> None:
    found = model(id)
    assert (found.window, found.output, found.cost, found.thinking) == (window, output, cost, thinking)


@pytest.mark.parametrize(
    ("id", "taken"),
    [
        ("gpt-6-astra", "low medium high xhigh max"),
        ("gpt-6.2-sol", "low medium high xhigh max"),
        ("gpt-6.1-terra", "none low medium high xhigh max"),
        ("gpt-5.6-luna", "none low medium high xhigh max"),
        ("gpt-5.5", "none low medium high xhigh"),
        ("gpt-5.5-pro", "medium high xhigh"),
        ("gpt-5.3-codex", "low medium high xhigh"),
        ("gpt-5.1", "none low medium high"),
        ("gpt-5.1-codex-max", "low medium high xhigh"),
        ("gpt-5-mini", "minimal low medium high"),
        ("gpt-5-pro", "high"),
        ("o4-mini", "low medium high"),
        ("openai/gpt-oss-20b", "low medium high"),
        ("kimi-k3", "low high max"),
        ("claude-opus-5-5", "low medium high xhigh max"),
        ("claude-opus-4-6", "none low medium high max"),
    ],
)
def test_efforts_are_those_the_model_takes(id: str, taken: str) -> None:
    assert levels(id) == taken


def test_an_effort_beside_a_budget_ends_at_high() -> None:
    assert dict(model("claude-opus-4-5").levels)["max"] == "high"
    assert model("claude-sonnet-4-5").levels == (), "it has budgets alone"


def test_models_that_do_not_reason_take_no_effort() -> None:
    for id in ("gpt-4.1", "gpt-4o-mini", "gpt-5.2-chat-latest", "claude-3-5-haiku-latest"):
        assert (model(id).reasoning, model(id).thinking, model(id).levels) == (False, None, ())


def test_less_than_the_limit_is_asked_of_small_windows() -> None:
    assert model("claude-opus-4-5").asked == 32_000
    assert model("claude-opus-5-5").asked == 128_000
    assert model("claude-3-haiku").asked == 4_096
    assert model("gemini-9").asked is None


# -- ids ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "plain"),
    [
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5"),
        ("anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("claude-opus-4-0", "claude-opus-4"),
        ("claude-opus-4@20250514", "claude-opus-4"),
        ("claude-sonnet-4-5-latest", "claude-sonnet-4-5"),
        ("gpt-5.4-2026-03-05", "gpt-5.4"),
        ("openai.gpt-oss-120b-1:0", "gpt-oss-120b"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
        ("accounts/x/models/qwen3-32b", "qwen3-32b"),
        ("o3", "o3"),
        ("mine", "mine"),
    ],
)
def test_vendors_dates_and_versions_are_no_part_of_an_id(id: str, plain: str) -> None:
    assert plain_id(id) == plain
    assert plain_id(plain) == plain


@pytest.mark.feature("C03")
@pytest.mark.parametrize("id", ["claude-opus-9", "gpt-9", "gpt-6-astra-mini", "gemini-9-ultra", "grok-9", "llama-5"])
def test_of_an_id_that_came_later_the_window_is_guessed_and_no_price(id: str) -> None:
    found = model(id)
    assert found.window >= 128_000
    assert (found.images, found.reasoning) == (True, True)
    assert (found.cost, found.name, found.web_search, found.maker) == (None, "", None, "")


def test_an_unknown_id_is_not_known() -> None:
    assert known("my-own") is None
    assert known("") is None


def test_prices_of_open_models_hold_at_their_maker_alone() -> None:
    deepseek, claude, oss = model("deepseek-v4-pro"), model("claude-opus-5"), model("gpt-oss-20b")
    assert deepseek.cost_at("api.deepseek.com") == deepseek.cost
    assert deepseek.cost is not None
    assert deepseek.cost_at("127.0.0.1") is None
    assert claude.cost_at("gate.example") == claude.cost
    assert claude.cost is not None
    assert oss.cost_at("api.groq.com") is None


# -- the files ---------------------------------------------------------------------------------------------------------


def test_the_generated_file_is_small_and_says_where_it_comes_from() -> None:
    assert FILE.stat().st_size + Path(families.__file__).stat().st_size <= 40_000
    assert re.fullmatch(r"genai-prices [\d.]+, litellm [\d.]+", _models.SOURCES)
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", _models.DATE)


def test_every_row_is_well_formed_and_in_order() -> None:
    assert list(_models.ROWS) == [maker.name for maker in MAKERS]
    for listed_rows in _models.ROWS.values():
        ids = [row[0] for row in listed_rows]
        assert ids
        assert ids == sorted(set(ids))
        for id, name, window, output, flags, costs, efforts in listed_rows:
            assert plain_id(id) == id
            assert len(name) <= 200
            assert window >= 8_000
            assert output >= 0
            assert re.fullmatch(r"-|i?r?w?", flags)
            assert len(costs) in (0, 4)
            assert all(0 < cost < 1_000 for cost in costs)
            assert set(efforts.split()) <= {"none", *get_args(EffortLevel)} - {"off"}


def test_the_file_is_what_its_own_rows_write() -> None:
    given = {maker: [Row(*row) for row in listed_rows] for maker, listed_rows in _models.ROWS.items()}
    assert generate.text(given, _models.SOURCES, _models.DATE) == FILE.read_text()


def test_the_list_names_every_model_once() -> None:
    found = list(listed())
    assert len({(maker, id) for maker, id, _ in found}) == len(found) > 100
    assert ("openai", "gpt-6.2-sol") in [(maker, id) for maker, id, _ in found]
    assert all(facts.window for _, _, facts in found)
    assert found == list(listed())


def test_the_list_is_read_only_when_it_is_asked() -> None:
    script = "import sys, agent_nodes.providers.known; print('agent_nodes.providers._models' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# -- the generator -----------------------------------------------------------------------------------------------------

CHAT: dict[str, Any] = {
    "litellm_provider": "openai",
    "mode": "chat",
    "max_input_tokens": 400_000,
    "max_output_tokens": 128_000,
    "input_cost_per_token": 1.25e-06,
    "output_cost_per_token": 1e-05,
    "supports_reasoning": True,
}


def made(table: dict[str, Any], prices: Any = (), maker: str = "openai") -> dict[str, Row]:
    wanted = next(item for item in MAKERS if item.name == maker)
    return {row.id: row for row in rows(wanted, table, prices, "2026-12-01")}


def test_an_entry_becomes_a_row() -> None:
    assert made({"gpt-5": CHAT}) == {"gpt-5": Row("gpt-5", "", 272_000, 128_000, "r", (1.25, 10, 1.25, 1.25), "")}
    cached = CHAT | {"cache_read_input_token_cost": 1.25e-07, "cache_creation_input_token_cost": 2e-06}
    assert made({"gpt-5": cached})["gpt-5"].costs == (1.25, 10, 0.125, 2)
    assert made({"gpt-5": CHAT | {"input_cost_per_token": 0}})["gpt-5"].costs == (), "no false zero"


def test_what_is_no_chat_model_of_the_maker_is_left_out() -> None:
    table = {
        "gpt-realtime": CHAT,
        "gpt-4o-audio": CHAT,
        "dall-e": CHAT,
        "gpt-5.1": CHAT | {"mode": "embedding"},
        "gpt-5.2": CHAT | {"litellm_provider": "azure"},
        "gpt-5.3": CHAT | {"max_input_tokens": None},
        "gpt-5.4": CHAT | {"deprecation_date": "2026-11-30"},
        "gpt-5.5": CHAT | {"deprecation_date": "2026-12-01"},
    }
    assert list(made(table)) == ["gpt-5.5"]


def test_spellings_of_one_model_are_one_row() -> None:
    dated = CHAT | {"supports_vision": True, "supports_web_search": True, "max_output_tokens": 5}
    row = made({"gpt-5-2026-01-01": dated, "gpt-5": CHAT})["gpt-5"]
    assert (row.output, row.flags) == (128_000, "irw"), "the id alone counts, what it lacks is taken from the other"
    assert made({"gpt-5": CHAT, "gpt-5-latest": dated})["gpt-5"].output == 5


def test_tiers_and_lists_of_efforts_are_read() -> None:
    entry = CHAT | {
        "litellm_provider": "dashscope",
        "tiered_pricing": [{"input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06}, {}],
        "reasoning_effort_levels": ["low", "high"],
    }
    row = made({"dashscope/qwen9": entry}, maker="qwen")["qwen9"]
    assert (row.window, row.costs, row.efforts) == (400_000, (1, 2, 1, 1), "low high")
    assert only("low high") == tuple((level, None) for level in ("off", "minimal", "medium", "xhigh", "max"))


def test_names_and_missing_models_come_from_the_other_table() -> None:
    def priced(id: str, name: str, **more: Any) -> Any:
        price = SimpleNamespace(input_mtok=8, output_mtok=SimpleNamespace(base=40), cache_read_mtok=None)
        price.cache_write_mtok = 10
        given = {"context_window": 1_000, "deprecated": False, "prices": [SimpleNamespace(prices=price)], **more}
        return SimpleNamespace(id=id, name=name, **given)

    assert made({"gpt-5": CHAT}, [priced("gpt-5", "GPT-5"), priced("gpt-9", "GPT-9")])["gpt-5"].name == "GPT-5"
    assert made({"gpt-5": CHAT}, [priced("gpt-5", "gpt 5")])["gpt-5"].name == ""
    found = made(
        {},
        [
            priced("claude-opus-9", "Claude Opus 9"),
            priced("claude-opus-8", "Claude Opus 8", deprecated=True),
            priced("claude-opus-7", "Claude Opus 7", context_window=None),
        ],
        maker="anthropic",
    )
    assert found == {"claude-opus-9": Row("claude-opus-9", "Claude Opus 9", 1_000, costs=(8, 40, 8, 10))}
