"""One bot on one Nextcloud. Its server calls us and we call it, both signed with the shared secret over a random value.
A bot sees the rooms it was switched on in, and nothing else: not who is in them, nor files, nor the past. With an
account of its own (`apiUser`) rooms can be looked up: which are direct chats, and whether an answer was shown.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from palinurus.channels.intake import InboundWithFiles
from palinurus.channels.kit import ChannelKit, RecentDict, decode_object
from palinurus.channels.web.api import ApiFacts, HttpApi, make_basic_header, read_mapping, read_rows
from palinurus.channels.web.hook import REFUSED, HookBatch, HookedChannel, is_same_secret
from palinurus.channels.web.markdown import write_text
from palinurus.config.secrets import Secret
from palinurus.core.types import channel
from palinurus.core.types.channel import (
    ChannelAbilities,
    ChannelHttpRequest,
    ChannelHttpResponse,
    SendFailure,
    SendReceipt,
    SendResult,
)
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.outbound import Reply

OCS = "/ocs/v2.php/apps/spreed/api"
PAGE = 200  # messages that are read back
_DIRECT = (1, 5, 6)  # types of rooms: one to one, with who left, a note to oneself


def _read_error(told: Mapping[str, Any]) -> tuple[str, str]:
    ocs = read_mapping(told.get("ocs"))
    about, meta = read_mapping(ocs.get("data")), read_mapping(ocs.get("meta"))
    return str(about.get("error") or meta.get("statuscode") or ""), str(meta.get("message") or "")


# From docs/bots.md of spreed (Talk). 401 is about one room: there the bot is not switched on, or its secret is another.
# A wrong secret everywhere lets nothing in either, so there is nothing to answer; and who goes on is told 429.
FACTS = ApiFacts(
    "Nextcloud",
    _read_error,
    statuses={400: "refused", 401: "gone"},
    words={"401": "the bot is not switched on in this conversation, or botSecret is another than there"},
)


def sign_talk(secret: Secret, random: str, signed: str) -> str:
    """The HMAC of both, as hexadecimal digits."""
    return hmac.new(secret.reveal().encode(), (random + signed).encode("utf-8", "replace"), hashlib.sha256).hexdigest()


class NextcloudTalkChannel(HookedChannel):
    """Implements `Channel`. Raises ConfigError without an address and the bot's secret."""

    name = "nextcloud-talk"

    def __init__(self, kit: ChannelKit) -> None:
        super().__init__(kit, HttpApi(FACTS, kit.address("baseUrl")))
        self._secret = kit.secret_or_file("botSecret", "botSecretFile")
        self._user = kit.text("apiUser")
        self._look = self._account(kit) if self._user else None
        self._name = kit.text("botName")
        self._rooms: RecentDict[str, bool] = RecentDict(1000)  # is it a direct chat?
        self.abilities = ChannelAbilities("markdown", 32_000, acts=frozenset(("react",)), replies=True)

    def _account(self, kit: ChannelKit) -> dict[str, str]:
        word = kit.secret_or_file("apiPassword", "apiPasswordFile")
        return {**make_basic_header(self._user, word), "OCS-APIRequest": "true", "Accept": "application/json"}

    async def greet(self) -> str | SendFailure:
        """A bot cannot ask who it is: that Nextcloud answers has to do."""
        told = await self._api.call("GET", "/status.php")
        return told if isinstance(told, SendFailure) else self._name or "bot"

    # --- in

    async def accept(self, request: ChannelHttpRequest) -> HookBatch | ChannelHttpResponse:
        random = request.headers.get("x-nextcloud-talk-random", "")
        given = request.headers.get("x-nextcloud-talk-signature", "")
        try:
            right = sign_talk(self._secret, random, request.body.decode())
        except UnicodeDecodeError:
            return REFUSED
        if not random or not is_same_secret(right.encode(), given.lower()):
            return REFUSED
        heard = await self._parse(decode_object(request.body))
        return HookBatch((heard,) if heard is not None else ())

    async def _parse(self, told: Mapping[str, Any]) -> InboundWithFiles | None:
        """Only what a person wrote: bots, joins and system messages are left out."""
        actor, said, room = (read_mapping(told.get(name)) for name in ("actor", "object", "target"))
        who, ident, where = str(actor.get("id") or ""), str(said.get("id") or ""), str(room.get("id") or "")
        if told.get("type") != "Create" or said.get("name") != "message" or not (who and ident and where):
            return None
        kind, _, plain = who.partition("/")
        if kind not in ("users", "guests", "federated_users", "emails"):
            return None
        content = decode_object(str(said.get("content") or ""))
        text, named = self._words(content)
        direct = await self._is_direct(where)
        inbound = Inbound(
            Target(self.name, where, self._kit.account),
            Sender(plain if kind == "users" else who, str(actor.get("name") or "")[:200]),
            f"{where}/{ident}",
            text,
            at=self._kit.clock.now(),
            kind="direct" if direct else "group",
            mentioned=direct or named,
            title="" if direct else str(room.get("name") or "")[:200],
        )
        return InboundWithFiles(inbound)

    def _words(self, content: Mapping[str, Any]) -> tuple[str, bool]:
        """The text with what its placeholders stand for. Bots cannot be mentioned: `@name` as text does."""
        text = str(content.get("message") or "")
        for key, about in read_mapping(content.get("parameters")).items():
            shown = str(read_mapping(about).get("name") or key)
            text = text.replace(f"{{{key}}}", f"@{shown}" if key.startswith("mention") else shown)
        mark = f"@{self._name}".lower()
        at = text.lower().find(mark) if self._name else -1
        return ((text[:at] + text[at + len(mark) :]).strip(), True) if at >= 0 else (text, False)

    async def _is_direct(self, room: str) -> bool:
        if self._look is None:
            return False
        if room not in self._rooms:
            path = f"{OCS}/v4/room/{quote(room, safe='')}"
            told = await self._api.call("GET", path, headers=self._look, query={"format": "json"}, seconds=5.0)
            if isinstance(told, SendFailure):
                return False
            self._rooms[room] = read_mapping(read_mapping(told.get("ocs")).get("data")).get("type") in _DIRECT
        return self._rooms[room]

    # --- out

    async def _signed(self, path: str, signed: str, body: Mapping[str, Any]) -> SendResult:
        random = secrets.token_hex(32)
        headers = {
            "X-Nextcloud-Talk-Bot-Random": random,
            "X-Nextcloud-Talk-Bot-Signature": sign_talk(self._secret, random, signed),
            "OCS-APIRequest": "true",
            "Accept": "application/json",
        }
        told = await self._api.call("POST", path, body, headers=headers)
        return told if isinstance(told, SendFailure) else SendReceipt("")

    async def send(self, reply: Reply) -> SendResult:
        if reply.media:
            return SendFailure("bots of Nextcloud Talk send no files", "media")
        text = write_text(reply.text, plain=reply.plain)
        body: dict[str, Any] = {"message": text, "referenceId": make_reference(reply.client_id)}
        answered = reply.reply_to.rpartition("/")[2]
        if answered.isdecimal():
            body["replyTo"] = int(answered)
        done = await self._signed(f"{OCS}/v1/bot/{quote(reply.target.to, safe='')}/message", text, body)
        return SendReceipt(body["referenceId"]) if isinstance(done, SendReceipt) else done

    async def find(self, reply: Reply) -> SendReceipt | None:
        """Read the room back for our reference, where there is an account that may."""
        if self._look is None:
            return None
        query = {"format": "json", "lookIntoFuture": "0", "limit": str(PAGE), "setReadMarker": "0"}
        path, mark = f"{OCS}/v1/chat/{quote(reply.target.to, safe='')}", make_reference(reply.client_id)
        told = await self._api.call("GET", path, headers=self._look, query=query)
        rows = [] if isinstance(told, SendFailure) else read_rows(read_mapping(told.get("ocs")).get("data"))
        return SendReceipt(mark) if any(one.get("referenceId") == mark for one in rows) else None

    async def act(self, target: Target, act: channel.ChannelAction) -> SendResult:
        if not isinstance(act, channel.ReactAction) or act.remove:
            return SendFailure("Nextcloud Talk cannot do that", "refused")
        message = act.message_id.rpartition("/")[2]
        path = f"{OCS}/v1/bot/{quote(target.to, safe='')}/reaction/{quote(message, safe='')}"
        return await self._signed(path, act.emoji, {"reaction": act.emoji})


def make_reference(client_id: str) -> str:
    """What Nextcloud keeps beside a message."""
    return hashlib.sha256(client_id.encode()).hexdigest()
