"""Signing in to a homeserver, its calls, what its errors mean for a reply, and the contents of events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import aiohttp

from palinurus.channels.kit import ChannelKit, decode_object, index_troubles, read_seconds
from palinurus.config.secrets import Secret
from palinurus.core.format.render import render_markdown
from palinurus.core.media import read_duration, read_loudness
from palinurus.core.types.channel import SendFailure, SendTrouble

LOGIN_KEY = "login"
CLIENT = "/_matrix/client/v3"
CLIENT_ID_FIELD = "palinurus.client_id"  # in the content of our events: `find` reads it back
_WHEN = 10.0  # seconds to wait when the server limits without saying how long
_LARGE = 64 * 1024 * 1024  # bytes of an answer that are read

TROUBLES: dict[str, SendTrouble] = index_troubles(
    {
        "limited": ("M_LIMIT_EXCEEDED",),
        "signed_out": ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_USER_LOCKED"),
        "gone": ("M_FORBIDDEN", "M_NOT_FOUND", "M_GUEST_ACCESS_FORBIDDEN"),
        "long": ("M_TOO_LARGE",),
        "markup": ("M_BAD_JSON", "M_NOT_JSON"),
    }
)


class MatrixLogin:
    """Signing in: with an access token of the config, or once with a password; the token that gives is kept. The device
    stays the same, because transaction ids are remembered per device. Raises ConfigError when neither a token nor a
    name and a password are set."""

    def __init__(self, kit: ChannelKit) -> None:
        self._kit = kit
        self._user = kit.text("userId")
        self.password: Secret | None = None
        self.token: Secret | None = None
        if self._user and not kit.own.get("accessToken"):
            self.password = kit.secret("password")
        else:
            self.token = kit.secret("accessToken")

    async def ensure_token(self, calls: MatrixApi) -> SendFailure | None:
        """Have `calls` use a token. With a password one is asked for the first time, and after `refused`."""
        if self.password is None or calls.has_token:
            return None
        kept = await self._kept()
        if kept.get("token"):
            calls.set_token(Secret(str(kept["token"])))
            return None
        wanted: dict[str, Any] = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": self._user},
            "password": self.password.reveal(),
            "initial_device_display_name": self._kit.text("deviceName", "Palinurus"),
        }
        if kept.get("device"):
            wanted["device_id"] = kept["device"]
        told = await calls.call("POST", build_path("login"), wanted)
        if isinstance(told, SendFailure):
            # Here "forbidden" is a wrong password.
            return SendFailure(told.reason, "signed_out") if told.trouble == "gone" else told
        token = str(told.get("access_token") or "")
        await self._keep({"token": token, "device": told.get("device_id")})
        calls.set_token(Secret(token))
        return None

    async def drop_token(self, calls: MatrixApi) -> bool:
        """The token is not taken any more: can another one be had? The next `ready` tries."""
        if self.password is None or not calls.has_token:
            return False
        calls.set_token(None)
        await self._keep({"device": (await self._kept()).get("device")})
        return True

    async def _kept(self) -> dict[str, Any]:
        kept = await self._kit.memo.get(LOGIN_KEY)
        return dict(json.loads(kept)) if kept else {}

    async def _keep(self, held: dict[str, Any]) -> None:
        await self._kit.memo.put(LOGIN_KEY, json.dumps(held).encode())


class MatrixApi:
    """The client-server API with one token."""

    def __init__(self, server: str, token: Secret | None, proxy: str = "") -> None:
        self._proxy = proxy or None
        self._server = server.rstrip("/")
        self._token = token
        self._http: aiohttp.ClientSession | None = None

    @property
    def has_token(self) -> bool:
        """Is there a token to sign with?"""
        return self._token is not None

    def set_token(self, token: Secret | None) -> None:
        self._token = token

    def use(self, http: aiohttp.ClientSession) -> None:
        self._http = http

    async def call(
        self,
        method: str,
        path: str,
        given: Mapping[str, Any] | bytes | None = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = 30.0,
    ) -> dict[str, Any] | SendFailure:
        """The answer, or what went wrong. `given` is the body: JSON, or bytes as they are."""
        data = given if isinstance(given, bytes) else None if given is None else json.dumps(given).encode()
        try:
            async with self.open(method, path, data, query=query, headers=headers, seconds=seconds) as answer:
                text = await answer.content.read(_LARGE)
                while not answer.content.at_eof() and len(text) < _LARGE:
                    text += await answer.content.read(_LARGE - len(text))
                told = decode_object(text)
                return told if answer.status < 300 else explain_matrix_error(answer.status, told, answer.headers)
        except aiohttp.ClientConnectorError:
            return SendFailure("the homeserver cannot be reached")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as exc:
            return SendFailure(f"the connection to the homeserver broke ({type(exc).__name__})", "cut")

    @asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        data: bytes | None = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = 30.0,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A request with our token. Redirects are not followed: the token is for this server only."""
        own = {"Content-Type": "application/json"}
        if self._token is not None:
            own["Authorization"] = f"Bearer {self._token.reveal()}"
        wait = aiohttp.ClientTimeout(total=seconds)
        shared = self._http if self._http is not None and not self._http.closed else None
        http = shared or aiohttp.ClientSession()
        try:
            async with http.request(
                method,
                self._server + path,
                data=data,
                params=query,
                headers={**own, **(headers or {})},
                timeout=wait,
                proxy=self._proxy,
                allow_redirects=False,
            ) as answer:
                yield answer
        finally:
            if shared is None:
                await http.close()


def explain_matrix_error(status: int, told: Mapping[str, Any], headers: Mapping[str, str]) -> SendFailure:
    """What an answer that is not ok means."""
    code = str(told.get("errcode") or "")
    trouble = TROUBLES.get(code) or _by_status(status)
    words = str(told.get("error") or "")[:200]
    reason = f"the homeserver says {code}: {words}" if code else f"the homeserver answered {status}"
    return SendFailure(reason, trouble, _seconds(told, headers) if trouble == "limited" else None)


def _by_status(status: int) -> SendTrouble:
    if status == 429:
        return "limited"
    if status == 413:
        return "long"
    return "down" if status >= 500 else "refused"


def _seconds(told: Mapping[str, Any], headers: Mapping[str, str]) -> float:
    wait = told.get("retry_after_ms")
    if isinstance(wait, (int, float)) and wait >= 0:
        return float(wait) / 1000
    return read_seconds(headers.get("Retry-After"), _WHEN)


def build_path(*parts: str, base: str = CLIENT) -> str:
    """An address of the API; each part is escaped as a whole."""
    return base + "".join(f"/{quote(part, safe='')}" for part in parts)


def build_text(words: str, *, plain: bool, notice: bool = False) -> dict[str, Any]:
    """The content of a message. The empty m.mentions: whatever the text says, nobody is called by it."""
    made: dict[str, Any] = {"msgtype": "m.notice" if notice else "m.text", "body": words, "m.mentions": {}}
    if not plain:
        shown = render_markdown(words, "matrix")
        made["body"] = shown.text
        if shown.html:
            made |= {"format": "org.matrix.custom.html", "formatted_body": shown.html}
    return made


def add_relation(made: dict[str, Any], thread: str, reply_to: str) -> dict[str, Any]:
    """The content in its thread, or as an answer."""
    if thread:
        last = reply_to or thread
        made["m.relates_to"] = {
            "rel_type": "m.thread",
            "event_id": thread,
            "is_falling_back": not reply_to,
            "m.in_reply_to": {"event_id": last},
        }
    elif reply_to:
        made["m.relates_to"] = {"m.in_reply_to": {"event_id": reply_to}}
    return made


def build_edit(made: dict[str, Any], event: str) -> dict[str, Any]:
    """The content that takes the place of an event; who does not know edits reads it after a star."""
    return {
        **made,
        "body": f"* {made['body']}",
        "m.new_content": made,
        "m.relates_to": {"rel_type": "m.replace", "event_id": event},
    }


def build_file(name: str, mime: str, data: bytes, address: str, *, voice: bool) -> dict[str, Any]:
    """`voice`: sound is shown as spoken (MSC 3245), with how long and how loud it is (MSC 1767) where that is known."""
    kinds = {"image": "m.image", "audio": "m.audio", "video": "m.video"}
    made: dict[str, Any] = {
        "msgtype": kinds.get(mime.partition("/")[0], "m.file"),
        "body": name,
        "filename": name,
        "url": address,
        "info": {"mimetype": mime, "size": len(data)},
        "m.mentions": {},
    }
    if voice and made["msgtype"] == "m.audio":
        made["org.matrix.msc3245.voice"] = {}
        if long := read_duration(data) * 1000:
            made["info"]["duration"] = long
            wave = [point * 4 for point in read_loudness(data, 100)] if mime == "audio/ogg" else []
            made["org.matrix.msc1767.audio"] = {"duration": long, "waveform": wave}
    return made
