"""``agent-nodes models``: which models there are, what they take and what they cost."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from agent_nodes.messages import EffortLevel, JsonObject
from agent_nodes.providers import catalog
from agent_nodes.providers.base import ModelCost, ThinkingStyle
from agent_nodes.providers.known import known, listed
from conversation.problems import put, say
from conversation.text import one_line
from conversation.workspace import ConfiguredModel, load_models


@dataclass(frozen=True, slots=True)
class _Row:
    """``provider`` is of a listed model its maker; ``file`` is where it is configured. None: not known."""

    id: str
    provider: str
    model: str
    name: str
    window: int | None
    output: int | None
    cost: ModelCost | None
    efforts: tuple[str, ...] | None
    images: bool
    reasoning: bool
    web_search: bool | None
    file: Path | None = None


def models_command(given: Namespace) -> int:
    word = given.filter.lower()
    rows = [row for row in _rows() if any(word in text.lower() for text in (row.id, row.provider, row.model, row.name))]
    if given.json:
        for row in rows:
            put(_json(row))
    elif not rows:
        say(f"no model has {given.filter!r} in its id, provider or name")
    elif sys.stdout.isatty():
        _table(rows)
    else:
        for row in rows:
            put("\t".join(_cells(row)))
    return 0


def _rows() -> Iterator[_Row]:
    for model in load_models(Path.cwd()):
        yield _configured(model)
    for maker, id, facts in listed():
        efforts = _efforts(facts.reasoning, facts.thinking, facts.levels)
        yield _Row(
            id, maker, id, facts.name, facts.window, facts.output, facts.cost, efforts,
            facts.images, facts.reasoning, facts.web_search,
        )  # fmt: skip


def _configured(model: ConfiguredModel) -> _Row:
    entry = catalog.resolve(
        provider=model.provider,
        model=model.model,
        base_url=model.base_url,
        api_kind=model.api_kind,
        context_window=model.context_window,
        max_tokens=model.max_tokens,
        attributes=model.attributes,
        environ={},
    )
    facts = known(entry.model)
    return _Row(
        model.id,
        entry.provider,
        entry.model,
        entry.name,
        entry.context_window,
        entry.max_tokens or (facts.output if facts is not None else None),
        entry.cost,
        _efforts(entry.reasoning, entry.thinking, entry.levels),
        entry.images,
        entry.reasoning,
        entry.web_search,
        model.file,
    )


def _efforts(
    reasoning: bool, thinking: ThinkingStyle | None, levels: Sequence[tuple[EffortLevel, str | None]]
) -> tuple[str, ...] | None:
    if not reasoning:
        return ()
    if thinking is None and not levels:
        return None
    lacking = {level for level, value in levels if value is None}
    return tuple(level for level in get_args(EffortLevel) if level not in lacking)


# -- how it is shown ---------------------------------------------------------------------------------------------------


def _cells(row: _Row) -> tuple[str, ...]:
    cost = row.cost
    prices = ("",) * 4 if cost is None else (cost.input, cost.output, cost.cache_read, cost.cache_write)
    return (
        one_line(row.id),
        one_line(row.provider),
        one_line(row.model),
        "" if row.window is None else str(row.window),
        "" if row.output is None else str(row.output),
        *(price if isinstance(price, str) else f"{price:g}" for price in prices),
        " ".join(row.efforts or ()),
        "yes" if row.images else "no",
    )


def _table(rows: Sequence[_Row]) -> None:
    """What fits: a narrow terminal has the id, the window and the prices."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("model", overflow="fold")
    table.add_column("window", justify="right", no_wrap=True)
    table.add_column("$/M in", justify="right", no_wrap=True)
    table.add_column("out", justify="right", no_wrap=True)
    wide, wider = console.width >= 64, console.width >= 96
    if wide:
        table.add_column("output", justify="right", no_wrap=True)
        table.add_column("images", no_wrap=True)
    if wider:
        table.add_column("effort", overflow="fold")
    group = ""
    for row in rows:
        if (title := row.provider if row.file is None else "configured") != group:
            group = title
            table.add_row(Text(group, style="dim"))
        cells = [
            one_line(row.id),
            _tokens(row.window),
            *(("", "") if row.cost is None else (f"{row.cost.input:g}", f"{row.cost.output:g}")),
        ]
        if wide:
            cells += [_tokens(row.output), "yes" if row.images else "no"]
        if wider:
            cells.append(" ".join(row.efforts or ()))
        table.add_row(*(Text(cell) for cell in cells))
    console.print(table)


def _tokens(count: int | None) -> str:
    """Tokens for people."""
    if count is None:
        return ""
    if count < 1_000:
        return str(count)
    return f"{count / 1_000_000:.3g}M" if count >= 1_000_000 else f"{count / 1_000:.3g}k"


def _json(row: _Row) -> str:
    cost = row.cost
    data: JsonObject = {
        "id": row.id,
        "file": None if row.file is None else str(row.file),
        "provider": row.provider,
        "model": row.model,
        "name": row.name,
        "context_window": row.window,
        "max_tokens": row.output,
        "cost": None
        if cost is None
        else {
            "input": cost.input,
            "output": cost.output,
            "cache_read": cost.cache_read,
            "cache_write": cost.cache_write,
        },
        "efforts": None if row.efforts is None else list(row.efforts),
        "images": row.images,
        "reasoning": row.reasoning,
        "web_search": row.web_search,
    }
    return json.dumps(data, ensure_ascii=(sys.stdout.encoding or "").lower().replace("-", "") != "utf8")
