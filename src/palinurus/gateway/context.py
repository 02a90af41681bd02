"""What methods about sessions and runs work with: one value, made when the gateway starts."""

from __future__ import annotations

from typing import NamedTuple

from palinurus.core.types.inbound import Sender
from palinurus.gateway.broadcaster import RunBroadcaster
from palinurus.gateway.rpc import ADMIN, ConnectedClient, GatewayPort, MethodCall
from palinurus.gateway.views import SessionReader
from palinurus.inbox.commands.command import CommandContext


class MethodContext(NamedTuple):
    desk: CommandContext
    rows: SessionReader
    stage: RunBroadcaster


def make_context(face: GatewayPort, desk: CommandContext) -> MethodContext:
    """For one gateway; `stage` is to follow the inbox."""
    rows = SessionReader(desk)
    return MethodContext(desk, rows, RunBroadcaster(face, desk, rows))


def get_context(call: MethodCall) -> MethodContext:
    """The scene of the gateway that was called."""
    found = call.gateway.scene
    assert isinstance(found, MethodContext)
    return found


def make_sender(client: ConnectedClient) -> Sender:
    """A client as the sender of a message: what it may do comes from its credential alone."""
    ident = client.device or client.principal
    return Sender(
        ident,
        client.info.display_name or client.info.id,
        owner=client.may(ADMIN),
        allowed=True,
        scopes=tuple(sorted(client.scopes)),
    )
