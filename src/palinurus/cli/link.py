"""The way from the terminal screen to the agent: the gateway's own protocol, always. When no gateway runs, `cli/own.py`
starts the program in this process.

Loaded through the table in `cli/main.py` once the screen stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from palinurus.cli import http
from palinurus.cli.client import where
from palinurus.cli.devices import link_to
from palinurus.cli.main import PARTS, load
from palinurus.cli.tui.port import House
from palinurus.clock import Clock
from palinurus.config.load import LoadedConfig
from palinurus.config.settings import Settings
from palinurus.errors import BadRequest, GatewayUnreachable, StateLocked
from palinurus.gateway.client import Link
from palinurus.gateway.rpc import RpcError


class Line:
    """A connection whose refusals are errors like all others. Implements `tui.port.Wire`."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.events = link.events

    async def call(self, method: str, params: Any = None) -> Any:
        """Raises BadRequest with the gateway's refusal, GatewayUnreachable."""
        try:
            return await self._link.call(method, params if params is not None else {})
        except RpcError as error:
            raise BadRequest(error.message) from None
        except ConnectionError as exc:
            raise GatewayUnreachable(f"the connection broke: {exc}") from None

    async def wait_closed(self) -> int | None:
        return await self._link.wait_closed()

    async def close(self) -> None:
        await self._link.close()


class Remote:
    """A gateway that runs."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.where = f"gateway at {where(settings).url}"
        self._settings = settings
        self._clock = clock

    async def open(self) -> Line:
        """Raises Unauthorized, GatewayUnreachable."""
        return Line(await link_to(self._settings, self._clock))

    async def close(self) -> None:
        """The gateway goes on."""


async def enter(loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock, local: bool) -> House:
    """The gateway that runs (unless `local`), else our own. Raises StateLocked, ConfigError, StateError kinds."""
    found = await http.alive(where(loaded.settings))
    if found and not local:
        return Remote(loaded.settings, clock)
    try:
        own: Any = await asyncio.to_thread(load, PARTS["own"])
        made: House = await own(loaded, environ, clock)
        return made
    except StateLocked as exc:
        fix = "leave out --local: the running gateway answers" if found else exc.fix
        raise StateLocked(exc.message, fix=fix) from None
