"""WhatsApp's own messages (protobuf) <-> those of our port. Pure; loads neonize's message types, calls nothing."""

from __future__ import annotations

from typing import Any

from neonize.proto import Neonize_pb2 as wire
from neonize.proto.waE2E import WAWebProtobufsE2E_pb2 as e2e

from palinurus.channels.intake import RemoteFile
from palinurus.channels.kit import ChannelFile
from palinurus.channels.whatsapp.messages import PHONE
from palinurus.channels.whatsapp.port import WhatsAppMessage, WhatsAppPost, WhatsAppQuote

_WRAPPED = ("ephemeralMessage", "viewOnceMessage", "viewOnceMessageV2", "documentWithCaptionMessage")
_FILES = ("imageMessage", "audioMessage", "videoMessage", "documentMessage", "stickerMessage")
_NAMES = {"imageMessage": "picture", "audioMessage": "audio", "videoMessage": "video", "stickerMessage": "sticker"}


def make_jid(text: str) -> Any:
    """The JID of a text such as 4917…@s.whatsapp.net; a bare number is a phone's."""
    user, _, server = text.strip().lstrip("+").partition("@")
    server = server or PHONE[1:]
    return wire.JID(User=user, Server=server, RawAgent=0, Device=0, Integrator=0, IsEmpty=False)


def format_jid(found: Any) -> str:
    """A JID without its device part; "" for none."""
    return f"{found.User}@{found.Server}" if found.User and found.Server else ""


def convert_message(message: Any) -> WhatsAppMessage | None:
    """A message of the library; None for an edit of an older one."""
    if message.IsEdit:
        return None
    info, source = message.Info, message.Info.MessageSource
    known = [one for one in (format_jid(source.Sender), format_jid(source.SenderAlt)) if one]
    # The phone number's JID is what people know each other by; the other name (lid) is told beside it.
    known.sort(key=lambda one: not one.endswith(PHONE))
    body = _unwrapped(message.Message)
    words, context = _words(body)
    at = int(info.Timestamp)
    return WhatsAppMessage(
        info.ID,
        format_jid(source.Chat),
        known[0] if known else "",
        words,
        at=at if at > 100_000_000_000 else at * 1000,
        also=tuple(known[1:]),
        name=info.Pushname,
        group=bool(source.IsGroup),
        mine=bool(source.IsFromMe),
        mentions=tuple(context.mentionedJID) if context is not None else (),
        quoted=_quote(context),
        media=_media(body),
        forwarded=context is not None and bool(context.isForwarded),
    )


def _unwrapped(body: Any) -> Any:
    for _ in range(4):
        inner = next((name for name in _WRAPPED if body.HasField(name)), "")
        if not inner:
            break
        body = getattr(body, inner).message
    return body


def _words(body: Any) -> tuple[str, Any]:
    """The text, and what is said about it: mentions, the message it answers."""
    if body.conversation:
        return str(body.conversation), None
    if body.HasField("extendedTextMessage"):
        return str(body.extendedTextMessage.text), body.extendedTextMessage.contextInfo
    for name in _FILES:
        if body.HasField(name):
            part = getattr(body, name)
            return str(getattr(part, "caption", "")), part.contextInfo
    if body.HasField("locationMessage"):
        place = body.locationMessage
        named = f"{place.name}: " if place.name else ""
        return f"[location {named}{place.degreesLatitude:.6f}, {place.degreesLongitude:.6f}]", place.contextInfo
    if body.HasField("contactMessage"):
        return f"[contact {body.contactMessage.displayName}]", body.contactMessage.contextInfo
    return "", None


def _quote(context: Any) -> WhatsAppQuote | None:
    if context is None or not context.stanzaID:
        return None
    sender = context.participant
    user, _, server = sender.partition("@")
    return WhatsAppQuote(
        context.stanzaID, f"{user.partition(':')[0]}@{server}", _words(_unwrapped(context.quotedMessage))[0]
    )


def _media(body: Any) -> RemoteFile | None:
    for name in _FILES:
        if body.HasField(name):
            part = getattr(body, name)
            called = getattr(part, "fileName", "") or _NAMES.get(name, "file")
            kind = str(part.mimetype).partition(";")[0]
            return RemoteFile(called, kind, body, int(part.fileLength), voice=name == "audioMessage" and bool(part.PTT))
    return None


def build_text_message(post: WhatsAppPost, own: str) -> Any:
    """A message of text only. `own` is our JID, for what we are quoted with."""
    if post.quoted is None:
        return e2e.Message(conversation=post.text)
    return e2e.Message(extendedTextMessage=e2e.ExtendedTextMessage(text=post.text, contextInfo=_context(post, own)))


def find_media_kind(file: ChannelFile) -> str:
    """image, audio, video or document: how WhatsApp shows it."""
    first = file.mime.partition("/")[0]
    return first if first in ("image", "audio", "video") else "document"


def build_file_message(post: WhatsAppPost, file: ChannelFile, uploaded: Any, own: str) -> Any:
    """A message with a file that WhatsApp has already."""
    shared: dict[str, Any] = {
        "URL": uploaded.url,
        "directPath": uploaded.DirectPath,
        "mediaKey": uploaded.MediaKey,
        "fileEncSHA256": uploaded.FileEncSHA256,
        "fileSHA256": uploaded.FileSHA256,
        "fileLength": uploaded.FileLength,
        "mimetype": file.mime,
        "contextInfo": _context(post, own),
    }
    match find_media_kind(file):
        case "image":
            return e2e.Message(imageMessage=e2e.ImageMessage(caption=post.text, **shared))
        case "video":
            return e2e.Message(videoMessage=e2e.VideoMessage(caption=post.text, **shared))
        case "audio":
            if post.voice and file.mime == "audio/ogg":
                shared["mimetype"] = "audio/ogg; codecs=opus"
            return e2e.Message(audioMessage=e2e.AudioMessage(PTT=post.voice, **shared))
        case _:
            named = {"fileName": file.name, "title": file.name, "caption": post.text}
            return e2e.Message(documentMessage=e2e.DocumentMessage(**named, **shared))


def _context(post: WhatsAppPost, own: str) -> Any:
    quoted = post.quoted
    if quoted is None:
        return None
    said = e2e.Message(conversation=quoted.text)
    return e2e.ContextInfo(stanzaID=quoted.id, participant=quoted.sender or own, quotedMessage=said)
