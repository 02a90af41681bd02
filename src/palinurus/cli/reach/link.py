"""The way from the terminal screen to the agent: the gateway's own protocol, always. When no gateway runs, `cli/own.py`
starts the program in this process.

Loaded through the table in `cli/main.py` once the screen stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from palinurus.cli.access.devices import connect_to_gateway
from palinurus.cli.main import PARTS, load_part
from palinurus.cli.reach import http
from palinurus.cli.reach.client import find_gateway_address
from palinurus.cli.tui.session import ConnectionSource
from palinurus.clock import Clock
from palinurus.config.load import LoadedConfig
from palinurus.config.settings import Settings
from palinurus.errors import BadRequest, GatewayUnreachable, StateLocked
from palinurus.gateway.client import GatewayLink
from palinurus.gateway.rpc import MethodError


class ScreenLink:
    """A connection whose refusals are errors like all others. Implements `tui.port.Wire`."""

    def __init__(self, link: GatewayLink) -> None:
        self._link = link
        self.events = link.events

    async def call(self, method: str, params: Any = None) -> Any:
        """Raises BadRequest with the gateway's refusal, GatewayUnreachable."""
        try:
            return await self._link.call(method, params if params is not None else {})
        except MethodError as error:
            raise BadRequest(error.message) from None
        except ConnectionError as exc:
            raise GatewayUnreachable(f"the connection broke: {exc}") from None

    async def wait_closed(self) -> int | None:
        return await self._link.wait_closed()

    async def close(self) -> None:
        await self._link.close()


class RunningGateway:
    """A gateway that runs."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.where = f"gateway at {find_gateway_address(settings).url}"
        self._settings = settings
        self._clock = clock

    async def open(self) -> ScreenLink:
        """Raises Unauthorized, GatewayUnreachable."""
        return ScreenLink(await connect_to_gateway(self._settings, self._clock))

    async def close(self) -> None:
        """The gateway goes on."""


async def find_connection_source(
    loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock, local: bool
) -> ConnectionSource:
    """The gateway that runs (unless `local`), else our own. Raises StateLocked, ConfigError, StateError kinds."""
    found = await http.is_gateway_alive(find_gateway_address(loaded.settings))
    if found and not local:
        return RunningGateway(loaded.settings, clock)
    try:
        own: Any = await asyncio.to_thread(load_part, PARTS["own"])
        made: ConnectionSource = await own(loaded, environ, clock)
        return made
    except StateLocked as exc:
        fix = "leave out --local: the running gateway answers" if found else exc.fix
        raise StateLocked(exc.message, fix=fix) from None
