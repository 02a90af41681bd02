"""What methods about sessions and runs work with: one value, made when the gateway starts."""

from __future__ import annotations

from typing import NamedTuple

from palinurus.core.types.inbound import Sender
from palinurus.gateway.live import Stage
from palinurus.gateway.rows import Rows
from palinurus.gateway.rpc import ADMIN, Call, Client, Face
from palinurus.inbox.commands.desk import CommandContext


class Scene(NamedTuple):
    desk: CommandContext
    rows: Rows
    stage: Stage


def make(face: Face, desk: CommandContext) -> Scene:
    """For one gateway; `stage` is to follow the inbox."""
    rows = Rows(desk)
    return Scene(desk, rows, Stage(face, desk, rows))


def scene(call: Call) -> Scene:
    """The scene of the gateway that was called."""
    found = call.gateway.scene
    assert isinstance(found, Scene)
    return found


def sender(client: Client) -> Sender:
    """A client as the sender of a message: what it may do comes from its credential alone."""
    ident = client.device or client.principal
    return Sender(
        ident,
        client.info.display_name or client.info.id,
        owner=client.may(ADMIN),
        allowed=True,
        scopes=tuple(sorted(client.scopes)),
    )
