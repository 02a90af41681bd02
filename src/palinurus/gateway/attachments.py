"""Files that clients send with a message, and reading them again. Pictures go to the model as they are; everything else
is put on disk first and goes along as a file. Only files that came in this way are ever given out here.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import mimetypes
import os
from collections.abc import Iterable
from typing import Any

import msgspec

from palinurus.core.types.inbound import Attachment, decode_inbound
from palinurus.core.types.messages import ImageBlock
from palinurus.files import read_plain_file
from palinurus.gateway.rpc import MethodError
from palinurus.inbox.commands.command import KeepFile
from palinurus.store.port import InboxRow
from palinurus.store.shared import SharedBytes

ATTACHMENTS = 100  # of one message: each is a file that is on disk before it is accepted
ATTACHMENT_BYTES = 20 * 1024 * 1024  # bytes of one attachment
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
PLAIN = "application/octet-stream"
INBOUND_FOLDER = os.path.join("media", "inbound")  # below the home


class ClientAttachment(msgspec.Struct, frozen=True):
    """One attachment as it came, its content checked."""

    name: str
    mime: str
    content: str  # base64
    voice: bool


def read_attachments(attachments: list[Any] | None) -> list[ClientAttachment]:
    """What was attached. Raises MethodError for what cannot be read."""
    if len(attachments or ()) > ATTACHMENTS:
        raise MethodError(f"more than {ATTACHMENTS} attachments")
    return [_given(number, one) for number, one in enumerate(attachments or (), 1)]


def _given(number: int, one: Any) -> ClientAttachment:
    if not isinstance(one, dict):
        raise MethodError(f"attachment {number} is not an object")
    content = one.get("content")
    mime = str(one.get("mimeType") or one.get("mimetype") or "").partition(";")[0].strip().lower()
    if not isinstance(content, str):
        raise MethodError(f"attachment {number} has no content")
    if content.startswith("data:"):
        head, _, content = content.partition(",")
        mime = mime or head[5:].partition(";")[0].strip().lower()
    if len(content) > ATTACHMENT_BYTES * 4 // 3 + 4:
        raise MethodError(f"attachment {number} is larger than {ATTACHMENT_BYTES // 1024 // 1024} MB")
    try:
        base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise MethodError(f"attachment {number}: content is not base64") from None
    name = str(one.get("fileName") or "")[:200]
    return ClientAttachment(name, mime or mimetypes.guess_type(name)[0] or PLAIN, content, one.get("voice") is True)


async def keep_attachments(
    attachments: list[Any] | None, keep: KeepFile | None
) -> tuple[tuple[ImageBlock, ...], tuple[Attachment, ...]]:
    """Pictures, and the other files, which are on disk then. Raises MethodError; then nothing is left behind."""
    images: list[ImageBlock] = []
    files: list[Attachment] = []
    for one in read_attachments(attachments):
        if one.mime in PICTURES:
            images.append(ImageBlock(one.content, one.mime))
            continue
        name = one.name or ("voice note" if one.voice else "file")
        kept = await keep(name, one.mime, base64.b64decode(one.content)) if keep else "only pictures are taken here"
        if isinstance(kept, str):
            await delete_attachments(files)
            raise MethodError(kept)
        files.append(msgspec.structs.replace(kept, voice=one.voice and kept.mime.startswith("audio/")))
    return tuple(images), tuple(files)


async def delete_attachments(files: Iterable[Attachment]) -> None:
    """Take files away again that no message refers to."""
    for one in files:
        try:
            await asyncio.to_thread(os.unlink, one.path)
        except OSError:
            continue  # it is in nobody's way


def find_sent_files(row: InboxRow | None) -> tuple[Attachment, ...]:
    """The files that came with a message of the inbox. Raises MethodError if it is not there any more."""
    try:
        found = decode_inbound(row.body) if row is not None else None
    except msgspec.DecodeError:
        found = None
    if found is None:
        raise MethodError("nothing is on file about this message")
    return found.files


async def load_sent_file(home: str, file: Attachment, store: SharedBytes) -> dict[str, Any]:
    """What is in a file that came in, here or through another node. Raises MethodError if it is gone."""
    name = os.path.basename(file.path)
    try:
        data = await asyncio.to_thread(read_plain_file, os.path.join(home, INBOUND_FOLDER, name), ATTACHMENT_BYTES)
    except OSError:
        found = await store.get_blob(name)
        if found is None:
            raise MethodError(f"{file.name} is not there any more") from None
        data = found
    return {**describe_file(file), "content": base64.b64encode(data).decode()}


def describe_file(file: Attachment) -> dict[str, Any]:
    """A file as clients see it. Where it lies is not their business."""
    return {"name": file.name, "mimeType": file.mime, "size": file.size, "voice": file.voice}
