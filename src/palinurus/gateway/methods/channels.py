"""channels.*, pairing.* and send: the chat channels as they run, who asks to be let in, and one message to somebody.

Whoever may pair devices may let people chat. Making somebody the owner by being the first takes operator.admin.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from palinurus.config.channels import AccountSettings
from palinurus.core.types.channel import SendFailure
from palinurus.core.types.inbound import Target
from palinurus.errors import BadRequest, NotFound
from palinurus.gateway.rpc import ADMIN, PAIRING, READ, WRITE, Call, Method, Params, RpcError, Word
from palinurus.gateway.scene import scene
from palinurus.inbox.lines import ChannelAccountState, ChatChannels
from palinurus.inbox.pairing import VALID, PairedPerson, PairingStranger, make_notice_id

WAIT = 10.0  # seconds for a receipt
_CONNECTED = ("ready",)
_ALSO = (("target", "to"), ("threadId", "thread"))  # two spellings of the same


class Status(Params, frozen=True):
    probe: bool | None = None
    timeout_ms: Annotated[int, Meta(ge=0)] | None = None
    channel: Word | None = None


class Which(Params, frozen=True):
    channel: Word
    account_id: Word | None = None


class Send(Params, frozen=True):
    to: Word
    message: Annotated[str, Meta(min_length=1, max_length=100_000)]
    channel: Word
    idempotency_key: Word
    account_id: Word = "default"
    thread_id: str = ""


class Action(Params, frozen=True):
    """`params` are the arguments of the message tool."""

    action: Word
    params: dict[str, Any]
    channel: Word
    idempotency_key: Word
    account_id: Word = "default"


class Listed(Params, frozen=True):
    channel: Word | None = None


class Code(Params, frozen=True):
    code: Word
    notify: bool = True


class Person(Params, frozen=True):
    who: Word


async def status(call: Call, asked: Status) -> dict[str, Any]:
    """Which chat channels there are, and how each account is."""
    desk = scene(call).desk
    rows = [line for line in (desk.chats.lines.all() if desk.chats else ()) if asked.channel in (None, line.channel)]
    names = list(dict.fromkeys(n for n in sorted(desk.settings.channels) if asked.channel in (None, n)))
    names += [line.channel for line in rows if line.channel not in names]
    labels = {name: name.capitalize() for name in names}
    by = {name: _accounts(name, desk.settings.accounts.get(name, {}), rows) for name in names}
    return {
        "ts": desk.clock.now(),
        "channelOrder": names,
        "channelLabels": labels,
        "channelDetailLabels": labels,
        "channelSystemImages": {},
        "channelMeta": [{"id": name, "label": labels[name], "detailLabel": labels[name]} for name in names],
        "channels": {name: {"configured": True, "running": any(a["running"] for a in by[name])} for name in names},
        "channelAccounts": by,
        "channelDefaultAccountId": {name: by[name][0]["accountId"] for name in names},
    }


def _accounts(
    name: str, configured: dict[str, AccountSettings], rows: list[ChannelAccountState]
) -> list[dict[str, Any]]:
    """Those that run, and those that could not be made."""
    running = [_account(line) for line in rows if line.channel == name]
    known = {one["accountId"] for one in running}
    missing = [
        {
            "accountId": account,
            "enabled": True,
            "configured": True,
            "running": False,
            "connected": False,
            "healthState": "failed",
            "lastError": "could not be opened; the log says why",
            "dmPolicy": own.dm,
        }
        for account, own in configured.items()
        if account not in known
    ]
    return [*running, *missing] or [{"accountId": "default", "enabled": True, "configured": True, "running": False}]


def _account(line: ChannelAccountState) -> dict[str, Any]:
    made = {
        "accountId": line.account,
        "name": line.status.me,
        "enabled": True,
        "configured": True,
        "linked": line.status.state != "signed_out",
        "running": line.running,
        "connected": line.running and line.status.state in _CONNECTED,
        "healthState": line.status.state if line.running else "stopped",
        "lastError": line.status.detail,
        "dmPolicy": line.dm,
    }
    return {key: value for key, value in made.items() if value != ""}


async def start(call: Call, asked: Which) -> dict[str, Any]:
    """Receive on a channel again. All its accounts start together."""
    changed = await _found(_chats(call).lines.start(asked.channel))
    return {"channel": asked.channel, "started": changed}


async def stop(call: Call, asked: Which) -> dict[str, Any]:
    """Receive no more, until `channels.start` or a restart."""
    changed = await _found(_chats(call).lines.stop(asked.channel))
    return {"channel": asked.channel, "stopped": changed}


async def logout(call: Call, asked: Which) -> dict[str, Any]:
    """Give up the sign-in of an account, on channels that have one of their own."""
    account = asked.account_id or "default"
    said = await _found(_chats(call).lines.logout(asked.channel, account))
    return {"channel": asked.channel, "accountId": account, "cleared": not said, "loggedOut": not said, "detail": said}


async def send(call: Call, asked: Send) -> dict[str, Any]:
    """A message to a chat, through the outbox; one per idempotency key. Answers with the receipt if it comes soon."""
    ident = make_notice_id("send", asked.channel, asked.idempotency_key)
    target = Target(asked.channel, asked.to, asked.account_id, asked.thread_id)
    done = await _found(_chats(call).lines.send(target, asked.message, ident, WAIT))
    return {"runId": done.id, "messageId": done.receipt, "channel": asked.channel, **msgspec.to_builtins(done)}


async def action(call: Call, asked: Action) -> dict[str, Any]:
    """What the message tool can do, for a person: send (one per idempotency key), react, edit, delete, pin, …"""
    params = asked.params
    to, thread = (str(params.get(name) or params.get(also) or "") for name, also in _ALSO)
    if not to:
        raise RpcError("params.target is missing: which chat?")
    if asked.action == "send":
        words = str(params.get("message") or "")
        if not words.strip():
            raise RpcError("params.message is missing")
        return await send(call, Send(to, words, asked.channel, asked.idempotency_key, asked.account_id, thread))
    target = Target(asked.channel, to, asked.account_id, thread)
    done = await _found(_chats(call).lines.act(target, asked.action, params))
    if isinstance(done, SendFailure):
        raise RpcError(done.reason, code="UNAVAILABLE")
    return {
        "ok": True,
        "action": asked.action,
        "channel": asked.channel,
        "messageId": done.message_id,
        "data": done.data,
    }


async def pairing_list(call: Call, asked: Listed) -> dict[str, Any]:
    """Who waits to be let in, and who was."""
    pairing = _chats(call).pairing
    return {
        "requests": [_asking(one) for one in await pairing.list_waiting() if asked.channel in (None, one.channel)],
        "paired": [_paired(one) for one in await pairing.list_paired() if asked.channel in (None, one.channel)],
    }


async def approve(call: Call, asked: Code) -> dict[str, Any]:
    """Let somebody in; `notify` tells them."""
    chats = _chats(call)
    done = await chats.pairing.approve(asked.code, call.client.principal, first=call.client.may(ADMIN))
    if isinstance(done, str):
        raise RpcError(done)
    if asked.notify and (reply := done.reply()) is not None:
        await chats.say(reply)
    return _paired(done)


async def reject(call: Call, asked: Code) -> dict[str, Any]:
    """Forget a code."""
    done = await _chats(call).pairing.reject(asked.code)
    if isinstance(done, str):
        raise RpcError(done)
    return _asking(done)


async def revoke(call: Call, asked: Person) -> dict[str, Any]:
    """Take back what a code gave."""
    done = await _chats(call).pairing.revoke(asked.who)
    if isinstance(done, str):
        raise RpcError(done)
    return _paired(done)


def _asking(one: PairingStranger) -> dict[str, Any]:
    return {**_person(one), "code": one.code, "createdAtMs": one.at, "expiresAtMs": one.at + VALID}


def _paired(one: PairedPerson) -> dict[str, Any]:
    return {**_person(one), "approvedAtMs": one.at, "by": one.by, "owner": one.owner}


def _person(one: PairingStranger | PairedPerson) -> dict[str, Any]:
    return {"channel": one.channel, "accountId": one.account, "id": one.id, "name": one.name}


def _chats(call: Call) -> ChatChannels:
    found = scene(call).desk.chats
    if found is None:
        raise RpcError("this gateway has no chat channels", code="UNAVAILABLE")
    return found


async def _found(work: Any) -> Any:
    try:
        return await work
    except (NotFound, BadRequest) as exc:
        raise RpcError(exc.message) from None


METHODS: tuple[Method, ...] = (
    Method("channels.status", READ, Status, status),
    Method("channels.start", ADMIN, Which, start),
    Method("channels.stop", ADMIN, Which, stop),
    Method("channels.logout", ADMIN, Which, logout),
    Method("send", WRITE, Send, send),
    Method("message.action", WRITE, Action, action),
    Method("pairing.list", PAIRING, Listed, pairing_list),
    Method("pairing.approve", PAIRING, Code, approve),
    Method("pairing.reject", PAIRING, Code, reject),
    Method("pairing.revoke", PAIRING, Person, revoke),
)
