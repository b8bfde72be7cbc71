"""The system prompt: a persona and how to use the tools. No date and no listing: the prefix stays byte-stable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent_nodes.messages import repair_text
from agent_nodes.tools.base import AgentTool

PERSONA = (
    "You are a capable assistant that works on the user's files and tasks. Find out before you claim: look at the "
    "material with the tools you have, then answer from what you saw. Do what was asked, no more and no less, and say "
    "plainly what you did, what you could not do and why. Answer in the user's language."
)

_GUIDANCE = (
    "Tools run in the folder {workdir}; relative paths start there. Independent look-ups may be called at once. "
    "When a tool reports an error, read it and change your approach instead of repeating the call. A result marked as "
    "interrupted may or may not have taken effect: check before you do it again."
)


def prompt_sections(system_prompt: str | None, tools: Sequence[AgentTool], workdir: Path) -> tuple[str, ...]:
    """The sections in order: persona (the caller's own replaces ours), then guidance when there are tools."""
    sections = [system_prompt if system_prompt is not None else PERSONA]
    if tools:
        sections.append(_GUIDANCE.format(workdir=repair_text(str(workdir))))
    return tuple(section for section in sections if section.strip())
