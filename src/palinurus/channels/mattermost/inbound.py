"""Mattermost's posts -> messages. Pure: names were looked up before.

A post's id is its event, whether the socket tells it or a channel is read back. Edits, joins and other posts with a
type are no messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.channels.intake import InboundWithFiles, RemoteFile
from palinurus.channels.web.api import read_mapping, read_rows
from palinurus.core.types.inbound import ChatKind, Inbound, Sender, Target

FILES = "/api/v4/files/"
CLIENT_ID_PROP = "palinurus_client_id"  # in the props of our posts: `find` reads it back
_KINDS: dict[str, ChatKind] = {"D": "direct", "G": "group", "O": "channel", "P": "channel"}


class MattermostRoom(msgspec.Struct, frozen=True):
    """A channel, as the server tells of it. `type`: D(irect), G(roup), O(pen), P(rivate)."""

    id: str
    type: str
    title: str = ""
    team: str = ""


class MattermostContext(msgspec.Struct, frozen=True):
    """What a post does not say itself. `prefixes`: a text that begins with one is for us (chatmode onchar)."""

    me: str
    username: str
    account: str
    base: str
    name: str = ""  # of who wrote
    bot: bool = False
    joined: bool = False  # we have spoken in its thread
    always: bool = False  # chatmode onmessage
    prefixes: tuple[str, ...] = ()
    threads: bool = False  # replyToMode all: what is asked in a channel is answered in a thread below it


def parse_post(post: Mapping[str, Any], room: MattermostRoom, around: MattermostContext) -> InboundWithFiles | None:
    """What a person said; None if nobody said anything to us in it."""
    ident, who = str(post.get("id") or ""), str(post.get("user_id") or "")
    if not ident or not who or who == around.me or post.get("type") or post.get("delete_at"):
        return None
    text, kind = str(post.get("message") or ""), _KINDS.get(room.type, "channel")
    bare = re.sub(rf"(?<![\w.@-])@{re.escape(around.username)}(?![\w-]|\.\w)", "", text, flags=re.IGNORECASE)
    named = bare != text
    prefix = next((one for one in around.prefixes if one and bare.lstrip().startswith(one)), "")
    bare = bare.lstrip()[len(prefix) :] if prefix and kind != "direct" else bare
    thread = str(post.get("root_id") or "")
    if not thread and around.threads and kind != "direct":
        thread = ident
    at, props = post.get("create_at"), read_mapping(post.get("props"))
    program = around.bot or any(str(props.get(one)).lower() == "true" for one in ("from_bot", "from_webhook"))
    inbound = Inbound(
        Target("mattermost", room.id, around.account, thread),
        Sender(who, around.name, bot=program),
        ident,
        bare.strip() if named or prefix else text,
        at=at if isinstance(at, int) else 0,
        kind=kind,
        team=room.team,
        mentioned=kind == "direct" or named or bool(prefix) or around.joined or around.always,
        title=room.title if kind != "direct" else "",
    )
    return InboundWithFiles(inbound, _files(post, around.base))


def _files(post: Mapping[str, Any], base: str) -> tuple[RemoteFile, ...]:
    """Named by the post's metadata; where that is missing, by their ids."""
    told = {str(one.get("id")): one for one in read_rows(read_mapping(post.get("metadata")).get("files"))}
    idents = post.get("file_ids")
    made = []
    for ident in map(str, idents if isinstance(idents, list) else ()):
        about = told.get(ident, {})
        size = about.get("size")
        name, mime = str(about.get("name") or ident), str(about.get("mime_type") or "")
        made.append(RemoteFile(name, mime, f"{base}{FILES}{ident}", size if isinstance(size, int) else 0))
    return tuple(made)
