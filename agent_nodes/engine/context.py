"""The model-visible context of one target, in memory: loaded once at open, then extended by commits."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent_nodes.engine.tokens import message_tokens
from agent_nodes.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage, UserMessage
from agent_nodes.providers.base import EncodedPrefix


@dataclass(slots=True)
class Context:
    """``messages`` in the order of their entries. ``reasoning_from`` is the index of the newest system message: signed
    reasoning before it is no longer sent."""

    messages: list[Message] = field(default_factory=list[Message])
    system: SystemMessage | None = None
    reasoning_from: int = 0
    prefix: EncodedPrefix = field(default_factory=EncodedPrefix)
    _tokens: int = 0
    _estimated: int = 0

    def add(self, message: Message) -> None:
        if isinstance(message, UserMessage) and not message.content:
            return  # the marker of a reset: it says nothing itself
        if isinstance(message, SystemMessage):
            self.system, self.reasoning_from = message, len(self.messages)
        self.messages.append(message)

    @property
    def tokens(self) -> int:
        """An estimate of all messages. Made when it is asked for: opening a long session would wait for it, and nobody
        asks where the provider counts."""
        self._tokens += sum(map(message_tokens, self.messages[self._estimated :]))
        self._estimated = len(self.messages)
        return self._tokens

    @property
    def open_end(self) -> bool:
        """Whether a request may follow: the newest message is the user's or a tool's, not the model's."""
        return not self.messages or not isinstance(self.messages[-1], AssistantMessage)

    def results_missing(self) -> list[str]:
        """Call ids of the newest assistant message that have no result yet."""
        done: set[str] = set()
        for message in reversed(self.messages):
            if isinstance(message, ToolResultMessage):
                done.add(message.call_id)
            elif isinstance(message, AssistantMessage):
                return [call.id for call in message.calls if call.id not in done]
            else:
                return []
        return []
