"""A sub-agent for tests."""

from __future__ import annotations

from typing import Any

from palinurus.services.subagents.registry import SubagentRecord
from support import inbound


def child(ident: str = "aaaa1111", **changes: Any) -> SubagentRecord:
    fields: dict[str, Any] = {
        "parent": "agent:main:main",
        "session": f"agent:main:subagent:{ident}",
        "task": f"task of {ident}",
        "asker": inbound(""),
        "made": 0,
        "state": "open",
    }
    return SubagentRecord(ident, **{**fields, **changes})
