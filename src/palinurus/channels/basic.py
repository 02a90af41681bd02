"""What a channel answers for all it cannot do. Channels inherit from it and say only what they can."""

from __future__ import annotations

from palinurus.core.types.channel import (
    ChannelAbilities,
    ChannelAction,
    ChannelHttpRequest,
    ChannelHttpResponse,
    ChannelState,
    ChannelStatus,
    SendFailure,
    SendReceipt,
    SubmitInbound,
)
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply


class BasicChannel:
    """The part of `Channel` that has a sensible default: no acts, no read-back, no requests."""

    name = ""
    dedupes = False
    abilities = ChannelAbilities()

    def __init__(self) -> None:
        self._status = ChannelStatus("starting")

    def set_status(self, state: ChannelState, detail: str = "", me: str = "") -> None:
        """How the connection is from now on."""
        self._status = ChannelStatus(state, detail, me or self._status.me)

    def status(self) -> ChannelStatus:
        return self._status

    async def find(self, reply: Reply) -> SendReceipt | None:
        return None

    async def act(self, target: Target, act: ChannelAction) -> SendReceipt | SendFailure:
        return SendFailure(f"{self.name} cannot do that", "refused")

    async def hook(self, request: ChannelHttpRequest, submit: SubmitInbound) -> ChannelHttpResponse:
        return ChannelHttpResponse(404, b"this channel takes no requests\n")
