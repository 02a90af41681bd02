"""Files that come with messages: kept once, given to the model, read again, and nothing else is given out."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from gateway.whole import place, until_over
from palinurus.gateway import attachments
from palinurus.gateway.rpc import MethodError
from palinurus.testing.model import ScriptedModel, say

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def test_files_are_kept_and_pictures_are_shown(tmp_path: Path) -> None:
    model = ScriptedModel([say("I see")], repeat=True)
    sent = [
        {"type": "image", "mimeType": "image/png", "fileName": "dot.png", "content": PIXEL},
        {"mimeType": "audio/webm;codecs=opus", "fileName": "", "content": encoded(b"sound"), "voice": True},
        {"fileName": "../../evil.pdf", "content": f"data:application/pdf;base64,{encoded(b'%PDF')}"},
    ]
    async with place(tmp_path / "h", model) as here:
        for _ in range(2):  # the client may ask twice: nothing is left twice
            await here.call("chat.send", sessionKey="main", message="", idempotencyKey="k1", attachments=sent)
        await until_over(here.link, "k1")
        (item,) = {message["item"] for message in (await here.call("chat.history", sessionKey="main"))["messages"]}
        folder = tmp_path / "h" / attachments.INBOUND_FOLDER
        kept = sorted(path.read_bytes() for path in folder.iterdir() if path.is_file())
        asked = model.requests[0].messages[-1]
        listed = (await here.call("chat.files", item=item))["files"]
        again = await here.call("chat.file.get", item=item)
        assert "no such file" in (await here.refused("chat.file.get", item=item, index=2)).message
        assert "nothing is on file" in (await here.refused("chat.files", item="nope")).message
        for path in folder.iterdir():
            if path.suffix == ".pdf":
                path.unlink()
        assert "not there any more" in (await here.refused("chat.file.get", item=item, index=1)).message
    assert kept == [b"%PDF", b"sound"] and len(asked.blocks) == 2
    assert "voice note" in asked.text and "evil.pdf (application/pdf" in asked.text
    assert listed == [
        {"name": "voice note", "mimeType": "audio/webm", "size": 5, "voice": True},
        {"name": "../../evil.pdf", "mimeType": "application/pdf", "size": 4, "voice": False},
    ]
    assert base64.b64decode(again["content"]) == b"sound"


async def test_what_cannot_be_read_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    good = {"mimeType": "text/plain", "fileName": "a.txt", "content": encoded(b"a")}
    async with place(tmp_path / "h") as here:
        for bad, why in (
            ("text", "is not an object"),
            ({"mimeType": "image/png"}, "has no content"),
            ({"mimeType": "image/png", "content": "***"}, "not base64"),
        ):
            params = {"sessionKey": "main", "message": "x", "idempotencyKey": "k", "attachments": [good, bad]}
            assert why in (await here.refused("chat.send", **params)).message
    assert not (tmp_path / "h" / attachments.INBOUND_FOLDER).exists()


async def test_a_disk_that_takes_only_the_first_keeps_none(tmp_path: Path) -> None:
    left = tmp_path / "kept"

    async def keep(name: str, mime: str, data: bytes) -> attachments.Attachment | str:
        if left.exists():
            return "the disk is full"
        left.write_bytes(data)
        return attachments.Attachment(str(left), name, mime, len(data))

    one = {"fileName": "a.txt", "content": encoded(b"a")}
    with pytest.raises(MethodError, match="disk is full"):
        await attachments.keep_attachments([one, one], keep)
    assert not left.exists()
    with pytest.raises(MethodError, match="larger than 20 MB"):
        attachments.read_attachments([{"content": "A" * (attachments.ATTACHMENT_BYTES * 4 // 3 + 8)}])
    with pytest.raises(MethodError, match="only pictures"):
        await attachments.keep_attachments([one], None)
