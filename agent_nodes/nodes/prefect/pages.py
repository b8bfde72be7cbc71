"""What a Prefect run shows of a turn, as text: its transcript, its usage, and a line about how it goes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from agent_nodes.host import UsageReport
from agent_nodes.messages import JsonObject, Usage
from agent_nodes.submission import AgentOutputPayload, SessionRef

MOST = 50_000
"""Characters of a transcript; more is in the session."""
MOST_OF_ROW = 4_000
MOST_ROWS = 200

_CUT = "\n\n*(cut here; the session holds the rest)*\n"


def artifact_key(kind: str, session: SessionRef) -> str:
    """The same for every turn of the session, so that the artifacts are versions of one; small letters, digits and
    dashes, as Prefect wants it."""
    names = (session.project, session.conversation_id, session.session_key)
    digest = hashlib.sha256("\0".join(names).encode()).digest()
    words = re.sub(r"[^a-z0-9]+", "-", session.session_key.lower())[:40].strip("-")
    return "-".join(part for part in ("agent", kind, words, base64.b32encode(digest)[:12].decode().lower()) if part)


def session_name(session: SessionRef) -> str:
    return f"{session.project}/{session.conversation_id}/{session.session_key}"


# -- the transcript ----------------------------------------------------------------------------------------------------


def transcript(payload: AgentOutputPayload, prompt: str, items: Sequence[JsonObject]) -> str:
    """The turn in markdown: what was asked, and each row of what came of it."""
    parts = [_head(payload)]
    if prompt.strip():
        parts.append(f"## Prompt\n\n{_quoted(_short(prompt))}")
    parts += [_row(item) for item in items]
    text = "\n\n".join(part for part in parts if part)
    return text if len(text) <= MOST else text[:MOST] + _CUT


def _head(payload: AgentOutputPayload) -> str:
    lines = [f"**{payload.status}**"]
    if payload.session is not None:
        lines.append(f"session `{session_name(payload.session)}`")
    lines.append(f"turn `{payload.request_id}`")
    head = " · ".join(lines)
    return f"{head}\n\n> {payload.reason}: {_one_line(payload.err_message)}" if payload.reason else head


def _row(item: JsonObject) -> str:
    content: Any = item["content"]
    match item["part_type"]:
        case "text":
            return f"## Answer\n\n{content['text']}"
        case "reasoning":
            return f"## Reasoning\n\n{_quoted(_short(content['text']))}"
        case "tool":
            return _tool(content, str(item["status"]))
        case "retry":
            return f"*Asked again ({content.get('kind')}): {_one_line(str(content.get('reason') or ''))}*"
        case _:
            return ""


def _tool(content: Any, status: str) -> str:
    arguments = json.dumps(content.get("arguments") or {}, ensure_ascii=False, indent=2)
    parts = [f"## Tool {content['name']} ({status})", _fenced(_short(arguments), "json")]
    result = content.get("result")
    if isinstance(result, str) or result is None:
        parts += [_fenced(_short(result))] if result else []
    else:
        parts.append(_fenced(_short(json.dumps(result, ensure_ascii=False, indent=2)), "json"))
    return "\n\n".join(parts)


def _short(text: str) -> str:
    return text if len(text) <= MOST_OF_ROW else f"{text[:MOST_OF_ROW]}\n… ({len(text) - MOST_OF_ROW:,} more)"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())


def _fenced(text: str, language: str = "") -> str:
    """In a fence that is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]


# -- the usage ---------------------------------------------------------------------------------------------------------


def usage_table(reports: Sequence[UsageReport]) -> list[JsonObject]:
    """A row for each response of a model, and their sum; costs in US dollars where the prices are known."""
    total, cost = Usage(), cost_of(reports)
    rows: list[JsonObject] = []
    for number, report in enumerate(reports, start=1):
        total += report.usage
        if number <= MOST_ROWS:
            rows.append(_usage_row(str(number), f"{report.provider}/{report.model}", report.usage, report.cost))
    if len(reports) > MOST_ROWS:
        rows.append({"response": f"… {len(reports) - MOST_ROWS} more"})
    return [*rows, _usage_row("all", "", total, cost)]


def cost_of(reports: Sequence[UsageReport]) -> float | None:
    """None where no price is known."""
    costs = [report.cost for report in reports if report.cost is not None]
    return sum(costs) if costs else None


def _usage_row(response: str, model: str, usage: Usage, cost: float | None) -> JsonObject:
    return {
        "response": response,
        "model": model,
        "input": usage.input_tokens,
        "cached": usage.cached_input_tokens,
        "cache written": usage.cache_creation_tokens,
        "output": usage.output_tokens,
        "of it reasoning": usage.reasoning_tokens,
        "cost in $": None if cost is None else round(cost, 6),
    }


# -- a line about it ---------------------------------------------------------------------------------------------------


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def summary(usage: Usage, cost: float | None, tools: int, retries: int) -> str:
    """``2 responses, 1 tool call, 120 tokens in, 40 out, $0.0012``."""
    tokens_in = usage.input_tokens + usage.cached_input_tokens + usage.cache_creation_tokens
    parts = [counted(usage.calls, "response")]
    parts += [counted(number, what) for number, what in ((tools, "tool call"),) if number]
    parts += [f"{retries:,} asked again"] if retries else []
    parts += [f"{tokens_in:,} tokens in", f"{usage.output_tokens:,} out"]
    return ", ".join(parts if cost is None else [*parts, f"${cost:.4f}"])
