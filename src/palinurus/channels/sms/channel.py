"""One phone number at Twilio. Twilio calls us where there is a public address, and is asked where there is none. It
never calls a second time, so its list of messages is read in both cases: what a request failed to bring comes then.

It takes no id of ours and shows what it likes twice. What we are about to send is therefore written down with its
time, and after a lost answer its list is asked for that text since then, before anything is sent again.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp

from palinurus.channels.intake import InboundWithFiles
from palinurus.channels.kit import PASSING, ChannelKit, MemoTable, index_troubles, load_reply_files
from palinurus.channels.sms import inbound
from palinurus.channels.web.api import ApiFacts, HttpApi, read_rows
from palinurus.channels.web.hook import NO_POST, REFUSED, HookBatch, HookedChannel
from palinurus.core.format.render import render_markdown
from palinurus.core.types.channel import (
    ChannelAbilities,
    ChannelHttpRequest,
    ChannelHttpResponse,
    SendFailure,
    SendReceipt,
    SendResult,
    SendTrouble,
    SubmitInbound,
)
from palinurus.core.types.outbound import Reply
from palinurus.errors import PalinurusError

log = logging.getLogger(__name__)

API = "https://api.twilio.com"
MEDIA = 5 * 1024 * 1024  # what carriers take
POLL, LOOK = 15.0, 300.0  # seconds between two looks: without, and with a public address
SOON = 5.0  # seconds until what could not be taken is looked for
BACK = 3_600_000  # milliseconds before the newest message that are read again
SLACK = 120_000  # milliseconds that Twilio's clock may be behind ours
PAGE, PAGES = 100, 10  # how far back the list is read
_EMPTY = ChannelHttpResponse(200, b'<?xml version="1.0" encoding="UTF-8"?><Response></Response>', "text/xml")
_NO_ADDRESS = ChannelHttpResponse(404, b"set channels.sms.publicWebhookUrl: a request is signed with its address\n")

CODES: dict[str, SendTrouble] = index_troubles(
    {
        "signed_out": ("20003", "20005", "20008"),
        "limited": ("20429", "14107", "21611"),
        "blocked": ("21610",),
        "gone": ("21211", "21214", "21217", "21612", "21614"),
        "long": ("21605", "21617"),
        "media": ("12300", "21620", "21623", "21630"),
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


class SmsChannel(HookedChannel):
    """Implements `Channel`. Raises ConfigError without an account, its token and a number."""

    name = "sms"

    def __init__(self, kit: ChannelKit) -> None:
        self._token = kit.secret("authToken")
        account, self._number = kit.text("accountSid"), kit.text("fromNumber")
        if not account or not self._number:
            raise kit.wrong("accountSid" if not account else "fromNumber")
        basic = base64.b64encode(f"{account}:{self._token.reveal()}".encode()).decode()
        super().__init__(kit, HttpApi(FACTS, kit.text("apiBase", API), _authorize_basic(basic)))
        self._home = f"/2010-04-01/Accounts/{quote(account, safe='')}"
        self._service = kit.text("messagingServiceSid")
        self._address = kit.secret("publicWebhookUrl").reveal() if self.public else ""
        self._pause = kit.number("pollSeconds", LOOK if self.public else POLL)
        self._taken = MemoTable(kit.memo, "taken", 300)  # by message: when it came
        self._sending = MemoTable(kit.memo, "sending", 200)  # by client id: since when, and the message it became
        self._missed = asyncio.Event()
        self.abilities = ChannelAbilities("plain", 1600, "utf16", media=MEDIA if self.public else 0)

    async def greet(self) -> str | SendFailure:
        told = await self._api.call("GET", f"{self._home}.json")
        if isinstance(told, SendFailure):
            return told
        if "since" not in await self._taken.rows():  # what was said before there was an agent is not answered
            await self._taken.put("since", self._kit.clock.now())
        return self._number

    # --- in

    async def accept(self, request: ChannelHttpRequest) -> HookBatch | ChannelHttpResponse:
        if request.method != "POST":
            return NO_POST
        if not self._address:
            return _NO_ADDRESS
        form = inbound.read_form(request.body)
        given = request.headers.get("x-twilio-signature", "")
        if not inbound.verify_twilio(self._token.reveal(), self._address, form, given):
            return REFUSED
        heard = inbound.parse_form(dict(form), self._kit.account, self._kit.clock.now())
        return HookBatch((heard,) if heard is not None else (), _EMPTY)

    async def take(self, heard: InboundWithFiles, submit: SubmitInbound) -> None:
        """Twilio calls once: what is not taken now is looked for soon."""
        try:
            await super().take(heard, submit)
        except PalinurusError:
            self._missed.set()
            raise
        await self._taken.put(heard.inbound.event, heard.inbound.at)

    async def listen(self) -> SendFailure:
        """Read the list now and then, and soon after something could not be taken."""
        while True:
            self._missed.clear()
            trouble = await self._catch_up()
            if trouble is not None:
                return trouble
            if self._missed.is_set():
                await self._kit.clock.sleep(SOON)
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(self._missed.wait(), self._pause)

    async def _catch_up(self) -> SendFailure | None:
        """Hand in what is on Twilio's list and was not taken, oldest first."""
        rows = await self._taken.rows()
        newest = max((at for at in rows.values() if isinstance(at, int)), default=0)
        since = max(newest - BACK, int(rows.get("since") or newest) - SLACK)
        found = await self._listed(since, To=self._number)
        if isinstance(found, SendFailure):
            return found
        assert self.submit is not None
        for row in reversed(found):
            fresh = row.get("direction") == "inbound" and inbound.read_date(row) >= since
            if not fresh or str(row.get("sid")) in rows or not row.get("from"):
                continue
            try:
                await self.take(inbound.parse_row(row, self._kit.account, await self._media(row)), self.submit)
            except PalinurusError as exc:
                log.warning("sms, account %s: a message waits: %s", self._kit.account, exc.message)
                return None
        return None

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

    async def send(self, reply: Reply) -> SendResult:
        before = (await self._sending.rows()).get(reply.client_id)
        if before:
            found = await self._sought(reply)
            if isinstance(found, SendReceipt) or (isinstance(found, SendFailure) and found.trouble in PASSING):
                return found
        body = await self._body(reply)
        if isinstance(body, SendFailure):
            return body
        if not before:
            await self._sending.put(reply.client_id, [self._kit.clock.now(), ""])
        told = await self._api.call("POST", f"{self._home}/Messages.json", aiohttp.FormData(body))
        if isinstance(told, SendFailure):
            return told
        ident = str(told.get("sid") or "")
        await self._sending.put(reply.client_id, [self._kit.clock.now(), ident])
        return SendReceipt(ident)

    async def _body(self, reply: Reply) -> list[tuple[str, str]] | SendFailure:
        files = await load_reply_files(self._kit, reply, MEDIA, together=True)
        if isinstance(files, SendFailure):
            return files
        if files and self.public is None:
            return SendFailure("Twilio fetches files from us: set channels.sms.publicWebhookUrl", "media")
        who = ("MessagingServiceSid", self._service) if self._service else ("From", self._number)
        made = [("To", reply.target.to), who, ("Body", _write(reply))]
        for file in files:
            assert self.public is not None
            url = await self.public.publish(file)
            if isinstance(url, SendFailure):
                return url
            made.append(("MediaUrl", url))
        return made

    async def find(self, reply: Reply) -> SendReceipt | None:
        """Is its text on Twilio's list since we set out to send it? While the list cannot be had, `send` asks again."""
        found = await self._sought(reply)
        return found if isinstance(found, SendReceipt) else None

    async def _sought(self, reply: Reply) -> SendResult | None:
        rows = await self._sending.rows()
        since, ident = rows.get(reply.client_id) or (0, "")
        if not since or ident:
            return SendReceipt(ident) if ident else None
        found = await self._listed(since - SLACK, To=reply.target.to)
        if isinstance(found, SendFailure):
            return found
        others = {one[1] for one in rows.values()}
        for row in found:
            ours = str(row.get("direction") or "").startswith("outbound") and row.get("sid") not in others
            if ours and inbound.read_date(row) >= since - SLACK and str(row.get("body") or "").strip() == _write(reply):
                return SendReceipt(str(row.get("sid")))
        return None


def _write(reply: Reply) -> str:
    return (reply.text if reply.plain else render_markdown(reply.text, "plain").text).strip()


def _authorize_basic(proof: str) -> Any:
    async def give() -> dict[str, str]:
        return {"Authorization": f"Basic {proof}"}

    return give
