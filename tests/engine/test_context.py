"""A context in memory."""

import pytest

from agent_nodes.engine import context as context_module
from agent_nodes.engine.context import Context
from agent_nodes.engine.tokens import message_tokens
from agent_nodes.messages import Message, TextBlock, UserMessage


def test_each_message_is_estimated_once_and_not_before_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Message] = []

    def estimate(message: Message) -> int:
        asked.append(message)
        return message_tokens(message)

    monkeypatch.setattr(context_module, "message_tokens", estimate)
    messages = [UserMessage((TextBlock("word " * length),)) for length in (1, 20, 300)]
    context = Context()
    context.add(messages[0])
    context.add(messages[1])
    assert asked == []
    assert context.tokens == sum(map(message_tokens, messages[:2]))
    context.add(messages[2])
    assert context.tokens == context.tokens == sum(map(message_tokens, messages))
    assert asked == messages
