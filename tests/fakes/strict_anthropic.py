"""What the Messages service refuses: fields, tools, options. The history has its own module."""

import re
from typing import Any

from tests.fakes.history_anthropic import check_history
from tests.fakes.issued import Issued
from tests.fakes.refused import Refused, only_fields, whole_number
from tests.fakes.scripts import Json

FIELDS = (
    "cache_control",
    "container",
    "context_management",
    "diagnostics",
    "inference_geo",
    "max_tokens",
    "messages",
    "metadata",
    "model",
    "output_config",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
    "transformations",
)
TOOL_FIELDS = (
    "allowed_callers",
    "cache_control",
    "defer_loading",
    "description",
    "eager_input_streaming",
    "input_examples",
    "input_schema",
    "name",
    "strict",
    "type",
)
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
SERVER_TOOL = re.compile(r"(web_search|web_fetch|code_execution|bash|text_editor|tool_search\w*|memory)_\d{8}")

# Generations, newest first: which thinking types each takes, and which effort levels.
_ALWAYS_ON = re.compile(r"claude-((fable|mythos)-5(-[12])?|opus-5-5)$")
_FAMILY_5 = re.compile(r"claude-(fable|mythos|opus|sonnet|haiku)-5(-\d)?$")
_ADAPTIVE_4 = re.compile(r"claude-opus-4-[78]$")
_FAMILY_46 = re.compile(r"claude-(opus|sonnet)-4-6$")
_OPUS_45 = re.compile(r"claude-opus-4-5(-\d{8})?$")
_OLDER_45 = re.compile(r"claude-(haiku|sonnet)-4-5(-\d{8})?$")
_NO_FORCED_TOOL = re.compile(r"claude-(opus-5-5|sonnet-5-5|fable-5-1)$")
_EFFORTS = ("low", "medium", "high", "xhigh", "max")


def check_messages(body: Json, issued: Issued) -> None:
    """Raise Refused where the service would answer with an error."""
    only_fields(body, FIELDS, "request")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise Refused("model: Field required")
    _check_limits(body, model)
    _check_thinking(body, model)
    _check_system(body.get("system"))
    _check_tools(body.get("tools"))
    _check_choice(body, model)
    _check_cache_marks(body)
    check_history(body, model, issued)


def _check_limits(body: Json, model: str) -> None:
    limit = body.get("max_tokens")
    if limit is None:
        raise Refused("max_tokens: Field required")
    if not whole_number(limit) or limit < 1:
        raise Refused("max_tokens: Input should be greater than or equal to 1")
    most = 64_000 if _OPUS_45.match(model) or _OLDER_45.match(model) else 128_000
    if model.startswith("claude-") and limit > most:
        raise Refused(f"max_tokens: {limit} > {most}, which is the maximum allowed number of output tokens for {model}")
    if _FAMILY_5.match(model) or _ADAPTIVE_4.match(model):
        for name in ("temperature", "top_p", "top_k"):
            if name in body:
                raise Refused(f"`{name}` is deprecated for this model.")
    effort = only_fields(body.get("output_config") or {}, ("effort", "format"), "output_config").get("effort")
    if effort is not None and effort not in _efforts(model):
        raise Refused(f"output_config.effort: {effort!r} is not supported for this model")


def _efforts(model: str) -> tuple[str, ...]:
    if _OLDER_45.match(model):
        return ()
    if _OPUS_45.match(model):
        return _EFFORTS[:3]
    return ("low", "medium", "high", "max") if _FAMILY_46.match(model) else _EFFORTS


def _check_thinking(body: Json, model: str) -> None:
    if "thinking" not in body:
        return
    fields = ("type", "display", "budget_tokens", "block_binding")
    thinking = only_fields(body["thinking"], fields, "thinking")
    kind = thinking.get("type")
    if kind not in ("adaptive", "enabled", "disabled", "between_tools"):
        raise Refused(f"thinking: Input tag {kind!r} found using 'type' does not match any of the expected tags")
    if kind not in _thinking_types(model):
        raise Refused(
            f'"thinking.type.{kind}" is not supported for this model. '
            'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
        )
    if "display" in thinking and kind in ("disabled", "between_tools"):
        raise Refused(f"thinking.{kind}.display: Extra inputs are not permitted")
    effort = (body.get("output_config") or {}).get("effort")
    if kind in ("disabled", "between_tools") and effort in ("xhigh", "max") and _FAMILY_5.match(model):
        raise Refused(f'"thinking.type.{kind}" is not supported with `output_config.effort` {effort!r}.')
    if thinking.get("display", "omitted") not in ("summarized", "omitted", "updates"):
        raise Refused("thinking.display: Input should be 'summarized' or 'omitted'")
    budget = thinking.get("budget_tokens")
    if kind != "enabled":
        if budget is not None:
            raise Refused(f"thinking.{kind}.budget_tokens: Extra inputs are not permitted")
    elif not isinstance(budget, int) or budget < 1024:
        raise Refused("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    elif budget >= body["max_tokens"]:
        raise Refused("`max_tokens` must be greater than `thinking.budget_tokens`.")


def _thinking_types(model: str) -> tuple[str, ...]:
    if _ALWAYS_ON.match(model):
        return ("adaptive",)
    if model == "claude-sonnet-5-5":
        return ("adaptive", "between_tools")
    if _FAMILY_5.match(model) or _ADAPTIVE_4.match(model):
        return ("adaptive", "disabled")
    if _OPUS_45.match(model) or _OLDER_45.match(model):
        return ("enabled", "disabled")
    return ("adaptive", "enabled", "disabled")


def _check_system(system: Any) -> None:
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        raise Refused("system: Input should be a valid string or list")
    for index, block in enumerate(system):
        only_fields(block, ("type", "text", "cache_control", "citations"), f"system.{index}")
        if block.get("type") != "text" or not isinstance(block.get("text"), str):
            raise Refused(f"system.{index}: Input should be a text block")
        if not block["text"].strip():
            raise Refused("system: text content blocks must be non-empty")


def _check_tools(tools: Any) -> None:
    if tools is None:
        return
    if not isinstance(tools, list):
        raise Refused("tools: Input should be a valid list")
    names: set[str] = set()
    for index, tool in enumerate(tools):
        where = f"tools.{index}"
        if isinstance(tool, dict) and SERVER_TOOL.fullmatch(str(tool.get("type"))):
            if "allowed_domains" in tool and "blocked_domains" in tool:
                raise Refused(f"{where}: only one of allowed_domains and blocked_domains may be given")
        else:
            _check_own_tool(only_fields(tool, TOOL_FIELDS, where), where)
        if tool.get("name") in names:
            raise Refused("tools: Tool names must be unique.")
        names.add(tool["name"])


def _check_own_tool(tool: Json, where: str) -> None:
    if tool.get("type", "custom") != "custom":
        raise Refused(f"{where}: Input tag {tool['type']!r} found using 'type' does not match any of the expected tags")
    if not isinstance(tool.get("name"), str) or not TOOL_NAME.fullmatch(tool["name"]):
        raise Refused(f"{where}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    schema = tool.get("input_schema")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise Refused(f"{where}.custom.input_schema.type: Input should be 'object'")
    if any(name in schema for name in ("oneOf", "allOf", "anyOf")):
        raise Refused(
            f"{where}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
        )
    if not isinstance(tool.get("description", ""), str):
        raise Refused(f"{where}.custom.description: Input should be a valid string")


def _check_choice(body: Json, model: str) -> None:
    choice = body.get("tool_choice")
    if choice is None:
        return
    only_fields(choice, ("type", "name", "disable_parallel_tool_use"), "tool_choice")
    kind = choice.get("type")
    if kind not in ("auto", "any", "tool", "none"):
        raise Refused("tool_choice: Input tag does not match any of the expected tags")
    if not body.get("tools"):
        raise Refused("tool_choice may only be specified while providing tools.")
    if kind in ("any", "tool"):
        if _NO_FORCED_TOOL.match(model):
            raise Refused(f'"tool_choice.type.{kind}" is not supported for this model.')
        if body.get("thinking", {}).get("type") in ("enabled", "adaptive"):
            raise Refused("Thinking may not be enabled when tool_choice forces tool use.")
    if kind == "tool" and choice.get("name") not in [tool.get("name") for tool in body["tools"]]:
        raise Refused(f"Tool '{choice.get('name')}' not found in provided tools")


def _check_cache_marks(body: Json) -> None:
    marked: list[Json] = [tool for tool in body.get("tools") or [] if tool.get("cache_control")]
    if isinstance(body.get("system"), list):
        marked += [block for block in body["system"] if block.get("cache_control")]
    messages: Any = body.get("messages")
    for message in messages if isinstance(messages, list) else []:
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else []:
            if isinstance(block, dict) and block.get("cache_control"):
                marked.append(block)
    count = len(marked) + bool(body.get("cache_control"))
    if count > 4:
        raise Refused(f"A maximum of 4 blocks with cache_control may be provided. Found {count}.")
    lives: list[str] = []
    for block in marked:
        control = only_fields(block["cache_control"], ("type", "ttl"), "cache_control")
        if control.get("type") != "ephemeral" or control.get("ttl", "5m") not in ("5m", "1h"):
            raise Refused("cache_control: Input should be ephemeral with a ttl of '5m' or '1h'")
        if block.get("type") == "text" and not str(block.get("text", "")).strip():
            raise Refused("cache_control cannot be set for empty text blocks")
        lives.append(control.get("ttl", "5m"))
    if lives != sorted(lives):  # "1h" sorts before "5m"
        raise Refused("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.")
