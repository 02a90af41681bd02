"""Sign-ins of channels while the program runs: one at a time per account, shown to whoever asks (web page, tool).

The channel is stopped meanwhile: two of us on one account throw each other out. Nothing is kept; a kill ends the
sign-in, and the person begins again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from palinurus.channels import CHANNELS, LOGINS, advise_missing_library, load_signin_action
from palinurus.channels.kit import ChannelKit
from palinurus.core.types.tool import Tool
from palinurus.errors import BadRequest
from palinurus.inbox.receivers import ReceiversPort
from palinurus.tools.program import signin
from palinurus.tools.program.signin import SignInState

Enter: TypeAlias = Callable[[str], Callable[..., Awaitable[str]] | None]


HINTS = {"whatsapp": "Open WhatsApp on the phone, Linked devices, Link a device, and read the code."}


class _Going:
    """One sign-in. `sign` is how it stands; `news` is set when that changes."""

    def __init__(self, channel: str) -> None:
        self._hint = HINTS.get(channel, f"Read the code with the app of {channel}.")
        self.sign = SignInState("waiting")
        self.news = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def now(self, sign: SignInState) -> None:
        self.sign = sign
        self.news.set()

    def show(self, line: str) -> None:
        """A line, or a picture with an address of its own."""
        url = getattr(line, "url", "")
        if url:
            self.now(SignInState("code", self._hint, url))


class SignInRunner:
    """Implements `SignInsPort`. `kit` is what an account may use, `enter` the table of sign-ins."""

    def __init__(self, lines: ReceiversPort, kit: Callable[[str, str], ChannelKit], enter: Enter | None = None) -> None:
        self._lines = lines
        self._enter = enter or partial(load_signin_action, LOGINS)
        self._kit = kit
        self._all: dict[tuple[str, str], _Going] = {}

    def tools(self) -> dict[str, Tool]:
        """The tool, where its channel is configured."""
        known = any(line.channel == signin.CHANNEL for line in self._lines.all())
        return signin.make_signin_tool(self) if known else {}

    async def start(self, channel: str, account: str, wait: float) -> SignInState:
        """Raises NotFound, BadRequest."""
        going = self._all.get((channel, account))
        if going is None or going.task is None or going.task.done():
            going = self._all[channel, account] = await self._begun(channel, account)
        return await self._until(going, wait, lambda sign: sign.state != "waiting")

    async def wait(self, channel: str, account: str, wait: float, seen: str = "") -> SignInState:
        """Raises BadRequest when nothing was begun."""
        going = self._all.get((channel, account))
        if going is None:
            raise BadRequest("no sign-in was begun", fix="begin one first")
        fresh = seen or going.sign.url
        return await self._until(going, wait, lambda sign: sign.state not in ("waiting", "code") or sign.url != fresh)

    async def close(self) -> None:
        """End what goes on."""
        tasks = [going.task for going in self._all.values() if going.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _begun(self, channel: str, account: str) -> _Going:
        entry = CHANNELS.get(channel)
        if entry is None or channel not in LOGINS:
            raise BadRequest(f"{channel} has no sign-in of its own", fix="`pal channels add` writes its token")
        if fix := advise_missing_library(entry):
            raise BadRequest(f"{channel} needs the package {entry.needs}", fix=f"`{fix}`")
        kit, going = self._kit(channel, account), _Going(channel)
        await self._lines.stop(channel)
        going.task = asyncio.ensure_future(self._signed(channel, kit, going))
        return going

    async def _signed(self, channel: str, kit: ChannelKit, going: _Going) -> None:
        enter = self._enter(channel)
        assert enter is not None
        problem = "the sign-in was broken off"
        try:
            problem = await enter(kit, going.show)
        finally:
            going.now(SignInState("failed", problem) if problem else SignInState("done", f"{channel} is signed in"))
            await self._lines.start(channel)

    async def _until(self, going: _Going, wait: float, true: Callable[[SignInState], bool]) -> SignInState:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while not true(going.sign):
                    going.news.clear()
                    await going.news.wait()
        return going.sign
