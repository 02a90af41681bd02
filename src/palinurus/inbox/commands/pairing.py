"""/pairing: who asks to be let in, and letting them in. For the owner."""

from __future__ import annotations

from palinurus.core.untrusted import clean_label
from palinurus.inbox.commands.desk import CommandAnswer, CommandCall
from palinurus.inbox.pairing import VALID, PairedPerson, PairingStranger

PAIRING_USAGE = "Use /pairing, /pairing approve CODE, /pairing reject CODE or /pairing revoke CHANNEL:ID."


async def run_pairing(call: CommandCall) -> CommandAnswer:
    """Alone it lists."""
    chats, now = call.desk.chats, call.desk.clock.now()
    if chats is None:
        return CommandAnswer("Nobody can ask to be let in here.")
    pairing = chats.pairing
    words = call.args.split()
    if not words or words == ["list"]:
        return CommandAnswer(list_people(await pairing.list_waiting(), await pairing.list_paired(), now))
    if len(words) != 2:
        return CommandAnswer(PAIRING_USAGE)
    sender = call.inbound.sender
    by = f"{call.inbound.target.channel}:{sender.id}"
    if words[0] == "approve":
        done = await pairing.approve(words[1], by)
        if isinstance(done, PairedPerson) and (reply := done.reply()) is not None:
            await chats.say(reply)
        return CommandAnswer(describe_approval(done))
    if words[0] == "reject":
        gone = await pairing.reject(words[1])
        return CommandAnswer(f"Nothing changed: {gone}." if isinstance(gone, str) else f"Forgotten: {gone.who}.")
    if words[0] == "revoke":
        return CommandAnswer(describe_revocation(await pairing.revoke(words[1])))
    return CommandAnswer(PAIRING_USAGE)


def list_people(asking: list[PairingStranger], paired: list[PairedPerson], now: int) -> str:
    """Who waits first: they need somebody."""
    lines = [f"{one.code}  {_who(one)} waits, {max(0, one.at + VALID - now) // 60_000} min left" for one in asking]
    lines += [f"{'owner' if one.owner else 'let in'}: {_who(one)}, by {one.by or 'somebody'}" for one in paired]
    return "\n".join(lines) or "Nobody waits, and nobody was let in by a code."


def describe_approval(done: PairedPerson | str) -> str:
    """An approval's fate in words."""
    if isinstance(done, str):
        return f"Nothing changed: {done}."
    more = " As the first one, they are the owner: all commands and approvals are theirs." if done.owner else ""
    return f"Let in: {_who(done)}.{more}"


def describe_revocation(done: PairedPerson | str) -> str:
    """The same for taking it back."""
    return f"Nothing changed: {done}." if isinstance(done, str) else f"Out, from now on: {_who(done)}."


def _who(one: PairingStranger | PairedPerson) -> str:
    name = clean_label(one.name, 60)
    return f"{one.who}, who calls themselves “{name}”" if name else one.who
