"""Hands: mouse and keyboard on elements of a page, as a person's would be. Knows refs and coordinates, no policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palinurus.core.types.tool import ToolFailure
from palinurus.tools.browser.keys import KeyStroke, parse_keys, press_key
from palinurus.tools.browser.link import BrowserFault
from palinurus.tools.browser.looking import call_on, find_corner
from palinurus.tools.browser.snapshot import ElementRef
from palinurus.tools.browser.tab import BrowserTab

_TRIES, _PAUSE = 20, 0.1  # how long an element that is covered or moves is waited for
_STEPS = 8  # of the mouse while it drags
_BITS = {"left": 1, "right": 2, "middle": 4}

# What stands at the middle of the element: "" if it is itself, a part of it, or its label.
_COVERED = """function () {
  const box = [...this.getClientRects()].find(r => r.width > 0 && r.height > 0);
  if (!box) return "(nothing of it can be seen)";
  const x = box.x + box.width / 2, y = box.y + box.height / 2;
  let hit = this.ownerDocument.elementFromPoint(x, y);
  while (hit && hit.shadowRoot) {
    const inner = hit.shadowRoot.elementFromPoint(x, y);
    if (!inner || inner === hit) break;
    hit = inner;
  }
  if (!hit) return "";
  for (let one = hit; one; one = one.parentNode || one.host)
    if (one === this || (this.labels && [...this.labels].includes(one))) return "";
  for (let one = this; one; one = one.parentNode || one.host) if (one === hit) return "";
  const text = (hit.innerText || "").trim().slice(0, 60);
  return hit.tagName.toLowerCase() + (hit.id ? "#" + hit.id : "") + (text ? " '" + text + "'" : "");
}"""
# Ready to be typed into, with all it holds selected (or the end, if `keep`). Kinds that have no text are set at once.
_READY = """function (text, keep) {
  const kinds = ["date", "time", "datetime-local", "month", "week", "color", "range"];
  if (this.disabled) return "it is disabled";
  if (this.readOnly) return "it cannot be written to";
  this.focus();
  if (this.tagName === "INPUT" && kinds.includes(this.type)) {
    const proto = Object.getPrototypeOf(this);
    Object.getOwnPropertyDescriptor(proto, "value").set.call(this, text);
    for (const name of ["input", "change"]) this.dispatchEvent(new Event(name, {bubbles: true}));
    return "set";
  }
  if (this.tagName === "INPUT" || this.tagName === "TEXTAREA") {
    if (keep) { try { this.setSelectionRange(this.value.length, this.value.length) } catch (e) { } }
    else this.select();
    return "";
  }
  if (this.isContentEditable) {
    const range = this.ownerDocument.createRange();
    range.selectNodeContents(this);
    if (keep) range.collapse(false);
    const chosen = this.ownerDocument.getSelection();
    chosen.removeAllRanges();
    chosen.addRange(range);
    return "";
  }
  return "it takes no text";
}"""
_SELECT = """function (wanted) {
  if (this.tagName !== "SELECT") return "it is no list to choose from";
  const found = wanted.map(w => [...this.options].find(o => o.value === w || o.label.trim() === w.trim()));
  const missing = wanted.find((w, at) => !found[at]);
  if (missing !== undefined)
    return "it has no option " + JSON.stringify(missing) + "; there are " +
      [...this.options].slice(0, 30).map(o => JSON.stringify(o.label.trim())).join(", ");
  for (const one of this.options) one.selected = found.includes(one);
  for (const name of ["input", "change"]) this.dispatchEvent(new Event(name, {bubbles: true}));
  return "";
}"""
_CHECKED = """function () { return this.getAttribute("aria-checked") === "true" || this.checked === true }"""
_BOXES = ("checkbox", "radio", "switch", "menuitemcheckbox", "menuitemradio")


async def locate_element(tab: BrowserTab, element: ElementRef) -> tuple[float, float]:
    """The middle of it in the view, once it is there and nothing covers it. Raises BrowserFault."""
    covered, last = "", (-1.0, -1.0)
    for _ in range(_TRIES):
        try:
            await tab.send("DOM.scrollIntoViewIfNeeded", {"backendNodeId": element.node}, element.session)
            quads = (await tab.send("DOM.getContentQuads", {"backendNodeId": element.node}, element.session))["quads"]
        except BrowserFault as fault:
            if "No node" in str(fault) or "Could not find" in str(fault):
                raise BrowserFault(f"the {element.role} {element.name[:60]!r} is gone; take a new snapshot") from None
            quads = []
        quad = next((one for one in quads if _is_seen(one)), None)
        covered = "(nothing of it can be seen)" if quad is None else await call_on(tab, element, _COVERED)
        if quad is not None and not covered:
            x, y = await find_corner(tab, element.session)
            spot = (x + sum(quad[::2]) / 4, y + sum(quad[1::2]) / 4)
            if spot == last:
                return spot
            last = spot
            continue
        await tab.clock.sleep(_PAUSE)
    if covered:
        raise BrowserFault(f"the {element.role} {element.name[:60]!r} cannot be reached: {covered} is in front of it")
    return last


def _is_seen(quad: Sequence[float]) -> bool:
    return max(quad[::2]) - min(quad[::2]) >= 1 and max(quad[1::2]) - min(quad[1::2]) >= 1


async def _mouse(tab: BrowserTab, kind: str, spot: tuple[float, float], **more: Any) -> None:
    await tab.send("Input.dispatchMouseEvent", {"type": kind, "x": spot[0], "y": spot[1], **more})


async def click_at(
    tab: BrowserTab, spot: tuple[float, float], *, button: str = "left", times: int = 1, modifiers: int = 0
) -> None:
    """Click there. Raises BrowserFault."""
    held = {"button": button, "buttons": _BITS[button], "modifiers": modifiers}
    await _mouse(tab, "mouseMoved", spot, modifiers=modifiers)
    for number in range(1, times + 1):
        await _mouse(tab, "mousePressed", spot, clickCount=number, **held)
        await _mouse(tab, "mouseReleased", spot, clickCount=number, **{**held, "buttons": 0})


async def hover_at(tab: BrowserTab, spot: tuple[float, float]) -> None:
    """Put the mouse there. Raises BrowserFault."""
    await _mouse(tab, "mouseMoved", spot)


async def drag_along(tab: BrowserTab, spots: Sequence[tuple[float, float]]) -> None:
    """Press at the first, go through all, let go at the last. Raises BrowserFault."""
    first, *rest = spots
    tab.dragged = None
    await tab.send("Input.setInterceptDrags", {"enabled": True})
    try:
        await _mouse(tab, "mouseMoved", first)
        await _mouse(tab, "mousePressed", first, button="left", buttons=1, clickCount=1)
        at = first
        for spot in rest:
            for step in range(1, _STEPS + 1):
                here = tuple(a + (b - a) * step / _STEPS for a, b in zip(at, spot, strict=True))
                await _mouse(tab, "mouseMoved", (here[0], here[1]), button="left", buttons=1)
            at = spot
        await tab.until(lambda: tab.dragged is not None, 0.1)
        if tab.dragged is not None:  # something of the page is carried
            for kind in ("dragEnter", "dragOver", "drop"):
                told = {"type": kind, "x": at[0], "y": at[1], "data": tab.dragged}
                await tab.send("Input.dispatchDragEvent", told)
        await _mouse(tab, "mouseReleased", at, button="left", buttons=0, clickCount=1)
    finally:
        await tab.send("Input.setInterceptDrags", {"enabled": False})


async def drag_on_element(tab: BrowserTab, element: ElementRef, points: Sequence[Sequence[float]]) -> None:
    """Along points that are measured from the element's corner. Raises BrowserFault."""
    await locate_element(tab, element)
    box = (await tab.send("DOM.getBoxModel", {"backendNodeId": element.node}, element.session))["model"]["content"]
    x, y = await find_corner(tab, element.session)
    spots = [(x + box[0] + one[0], y + box[1] + one[1]) for one in points if len(one) == 2]
    if len(spots) < 2:
        raise ToolFailure("points needs two or more pairs of numbers")
    await drag_along(tab, spots)


async def type_into(tab: BrowserTab, element: ElementRef, text: str, *, slowly: bool) -> None:
    """Put the text in, in place of what is there; `slowly`: key by key, after it. Raises BrowserFault."""
    wrong = await call_on(tab, element, _READY, text, slowly)
    if wrong == "set":
        return
    if wrong:
        raise BrowserFault(f"nothing can be typed into the {element.role} {element.name[:60]!r}: {wrong}")
    if slowly:
        for letter in text:
            if letter.isascii() and (letter.isalnum() or letter in " \n"):
                await strike_key(tab, press_key("Enter" if letter == "\n" else letter))
            else:
                await tab.send("Input.insertText", {"text": letter})
    elif text:
        await tab.send("Input.insertText", {"text": text})
    else:
        await strike_key(tab, press_key("Delete"))


async def strike_key(tab: BrowserTab, stroke: KeyStroke) -> None:
    """Press and let go. Raises BrowserFault."""
    told = {
        "key": stroke.key,
        "code": stroke.code,
        "windowsVirtualKeyCode": stroke.number,
        "modifiers": stroke.modifiers,
    }
    down = {"text": stroke.text, "unmodifiedText": stroke.text} if stroke.text else {}
    more = {"commands": list(stroke.commands)} if stroke.commands else {}
    await tab.send(
        "Input.dispatchKeyEvent", {"type": "keyDown" if stroke.text else "rawKeyDown", **told, **down, **more}
    )
    await tab.send("Input.dispatchKeyEvent", {"type": "keyUp", **told})


async def press_combination(tab: BrowserTab, keys: str) -> None:
    """Such as Control+A. Raises BrowserFault or ToolFailure."""
    await strike_key(tab, parse_keys(keys))


async def choose_options(tab: BrowserTab, element: ElementRef, values: Sequence[str]) -> None:
    """In a list, by value or label. Raises BrowserFault."""
    wrong = await call_on(tab, element, _SELECT, list(values))
    if wrong:
        raise BrowserFault(f"the {element.role} {element.name[:60]!r}: {wrong}")


async def fill_field(tab: BrowserTab, element: ElementRef, value: Any) -> None:
    """Whatever kind it is. Raises BrowserFault."""
    if element.role in _BOXES or isinstance(value, bool):
        wanted = (
            value if isinstance(value, bool) else str(value).strip().lower() in ("true", "on", "yes", "1", "checked")
        )
        if bool(await call_on(tab, element, _CHECKED)) != wanted:
            await click_at(tab, await locate_element(tab, element))
        return
    if await call_on(tab, element, "function () { return this.tagName }") == "SELECT":
        await choose_options(tab, element, [str(one) for one in value] if isinstance(value, list) else [str(value)])
        return
    await type_into(tab, element, str(value), slowly=False)
