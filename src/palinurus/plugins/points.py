"""The hook points: one table. A new point is a new row.

kind: observe = run in parallel, errors logged, result ignored; modify = one after another, higher priority
first, merged; guard = modify that fails closed; sync = modify without awaiting.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Point(NamedTuple):
    kind: Literal["observe", "modify", "guard", "sync"]
    deadline: float  # seconds a handler may take


POINTS: dict[str, Point] = {
    "before_agent_start": Point("modify", 15),
    "agent:bootstrap": Point("modify", 15),
    "before_prompt_build": Point("modify", 15),
    "agent_end": Point("observe", 30),
    "before_compaction": Point("observe", 30),
    "after_compaction": Point("observe", 30),
    "before_reset": Point("observe", 30),
    "before_tool_call": Point("guard", 30),
    "after_tool_call": Point("observe", 30),
    "tool_result_persist": Point("sync", 1),
    "message_received": Point("observe", 30),
    "message_sending": Point("modify", 15),
    "message_sent": Point("observe", 30),
    "session_start": Point("observe", 30),
    "session_end": Point("observe", 30),
    "gateway_start": Point("observe", 30),
    "gateway_stop": Point("observe", 30),
}
