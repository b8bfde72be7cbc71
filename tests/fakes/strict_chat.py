"""What Chat Completions services refuse; where compatible servers are stricter than OpenAI, their rule holds."""

import re
from typing import Any

from tests.fakes.issued import Issued
from tests.fakes.levels import check_effort, most_output
from tests.fakes.refused import Refused, strict_valid
from tests.fakes.scripts import Json
from tests.fakes.strict_responses import check_arguments, check_function, check_image_url, check_name

FIELDS = frozenset(
    [
        "audio",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "metadata",
        "modalities",
        "model",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    ]
)
MESSAGE_FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "tool_calls", "audio"}
    | {"reasoning_content", "reasoning", "reasoning_details"},
    "tool": {"role", "content", "tool_call_id"},
}
_REASONING_MODEL = re.compile(r"(gpt-[5-9]|o\d)")


def check_chat(body: Json, issued: Issued) -> None:
    """Raise Refused where the service would answer with an error. Nothing is sealed here: `issued` plays no part."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise Refused("you must provide a model parameter")
    for name in body.keys() - FIELDS:
        raise Refused(f"Unrecognized request argument supplied: {name}", param=name, code="unknown_parameter")
    _check_options(body, model)
    _check_tools(body)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused(
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            param="messages",
            code="empty_array",
        )
    for index, message in enumerate(messages):
        _check_message(message, f"messages[{index}]", model)
    _check_order(messages)


def _check_options(body: Json, model: str) -> None:
    if "max_tokens" in body and "max_completion_tokens" in body:
        raise Refused("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
    if _REASONING_MODEL.match(model):
        if "max_tokens" in body:
            raise Refused(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
                "instead.",
                param="max_tokens",
                code="unsupported_parameter",
            )
        if body.get("temperature", 1) != 1:
            raise Refused(
                "Unsupported value: 'temperature' does not support this value with this model. Only the default (1) "
                "value is supported.",
                param="temperature",
                code="unsupported_value",
            )
    check_effort(body.get("reasoning_effort"), model, "reasoning_effort")
    limit = body.get("max_tokens", body.get("max_completion_tokens", 1))
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise Refused(
            f"Invalid 'max_tokens': integer below minimum value. Expected a value >= 1, but got {limit} instead."
        )
    most = most_output(model)
    if limit is not None and most is not None and limit > most:
        raise Refused(
            f"max_tokens is too large: {limit}. This model supports at most {most} completion tokens, whereas you "
            f"provided {limit}.",
            param="max_tokens",
            code="invalid_value",
        )
    for name in (body.get("stream_options") or {}).keys() - {"include_usage", "include_obfuscation"}:
        raise Refused(f"Unknown parameter: 'stream_options.{name}'.", param="stream_options", code="unknown_parameter")


def _check_tools(body: Json) -> None:
    tools = body.get("tools")
    if not tools:
        if tools is not None:
            raise Refused(
                "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array.",
                param="tools",
                code="empty_array",
            )
        for name in ("parallel_tool_calls", "tool_choice"):
            if name in body:
                raise Refused(
                    f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified.", param=name
                )
        return
    names: set[str] = set()
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        if tool.get("type") != "function" or set(tool) != {"type", "function"}:
            raise Refused(f"Missing required parameter: '{where}.function'.", param=where)
        function = tool["function"]
        check_function(function, f"{where}.function", names)
        if function.get("strict") and not strict_valid(function.get("parameters")):
            raise Refused(
                f"Invalid schema for function '{function['name']}': In context=(), 'additionalProperties' is required "
                "to be supplied and to be false.",
                param=f"{where}.function.parameters",
                code="invalid_function_parameters",
            )


def _check_message(message: Any, where: str, model: str) -> None:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in MESSAGE_FIELDS:
        raise Refused(f"Invalid value: '{role}'.", param=f"{where}.role", code="invalid_value")
    for name in message.keys() - MESSAGE_FIELDS[role]:
        raise Refused(f"Unknown parameter: '{where}.{name}'.", param=f"{where}.{name}", code="unknown_parameter")
    if message.get("tool_calls") is not None:
        _check_calls(message["tool_calls"], f"{where}.tool_calls")
    content = message.get("content")
    if role == "assistant" and content is None and (message.get("tool_calls") or message.get("refusal")):
        return
    if role == "tool" and content == "":
        return
    _check_content(content, role, f"{where}.content", model)


def _check_content(content: Any, role: str, where: str, model: str) -> None:
    if isinstance(content, str) and content:
        return
    if not isinstance(content, list) or not content:
        raise Refused(
            f"Invalid value for '{where}': expected a non-empty string or a list of parts, got {content!r}.",
            param=where,
        )
    for index, part in enumerate(content):
        place = f"{where}[{index}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            if not isinstance(part.get("text"), str) or not part["text"]:
                raise Refused(f"Invalid '{place}.text': empty string.", param=f"{place}.text", code="empty_string")
        elif kind == "image_url":
            if role != "user":
                raise Refused(
                    f"Invalid '{where}'. Image URLs are only allowed for messages with role 'user', but this message "
                    f"with role '{role}' contains an image URL.",
                    param=where,
                )
            check_image_url((part.get("image_url") or {}).get("url"), place, model)
        elif not (kind in ("input_audio", "file") and role == "user") and not (
            kind == "refusal" and role == "assistant"
        ):
            raise Refused(f"Invalid value: '{kind}'.", param=f"{place}.type", code="invalid_value")


def _check_calls(calls: Any, where: str) -> None:
    if not isinstance(calls, list) or not calls:
        raise Refused(f"Invalid '{where}': empty array.", param=where, code="empty_array")
    for index, call in enumerate(calls):
        place = f"{where}[{index}]"
        for name in call.keys() - {"id", "type", "function", "extra_content"}:
            raise Refused(f"Unknown parameter: '{place}.{name}'.", param=f"{place}.{name}", code="unknown_parameter")
        if not isinstance(call.get("id"), str) or not call["id"]:
            raise Refused(f"Missing required parameter: '{place}.id'.", param=f"{place}.id")
        if call.get("type") != "function":
            raise Refused(f"Missing required parameter: '{place}.type'.", param=f"{place}.type")
        check_name(call["function"].get("name"), f"{place}.function.name")
        check_arguments(call["function"].get("arguments"), f"{place}.function.arguments")


def _check_order(messages: list[Json]) -> None:
    """Answers directly behind their calls, each once; system messages only at the start, as chat templates want."""
    waiting: list[str] = []
    begun = False
    for index, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            id = message.get("tool_call_id")
            if id not in waiting:
                raise Refused(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    "'tool_calls'.",
                    param=f"messages[{index}].role",
                )
            waiting.remove(id)
            continue
        if waiting:
            break
        if role in ("system", "developer") and begun:
            raise Refused("System message must be at the beginning.", param=f"messages[{index}].role")
        begun = begun or role not in ("system", "developer")
        waiting = [call["id"] for call in message.get("tool_calls") or []]
        if len(set(waiting)) != len(waiting):
            raise Refused(f"Duplicate tool call ids in messages[{index}].", param=f"messages[{index}].tool_calls")
    if waiting:
        raise Refused(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(waiting)}",
            param="messages",
        )
    if messages[-1]["role"] == "assistant":
        raise Refused("Cannot continue from an assistant message: the last message must be of a user or a tool.")
