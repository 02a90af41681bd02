"""Before something leaves by way of a page: forms, typed words, files, scripts. Asks a person by the one gate
(`tools/taint.py`) where the conversation has read content from outside and the owner did not give what decides.

A host counts as named if the owner wrote it, or if it was opened before anything from outside had been read.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from palinurus.config.sections.approvals import read_approvals
from palinurus.core.policy import deciding
from palinurus.core.policy.taint import is_reason_to_ask
from palinurus.core.types.tool import Tool, ToolContext, ToolOutput, ToolReach
from palinurus.tools.taint import require_approval

# What a click or Enter on this element would send, and where to; null if it sends no form.
SENDS = """function (enter) {
  const control = this.closest ? this.closest("button, input, textarea, select") : null;
  const form = control && control.form;
  if (!form) return null;
  const button = control.tagName === "BUTTON" ? control.type === "submit"
    : control.tagName === "INPUT" && ["submit", "image"].includes(control.type);
  const typed = control.tagName === "INPUT" && !["button", "reset", "checkbox", "radio", "file"].includes(control.type);
  if (!(button || (enter && typed))) return null;
  return {
    action: button && control.hasAttribute("formaction") ? control.formAction : form.action,
    method: (button && control.formMethod) || form.method || "get",
  };
}"""


class PageSending(msgspec.Struct, frozen=True):
    """Something that would leave: `what` in words, where to, and the values that decide about it."""

    what: str
    url: str
    values: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()  # values that no card shows
    label: str = ""  # of the button
    reads: bool = False  # it only asks for another page

    @property
    def host(self) -> str:
        return (urlsplit(self.url).hostname or "").lower()


async def _never(ctx: ToolContext, **args: Any) -> ToolOutput:
    raise AssertionError("this tool only names what decides")


_DECIDES = Tool("browser", "", {}, _never, reach=ToolReach("out", to=("host", "button")))


def is_named(ctx: ToolContext, url: str) -> bool:
    """Did the owner choose this host, or nobody from outside?"""
    if not ctx.taint:
        return True
    host = (urlsplit(url).hostname or "").lower()
    if not host:
        return False
    said = ctx.inbound.text.lower() if ctx.inbound.sender.owner else ""
    if re.search(rf"(?<![\w.-]){re.escape(host)}(?![\w-]|\.\w)", said):
        return True
    looked = msgspec.structs.replace(_DECIDES, reach=ToolReach("out", to=("targetUrl",)))
    return not any(value.origin for value in ctx.judge(looked, {"targetUrl": url}).values)


async def require_leave(ctx: ToolContext, sending: PageSending, named: frozenset[str]) -> None:
    """Returns if it may leave. Raises ToolFailure."""
    if not is_reason_to_ask(ctx.settings.taint, "browser", ctx.taint):
        return
    both = (*sending.values, *sending.secrets)
    looked = msgspec.structs.replace(_DECIDES, reach=ToolReach("out", to=("value",)))
    judged = ctx.judge(looked, {"value": list(both) or [sending.label]}).values
    given = bool(judged) and not any(value.origin for value in judged)
    if ctx.settings.taint.mode == "judged" and sending.host in named and (given or sending.reads):
        return
    rule = None
    if not both:  # "always" is about a button of a host; what is typed is looked at each time
        decides = {"host": sending.host, "button": sending.label}
        rule = deciding.make_tool_rule(_DECIDES, decides)
        if deciding.is_covered(_DECIDES, decides, read_approvals(ctx.settings.rules.file).rules(ctx.agent)):
            return
    await require_approval(
        ctx,
        "browser",
        f"{sending.what} ({sending.host or 'a page'})",
        "\n".join((sending.url, *sending.values, *("(a password)" for _ in sending.secrets))),
        binding={"sending": hashlib.sha256(repr(sending).encode()).hexdigest()},
        facts=tuple(value.fact for value in judged[:16] if value.value not in sending.secrets),
        rule=rule,
    )
