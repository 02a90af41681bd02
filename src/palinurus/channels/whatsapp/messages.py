"""A message of the client -> what is handed in; replies and acts -> calls of the client, and what its complaints mean.

Who writes is the JID without its device part; WhatsApp vouches for the phone number beside it. The event holds sender
and id, because ids are the senders' own. Edits, reactions, broadcasts and status posts are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import msgspec

from palinurus.channels.kit import ChannelKit, load_reply_files
from palinurus.channels.whatsapp import port
from palinurus.core.format.render import render_markdown
from palinurus.core.types import channel
from palinurus.core.types.inbound import Inbound, MessageQuote, Sender, Target
from palinurus.core.types.outbound import Reply

PHONE = "@s.whatsapp.net"
_FOREIGN = ("@broadcast", "@newsletter")


def parse_message(came: port.WhatsAppMessage, me: frozenset[str], account: str) -> Inbound | None:
    """The message; None for what nobody says to us."""
    if came.mine or came.sender in me or came.chat.endswith(_FOREIGN) or not (came.text.strip() or came.media):
        return None
    text, named = _unnamed(came.text, came.mentions, me)
    if came.forwarded:  # others' words: never a command of who passes them on
        text = f"[forwarded]\n{text}".strip()
    quoted = came.quoted
    answered = quoted is not None and (not quoted.sender or quoted.sender in me)
    return Inbound(
        Target("whatsapp", came.chat if came.group else came.sender, account),
        Sender(came.sender, came.name, also=(*came.also, *_number(came.sender))),
        make_event_name(came.sender, came.id),
        text,
        at=came.at,
        kind="group" if came.group else "direct",
        reply_to=make_event_name("" if answered else quoted.sender, quoted.id) if quoted else "",
        mentioned=named or answered or text.startswith("/"),
        quote=MessageQuote(quoted.id, "" if answered else quoted.sender, quoted.text) if quoted else None,
        source="forwarded" if came.forwarded else "",
    )


def make_event_name(sender: str, ident: str) -> str:
    """How we name a message: WhatsApp needs its sender too, wherever it is meant. Ours are the bare id."""
    return f"{sender}/{ident}" if sender else ident


def split_event_name(name: str) -> tuple[str, str]:
    """(sender, id) of a message's name; the sender of our own is ""."""
    sender, _, ident = name.rpartition("/")
    return sender, ident


def _number(jid: str) -> tuple[str, ...]:
    """As people write it in a config: +491701234567."""
    return (f"+{jid.removesuffix(PHONE)}",) if jid.endswith(PHONE) else ()


def _unnamed(text: str, mentions: tuple[str, ...], me: frozenset[str]) -> tuple[str, bool]:
    """Without our own name, and whether it was there. WhatsApp writes @ and the number into the text."""
    ours = [one.partition("@")[0] for one in mentions if one in me]
    for user in ours:
        text = re.sub(rf"@{re.escape(user)}\b[ \t]?", "", text)
    return text.strip(), bool(ours)


MEDIA = 64 << 20  # bytes; WhatsApp's limit for most kinds
ABILITIES = channel.ChannelAbilities(
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
_WORDS: tuple[tuple[str, channel.SendTrouble], ...] = (
    (r"not logged in|doesn't contain a device|logged out|error 401", "signed_out"),
    (r"not connected|websocket|dial|no such host|connection refused|disconnected|network", "down"),
    (r"rate-?overlimit|too many|error 429", "limited"),
    (r"timed out|deadline exceeded|context canceled|connection (?:reset|closed)|broken pipe", "cut"),
    (r"upload|media|ffmpeg", "media"),
    (r"blocked|error 405", "blocked"),
    (r"no lid|not on whatsapp|item-not-found|error 404|not a participant", "gone"),
    (r"not-authorized|forbidden|error 403|gone", "gone"),
    (r"too (?:long|large|big)|error 413", "long"),
    (r"error 5\d\d|internal-server-error|service-unavailable", "down"),
    (r"error 4\d\d", "refused"),
)
LATER = 30.0  # seconds: WhatsApp does not say how long


class WhatsAppPoster:
    """For one account. `said` are texts of messages that may be quoted, by name."""

    def __init__(self, client: port.WhatsAppClient, kit: ChannelKit, said: Callable[[str], str]) -> None:
        self._client = client
        self._kit = kit
        self._said = said

    async def send(self, reply: Reply) -> channel.SendResult:
        """The text goes with the first file; further files are messages of their own."""
        files = await load_reply_files(self._kit, reply, MEDIA)
        if isinstance(files, channel.SendFailure):
            return files
        text = reply.text if reply.plain else render_markdown(reply.text, "whatsapp").text
        voice = reply.voice and all(file.mime.startswith("audio/") for file in files)
        quoted = self._quoted(reply.reply_to) if reply.reply_to else None
        posts = [port.WhatsAppPost(text if at == 0 else "", file, voice, quoted) for at, file in enumerate(files)]
        if files and text and files[0].mime.startswith("audio/"):  # a sound has no caption
            posts = [
                port.WhatsAppPost(text, None, False, quoted),
                *(msgspec.structs.replace(one, text="") for one in posts),
            ]
        first = ""
        for post in posts or [port.WhatsAppPost(text, None, False, quoted)]:
            try:
                ident = await self._client.send(reply.target.to, post)
            except port.WhatsAppRefusal as exc:
                trouble = explain_whatsapp_error(exc)
                # What went before is seen: to say all of it again would be worse than to miss a file.
                return channel.SendFailure(trouble.reason, "cut") if first else trouble
            first = first or ident
        return channel.SendReceipt(first)

    def _quoted(self, name: str) -> port.WhatsAppQuote:
        sender, ident = split_event_name(name)
        return port.WhatsAppQuote(ident, sender, self._said(name))

    async def act(self, target: Target, act: channel.ChannelAction) -> channel.SendResult:
        work = self._work(target.to, act)
        if work is None:
            return channel.SendFailure("whatsapp cannot do that", "refused")
        try:
            await work()
        except port.WhatsAppRefusal as exc:
            return explain_whatsapp_error(exc)
        return channel.SendReceipt(getattr(act, "message_id", ""))

    def _work(self, to: str, act: channel.ChannelAction) -> Callable[[], Awaitable[None]] | None:
        client = self._client
        match act:
            case channel.TypingAction():
                return lambda: client.typing(to)
            case channel.EditAction(ident, text, _, plain):
                return lambda: client.edit(to, ident, text if plain else render_markdown(text, "whatsapp").text)
            case channel.DeleteAction(ident):
                return lambda: client.delete(to, split_event_name(ident)[1])
            case channel.ReactAction(ident, emoji, remove):
                return lambda: client.react(to, *split_event_name(ident), "" if remove else emoji)
            case _:
                return None


def explain_whatsapp_error(exc: port.WhatsAppRefusal) -> channel.SendFailure:
    """What a complaint means."""
    text = " ".join(str(exc).split())[:300]
    word = next((word for pattern, word in _WORDS if re.search(pattern, text, re.IGNORECASE)), None)
    if word is None:
        word = "cut" if exc.sending else "refused"
    limited = word == "limited"
    return channel.SendFailure(f"WhatsApp: {text}", word, LATER if limited else None, everywhere=limited)
