"""config.explain: what a key is, what it is set to, where that comes from, and when a change acts. Ours."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from palinurus.config.explain import KeyExplanation, explain_key
from palinurus.config.load import load_config
from palinurus.errors import PalinurusError
from palinurus.gateway.rpc import ADMIN, GatewayMethod, MethodCall, MethodError, MethodParams
from palinurus.gateway.scene import get_context


class ConfigKeyParams(MethodParams, frozen=True):
    path: Annotated[str, Meta(min_length=1, max_length=1024)]


async def explain_config_key(call: MethodCall, asked: ConfigKeyParams) -> dict[str, Any]:
    """As `pal config explain` says it; secrets are masked."""
    desk = get_context(call).desk

    def look() -> KeyExplanation:
        return explain_key(load_config(desk.settings.home, desk.environ), asked.path)

    try:
        found = await asyncio.to_thread(look)
    except PalinurusError as exc:
        raise MethodError(exc.message) from None
    return dict(msgspec.to_builtins(found, enc_hook=str))


EXPLAIN_METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("config.explain", ADMIN, ConfigKeyParams, explain_config_key),
)
