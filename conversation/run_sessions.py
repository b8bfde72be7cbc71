"""The sessions of a project's run, looked at beside whoever has them: which run is meant, and whether it has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from agent_nodes._clock import SYSTEM_CLOCK
from agent_nodes.errors import InputValidationError
from agent_nodes.messages import SystemMessage, repair_text
from agent_nodes.nodes.items import read_turns
from agent_nodes.store import inspect, reads
from agent_nodes.store.beside import read_beside
from agent_nodes.store.locate import is_file, session_file
from conversation.executor import ConversationExecutorDefinition
from conversation.workflow import Node

MAIN_TARGET = 1


class RunSessions:
    """Of the conversation ``session``, or of a new one. What is known is what there was when this was made."""

    def __init__(self, executor: ConversationExecutorDefinition, session: str | None) -> None:
        self._executor = executor
        self.key = session if session is not None else self._new_key()
        self._files = [path for path in self._paths(self.key) if is_file(path)]
        self.unfinished: Mapping[str, str] = {
            turn.request_id: turn.prompt for path in self._files for turn in read_beside(path, inspect.unfinished)
        }
        """The runs that were cut off, with what the agent was told."""
        self._ended: set[str] = set()

    def meant(self, prompt: str | None, *, reopen: bool) -> str | None:
        """The id of the earlier run that is meant: one that was cut off, by its prompt or none; with ``reopen`` the
        last one. None for a new run."""
        prompt = None if prompt is None else repair_text(prompt)
        for run_id, told in self.unfinished.items():
            if prompt in (None, self._prompt(run_id) or told):
                return run_id
        if not reopen:
            return None
        last = read_beside(self._files[0], inspect.last_turn) if self._files else None
        if last is None:
            raise InputValidationError(
                "--reopen: there is no run to go on with; say which with --session.", field="reopen"
            )
        if prompt not in (None, last.prompt):
            raise InputValidationError(
                "--reopen: the session's last run has another prompt. Give that one or none, or name an older run with "
                "--request-id.",
                field="reopen",
            )
        return last.request_id

    def is_ended(self, run_id: str) -> bool:
        """Whether the run had ended before this command."""
        return run_id in self._ended

    def look_up(self, run_id: str) -> None:
        """See whether the run has ended already."""
        for path in self._files[:1]:
            found = read_turns(path, run_id)
            if found and found[-1].turn.status == "answered":
                self._ended.add(run_id)

    def check_demo(self) -> None:
        """Raises :class:`InputValidationError` where only the missing key would hand a conversation that was with a
        real model to the demo."""
        for path in self._files[:1]:
            messages = read_beside(path, lambda tx: reads.target_state(tx, MAIN_TARGET)).messages
            system = next((one for one in reversed(messages) if isinstance(one, SystemMessage)), None)
            if system is not None and system.provider != "demo":
                raise InputValidationError(
                    f"The session {self.key!r} is with {system.provider} ({system.model}): set its key, or choose the "
                    "provider demo.",
                    field="provider",
                )

    def by_name(self, text: str) -> str:
        """``text`` with the conversation's own name in place of its files."""
        for path in self._paths(self.key):
            text = text.replace(f"session {path}", f"session {self.key!r}")
        return text

    def names(self) -> dict[str, str] | None:
        """Of the first agent's session; None where there is none yet."""
        for node in self._executor.workflow.agents:
            if node.facts.session is not None:
                names = self._names(node, self.key)
                if is_file(session_file(*names)):
                    return dict(zip(("project", "conversation_id", "session_key"), names, strict=True))
        return None

    # -- files ---------------------------------------------------------------------------------------------------------

    def _prompt(self, run_id: str) -> str | None:
        """What the first agent of the run was told, which is what was said where nothing stands before it."""
        found = read_turns(self._files[0], run_id)
        return found[-1].prompt if found else None

    def _paths(self, key: str) -> Iterator[Path]:
        for node in self._executor.workflow.agents:
            if node.facts.session is not None:
                yield session_file(*self._names(node, key))

    def _names(self, node: Node, key: str) -> tuple[str, str, str]:
        project, conversation_id, session_key = node.facts.session or (None, None, "")
        return project or self._executor.name, conversation_id or key, session_key

    def _new_key(self) -> str:
        while True:
            key = SYSTEM_CLOCK.new_id()[:8]
            if not any(is_file(path) for path in self._paths(key)):
                return key
