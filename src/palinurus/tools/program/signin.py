"""whatsapp_login: the owner links the program with a phone from a chat. Shows the code as a picture in the workspace.

Knows the port of sign-ins; who does them is the program's affair.
"""

from __future__ import annotations

import asyncio
import base64
import os
from typing import Annotated, Literal, Protocol

import msgspec

from palinurus.beneath import write_file_beneath
from palinurus.core.signature import pick_one
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.errors import PalinurusError
from palinurus.tools.define import bind_tools, define_tool

CHANNEL = "whatsapp"
FILE = "whatsapp-login.png"
FIRST = 30.0  # seconds until there must be a code
LONG = 120.0
_PNG = "data:image/png;base64,"


class SignInState(msgspec.Struct, frozen=True):
    """How a sign-in stands. `url` shows the code that has to be read now; `detail` is for people."""

    state: Literal["code", "done", "failed", "waiting"]
    detail: str = ""
    url: str = ""


class SignInsPort(Protocol):
    """Sign-ins of channels that have one of their own. Both raise NotFound, BadRequest."""

    async def start(self, channel: str, account: str, wait: float) -> SignInState:
        """Begin, or go on with one that was begun; returns when there is a code to read, or it is over."""
        ...

    async def wait(self, channel: str, account: str, wait: float, seen: str = "") -> SignInState:
        """Returns when it is over, when there is another code than the one in `seen`, or after `wait` seconds."""
        ...


class SignInArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a call."""

    action: Annotated[str, pick_one("", "start", "wait")]
    accountId: str = "default"


@define_tool("whatsapp_login", owner=True, sequential=True, summary=("action",))
async def _sign_in(signins: SignInsPort, /, ctx: ToolContext, args: SignInArguments) -> ToolOutput:
    """Link this program with a WhatsApp account: start gives a QR code as a picture, wait tells when it was read."""
    ask, seconds = (signins.start, FIRST) if args.action == "start" else (signins.wait, LONG)
    try:
        sign = await ask(CHANNEL, args.accountId, seconds)
    except PalinurusError as exc:
        raise ToolFailure(exc.message) from None
    if sign.state == "failed":
        raise ToolFailure(sign.detail)
    if not sign.url.startswith(_PNG):
        return make_output(sign.detail or "nobody has read the code yet", {"state": sign.state})
    path = os.path.join(ctx.workspace, FILE)
    await asyncio.to_thread(write_file_beneath, ctx.workspace, FILE, base64.b64decode(sign.url.removeprefix(_PNG)))
    how = "Show it now with a line of its own, it is good for seconds only. Then call this again with action wait."
    return make_output(f"{sign.detail}\n{how}\nMEDIA:{path}", {"state": sign.state})


def make_signin_tool(signins: SignInsPort) -> dict[str, Tool]:
    """The tool, by its name."""
    return bind_tools((_sign_in,), signins)
