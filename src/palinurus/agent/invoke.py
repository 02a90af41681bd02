"""One tool, called from outside any run: under the same policy, settings and hooks as a run of that session's agent.

Nothing is written down; where a tool would have to ask a person, it is told that nobody can be asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from palinurus.agent.plan.prepare import RunPreparer, RunRefusal
from palinurus.clock import Clock
from palinurus.core.types.inbound import Inbound, Route, Sender, Target
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import ToolCall, ToolResult
from palinurus.core.types.model import ModelFailure
from palinurus.late import load_part
from palinurus.plugins.hooks import Hooks
from palinurus.plugins.peer import find_mcp_peer
from palinurus.store.port import RunClaim

AGAIN = 2  # as an attempt that is not the first: an idle session is not begun anew by a look at it


class DirectToolCaller:
    """Calls tools for `gateway/invoke`."""

    def __init__(
        self, preparer: RunPreparer, hooks: Hooks, clock: Clock, confirm: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._preparer = preparer
        self._hooks = hooks
        self._clock = clock
        self._confirm = confirm

    async def __call__(
        self, key: SessionKey, name: str, arguments: Mapping[str, Any], sender: Sender
    ) -> ToolResult | ModelFailure | None:
        """What the tool returned, errors included; None: this session's agent has no such tool; or why no plan."""
        now = self._clock.now()
        ident = f"invoke:{now}"
        inbound = Inbound(Target("http"), sender, ident, "", at=now, session=str(key), agent=key.agent, push=False)
        claim = RunClaim(ident, str(key), "main", b"", at=now, attempts=AGAIN)
        prepared = await self._preparer.prepare(claim, inbound, Route(key.agent, key, "main"))
        if isinstance(prepared, RunRefusal):
            return prepared.failure
        plan = prepared.plan
        tool = plan.tools.get(name)
        if tool is None:
            return None
        asked = ToolCall(ident, name, dict(arguments))
        peer = find_mcp_peer()
        calls = load_part("tool-context")
        # A client asks in its own name: about an effect a person would be asked after its message, and nobody is here.
        whose = () if sender.owner or tool.effect == "pure" else (inbound.origin,)
        seen = calls.CallProvenance(taint=whose, confirm=self._confirm)
        context = calls.RunToolContext(
            plan, asked, self._clock, lambda _, text: peer.log("info", text) if peer else None, seen=seen
        )
        result: ToolResult = await load_part("tool-call")(asked, {name: tool}, context, self._hooks)
        return result
