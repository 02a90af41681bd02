"""One app in Google Chat. Google calls us with a token that its keys prove; answers go out with a token that a service
account's key buys. A request id makes one message of however many tries, and our own message id finds it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import aiohttp

from palinurus.channels.googlechat.inbound import parse_event, write_text
from palinurus.channels.kit import ChannelKit, decode_object, index_troubles, read_secret
from palinurus.channels.web.api import ApiFacts, HttpApi, RenewedToken, TokenGrant, read_mapping
from palinurus.channels.web.hook import REFUSED, HookBatch, HookedChannel
from palinurus.channels.web.tokens import FACTS as SIGN_IN
from palinurus.channels.web.tokens import OpenIdKeys, read_grant
from palinurus.core.jwt import RsaPrivateKey, read_private_key, sign_token
from palinurus.core.types import channel
from palinurus.core.types.channel import (
    ChannelAbilities,
    ChannelHttpRequest,
    ChannelHttpResponse,
    SendFailure,
    SendReceipt,
    SendResult,
    SendTrouble,
)
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.patterns import compile_late

API = "https://chat.googleapis.com"
TOKEN_URL = "https://oauth2.googleapis.com/token"
SCOPE = "https://www.googleapis.com/auth/chat.bot"
CHAT = "chat@system.gserviceaccount.com"  # who calls us
# By audienceType: where the keys are, and who issues.
AUDIENCES: dict[str, tuple[str, tuple[str, ...]]] = {
    "app-url": ("https://www.googleapis.com/oauth2/v3/certs", ("https://accounts.google.com", "accounts.google.com")),
    "project-number": (f"https://www.googleapis.com/service_accounts/v1/jwk/{CHAT}", (CHAT,)),
}
MEDIA = 20 * 1024 * 1024
HOUR = 3600
_SPACE = compile_late(r"spaces/[\w-]+")
_MESSAGE = compile_late(r"[\w-]+(\.[\w-]+)?")
_TAKEN = ChannelHttpResponse(200, b"{}", "application/json")
_LATER = ChannelHttpResponse(503, b"the keys of Google cannot be had now\n")

# Names of google.rpc.Code, which all of Google's APIs answer with.
CODES: dict[str, SendTrouble] = index_troubles(
    {
        "limited": ("RESOURCE_EXHAUSTED",),
        "signed_out": ("UNAUTHENTICATED",),
        "gone": ("NOT_FOUND", "PERMISSION_DENIED"),
        "down": ("UNAVAILABLE",),
        "cut": ("INTERNAL", "DEADLINE_EXCEEDED"),
    }
)


def _read_error(told: Mapping[str, Any]) -> tuple[str, str]:
    about = read_mapping(told.get("error"))
    return str(about.get("status") or ""), str(about.get("message") or "")


FACTS = ApiFacts("Google Chat", _read_error, codes=CODES)


class GoogleChatChannel(HookedChannel):
    """Implements `Channel`. Raises ConfigError without a service account and an audience."""

    name = "googlechat"
    dedupes = True

    def __init__(self, kit: ChannelKit) -> None:
        account = _read_account(kit)
        self._mail, key = str(account.get("client_email")), read_private_key(str(account.get("private_key")))
        self._own = RenewedToken(_ServiceAccount(kit, account, key).grant, kit.clock)
        base = kit.text("apiBase", API)
        super().__init__(kit, HttpApi(FACTS, base, self._own))
        kind, self._audience = kit.text("audienceType", "app-url"), kit.text("audience")
        if kind not in AUDIENCES:
            raise kit.wrong("audienceType", what=f"is one of {', '.join(AUDIENCES)}")
        if not self._audience:
            raise kit.wrong("audience")
        url, self._issuers = AUDIENCES[kind]
        self._mailed = kind == "app-url"
        self._keys = OpenIdKeys(kit.text("openIdUrl", url), kit.clock)
        self._me = kit.text("botUser")
        self.abilities = ChannelAbilities(
            "whatsapp",
            16_000,
            "bytes",
            acts=frozenset(("edit", "delete")),
            pace=1.5,
            threads=True,
            media=MEDIA if self.public else 0,
        )

    async def greet(self) -> str | SendFailure:
        proof = await self._own()
        return proof if isinstance(proof, SendFailure) else self._mail

    # --- in

    async def accept(self, request: ChannelHttpRequest) -> HookBatch | ChannelHttpResponse:
        believed = await self._keys.verify(request.headers.get("authorization", ""), self._issuers, self._audience)
        if isinstance(believed, SendFailure):
            return _LATER
        # Google signs for everybody who asks it for a token to our address: only Chat itself is meant.
        if believed is None or (self._mailed and not _is_chat(believed[0])):
            return REFUSED
        event, now = decode_object(request.body), self._kit.clock.now()
        heard = parse_event(event, self._kit.account, self._api.base, self._me, now=now)
        return HookBatch((heard,) if heard is not None else (), _TAKEN)

    # --- out

    async def send(self, reply: Reply) -> SendResult:
        text = await self._text(reply)
        if isinstance(text, SendFailure):
            return text
        ident = make_message_id(reply.client_id)
        query = {"requestId": ident, "messageId": ident}
        body: dict[str, Any] = {"text": text}
        if reply.target.thread:
            body["thread"] = {"name": reply.target.thread}
            query["messageReplyOption"] = "REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"
        if not _SPACE.fullmatch(reply.target.to):
            return SendFailure("this is no id of a space", "gone")
        told = await self._api.call("POST", f"/v1/{reply.target.to}/messages", body, query=query)
        return told if isinstance(told, SendFailure) else SendReceipt(str(told.get("name") or ""))

    async def _text(self, reply: Reply) -> str | SendFailure:
        """With files as links to us: apps may upload none."""
        files = await self.publish_files(reply, MEDIA, "apps upload no files")
        if isinstance(files, SendFailure):
            return files
        text = write_text(reply.text, plain=reply.plain)
        for file, url in files:
            text += f"\n<{url}|{file.name.replace('|', ' ').replace('>', ' ')}>"
        return text.strip()

    async def find(self, reply: Reply) -> SendReceipt | None:
        told = await self._api.call("GET", f"/v1/{reply.target.to}/messages/{make_message_id(reply.client_id)}")
        return None if isinstance(told, SendFailure) else SendReceipt(str(told.get("name") or ""))

    async def act(self, target: Target, act: channel.ChannelAction) -> SendResult:
        space, _, name = getattr(act, "message_id", "").partition("/messages/")
        if space != target.to or not _SPACE.fullmatch(space) or not _MESSAGE.fullmatch(name):
            return SendFailure("this is no message of this space", "refused")  # ids hold for all spaces, rights for one
        match act:
            case channel.EditAction():
                given = {"text": write_text(act.text, plain=act.plain)}
                return await self._done("PATCH", act.message_id, given, {"updateMask": "text"})
            case channel.DeleteAction():
                return await self._done("DELETE", act.message_id, None, {})
        return SendFailure("Google Chat cannot do that", "refused")

    async def _done(
        self, method: str, name: str, given: Mapping[str, Any] | None, query: Mapping[str, str]
    ) -> SendResult:
        told = await self._api.call(method, f"/v1/{name}", given, query=query)
        return told if isinstance(told, SendFailure) else SendReceipt(name)


class _ServiceAccount:
    """Buys tokens with a key (RFC 7523)."""

    def __init__(self, kit: ChannelKit, account: Mapping[str, Any], key: RsaPrivateKey) -> None:
        self._clock = kit.clock
        self._key = key
        self._mail, self._ident = str(account.get("client_email")), str(account.get("private_key_id") or "")
        self._api = HttpApi(SIGN_IN, kit.text("tokenUrl", TOKEN_URL))

    async def grant(self) -> TokenGrant | SendFailure:
        now = self._clock.now() // 1000
        claims = {"iss": self._mail, "scope": SCOPE, "aud": TOKEN_URL, "iat": now, "exp": now + HOUR}
        kind = "urn:ietf:params:oauth:grant-type:jwt-bearer"
        form = aiohttp.FormData({"grant_type": kind, "assertion": sign_token(self._key, claims, self._ident)})
        return read_grant(await self._api.call("POST", "", form))


def _read_account(kit: ChannelKit) -> Mapping[str, Any]:
    """The key that Google's console gave, of a file or of the config itself. Raises ConfigError."""
    held = kit.own.get("serviceAccount")
    if isinstance(held, Mapping):  # its private key is a secret of the config
        account = {name: read_secret(one).reveal() for name, one in held.items()}
    else:
        key = "serviceAccountFile" if kit.text("serviceAccountFile") else "serviceAccount"
        account = decode_object(kit.secret_or_file("serviceAccount", "serviceAccountFile").reveal())
        if not account:
            raise kit.wrong(key, what="is no JSON key of a service account")
    try:
        read_private_key(str(account.get("private_key") or ""))
    except ValueError as exc:
        raise kit.wrong("serviceAccount", what=f"holds no private key: {exc}") from None
    return account


def _is_chat(claims: Mapping[str, Any]) -> bool:
    return claims.get("email") == CHAT and claims.get("email_verified") is True


def make_message_id(client_id: str) -> str:
    """What Google takes as an id of ours: lower case, digits and hyphens, 63 at most."""
    return f"client-{hashlib.sha256(client_id.encode()).hexdigest()[:40]}"
