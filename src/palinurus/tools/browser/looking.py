"""What a page looks like: its text with refs, pictures, papers. Changes nothing on the page."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from typing import Any

import msgspec

from palinurus.tools.browser.link import BrowserFault
from palinurus.tools.browser.snapshot import (
    AxNode,
    ElementRef,
    FrameTree,
    PageSnapshot,
    SnapshotOptions,
    render_page,
)
from palinurus.tools.browser.tab import BrowserTab

WORLD = "palinurus"  # our functions run beside those of the page, which cannot change them
COMPARED = 60_000  # characters of a page that are compared with what it becomes
MAX_HEIGHT = 10_000  # pixels of a picture of a whole page
MAX_PICTURE = 4 << 20  # bytes; a larger one is taken again, smaller
_FRAMES = ("iframe", "iframepresentational")
_NOT_CLICKED = frozenset(("HTML", "BODY", "#document", "HEAD", "SCRIPT", "LABEL"))


async def call_on(tab: BrowserTab, element: ElementRef, function: str, *args: Any, main: bool = False) -> Any:
    """What the function returns, called with the element as `this`; `main`: among the page's own. Raises
    BrowserFault."""
    told: dict[str, Any] = {"backendNodeId": element.node}
    if not main:
        told["executionContextId"] = await enter_world(tab, element.session, element.frame)
    try:
        found = await tab.send("DOM.resolveNode", told, element.session)
    except BrowserFault:
        raise BrowserFault(f"the {element.role} {element.name[:60]!r} is gone; take a new snapshot") from None
    asked = {
        "functionDeclaration": function,
        "objectId": found["object"]["objectId"],
        "arguments": [{"value": arg} for arg in args],
        "returnByValue": True,
        "awaitPromise": True,
    }
    return read_result(await tab.send("Runtime.callFunctionOn", asked, element.session))


async def enter_world(tab: BrowserTab, session: str, frame: str) -> int:
    """Where our own functions run in that frame. Raises BrowserFault."""
    made = await tab.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": WORLD}, session)
    return int(made["executionContextId"])


async def refresh_title(tab: BrowserTab) -> None:
    """What the page is called now."""
    with contextlib.suppress(BrowserFault):
        answer = await tab.send("Runtime.evaluate", {"expression": "document.title", "returnByValue": True})
        tab.title = str(read_result(answer))


async def evaluate(tab: BrowserTab, expression: str, *, session: str = "", frame: str = "", main: bool = False) -> Any:
    """The value of an expression in a frame. Raises BrowserFault."""
    told: dict[str, Any] = {"expression": expression, "returnByValue": True, "awaitPromise": True, "userGesture": main}
    if not main:
        told["contextId"] = await enter_world(tab, session or tab.session, frame or tab.target)
    return read_result(await tab.send("Runtime.evaluate", told, session or tab.session))


def read_result(answer: dict[str, Any]) -> Any:
    """The value. Raises BrowserFault if it threw."""
    if "exceptionDetails" in answer:
        details = answer["exceptionDetails"]
        said = details.get("exception", {}).get("description") or details.get("text", "it failed")
        raise BrowserFault(str(said).splitlines()[0][:300])
    return answer.get("result", {}).get("value")


class _Collector:
    """The trees of a page and of the frames in it."""

    def __init__(self, tab: BrowserTab) -> None:
        self._tab = tab
        self.trees: dict[str, FrameTree] = {}
        self._marks: dict[str, dict[int, str]] = {}

    async def collect(self, session: str, frame: str, depth: int = 0) -> None:
        if frame in self.trees or depth > 8:
            return
        tab = self._tab
        if session not in self._marks:
            self._marks[session] = await _find_marked(tab, session)
        got = await tab.send("Accessibility.getFullAXTree", {"frameId": frame}, session)
        nodes: list[AxNode] = got["nodes"]
        inner: dict[int, str] = {}
        self.trees[frame] = FrameTree(session, frame, nodes, inner, marked=self._marks[session])
        for node in nodes:
            if str(node.get("role", {}).get("value", "")).lower() in _FRAMES and node.get("backendDOMNodeId"):
                ident = int(node["backendDOMNodeId"])
                held = await tab.send("DOM.describeNode", {"backendNodeId": ident}, session)
                child = held["node"].get("frameId", "")
                if child:
                    inner[ident] = child
                    try:
                        await self.collect(tab.inner.get(child, session), child, depth + 1)
                    except BrowserFault:
                        continue  # it is loading, or went away


async def _find_marked(tab: BrowserTab, session: str) -> dict[int, str]:
    """DOM nodes that listen to clicks, can be dragged or drawn on, whatever their roles say."""
    got = await tab.send("DOMSnapshot.captureSnapshot", {"computedStyles": []}, session)
    texts: list[str] = got["strings"]
    wanted = texts.index("draggable") if "draggable" in texts else -1
    canvas = texts.index("CANVAS") if "CANVAS" in texts else -1
    found: dict[int, str] = {}
    for document in got["documents"]:
        nodes = document["nodes"]
        idents, names = nodes["backendNodeId"], nodes["nodeName"]
        shown = set(document["layout"]["nodeIndex"])
        for index in nodes.get("isClickable", {}).get("index", ()):
            if index in shown and texts[names[index]] not in _NOT_CLICKED:
                found[idents[index]] = "clickable"
        if wanted >= 0:
            rows = enumerate(nodes.get("attributes", ()))
            found |= {idents[at]: "draggable" for at, pairs in rows if at in shown and wanted in pairs[::2]}
        if canvas >= 0:
            found |= {idents[at]: "canvas" for at, name in enumerate(names) if at in shown and name == canvas}
    return found


async def find_by_selector(tab: BrowserTab, selector: str) -> dict[str, Any]:
    """The first element that a CSS selector finds, as the DOM describes it. Raises BrowserFault."""
    told = {
        "functionDeclaration": "function (s) { return document.querySelector(s) }",
        "executionContextId": await enter_world(tab, tab.session, tab.target),
        "arguments": [{"value": selector}],
    }
    answer = await tab.send("Runtime.callFunctionOn", told)
    read_result({**answer, "result": {}})
    ident = answer["result"].get("objectId")
    if not ident:
        raise BrowserFault(f"nothing on the page is {selector[:80]!r}")
    found: dict[str, Any] = (await tab.send("DOM.describeNode", {"objectId": ident}))["node"]
    return found


async def take_snapshot(
    tab: BrowserTab, options: SnapshotOptions, *, selector: str = "", frame: str = ""
) -> PageSnapshot:
    """The page as text; what is seen gets refs. All of it is kept for the next comparison. Raises BrowserFault."""
    collector = _Collector(tab)
    await asyncio.gather(collector.collect(tab.session, tab.target), refresh_title(tab))
    start = tab.target
    if frame:
        start = (await find_by_selector(tab, frame)).get("frameId", "")
        if start not in collector.trees:
            raise BrowserFault(f"{frame[:80]!r} is no frame that can be looked into")
    if selector:
        node = await find_by_selector(tab, selector)
        options = msgspec.structs.replace(options, root=int(node["backendNodeId"]))
    shown = render_page(collector.trees, start, options, tab.refs)
    tab.last = render_page(collector.trees, tab.target, SnapshotOptions(chars=COMPARED), tab.refs)
    return shown


async def find_corner(tab: BrowserTab, session: str) -> tuple[float, float]:
    """Where a frame with a session of its own stands in the view of the page. Raises BrowserFault."""
    x = y = 0.0
    while session != tab.session and session in tab.around:
        frame = next((one for one, held in tab.inner.items() if held == session), "")
        outer = tab.around[session]
        owner = await tab.send("DOM.getFrameOwner", {"frameId": frame}, outer)
        box = await tab.send("DOM.getBoxModel", {"backendNodeId": owner["backendNodeId"]}, outer)
        x, y = x + box["model"]["content"][0], y + box["model"]["content"][1]
        session = outer
    return x, y


class Picture(msgspec.Struct, frozen=True):
    """A picture as it is sent on."""

    data: str  # base64
    mime: str


async def take_picture(tab: BrowserTab, element: ElementRef | None, *, full: bool, jpeg: bool) -> Picture:
    """Of the view, of the whole page, or of one element. Raises BrowserFault."""
    told: dict[str, Any] = {}
    metrics = await tab.send("Page.getLayoutMetrics")
    view, content = metrics["cssVisualViewport"], metrics["cssContentSize"]
    if element is not None:
        await tab.send("DOM.scrollIntoViewIfNeeded", {"backendNodeId": element.node}, element.session)
        view = (await tab.send("Page.getLayoutMetrics"))["cssVisualViewport"]
        box = await tab.send("DOM.getBoxModel", {"backendNodeId": element.node}, element.session)
        quad = box["model"]["border"]
        x, y = await find_corner(tab, element.session)
        left, top = min(quad[::2]) + x + view["pageX"], min(quad[1::2]) + y + view["pageY"]
        wide, high = max(quad[::2]) - min(quad[::2]), max(quad[1::2]) - min(quad[1::2])
        told["clip"] = {"x": left, "y": top, "width": max(wide, 1), "height": max(high, 1), "scale": 1}
    elif full:
        high = min(content["height"], MAX_HEIGHT)
        told["clip"] = {"x": 0, "y": 0, "width": content["width"], "height": max(high, 1), "scale": 1}
    told["captureBeyondViewport"] = "clip" in told
    kind = "jpeg" if jpeg else "png"
    taken = (await tab.send("Page.captureScreenshot", {**told, "format": kind}))["data"]
    if len(taken) * 3 // 4 > MAX_PICTURE:
        kind = "jpeg"
        taken = (await tab.send("Page.captureScreenshot", {**told, "format": kind, "quality": 50}))["data"]
    return Picture(taken, f"image/{kind}")


async def print_page(tab: BrowserTab) -> bytes:
    """The page as a PDF. Raises BrowserFault."""
    made = await tab.send("Page.printToPDF", {"printBackground": True, "transferMode": "ReturnAsBase64"})
    return await asyncio.to_thread(base64.b64decode, made["data"])
