"""web.login.*: linking a WhatsApp account from the web page. The page shows the code, and asks how it stands."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any

from msgspec import Meta

from palinurus.errors import PalinurusError
from palinurus.gateway.rpc import ADMIN, Call, Method, Params, RpcError, Word
from palinurus.gateway.scene import scene
from palinurus.tools.signin import CHANNEL, Sign, SignIns

START, WAIT, MOST = 30_000, 120_000, 180_000  # ms


class Start(Params, frozen=True):
    account_id: Word = "default"
    timeout_ms: Annotated[int, Meta(ge=0, le=MOST)] = START
    force: bool | None = None
    verbose: bool | None = None


class Wait(Params, frozen=True):
    account_id: Word = "default"
    timeout_ms: Annotated[int, Meta(ge=0, le=MOST)] = WAIT
    current_qr_data_url: str = ""


async def start(call: Call, asked: Start) -> dict[str, Any]:
    """Begin to link; answers with the code to be read."""
    return _told(await _tried(_signins(call).start(CHANNEL, asked.account_id, asked.timeout_ms / 1000)))


async def wait(call: Call, asked: Wait) -> dict[str, Any]:
    """Answers when a phone has read the code, when there is another code, or when the time is over."""
    seen = asked.current_qr_data_url
    return _told(await _tried(_signins(call).wait(CHANNEL, asked.account_id, asked.timeout_ms / 1000, seen)))


def _told(sign: Sign) -> dict[str, Any]:
    made: dict[str, Any] = {"connected": sign.state == "done", "message": sign.detail or "nobody has read the code yet"}
    return {**made, "qrDataUrl": sign.url} if sign.url else made


async def _tried(work: Awaitable[Sign]) -> Sign:
    try:
        return await work
    except PalinurusError as exc:
        raise RpcError(exc.message + (f" ({exc.fix})" if exc.fix else "")) from None


def _signins(call: Call) -> SignIns:
    chats = scene(call).desk.chats
    if chats is None or chats.signins is None:
        raise RpcError("this gateway has no chat channels", code="UNAVAILABLE")
    return chats.signins


METHODS: tuple[Method, ...] = (
    Method("web.login.start", ADMIN, Start, start),
    Method("web.login.wait", ADMIN, Wait, wait),
)
