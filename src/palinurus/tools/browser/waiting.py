"""Waiting for a page: for words, an element, an address, a state, or what a function says."""

from __future__ import annotations

import asyncio
import fnmatch
import json

import msgspec

from palinurus.core.types.tool import ToolFailure
from palinurus.tools.browser.link import BrowserFault
from palinurus.tools.browser.looking import evaluate
from palinurus.tools.browser.tab import BrowserTab

LONGEST = 120.0  # seconds
_PAUSE = 0.1
# All words of a page, shadow roots among them; frames are asked one by one.
_WORDS = """(() => {
  const words = [];
  const read = root => {
    words.push(root.body ? root.body.innerText : root.innerText || root.textContent || "");
    for (const one of root.querySelectorAll("*")) {
      if (one.shadowRoot) for (const child of one.shadowRoot.children) words.push(child.innerText || "");
      if (one.tagName === "IFRAME") try { if (one.contentDocument) read(one.contentDocument) } catch (e) { }
    }
  };
  read(document);
  return words.join("\\n").replace(/\\s+/g, " ");
})()"""


class WaitGoal(msgspec.Struct, frozen=True):
    """What is waited for: all of what is given."""

    text: str = ""
    gone: str = ""
    selector: str = ""
    url: str = ""
    state: str = ""
    function: str = ""

    @property
    def empty(self) -> bool:
        return self == WaitGoal()


async def wait_for_page(tab: BrowserTab, goal: WaitGoal, seconds: float) -> None:
    """Return when the page is so. Raises ToolFailure if that took too long."""
    missing = ""
    try:
        async with asyncio.timeout(seconds):
            if goal.state:
                await tab.wait_loaded(seconds, {"domcontentloaded": "domcontentloaded"}.get(goal.state, goal.state))
            while missing := await _find_missing(tab, goal):
                if tab.prompt is not None:
                    return
                await tab.clock.sleep(_PAUSE)
    except TimeoutError:
        raise ToolFailure(f"{missing or 'the page was not ready'} after {seconds:g} seconds") from None


async def _find_missing(tab: BrowserTab, goal: WaitGoal) -> str:
    """What is not yet so; "" for nothing."""
    if goal.url and not fnmatch.fnmatchcase(tab.url, goal.url.replace("**", "*")):
        return f"the address is still {tab.url[:200]}"
    try:
        if goal.text or goal.gone:
            words = await _read_words(tab)
            if goal.text and " ".join(goal.text.split()) not in words:
                return f"{goal.text[:80]!r} was not seen"
            if goal.gone and " ".join(goal.gone.split()) in words:
                return f"{goal.gone[:80]!r} was still there"
        if goal.selector and not await evaluate(tab, f"!!document.querySelector({json.dumps(goal.selector)})"):
            return f"nothing was {goal.selector[:80]!r}"
        if goal.function and not await evaluate(tab, f"({goal.function})" + _call(goal.function), main=True):
            return "the function did not return true"
    except BrowserFault as fault:
        return str(fault)  # between two documents
    return ""


def _call(function: str) -> str:
    """A function is called, an expression is not."""
    text = function.strip()
    return "()" if "=>" in text or text.startswith(("function", "async")) else ""


async def _read_words(tab: BrowserTab) -> str:
    words = [str(await evaluate(tab, _WORDS))]
    for frame, session in list(tab.inner.items()):
        words.append(str(await evaluate(tab, _WORDS, session=session, frame=frame)))
    return " ".join(words)
