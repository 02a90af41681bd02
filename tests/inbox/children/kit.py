"""A sub-agent for tests."""

from __future__ import annotations

from typing import Any

from palinurus.inbox.children.record import Child
from support import inbound


def child(ident: str = "aaaa1111", **changes: Any) -> Child:
    fields: dict[str, Any] = {
        "parent": "agent:main:main",
        "session": f"agent:main:subagent:{ident}",
        "task": f"task of {ident}",
        "asker": inbound(""),
        "made": 0,
        "state": "open",
    }
    return Child(ident, **{**fields, **changes})
