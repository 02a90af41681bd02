"""One app on Feishu (open.feishu.cn) or Lark (open.larksuite.com). It calls us with events that the encrypt key seals
and signs; answers go out with a tenant token that the app's secret buys for two hours. A `uuid` made of our id makes
one message of however many tries within an hour.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

from palinurus.channels.feishu.inbound import FeishuContext, FeishuMessage, find_message, parse_message
from palinurus.channels.feishu.post import write_post
from palinurus.channels.kit import (
    PASSING,
    ChannelFile,
    ChannelKit,
    RecentDict,
    decode_object,
    index_troubles,
    load_reply_files,
)
from palinurus.channels.web.api import (
    ApiFacts,
    HttpApi,
    RenewedToken,
    TokenGrant,
    make_upload_form,
    read_mapping,
    read_rows,
)
from palinurus.channels.web.hook import REFUSED, HookBatch, HookedChannel, is_same_secret
from palinurus.config.secrets import Secret
from palinurus.core.aes import open_cbc
from palinurus.core.policy.address import AddressRefusal, parse_url
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

DOMAINS = {"feishu": "https://open.feishu.cn", "lark": "https://open.larksuite.com"}
TOKEN, IM = "/open-apis/auth/v3/tenant_access_token/internal", "/open-apis/im/v1"
MEDIA, PICTURE = 30 * 1024 * 1024, 10 * 1024 * 1024
LONGEST = 10_000  # bytes of a text; Feishu takes 30 KB with all marks, and says so when they are more
NO_MESSAGE = SendFailure("there is no such message in this chat", "gone")
UNSIGNED = 4096  # bytes of a request without a signature that are looked at: its question whether we are there
LOOK = 1.5  # seconds for a name: Feishu wants its answer within three
_LATER = ChannelHttpResponse(503, b"not yet\n")
_TAKEN = ChannelHttpResponse(200, b"{}", "application/json")

# From "Send message", "Reply to a message", "Edit a message", "Upload image", "Upload file", "Rate limits" and "Generic
# error codes" of open.feishu.cn, as of 2025/2026; 10003 and 10014 are what wrong credentials are told in practice.
CODES: dict[str, SendTrouble] = index_troubles(
    {
        "limited": ("99991400", "230020"),
        "signed_out": ("99991661", "99991663", "99991671", "99991543", "99991662", "99991673", "10003", "10014"),
        "blocked": ("230013", "230038", "230053"),
        "gone": ("230002", "230019", "230029", "230034", "232009"),
        "long": ("230025",),
        "media": ("230017", "230055", "234006", "234010", "234011", "234039"),
        "down": ("230049", "232096"),  # it is being sent; the app cannot be written to now
        "refused": ("230001", "230006", "230018", "230022", "230027", "230028", "230035", "99991672", "234007"),
    }
)
_WORDS = {
    "230006": "the app is no bot yet: add the feature Bot in the developer console and publish a version",
    "234007": "the app is no bot yet: add the feature Bot in the developer console and publish a version",
    "230013": "this person is outside of the app's availability: change it in the developer console",
    "10003": "appId or appSecret is wrong", "10014": "appSecret is wrong",
    "99991662": "the app is switched off, or not installed here",
}  # fmt: skip
# What is answered is gone, or cannot be answered so: then it is said without.
UNANSWERABLE = ("230011", "230050", "230071", "230072", "230110", "230111", "231003")
# From "Emoji introduction".
EMOJI: dict[str, str] = {
    "👍": "THUMBSUP", "👎": "ThumbsDown", "👀": "GLANCE", "✅": "DONE", "☑": "CheckMark", "✔": "CheckMark",
    "❌": "CrossMark", "🤔": "THINKING", "🔥": "Fire", "❤": "HEART", "🎉": "PARTY", "😂": "LOL", "😊": "BLUSH",
    "🙂": "SMILE", "😀": "LAUGH", "😢": "CRY", "😭": "SOB", "😮": "WOW", "😡": "ANGRY", "🙏": "THANKS", "👏": "CLAP",
    "👋": "WAVE", "👌": "OK", "💪": "MUSCLE", "💯": "Hundred", "⏳": "OneSecond", "💡": "StatusFlashOfInspiration",
    "✍": "Typing", "☕": "Coffee", "😱": "TERROR", "🥱": "YAWN", "😨": "SHOCKED", "⚡": "OnIt",
}  # fmt: skip
_MESSAGE = compile_late(r"om_[A-Za-z0-9_-]{1,100}")
_UPLOADS = {"pdf": "pdf", "doc": "doc", "docx": "doc", "xls": "xls", "xlsx": "xls", "ppt": "ppt", "pptx": "ppt"}


def _read_error(told: Mapping[str, Any]) -> tuple[str, str]:
    code = told.get("code")
    return str(code) if code else "", str(told.get("msg") or "")


FACTS = ApiFacts("Feishu", _read_error, codes=CODES, words=_WORDS, strict=True, wait="x-ogw-ratelimit-reset")


class FeishuChannel(HookedChannel):
    """Implements `Channel`. Raises ConfigError without the app's id and secret and the verification token."""

    name = "feishu"
    dedupes = True

    def __init__(self, kit: ChannelKit) -> None:
        domain = kit.text("domain", "feishu")
        base = DOMAINS.get(domain, domain).rstrip("/")
        if isinstance(parse_url(base), AddressRefusal):
            raise kit.wrong("domain", what="is feishu, lark, or an address, https://…")
        if kit.text("connectionMode", "webhook") != "webhook":
            raise kit.wrong("connectionMode", what="is webhook here: Feishu calls us (docs/channels/feishu.md)")
        self._app = kit.text("appId")
        if not self._app:
            raise kit.wrong("appId")
        asks = HttpApi(FACTS, base)
        super().__init__(
            kit, HttpApi(FACTS, base, RenewedToken(_grant(asks, self._app, kit.secret("appSecret")), kit.clock))
        )
        self._token = kit.secret("verificationToken")
        self._sealed = kit.secret("encryptKey") if kit.own.get("encryptKey") else Secret()
        self._me = ""
        self._names: RecentDict[str, str] = RecentDict(2000)
        self._places: RecentDict[str, str] = RecentDict(1000)  # messages -> their chats
        self.abilities = ChannelAbilities(
            "plain",
            LONGEST,
            "bytes",
            acts=frozenset(("edit", "delete", "react", "pin")),
            pace=3.0,  # a message can be edited twenty times
            replies=True,
            threads=True,
            media=MEDIA,
            voice=True,
        )

    async def greet(self) -> str | SendFailure:
        told = await self._api.call("GET", "/open-apis/bot/v3/info")
        if isinstance(told, SendFailure):
            return told
        bot = read_mapping(told.get("bot"))
        self._me = str(bot.get("open_id") or "")
        return str(bot.get("app_name") or self._app)

    # --- in

    async def accept(self, request: ChannelHttpRequest) -> HookBatch | ChannelHttpResponse:
        told = await self._believed(request)
        if told is None:
            return REFUSED
        if told.get("type") == "url_verification":
            answer = json.dumps({"challenge": str(told.get("challenge") or "")}).encode()
            return ChannelHttpResponse(200, answer, "application/json")
        message = find_message(told)
        if message is None:
            return HookBatch((), _TAKEN)
        if not self._me:  # nobody can tell yet whether we are meant
            return _LATER
        heard = parse_message(message, await self._around(message))
        self._places[message.ident] = message.chat
        return HookBatch((heard,), _TAKEN)

    async def _believed(self, request: ChannelHttpRequest) -> Mapping[str, Any] | None:
        """What a request of Feishu's says; None if it is none. With an encrypt key everything is sealed, and signed but
        for the question whether we are there; the token stands in all of it."""
        told: Mapping[str, Any] = decode_object(request.body)
        signed = True
        if self._sealed:
            signed = verify_signature(self._sealed.reveal(), request)
            if not signed and len(request.body) > UNSIGNED:
                return None
            opened = await asyncio.to_thread(open_event, self._sealed.reveal(), str(told.get("encrypt") or ""))
            told = decode_object(opened) if opened is not None else {}
        asks = told.get("type") == "url_verification"
        given = str((told if asks else read_mapping(told.get("header"))).get("token") or "")
        return told if is_same_secret(self._token.reveal().encode(), given) and (signed or asks) else None

    async def _around(self, message: FeishuMessage) -> FeishuContext:
        """Names are for display: where the app may not ask for them, ids do."""
        person = f"/open-apis/contact/v3/users/{message.person['open_id']}?user_id_type=open_id"
        chat = f"{IM}/chats/{message.chat}"
        direct = message.kind == "direct"
        name, title = await asyncio.gather(self._named(person, "user"), self._named("" if direct else chat, ""))
        return FeishuContext(self._kit.account, self._api.base, self._me, name=name, title=title)

    async def _named(self, path: str, below: str) -> str:
        if not path:
            return ""
        if path not in self._names:
            told = await self._api.call("GET", path, seconds=LOOK)
            data = {} if isinstance(told, SendFailure) else read_mapping(told.get("data"))
            self._names[path] = str((read_mapping(data.get(below)) if below else data).get("name") or "")[:200]
        return self._names[path]

    # --- out

    async def send(self, reply: Reply) -> SendResult:
        """Text and files are messages of their own, each with its own uuid. Files go up before anything is shown."""
        files = await load_reply_files(self._kit, reply, MEDIA)
        if isinstance(files, SendFailure):
            return files
        parts: list[tuple[str, str]] = []
        if reply.text.strip() or not files:
            parts.append(("post", write_post(reply.text, plain=reply.plain)))
        for file in files:
            made = await self._uploaded(file, spoken=reply.voice)
            if isinstance(made, SendFailure):
                return made
            parts.append(made)
        first = ""
        for number, (kind, content) in enumerate(parts):
            told = await self._post(reply, {"msg_type": kind, "content": content, "uuid": _uuid(reply, number)})
            if isinstance(told, SendFailure):
                return told
            ident = str(read_mapping(told.get("data")).get("message_id") or "")
            self._places[ident], first = reply.target.to, first or ident
        return SendReceipt(first)

    async def _post(self, reply: Reply, body: dict[str, Any]) -> dict[str, Any] | SendFailure:
        target = reply.target
        answered = target.thread or reply.reply_to
        away = await self._look_for(answered, target.to) if answered else NO_MESSAGE
        if away is not None and (target.thread or away.trouble in PASSING):
            return away
        if away is None:
            given = {**body, "reply_in_thread": True} if target.thread else body
            told = await self._api.call("POST", f"{IM}/messages/{answered}/reply", given)
            if not isinstance(told, SendFailure) or not any(code in told.reason for code in UNANSWERABLE):
                return told
        query = {"receive_id_type": _id_type(target.to)}
        return await self._api.call("POST", f"{IM}/messages", {**body, "receive_id": target.to}, query=query)

    async def _look_for(self, ident: str, chat: str) -> SendFailure | None:
        """Why a message cannot be touched from a chat: ids hold for the whole tenant, rights for one chat."""
        if not _MESSAGE.fullmatch(ident):
            return NO_MESSAGE
        if ident not in self._places:
            told = await self._api.call("GET", f"{IM}/messages/{ident}")
            if isinstance(told, SendFailure):
                return told if told.trouble in PASSING else NO_MESSAGE
            for row in read_rows(read_mapping(told.get("data")).get("items")):
                self._places[ident] = str(row.get("chat_id") or "")
        return None if self._places.get(ident) == chat else NO_MESSAGE

    async def _uploaded(self, file: ChannelFile, *, spoken: bool) -> tuple[str, str] | SendFailure:
        """The type and the content of a message with this file."""
        ending, field, kind = file.name.rpartition(".")[2].lower(), "image", "image"
        rest = {"image_type": "message"}
        if not file.mime.startswith("image/") or "svg" in file.mime or len(file.data) > PICTURE:
            heard = spoken and (file.mime in ("audio/ogg", "audio/opus") or ending == "opus")
            sort = "opus" if heard else "mp4" if file.mime == "video/mp4" else _UPLOADS.get(ending, "stream")
            rest = {"file_type": sort, "file_name": file.name}
            field, kind = "file", {"opus": "audio", "mp4": "media"}.get(sort, "file")
        form = partial(make_upload_form, rest, field, file)
        told = await self._api.call("POST", f"{IM}/{field}s", form, seconds=120.0)
        if isinstance(told, SendFailure):
            return told
        return kind, json.dumps({f"{field}_key": str(read_mapping(told.get("data")).get(f"{field}_key") or "")})

    async def act(self, target: Target, act: channel.ChannelAction) -> SendResult:
        away = await self._look_for(getattr(act, "message_id", ""), target.to)
        if away is not None:
            return away
        match act:
            case channel.EditAction():
                given = {"msg_type": "post", "content": write_post(act.text, plain=act.plain)}
                return await self._done("PUT", f"{IM}/messages/{act.message_id}", act.message_id, given)
            case channel.DeleteAction():
                return await self._done("DELETE", f"{IM}/messages/{act.message_id}", act.message_id)
            case channel.PinAction():
                if act.remove:
                    return await self._done("DELETE", f"{IM}/pins/{act.message_id}", act.message_id)
                return await self._done("POST", f"{IM}/pins", act.message_id, {"message_id": act.message_id})
            case channel.ReactAction():
                return await self._react(act)
        return SendFailure("Feishu cannot do that", "refused")

    async def _done(self, method: str, path: str, ident: str, body: Mapping[str, Any] | None = None) -> SendResult:
        told = await self._api.call(method, path, body)
        return told if isinstance(told, SendFailure) else SendReceipt(ident)

    async def _react(self, act: channel.ReactAction) -> SendResult:
        bare = act.emoji.strip().strip(":").replace("\ufe0f", "")
        name = EMOJI.get(bare, bare if bare.isascii() else "")
        path = f"{IM}/messages/{act.message_id}/reactions"
        if not act.remove:
            if not name:
                return SendFailure(f"Feishu has no {act.emoji!r}; write one by its name, such as :DONE:", "refused")
            return await self._done("POST", path, act.message_id, {"reaction_type": {"emoji_type": name}})
        told = await self._api.call("GET", path, query={"reaction_type": name} if name else None)
        if isinstance(told, SendFailure):
            return told
        for one in read_rows(read_mapping(told.get("data")).get("items")):
            if read_mapping(one.get("operator")).get("operator_id") == self._app:
                done = await self._done("DELETE", f"{path}/{one.get('reaction_id')}", act.message_id)
                if isinstance(done, SendFailure):
                    return done
        return SendReceipt(act.message_id)


def _grant(api: HttpApi, app: str, secret: Secret) -> Any:
    async def grant() -> TokenGrant | SendFailure:
        told = await api.call("POST", TOKEN, {"app_id": app, "app_secret": secret.reveal()})
        if isinstance(told, SendFailure):
            return told
        token, seconds = told.get("tenant_access_token"), told.get("expire")
        if not isinstance(token, str) or not token:
            return SendFailure("Feishu gave no token", "signed_out")
        return TokenGrant(Secret(token), float(seconds) if isinstance(seconds, int) else 300.0)

    return grant


def verify_signature(key: str, request: ChannelHttpRequest) -> bool:
    """Was it signed with the encrypt key? In constant time."""
    parts = (request.headers.get(f"x-lark-request-{name}", "") for name in ("timestamp", "nonce"))
    right = hashlib.sha256(("".join(parts) + key).encode("utf-8", "replace") + request.body).hexdigest()
    return is_same_secret(right.encode(), request.headers.get("x-lark-signature", "").lower())


def open_event(key: str, sealed: str) -> bytes | None:
    """What an event says; None if the key does not open it."""
    try:
        return open_cbc(hashlib.sha256(key.encode()).digest(), base64.b64decode(sealed, validate=True))
    except (binascii.Error, ValueError):
        return None


def _uuid(reply: Reply, number: int) -> str:
    """At most fifty characters; the same for the same part of the same reply."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"palinurus:{reply.client_id}/{number}"))


def _id_type(to: str) -> str:
    known = {"oc_": "chat_id", "ou_": "open_id", "on_": "union_id"}
    return known.get(to[:3], "email" if "@" in to else "user_id")
