"""whatsapp_login: the owner links the program with a phone from a chat. Shows the code as a picture in the workspace.

Knows the port of sign-ins; who does them is the program's affair.
"""

from __future__ import annotations

import asyncio
import base64
import os
from functools import partial
from typing import Literal, Protocol

import msgspec

from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.errors import PalinurusError

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


async def _run(signins: SignInsPort, ctx: ToolContext, action: str, accountId: str = "default") -> ToolOutput:
    """Raises ToolFailure."""
    begin = signins.start(CHANNEL, accountId, FIRST) if action == "start" else signins.wait(CHANNEL, accountId, LONG)
    try:
        sign = await begin
    except PalinurusError as exc:
        raise ToolFailure(exc.message) from None
    if sign.state == "failed":
        raise ToolFailure(sign.detail)
    if not sign.url.startswith(_PNG):
        return make_output(sign.detail or "nobody has read the code yet", {"state": sign.state})
    path = os.path.join(ctx.workspace, FILE)
    await asyncio.to_thread(_drawn, path, base64.b64decode(sign.url.removeprefix(_PNG)))
    how = "Show it now with a line of its own, it is good for seconds only. Then call this again with action wait."
    return make_output(f"{sign.detail}\n{how}\nMEDIA:{path}", {"state": sign.state})


def _drawn(path: str, data: bytes) -> None:
    part = f"{path}.part"
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as out:
        out.write(data)
    os.replace(part, path)


def make_signin_tool(signins: SignInsPort) -> dict[str, Tool]:
    """The tool, by its name."""
    made = Tool(
        "whatsapp_login",
        "Link this program with a WhatsApp account: start gives a QR code as a picture, wait tells when it was read.",
        {
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["start", "wait"]},
                "accountId": {"type": "string"},
            },
            "required": ["action"],
            "additionalProperties": False,
        },
        partial(_run, signins),
        owner=True,
        sequential=True,
        summary=lambda args: str(args.get("action") or ""),
    )
    return {made.name: made}
