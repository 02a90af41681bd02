"""`pal tasks`: what goes on in the running gateway: turns, commands, sub-agents, jobs, open promises."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from palinurus.cli.args import CommandParser, load_settings, to_json
from palinurus.cli.reach.gateway import reach_gateway
from palinurus.cli.reach.http import is_gateway_running
from palinurus.cli.render import strip_controls
from palinurus.clock import Clock, SystemClock
from palinurus.config.settings import Settings
from palinurus.errors import GatewayUnreachable
from palinurus.inbox.tasks import format_tasks


def run_tasks(argv: list[str]) -> int:
    """Exit code 0. Raises GatewayUnreachable when none runs: then nothing goes on."""
    parser = CommandParser("tasks", "What goes on in the background: turns, commands, sub-agents, jobs.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--status", default="", help="only these: running, queued, completed, failed, cancelled, open")
    options = parser.parse_args(argv)
    settings = load_settings(dict(os.environ)).settings
    clock = SystemClock()
    found = asyncio.run(fetch_tasks(settings, clock, options.status))
    text = to_json(found, pretty=True) if options.json else format_task_rows(found, clock.now())
    sys.stdout.write(strip_controls(text) + "\n")
    return 0


async def fetch_tasks(settings: Settings, clock: Clock, status: str) -> list[dict[str, Any]]:
    """What the gateway says. Raises GatewayUnreachable."""
    if not await is_gateway_running(settings):
        raise GatewayUnreachable("no gateway is running, so nothing goes on", fix="`pal gateway` starts it")
    async with reach_gateway(settings, clock) as gateway:
        answer = await gateway.call("tasks.list", {"limit": 500, **({"status": status} if status else {})})
        return list(answer["tasks"])


def format_task_rows(found: list[dict[str, Any]], now: int) -> str:
    """For people."""
    return "\n".join(format_tasks(found, now)) or "Nothing goes on."
