"""What a channel answers for all it cannot do. Channels inherit from it and say only what they can."""

from __future__ import annotations

from palinurus.core.types.channel import Abilities, Act, Answer, Hook, NotSent, Sent, State, Status, Submit
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply


class Basic:
    """The part of `Channel` that has a sensible default: no acts, no read-back, no requests."""

    name = ""
    dedupes = False
    abilities = Abilities()

    def __init__(self) -> None:
        self._status = Status("starting")

    def set_status(self, state: State, detail: str = "", me: str = "") -> None:
        """How the connection is from now on."""
        self._status = Status(state, detail, me or self._status.me)

    def status(self) -> Status:
        return self._status

    async def find(self, reply: Reply) -> Sent | None:
        return None

    async def act(self, target: Target, act: Act) -> Sent | NotSent:
        return NotSent(f"{self.name} cannot do that", "refused")

    async def hook(self, request: Hook, submit: Submit) -> Answer:
        return Answer(404, b"this channel takes no requests\n")
