"""The screen in a test: a real gateway with a scripted model behind it, and a pilot at the keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input

from gateway.host import TOKEN
from gateway.whole import KEY, Place, place
from palinurus.cli.reach.gateway import GatewayConnection
from palinurus.cli.tui.actions import ScreenStart
from palinurus.cli.tui.app import ChatScreen
from palinurus.cli.tui.conversation import ConversationBlock
from palinurus.core.types.model import Model
from palinurus.gateway.client import LoginOptions, connect_gateway, make_identity
from palinurus.testing.client import make_gateway_url


class House:
    """A way to a gateway; `cut` breaks the line."""

    where = "in this process"

    def __init__(self, here: Place) -> None:
        self._here = here
        self._who = make_identity()
        self.lines: list[GatewayConnection] = []
        self.closed = 0

    async def open(self) -> GatewayConnection:
        options = LoginOptions(token=TOKEN, identity=self._who)
        self.lines.append(
            GatewayConnection(
                await connect_gateway(make_gateway_url(self._here.server.port), self._here.app.clock, options)
            )
        )
        return self.lines[-1]

    async def cut(self) -> None:
        await self.lines[-1].close()

    async def close(self) -> None:
        self.closed += 1


class Seat:
    """A person in front of the screen."""

    def __init__(self, chat: ChatScreen, pilot: Pilot[None], here: Place, house: House) -> None:
        self.chat = chat
        self.pilot = pilot
        self.here = here
        self.house = house

    async def until(self, true: Callable[[], object], seconds: float = 60) -> None:
        """Wait for something to be seen."""
        async with asyncio.timeout(seconds):
            while not true():
                await asyncio.sleep(0.02)
            await self.pilot.pause()

    async def type(self, text: str) -> None:
        """Put it into the box and press Enter."""
        self.chat.composer.set(text)
        await self.pilot.pause()
        await self.pilot.press("enter")

    async def pick(self, text: str) -> None:
        """Filter the list that is open, and take what is left."""
        self.chat.screen.query_one(Input).value = text
        await self.pilot.pause()
        await self.pilot.press("enter")

    @property
    def blocks(self) -> list[ConversationBlock]:
        """What is on the screen, from the top; our own greeting left out."""
        return [one.block for one in self.chat.talk._pieces.values()][1:]

    def said(self, kind: str) -> list[str]:
        """The texts of one kind."""
        return [block.text for block in self.blocks if block.kind == kind]

    def screen(self) -> str:
        """The letters a person sees, row by row."""
        rows = self.chat.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in row).rstrip() for row in rows)

    @property
    def status(self) -> str:
        """The line at the bottom."""
        return str(self.chat.query_one("#status").render())


@asynccontextmanager
async def seat(
    home: Path, model: Model, *, size: tuple[int, int] = (80, 24), environ: dict[str, str] | None = None, **config: Any
) -> AsyncIterator[Seat]:
    """A screen that has reached its gateway."""
    async with place(home, model, **config) as here:
        house = House(here)

        async def enter() -> House:
            return house

        folders = {agent.id: agent.workspace for agent in here.app.settings.agents.values()}
        look = here.app.settings.gateway.look.terminal
        start = ScreenStart(enter, KEY, "", str(home / "history"), environ=environ or {}, folders=folders, look=look)
        chat = ChatScreen(start, here.app.clock)
        async with chat.run_test(size=size) as pilot:
            found = Seat(chat, pilot, here, house)
            await found.until(lambda: chat.remote.models)
            yield found
