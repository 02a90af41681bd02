"""The gateway's methods for commands, the screen and the bridges: those of the gateway that runs, by its own protocol,
or without one those of the program in this process. A refusal is a PalinurusError like all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

from palinurus.cli.main import PARTS, load_part
from palinurus.cli.reach.client import start_unless_served
from palinurus.cli.reach.http import (
    ELSEWHERE,
    NOT_LET_IN,
    NOT_LET_IN_THERE,
    find_gateway_address,
    is_gateway_running,
)
from palinurus.clock import Clock, SystemClock
from palinurus.config.load import LoadedConfig
from palinurus.config.settings import Settings
from palinurus.errors import GatewayUnreachable, StateLocked, Unauthorized
from palinurus.gateway.rpc import MethodError, from_method_error
from palinurus.gateway.token import find_location

if TYPE_CHECKING:
    from palinurus.cli.tui.session import ConnectionSource, ScreenConnection
    from palinurus.gateway.client import GatewayLink


class Program(Protocol):
    """What a command calls."""

    async def call(self, method: str, params: Any = None, *, final: bool = False) -> Any:
        """The payload of the answer. Raises PalinurusError with the refusal."""
        ...


class GatewayConnection:
    """A connection whose refusals are errors like all others. Implements `tui.session.ScreenConnection`."""

    def __init__(self, link: GatewayLink) -> None:
        self._link = link
        self.events = link.events

    async def call(self, method: str, params: Any = None, *, final: bool = False) -> Any:
        """Raises the gateway's refusal (BadRequest, NotFound, …), GatewayUnreachable."""
        try:
            return await self._link.call(method, params if params is not None else {}, final=final)
        except MethodError as error:
            raise from_method_error(error) from None
        except ConnectionError as exc:
            raise GatewayUnreachable(
                f"the connection broke: {exc}",
                fix="run it again; `pal status` says whether the gateway runs, `pal gateway logs` why not",
            ) from None

    async def wait_closed(self) -> int | None:
        return await self._link.wait_closed()

    async def close(self) -> None:
        await self._link.close()


async def open_link(
    settings: Settings, clock: Clock, *, url: str = "", secret: str = "", **options: Any
) -> GatewayLink:
    """Logged in at the gateway of this home, or at `url` with `secret`; `options` are those of LoginOptions.

    Raises Unauthorized, GatewayUnreachable."""
    address = find_gateway_address(settings)
    far = address.remote and not url
    asked = settings.gateway.remote.password and not settings.gateway.remote.token
    kind = "password" if (asked if address.remote else settings.gateway.auth_mode == "password") else "token"
    options |= (
        {kind: secret}
        if url
        else {
            kind: address.token,
            "fingerprint": address.fingerprint,
            "proof": address.proof or ("" if address.remote else "-"),
        }
    )
    connect, login, identity = (cast(Any, load_part(PARTS[name])) for name in ("connect", "login", "identity"))
    options["identity"] = identity(settings.home)
    try:
        link: GatewayLink = await connect(url or address.url.replace("http", "ws", 1), clock, login(**options))
        return link
    except MethodError as error:
        fix = NOT_LET_IN_THERE.format(kind, kind) if far else NOT_LET_IN
        raise Unauthorized(f"the gateway refused us: {error.message}", fix=fix) from None
    except GatewayUnreachable as exc:
        raise GatewayUnreachable(exc.message, fix=ELSEWHERE if far else exc.fix) from None


@asynccontextmanager
async def reach_gateway(settings: Settings, clock: Clock) -> AsyncIterator[GatewayConnection]:
    """A connection for some calls. Raises Unauthorized, GatewayUnreachable."""
    link = await open_link(settings, clock)
    try:
        yield GatewayConnection(link)
    finally:
        await link.close()


@asynccontextmanager
async def reach_program(
    loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock, session: str = ""
) -> AsyncIterator[Program]:
    """The gateway's methods: of the one that runs, else on the state as it is on disk, with nothing running.

    In the second case `session` must have no message that waits: a turn that was cut off must find the conversation as
    it left it. Raises StateLocked, StateError kinds, BadRequest, Unauthorized, GatewayUnreachable.
    """
    if await is_gateway_running(loaded.settings):
        async with reach_gateway(loaded.settings, clock) as gateway:
            yield gateway
        return
    part: Any = load_part(PARTS["open"])
    program: Any = await start_unless_served(lambda: part(loaded, environ, clock), loaded.settings, clock)
    if program is None:
        async with reach_gateway(loaded.settings, clock) as served:
            yield served
        return
    try:
        await program.refuse_waiting(session)
        yield program
    finally:
        await program.close()


def call_gateway(settings: Settings, method: str, params: Mapping[str, Any]) -> Any:
    """One call, for commands that make only one. Raises Unauthorized, GatewayUnreachable, BadRequest."""

    async def call() -> Any:
        async with reach_gateway(settings, SystemClock()) as gateway:
            return await gateway.call(method, params)

    return asyncio.run(call())


class RunningGateway:
    """A gateway that runs, as the screen's way to the agent."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.where = f"gateway at {find_gateway_address(settings).url}"
        self._settings = settings
        self._clock = clock

    async def open(self) -> GatewayConnection:
        """Raises Unauthorized, GatewayUnreachable."""
        return GatewayConnection(await open_link(self._settings, self._clock))

    async def close(self) -> None:
        """The gateway goes on."""


class SharedChat:
    """Another chat of this home, which serves us while it lasts; when it has left, we go on by ourselves and serve the
    others. Only one can: the state is locked for it. As the screen's way to the agent."""

    where = "in another chat's process"

    def __init__(self, loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock) -> None:
        self._loaded, self._environ, self._clock = loaded, environ, clock
        self._own: ConnectionSource | None = None

    async def open(self) -> ScreenConnection:
        """Raises Unauthorized, GatewayUnreachable."""
        settings = self._loaded.settings
        if self._own is None and not await is_gateway_running(settings):
            try:
                self._own = await _start_own(self._loaded, self._environ, self._clock)
                self.where = self._own.where
            except StateLocked as exc:  # somebody else was faster, and will be found
                raise GatewayUnreachable(exc.message) from None
        if self._own is not None:
            return await self._own.open()
        return GatewayConnection(await open_link(settings, self._clock))

    async def close(self) -> None:
        """What runs elsewhere goes on."""
        if self._own is not None:
            await self._own.close()


async def _start_own(loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock) -> ConnectionSource:
    own: Any = await asyncio.to_thread(load_part, PARTS["own"])
    made: ConnectionSource = await own(loaded, environ, clock)
    return made


async def find_connection_source(
    loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock, local: bool
) -> ConnectionSource:
    """The gateway that runs, or another chat (unless `local`), else our own. Raises StateLocked, ConfigError,
    StateError kinds."""
    found = await is_gateway_running(loaded.settings)
    try:
        if local:
            return await _start_own(loaded, environ, clock)
        own = None
        if not found:
            own = await start_unless_served(lambda: _start_own(loaded, environ, clock), loaded.settings, clock)
    except StateLocked as exc:
        fix = "leave out --local: the running gateway answers" if found else exc.fix
        raise StateLocked(exc.message, fix=fix) from None
    if own is not None:
        return own
    place = find_location(loaded.settings.home) if loaded.settings.gateway.mode == "local" else None
    chat = place is not None and place.chat
    return SharedChat(loaded, environ, clock) if chat else RunningGateway(loaded.settings, clock)
