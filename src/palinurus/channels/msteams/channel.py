"""One bot of Microsoft Teams. The Bot Framework calls us with a token of its own, which is checked against its keys;
answers go to the address that such a request named, with a token that our app's secret buys.

It takes no ids of ours and shows bots nothing of the past: a reply whose receipt is lost can be seen twice.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from palinurus.channels.kit import ChannelKit, MemoTable, decode_object, index_troubles
from palinurus.channels.msteams.inbound import THREAD, parse_activity
from palinurus.channels.web.api import ApiFacts, HttpApi, RenewedToken, read_mapping
from palinurus.channels.web.hook import REFUSED, UNREADABLE, HookBatch, HookedChannel
from palinurus.channels.web.tokens import OpenIdKeys, grant_by_form
from palinurus.core.format.render import render_markdown
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

LOGIN = "https://login.microsoftonline.com"
KEYS = "https://login.botframework.com/v1/.well-known/openidconfiguration"
SERVICE = "https://smba.trafficmanager.net/teams"
SCOPE = "https://api.botframework.com/.default"
ISSUERS = ("https://api.botframework.com",)
MEDIA = 20 * 1024 * 1024
PLACES = 1000  # chats whose address is remembered
_LATER = ChannelHttpResponse(503, b"the keys of the Bot Framework cannot be had now\n")

# From "Status code responses" (messages in conversations) and "Send proactive messages" of Microsoft's pages. 412 is
# told when several do something in one conversation: "please try again".
CODES: dict[str, SendTrouble] = index_troubles(
    {
        "blocked": ("MessageWritesBlocked", "ConversationBlockedByUser", "BotDisabledByAdmin"),
        "gone": ("ConversationNotFound", "BotNotInConversationRoster", "ActivityNotFoundInConversation"),
        "long": ("MessageSizeTooBig",),
        "limited": ("Throttled",),
        "down": ("PreconditionFailed",),
    }
)


def _read_error(told: Mapping[str, Any]) -> tuple[str, str]:
    about = read_mapping(told.get("error"))
    return str(about.get("code") or ""), str(about.get("message") or told.get("message") or "")


FACTS = ApiFacts("Teams", _read_error, codes=CODES)


class TeamsChannel(HookedChannel):
    """Implements `Channel`. Raises ConfigError without the app's id, secret and tenant."""

    name = "msteams"

    def __init__(self, kit: ChannelKit) -> None:
        self._app, tenant = kit.text("appId"), kit.text("tenantId")
        if not self._app or not tenant:
            raise kit.wrong("appId" if not self._app else "tenantId")
        form = {"grant_type": "client_credentials", "client_id": self._app, "scope": SCOPE}
        login = f"{kit.text('loginBase', LOGIN)}/{quote(tenant, safe='')}/oauth2/v2.0/token"
        self._own = RenewedToken(grant_by_form(login, {**form, "client_secret": kit.secret("appPassword")}), kit.clock)
        self._service = kit.text("serviceUrl", SERVICE).rstrip("/")
        super().__init__(kit, HttpApi(FACTS, self._service, self._own))
        self._keys = OpenIdKeys(kit.text("openIdUrl", KEYS), kit.clock)
        self._places = MemoTable(kit.memo, "places", PLACES)  # by chat: where its answers go
        self._threads = kit.text("replyStyle", "thread") != "top-level"
        self.abilities = ChannelAbilities(
            "matrix",
            20_000,
            "utf16",
            acts=frozenset(("typing", "edit", "delete")),
            pace=1.5,
            threads=True,
            media=MEDIA if self.public else 0,
        )

    async def greet(self) -> str | SendFailure:
        """There is nobody to ask who we are: a token proves that the secret is good."""
        proof = await self._own()
        return proof if isinstance(proof, SendFailure) else self._app

    # --- in

    async def accept(self, request: ChannelHttpRequest) -> HookBatch | ChannelHttpResponse:
        believed = await self._keys.verify(request.headers.get("authorization", ""), ISSUERS, self._app)
        if isinstance(believed, SendFailure):
            return _LATER
        if believed is None:
            return REFUSED
        claims, key = believed
        activity = decode_object(request.body)
        service = str(activity.get("serviceUrl") or "")
        # The token is for this address and this platform; a key signs for those that it is endorsed for.
        meant = claims.get("serviceurl", claims.get("serviceUrl"))
        if not service or meant != service or activity.get("channelId") not in (key.endorsements or ("msteams",)):
            return REFUSED
        if not activity.get("type"):
            return UNREADABLE
        heard = parse_activity(activity, self._kit.account, self._kit.clock.now())
        if heard is None:
            return HookBatch()
        chat = heard.inbound.target.to
        if (await self._places.rows()).get(chat) != service:
            await self._places.put(chat, service)
        return HookBatch((heard,))

    # --- out

    async def send(self, reply: Reply) -> SendResult:
        body = await self._body(reply)
        if isinstance(body, SendFailure):
            return body
        return await self._call("POST", reply.target, "", body)

    async def _call(self, method: str, target: Target, activity: str, body: Mapping[str, Any] | None) -> SendResult:
        where = target.to + (f"{THREAD}{target.thread}" if target.thread and self._threads else "")
        service = str((await self._places.rows()).get(target.to) or self._service).rstrip("/")
        path = f"{service}/v3/conversations/{quote(where, safe='')}/activities"
        told = await self._api.call(method, f"{path}/{quote(activity, safe='')}" if activity else path, body)
        return told if isinstance(told, SendFailure) else SendReceipt(str(told.get("id") or activity))

    async def _body(self, reply: Reply) -> dict[str, Any] | SendFailure:
        """Pictures as such, other files as links: Teams fetches both from us."""
        files = await self.publish_files(reply, MEDIA, "Teams fetches files from us")
        if isinstance(files, SendFailure):
            return files
        made, shown = _write(reply.text, plain=reply.plain), []
        for file, url in files:
            if file.mime.startswith("image/"):
                shown.append({"contentType": file.mime, "contentUrl": url, "name": file.name})
            elif reply.plain:
                made["text"] += f"\n{file.name}: {url}"
            else:
                made["text"] += f'<br><a href="{html.escape(url)}">{html.escape(file.name)}</a>'
        return {**made, "attachments": shown} if shown else made

    async def act(self, target: Target, act: channel.ChannelAction) -> SendResult:
        match act:
            case channel.TypingAction():
                return await self._call("POST", target, "", {"type": "typing"})
            case channel.EditAction():
                done = await self._call("PUT", target, act.message_id, _write(act.text, plain=act.plain))
                return done if isinstance(done, SendFailure) else SendReceipt(act.message_id)
            case channel.DeleteAction():
                return await self._call("DELETE", target, act.message_id, None)
        return SendFailure("Teams cannot do that", "refused")


def _write(text: str, *, plain: bool) -> dict[str, Any]:
    """As HTML, which Teams reads (`xml`): there whatever a model writes can be escaped, in Markdown it cannot."""
    if plain:
        return {"type": "message", "textFormat": "plain", "text": text}
    made = render_markdown(text, "matrix")
    shown = made.html or html.escape(made.text, quote=False).replace("\n", "<br>")
    return {"type": "message", "textFormat": "xml", "text": shown}
