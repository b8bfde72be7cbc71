"""What the Responses service refuses. Nothing is stored here, so an item by its id alone is never found."""

import json
import re
from typing import Any

from tests.fakes.issued import Issued
from tests.fakes.levels import check_effort, most_output
from tests.fakes.refused import NAME, Refused, strict_valid, text_only, whole_number
from tests.fakes.scripts import Json

FIELDS = frozenset(
    [
        "background",
        "context_management",
        "conversation",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    ]
)
INCLUDES = frozenset(
    (
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
        "web_search_call.results",
        "message.output_text.logprobs",
        "file_search_call.results",
        "code_interpreter_call.outputs",
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
    )
)
SERVER_TOOLS = re.compile(
    r"(web_search(_preview)?(_\d{4}_\d\d_\d\d)?|file_search|code_interpreter|image_generation|mcp|custom|local_shell|shell)"
)
ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fc",
    "reasoning": "rs",
    "web_search_call": "ws",
}
ITEM_FIELDS = {
    "message": {"type", "role", "content", "id", "status", "phase"},
    "function_call": {"type", "call_id", "name", "arguments", "id", "status", "namespace", "caller"},
    "function_call_output": {"type", "call_id", "output", "id", "status"},
    "reasoning": {"type", "id", "summary", "encrypted_content", "content", "status"},
    "web_search_call": {"type", "id", "status", "action"},
}
INPUT_PARTS = ("input_text", "input_image", "input_file")
_REASONING_MODEL = re.compile(r"(gpt-[5-9]|o\d)")
_OLD_MODEL = re.compile(r"(gpt-4|gpt-3)")


def check_responses(body: Json, issued: Issued) -> None:
    """Raise Refused where the service would answer with an error."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise Refused("Missing required parameter: 'model'.", param="model", code="missing_required_parameter")
    for name in body.keys() - FIELDS:
        raise Refused(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")
    _check_options(body, model)
    _check_tools(body)
    items = body.get("input")
    if isinstance(items, str) and items:
        return
    if not isinstance(items, list) or not items:
        raise Refused("Missing required parameter: 'input'.", param="input", code="missing_required_parameter")
    for index, item in enumerate(items):
        _check_item(item, f"input[{index}]", model, issued)
    _check_pairs(items)
    _check_reasoning(items, model, issued)


def _check_options(body: Json, model: str) -> None:
    limit = body.get("max_output_tokens")
    if limit is not None and (not whole_number(limit) or limit < 16):
        raise Refused(
            f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got {limit}.",
            param="max_output_tokens",
            code="integer_below_min_value",
        )
    most = most_output(model)
    if limit is not None and most is not None and limit > most:
        raise Refused(
            f"Invalid 'max_output_tokens': integer above maximum value. Expected a value <= {most}, but got {limit} "
            "instead.",
            param="max_output_tokens",
            code="integer_above_max_value",
        )
    for name in ("temperature", "top_p"):
        if name in body and _REASONING_MODEL.match(model):
            raise _unsupported(name)
    reasoning = body.get("reasoning") or {}
    if not isinstance(reasoning, dict):
        raise Refused("Invalid type for 'reasoning': expected an object.", param="reasoning", code="invalid_type")
    for name in reasoning.keys() - {"effort", "summary", "context", "mode", "generate_summary"}:
        raise Refused(f"Unknown parameter: 'reasoning.{name}'.", param=f"reasoning.{name}", code="unknown_parameter")
    check_effort(reasoning.get("effort"), model, "reasoning.effort")
    if "summary" in reasoning and _OLD_MODEL.match(model):
        raise _unsupported("reasoning.summary")
    _one_of(reasoning.get("summary"), (None, "auto", "concise", "detailed"), "reasoning.summary")
    for name in (body.get("stream_options") or {}).keys() - {"include_obfuscation"}:
        raise Refused(f"Unknown parameter: 'stream_options.{name}'.", param="stream_options", code="unknown_parameter")
    for name in body.get("include") or []:
        _one_of(name, INCLUDES, "include")
        if name == "reasoning.encrypted_content" and _OLD_MODEL.match(model):
            raise Refused("Encrypted content is not supported with this model.", param="include")
    for name in ("previous_response_id", "conversation"):
        if body.get(name):
            raise Refused(f"Previous response with id '{body[name]}' not found.", param=name, status=404)
    if not isinstance(body.get("instructions") or "", str):
        raise Refused("Invalid type for 'instructions': expected a string.", param="instructions", code="invalid_type")


def _unsupported(name: str) -> Refused:
    message = f"Unsupported parameter: '{name}' is not supported with this model."
    return Refused(message, param=name, code="unsupported_parameter")


def _one_of(value: Any, allowed: Any, where: str) -> None:
    if value not in allowed:
        known = ", ".join(f"'{entry}'" for entry in allowed if entry)
        raise Refused(f"Invalid value: '{value}'. Supported values are: {known}.", param=where, code="invalid_value")


def _check_tools(body: Json) -> None:
    names: set[str] = set()
    for index, tool in enumerate(body.get("tools") or []):
        where = f"tools[{index}]"
        kind = tool.get("type")
        if kind != "function":
            if not SERVER_TOOLS.fullmatch(str(kind)):
                raise Refused(f"Invalid value: '{kind}'.", param=f"{where}.type", code="invalid_value")
            continue
        check_function(tool, where, names)
        strict = tool.get("strict", True)
        if strict is not False and not strict_valid(tool.get("parameters")):
            raise Refused(
                f"Invalid schema for function '{tool['name']}': In context=(), 'additionalProperties' is required to "
                "be supplied and to be false.",
                param=f"{where}.parameters",
                code="invalid_function_parameters",
            )
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, str):
        _one_of(choice, ("auto", "none", "required"), "tool_choice")
    if choice == "required" and not body.get("tools"):
        raise Refused("Tool choice 'required' must be specified with 'tools' parameter.", param="tool_choice")


def check_function(tool: Json, where: str, names: set[str]) -> None:
    """A function declaration of either OpenAI protocol; `names` are those seen before."""
    for field in tool.keys() - {"type", "name", "description", "parameters", "strict", "defer_loading"}:
        raise Refused(f"Unknown parameter: '{where}.{field}'.", param=f"{where}.{field}", code="unknown_parameter")
    name = tool.get("name")
    if not isinstance(name, str):
        message = f"Missing required parameter: '{where}.name'."
        raise Refused(message, param=f"{where}.name", code="missing_required_parameter")
    check_name(name, f"{where}.name")
    if name in names:
        raise Refused(f"Function names must be unique: '{name}'.", param=where)
    names.add(name)
    schema = tool.get("parameters") or {"type": "object"}
    if schema.get("type") != "object":
        raise Refused(
            f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got "
            f"'type: \"{schema.get('type')}\"'.",
            param=f"{where}.parameters",
            code="invalid_function_parameters",
        )


def check_name(name: Any, where: str) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Refused(
            f"Invalid '{where}': string does not match pattern. Expected a string that matches the pattern "
            "'^[a-zA-Z0-9_-]+$' with at most 64 characters.",
            param=where,
            code="invalid_value",
        )


def check_arguments(arguments: Any, where: str) -> None:
    """Arguments are a string that holds a JSON object: servers with chat templates parse it."""
    try:
        parsed = json.loads(arguments)
    except (TypeError, ValueError):
        parsed = None
    if not isinstance(parsed, dict):
        raise Refused(f"Invalid '{where}': expected a string holding a JSON object.", param=where, code="invalid_value")


def _check_item(item: Any, where: str, model: str, issued: Issued) -> None:
    kind = item.get("type", "message") if isinstance(item, dict) else None
    if kind == "item_reference":
        raise _not_found(item.get("id"))
    if kind not in ITEM_FIELDS:
        raise Refused(f"Invalid value: '{kind}'.", param=f"{where}.type", code="invalid_value")
    for name in item.keys() - ITEM_FIELDS[kind]:
        raise Refused(f"Unknown parameter: '{where}.{name}'.", param=f"{where}.{name}", code="unknown_parameter")
    _check_id(item, kind, where)
    match kind:
        case "message":
            _check_message(item, where, model)
        case "function_call":
            _check_call_id(item, where, issued)
            check_name(item.get("name"), f"{where}.name")
            check_arguments(item.get("arguments"), f"{where}.arguments")
        case "function_call_output":
            _check_call_id(item, where, issued)
            if not isinstance(item.get("output"), str):
                _check_parts(item.get("output"), INPUT_PARTS, f"{where}.output", model)
        case "reasoning":
            if not isinstance(item.get("summary"), list):
                message = f"Missing required parameter: '{where}.summary'."
                raise Refused(message, param=f"{where}.summary", code="missing_required_parameter")
        case _:
            pass


def _check_id(item: Json, kind: str, where: str) -> None:
    id = item.get("id")
    if id is None and (kind not in ("reasoning", "web_search_call")):
        return
    if not isinstance(id, str) or not ID.fullmatch(id):
        raise Refused(
            f"Invalid '{where}.id': '{id}'. Expected an ID that contains letters, numbers, underscores, or dashes, and "
            "at most 64 of them.",
            param=f"{where}.id",
            code="invalid_value",
        )
    if not id.startswith(PREFIXES[kind]):
        raise Refused(
            f"Invalid '{where}.id': '{id}'. Expected an ID that begins with '{PREFIXES[kind]}'.",
            param=f"{where}.id",
            code="invalid_value",
        )


def _check_call_id(item: Json, where: str, issued: Issued) -> None:
    id = item.get("call_id")
    if not isinstance(id, str) or not id:
        message = f"Missing required parameter: '{where}.call_id'."
        raise Refused(message, param=f"{where}.call_id", code="missing_required_parameter")
    if len(id) > 64:
        raise Refused(
            f"Invalid '{where}.call_id': string too long. Expected a string with maximum length 64, but got a string "
            f"with length {len(id)} instead.",
            param=f"{where}.call_id",
            code="string_above_max_length",
        )
    if not ID.fullmatch(id) and id not in issued.call_ids:
        raise Refused(f"Invalid '{where}.call_id': '{id}'.", param=f"{where}.call_id", code="invalid_value")


def _check_message(item: Json, where: str, model: str) -> None:
    role = item.get("role")
    _one_of(role, ("user", "assistant", "system", "developer"), f"{where}.role")
    content = item.get("content")
    if content in ("", [], None):
        raise Refused(f"Invalid '{where}.content': empty content.", param=f"{where}.content", code="invalid_value")
    if isinstance(content, str):
        return
    allowed = ("output_text", "refusal") if role == "assistant" else INPUT_PARTS
    _check_parts(content, allowed, f"{where}.content", model)
    if "status" in item and role != "assistant":
        raise Refused(f"Unknown parameter: '{where}.status'.", param=f"{where}.status", code="unknown_parameter")


def _check_parts(parts: Any, allowed: tuple[str, ...], where: str, model: str) -> None:
    if not isinstance(parts, list):
        raise Refused(f"Invalid type for '{where}': expected a string or a list.", param=where, code="invalid_type")
    for index, part in enumerate(parts):
        place = f"{where}[{index}]"
        kind = part.get("type") if isinstance(part, dict) else None
        _one_of(kind, allowed, place)
        value = part.get("refusal" if kind == "refusal" else "text")
        if kind in ("input_text", "output_text", "refusal") and (not isinstance(value, str) or not value):
            raise Refused(f"Invalid '{place}.text': empty string.", param=f"{place}.text", code="empty_string")
        if kind == "input_image":
            check_image_url(part.get("image_url"), f"{place}.image_url", model)


def check_image_url(url: Any, where: str, model: str) -> None:
    if text_only(model):
        raise Refused("Invalid content type. image_url is only supported by certain models.", param=where)
    if not isinstance(url, str) or not re.match(r"https?://|data:image/(png|jpeg|gif|webp);base64,\S", url):
        raise Refused(f"Invalid '{where}'. Expected a valid URL.", param=where, code="invalid_image_url")


def _check_pairs(items: list[Json]) -> None:
    calls: set[str] = set()
    answered: set[str] = set()
    for index, item in enumerate(items):
        if item.get("type") == "function_call":
            if item["call_id"] in calls:
                raise Refused(f"Duplicate function call with call_id {item['call_id']}.", param=f"input[{index}]")
            calls.add(item["call_id"])
        elif item.get("type") == "function_call_output":
            id = item["call_id"]
            if id not in calls:
                raise Refused(f"No tool call found for function call output with call_id {id}.", param="input")
            if id in answered:
                raise Refused(f"Duplicate function call output with call_id {id}.", param=f"input[{index}]")
            answered.add(id)
    for id in calls - answered:
        raise Refused(f"No tool output found for function call {id}.", param="input")


def _check_reasoning(items: list[Json], model: str, issued: Issued) -> None:
    present: set[str] = set()
    for index, item in enumerate(items):
        if item.get("type") == "reasoning":
            _check_sealed(item, model, issued)
            present.add(item["id"])
            following = items[index + 1] if index + 1 < len(items) else {}
            kind = following.get("type", "message") if following else None
            own = kind in ("reasoning", "function_call", "web_search_call") or (
                kind == "message" and following["role"] == "assistant"
            )
            if not own:
                raise Refused(
                    f"Item '{item['id']}' of type 'reasoning' was provided without its required following item.",
                    param="input",
                )
            continue
        needed = issued.needs_reasoning.get(item.get("id") or "")
        if needed is not None and needed not in present:
            raise Refused(
                f"Item '{item['id']}' of type '{item.get('type')}' was provided without its required 'reasoning' item: "
                f"'{needed}'.",
                param="input",
            )


def _check_sealed(item: Json, model: str, issued: Issued) -> None:
    sealed = item.get("encrypted_content")
    if not sealed:
        raise _not_found(item["id"])
    if (model, item["id"]) not in issued.reasoning.get(sealed, ()):
        raise Refused(
            f"The encrypted content {sealed[:6]}... could not be verified. Reason: Encrypted content could not be "
            "decrypted or parsed.",
            code="invalid_encrypted_content",
        )


def _not_found(id: Any) -> Refused:
    return Refused(
        f"Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with `store` "
        "set to true, or remove this item from your input.",
        status=404,
        param="input",
    )
