"""One call of the browser tool, and how its result is told: what a page says is framed, as `web_fetch` does it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.core.types.messages import TextBlock
from palinurus.core.types.tool import ToolContext, ToolOutput
from palinurus.core.untrusted import clean_label, wrap_untrusted
from palinurus.tools.browser.live import LiveBrowser
from palinurus.tools.browser.pool import BrowserKey, BrowserPool
from palinurus.tools.browser.tab import BrowserTab
from palinurus.tools.web.egress import EgressGuard

LOAD = 20.0  # seconds a page may take before it is told that it still loads
LONGEST = 120.0


class BrowserCall(msgspec.Struct, frozen=True):
    """One call of the tool. `browser` is there for all actions that need one."""

    ctx: ToolContext
    args: Mapping[str, Any]
    pool: BrowserPool
    key: BrowserKey
    egress: EgressGuard
    live: LiveBrowser | None = None

    @property
    def browser(self) -> LiveBrowser:
        assert self.live is not None  # `BrowserDriver.run` sees to it
        return self.live

    @property
    def tab(self) -> BrowserTab:
        """The tab that is meant. Raises ToolFailure."""
        return self.browser.find_tab(self.ctx.session, self.text("targetId"))

    def text(self, name: str) -> str:
        return str(self.args.get(name) or "").strip()

    def seconds(self, usual: float) -> float:
        return min(max(float(self.args.get("timeoutMs") or usual * 1000) / 1000, 0.1), LONGEST)

    def own(self, body: dict[str, Any]) -> ToolOutput:
        """Our own words."""
        return ToolOutput((TextBlock(json.dumps(body, ensure_ascii=False)),), body, source="own")

    def page(self, tab: BrowserTab, said: Mapping[str, str], more: Mapping[str, Any] = {}) -> ToolOutput:
        """What a page says: `said` is framed, each under its name."""
        body: dict[str, Any] = {"targetId": tab.id, "url": clean_label(tab.url, 500), **more}
        title = {"title": clean_label(tab.title)} if tab.title else {}
        if tab.prompt is not None:
            said = {"prompt": f"{tab.prompt.kind}: {tab.prompt.text[:1000]}", **said}
            body["blockedByDialog"] = True
        if tab.chooser is not None:
            body["fileChooser"] = "the page waits for files: action=upload with paths"
        if tab.answered:
            said = {**said, "answeredDialogs": "\n".join(tab.answered)}
            tab.answered.clear()
        framed = {name: wrap_untrusted(text, "web", secrets.token_hex(16)) for name, text in said.items() if text}
        told = {**body, **title, "externalContent": {"untrusted": True, "source": "browser", "wrapped": True}, **framed}
        return ToolOutput((TextBlock(json.dumps(told, indent=2, ensure_ascii=False)),), told, source="web")
