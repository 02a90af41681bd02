"""The server over real sockets: routes, refusals, limits, hostile bytes."""

from __future__ import annotations

import asyncio
import json
import socket

import aiohttp
import msgspec
import pytest

from gateway.host import TOKEN, FakeHost
from palinurus.errors import GatewayUnreachable
from palinurus.gateway import limits
from palinurus.gateway.routes import ROUTES
from palinurus.gateway.server import GatewayServer
from palinurus.testing.clock import FakeClock

CHAT = "/v1/chat/completions"
HELLO = {"model": "openclaw", "messages": [{"role": "user", "content": "hi"}]}


async def raw(port: int, data: bytes) -> bytes:
    """Bytes as they are, and everything that comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def test_health_needs_no_credential(server: GatewayServer) -> None:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as client:
        for path in ("/health", "/healthz"):
            answer = await client.get(path)
            assert (answer.status, await answer.json()) == (200, {"ok": True, "status": "live"})
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert (await client.head(path)).status == 200


async def test_transport_security_is_sent_where_the_owner_says_so(server: GatewayServer, host: FakeHost) -> None:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as client:
        assert "Strict-Transport-Security" not in (await client.get("/healthz")).headers
        gateway = msgspec.structs.replace(host.settings.gateway, transport_security="max-age=9")
        host.settings = msgspec.structs.replace(host.settings, gateway=gateway)
        for path in ("/healthz", "/nowhere", "/v1/models"):
            assert (await client.get(path)).headers["Strict-Transport-Security"] == "max-age=9"


async def test_ready_says_what_fails(server: GatewayServer, host: FakeHost, clock: FakeClock) -> None:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as client:
        await clock.advance(2.5)
        answer = await client.get("/readyz")
        assert (answer.status, await answer.json()) == (200, {"ready": True, "failing": [], "uptimeMs": 2500})
        host.failing = ["store"]
        answer = await client.get("/ready")
        assert (answer.status, (await answer.json())["failing"]) == (503, ["store"])


async def test_models_lists_agents(http: aiohttp.ClientSession) -> None:
    rows = (await (await http.get("/v1/models")).json())["data"]
    assert [r["id"] for r in rows] == ["palinurus", "openclaw", "openclaw/default", "openclaw/main", "openclaw/work"]
    assert (await (await http.get("/v1/models/openclaw%2Fwork")).json())["id"] == "openclaw/work"
    assert (await http.get("/v1/models/gpt-4")).status == 404


async def test_kill_stops_the_turn_of_a_session(http: aiohttp.ClientSession, host: FakeHost) -> None:
    answer = await http.post("/sessions/agent%3Amain%3Amain/kill")
    assert (answer.status, await answer.json()) == (200, {"ok": True, "aborted": True})
    assert host.aborted == [("agent:main:main", "user")]


async def test_wrong_verb_and_unknown_path(http: aiohttp.ClientSession) -> None:
    answer = await http.get(CHAT)
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")
    for path in ("/nothing", "/..%2f..%2fetc/passwd", "/v1", "/%00", "/health/x"):
        assert (await http.get(path)).status == 404


def _samples() -> list[tuple[str, str]]:
    filled = {"key": "agent:main:main", "id": "openclaw", "item": "x"}
    found = []
    for route in ROUTES:
        path = route.pattern.pattern.split("|")[0]
        for name, value in filled.items():
            start = path.find(f"(?P<{name}>")
            if start >= 0:
                path = path[:start] + value + path[path.index(")", start) + 1 :]
        if route.scope is not None:
            found.append((route.method, path))
    return found


@pytest.mark.parametrize(("method", "path"), _samples())
async def test_every_scoped_route_refuses_without_a_credential(server: GatewayServer, method: str, path: str) -> None:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as client:
        answer = await client.request(method, path, data=b"{}")
        assert answer.status == 401
        assert (await answer.json())["error"]["type"] == "unauthorized"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Forwarded-For": "127.0.0.1"},
        {"Forwarded": "for=127.0.0.1"},
        {"X-Real-IP": "127.0.0.1"},
        {"Tailscale-User-Login": "owner@example.com"},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer x"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Bearer  {TOKEN}"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": "Bearer null"},
        {"Authorization": "Bearer " + "A" * 7000},
        {"x-openclaw-scopes": "operator.admin", "x-openclaw-token": TOKEN},
        {"Cookie": f"token={TOKEN}"},
    ],
)
async def test_nothing_but_the_credential_opens(server: GatewayServer, host: FakeHost, headers: dict[str, str]) -> None:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as client:
        answer = await client.post(CHAT, json=HELLO, headers=headers)
        assert answer.status == 401
        answer = await client.post(f"{CHAT}?token={TOKEN}", json=HELLO, headers=headers)
        assert answer.status == 400
    assert host.seen == []


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n", {421}),
        (b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1.nip.io\r\n", {421}),
        (b"GET /v1/models HTTP/1.1\r\nHost: localhost.evil\r\n", {421}),
        (b"GET /health HTTP/1.1\r\nHost: evil.example\r\n", {421}),
        (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:99999999\r\n", {421, 400}),
        (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n", {400}),
        (b"GET /health HTTP/1.1\r\n", {400}),
        (b"GET http://127.0.0.1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n", {421}),
        (b"GET http://evil.example/health HTTP/1.1\r\nHost: 127.0.0.1\r\n", {421}),
        (b"GET //health HTTP/1.1\r\nHost: 127.0.0.1\r\n", {421}),
        (b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n", {421}),
        (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n", {200}),
        (b"GET /health HTTP/1.1\r\nHost: LOCALHOST.:80\r\n", {200}),
        (b"GET /health HTTP/1.1\r\nHost: [::1]:18789\r\n", {200}),
        (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\n", {403}),
        (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: null\r\n", {403}),
        (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:1\r\nOrigin: http://127.0.0.1:2\r\n", {403}),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost.evil\r\n", {403}),
        (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:1\r\nOrigin: http://127.0.0.1:1\r\n", {200}),
        (b"G\x00T / HTTP/1.1\r\nHost: 127.0.0.1\r\n", {400}),
        (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 20_000 + b"\r\n", {400}),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n", {400}),
    ],
)
async def test_host_origin_and_request_line(server: GatewayServer, head: bytes, expected: set[int]) -> None:
    assert status(await raw(server.port, head + b"Connection: close\r\n\r\n")) in expected


async def test_ten_guesses_a_minute_and_the_right_token_passes_at_once(
    server: GatewayServer, host: FakeHost, clock: FakeClock
) -> None:
    async def guess(number: int) -> int:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as client:
            answer = await client.get("/v1/models", headers={"Authorization": f"Bearer guess{number}"})
            if answer.status == 429:
                assert 1 <= int(answer.headers["Retry-After"]) <= 61
            return answer.status

    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}", headers=headers) as known:
        assert (await known.get("/v1/models")).status == 200
        found = await asyncio.gather(*(guess(n) for n in range(50)))
        assert sorted(found) == [401] * limits.TRIES + [429] * (50 - limits.TRIES)
        assert (await known.get("/v1/models")).status == 200  # a connection that has proved itself goes on
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}", headers=headers) as fresh:
        assert (await fresh.get("/v1/models")).status == 200  # nobody locks the owner out by guessing
        assert await guess(99) == 429
        await clock.advance(limits.WINDOW + 1)
        assert await guess(100) == 401


async def test_a_large_body_is_refused_by_its_header(server: GatewayServer, host: FakeHost) -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n"
    answer = await raw(server.port, f"{head}Content-Length: {limits.BODY + 1}\r\n\r\n".encode())
    assert status(answer) == 413
    answer = await raw(server.port, f"{head}Content-Length: 2\r\nContent-Encoding: gzip\r\n\r\n".encode() + b"{}")
    assert status(answer) == 415


async def test_an_endless_chunked_body_is_cut(server: GatewayServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nTransfer-Encoding: chunked\r\n"
    writer.write(head.encode() + b"\r\n")
    piece = b"100000\r\n" + b"a" * 0x100000 + b"\r\n"
    sent = 0
    try:
        while sent < limits.BODY + (4 << 20) and not reader.at_eof():
            writer.write(piece)
            sent += 0x100000
            await writer.drain()
        assert b" 413 " in await asyncio.wait_for(reader.readline(), 60)
    finally:
        writer.transport.abort()


async def test_a_body_without_credential_is_never_read(server: GatewayServer, host: FakeHost) -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000000\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(head.encode())
    assert b" 401 " in await asyncio.wait_for(reader.readline(), 60)  # answered though no byte of the body came
    writer.transport.abort()


async def test_silent_connections_make_room_for_those_that_speak(server: GatewayServer) -> None:
    doors = server._doors
    assert doors is not None
    doors._fresh._cap = 20
    silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(60)]
    try:
        answer = await raw(server.port, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert status(answer) == 200
        assert len(doors._fresh) <= 20
        assert await asyncio.wait_for(silent[0][0].read(), 60) == b""  # the oldest was closed
    finally:
        for _, writer in silent:
            writer.transport.abort()


async def test_port_taken_names_the_port_and_the_way_out(
    server: GatewayServer, host: FakeHost, clock: FakeClock
) -> None:
    second = GatewayServer(host, clock, TOKEN)
    with pytest.raises(GatewayUnreachable) as caught:
        await second.start("127.0.0.1", server.port)
    assert str(server.port) in str(caught.value) and "--port" in caught.value.fix
    assert caught.value.exit_code == 75


async def test_an_address_that_is_not_ours(host: FakeHost, clock: FakeClock) -> None:
    with pytest.raises(GatewayUnreachable):
        await GatewayServer(host, clock, TOKEN).start("203.0.113.7", 0)


async def test_a_crash_in_a_handler_is_one_500(http: aiohttp.ClientSession, host: FakeHost) -> None:
    host.refuse = RuntimeError(f"secret {TOKEN}")
    answer = await http.post(CHAT, json=HELLO)
    text = await answer.text()
    assert answer.status == 500 and TOKEN not in text and json.loads(text)["error"]["code"] == "internal"
    host.refuse = None
    assert (await http.post(CHAT, json=HELLO)).status == 200


async def test_closing_keeps_open_connections(
    server: GatewayServer, http: aiohttp.ClientSession, host: FakeHost
) -> None:
    host.hold = asyncio.Event()
    running = asyncio.ensure_future(http.post(CHAT, json=HELLO))
    while not host.seen:
        await asyncio.sleep(0)
    await server.close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", server.port), 1).close()
    host.hold.set()
    assert (await running).status == 200
