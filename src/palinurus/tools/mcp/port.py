"""What the rest of this folder sees of a connection, and what a connection needs. No SDK here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias

import msgspec

from palinurus.clock import Clock, SystemClock
from palinurus.config.sections.mcp import McpServerSettings, McpTransport
from palinurus.core.types.sampling import SamplingAnswer, SamplingRequest
from palinurus.core.types.tool import ToolFailure
from palinurus.tools.mcp.questions import McpAnswer, McpQuestion
from palinurus.tools.sandbox.launch import ChildLaunch

McpToolListing: TypeAlias = Mapping[str, Any]  # a tool as the server describes it: name, description, inputSchema, …
McpProgress: TypeAlias = Callable[[float, float | None, str], None]


class McpConnectionLost(Exception):
    """The connection is gone. `unsent`: the server has certainly not begun what was asked."""

    def __init__(self, words: str, *, unsent: bool = False) -> None:
        super().__init__(words)
        self.unsent = unsent


class McpRefusal(Exception):
    """The server answered with an error of the protocol; the words are its own, hence untrusted."""

    def __init__(self, words: str, code: int = 0) -> None:
        super().__init__(words)
        self.code = code


McpAsker: TypeAlias = Callable[[McpQuestion], Awaitable[McpAnswer]]
McpSampler: TypeAlias = Callable[[SamplingRequest], Awaitable[SamplingAnswer]]  # raises ToolFailure


class McpServerFacts(msgspec.Struct, frozen=True):
    """What a server says about itself."""

    name: str
    version: str
    protocol: str
    resources: bool
    prompts: bool = False


class McpLink(Protocol):
    """An open connection. Methods raise McpConnectionLost, McpRefusal, TimeoutError."""

    @property
    def facts(self) -> McpServerFacts: ...

    async def tools(self) -> tuple[McpToolListing, ...]:
        """All tools it has."""

    async def call(self, name: str, arguments: Mapping[str, Any], timeout: float, show: McpProgress) -> dict[str, Any]:
        """The result, as it came: content, isError, structuredContent. Progress puts the time-out off."""

    async def resources(self) -> list[dict[str, Any]]:
        """What can be read there."""

    async def read(self, uri: str, timeout: float) -> list[dict[str, Any]]:
        """The contents of one resource."""

    async def prompts(self) -> list[dict[str, Any]]:
        """Prompts that it has ready."""

    async def prompt(self, name: str, arguments: Mapping[str, str], timeout: float) -> McpPrompt:
        """One of them."""


class McpPrompt(msgspec.Struct, frozen=True):
    """A prompt of the server, with its arguments filled in: (role, text) of each message."""

    description: str
    messages: tuple[tuple[str, str], ...]


class McpTokens(Protocol):
    """Who is signed in to servers elsewhere."""

    def has(self, server: McpServerSettings) -> bool:
        """Is there a sign-in that may still work?"""

    async def get(self, server: McpServerSettings, refused: str = "") -> str:
        """A token that is good and not the `refused` one; "": nobody signed in. Raises ToolFailure."""

    def prove(self, server: McpServerSettings, token: str, method: str, url: str, *, nonce: str = "") -> str:
        """What shows, with one request, that the token is ours (DPoP); "": it is not bound to a key."""

    def note_scope(self, server: McpServerSettings, scope: str) -> None:
        """The server wants more rights than the sign-in has."""


class McpMeans(msgspec.Struct, frozen=True):
    """What a connection is made with."""

    launch: Callable[[McpServerSettings], ChildLaunch]  # raises OSError
    judge: Callable[[str], Awaitable[list[str]]]  # an address -> where it may be connected to. Raises ToolFailure
    mark: Callable[[str], str]  # NAME=value in the environment of the server's processes
    tokens: McpTokens | None = None
    clock: Clock = SystemClock()


async def decline_question(question: McpQuestion) -> McpAnswer:
    """There is nobody who could be asked."""
    return McpAnswer("decline")


async def lend_nothing(request: SamplingRequest) -> SamplingAnswer:
    """There is nobody who could allow it."""
    raise ToolFailure("no tool of this server runs: no model is lent")


class McpHelp(msgspec.Struct, frozen=True):
    """What a server may ask for while a tool of its runs."""

    ask: McpAsker = decline_question
    sample: McpSampler = lend_nothing


NO_HELP = McpHelp()


class McpWatch:
    """What happens to a connection besides answers. `noise` is what the server printed for people."""

    def __init__(self) -> None:
        self.gone: Callable[[], None] = lambda: None
        self.changed: Callable[[], None] = lambda: None
        self.help: Callable[[], McpHelp] = lambda: NO_HELP
        self.noise = ""
        self.why = ""  # what refused the connection, in our words
        self.end = ""  # what ended it, in our words
        self.locked = False  # it wants a sign-in, and there is none that works
        self.narrow = False  # the sign-in works, and has too few rights

    def add_noise(self, text: str) -> None:
        """Keeps the end of it."""
        self.noise = (self.noise + text)[-4000:]


McpConnect: TypeAlias = Callable[
    [McpServerSettings, McpTransport, McpMeans, McpWatch], AbstractAsyncContextManager[McpLink]
]
