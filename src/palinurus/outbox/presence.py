"""Signs of life while a run goes: typing, and a reaction on the message that was taken. Best effort: they hold nothing
up, and nothing that goes wrong with them is anybody's business but the log's.
"""

from __future__ import annotations

import asyncio

from palinurus.clock import Clock
from palinurus.config.forms import Typing
from palinurus.config.sections.delivery import PresenceSettings
from palinurus.core.types.channel import Channel, ChannelAction, ReactAction, TypingAction
from palinurus.core.types.events import AgentEnd, MessageUpdate, RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.outbox.drafts import call_platform
from palinurus.tasks import TaskSet

_TYPING = {"thinking": "thinking", "text": "message"}  # what a mode waits for
LONGEST = 600.0  # seconds of typing without any event: then the run is not what people should wait for


def choose_typing_mode(inbound: Inbound, said: Typing | None) -> Typing:
    """When typing begins: as configured, else at once for those who certainly get an answer."""
    if said is not None:
        return said
    return "instant" if inbound.kind == "direct" or inbound.mentioned else "message"


def wants_acknowledgement(inbound: Inbound, settings: PresenceSettings) -> bool:
    """Does this message get the reaction?"""
    group = inbound.kind != "direct"
    scopes = {
        "all": True,
        "direct": not group,
        "group-all": group,
        "group-mentions": group and inbound.mentioned,
        "off": False,
    }
    return bool(settings.ack and inbound.event) and not inbound.pressed and scopes[settings.scope]


class RunPresence:
    """Of one run. Fed with its events; `close` when what it said is on disk."""

    def __init__(
        self, channel: Channel, inbound: Inbound, settings: PresenceSettings, clock: Clock, tasks: TaskSet
    ) -> None:
        self._channel = channel
        self._inbound = inbound
        self._settings = settings
        self._clock = clock
        self._tasks = tasks
        self._mode = choose_typing_mode(inbound, settings.typing) if "typing" in channel.abilities.acts else "never"
        self._acked = wants_acknowledgement(inbound, settings) and "react" in channel.abilities.acts
        self._typing: asyncio.Task[None] | None = None
        self._heard = clock.monotonic()
        self._over = False
        self._works = bool(settings.working and inbound.event) and "react" in channel.abilities.acts
        if self._acked:
            self._act(ReactAction(inbound.event, settings.ack))
        if self._works:
            self._act(ReactAction(inbound.event, settings.working))
        if self._mode == "instant":
            self._type()

    def feed(self, event: RunEvent) -> None:
        """Begin, go on or stop, as the mode says."""
        self._heard = self._clock.monotonic()
        if isinstance(event, AgentEnd):
            self.stop()
        elif self._typing is None and not self._over and isinstance(event, MessageUpdate) and self._waits_for(event):
            self._type()

    def _waits_for(self, event: MessageUpdate) -> bool:
        return self._mode == _TYPING.get(event.kind)

    def stop(self) -> None:
        """No more typing."""
        self._over = True
        if self._typing is not None:
            self._typing.cancel()

    def close(self) -> None:
        """The answer is on its way: the reaction goes, where it is to."""
        self.stop()
        if self._works:
            self._act(ReactAction(self._inbound.event, self._settings.working, remove=True))
        if self._acked and self._settings.remove:
            self._act(ReactAction(self._inbound.event, self._settings.ack, remove=True))

    def _type(self) -> None:
        self._typing = self._tasks.start(self._keep())

    async def _keep(self) -> None:
        every = max(0.5, min(self._settings.interval, self._channel.abilities.typing))
        while self._clock.monotonic() - self._heard < LONGEST:
            await call_platform(self._channel.act(self._inbound.target, TypingAction()))
            await self._clock.sleep(every)

    def _act(self, act: ChannelAction) -> None:
        self._tasks.start(call_platform(self._channel.act(self._inbound.target, act)))
