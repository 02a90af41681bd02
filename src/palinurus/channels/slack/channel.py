"""The Slack channel: one app in one workspace. Socket mode (usual) needs no address of ours; mode "http" has Slack
call /channels/slack/<account>. Knows the connection and what is acknowledged when; words are `inbound` and `posts`.

The socket is our own loop: the library's client reconnects at a fixed pace, goes on with refused tokens, and hands
messages over in no certain order.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import aiohttp

from palinurus.channels.intake import ChatOrder, fetch_message_files, hand_in, hand_in_once
from palinurus.channels.kit import ChannelKit, PostingChannel, decode_object
from palinurus.channels.slack import inbound
from palinurus.channels.slack.api import SlackApi
from palinurus.channels.slack.lookup import SlackBacklog, SlackLookup
from palinurus.channels.slack.posts import MEDIA, SlackPoster
from palinurus.core.types.channel import (
    ChannelAbilities,
    ChannelHttpRequest,
    ChannelHttpResponse,
    SendFailure,
    SubmitInbound,
)
from palinurus.core.types.inbound import Inbound
from palinurus.core.webhooks import verify_signature
from palinurus.errors import BadRequest
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

API = "https://slack.com/api/"
HEARTBEAT = 20.0  # seconds; a socket that answers no ping for half of it is gone
STEADY = 10.0  # seconds; a connection that lived longer was a good one
AWAY = 60.0  # seconds; after a shorter absence Slack itself tells all again
REST = 2.0  # seconds for what is on its way in when Slack changes the connection

_PARTED = {"link_disabled": "Socket Mode is switched off in the app's settings"}
_SIGN_IN = "Slack does not take the token any more: install the app again and set the new one"


class SlackChannel(PostingChannel):
    """Implements `Channel`. Slack takes no client ids, but what was posted can be read back. Raises ConfigError without
    its tokens."""

    name = "slack"
    abilities = ChannelAbilities(
        markup="slack",
        limit=4000,
        acts=frozenset(("edit", "delete", "react", "pin", "thread", "read", "member-info", "emoji-list")),
        pace=1.2,
        buttons=10,
        threads=True,
        media=MEDIA,
        voice=False,
    )

    def __init__(self, kit: ChannelKit) -> None:
        super().__init__(kit)
        token = kit.secret("botToken")
        self._http_mode = kit.text("mode", "socket") == "http"
        self._app = kit.secret("appToken") if not self._http_mode else None
        self._signing = kit.secret("signingSecret") if self._http_mode else None
        self._base = kit.text("apiBase", API)
        self._calls = SlackApi(token, self._base)
        self._posts: SlackPoster = SlackPoster(kit, self._calls)
        self._lookup = SlackLookup(kit, self._calls, token, self._base)
        self._gap = SlackBacklog(kit, self._calls)
        self._order = ChatOrder()
        self._commands = frozenset(name for name, _ in kit.commands)
        self._threads = kit.text("replyToMode") == "all"
        self._left: float | None = None  # when we were last connected; None: never

    # --- the connection

    async def run(self, submit: SubmitInbound) -> None:
        """Receive until cancelled; ends when Slack does not take our tokens any more."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as http:
            self._calls.use(http)
            self._lookup.use(http)
            await self.keep_connected(partial(self._attempt, http, submit))

    async def _attempt(self, http: aiohttp.ClientSession, submit: SubmitInbound) -> SendFailure:
        ended = await self._connected(http, submit)
        return SendFailure(_SIGN_IN, "signed_out") if ended.trouble == "signed_out" else ended

    async def _connected(self, http: aiohttp.ClientSession, submit: SubmitInbound) -> SendFailure:
        """One connection, to its end, and why it ended."""
        trouble = await self._introduced()
        if trouble is not None:
            return trouble
        if self._http_mode:
            self.set_status("ready", "Slack calls us", self._posts.me.name)
            await self._catch_up(submit)
            await asyncio.get_running_loop().create_future()
        opened = await self._calls.call("apps.connections.open", token=self._app)
        if isinstance(opened, SendFailure):
            return opened
        try:
            async with http.ws_connect(str(opened.get("url")), heartbeat=HEARTBEAT) as socket:
                return await self._received(socket, submit)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as exc:
            return SendFailure(f"the socket broke ({type(exc).__name__})")

    async def _introduced(self) -> SendFailure | None:
        """Find out who we are, once."""
        if self._posts.me.user:
            return None
        told = await self._calls.call("auth.test")
        if isinstance(told, SendFailure):
            return told
        fields = (str(told.get(key) or "") for key in ("user_id", "bot_id", "team_id", "user"))
        self._posts.me = inbound.SlackIdentity(*fields)
        return None

    async def _received(self, socket: aiohttp.ClientWebSocketResponse, submit: SubmitInbound) -> SendFailure:
        going = TaskSet("slack: taking in what was told")
        begun = self._kit.clock.monotonic()
        try:
            async for frame in socket:
                if frame.type is not aiohttp.WSMsgType.TEXT:
                    continue
                told = decode_object(frame.data)
                if told.get("type") == "hello":
                    self.set_status("ready", me=self._posts.me.name)
                    if self._left is None or self._kit.clock.monotonic() - self._left > AWAY:
                        going.start(self._catch_up(submit))
                elif told.get("type") == "disconnect":
                    with suppress(TimeoutError):
                        async with asyncio.timeout(REST):
                            await going.settle()
                    return SendFailure(_PARTED.get(str(told.get("reason")), "Slack asked for a new connection"))
                elif told.get("envelope_id"):
                    going.start(self._envelope(socket, told, submit))
        finally:
            self._left = self._kit.clock.monotonic()
            if self._left - begun > STEADY:
                self._backoff.reset()
            await going.close()
        return SendFailure("Slack closed the socket")

    async def _catch_up(self, submit: SubmitInbound) -> None:
        """Take what was said while we were away for long."""
        try:
            for channel in await self._gap.chats():
                async with self._order.turn(channel):
                    async for event in self._gap.read_missed(channel):
                        await self._taken(await self._heard({"type": "event_callback", "event": event}), submit)
        except Exception:  # task boundary: what Slack tells from now on is heard all the same
            log.exception("slack, account %s: what was said meanwhile could not be read", self._kit.account)

    async def _taken(self, heard: Inbound | None, submit: SubmitInbound) -> None:
        """Returns when the message is on disk, or never can be."""
        if heard is None:
            return
        await hand_in(submit, heard, self._kit.clock)
        channel, _, ts = heard.event.partition(":")
        if channel == heard.target.to:  # a message; not a button or a command
            await self._gap.mark_taken(channel, ts)

    async def _envelope(
        self, socket: aiohttp.ClientWebSocketResponse, told: dict[str, Any], submit: SubmitInbound
    ) -> None:
        """Acknowledged when the message is on disk, or never can be. What is not acknowledged Slack tells again."""
        payload = told.get("payload")
        try:
            async with self._order.turn(_chat(payload) if isinstance(payload, dict) else ""):
                await self._taken(await self._heard(payload) if isinstance(payload, dict) else None, submit)
            await socket.send_str(json.dumps({"envelope_id": told["envelope_id"]}))
        except (aiohttp.ClientError, ConnectionError):
            pass  # told again over the next connection; the event's id makes it one message
        except Exception:  # task boundary: one strange payload stops no other
            log.exception("slack, account %s: a payload could not be read", self._kit.account)

    # --- what is told

    async def _heard(self, payload: Mapping[str, Any]) -> Inbound | None:
        """The message in a payload, its files fetched; None if there is none, or it is not as Slack makes them."""
        try:
            return await self._read(payload)
        except (AttributeError, TypeError, KeyError, IndexError, ValueError) as exc:
            log.warning("slack, account %s: a payload is left out (%s: %s)", self._kit.account, type(exc).__name__, exc)
            return None

    async def _read(self, payload: Mapping[str, Any]) -> Inbound | None:
        kind = str(payload.get("type") or "")
        if kind == "event_callback":
            return await self._message(payload.get("event") or {})
        if kind == "block_actions":
            text = await self._posts.decode_button(str(((payload.get("actions") or [{}])[0]).get("value") or ""))
            return inbound.parse_press(payload, await self._around(payload), text)
        if payload.get("command"):
            return inbound.parse_command(payload, await self._around(payload), self._commands, self._kit.clock.now())
        return None

    async def _message(self, event: Mapping[str, Any]) -> Inbound | None:
        if event.get("type") not in ("message", "app_mention"):
            return None
        bare = inbound.parse_message(event, inbound.SlackContext(self._posts.me, self._kit.account, "direct"))
        if bare is None:
            return None
        heard = inbound.parse_message(event, await self._around(event))
        assert heard is not None
        return await fetch_message_files(self._kit, heard.inbound, heard.files, self._lookup.fetch_file)

    async def _around(self, told: Mapping[str, Any]) -> inbound.SlackContext:
        channel, hint = _chat(told), str(told.get("channel_type") or "")
        kind, title = await self._lookup.chat(channel, hint)
        user = told.get("user") if isinstance(told.get("user"), str) else ""
        name = await self._lookup.name(str(user)) if user else str(told.get("username") or "")
        thread = str(told.get("thread_ts") or "")
        joined = bool(thread) and await self._posts.has_spoken(channel, thread)
        return inbound.SlackContext(
            self._posts.me, self._kit.account, kind, title, name=name, joined=joined, threads=self._threads
        )

    async def hook(self, request: ChannelHttpRequest, submit: SubmitInbound) -> ChannelHttpResponse:
        """Slack's request: signed, at most five minutes old. Answered when the message is on disk."""
        if self._signing is None:
            return ChannelHttpResponse(404, b"this account uses socket mode\n")
        if not verify_signature(
            "slack", self._signing.reveal(), request.headers, request.body, now=self._kit.clock.now()
        ):
            return ChannelHttpResponse(401, b"the signature does not fit\n")
        payload = _request(request)
        if payload.get("type") == "url_verification":
            return ChannelHttpResponse(200, str(payload.get("challenge") or "").encode())
        trouble = await self._introduced()
        if trouble is not None:
            return ChannelHttpResponse(503, b"not ready\n")
        async with self._order.turn(_chat(payload)):
            heard = await self._heard(payload)
            if heard is not None:
                try:
                    await hand_in_once(submit, heard)
                except BadRequest as exc:
                    log.warning("slack: a message of %s is not taken: %s", heard.sender.id, exc.message)
        return ChannelHttpResponse(200)


def _chat(payload: Mapping[str, Any]) -> str:
    """The chat a payload, or an event in it, is about."""
    event = payload.get("event")
    held = event if isinstance(event, dict) else payload
    channel = held.get("channel") or held.get("channel_id") or (held.get("container") or {}).get("channel_id") or ""
    return str(channel.get("id") or "") if isinstance(channel, dict) else str(channel)


def _request(request: ChannelHttpRequest) -> dict[str, Any]:
    """A request's payload: JSON for events, a form for commands, JSON in a form for buttons."""
    if "x-www-form-urlencoded" not in request.headers.get("content-type", ""):
        return decode_object(request.body)
    form = {key: values[0] for key, values in parse_qs(request.body.decode("utf-8", "replace")).items()}
    return decode_object(form["payload"]) if "payload" in form else dict(form)
