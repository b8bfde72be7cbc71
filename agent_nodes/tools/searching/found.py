"""What goes into the response of a search, as far as the limits let it."""

from __future__ import annotations

from typing import Any

TEXT_BUDGET = 64 * 1024
SHOWN_LEFT_OUT = 20


class OutOfTime(Exception):
    pass


class Found:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.items: list[list[Any]] = []
        self.matches = self.size = self.unreadable = self.ignored_files = 0
        self.left_out: list[str] = []
        self.more = self.late = False

    def full(self) -> bool:
        """Asked before a further match is taken in."""
        self.more = self.matches >= self.limit or self.size > TEXT_BUDGET
        return self.more

    def add(self, *item: Any) -> None:
        self.items.append(list(item))
        self.size += sum(len(part) for part in item if isinstance(part, str)) + 8

    def leave_out(self, path: str) -> None:
        if len(self.left_out) < SHOWN_LEFT_OUT:
            self.left_out.append(path)

    def response(self) -> dict[str, Any]:
        names = ("items", "more", "late", "left_out", "ignored_files", "unreadable")
        return {name: getattr(self, name) for name in names}
