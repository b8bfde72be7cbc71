"""A rough size of messages in tokens, for the meter where no provider has said anything yet."""

from __future__ import annotations

from agent_nodes.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    NativeBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolSpec,
)

IMAGE_TOKENS = 1_600
MESSAGE_TOKENS = 4


def text_tokens(text: str) -> int:
    """Four ASCII characters or one other character a token."""
    if text.isascii():
        return (len(text) + 3) // 4
    wide = sum(1 for char in text if char > "\x7f")
    return (len(text) - wide + 3) // 4 + wide


def message_tokens(message: Message) -> int:
    """Estimated tokens of one message in a request."""
    if isinstance(message, SystemMessage):
        return sum(text_tokens(section) for section in message.sections) + sum(map(_tool_tokens, message.tools))
    total = MESSAGE_TOKENS
    for block in message.content:
        match block:
            case TextBlock():
                total += text_tokens(block.text)
            case ThinkingBlock():
                total += text_tokens(block.text)
            case ImageBlock():
                total += IMAGE_TOKENS
            case ToolCall():
                total += text_tokens(block.name) + text_tokens(str(block.arguments))
            case NativeBlock():
                total += text_tokens(str(block.raw))
    return total + (2 if isinstance(message, AssistantMessage) else 0)


def _tool_tokens(tool: ToolSpec) -> int:
    return text_tokens(tool.name) + text_tokens(tool.description) + text_tokens(str(tool.parameters))
