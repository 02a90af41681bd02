"""Calls of the Bot API, and what its errors mean for a reply. Knows no channel.

Every call is a form: the token is part of its address, so no address is ever shown, logged or followed elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from palinurus.channels.kit import ChannelFile, decode_object, read_seconds
from palinurus.channels.web.api import make_upload_form, read_mapping
from palinurus.config.secrets import Secret
from palinurus.core.types.channel import SendFailure, SendTrouble

POOL = 32  # connections
CONNECT, READ, UPLOAD = 10.0, 20.0, 600.0  # seconds
WHEN = 30.0  # seconds to wait when Telegram limits without saying how long
FORM = {"Content-Type": "application/x-www-form-urlencoded"}

# What Telegram says (lower case), for 400 and 403: the first that occurs counts.
WORDS: tuple[tuple[SendTrouble, tuple[str, ...]], ...] = (
    ("markup", ("can't parse entities", "unsupported parse_mode")),
    ("long", ("too long",)),
    ("blocked", ("bot was blocked", "user is deactivated", "can't initiate conversation")),
    ("media", ("voice_messages_forbidden",)),
    ("gone", ("chat not found", "peer_id_invalid", "bot was kicked", "not a member", "group chat was deactivated")),
    ("gone", ("thread not found", "topic_closed", "topic_deleted")),
    ("media", ("photo_", "image_process_failed", "wrong file", "file is too big", "file must be", "invalid file")),
    ("media", ("remote file", "webpage_", "wrong type of the web page content", "failed to get http url content")),
)
# Statuses whose words say nothing more. 504: a server behind Telegram's door may have it.
STATUSES: dict[int, SendFailure] = {
    401: SendFailure("Telegram does not take the bot's token any more", "signed_out"),
    404: SendFailure("Telegram does not take the bot's token any more", "signed_out"),
    413: SendFailure("Telegram: the file is too large", "media"),
    504: SendFailure("Telegram did not answer in time", "cut"),
}
_BROKEN = (aiohttp.ClientError, TimeoutError, OSError, ValueError)
_UNSENT = (
    aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError, aiohttp.InvalidURL,
)  # fmt: skip


class TelegramFault(Exception):
    """A call failed. `said` is what Telegram says (lower case), `moved` the new id of a group that has one."""

    def __init__(self, failure: SendFailure, said: str = "", moved: str = "") -> None:
        super().__init__(failure.reason)
        self.failure = failure
        self.said = said.lower()
        self.moved = moved


def explain_telegram_answer(status: int, told: Mapping[str, Any]) -> TelegramFault:
    """What an answer that is not ok means. Never shows the token."""
    said, more = str(told.get("description") or ""), read_mapping(told.get("parameters"))
    if more.get("migrate_to_chat_id"):
        return TelegramFault(SendFailure("the group has a new id", "gone"), said, str(more["migrate_to_chat_id"]))
    if status == 429 or more.get("retry_after"):
        wait = read_seconds(more.get("retry_after"), WHEN)
        return TelegramFault(SendFailure(f"Telegram wants {wait:g} seconds of rest", "limited", wait), said)
    if status in STATUSES:
        return TelegramFault(STATUSES[status], said)
    if status in (400, 403):
        meant = (trouble for trouble, parts in WORDS if any(part in said.lower() for part in parts))
        return TelegramFault(SendFailure(f"Telegram: {said[:200] or status}", next(meant, "refused")), said)
    if status == 409:  # another program polls with this token
        return TelegramFault(SendFailure(f"Telegram: {said[:200]}", "down"), said)
    return TelegramFault(SendFailure(f"Telegram has trouble of its own ({status})", "down"), said)


def explain_broken_call(exc: Exception) -> TelegramFault:
    """No proper answer: was the message on its way already?"""
    if isinstance(exc, _UNSENT):
        return TelegramFault(SendFailure("Telegram cannot be reached", "down"))
    return TelegramFault(SendFailure("the connection broke before Telegram answered", "cut"))


class BotApi:
    """One bot. `root` is where its API is."""

    def __init__(self, token: Secret, root: str, proxy: str = "") -> None:
        self._token = token
        self._root = root
        self._proxy = proxy or find_environment_proxy(root)
        self._http: aiohttp.ClientSession | None = None
        self._users = 0

    def __repr__(self) -> str:
        return "<Telegram bot>"

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Connections live as long as somebody uses them: a reply on its way outlives the receiver."""
        self._users += 1
        if self._http is None:
            self._http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=POOL))
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                http, self._http = self._http, None
                await http.close()

    async def call(self, method: str, **params: Any) -> Any:
        """What Telegram answers. None and False as a parameter are left out. Raises TelegramFault."""
        held = float(params.get("timeout") or 0)  # a poll: so long it may hold the request
        limits = aiohttp.ClientTimeout(sock_connect=CONNECT, sock_read=held + READ)
        given = urlencode(_fields(params), errors="replace", quote_via=quote).encode()
        return await self._ask(method, given, FORM, limits)

    async def upload(self, method: str, field: str, file: ChannelFile, params: Mapping[str, Any]) -> Any:
        """The same with a file. Raises TelegramFault."""
        form = make_upload_form(_fields(params), field, file)
        return await self._ask(method, form, {}, aiohttp.ClientTimeout(UPLOAD, sock_connect=CONNECT))

    async def _ask(self, method: str, data: Any, headers: dict[str, str], limits: aiohttp.ClientTimeout) -> Any:
        assert self._http is not None, "inside of `connected` only"
        try:
            async with self._http.post(
                f"{self._root}/bot{self._token.reveal()}/{method}",
                data=data,
                headers=headers,
                timeout=limits,
                proxy=self._proxy,
                allow_redirects=False,
            ) as answer:
                told = decode_object(await answer.read())
        except _BROKEN as exc:
            raise explain_broken_call(exc) from None  # what it says has the address, and with it the token
        if told.get("ok") is not True:
            raise explain_telegram_answer(answer.status, told)
        return told.get("result")

    async def download(self, file_id: str) -> AsyncGenerator[bytes, None]:
        """A file that somebody sent, piece by piece. Raises TelegramFault."""
        assert self._http is not None, "inside of `connected` only"
        path = str(read_mapping(await self.call("getFile", file_id=file_id)).get("file_path") or "")
        url = f"{self._root}/file/bot{self._token.reveal()}/{quote(path)}"
        limits = aiohttp.ClientTimeout(UPLOAD, sock_connect=CONNECT, sock_read=READ)
        try:
            async with self._http.get(url, timeout=limits, proxy=self._proxy, allow_redirects=False) as answer:
                if answer.status != 200:
                    later: SendTrouble = "down" if answer.status >= 500 else "refused"
                    raise TelegramFault(SendFailure(f"Telegram answered {answer.status}", later))
                async for piece in answer.content.iter_chunked(65_536):
                    yield piece
        except _BROKEN as exc:
            raise explain_broken_call(exc) from None


def find_environment_proxy(url: str) -> str | None:
    """The proxy that the environment names for an address. Asked once: aiohttp would look at every call."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


def _fields(params: Mapping[str, Any]) -> dict[str, str]:
    """As a form has them: what is no text is JSON."""
    given = {name: value for name, value in params.items() if value is not None and value is not False}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
