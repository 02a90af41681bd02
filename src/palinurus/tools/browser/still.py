"""A picture of a page that comes from the program itself: with cookies of its own, a proxy at which nobody answers, and
every request answered here or refused. So nothing in the page reaches the network, whatever it tries.
"""

from __future__ import annotations

import base64
import contextlib
from typing import Any
from urllib.parse import unquote, urlsplit

from palinurus.tools.browser.link import BrowserFault
from palinurus.tools.browser.live import LiveBrowser
from palinurus.tools.browser.looking import Picture, take_picture
from palinurus.tools.browser.offer import LocalPage
from palinurus.tools.browser.tab import BrowserTab

OWNER = "a picture of our own"  # no session is called so
LOAD = 20.0  # seconds
NOWHERE = {"proxyServer": "http://127.0.0.1:1", "proxyBypassList": "<-loopback>", "disposeOnDetach": True}


async def photograph_local_page(live: LiveBrowser, page: LocalPage) -> Picture:
    """The page, drawn anew. Raises BrowserFault."""
    made = await live.link.send("Target.createBrowserContext", NOWHERE)
    context = made["browserContextId"]
    try:
        tab = await live.open_tab(OWNER, 4, context)
        try:
            return await _draw(tab, page)
        finally:
            await live.close_tab(tab)
    finally:
        with contextlib.suppress(BrowserFault):
            await live.link.send("Target.disposeBrowserContext", {"browserContextId": context})


async def _draw(tab: BrowserTab, page: LocalPage) -> Picture:
    host = urlsplit(page.address).netloc

    async def answer(params: dict[str, Any]) -> None:
        asked = urlsplit(params["request"]["url"])
        found = await page.serve(unquote(asked.path)) if asked.netloc == host else None
        if found is None:
            refusal = {"requestId": params["requestId"], "errorReason": "BlockedByClient"}
            await tab.send("Fetch.failRequest", refusal)
            return
        kind, body = found
        told = {**page.headers, "Content-Type": f"{kind}; charset=utf-8", "X-Content-Type-Options": "nosniff"}
        headers = [{"name": name, "value": value} for name, value in told.items()]
        data = base64.b64encode(body).decode()
        reply = {"requestId": params["requestId"], "responseCode": 200, "responseHeaders": headers, "body": data}
        await tab.send("Fetch.fulfillRequest", reply)

    tab.fulfil = answer
    await tab.send("Fetch.enable", {"patterns": [{"urlPattern": "*"}]})
    width, height = page.size
    view = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    await tab.send("Emulation.setDeviceMetricsOverride", view)
    got = await tab.send("Page.navigate", {"url": page.address})
    if got.get("errorText"):
        raise BrowserFault(f"the page could not be drawn: {got['errorText']}")
    await tab.until(lambda: tab.loader == got.get("loaderId"), LOAD)
    await tab.wait_loaded(LOAD)
    await tab.until(lambda: tab.prompt is not None, max(page.delay, 0.2))  # what is drawn after loading
    if tab.prompt is not None:
        raise BrowserFault("the page opened a dialog, so no picture could be taken")
    return await take_picture(tab, None, full=False, jpeg=page.jpeg)
