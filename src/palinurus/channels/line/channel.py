"""One LINE Official Account. LINE calls us; answers go with the reply token of what was asked while that is young
(such messages count towards no quota), else as push messages, whose retry key makes one of however many tries.

A reply token takes one answer. It is written down before it is used: tried again, the same token shows nothing twice,
and "invalid" then means that the answer was shown. Only when it has died of age meanwhile nobody knows, and the answer
is pushed: docs/delivery.md.
"""

from __future__ import annotations

import uuid
from typing import Any

from palinurus.channels.kit import ChannelKit, MemoTable, RecentDict, decode_object
from palinurus.channels.line import inbound
from palinurus.channels.line.inbound import LineContext, LineEvent
from palinurus.channels.web.api import ApiFacts, HttpApi, authorize_bearer, read_rows
from palinurus.channels.web.hook import REFUSED, HookBatch, HookedChannel, verify_base64_hmac
from palinurus.core.format.render import render_markdown
from palinurus.core.types import channel
from palinurus.core.types.channel import ChannelAbilities, ChannelHttpRequest, ChannelHttpResponse, SendFailure
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply

API, DATA = "https://api.line.me", "https://api-data.line.me"
TOKEN_LIFE = 50_000  # milliseconds; LINE says that a reply token is to be used within a minute
MEDIA = 10 * 1024 * 1024
AT_ONCE = 5  # messages of one request
LOADING = 20  # seconds of the animation
_INVALID = "Invalid reply token"
_MONTH = "You have reached your monthly limit."

# From "Error messages" of LINE's reference; the last one goes on with other words at times.
_KNOWN: dict[str, channel.SendTrouble] = {
    _INVALID: "refused", _MONTH: "refused", "Failed to send messages": "gone", "Not found": "gone",
    "The user hasn't added the LINE Official Account as a friend.": "blocked",
}  # fmt: skip
_WORDS = {_MONTH: "the messages of this month's plan are used up; answers within a minute are free"}


def _read_error(told: Any) -> tuple[str, str]:
    words = str(told.get("message") or "")
    details = "; ".join(f"{one.get('property')}: {one.get('message')}" for one in read_rows(told.get("details")))
    known = next((one for one in _KNOWN if words.startswith(one.rstrip("."))), "")
    return known, f"{words} {details}".strip()


FACTS = ApiFacts("LINE", _read_error, codes=_KNOWN, statuses={403: "refused"}, words=_WORDS, fine=frozenset((409,)))


class LineChannel(HookedChannel):
    """Implements `Channel`. Raises ConfigError without its secret and token."""

    name = "line"
    dedupes = True

    def __init__(self, kit: ChannelKit) -> None:
        token = kit.secret_or_file("channelAccessToken", "tokenFile")
        base = kit.text("apiBase")
        self._data = base or DATA
        super().__init__(kit, HttpApi(FACTS, base or API, authorize_bearer(token), also=(self._data,)))
        self._secret = kit.secret_or_file("channelSecret", "secretFile")
        self._free = kit.flag("replyTokens", True)
        self._tokens: RecentDict[str, tuple[str, int]] = RecentDict(1000)  # by chat: the newest, and when it came
        self._used = MemoTable(kit.memo, "replies", 100)  # by client id: the token it was said with, and its age
        self._quotes: RecentDict[str, str] = RecentDict(1000)  # by message: what quotes it
        self._names: RecentDict[str, str] = RecentDict(2000)
        self._ours: RecentDict[str, None] = RecentDict(500)
        self.abilities = ChannelAbilities(
            "plain",
            5000,
            "utf16",
            acts=frozenset(("typing",)),
            typing=float(LOADING),
            replies=True,
            media=MEDIA if self.public else 0,
        )

    async def greet(self) -> str | SendFailure:
        told = await self._api.call("GET", "/v2/bot/info")
        return told if isinstance(told, SendFailure) else str(told.get("displayName") or "")

    # --- in

    async def accept(self, request: ChannelHttpRequest) -> HookBatch | ChannelHttpResponse:
        given = request.headers.get("x-line-signature", "")
        if not verify_base64_hmac(self._secret.reveal(), request.body, given):
            return REFUSED
        heard = []
        for event in inbound.find_events(decode_object(request.body)):
            if event.token:
                self._tokens[event.chat] = event.token, self._kit.clock.now()
            if quote := event.message.get("quoteToken"):
                self._quotes[str(event.message["id"])] = str(quote)
            heard.append(inbound.parse_event(event, await self._around(event)))
        return HookBatch(tuple(heard))

    async def _around(self, event: LineEvent) -> LineContext:
        """Names are for display: where they cannot be had, ids do."""
        person, title = f"/v2/bot/profile/{event.user}", ""
        if event.kind != "direct":
            where = "group" if "groupId" in event.raw["source"] else "room"
            person = f"/v2/bot/{where}/{event.chat}/member/{event.user}"
            title = await self._named(f"/v2/bot/group/{event.chat}/summary", "groupName") if where == "group" else ""
        name = await self._named(person, "displayName")
        return LineContext(self._kit.account, self._data, name, title, ours=self._ours)

    async def _named(self, path: str, field: str) -> str:
        if path not in self._names:
            told = await self._api.call("GET", path, seconds=3.0)
            self._names[path] = "" if isinstance(told, SendFailure) else str(told.get(field) or "")
        return self._names[path]

    # --- out

    async def send(self, reply: Reply) -> channel.SendResult:
        messages = await self._messages(reply)
        if isinstance(messages, SendFailure):
            return messages
        free = await self._answered(reply, messages)
        if free is not None:
            return free
        key = str(uuid.uuid5(uuid.NAMESPACE_URL, f"palinurus:{reply.client_id}"))
        told = await self._api.call(
            "POST",
            "/v2/bot/message/push",
            {"to": reply.target.to, "messages": messages},
            headers={"X-Line-Retry-Key": key},
        )
        return told if isinstance(told, SendFailure) else self._shown(told)

    async def _answered(self, reply: Reply, messages: list[dict[str, Any]]) -> channel.SendResult | None:
        """Said with a reply token; None if there is none that may be used."""
        now, before = self._kit.clock.now(), (await self._used.rows()).get(reply.client_id)
        token, born = before or (self._tokens.pop(reply.target.to, ("", 0)) if self._free else ("", 0))
        if not token or now - born > TOKEN_LIFE:
            return None
        if not before:
            await self._used.put(reply.client_id, [token, born])
        told = await self._api.call("POST", "/v2/bot/message/reply", {"replyToken": token, "messages": messages})
        if not isinstance(told, SendFailure):
            return self._shown(told)
        if _INVALID in told.reason:
            return channel.SendReceipt("") if before else None
        return told

    def _shown(self, told: dict[str, Any]) -> channel.SendReceipt:
        idents = [str(one.get("id") or "") for one in read_rows(told.get("sentMessages"))]
        for one in idents:
            self._ours[one] = None
        return channel.SendReceipt(idents[0] if idents else "")

    async def _messages(self, reply: Reply) -> list[dict[str, Any]] | SendFailure:
        """Pictures as such, other files as an address in the text: accounts can send no files."""
        files = await self.publish_files(reply, MEDIA, "LINE fetches files from us")
        if isinstance(files, SendFailure):
            return files
        text = reply.text if reply.plain else render_markdown(reply.text, "plain").text
        made: list[dict[str, Any]] = []
        for file, url in files:
            if file.mime in ("image/jpeg", "image/png"):
                made.append({"type": "image", "originalContentUrl": url, "previewImageUrl": url})
            else:
                text = f"{text}\n{file.name}: {url}".strip()
        if text.strip() or not made:
            said = {"type": "text", "text": text}
            if quote := self._quotes.get(reply.reply_to):
                said["quoteToken"] = quote
            made.insert(0, said)
        if len(made) > AT_ONCE:
            return SendFailure(f"LINE takes {AT_ONCE} messages at once", "media")
        return made

    async def act(self, target: Target, act: channel.ChannelAction) -> channel.SendResult:
        """The animation of somebody who writes; LINE has it in chats with one person only."""
        if not isinstance(act, channel.TypingAction) or not target.to.startswith("U"):
            return SendFailure("LINE cannot do that here", "refused")
        given = {"chatId": target.to, "loadingSeconds": LOADING}
        told = await self._api.call("POST", "/v2/bot/chat/loading/start", given)
        return told if isinstance(told, SendFailure) else channel.SendReceipt("")
