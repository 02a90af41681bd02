"""Somebody with matrix-nio and encryption: says one thing in an encrypted room and waits for one answer. Run with the
Python of its own environment: URL STORE NAME PASSWORD PAL ROOM TEXT WANTED ("": none is waited for); prints one line of
JSON. Files are fetched and opened."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import sys

import nio
from nio.crypto.attachments import decrypt_attachment, encrypt_attachment

WAIT = 120  # seconds


def keep_login(store: str, given: dict | None = None) -> dict | None:
    """The login of an earlier run; `given` is kept."""
    path = os.path.join(store, "login.json")
    if given is not None:
        with open(path, "w") as out:
            json.dump(given, out)
    if not os.path.exists(path):
        return None
    with open(path) as source:
        return dict(json.load(source))


def read_bytes(path: str) -> bytes:
    with open(path, "rb") as source:
        return source.read()


async def read_file(client: nio.AsyncClient, event: nio.RoomEncryptedMedia) -> str:
    """What a file says, or why it cannot be read."""
    got = await client.download(event.url)
    if not isinstance(got, nio.MemoryDownloadResponse):
        return f"not fetched: {got}"
    return decrypt_attachment(got.body, event.key["k"], event.hashes["sha256"], event.iv).decode(errors="replace")


async def main(url: str, store: str, name: str, password: str, pal: str, room: str, text: str, wanted: str) -> dict:
    """What was seen: texts, files, and whether they came encrypted."""
    os.makedirs(store, exist_ok=True)
    client = nio.AsyncClient(url, name, store_path=store, config=nio.AsyncClientConfig(store_sync_tokens=True))
    if login := await asyncio.to_thread(keep_login, store):
        client.restore_login(**login)
    else:
        await client.login(password, device_name="nio")
        given = {"user_id": client.user_id, "device_id": client.device_id, "access_token": client.access_token}
        await asyncio.to_thread(keep_login, store, given)
    seen: list[dict] = []
    files: list[tuple[dict, nio.RoomEncryptedMedia]] = []

    def take(where: nio.MatrixRoom, event: nio.Event) -> None:
        if event.sender == pal:
            kind = type(event).__name__
            seen.append({"text": getattr(event, "body", ""), "kind": kind, "open": not event.decrypted})
            if isinstance(event, nio.RoomEncryptedMedia):
                files.append((seen[-1], event))

    client.add_event_callback(take, (nio.RoomMessage, nio.RoomEncryptedMedia, nio.MegolmEvent))
    await client.sync(timeout=0, full_state=True)
    if client.should_upload_keys:
        await client.keys_upload()
    if not room:
        state = [nio.EnableEncryptionBuilder().as_dict()]
        made = await client.room_create(is_direct=True, invite=[pal], initial_state=state)
        room = made.room_id
        for _ in range(WAIT):
            await client.sync(timeout=1000)
            if room in client.rooms and pal in client.rooms[room].users and not client.rooms[room].invited_users:
                break
    if client.should_query_keys:
        await client.keys_query()
    if text == "FILE":
        # Sealed first: while it uploads, the library loses the key where the HTTP client stops at the file's last byte.
        sealed, keys = encrypt_attachment(await asyncio.to_thread(read_bytes, os.path.join(store, "file.txt")))
        sent, _ = await client.upload(io.BytesIO(sealed), "application/octet-stream", filesize=len(sealed))
        content = {"msgtype": "m.file", "body": "file.txt", "file": {**keys, "url": sent.content_uri}}
        content["info"] = {"mimetype": "text/plain"}
    else:
        content = {"msgtype": "m.text", "body": text}
    done = await client.room_send(room, "m.room.message", content, ignore_unverified_devices=True)
    for _ in range(WAIT if wanted else 0):
        if any(wanted in one["text"] for one in seen):
            break
        await client.sync(timeout=1000)
    for told, event in files:
        told["file"] = await read_file(client, event)
    encrypted = client.rooms[room].encrypted
    await client.close()
    return {"room": room, "seen": seen, "encrypted": encrypted, "sent": type(done).__name__}


if __name__ == "__main__":
    logging.basicConfig(level=os.environ.get("NIO_LOG", "WARNING"))
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
