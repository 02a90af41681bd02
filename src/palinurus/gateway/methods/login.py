"""web.login.*: linking a WhatsApp account from the web page. The page shows the code, and asks how it stands."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any

from msgspec import Meta

from palinurus.errors import PalinurusError
from palinurus.gateway.rpc import ADMIN, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.gateway.scene import get_context
from palinurus.tools.signin import CHANNEL, SignInsPort, SignInState

LOGIN_START, LOGIN_WAIT, LOGIN_MOST = 30_000, 120_000, 180_000  # ms


class LoginStartParams(MethodParams, frozen=True):
    account_id: NonEmpty = "default"
    timeout_ms: Annotated[int, Meta(ge=0, le=LOGIN_MOST)] = LOGIN_START
    force: bool | None = None
    verbose: bool | None = None


class LoginWaitParams(MethodParams, frozen=True):
    account_id: NonEmpty = "default"
    timeout_ms: Annotated[int, Meta(ge=0, le=LOGIN_MOST)] = LOGIN_WAIT
    current_qr_data_url: str = ""


async def start_login(call: MethodCall, asked: LoginStartParams) -> dict[str, Any]:
    """Begin to link; answers with the code to be read."""
    return _told(await _tried(_signins(call).start(CHANNEL, asked.account_id, asked.timeout_ms / 1000)))


async def wait_for_login(call: MethodCall, asked: LoginWaitParams) -> dict[str, Any]:
    """Answers when a phone has read the code, when there is another code, or when the time is over."""
    seen = asked.current_qr_data_url
    return _told(await _tried(_signins(call).wait(CHANNEL, asked.account_id, asked.timeout_ms / 1000, seen)))


def _told(sign: SignInState) -> dict[str, Any]:
    made: dict[str, Any] = {"connected": sign.state == "done", "message": sign.detail or "nobody has read the code yet"}
    return {**made, "qrDataUrl": sign.url} if sign.url else made


async def _tried(work: Awaitable[SignInState]) -> SignInState:
    try:
        return await work
    except PalinurusError as exc:
        raise MethodError(exc.message + (f" ({exc.fix})" if exc.fix else "")) from None


def _signins(call: MethodCall) -> SignInsPort:
    chats = get_context(call).desk.chats
    if chats is None or chats.signins is None:
        raise MethodError("this gateway has no chat channels", code="UNAVAILABLE")
    return chats.signins


LOGIN_METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("web.login.start", ADMIN, LoginStartParams, start_login),
    GatewayMethod("web.login.wait", ADMIN, LoginWaitParams, wait_for_login),
)
