"""What methods about sessions and runs work with: one value, made when the gateway starts."""

from __future__ import annotations

from typing import NamedTuple

from palinurus.core.types.inbound import Sender
from palinurus.gateway.broadcaster import RunBroadcaster
from palinurus.gateway.rpc import ADMIN, ConnectedClient, GatewayPort, MethodCall
from palinurus.gateway.views import SessionReader
from palinurus.inbox.commands.command import CommandContext


class MethodContext(NamedTuple):
    program: CommandContext
    reader: SessionReader
    broadcaster: RunBroadcaster


def make_context(gateway: GatewayPort, program: CommandContext) -> MethodContext:
    """For one gateway; `broadcaster` is to follow the inbox."""
    reader = SessionReader(program)
    return MethodContext(program, reader, RunBroadcaster(gateway, program, reader))


def get_context(call: MethodCall) -> MethodContext:
    """The context of the gateway that was called."""
    found = call.gateway.context
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
