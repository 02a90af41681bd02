"""A browser for tests: the tool through the one door, with a context, a resolver and rules of our own."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from palinurus.clock import SystemClock
from palinurus.config.sections.browser import BrowserSettings
from palinurus.core.policy.address import OpenHosts
from palinurus.core.types.messages import ToolCall, ToolResult
from palinurus.plugins.hooks import Hooks
from palinurus.tools.browser.offer import BrowserOffer
from palinurus.tools.call import call_tool
from palinurus.tools.web.egress import EgressGuard, HostResolver
from support import find_programs
from tools.browser.player import CHROMIUM


async def no_names(host: str, port: int) -> list[str]:
    raise OSError(-2, "Name or service not known")


class BrowserKit:
    """`await kit.do("open", targetUrl=…)` is one call; `ref("button Save")` finds in the last snapshot."""

    def __init__(
        self, home: Path, ctx: Any, hosts: list[str], resolve: HostResolver = no_names, **settings: Any
    ) -> None:
        self.home, self.ctx = home, ctx
        egress = EgressGuard(OpenHosts(frozenset(hosts)), resolve)
        wanted = BrowserSettings(executable=CHROMIUM, **settings)
        self.offer = BrowserOffer(wanted, str(home), {}, egress, clock=SystemClock())
        self.seen = ""

    async def do(self, action: str, **args: Any) -> ToolResult:
        call = ToolCall("call-1", "browser", {"action": action, **args})
        result = await call_tool(call, self.offer.tools(), self.ctx, Hooks())
        told = read(result)
        self.seen = str(told.get("snapshot") or self.seen)
        return result

    async def act(self, kind: str, **args: Any) -> ToolResult:
        return await self.do("act", kind=kind, **args)

    def ref(self, words: str) -> str:
        role, _, name = words.partition(" ")
        found = re.search(rf'- {role} "?{re.escape(name)}[^\n]*?\[ref=(e\d+)\]', self.seen)
        assert found is not None, self.seen
        return found[1]


def read(result: ToolResult) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.text) if result.text.startswith("{") else {}
    return found


async def until_gone(word: str) -> None:
    async with asyncio.timeout(60):
        while find_programs(word):
            await asyncio.sleep(0.05)
