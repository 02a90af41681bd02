"""`action=act`: one row for each kind. Resolves refs, asks the gate, acts, and says what the page looks like then."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from palinurus.core.types.tool import ToolContext, ToolFailure
from palinurus.tools.browser import acting
from palinurus.tools.browser.gate import SENDS, PageSending, require_leave
from palinurus.tools.browser.keys import MODIFIERS
from palinurus.tools.browser.link import BrowserFault
from palinurus.tools.browser.live import LiveBrowser
from palinurus.tools.browser.looking import call_on, evaluate, read_result, take_snapshot
from palinurus.tools.browser.snapshot import ElementRef, SnapshotOptions, describe_change
from palinurus.tools.browser.tab import BrowserTab, PromptOpened
from palinurus.tools.browser.waiting import LONGEST, WaitGoal, wait_for_page

SETTLE = 10.0  # seconds a page may take to load what an action began
CHANGE = 3000  # characters of what an action changed
_RESULT = 8000  # characters of what a script returned
_SIZES = (200, 4000)
_PRESSED = ("button", "clickable", "menuitem", "togglebutton")
_SECRET = "function () { return this.type === 'password' }"


class PageAct(msgspec.Struct, frozen=True):
    """One act on one tab."""

    ctx: ToolContext
    browser: LiveBrowser
    tab: BrowserTab
    args: Mapping[str, Any]
    scripts: bool  # may run scripts

    def element(self, name: str = "ref") -> ElementRef:
        """What a ref stands for. Raises ToolFailure."""
        ref = str(self.args.get(name) or "")
        if not ref:
            raise ToolFailure(f"{name} is missing: an element of the last snapshot, such as e12")
        found = self.tab.refs.find(ref)
        if found is None:
            raise ToolFailure(f"{ref[:20]} is not on the page as it is now; take a new snapshot")
        return found

    @property
    def named(self) -> frozenset[str]:
        return frozenset(self.browser.given.get(self.ctx.session, ()))

    async def leave(self, what: str, *, values: tuple[str, ...], secret: bool = False) -> None:
        """Words for the page: where nobody of ours named its host, only those the owner gave. Raises ToolFailure."""
        host = (urlsplit(self.tab.url).hostname or "").lower()
        if host in self.named or not values:
            return
        told: dict[str, Any] = {"secrets": values} if secret else {"values": values}
        await require_leave(self.ctx, PageSending(what, self.tab.url, **told), self.named | {host})

    async def leave_form(self, element: ElementRef, *, enter: bool) -> None:
        """A form that this click or Enter sends. Raises ToolFailure."""
        found = await call_on(self.tab, element, SENDS, enter)
        typed, passwords = tuple(self.tab.typed), tuple(self.tab.passwords)
        if found is None:
            if not (typed or passwords) or element.role not in _PRESSED:
                return
            found = {"action": self.tab.url, "method": "post"}
        sending = PageSending(
            f"send a form by {'Enter' if enter else repr(element.name[:60])}",
            str(found["action"]),
            typed,
            passwords,
            label=element.name[:60],
            reads=str(found["method"]).lower() == "get" and not passwords,
        )
        await require_leave(self.ctx, sending, self.named)

    async def remember(self, element: ElementRef, text: str) -> None:
        """Judge what is typed, and keep it for the form. Raises ToolFailure."""
        secret = bool(await call_on(self.tab, element, _SECRET))
        await self.leave("type into a page that nobody named", values=(text,) if text.strip() else (), secret=secret)
        if text.strip():
            (self.tab.passwords if secret else self.tab.typed).append(text)


async def _click(act: PageAct) -> Any:
    element = act.element()
    button = str(act.args.get("button") or "left").lower()
    if button not in ("left", "right", "middle"):
        raise ToolFailure(f"there is no mouse button {button[:20]!r}: left, right, middle")
    held = [str(one).capitalize() for one in act.args.get("modifiers") or ()]
    bits = sum(MODIFIERS.get({"Ctrl": "Control", "Cmd": "Meta"}.get(one, one), 0) for one in held)
    await act.leave_form(element, enter=False)
    spot = await acting.locate_element(act.tab, element)
    await acting.click_at(act.tab, spot, button=button, times=2 if act.args.get("doubleClick") else 1, modifiers=bits)


async def _click_at(act: PageAct) -> Any:
    x, y = act.args.get("x"), act.args.get("y")
    if x is None or y is None:
        raise ToolFailure("clickCoords needs x and y")
    if act.tab.typed or act.tab.passwords:
        told = (tuple(act.tab.typed), tuple(act.tab.passwords))
        await require_leave(act.ctx, PageSending("click on a page with typed words", act.tab.url, *told), act.named)
    times = 2 if act.args.get("doubleClick") else 1
    await acting.click_at(act.tab, (float(x), float(y)), times=times)


async def _type(act: PageAct) -> Any:
    element, text = act.element(), str(act.args.get("text") or "")
    await act.remember(element, text)
    if act.args.get("submit"):
        await act.leave_form(element, enter=True)
    await acting.type_into(act.tab, element, text, slowly=bool(act.args.get("slowly")))
    if act.args.get("submit"):
        await acting.press_combination(act.tab, "Enter")


async def _press(act: PageAct) -> Any:
    keys = str(act.args.get("key") or "")
    if not keys:
        raise ToolFailure("press needs a key, such as Enter")
    if act.args.get("ref"):
        await call_on(act.tab, act.element(), "function () { this.focus() }")
    if keys.strip().lower().rpartition("+")[2] in ("enter", "return", " ", "space"):
        await _leave_focused(act)
    await acting.press_combination(act.tab, keys)


async def _leave_focused(act: PageAct) -> None:
    """Enter sends the form of whatever has the focus."""
    if act.args.get("ref"):
        await act.leave_form(act.element(), enter=True)
        return
    found = await evaluate(
        act.tab,
        "(() => { const at = document.activeElement; return at && at.form && at.tagName !== 'TEXTAREA' ? "
        "{action: at.form.action, method: at.form.method || 'get'} : null })()",
    )
    if found is not None:
        told = (tuple(act.tab.typed), tuple(act.tab.passwords))
        reads = str(found["method"]).lower() == "get" and not act.tab.passwords
        sending = PageSending("send a form by Enter", str(found["action"]), *told, label="Enter", reads=reads)
        await require_leave(act.ctx, sending, act.named)


async def _hover(act: PageAct) -> Any:
    await acting.hover_at(act.tab, await acting.locate_element(act.tab, act.element()))


async def _scroll(act: PageAct) -> Any:
    element = act.element()
    await act.tab.send("DOM.scrollIntoViewIfNeeded", {"backendNodeId": element.node}, element.session)


async def _drag(act: PageAct) -> Any:
    if act.args.get("points"):
        await acting.drag_on_element(act.tab, act.element(), act.args["points"])
        return
    start = await acting.locate_element(act.tab, act.element("startRef"))
    end = await acting.locate_element(act.tab, act.element("endRef"))
    await acting.drag_along(act.tab, (start, end))


async def _select(act: PageAct) -> Any:
    values = [str(one) for one in act.args.get("values") or ()]
    if not values:
        raise ToolFailure("select needs values")
    await acting.choose_options(act.tab, act.element(), values)


async def _fill(act: PageAct) -> Any:
    fields = act.args.get("fields") or ()
    if not fields:
        raise ToolFailure("fill needs fields: [{ref, value}]")
    for field in fields:
        element = msgspec.structs.replace(act, args=field).element()
        value = field.get("value", field.get("text", ""))
        if not isinstance(value, bool):
            await act.remember(element, " ".join(map(str, value)) if isinstance(value, list) else str(value))
        await acting.fill_field(act.tab, element, value)


async def _resize(act: PageAct) -> Any:
    least, most = _SIZES
    width, height = (int(act.args.get(name) or 0) for name in ("width", "height"))
    if not (least <= width <= most and least <= height <= most):
        raise ToolFailure(f"resize needs width and height from {least} to {most}")
    told = {"width": width, "height": height, "deviceScaleFactor": 0, "mobile": False}
    await act.tab.send("Emulation.setDeviceMetricsOverride", told)


async def _wait(act: PageAct) -> Any:
    args = act.args
    goal = WaitGoal(
        str(args.get("text") or ""),
        str(args.get("textGone") or ""),
        str(args.get("selector") or ""),
        str(args.get("url") or ""),
        state=str(args.get("loadState") or ""),
        function=str(args.get("fn") or ""),
    )
    if goal.function:
        await _require_scripts(act, goal.function)
    if args.get("timeMs"):
        await act.tab.clock.sleep(min(float(args["timeMs"]) / 1000, LONGEST))
    if not goal.empty:
        seconds = min(float(args.get("timeoutMs") or 20_000) / 1000, LONGEST)
        await wait_for_page(act.tab, goal, seconds)
    elif not args.get("timeMs"):
        raise ToolFailure("wait needs one of timeMs, text, textGone, selector, url, loadState, fn")


async def _require_scripts(act: PageAct, function: str) -> None:
    if not act.scripts:
        raise ToolFailure("running scripts is switched off: browser.evaluateEnabled is false")
    await act.leave("run a script in a page that nobody named", values=(function,))


async def _evaluate(act: PageAct) -> Any:
    function = str(act.args.get("fn") or "").strip()
    if not function:
        raise ToolFailure("evaluate needs fn: a JavaScript function or expression")
    await _require_scripts(act, function)
    called = "=>" in function or function.startswith(("function", "async"))
    if act.args.get("ref"):
        if not called:
            raise ToolFailure("with a ref, fn is a function of the element: (el) => el.textContent")
        value = await call_on(act.tab, act.element(), f"function () {{ return ({function})(this) }}", main=True)
    else:
        told = {"expression": f"({function})()" if called else function, "returnByValue": True, "awaitPromise": True}
        value = read_result(await act.tab.send("Runtime.evaluate", {**told, "userGesture": True}))
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _RESULT else f"{text[:_RESULT]}… ({len(text)} characters)"


async def _close(act: PageAct) -> Any:
    await act.browser.close_tab(act.tab)


ACT_KINDS: dict[str, Callable[[PageAct], Awaitable[Any]]] = {
    "click": _click,
    "clickCoords": _click_at,
    "type": _type,
    "press": _press,
    "hover": _hover,
    "scrollIntoView": _scroll,
    "drag": _drag,
    "select": _select,
    "fill": _fill,
    "resize": _resize,
    "wait": _wait,
    "evaluate": _evaluate,
    "close": _close,
}


async def perform_act(act: PageAct) -> dict[str, Any]:
    """What came of it: the tab as it is now, what changed since the last snapshot. Raises ToolFailure."""
    kind = str(act.args.get("kind") or "")
    work = ACT_KINDS.get(kind)
    if work is None:
        raise ToolFailure(f"act needs a kind: {', '.join(ACT_KINDS)}")
    tab = act.tab
    if tab.prompt is not None and kind != "close":
        raise ToolFailure(f"a prompt stands before the page ({tab.prompt.kind}: {tab.prompt.text[:200]!r}); answer it "
                          "with action=dialog")  # fmt: skip
    before, old = set(act.browser.tabs), tab.last
    told: dict[str, Any] = {}
    # a question to a person may take long, and nothing of it is the page's business: the gate is inside `work`
    with contextlib.suppress(PromptOpened):
        value = await tab.run_guarded(_together(work, act))
        if kind == "evaluate":
            told["result"] = value
        if not tab.closed and kind not in ("wait", "resize"):
            await tab.settle(SETTLE)
    opened = [one for target, one in act.browser.tabs.items() if target not in before and one.owner == tab.owner]
    for one in opened:
        await one.until(one.ready.is_set, SETTLE)
        await one.wait_loaded(SETTLE)
    if opened:
        told["opened"] = [{"targetId": one.id, "url": one.url} for one in opened]
    if not tab.closed and tab.prompt is None and old is not None and kind != "close":
        told |= await describe_page_change(tab, old.lines)
    return told


async def _together(work: Callable[[PageAct], Awaitable[Any]], act: PageAct) -> Any:
    return await work(act)


async def describe_page_change(tab: BrowserTab, old: tuple[str, ...]) -> dict[str, Any]:
    """What changed since `old` was seen."""
    if tab.last is None:
        return {"page": "another one; take a snapshot"}
    try:
        await tab.run_guarded(take_snapshot(tab, SnapshotOptions()))
    except (BrowserFault, PromptOpened):
        return {}
    return {"changed": describe_change(old, tab.last.lines, CHANGE) or "nothing that can be seen"}
