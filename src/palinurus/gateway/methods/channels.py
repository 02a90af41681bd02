"""channels.*, web.login.*, pairing.* and send: the chat channels as they run, linking a WhatsApp account from the page,
who asks to be let in, and one message to somebody.

Whoever may pair devices may let people chat. Making somebody the owner by being the first takes operator.admin.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from palinurus.core.types.channel import SendFailure
from palinurus.core.types.inbound import Target
from palinurus.errors import PalinurusError
from palinurus.gateway import rpc
from palinurus.gateway.context import require
from palinurus.gateway.rpc import GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.inbox.pairing import VALID, PairedPerson, PairingStranger, make_notice_id
from palinurus.inbox.receivers import ChannelAccountState, ChatChannels
from palinurus.tools.program.signin import CHANNEL, SignInsPort, SignInState

NO_CHATS = "this gateway has no chat channels"
LOGIN_START, LOGIN_WAIT, LOGIN_MOST = 30_000, 120_000, 180_000  # ms


class LoginStartParams(MethodParams, frozen=True):
    account_id: NonEmpty = "default"
    timeout_ms: Annotated[int, Meta(ge=0, le=LOGIN_MOST)] = LOGIN_START
    force: bool | None = None
    verbose: bool | None = None


class LoginWaitParams(MethodParams, frozen=True):
    account_id: NonEmpty = "default"
    timeout_ms: Annotated[int, Meta(ge=0, le=LOGIN_MOST)] = LOGIN_WAIT
    current_qr_data_url: str = ""


async def start_login(call: MethodCall, asked: LoginStartParams) -> dict[str, Any]:
    """Begin to link; answers with the code to be read."""
    return _told(await _tried(_signins(call).start(CHANNEL, asked.account_id, asked.timeout_ms / 1000)))


async def wait_for_login(call: MethodCall, asked: LoginWaitParams) -> dict[str, Any]:
    """Answers when a phone has read the code, when there is another code, or when the time is over."""
    seen = asked.current_qr_data_url
    return _told(await _tried(_signins(call).wait(CHANNEL, asked.account_id, asked.timeout_ms / 1000, seen)))


def _told(sign: SignInState) -> dict[str, Any]:
    made: dict[str, Any] = {"connected": sign.state == "done", "message": sign.detail or "nobody has read the code yet"}
    return {**made, "qrDataUrl": sign.url} if sign.url else made


async def _tried(work: Awaitable[SignInState]) -> SignInState:
    try:
        return await work
    except PalinurusError as exc:
        raise MethodError(exc.message + (f" ({exc.fix})" if exc.fix else "")) from None


def _signins(call: MethodCall) -> SignInsPort:
    return require(_chats(call).signins, NO_CHATS)


T = TypeVar("T", PairedPerson, PairingStranger)
WAIT = 10.0  # seconds for a receipt
_CONNECTED = ("ready",)
_ALSO = (("target", "to"), ("threadId", "thread"))  # two spellings of the same


class ChannelStatusParams(MethodParams, frozen=True):
    probe: bool | None = None
    timeout_ms: Annotated[int, Meta(ge=0)] | None = None
    channel: NonEmpty | None = None


class ChannelAccountParams(MethodParams, frozen=True):
    channel: NonEmpty
    account_id: NonEmpty | None = None


class MessageSendParams(MethodParams, frozen=True):
    to: NonEmpty
    message: Annotated[str, Meta(min_length=1, max_length=100_000)]
    channel: NonEmpty
    idempotency_key: NonEmpty
    account_id: NonEmpty = "default"
    thread_id: str = ""


class MessageActionParams(MethodParams, frozen=True):
    """`params` are the arguments of the message tool."""

    action: NonEmpty
    params: dict[str, Any]
    channel: NonEmpty
    idempotency_key: NonEmpty
    account_id: NonEmpty = "default"


class PairingListParams(MethodParams, frozen=True):
    channel: NonEmpty | None = None


class PairingCodeParams(MethodParams, frozen=True):
    code: NonEmpty
    notify: bool = True


class PairedPersonParams(MethodParams, frozen=True):
    who: NonEmpty


async def get_channel_status(call: MethodCall, asked: ChannelStatusParams) -> dict[str, Any]:
    """Which chat channels there are, and how each account is."""
    program = call.program
    rows = [
        line
        for line in (program.chats.receivers.all() if program.chats else ())
        if asked.channel in (None, line.channel)
    ]
    names = list(dict.fromkeys(n for n in sorted(program.settings.channels) if asked.channel in (None, n)))
    names += [line.channel for line in rows if line.channel not in names]
    labels = {name: name.capitalize() for name in names}
    by = {name: _accounts(name, rows) for name in names}
    return {
        "ts": program.clock.now(),
        "channelOrder": names,
        "channelLabels": labels,
        "channelDetailLabels": labels,
        "channelSystemImages": {},
        "channelMeta": [{"id": name, "label": labels[name], "detailLabel": labels[name]} for name in names],
        "channels": {name: {"configured": True, "running": any(a["running"] for a in by[name])} for name in names},
        "channelAccounts": by,
        "channelDefaultAccountId": {name: by[name][0]["accountId"] for name in names},
    }


def _accounts(name: str, rows: list[ChannelAccountState]) -> list[dict[str, Any]]:
    """Those that run, and those that could not be made."""
    none = {"accountId": "default", "enabled": True, "configured": True, "running": False}
    return [_account(line) for line in rows if line.channel == name] or [none]


def _account(line: ChannelAccountState) -> dict[str, Any]:
    made = {
        "accountId": line.account,
        "name": line.status.me,
        "enabled": True,
        "configured": True,
        "linked": line.status.state != "signed_out",
        "running": line.running,
        "connected": line.running and line.status.state in _CONNECTED,
        "healthState": line.status.state if line.running or line.status.state == "failed" else "stopped",
        "lastError": line.status.detail,
        "dmPolicy": line.dm,
    }
    return {key: value for key, value in made.items() if value != ""}


async def start_channel(call: MethodCall, asked: ChannelAccountParams) -> dict[str, Any]:
    """Receive on a channel again. All its accounts start together."""
    return {"channel": asked.channel, "started": await _chats(call).receivers.start(asked.channel)}


async def stop_channel(call: MethodCall, asked: ChannelAccountParams) -> dict[str, Any]:
    """Receive no more, until `channels.start` or a restart."""
    return {"channel": asked.channel, "stopped": await _chats(call).receivers.stop(asked.channel)}


async def log_out_channel(call: MethodCall, asked: ChannelAccountParams) -> dict[str, Any]:
    """Give up the sign-in of an account, on channels that have one of their own."""
    account = asked.account_id or "default"
    said = await _chats(call).receivers.logout(asked.channel, account)
    return {"channel": asked.channel, "accountId": account, "cleared": not said, "loggedOut": not said, "detail": said}


async def send_message(call: MethodCall, asked: MessageSendParams) -> dict[str, Any]:
    """A message to a chat, through the outbox; one per idempotency key. Answers with the receipt if it comes soon."""
    ident = make_notice_id("send", asked.channel, asked.idempotency_key)
    target = Target(asked.channel, asked.to, asked.account_id, asked.thread_id)
    done = await _chats(call).receivers.send(target, asked.message, ident, WAIT)
    return {"runId": done.id, "messageId": done.receipt, "channel": asked.channel, **msgspec.to_builtins(done)}


async def run_message_action(call: MethodCall, asked: MessageActionParams) -> dict[str, Any]:
    """What the message tool can do, for a person: send (one per idempotency key), react, edit, delete, pin, …"""
    params = asked.params
    to, thread = (str(params.get(name) or params.get(also) or "") for name, also in _ALSO)
    if not to:
        raise MethodError("params.target is missing: which chat?")
    if asked.action == "send":
        words = str(params.get("message") or "")
        if not words.strip():
            raise MethodError("params.message is missing")
        return await send_message(
            call,
            MessageSendParams(
                to, words, asked.channel, asked.idempotency_key, account_id=asked.account_id, thread_id=thread
            ),
        )
    target = Target(asked.channel, to, asked.account_id, thread)
    done = await _chats(call).receivers.act(target, asked.action, params)
    if isinstance(done, SendFailure):
        raise MethodError(done.reason, code="UNAVAILABLE")
    made = {"ok": True, "action": asked.action, "channel": asked.channel}
    return {**made, "messageId": done.message_id, "data": done.data}


async def list_pairings(call: MethodCall, asked: PairingListParams) -> dict[str, Any]:
    """Who waits to be let in, and who was."""
    pairing = _chats(call).pairing
    return {
        "requests": [_asking(one) for one in await pairing.list_waiting() if asked.channel in (None, one.channel)],
        "paired": [_paired(one) for one in await pairing.list_paired() if asked.channel in (None, one.channel)],
    }


async def approve_pairing(call: MethodCall, asked: PairingCodeParams) -> dict[str, Any]:
    """Let somebody in; `notify` tells them."""
    chats = _chats(call)
    done = _done(await chats.pairing.approve(asked.code, call.client.caller.id, first=call.client.may(rpc.ADMIN)))
    if asked.notify and (reply := done.reply()) is not None:
        await chats.say(reply)
    return _paired(done)


async def reject_pairing(call: MethodCall, asked: PairingCodeParams) -> dict[str, Any]:
    """Forget a code."""
    return _asking(_done(await _chats(call).pairing.reject(asked.code)))


async def revoke_pairing(call: MethodCall, asked: PairedPersonParams) -> dict[str, Any]:
    """Take back what a code gave."""
    return _paired(_done(await _chats(call).pairing.revoke(asked.who)))


def _done(done: T | str) -> T:
    """What was done, or the error that says why not."""
    if isinstance(done, str):
        raise MethodError(done)
    return done


def _asking(one: PairingStranger) -> dict[str, Any]:
    return {**_person(one), "code": one.code, "createdAtMs": one.at, "expiresAtMs": one.at + VALID}


def _paired(one: PairedPerson) -> dict[str, Any]:
    return {**_person(one), "approvedAtMs": one.at, "by": one.by, "owner": one.owner}


def _person(one: PairingStranger | PairedPerson) -> dict[str, Any]:
    return {"channel": one.channel, "accountId": one.account, "id": one.id, "name": one.name}


def _chats(call: MethodCall) -> ChatChannels:
    return require(call.program.chats, NO_CHATS)


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("web.login.start", rpc.ADMIN, LoginStartParams, start_login),
    GatewayMethod("web.login.wait", rpc.ADMIN, LoginWaitParams, wait_for_login),
    GatewayMethod("channels.status", rpc.READ, ChannelStatusParams, get_channel_status),
    GatewayMethod("channels.start", rpc.ADMIN, ChannelAccountParams, start_channel),
    GatewayMethod("channels.stop", rpc.ADMIN, ChannelAccountParams, stop_channel),
    GatewayMethod("channels.logout", rpc.ADMIN, ChannelAccountParams, log_out_channel),
    GatewayMethod("send", rpc.WRITE, MessageSendParams, send_message),
    GatewayMethod("message.action", rpc.WRITE, MessageActionParams, run_message_action),
    GatewayMethod("pairing.list", rpc.PAIRING, PairingListParams, list_pairings),
    GatewayMethod("pairing.approve", rpc.PAIRING, PairingCodeParams, approve_pairing),
    GatewayMethod("pairing.reject", rpc.PAIRING, PairingCodeParams, reject_pairing),
    GatewayMethod("pairing.revoke", rpc.PAIRING, PairedPersonParams, revoke_pairing),
)
