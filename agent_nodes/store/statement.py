"""One prepared SQL statement, and the JSON form of stored values. Imports neither of the table libraries."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import orjson


def encode(value: Any) -> str:
    """Compact JSON text, keys in their given order, numbers finite (NaN and the infinities become null).

    An ``orjson.Fragment`` anywhere in ``value`` is taken as it is: JSON that is encoded already is not encoded again.
    Raises ``TypeError`` for anything JSON cannot say, for lone surrogates and for integers beyond 64 bits.
    """
    return orjson.dumps(value).decode()


def decode(text: str) -> Any:
    """The value of a JSON column as :func:`encode` wrote it."""
    return orjson.loads(text)


class Statement:
    """SQL text with ``?`` marks; the name of each mark's parameter, which of them are JSON, and what stands in for
    those not given."""

    __slots__ = ("_count", "_pick", "defaults", "json", "names", "text")

    def __init__(
        self,
        text: str,
        names: tuple[str, ...] = (),
        json: tuple[str, ...] = (),
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self.text = text
        self.names = names
        self.json = json
        self.defaults: dict[str, Any] = dict(defaults or {})
        self._count = len(set(names))
        # One C call instead of a loop; with a single name itemgetter gives no tuple.
        self._pick = itemgetter(*names) if len(names) > 1 else None

    def bind(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """The parameters in the order of the marks. Raises ``TypeError`` for a name too many or missing."""
        merged = {**self.defaults, **values}
        if len(merged) != self._count:
            raise self._mismatch(values)
        for name in self.json:
            value = merged.get(name)
            if value is not None:
                merged[name] = encode(value)
        try:
            if self._pick is not None:
                return self._pick(merged)
            return tuple([merged[name] for name in self.names])
        except KeyError:
            raise self._mismatch(values) from None

    def _mismatch(self, values: Mapping[str, Any]) -> TypeError:
        known = set(self.names)
        unknown = sorted(set(values) - known)
        missing = sorted(known - set(values) - set(self.defaults))
        parts = [f"{what} {', '.join(names)}" for what, names in (("unknown", unknown), ("missing", missing)) if names]
        return TypeError(f"{' and '.join(parts)} in: {self.text[:60]}")

    def __repr__(self) -> str:
        return f"Statement({self.text!r})"
