"""A signed request -> `Inbound`. Pure: the signature was checked before, files are decoded but not kept here."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from palinurus.channels.kit import ChannelFile
from palinurus.core.types.inbound import ChatKind, Inbound, MessageQuote, Sender, Target

KINDS: tuple[ChatKind, ...] = ("direct", "group", "channel")


class _File(msgspec.Struct):
    name: str = "file"
    mime: str = ""
    data: str = ""  # base64


class _Quote(msgspec.Struct):
    id: str = ""
    sender: str = ""
    text: str = ""


class WebhookBody(msgspec.Struct, rename={"sender": "from"}):
    """The body. `id` makes a repeated request the same message; `to` is the chat, where answers go."""

    id: str | int
    sender: str | int
    text: str = ""
    to: str | int = ""
    name: str = ""
    thread: str | int = ""
    kind: str = "direct"
    title: str = ""
    mentioned: bool = False
    bot: bool = False
    pressed: str = ""
    quote: _Quote | None = None
    files: list[_File] = []


class WebhookInbound(msgspec.Struct, frozen=True):
    """A message and the files that came in it."""

    inbound: Inbound
    files: tuple[ChannelFile, ...]


_decoder = msgspec.json.Decoder(WebhookBody)


def parse_request(body: bytes, account: str, now: int) -> WebhookInbound | str:
    """What the request says, or in words what is wrong with it."""
    try:
        post = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        return f"the body is not understood: {exc}"
    ident, sender = str(post.id).strip(), str(post.sender).strip()
    if not ident or not sender:
        return "id and from must not be empty"
    if post.kind not in KINDS:
        return f"kind is one of {', '.join(KINDS)}"
    files = _files(post.files)
    if isinstance(files, str):
        return files
    chat = str(post.to).strip() or sender
    return WebhookInbound(
        Inbound(
            Target("webhook", chat, account, str(post.thread)),
            Sender(sender, post.name[:200], bot=post.bot),
            ident,
            post.text,
            now,
            post.kind,
            reply_to=post.quote.id if post.quote else "",
            mentioned=post.mentioned or bool(post.pressed),
            pressed=post.pressed,
            title=post.title[:200],
            quote=MessageQuote(post.quote.id, post.quote.sender, post.quote.text) if post.quote else None,
        ),
        files,
    )


def _files(sent: list[Any]) -> tuple[ChannelFile, ...] | str:
    found: list[ChannelFile] = []
    for one in sent:
        try:
            found.append(ChannelFile(one.name, one.mime, base64.b64decode(one.data, validate=True)))
        except (binascii.Error, ValueError):
            return f"the data of {one.name[:80]!r} is not base64"
    return tuple(found)
