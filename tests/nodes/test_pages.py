"""A turn as a Prefect run shows it: bounded, and nothing of it breaks out of its place."""

from typing import Any

from agent_nodes import AgentOutputPayload, UsageReport
from agent_nodes.messages import Usage
from agent_nodes.nodes.prefect.pages import MOST, MOST_OF_ROW, MOST_ROWS, summary, transcript, usage_table
from agent_nodes.submission import SessionRef


def row(part_type: str, status: str = "completed", **content: Any) -> dict[str, Any]:
    return {"id": "1:1", "type": "activity", "part_type": part_type, "status": status, "content": content}


def payload(**fields: Any) -> AgentOutputPayload:
    return AgentOutputPayload(request_id="r", session=SessionRef("p", "c", "k"), **{"status": "answered", **fields})


def report(number: int, cost: float | None = None) -> UsageReport:
    return UsageReport(f"s:{number}", "r", 1, "acme", "m", Usage(10, 2, 3, calls=1), cost)


def test_a_turn_without_an_answer_says_why() -> None:
    page = transcript(payload(status="failed", reason="model_error", err_message="no\nsuch model"), "hi", [])
    assert page == ("**failed** · session `p/c/k` · turn `r`\n\n> model_error: no such model\n\n## Prompt\n\n> hi")


def test_rows_stand_in_their_order_and_those_about_the_context_are_left_out() -> None:
    items = [
        row("retry", kind="dropped", reason="the line broke"),
        row("tool", "in_progress", name="look", arguments={"where": "ü"}),
        row("context", used=1, total=2),
        row("text", text="done"),
    ]
    page = transcript(payload(), "", items)
    assert page.split("\n\n")[1:] == [
        "*Asked again (dropped): the line broke*",
        "## Tool look (in_progress)",
        '```json\n{\n  "where": "ü"\n}\n```',
        "## Answer",
        "done",
    ]


def test_long_rows_and_long_transcripts_are_cut_and_say_so() -> None:
    tool = row("tool", name="look", arguments={}, result="x" * (MOST_OF_ROW + 1_234))
    assert "… (1,234 more)\n```" in transcript(payload(), "", [tool])
    page = transcript(payload(), "", [row("text", text="x" * 2 * MOST)])
    assert len(page) < MOST + 100
    assert page.endswith("the session holds the rest)*\n")


def test_a_fence_is_longer_than_any_inside() -> None:
    page = transcript(payload(), "", [row("tool", name="look", arguments={}, result="a\n`````\nb")])
    assert "``````\na\n`````\nb\n``````" in page


def test_the_table_has_a_row_for_each_response_and_their_sum() -> None:
    first, second, total = usage_table([report(1, 0.25), report(2)])
    assert (first["cost in $"], second["cost in $"], total["cost in $"]) == (0.25, None, 0.25)
    assert (total["input"], total["cached"], total["output"]) == (20, 6, 4)
    many = usage_table([report(number) for number in range(MOST_ROWS + 5)])
    assert many[-2] == {"response": "… 5 more"}
    assert many[-1]["input"] == 10 * (MOST_ROWS + 5)
    assert many[-1]["cost in $"] is None


def test_the_summary_counts_what_there_was() -> None:
    assert summary(Usage(10, 2, 3, calls=1), None, 0, 0) == "1 response, 13 tokens in, 2 out"
    assert summary(Usage(1000, 2, calls=2), 0.5, 1, 2) == (
        "2 responses, 1 tool call, 2 asked again, 1,000 tokens in, 2 out, $0.5000"
    )
