"""What is known about models by their ids, and guessed where an id is new."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from agent_nodes.messages import EffortLevel
from agent_nodes.providers.base import ModelCost, ThinkingStyle
from agent_nodes.providers.families import FAMILIES, OPEN_MAKERS, Facts, only


@dataclass(frozen=True, slots=True)
class KnownModel:
    """``window`` is what one request may hold; where a service counts its input limit apart from the output, it is that
    limit. ``output`` is the longest output. ``name``, ``cost``, ``web_search`` and ``maker`` are there only for the
    model of this very id, not for one that is guessed from its beginning. The other fields are as in
    :class:`~agent_nodes.ModelEntry`."""

    window: int
    output: int | None = None
    images: bool = True
    reasoning: bool = True
    name: str = ""
    cost: ModelCost | None = None
    thinking: ThinkingStyle | None = None
    levels: tuple[tuple[EffortLevel, str | None], ...] = ()
    web_search: bool | None = None
    maker: str = ""

    @property
    def asked(self) -> int | None:
        """How many tokens of output are asked for where the protocol demands a number. Models of the small windows
        refuse a request whose input and output limit together exceed the window: of those less is asked."""
        return None if self.output is None else min(self.output, 32_000 if self.window <= 200_000 else 128_000)

    def cost_at(self, host: str) -> ModelCost | None:
        """The price at ``host``. An open model is served by many, each at its own price; one's own machine has none."""
        hosts = OPEN_MAKERS.get(self.maker)
        return self.cost if hosts is None or host in hosts else None


@lru_cache
def known(model: str) -> KnownModel | None:
    """What is published about ``model``, or guessed from how its id begins; None where nothing fits."""
    id = plain_id(model)
    facts: Facts = {}
    for beginning, found in _by_length():
        if not id.startswith(beginning):
            continue
        facts |= found
        if beginning != id:
            for name in _OF_ONE_MODEL:
                facts.pop(name, None)
    return KnownModel(**facts) if "window" in facts else None


def listed() -> Iterator[tuple[str, str, KnownModel]]:
    """Maker, id and description of each model that is known by its own id, in a fixed order."""
    from agent_nodes.providers._models import ROWS

    makers: dict[str, set[str]] = {maker: {row[0] for row in rows} for maker, rows in ROWS.items()}
    for id, facts in FAMILIES.items():
        if "maker" in facts:
            makers.setdefault(facts["maker"], set()).add(id)
    for maker, ids in makers.items():
        for id in sorted(ids):
            found = known(id)
            if found is not None:
                yield maker, id, found


_VENDOR = re.compile(r"^(?:[a-z]+\.)+(?=[a-z])")
_VERSION = re.compile(r"-v?\d+:\d+$|(?<=\d)-v\d$|@\w+$|-20\d\d-?\d\d-?\d\d$|-latest$")


def plain_id(model: str) -> str:
    """``model`` without a vendor in front (``anthropic/…``, ``us.anthropic.…``) and without a date or a version of the
    service behind. Claude's versions are written with a hyphen, as its maker does."""
    id = _VENDOR.sub("", model.strip().lower().rpartition("/")[2])
    while (shorter := _VERSION.sub("", id)) != id:
        id = shorter
    return id.replace(".", "-").removesuffix("-0") if id.startswith("claude-") else id


_OF_ONE_MODEL = ("name", "cost", "web_search", "maker")


@cache
def _by_length() -> tuple[tuple[str, Facts], ...]:
    """All that is known, the shortest beginnings first; of the same one the generated facts first."""
    from agent_nodes.providers._models import ROWS

    all_facts: dict[str, Facts] = {}
    for maker, rows in ROWS.items():
        for id, name, window, output, flags, costs, efforts in rows:
            facts = all_facts[id] = Facts(window=window, name=name, maker=maker)
            if flags:
                facts["output"] = output or None
                facts["images"], facts["reasoning"] = "i" in flags, "r" in flags
                if "w" in flags:
                    facts["web_search"] = True
            if costs:
                facts["cost"] = ModelCost(*costs)
            if efforts:
                facts["thinking"], facts["levels"] = "effort", only(efforts)
    for beginning, facts in FAMILIES.items():
        all_facts[beginning] = all_facts.get(beginning, Facts()) | facts
    return tuple(sorted(all_facts.items(), key=lambda item: len(item[0])))
