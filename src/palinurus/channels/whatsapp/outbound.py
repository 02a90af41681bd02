"""Replies and acts -> calls of the client, and what its complaints mean. Raises nothing."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from palinurus.channels.kit import ChannelFile, ChannelKit
from palinurus.channels.whatsapp.inbound import split_event_name
from palinurus.channels.whatsapp.port import WhatsAppClient, WhatsAppPost, WhatsAppQuote, WhatsAppRefusal
from palinurus.core.format.render import render_markdown
from palinurus.core.types.channel import (
    ChannelAbilities,
    ChannelAction,
    DeleteAction,
    EditAction,
    ReactAction,
    SendFailure,
    SendReceipt,
    SendTrouble,
    TypingAction,
)
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply

MEDIA = 64 << 20  # bytes; WhatsApp's limit for most kinds
ABILITIES = ChannelAbilities(
    markup="whatsapp",
    limit=4000,  # it takes 65,536, but folds long ones away
    acts=frozenset(("typing", "edit", "delete", "react")),
    typing=10.0,
    pace=2.0,
    replies=True,
    media=MEDIA,
    voice=True,
)
# What whatsmeow says, first match wins.
_WORDS: tuple[tuple[str, SendTrouble], ...] = (
    (r"not logged in|doesn't contain a device|logged out|error 401", "signed_out"),
    (r"not connected|websocket|dial|no such host|connection refused|disconnected|network", "down"),
    (r"rate-?overlimit|too many|error 429", "limited"),
    (r"timed out|deadline exceeded|context canceled|connection (?:reset|closed)|broken pipe", "cut"),
    (r"upload|media|ffmpeg", "media"),
    (r"blocked|error 405", "blocked"),
    (
        r"no lid|not on whatsapp|item-not-found|error 404|not a participant|not-authorized|forbidden|error 403|gone",
        "gone",
    ),
    (r"too (?:long|large|big)|error 413", "long"),
    (r"error 5\d\d|internal-server-error|service-unavailable", "down"),
    (r"error 4\d\d", "refused"),
)
LATER = 30.0  # seconds: WhatsApp does not say how long


class WhatsAppPoster:
    """For one account. `said` are texts of messages that may be quoted, by name."""

    def __init__(self, client: WhatsAppClient, kit: ChannelKit, said: Callable[[str], str]) -> None:
        self._client = client
        self._kit = kit
        self._said = said

    async def send(self, reply: Reply) -> SendReceipt | SendFailure:
        """The text goes with the first file; further files are messages of their own."""
        files: list[ChannelFile] = []
        for source in reply.media:
            file = await self._kit.media.load(source, MEDIA)
            if isinstance(file, str):
                return SendFailure(file, "media")
            files.append(file)
        text = reply.text if reply.plain else render_markdown(reply.text, "whatsapp").text
        voice = reply.voice and all(file.mime.startswith("audio/") for file in files)
        quoted = self._quoted(reply.reply_to) if reply.reply_to else None
        posts = [WhatsAppPost(text if at == 0 else "", file, voice, quoted) for at, file in enumerate(files)]
        if files and text and files[0].mime.startswith("audio/"):  # a sound has no caption
            posts = [WhatsAppPost(text, None, False, quoted), *(one._replace(text="") for one in posts)]
        first = ""
        for post in posts or [WhatsAppPost(text, None, False, quoted)]:
            try:
                ident = await self._client.send(reply.target.to, post)
            except WhatsAppRefusal as exc:
                trouble = explain_whatsapp_error(exc)
                # What went before is seen: to say all of it again would be worse than to miss a file.
                return SendFailure(trouble.reason, "cut") if first else trouble
            first = first or ident
        return SendReceipt(first)

    def _quoted(self, name: str) -> WhatsAppQuote:
        sender, ident = split_event_name(name)
        return WhatsAppQuote(ident, sender, self._said(name))

    async def act(self, target: Target, act: ChannelAction) -> SendReceipt | SendFailure:
        work = self._work(target.to, act)
        if work is None:
            return SendFailure("whatsapp cannot do that", "refused")
        try:
            await work()
        except WhatsAppRefusal as exc:
            return explain_whatsapp_error(exc)
        return SendReceipt(getattr(act, "message_id", ""))

    def _work(self, to: str, act: ChannelAction) -> Callable[[], Awaitable[None]] | None:
        client = self._client
        match act:
            case TypingAction():
                return lambda: client.typing(to)
            case EditAction(ident, text, _, plain):
                return lambda: client.edit(to, ident, text if plain else render_markdown(text, "whatsapp").text)
            case DeleteAction(ident):
                return lambda: client.delete(to, split_event_name(ident)[1])
            case ReactAction(ident, emoji, remove):
                return lambda: client.react(to, *split_event_name(ident), "" if remove else emoji)
            case _:
                return None


def explain_whatsapp_error(exc: WhatsAppRefusal) -> SendFailure:
    """What a complaint means."""
    text = " ".join(str(exc).split())[:300]
    word = next((word for pattern, word in _WORDS if re.search(pattern, text, re.IGNORECASE)), None)
    if word is None:
        word = "cut" if exc.sending else "refused"
    return SendFailure(f"WhatsApp: {text}", word, LATER if word == "limited" else None, everywhere=word == "limited")
