"""What a fake platform offers besides its own API, so that one suite can test every channel (`conformance/channel.py`).

A fake speaks the platform's real protocol on loopback; these methods are the humans in front of it.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import msgspec

from palinurus.app.media import ChannelFiles
from palinurus.channels import make_channel
from palinurus.channels.kit import ChannelKit
from palinurus.clock import Clock, SystemClock
from palinurus.config.findings import ConfigPlace
from palinurus.config.secrets import wrap_secrets
from palinurus.config.sections.channels import resolve_accounts
from palinurus.core.types.channel import Channel, SendTrouble
from palinurus.core.types.inbound import Inbound
from palinurus.testing.loopback import LoopbackHttp, LoopbackTcp
from palinurus.tools.web.egress import EgressGuard


class VisibleMessage(NamedTuple):
    """One message of the agent as a human sees it now: edits applied, deleted ones gone."""

    message_id: str
    text: str  # what can be read, without markup
    media: tuple[str, ...] = ()  # names of files
    buttons: tuple[str, ...] = ()  # labels
    reply_to: str = ""


class HumanMessage(msgspec.Struct, frozen=True):
    """What `FakePlatform.say` was given."""

    text: str
    chat: str
    sender: str
    event: str
    mention: bool
    times: int


class FakePlatform:
    """A fake server with people, the base of all: speaks the platform's protocol on `servers`, and goes wrong when
    told to. Started and stopped with `async with`."""

    name: ClassVar[str]  # the channel's id
    groups: ClassVar[bool] = True  # are there groups?
    connected: ClassVar[bool] = True  # is there a connection whose loss can be seen? Else the platform calls us
    troubles: ClassVar[tuple[SendTrouble, ...]]  # what `fail` can do here

    def __init__(self, *servers: LoopbackHttp | LoopbackTcp) -> None:
        super().__init__()
        self.faults: list[str] = []  # what the next sends meet, one each; "" is nothing
        self.retry_after = 0.0
        self._servers = servers

    async def __aenter__(self) -> Self:
        await self.mend()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.cut()

    @property
    def section(self) -> dict[str, Any]:
        """The account's part of a config that speaks to this server."""
        raise NotImplementedError

    def channel(self, folder: str) -> Channel:
        """A new client of this server, as after a start of the program; what it keeps is below `folder`."""
        made = make_channel(self.name, make_channel_kit(self.name, folder, self.section))
        assert made is not None
        return made

    async def say(
        self,
        text: str,
        *,
        chat: str = "",
        sender: str = "",
        event: str = "",
        mention: bool = False,
        times: int = 1,
        **more: Any,
    ) -> str:
        """A human writes; "" = the usual chat with the usual person. A chat named "group" is a group. `times` > 1: the
        platform tells us the same event again. `more` are further fields of the message, as the platform calls them.
        Returns the platform's id of the message."""
        return await self._say(HumanMessage(text, chat, sender, event, mention=mention, times=times), more)

    async def _say(self, said: HumanMessage, more: dict[str, Any]) -> str:
        raise NotImplementedError

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        """The agent's messages in a chat, oldest first."""
        raise NotImplementedError

    async def press(self, message_id: str, label: str, *, chat: str = "", sender: str = "") -> None:
        """A human presses a button (only where abilities.buttons > 0)."""
        raise NotImplementedError(f"{self.name} has no buttons")

    def fail(self, trouble: SendTrouble, times: int = 1, *, retry_after: float = 0.0) -> None:
        """The next `times` sends go wrong this way; "cut" shows the message and loses the answer."""
        self.faults += [trouble] * times
        self.retry_after = retry_after

    def next_fault(self) -> str:
        """What goes wrong with this send; "" = nothing."""
        return self.faults.pop(0) if self.faults else ""

    async def cut(self) -> None:
        """The connection to us breaks, and new ones are refused."""
        for server in self._servers:
            await server.stop()

    async def mend(self) -> None:
        """Connections are taken again; what people said meanwhile is delivered as the real platform does."""
        for server in self._servers:
            await server.start()


class FastClock(SystemClock):
    """The real clock with its pauses cut: second tries come at once. What waits for people (from half a minute on)
    waits. `ahead`: milliseconds that the day is further on."""

    ahead = 0

    def now(self) -> int:
        return super().now() + self.ahead

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds if seconds >= 30 else min(seconds, 0.02))


class FileMemo:
    """Implements `AccountMemo` with files, so that it outlives the client it was given to."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    async def get(self, key: str) -> bytes | None:
        return await asyncio.to_thread(lambda: path.read_bytes() if (path := self._path(key)).exists() else None)

    async def put(self, key: str, data: bytes | None) -> None:
        path = self._path(key)
        kept = partial(path.unlink, missing_ok=True) if data is None else partial(path.write_bytes, data)
        await asyncio.to_thread(kept)

    def _path(self, key: str) -> Path:
        os.makedirs(self._folder, exist_ok=True)
        return Path(self._folder, key.encode().hex())


async def _all(inbound: Inbound) -> bool:
    return True


def make_channel_kit(name: str, folder: str, own: dict[str, Any], clock: Clock | None = None) -> ChannelKit:
    """A kit for one account in tests: files and records below `folder`; `own` is its section of the config. Every
    message is wanted, and no second try waited for."""
    section = wrap_secrets(own, ("channels", name))
    settings = resolve_accounts({name: section}, {}, {}, ConfigPlace("", {}, []))[name]["default"]
    now = clock or FastClock()
    files = ChannelFiles(os.path.join(folder, "inbound"), (folder,), settings.media, EgressGuard(), clock=now)
    menu = (("help", "what you can say"), ("status", "how it goes"))
    return ChannelKit(
        settings,
        settings.own,
        now,
        files,
        memo=FileMemo(os.path.join(folder, "memo")),
        folder=folder,
        wanted=_all,
        commands=menu,
    )
