"""The system prompt: a persona, how to use the tools, how to speak. No date and no listing: the prefix stays
byte-stable."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from agent_nodes.messages import repair_text
from agent_nodes.tools.base import AgentTool

PERSONA = (
    "You are a capable assistant that works on the user's files and tasks. Find out before you claim: look at the "
    "material with the tools you have, then answer from what you saw. Do what was asked, no more and no less, and say "
    "plainly what you did, what you could not do and why. Answer in the user's language."
)

_GUIDANCE = (
    "Tools run in the folder {workdir}; relative paths start there. Independent look-ups may be called at once; they "
    "do not wait for a write, an edit or a command beside them, so look at a change in the next step. "
    "When a tool reports an error, read it and change your approach instead of repeating the call. A result marked as "
    "interrupted may or may not have taken effect: check before you do it again."
)


def prompt_sections(
    system_prompt: str | None, tools: Sequence[AgentTool], workdir: Path, section: str = ""
) -> tuple[str, ...]:
    """The sections in order: persona (the caller's own replaces ours), ``section`` of the turn's host, guidance when
    there are tools, the communication skill."""
    sections = [system_prompt if system_prompt is not None else PERSONA, section]
    if tools:
        sections.append(_GUIDANCE.format(workdir=repair_text(str(workdir))))
    sections.append(communication_skill())
    return tuple(section for section in sections if section.strip())


@cache
def communication_skill() -> str:
    """The guide ``i-have-adhd``, which ships with the package."""
    return (Path(__file__).parent / "adhd.md").read_text("utf-8").strip()
