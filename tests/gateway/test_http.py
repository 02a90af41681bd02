"""Requests whose bytes are no text."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gateway.host import TOKEN
from gateway.whole import place

# Headers that somebody reads, signs with or compares.
HEADERS = (
    "cookie accept last-event-id mcp-session-id idempotency-key x-openclaw-scopes x-openclaw-session-key range "
    "x-hub-signature-256 stripe-signature x-slack-signature x-slack-request-timestamp x-webhook-signature "
    "x-webhook-timestamp x-gitlab-token x-telegram-bot-api-secret-token if-none-match accept-encoding"
).split()
PATHS = (
    "/ /health /push/news /mcp /v1/models /v1/chat/completions /v1/responses/%ff /v1/audio/transcriptions /metrics "
    "/tools/invoke /hooks/a /hooks/%ff /channels/webhook/default /channels/webhook/%ff?file=%ff /docs/%ff /avatar/%ff "
    "/%ff%00 /v1/conversations/%ff/items?after=%ff"
).split()


async def ask(port: int, method: str, path: str, token: bytes) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    odd = b"".join(b"%s: \xff\xfe, t=\xff,v1=\xff\r\n" % name.encode() for name in HEADERS)
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 2\r\nConnection: close\r\n".encode()
    writer.write(head + b"Content-Type: application/json\r\nAuthorization: Bearer " + token + b"\r\n" + odd + b"\r\n{}")
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status


async def test_bytes_that_are_no_text_are_no_fault_of_ours(tmp_path: Path) -> None:
    hooks = {"enabled": True, "token": "t" * 32, "mappings": [{"id": "a", "match": {"path": "a"}, "action": "wake"}]}
    webhook = {"secret": "s" * 20, "url": "http://127.0.0.1:9/x"}
    async with place(tmp_path / "h", hooks=hooks, channels={"webhook": webhook}) as here:
        for token in (b"\xff\xff", TOKEN.encode()):
            told = {
                f"{how} {path}": await ask(here.server.port, how, path, token)
                for path in PATHS
                for how in ("GET", "POST")
            }
            assert {line: status for line, status in told.items() if status >= 500} == {}
