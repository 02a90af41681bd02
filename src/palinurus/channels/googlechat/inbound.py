"""Events of Google Chat -> messages, and texts -> Google Chat's formatting. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from palinurus.channels.intake import InboundWithFiles, RemoteFile
from palinurus.channels.web.api import read_mapping, read_rows
from palinurus.core.format.render import render_markdown
from palinurus.core.types.inbound import ChatKind, Inbound, Sender, Target

_KINDS: dict[str, ChatKind] = {
    "DM": "direct", "DIRECT_MESSAGE": "direct", "GROUP_CHAT": "group", "ROOM": "channel", "SPACE": "channel",
}  # fmt: skip
_CALL, _QUIET = "<users/", "<\u200busers/"  # what calls people, and what does not


def parse_event(event: Mapping[str, Any], account: str, base: str, me: str, now: int) -> InboundWithFiles | None:
    """What a person said; None if the event says nothing to us. `me`: our own user, where the owner named it."""
    message = read_mapping(event.get("message"))
    space = read_mapping(event.get("space")) or read_mapping(message.get("space"))
    sender = read_mapping(message.get("sender")) or read_mapping(event.get("user"))
    name, who, where = (str(one.get("name") or "") for one in (message, sender, space))
    if event.get("type") != "MESSAGE" or not name or not who or not where or who == me:
        return None
    kind = _KINDS.get(str(space.get("spaceType") or space.get("type") or ""), "group")
    named = _is_named(message, me)
    text = str((message.get("argumentText") if named else None) or message.get("text") or "")
    thread = str(read_mapping(message.get("thread")).get("name") or "")
    inbound = Inbound(
        Target("googlechat", where, account, "" if kind == "direct" else thread),
        Sender(who, str(sender.get("displayName") or "")[:200], bot=sender.get("type") == "BOT"),
        name,
        text.strip() if named else text,
        at=_read_time(message.get("createTime")) or now,
        kind=kind,
        mentioned=kind == "direct" or named,
        title=str(space.get("displayName") or "")[:200] if kind != "direct" else "",
    )
    files = (_file(one, base) for one in read_rows(message.get("attachment")))
    return InboundWithFiles(inbound, tuple(one for one in files if one is not None))


def _is_named(message: Mapping[str, Any], me: str) -> bool:
    for one in read_rows(message.get("annotations")):
        user = read_mapping(read_mapping(one.get("userMention")).get("user"))
        if one.get("type") == "USER_MENTION" and (user.get("name") == me if me else user.get("type") == "BOT"):
            return True
    return bool(message.get("slashCommand"))


def _file(one: Mapping[str, Any], base: str) -> RemoteFile | None:
    """Uploaded files; what lies in Drive is the person's and not for a bot."""
    ref = str(read_mapping(one.get("attachmentDataRef")).get("resourceName") or "")
    name, mime = str(one.get("contentName") or "file"), str(one.get("contentType") or "")
    return RemoteFile(name, mime, f"{base}/v1/media/{ref}?alt=media") if ref else None


def _read_time(written: object) -> int:
    try:
        return int(datetime.fromisoformat(str(written).replace("Z", "+00:00")).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0


def write_text(text: str, *, plain: bool) -> str:
    """As it is sent. Its signs are those of WhatsApp; whatever the text says, nobody is called by it."""
    shown = text if plain else render_markdown(text, "whatsapp").text
    return shown.replace(_CALL, _QUIET)
