"""One phone number at Twilio. Twilio calls us where there is a public address, and is asked where there is none. It
never calls a second time, so its list of messages is read in both cases: what a request failed to bring comes then.

It takes no id of ours: what was sent is looked up on its list too (`web/readback.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp

from palinurus.channels.intake import InboundWithFiles
from palinurus.channels.kit import ChannelKit, index_troubles
from palinurus.channels.sms import inbound
from palinurus.channels.web.api import ApiFacts, HttpApi, authorize_basic, read_rows
from palinurus.channels.web.hook import REFUSED, HookBatch
from palinurus.channels.web.readback import ReadBackChannel, SentMessage, write_plain
from palinurus.core.types.channel import (
    ChannelAbilities,
    ChannelHttpRequest,
    ChannelHttpResponse,
    SendFailure,
    SendReceipt,
    SendResult,
    SendTrouble,
)
from palinurus.core.types.outbound import Reply

API = "https://api.twilio.com"
MEDIA = 5 * 1024 * 1024  # what carriers take
POLL, LOOK = 15.0, 300.0  # seconds between two looks: without, and with a public address
PAGE, PAGES = 100, 10  # how far back the list is read
_EMPTY = ChannelHttpResponse(200, b'<?xml version="1.0" encoding="UTF-8"?><Response></Response>', "text/xml")
_NO_ADDRESS = ChannelHttpResponse(404, b"set channels.sms.publicWebhookUrl: a request is signed with its address\n")

# From Twilio's "Error and Warning Dictionary". 21658 is what too long a Body is told since 2026, 21617 before.
CODES: dict[str, SendTrouble] = index_troubles(
    {
        "signed_out": ("20003", "20005", "20008"),
        "limited": ("20429", "14107", "21611"),
        "blocked": ("21610",),
        "gone": ("21211", "21214", "21217", "21612", "21614"),
        "long": ("21605", "21617", "21658"),
        "media": ("12300", "21620", "21623"),
        "down": ("21730",),
    }
)
WORDS = {
    "21610": "this person has answered STOP; only START from there opens it again",
    "21608": "a trial account sends to numbers that were verified in Twilio's console only",
    "21408": "the account may not send to this country; Geo permissions in Twilio's console",
    "20003": "accountSid and authToken do not fit together",
}
FACTS = ApiFacts(
    "Twilio", lambda told: (str(told.get("code") or ""), str(told.get("message") or "")), codes=CODES, words=WORDS
)


class SmsChannel(ReadBackChannel):
    """Implements `Channel`. Raises ConfigError without an account, its token and a number."""

    name = "sms"

    def __init__(self, kit: ChannelKit) -> None:
        self._token = kit.secret("authToken")
        account, self._number = kit.text("accountSid"), kit.text("fromNumber")
        if not account or not self._number:
            raise kit.wrong("accountSid" if not account else "fromNumber")
        super().__init__(kit, HttpApi(FACTS, kit.text("apiBase", API), authorize_basic(account, self._token)))
        self._home = f"/2010-04-01/Accounts/{quote(account, safe='')}"
        self._service = kit.text("messagingServiceSid")
        self._address = kit.secret("publicWebhookUrl").reveal() if self.public else ""
        self.pause = kit.number("pollSeconds", LOOK if self.public else POLL)
        self.abilities = ChannelAbilities("plain", 1600, "utf16", media=MEDIA if self.public else 0)

    async def greet(self) -> str | SendFailure:
        told = await self._api.call("GET", f"{self._home}.json")
        return told if isinstance(told, SendFailure) else self._number

    # --- in

    async def accept(self, request: ChannelHttpRequest) -> HookBatch | ChannelHttpResponse:
        if not self._address:
            return _NO_ADDRESS
        form = inbound.read_form(request.body)
        given = request.headers.get("x-twilio-signature", "")
        if not inbound.verify_twilio(self._token.reveal(), self._address, form, given):
            return REFUSED
        heard = inbound.parse_form(dict(form), self._kit.account, self._kit.clock.now())
        return HookBatch((heard,) if heard is not None else (), _EMPTY)

    async def list_heard(self, since: int) -> list[InboundWithFiles] | SendFailure:
        found = await self._listed(since, To=self._number)
        if isinstance(found, SendFailure):
            return found
        known = await self._taken.rows()  # their files are not asked for again
        fresh = [one for one in reversed(found) if one.get("direction") == "inbound" and one.get("from")]
        fresh = [one for one in fresh if inbound.read_date(one) >= since and one.get("sid") not in known]
        return [inbound.parse_row(one, self._kit.account, await self._media(one)) for one in fresh]

    async def list_sent(self, chat: str, since: int) -> list[SentMessage] | SendFailure:
        found = await self._listed(since, To=chat)
        if isinstance(found, SendFailure):
            return found
        ours = [one for one in found if str(one.get("direction") or "").startswith("outbound")]
        return [SentMessage(str(one["sid"]), str(one.get("body") or ""), inbound.read_date(one)) for one in ours]

    async def _listed(self, since: int, **query: str) -> list[Mapping[str, Any]] | SendFailure:
        """Newest first, as Twilio gives them, back to `since` (milliseconds)."""
        path, rows = f"{self._home}/Messages.json?{urlencode({**query, 'PageSize': str(PAGE)})}", []
        for _ in range(PAGES):
            told = await self._api.call("GET", path)
            if isinstance(told, SendFailure):
                return told
            page, path = read_rows(told.get("messages")), str(told.get("next_page_uri") or "")
            rows += page
            if not path.startswith("/") or not page or inbound.read_date(page[-1]) < since:
                break
        return rows

    async def _media(self, row: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        if str(row.get("num_media") or "0") == "0":
            return ()
        told = await self._api.call("GET", f"{self._home}/Messages/{row['sid']}/Media.json")
        rows = [] if isinstance(told, SendFailure) else read_rows(told.get("media_list"))
        return tuple(
            (self._api.base + str(one.get("uri")).removesuffix(".json"), str(one.get("content_type") or ""))
            for one in rows
        )

    # --- out

    async def post(self, reply: Reply) -> SendResult:
        body = await self._body(reply)
        if isinstance(body, SendFailure):
            return body
        told = await self._api.call("POST", f"{self._home}/Messages.json", aiohttp.FormData(body))
        return told if isinstance(told, SendFailure) else SendReceipt(str(told.get("sid") or ""))

    async def _body(self, reply: Reply) -> list[tuple[str, str]] | SendFailure:
        files = await self.publish_files(reply, MEDIA, "Twilio fetches files from us", together=True)
        if isinstance(files, SendFailure):
            return files
        who = ("MessagingServiceSid", self._service) if self._service else ("From", self._number)
        made = [("To", reply.target.to), who, ("Body", write_plain(reply))]
        return made + [("MediaUrl", url) for _, url in files]
