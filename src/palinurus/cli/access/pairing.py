"""`pal pairing`: who asks to be let in on a chat channel, letting them in, and taking it back.

Works beside a running gateway (which then does it, so that it counts at once) and without one.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from palinurus.cli.args import CommandParser, load_settings, to_json
from palinurus.cli.reach.gateway import reach_program
from palinurus.cli.render import strip_controls
from palinurus.clock import Clock, SystemClock
from palinurus.config.load import LoadedConfig
from palinurus.errors import BadRequest, NotFound
from palinurus.inbox.commands.owner import describe_approval, describe_revocation, list_people
from palinurus.inbox.pairing import PairedPerson, PairingStranger

WORDS = {
    "list": "who waits, and who was let in",
    "approve": "let in whoever has this code",
    "reject": "forget a code",
    "revoke": "put somebody out again: CHANNEL:ID",
}


def run_pairing(argv: list[str]) -> int:
    """0; 1 if nothing changed. Raises BadRequest, Unauthorized, StateError kinds."""
    parser = CommandParser("pairing", "Who may write to the agent on chat channels.")
    help = "; ".join(f"{name}: {text}" for name, text in WORDS.items())
    parser.add_argument("what", nargs="?", choices=tuple(WORDS), default="list", help=help)
    parser.add_argument("words", nargs="*", metavar="[CHANNEL] CODE", help="the code (or CHANNEL:ID to revoke)")
    parser.add_argument("--quiet", action="store_true", help="approve: do not tell the person")
    parser.add_argument("--json", action="store_true", help="list: for programs")
    asked = parser.parse_args(argv)
    if asked.what != "list" and not asked.words:
        parser.error(f"`{asked.what}` needs {'CHANNEL:ID' if asked.what == 'revoke' else 'a code'}")
    loaded = load_settings(dict(os.environ))
    params = _params(asked.what, asked.words, notify=not asked.quiet)
    text, good = asyncio.run(perform_pairing_command(loaded, SystemClock(), asked.what, params, json=asked.json))
    print(strip_controls(text))
    return 0 if good else 1


async def perform_pairing_command(
    loaded: LoadedConfig, clock: Clock, what: str, params: dict[str, Any], *, json: bool = False
) -> tuple[str, bool]:
    """Do it; what to print, and whether it was done."""
    try:
        async with reach_program(loaded, os.environ, clock) as program:
            found = await program.call(f"pairing.{what}", params)
    except (BadRequest, NotFound) as error:
        return f"Nothing changed: {error.message}.", False
    return _shown(what, found, clock.now(), json), True


def _params(what: str, words: list[str], *, notify: bool) -> dict[str, Any]:
    if what == "list":
        return {"channel": words[0]} if words else {}
    if what == "revoke":
        return {"who": words[0] if len(words) == 1 else ":".join(words[:2])}
    return {"code": words[-1], "notify": notify}


def _shown(what: str, found: dict[str, Any], now: int, json: bool) -> str:
    if json:
        return to_json(found, pretty=True)
    if what == "list":
        return list_people([_asking(row) for row in found["requests"]], [_paired(row) for row in found["paired"]], now)
    if what == "approve":
        return describe_approval(_paired(found))
    return describe_revocation(_paired(found)) if what == "revoke" else f"Forgotten: {_asking(found).who}."


def _asking(row: dict[str, Any]) -> PairingStranger:
    return PairingStranger(
        row["channel"], row["accountId"], row["id"], row["createdAtMs"], name=row["name"], code=row["code"]
    )


def _paired(row: dict[str, Any]) -> PairedPerson:
    at, by = row["approvedAtMs"], row["by"]
    return PairedPerson(row["channel"], row["accountId"], row["id"], at, name=row["name"], by=by, owner=row["owner"])
