"""The `browser` tool at work: one row for each action, and the browsers that come of them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from palinurus.clock import Clock
from palinurus.config.sections.browser import BrowserSettings
from palinurus.core.policy.address import AddressRefusal, parse_url
from palinurus.core.types.messages import TextBlock
from palinurus.core.types.tool import ToolContext, ToolFailure, ToolOutput
from palinurus.core.untrusted import clean_label
from palinurus.tools.browser import pages
from palinurus.tools.browser.answers import LOAD, BrowserCall
from palinurus.tools.browser.gate import is_named
from palinurus.tools.browser.link import BrowserFault
from palinurus.tools.browser.live import LiveBrowser
from palinurus.tools.browser.looking import refresh_title
from palinurus.tools.browser.offer import LocalPage
from palinurus.tools.browser.pool import BrowserPool
from palinurus.tools.browser.still import photograph_local_page
from palinurus.tools.browser.tab import BrowserTab, PromptOpened
from palinurus.tools.web.egress import EgressGuard

# actions without a page


async def _status(call: BrowserCall) -> ToolOutput:
    live = call.pool.find(call.key)
    settings = call.pool.settings
    body: dict[str, Any] = {
        "enabled": True,
        "running": live is not None,
        "profile": call.key.profile,
        "headless": settings.headless,
        "evaluateEnabled": settings.evaluate,
        "own": not call.pool.find_address(call.key.profile),
    }
    if live is not None:
        body["tabs"] = len(live.list_tabs(call.ctx.session))
        if live.proxy is not None and live.proxy.refused:
            body["refused"] = [clean_label(f"{one.host}: {one.why}", 300) for one in list(live.proxy.refused)[-5:]]
    return call.own(body)


async def _start(call: BrowserCall) -> ToolOutput:
    return call.own({"ok": True, "running": True, "profile": call.key.profile, "tabs": len(call.browser.tabs)})


async def _stop(call: BrowserCall) -> ToolOutput:
    return call.own({"ok": True, "stopped": await call.pool.stop(call.key), "profile": call.key.profile})


async def _profiles(call: BrowserCall) -> ToolOutput:
    found = []
    for name in call.pool.list_profiles():
        key = call.pool.name_key(call.ctx, name)
        kind = "a person's own browser; using it is asked about" if call.pool.find_address(name) else "ours"
        found.append({"name": name, "kind": kind, "running": call.pool.find(key) is not None})
    return call.own({"profiles": found})


# tabs


async def _tabs(call: BrowserCall) -> ToolOutput:
    found = call.browser.list_tabs(call.ctx.session)
    if not found:
        return call.own({"tabs": []})
    current = call.browser.find_tab(call.ctx.session)
    rows = [
        {
            "targetId": tab.id,
            "url": clean_label(tab.url, 500),
            "title": clean_label(tab.title),
            **({"current": True} if tab is current else {}),
        }
        for tab in found
    ]
    body = {"tabs": rows}
    return ToolOutput((TextBlock(json.dumps(body, ensure_ascii=False)),), body, source="web")


async def _open(call: BrowserCall) -> ToolOutput:
    url = await _judge_address(call)
    tab = await call.browser.open_tab(call.ctx.session, call.pool.settings.tabs)
    return await _go(call, tab, url)


async def _navigate(call: BrowserCall) -> ToolOutput:
    url = await _judge_address(call)
    return await _go(call, call.tab, url)


async def _judge_address(call: BrowserCall) -> str:
    """The address, if it may be opened. Raises ToolFailure."""
    given = call.text("targetUrl") or call.text("url")
    if not given:
        raise ToolFailure("targetUrl is missing: an http or https address")
    if given == "about:blank":
        return given
    parsed = parse_url(given)
    if isinstance(parsed, AddressRefusal):
        raise ToolFailure(f"Not opened: {parsed.why}")
    await call.egress.open_route(given, call.pool.settings.rules)
    if is_named(call.ctx, given):
        call.browser.given.setdefault(call.ctx.session, set()).add(parsed.host)
    return given


async def _go(call: BrowserCall, tab: BrowserTab, url: str) -> ToolOutput:
    refused = call.browser.proxy.count if call.browser.proxy else 0
    told: dict[str, Any] = {"ok": True}
    try:
        answer = await tab.run_guarded(tab.send("Page.navigate", {"url": url}))
        if answer.get("errorText") and not answer.get("isDownload"):
            why = _last_refusal(call.browser, refused) or answer["errorText"]
            raise ToolFailure(f"{clean_label(url)} cannot be opened: {why}")
        if answer.get("isDownload"):
            told["download"] = "a file is coming: action=waitfordownload"
        elif answer.get("loaderId"):
            loader = answer["loaderId"]
            await tab.until(lambda: tab.prompt is not None or tab.loader == loader, 5)
            if not await tab.wait_loaded(call.seconds(LOAD)):
                told["loading"] = "it still loads; what is there can be used"
        await tab.run_guarded(refresh_title(tab))
    except PromptOpened:
        told["ok"] = False
    if (why := _last_refusal(call.browser, refused)) and told["ok"]:
        told["refused"] = clean_label(why, 300)
    return call.page(tab, {}, told)


def _last_refusal(browser: LiveBrowser, before: int) -> str:
    if browser.proxy is None or browser.proxy.count == before or not browser.proxy.refused:
        return ""
    return browser.proxy.refused[-1].why


async def _focus(call: BrowserCall) -> ToolOutput:
    tab = call.tab
    await call.browser.focus_tab(tab)
    return call.page(tab, {}, {"ok": True})


async def _close(call: BrowserCall) -> ToolOutput:
    tab = call.tab
    await call.browser.close_tab(tab)
    return call.own({"ok": True, "closed": tab.id})


Action = Callable[[BrowserCall], Awaitable[ToolOutput]]
WITHOUT_BROWSER: dict[str, Action] = {"status": _status, "stop": _stop, "profiles": _profiles}
WITH_BROWSER: dict[str, Action] = {
    "start": _start,
    "tabs": _tabs,
    "open": _open,
    "focus": _focus,
    "close": _close,
    "snapshot": pages.look_at_page,
    "screenshot": pages.photograph_page,
    "navigate": _navigate,
    "console": pages.read_console,
    "pdf": pages.print_to_file,
    "upload": pages.upload_files,
    "download": pages.download_file,
    "waitfordownload": pages.download_file,
    "dialog": pages.answer_dialog,
    "cookies": pages.list_cookies,
    "act": pages.act_on_page,
}


class BrowserDriver:
    """`run` does one call; `close` ends every browser."""

    def __init__(
        self, settings: BrowserSettings, program: str, home: str, egress: EgressGuard, *, clock: Clock
    ) -> None:
        self._pool = BrowserPool(settings, program, home, egress, clock=clock)
        self._egress = egress
        self._clock = clock

    async def run(self, ctx: ToolContext, given: dict[str, Any]) -> ToolOutput:
        """The output. Raises ToolFailure."""
        action, request = str(given.get("action") or ""), given.get("request")
        # only of an act: the gate has looked at everything else where it stands
        args = {**request, **given} if action == "act" and isinstance(request, dict) else given
        key = self._pool.name_key(ctx, str(args.get("profile") or ""))
        call = BrowserCall(ctx, args, self._pool, key, egress=self._egress)
        if (bare := WITHOUT_BROWSER.get(action)) is not None:
            return await bare(call)
        work = WITH_BROWSER.get(action)
        if work is None:
            raise ToolFailure(f"there is no action {action[:40]!r}")
        started = self._clock.monotonic()
        async with self._pool.use(ctx, key) as live:
            ctx.update(f"{action} {call.text('kind')}".strip())
            try:
                output = await work(msgspec.structs.replace(call, live=live))
            except PromptOpened:
                raise BrowserFault("a prompt came in the way; look with action=snapshot") from None
        if isinstance(output.details, dict):
            output.details["tookMs"] = round((self._clock.monotonic() - started) * 1000)
        return output

    async def photograph(self, ctx: ToolContext, page: LocalPage) -> tuple[str, str]:
        """See `BrowserOffer.photograph`."""
        profile = next(one for one in self._pool.list_profiles() if not self._pool.find_address(one))
        async with self._pool.use(ctx, self._pool.name_key(ctx, profile)) as live:
            taken = await photograph_local_page(live, page)
        return taken.data, taken.mime

    async def close(self) -> None:
        """End every browser; cookies stay in their profiles."""
        await self._pool.close()
