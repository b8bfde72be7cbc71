"""What the text columns of the tables may hold, importable without the library that declares the tables."""

from __future__ import annotations

from typing import Literal, TypeAlias

TargetKind: TypeAlias = Literal["main", "fork", "child"]
EntryKind: TypeAlias = Literal["user", "assistant", "tool_result", "system", "continuation", "compaction", "reset"]
TurnStatus: TypeAlias = Literal["running", "waiting", "answered", "unanswered"]
InboxState: TypeAlias = Literal["queued", "placed", "settled", "withdrawn"]
TaskStatus: TypeAlias = Literal["pending", "running", "waiting", "completing", "terminal"]
Replay: TypeAlias = Literal["never", "safe"]
WaitPolicy: TypeAlias = Literal["allSettled", "failFast"]
ProgressKind: TypeAlias = Literal["text", "thinking", "output", "details"]
DecisionKind: TypeAlias = Literal["tool", "plan", "question"]
DecisionState: TypeAlias = Literal["open", "answered", "cancelled"]
DocumentScope: TypeAlias = Literal["session", "target", "task"]
RecordKind: TypeAlias = Literal["prompt", "config", "extension", "storage", "environment"]
