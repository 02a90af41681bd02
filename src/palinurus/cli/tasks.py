"""`pal tasks`: what goes on in the running gateway: turns, commands, sub-agents, jobs, open promises."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import msgspec

from palinurus.cli import http
from palinurus.cli.args import Parser
from palinurus.cli.args import settings as load_settings
from palinurus.cli.client import where
from palinurus.cli.devices import link_to
from palinurus.cli.render import plain
from palinurus.clock import Clock, SystemClock
from palinurus.config.settings import Settings
from palinurus.errors import GatewayUnreachable
from palinurus.inbox.tasks import format_tasks


def run(argv: list[str]) -> int:
    """Exit code 0. Raises GatewayUnreachable when none runs: then nothing goes on."""
    parser = Parser("tasks", "What goes on in the background: turns, commands, sub-agents, jobs.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--status", default="", help="only these: running, queued, completed, failed, cancelled, open")
    options = parser.parse_args(argv)
    settings = load_settings(dict(os.environ)).settings
    clock = SystemClock()
    found = asyncio.run(asked(settings, clock, options.status))
    text = msgspec.json.format(msgspec.json.encode(found)).decode() if options.json else shown(found, clock.now())
    sys.stdout.write(plain(text) + "\n")
    return 0


async def asked(settings: Settings, clock: Clock, status: str) -> list[dict[str, Any]]:
    """What the gateway says. Raises GatewayUnreachable."""
    if not await http.alive(where(settings)):
        raise GatewayUnreachable("no gateway is running, so nothing goes on", fix="`pal gateway` starts it")
    link = await link_to(settings, clock)
    try:
        answer = await link.call("tasks.list", {"limit": 500, **({"status": status} if status else {})})
        return list(answer["tasks"])
    finally:
        await link.close()


def shown(found: list[dict[str, Any]], now: int) -> str:
    """For people."""
    return "\n".join(format_tasks(found, now)) or "Nothing goes on."
