"""Reasoning that a raw server leaves at the head of its content: ``<think>…</think>``, in pieces of any size."""

from __future__ import annotations

from typing import NamedTuple

OPEN, CLOSE = "<think>", "</think>"


class Split(NamedTuple):
    thinking: str
    text: str


class ThinkTag:
    """Tells the two apart. What may still be half a tag is held back until it is known."""

    def __init__(self) -> None:
        self.over = False
        """Whatever comes now is text."""
        self._inside = self._behind = False
        self._held: str = ""

    def split(self, content: str) -> Split:
        """The next piece of the content, told apart."""
        if self.over:
            return Split("", content)
        if self._behind:
            return self._text("", content)
        held = self._held + content
        if not self._inside:
            start = held.lstrip()
            if not start.startswith(OPEN):
                self.over = bool(start) and not OPEN.startswith(start)
                self._held = "" if self.over else held
                return Split("", held if self.over else "")
            self._inside = True
            held = start.removeprefix(OPEN)
        thinking, closed, text = held.partition(CLOSE)
        if closed:
            self._behind = True
            return self._text(thinking, text)
        kept = next((size for size in range(len(CLOSE) - 1, 0, -1) if thinking.endswith(CLOSE[:size])), 0)
        self._held = thinking[len(thinking) - kept :]
        return Split(thinking[: len(thinking) - kept], "")

    def rest(self) -> Split:
        """What is still held when the content ends: no tag after all."""
        held = "" if self._behind else self._held
        self._held, self.over = "", True
        return Split(held, "") if self._inside else Split("", held)

    def _text(self, thinking: str, text: str) -> Split:
        """The line breaks behind the tag belong to neither."""
        text = text.lstrip("\n")
        self.over = bool(text)
        return Split(thinking, text)
