"""`pal pairing`: who asks to be let in on a chat channel, letting them in, and taking it back.

Works beside a running gateway (which then does it, so that it counts at once) and without one.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from palinurus.agent.settle import to_outgoing
from palinurus.cli.args import CommandParser, load_settings, to_json
from palinurus.cli.reach.gateway import reach_gateway
from palinurus.cli.reach.http import is_gateway_running
from palinurus.cli.render import strip_controls
from palinurus.clock import Clock, SystemClock
from palinurus.config.settings import Settings
from palinurus.errors import BadRequest, StateLocked
from palinurus.inbox.commands.owner import describe_approval, describe_revocation, list_people
from palinurus.inbox.pairing import ChatPairing, PairedPerson, PairingStranger
from palinurus.store.sqlite import open_store

BY = "pal pairing"
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
    settings = load_settings(dict(os.environ)).settings
    params = _params(asked.what, asked.words, notify=not asked.quiet)
    text, good = asyncio.run(perform_pairing_command(settings, SystemClock(), asked.what, params, json=asked.json))
    print(strip_controls(text))
    return 0 if good else 1


async def perform_pairing_command(
    settings: Settings, clock: Clock, what: str, params: dict[str, Any], *, json: bool = False
) -> tuple[str, bool]:
    """Do it; what to print, and whether it was done."""
    if not await is_gateway_running(settings):
        return await _alone(settings, clock, what, params, json)
    try:
        async with reach_gateway(settings, clock) as gateway:
            found = await gateway.call(f"pairing.{what}", params)
    except BadRequest as error:
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
        row["channel"], row["accountId"], row["id"], row["createdAtMs"], row["name"], code=row["code"]
    )


def _paired(row: dict[str, Any]) -> PairedPerson:
    at, by = row["approvedAtMs"], row["by"]
    return PairedPerson(row["channel"], row["accountId"], row["id"], at, row["name"], by=by, owner=row["owner"])


async def _alone(settings: Settings, clock: Clock, what: str, params: dict[str, Any], json: bool) -> tuple[str, bool]:
    """No gateway runs: in the store itself. Who is to be told is told when one starts."""
    try:
        store = await open_store(settings.home, clock)
    except StateLocked as exc:
        raise StateLocked(exc.message, fix="type /pairing there, or stop it first") from None
    pairing = ChatPairing(store, clock, owned=bool(settings.people.owners))
    try:
        if what == "list":
            channel = params.get("channel")
            asking = [one for one in await pairing.list_waiting() if channel in (None, one.channel)]
            paired = [one for one in await pairing.list_paired() if channel in (None, one.channel)]
            if json:
                both = {"requests": asking, "paired": paired}
                return to_json(both, pretty=True), True
            return list_people(asking, paired, clock.now()), True
        if what == "approve":
            done = await pairing.approve(params["code"], BY)
            if isinstance(done, PairedPerson) and params["notify"] and (reply := done.reply()) is not None:
                await store.post_replies([to_outgoing(reply, reply.client_id, 0, clock.now())])
            return describe_approval(done), isinstance(done, PairedPerson)
        if what == "revoke":
            gone = await pairing.revoke(params["who"])
            return describe_revocation(gone), isinstance(gone, PairedPerson)
        out = await pairing.reject(params["code"])
        return (f"Nothing changed: {out}.", False) if isinstance(out, str) else (f"Forgotten: {out.who}.", True)
    finally:
        await store.close()
