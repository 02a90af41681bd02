"""Activities of the Bot Framework -> messages. Pure.

Only `message` activities say something. A thread of a channel is part of its conversation's id (`;messageid=`).
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from palinurus.channels.intake import InboundWithFiles, RemoteFile
from palinurus.channels.web.api import read_mapping, read_rows
from palinurus.core.types.inbound import ChatKind, Inbound, Sender, Target
from palinurus.patterns import compile_late

THREAD = ";messageid="
_KINDS: dict[str, ChatKind] = {"personal": "direct", "groupChat": "group", "channel": "channel"}
_FILE = "application/vnd.microsoft.teams.file.download.info"
_TAG = compile_late(r"</?at>")


def parse_activity(activity: Mapping[str, Any], account: str, now: int) -> InboundWithFiles | None:
    """What a person said; None if the activity says nothing to us."""
    said_by, ours = read_mapping(activity.get("from")), read_mapping(activity.get("recipient"))
    place = read_mapping(activity.get("conversation"))
    ident, who, where = (str(one.get("id") or "") for one in (activity, said_by, place))
    if activity.get("type") != "message" or not ident or not who or not where or who == ours.get("id"):
        return None
    chat, _, thread = where.partition(THREAD)
    kind = _KINDS.get(str(place.get("conversationType") or ""), "group")
    text, named = _words(activity, str(ours.get("id") or ""))
    stable = str(said_by.get("aadObjectId") or "")
    around = read_mapping(activity.get("channelData"))
    team = read_mapping(around.get("team"))
    title = read_mapping(around.get("channel")).get("name") or place.get("name") or team.get("name")
    inbound = Inbound(
        Target("msteams", chat, account, thread if kind == "channel" else ""),
        Sender(
            stable or who, str(said_by.get("name") or "")[:200], bot=_is_bot(said_by), also=(who,) if stable else ()
        ),
        f"{chat}/{ident}",
        text,
        at=_read_time(activity.get("timestamp")) or now,
        kind=kind,
        reply_to=str(activity.get("replyToId") or ""),
        team=str(team.get("id") or ""),
        mentioned=kind == "direct" or named,
        title=str(title or "")[:200] if kind != "direct" else "",
    )
    return InboundWithFiles(inbound, _files(activity))


def _is_bot(who: Mapping[str, Any]) -> bool:
    return who.get("role") == "bot" or str(who.get("id") or "").startswith("28:")


def _words(activity: Mapping[str, Any], me: str) -> tuple[str, bool]:
    """The text without our own mention, and whether there was one."""
    text, named = str(activity.get("text") or ""), False
    for one in read_rows(activity.get("entities")):
        if one.get("type") == "mention" and me and read_mapping(one.get("mentioned")).get("id") == me:
            named = True
            mark = str(one.get("text") or "")
            text = text.replace(mark, "") if mark else text
    if activity.get("textFormat") != "plain" or "<at>" in text:
        text = html.unescape(_TAG.sub("", text))
    return text.replace("\xa0", " ").strip(), named


def _files(activity: Mapping[str, Any]) -> tuple[RemoteFile, ...]:
    """Files that somebody sent us alone, and pictures. The rest lies in SharePoint, where a bot has no way to."""
    made = []
    for one in read_rows(activity.get("attachments")):
        kind, about = str(one.get("contentType") or ""), read_mapping(one.get("content"))
        url = about.get("downloadUrl") if kind == _FILE else one.get("contentUrl") if kind.startswith("image/") else ""
        if isinstance(url, str) and url:
            ending = str(about.get("fileType") or kind.partition("/")[2])
            name = str(one.get("name") or f"file.{ending}")
            made.append(RemoteFile(name, "" if kind == _FILE else kind.replace("*", "png"), url))
    return tuple(made)


def _read_time(written: object) -> int:
    try:
        return int(datetime.fromisoformat(str(written).replace("Z", "+00:00")).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0
