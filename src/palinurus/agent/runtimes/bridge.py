"""Questions of another program ("may I run this?"), put to hooks and people as our own tools' questions are.

Whatever is not clearly allowed is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from palinurus.agent.plan.runplan import RunPlan
from palinurus.agent.ports import RunPorts
from palinurus.core.types.approval import ApprovalRequest
from palinurus.core.types.events import RunEvent, ToolUpdate

# What stands for a tool of ours is allowed only if one of these is.
_WRITES = frozenset({"write", "edit", "apply_patch"})
LIKE: dict[str, frozenset[str]] = {
    **{name: frozenset({name}) for name in ("exec", "read", "web_fetch", "web_search", "sessions_spawn")},
    **dict.fromkeys(_WRITES, _WRITES),
}
SHOWN = 4_000  # characters of a question's text


class ApprovalBridge:
    """One per run. `post` shows an event."""

    def __init__(self, plan: RunPlan, ports: RunPorts, post: Callable[[RunEvent], None], host: str) -> None:
        self._plan = plan
        self._ports = ports
        self._post = post
        self._host = host

    async def find_refusal(self, call: str, tool: str, args: dict[str, Any], why: str = "") -> str:
        """Why the program may not do it; "" if it may. `args` is all that decides the effect."""
        plan, rules = self._plan, self._plan.settings.rules
        if tool == "exec" and rules.security == "deny":
            return "commands are not allowed here"
        if tool in LIKE and LIKE[tool].isdisjoint(plan.tools):
            return f"{tool} is not allowed here"
        if reason := await self._hooked(call, tool, args):
            return reason
        approver = self._ports.approver
        if approver is None:
            return "nobody can be asked here"
        shown = msgspec.json.format(msgspec.json.encode(args, enc_hook=str), indent=1).decode()
        command = str(args.get("command") or "")
        ask = ApprovalRequest(
            "exec" if command else "tool",
            plan.route.agent,
            str(plan.route.key),
            plan.id,
            call=call,
            tool=tool,
            title=f"{self._host}: {command or tool}"[:200],
            command=command or shown[:SHOWN],
            cwd=str(args.get("cwd") or plan.workspace),
            host=self._host,
            binding={"args": hashlib.sha256(shown.encode()).hexdigest()},
            taint=plan.taint,
            why=why or f"{self._host} asks before it does this",
            allowed=("allow-once", "deny"),
            timeout=rules.timeout,
            asker=plan.inbound.sender.id,
        )

        def put(ident: str, card: str) -> None:
            self._post(ToolUpdate(call, tool, card, ident))

        told = await approver.ask(ask, put if plan.inbound.may_answer else None)
        return "" if told.allowed else f"not allowed: {told.by or 'denied'}"

    async def _hooked(self, call: str, tool: str, args: dict[str, Any]) -> str:
        """before_tool_call: it may block; arguments are the program's and stay as they are."""
        hooks, plan = self._ports.hooks, self._plan
        if not hooks.has("before_tool_call"):
            return ""
        whose = {"runId": plan.id, "sessionKey": str(plan.route.key), "agentId": plan.route.agent}
        changes = await hooks.modify(
            "before_tool_call", {"toolName": tool, "toolCallId": call, "params": args, **whose}
        )
        return str(changes.get("blockReason") or "blocked by a before_tool_call hook") if changes.get("block") else ""
