"""Writes ``_models.py``, the built-in list of models, from tables that are published as packages: ``./dev catalog``.

The two packages are fetched into a temporary folder and read, never installed; both are under the MIT license, and only
figures are taken from them. What they lack, or have wrong for our purposes, stands in :mod:`families`. Arguments name
other versions: ``./dev catalog litellm==1.110.2 genai-prices==0.2.3``.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.providers.known import plain_id

TARGET = Path(__file__).parent / "_models.py"
PACKAGES = ("litellm", "genai-prices")


@dataclass(frozen=True, slots=True)
class Maker:
    """Whose models, where they stand in the two tables, and which of them are for turns with tools."""

    name: str
    table: str
    prices: str
    wanted: str
    unwanted: str = r"(?!)"
    priced: bool = True


_DATED = r"-\d{4}$|-\d{4}-|preview-\d\d"
MAKERS = (
    Maker("anthropic", "anthropic", "anthropic", r"claude-(fable|mythos|opus|sonnet|haiku)-\d"),
    Maker(
        "openai",
        "openai",
        "openai",
        r"(gpt-\d|o\d)",
        r"gpt-3|.*(audio|realtime|transcribe|tts|image|search|deep-research|cyber|rosalind|law|preview)",
    ),
    Maker(
        "google",
        "gemini",
        "google",
        r"(gemini-(\d|pro|flash)|gemma-)",
        r".*(tts|live|image|computer|customtools|robotics|omni|exp|gemma-[23])",
    ),
    Maker("deepseek", "deepseek", "deepseek", r"deepseek-", r".*(coder|-exp)"),
    Maker("qwen", "dashscope", "", r"(qwen|qwq)", _DATED + r"|.*-20\d\d|qwen-(coder|max|turbo)|qwq"),
    Maker("zai", "zai", "zai", r"glm-\d", r".*(32b|-x$|airx|ocr)"),
    Maker("moonshot", "moonshot", "moonshotai", r"kimi-"),
    Maker("xai", "xai", "x-ai", r"grok-(\d|build|code)", r".*(beta|gv2|multi-agent|-\d{4})"),
    Maker(
        "mistral",
        "mistral",
        "mistral",
        r"(mistral|ministral|devstral|magistral|codestral)-",
        r".*(vibe|code|mamba|tiny|ministral-3-|-\d{4}|large-4-0|medium-3-5)",
    ),
    Maker("minimax", "minimax", "minimax", r"minimax-m"),
    Maker("meta", "meta", "meta", r"muse-", r".*contributor"),
    Maker("gpt-oss", "groq", "", r"gpt-oss-\d", priced=False),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the list. ``flags``: i takes pictures, r reasons, w searches; empty where nothing says. ``costs`` are
    US dollars per million tokens of input, output, cache read and cache write. ``efforts``: the levels taken."""

    id: str
    name: str = ""
    window: int = 0
    output: int = 0
    flags: str = ""
    costs: tuple[float, ...] = ()
    efforts: str = ""


def rows(maker: Maker, table: Mapping[str, Any], prices: Iterable[Any], today: str) -> list[Row]:
    """The models of ``maker`` in the order of their ids. A dated id gives way to the one without a date."""
    found: dict[str, Row] = {}
    for key, entry in sorted(table.items(), key=_trusted_last):
        if entry.get("litellm_provider") != maker.table or entry.get("mode") not in ("chat", "responses"):
            continue
        id = plain_id(key)
        if not _takes(maker, id) or not entry.get("max_input_tokens") or entry.get("deprecation_date", today) < today:
            continue
        row = _from_table(id, entry, maker)
        before = found.get(id, row)
        # Some entries lack what their other spelling has.
        found[id] = replace(row, flags="".join(flag for flag in "irw" if flag in row.flags + before.flags) or "-")
    for model in prices:
        id = plain_id(model.id)
        if id in found:
            found[id] = replace(found[id], name=found[id].name or _name(model.name or ""))
        elif maker.name == "anthropic" and _takes(maker, id) and model.context_window and not model.deprecated:
            found[id] = Row(id, _name(model.name or ""), model.context_window, costs=_listed_costs(model))
    return [found[id] for id in sorted(found)]


def _trusted_last(item: tuple[str, Any]) -> tuple[int, str]:
    """Dated ids before the id alone, and before what the maker calls its latest."""
    key = item[0]
    alone = plain_id(key) == key.lower().rpartition("/")[2]
    return (2 if key.endswith("-latest") else int(alone)), key


def _name(name: str) -> str:
    """A name as a maker writes it; some entries have only their id, or that of another version."""
    return "" if name[:1].islower() or re.search(r"Latest|24\.", name) else name


def _takes(maker: Maker, id: str) -> bool:
    return re.match(maker.wanted, id) is not None and re.match(maker.unwanted, id) is None


def _from_table(id: str, entry: Mapping[str, Any], maker: Maker) -> Row:
    window, output = int(entry["max_input_tokens"]), int(entry.get("max_output_tokens") or 0)
    if output >= window:
        output = 0  # no limit of its own
    if maker.name == "openai" and entry.get("supports_reasoning") and window in (400_000, 1_050_000):
        window -= 128_000  # some entries of these count the room for the output in, most do not
    flags = {"i": "supports_vision", "r": "supports_reasoning"}
    if maker.name in ("anthropic", "openai"):
        flags["w"] = "supports_web_search"
    return Row(
        id,
        "",
        window,
        output,
        "".join(flag for flag, name in flags.items() if entry.get(name)) or "-",
        _costs(entry) if maker.priced else (),
        " ".join(entry.get("reasoning_effort_levels", ())),
    )


def _costs(entry: Mapping[str, Any]) -> tuple[float, ...]:
    """Those of the smallest tier. Without a price of its own, what is read from or written to a cache is input."""
    tiers: Sequence[Mapping[str, Any]] = entry.get("tiered_pricing") or [entry]
    tier = tiers[0]
    inputs, outputs = tier.get("input_cost_per_token"), tier.get("output_cost_per_token")
    if not inputs or not outputs:
        return ()
    reads = tier.get("cache_read_input_token_cost") or inputs
    writes = tier.get("cache_creation_input_token_cost") or inputs
    return tuple(round(price * 1_000_000, 6) for price in (inputs, outputs, reads, writes))


def _listed_costs(model: Any) -> tuple[float, ...]:
    prices: Any = model.prices
    price: Any = cast("list[Any]", prices)[-1].prices if type(prices) is list else prices
    inputs, outputs, reads, writes = (
        getattr(cost, "base", cost)
        for cost in (price.input_mtok, price.output_mtok, price.cache_read_mtok, price.cache_write_mtok)
    )
    if not inputs or not outputs:
        return ()
    return tuple(round(float(cost), 6) for cost in (inputs, outputs, reads or inputs, writes or inputs))


# -- the file ----------------------------------------------------------------------------------------------------------


def text(models: Mapping[str, Sequence[Row]], sources: str, date: str) -> str:
    return "\n".join(_lines(models, sources, date)) + "\n"


def _lines(models: Mapping[str, Sequence[Row]], sources: str, date: str) -> Iterator[str]:
    yield '"""Generated by ``./dev catalog``; do not edit. What differs stands in :mod:`families`."""'
    yield ""
    yield f'SOURCES = "{sources}"'
    yield f'DATE = "{date}"'
    yield ""
    yield "# id, name, window, output, flags, costs, efforts: as in Row of generate.py"
    yield "ROWS: dict[str, tuple[tuple[str, str, int, int, str, tuple[float, ...], str], ...]] = {"
    for maker, listed in models.items():
        yield f'    "{maker}": ('
        for row in listed:
            costs = "(" + ", ".join(f"{cost:g}" for cost in row.costs) + ")"
            yield (
                f'        ("{row.id}", "{row.name}", {row.window}, {row.output}, "{row.flags}", {costs}, '
                f'"{row.efforts}"),'
            )
        yield "    ),"
    yield "}"


def main(arguments: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        versions = _fetch(Path(folder), list(arguments) or list(PACKAGES))
        today = datetime.fromtimestamp(SYSTEM_CLOCK.now(), UTC).date().isoformat()
        table = json.loads((Path(folder) / "litellm" / "model_prices_and_context_window_backup.json").read_bytes())
        sys.path.insert(0, folder)
        providers = cast("list[Any]", import_module("genai_prices.data").providers)
        prices = {provider.id: provider.models for provider in providers}
        models = {maker.name: rows(maker, table, prices.get(maker.prices, ()), today) for maker in MAKERS}
    TARGET.write_text(text(models, versions, today), encoding="utf-8")
    counted = sum(len(listed) for listed in models.values())
    print(f"{counted} models from {versions}")


def _fetch(folder: Path, packages: Sequence[str]) -> str:
    """Their files in ``folder``; the versions found."""
    uv = Path(sys.executable).parent / "uv"
    tool = str(uv) if uv.exists() else shutil.which("uv")
    if tool is None:
        raise SystemExit("uv not found: run this as ./dev catalog")
    subprocess.run([tool, "pip", "install", "-q", "--no-deps", "--target", str(folder), *packages], check=True)
    found = sorted(path.name.removesuffix(".dist-info").rpartition("-") for path in folder.glob("*.dist-info"))
    return ", ".join(f"{name.replace('_', '-')} {version}" for name, _, version in found)


if __name__ == "__main__":
    main(sys.argv[1:])
