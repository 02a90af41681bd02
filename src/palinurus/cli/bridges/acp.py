"""`pal acp`: the agent for editors that speak the Agent Client Protocol, on standard input and output.

Finds the gateway of this home and hands over to `editor.py`, which needs the extra `acp`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Mapping

from palinurus import __version__
from palinurus.cli.args import CommandParser, load_extra, load_settings, resolve_session_key
from palinurus.cli.gateway import logs
from palinurus.cli.reach.gateway import open_link
from palinurus.clock import SystemClock
from palinurus.config.secrets import collect_secrets
from palinurus.config.settings import Settings
from palinurus.gateway.rpc import ADMIN, APPROVALS, READ, WRITE, ClientDescription
from palinurus.workspace.folders import explain_barred, explain_unfit, keep_leave


def run_acp(argv: list[str]) -> int:
    """Serve one editor until it closes the pipe."""
    parser = CommandParser("acp", "Serve an editor over the Agent Client Protocol (stdin and stdout).")
    parser.add_argument("--agent", default="", help="which agent (default: the default one)")
    parser.add_argument("--session", default="", help="one session for all, instead of a new one each time")
    parser.add_argument("--url", default="", help="another gateway (ws://…); its token in PALINURUS_TOKEN")
    parser.add_argument("--verbose", "-v", action="store_true", help="log more, to stderr")
    args = parser.parse_args(argv)
    environ = dict(os.environ)
    settings = load_settings(environ).settings
    logs.start_logging(logging.DEBUG if args.verbose else logging.WARNING, collect_secrets(settings))
    serve = load_extra("bridge", "acp", ("acp",), "the Agent Client Protocol")
    target = resolve_session_key(settings, args.session, args.agent)

    async def run() -> None:
        link = await open_link(
            settings,
            SystemClock(),
            url=args.url,
            secret=environ.get("PALINURUS_TOKEN", ""),
            client=ClientDescription("cli", __version__, sys.platform, "cli", display_name="ACP"),
            scopes=(ADMIN, READ, WRITE, APPROVALS),
        )
        here = not args.url and settings.gateway.mode == "local"  # only then our folders are the gateway's
        await serve(link, target, bool(args.session), leaves=LocalLeaves(settings, environ) if here else None)

    try:
        asyncio.run(run())
    except (BrokenPipeError, ConnectionResetError):  # the editor is gone
        pass
    if sys.stdout.closed:  # by the loop, with the editor's pipe; others still want to flush it
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    return 0


class LocalLeaves:
    """What the owner of this machine allows. Implements `editor.FolderLeaves`."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = environ

    def explain(self, folder: str) -> str:
        return explain_barred(folder, self._settings, self._environ)

    def can_allow(self, folder: str) -> bool:
        return not explain_unfit(folder, self._settings, self._environ)

    def allow(self, folder: str) -> None:
        keep_leave(self._settings.home, folder, SystemClock().now())
