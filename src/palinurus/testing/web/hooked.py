"""What the fakes of platforms that call us have in common: people whose messages become signed requests, made again
until they are taken, and the server we call. `post` may be replaced to go through a gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from palinurus.channels import make_channel
from palinurus.channels.web.hook import HookedChannel
from palinurus.clock import SystemClock
from palinurus.core.types.channel import Channel, ChannelHttpRequest, ChannelHttpResponse, SendTrouble
from palinurus.errors import PalinurusError
from palinurus.tasks import TaskSet
from palinurus.testing.loopback import LoopbackHttp
from palinurus.testing.platform import FakePlatform, HumanMessage, make_channel_kit

AGAIN = 0.1  # seconds until a request that was not taken is made again


class HookedPlatform(FakePlatform):
    """`refusals` are statuses after which the platform calls again; () if it never does."""

    connected = False
    refusals: ClassVar[tuple[int, ...]] = (429, 503, 507)
    renews: ClassVar[bool] = False  # a token that is refused is bought anew, so only two refusals are one

    def __init__(self, http: LoopbackHttp) -> None:
        super().__init__(http)
        self.http = http
        self.post: Callable[[ChannelHttpRequest], Awaitable[int]] = self._straight
        self.answers: list[ChannelHttpResponse] = []  # what we told it
        self.made: HookedChannel | None = None
        self._count = 0
        self._clock = SystemClock()
        self._up = asyncio.Event()
        self._tasks = TaskSet("people of a platform that calls")
        self._turn = asyncio.Lock()

    async def __aexit__(self, *exc: object) -> None:
        await self._tasks.close()
        await super().__aexit__(*exc)

    async def mend(self) -> None:
        await super().mend()
        self._up.set()

    async def cut(self) -> None:
        self._up.clear()
        await super().cut()

    def channel(self, folder: str) -> Channel:
        made = make_channel(self.name, make_channel_kit(self.name, folder, self.section))
        assert isinstance(made, HookedChannel)
        self.made = made
        return made

    def fail(self, trouble: SendTrouble, times: int = 1, *, retry_after: float = 0.0) -> None:
        again = 2 if self.renews and trouble == "signed_out" else 1
        super().fail(trouble, times * again, retry_after=retry_after)

    def next_number(self) -> int:
        self._count += 1
        return self._count

    def make_request(self, said: HumanMessage, ident: str, more: dict[str, Any]) -> ChannelHttpRequest:
        """The signed request that tells of a message."""
        raise NotImplementedError

    async def _say(self, said: HumanMessage, more: dict[str, Any]) -> str:
        ident = said.event or f"{1000 + self.next_number()}"
        self._tasks.start(self._tell(self.make_request(said, ident, more), said.times))
        return ident

    async def _tell(self, request: ChannelHttpRequest, times: int) -> None:
        async with self._turn:
            for _ in range(times):
                await self._up.wait()
                while await self.post(request) in self.refusals:
                    await self._clock.sleep(AGAIN)

    async def fetch_public(self, url: str) -> tuple[str, str, bytes]:
        """A file that we offer at an address: its name, type and bytes."""
        query = dict(parse_qsl(urlsplit(url).query))
        assert self.made is not None and self.made.submit is not None
        answer = await self.made.hook(ChannelHttpRequest("GET", {}, query, b""), self.made.submit)
        assert answer.status == 200, answer
        return query["name"], answer.content_type, answer.body

    async def _straight(self, request: ChannelHttpRequest) -> int:
        """To the channel itself, as the gateway would."""
        if self.made is None or self.made.submit is None:
            return 503
        try:
            answer = await self.made.hook(request, self.made.submit)
        except PalinurusError:
            return 503
        self.answers.append(answer)
        return answer.status
