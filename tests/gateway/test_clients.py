"""Clients over real sockets: login, methods, events, limits, revocation, resume."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import aiohttp
import msgspec
import pytest

from gateway.host import TOKEN, FakeHost, settings
from palinurus.config.settings import Secret
from palinurus.errors import Draining, NotFound, PalinurusError
from palinurus.gateway import limits
from palinurus.gateway.client import GatewayLink, LoginOptions, make_connect_params, make_identity, open_link
from palinurus.gateway.rpc import (
    ADMIN,
    ALL_SESSIONS,
    EVENTS,
    NODE,
    PAIRING,
    READ,
    SCOPES,
    WRITE,
    ClientDescription,
    GatewayMethod,
    MethodCall,
    MethodError,
    MethodParams,
)
from palinurus.gateway.server import GatewayServer
from palinurus.gateway.ws import frames
from palinurus.testing.client import connect_to_gateway, make_gateway_url
from palinurus.testing.clock import FakeClock

UI = ClientDescription("openclaw-tui", "1", "linux", "ui")


class Echo(MethodParams, frozen=True):
    text: str = ""


async def echo(call: MethodCall, params: Echo) -> Any:
    return {"text": params.text}


async def twice(call: MethodCall, params: None) -> Any:
    call.ack({"status": "accepted", "runId": "r"})
    return {"status": "ok"}


async def fail(call: MethodCall, params: Echo) -> Any:
    kinds: dict[str, Exception] = {
        "rpc": MethodError("no such run", code="AGENT_TIMEOUT", details={"a": 1}, retryable=True, retry_after_ms=5),
        "draining": Draining("stopping"),
        "missing": NotFound("no message x"),
        "state": PalinurusError("disk is odd"),
        "bug": ZeroDivisionError("secret detail"),
        "shape": TypeError(),
    }
    if params.text == "shape":
        return object()
    raise kinds[params.text]


async def hang(call: MethodCall, params: None) -> Any:
    await asyncio.Event().wait()


EXTRA = (
    GatewayMethod("test.echo", READ, Echo, echo),
    GatewayMethod("test.twice", WRITE, None, twice),
    GatewayMethod("test.fail", READ, Echo, fail),
    GatewayMethod("test.hang", READ, None, hang),
    GatewayMethod("test.node", NODE, None, hang),
    GatewayMethod("test.open", None, Echo, echo, listed=False),
    GatewayMethod("test.change", ADMIN, Echo, echo, write=True),
)


@pytest.fixture
def gateway_settings() -> dict[str, Any]:
    return {}


@pytest.fixture
def host(gateway_settings: dict[str, Any]) -> FakeHost:
    return FakeHost(settings(**gateway_settings))


@pytest.fixture
async def server(host: FakeHost, clock: FakeClock) -> AsyncIterator[GatewayServer]:
    gateway = GatewayServer(host, clock, TOKEN)
    gateway.clients.methods = {**gateway.clients.methods, **{m.name: m for m in EXTRA}}
    await gateway.start("127.0.0.1", 0)
    yield gateway
    await gateway.stop()


async def said(waiting: Any) -> str:
    with pytest.raises(MethodError) as found:
        await asyncio.wait_for(waiting, 60)
    return found.value.message


async def test_hello_says_everything_clients_read(server: GatewayServer, clock: FakeClock) -> None:
    me = make_identity()
    async with connect_to_gateway(server.port, clock, token=TOKEN, identity=me) as link:
        hello = link.hello
        assert (hello["type"], hello["protocol"]) == ("hello-ok", 4)
        assert hello["policy"] == {"maxPayload": 26214400, "maxBufferedBytes": 52428800, "tickIntervalMs": 30000}
        listed = {m.name for m in server.clients.methods.values() if m.listed}
        assert set(hello["features"]["methods"]) == listed and "health" in listed and "test.open" not in listed
        assert set(hello["features"]["events"]) == {name for name, kind in EVENTS.items() if kind.listed}
        shot = hello["snapshot"]
        assert shot["sessionDefaults"] == {
            "defaultAgentId": "main",
            "mainKey": "main",
            "mainSessionKey": "agent:main:main",
            "scope": "per-sender",
        }
        assert shot["authMode"] == "token" and shot["stateDir"] and shot["health"]["ok"] is True
        assert hello["auth"]["role"] == "operator" and hello["auth"]["scopes"] == [ADMIN]
        assert hello["auth"]["deviceToken"] and hello["auth"]["issuedAtMs"] == clock.now()
        assert hello["server"]["connId"] and "resume" not in hello
    async with connect_to_gateway(
        server.port, clock, device_token=hello["auth"]["deviceToken"], identity=me, scopes=(READ,)
    ) as link:
        assert "deviceToken" not in link.hello["auth"]
        assert not {"authMode", "stateDir", "configPath"} & set(link.hello["snapshot"])


@pytest.mark.parametrize("scopes", [(), *((s,) for s in sorted(SCOPES))])
async def test_every_method_against_every_scope(
    server: GatewayServer, clock: FakeClock, scopes: tuple[str, ...]
) -> None:
    """A client with one scope calls every method there is with params none takes: whoever may call is told about the
    params, whoever may not is told about the scope."""
    opens = {READ: {READ, WRITE, ADMIN}} | {s: {s, ADMIN} for s in SCOPES - {READ}}
    unlimited = {name: msgspec.structs.replace(method, write=False) for name, method in server.clients.methods.items()}

    async def quiet(call: MethodCall, params: Any) -> str:
        return "reached"

    server.clients.methods = {name: msgspec.structs.replace(method, run=quiet) for name, method in unlimited.items()}
    async with connect_to_gateway(server.port, clock, token=TOKEN, scopes=scopes) as link:
        for name, method in server.clients.methods.items():
            assert method.scope is None or method.scope in SCOPES or method.scope == NODE, f"{name} has no scope"
            if method.scope == NODE:
                continue
            try:
                answer = await link.call(name, {"\0no such param": 1})
            except MethodError as error:
                answer = error.message
            may = method.scope is None or bool(opens[method.scope] & set(scopes))
            refusal = f"missing scope: {method.scope}"
            assert (answer != refusal) is may, (name, answer)
            assert not may or answer == "reached" or str(answer).startswith(f"invalid {name} params: "), answer


async def test_unknown_methods_are_named_only_to_admins(server: GatewayServer, clock: FakeClock) -> None:
    async with connect_to_gateway(server.port, clock, token=TOKEN) as link:
        assert await said(link.call("no.such")) == "unknown method: no.such"
        assert await said(link.call("connect", {})) == "connect is only valid as the first request"
    async with connect_to_gateway(server.port, clock, token=TOKEN, scopes=(WRITE,)) as link:
        assert await said(link.call("no.such")) == f"missing scope: {ADMIN}"
        assert await said(link.call("connect", {})) == f"missing scope: {ADMIN}"


async def test_node_methods_refuse_operators_and_end_the_stubborn(server: GatewayServer, clock: FakeClock) -> None:
    async with connect_to_gateway(server.port, clock, token=TOKEN) as link:
        for _ in range(10):
            assert await said(link.call("test.node")) == "unauthorized role: operator"
        assert await link.wait_closed() == 1008


@pytest.mark.parametrize(
    ("kind", "code", "message", "retryable"),
    [
        ("rpc", "AGENT_TIMEOUT", "no such run", True),
        ("draining", "UNAVAILABLE", "stopping", True),
        ("missing", "INVALID_REQUEST", "no message x", None),
        ("state", "UNAVAILABLE", "disk is odd", None),
        ("bug", "UNAVAILABLE", "internal error; the gateway's log says more", None),
        ("shape", "UNAVAILABLE", "internal error; the gateway's log says more", None),
    ],
)
async def test_failures_are_answers(
    server: GatewayServer, clock: FakeClock, kind: str, code: str, message: str, retryable: bool | None
) -> None:
    async with connect_to_gateway(server.port, clock, token=TOKEN) as link:
        with pytest.raises(MethodError) as found:
            await link.call("test.fail", {"text": kind})
        error = found.value
        assert (error.code, error.message, error.retryable) == (code, message, retryable)
        assert (await link.call("test.echo", {"text": "still here"}))["text"] == "still here"


async def test_two_responses_under_one_id(server: GatewayServer, clock: FakeClock) -> None:
    async with connect_to_gateway(server.port, clock, token=TOKEN) as link:
        assert (await link.call("test.twice"))["status"] == "accepted"
        assert (await link.call("test.twice", final=True))["status"] == "ok"


async def test_requests_do_not_wait_for_each_other_but_have_a_limit(server: GatewayServer, clock: FakeClock) -> None:
    async with connect_to_gateway(server.port, clock, token=TOKEN) as link:
        hanging = [asyncio.ensure_future(link.call("test.hang")) for _ in range(255)]
        assert (await link.call("test.echo", {"text": "x"}))["text"] == "x"
        hanging.append(asyncio.ensure_future(link.call("test.hang")))
        assert await said(link.call("test.echo")) == "too many requests under way"
        for task in hanging:
            task.cancel()


async def test_control_plane_changes_are_paced(server: GatewayServer, clock: FakeClock) -> None:
    me = make_identity()
    async with connect_to_gateway(server.port, clock, token=TOKEN, identity=me) as link:
        for _ in range(limits.WRITES):
            await link.call("test.change")
        with pytest.raises(MethodError) as found:
            await link.call("test.change")
        error = found.value
        assert (error.code, error.message) == ("UNAVAILABLE", "rate limit exceeded for test.change; retry after 61s")
        assert error.details == {"method": "test.change", "limit": f"{limits.WRITES} per 60s"} and error.retryable
    async with connect_to_gateway(server.port, clock, token=TOKEN, identity=me) as link:
        assert "rate limit" in await said(link.call("test.change"))
        await clock.advance(61)
        await link.call("test.change")


async def test_frames_of_25_megabytes_pass_and_larger_ones_close(server: GatewayServer, clock: FakeClock) -> None:
    text = "x" * (frames.FRAME - 200)
    async with connect_to_gateway(server.port, clock, token=TOKEN) as link:
        assert len((await link.call("test.echo", {"text": text}))["text"]) == len(text)
        with suppress(ConnectionError):  # the gateway may hang up while we still write
            await link.send({"type": "req", "id": "1", "method": "test.echo", "params": {"text": text + "x" * 400}})
        assert await link.wait_closed() in (1006, 1009)


async def test_broken_frames_after_login_are_ignored_or_answered(server: GatewayServer, clock: FakeClock) -> None:
    async with connect_to_gateway(server.port, clock, token=TOKEN) as link:
        for data in ("garbage", "", "{", "[]", '{"type":"bogus"}', '"x"', "[" * 60_000):
            await link.ws.send_str(data)
        await link.ws.send_bytes(b"\xff\xfe")
        assert (await link.call("test.echo", {"text": "ok"}))["text"] == "ok"


# --- before login -------------------------------------------------------------------------------------------------


async def closing(link: GatewayLink) -> tuple[int | None, str]:
    """Close code and reason, whatever comes before."""
    while True:
        message = await asyncio.wait_for(link.ws.receive(), 60)
        if message.type is aiohttp.WSMsgType.CLOSE:
            return message.data, message.extra or ""
        if message.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.ERROR):
            return link.ws.close_code, ""


@pytest.mark.parametrize("pieces", [1, 40])
async def test_a_stranger_has_64_kilobytes(server: GatewayServer, clock: FakeClock, pieces: int) -> None:
    link = await open_link(make_gateway_url(server.port), clock)
    try:
        await link.ws.send_str(json.dumps({"x": "a" * (70_000 // pieces)}), compress=None)
        code, _ = await closing(link)
        assert code == (1009 if pieces == 1 else 1008)
    finally:
        await link.close()


@pytest.mark.parametrize("gateway_settings", [{"handshake": 0.2}])
async def test_a_stranger_has_little_time(server: GatewayServer, clock: FakeClock) -> None:
    link = await open_link(make_gateway_url(server.port), clock)
    try:
        assert (await closing(link)) == (1008, "handshake timeout")
    finally:
        await link.close()


async def test_a_stranger_that_trickles_bytes_is_cut_by_bytes(server: GatewayServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    assert b"101" in await reader.readuntil(b"\r\n\r\n")
    writer.write(b"\x01\xff" + (20_000_000).to_bytes(8, "big") + b"mask")
    for _ in range(30):
        writer.write(b"x" * 4096)
    rest = await asyncio.wait_for(reader.read(), 60)
    assert b"\x03\xf1" in rest  # 1009
    writer.close()


async def test_the_first_request_must_be_connect(server: GatewayServer, clock: FakeClock) -> None:
    link = await open_link(make_gateway_url(server.port), clock)
    try:
        await link.send({"type": "req", "id": "1", "method": "health"})
        assert (await closing(link)) == (1008, "invalid handshake: first request must be connect")
    finally:
        await link.close()


async def test_only_so_many_strangers_and_the_oldest_goes(server: GatewayServer, clock: FakeClock) -> None:
    server.clients._strangers._cap = 64
    first = await open_link(make_gateway_url(server.port), clock)
    others = [await open_link(make_gateway_url(server.port), clock) for _ in range(64)]
    assert (await closing(first))[0] == 1008
    async with connect_to_gateway(server.port, clock, token=TOKEN) as link:
        assert (await link.call("health"))["ok"]
    await asyncio.gather(first.close(), *(other.close() for other in others))


def request(**headers: str) -> dict[str, str]:
    return {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        **headers,
    }


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/", {"Origin": "http://evil.example"}, 403),
        ("/", {"Origin": "null"}, 403),
        ("/", {"Origin": "http://localhost.evil"}, 403),
        ("/", {"Origin": "http://127.0.0.1:1"}, 403),
        ("/ws", {"Origin": "https://127.0.0.1"}, 403),
        ("/", {"Host": "evil.example"}, 421),
        ("/", {"Host": "127.0.0.1.nip.io"}, 421),
        ("/?token=x", {}, 400),
        ("/chat?session=main&Token=", {}, 400),
        ("/?password=x", {}, 400),
        ("/?access_token=x", {}, 400),
        ("/", {"Sec-WebSocket-Version": "1"}, 400),
        ("/", {"Sec-WebSocket-Key": "short"}, 400),
    ],
)
async def test_upgrades_that_are_refused(
    server: GatewayServer, path: str, headers: dict[str, str], status: int
) -> None:
    async with aiohttp.ClientSession() as client:
        answer = await client.get(f"http://127.0.0.1:{server.port}{path}", headers=request(**headers))
        assert answer.status == status


async def test_any_path_is_upgraded_and_http_still_works(server: GatewayServer, clock: FakeClock) -> None:
    own = f"http://127.0.0.1:{server.port}"
    for path in ("", "ws", "chat?session=main", "x/y"):
        link = await open_link(make_gateway_url(server.port) + path, clock, own)
        await link.close()
    async with aiohttp.ClientSession() as client:
        assert (await client.get(f"{own}/healthz")).status == 200


async def test_guessing_locks_the_door_but_not_those_inside(server: GatewayServer, clock: FakeClock) -> None:
    async with connect_to_gateway(server.port, clock, token=TOKEN) as inside:

        async def guess(n: int) -> str:
            try:
                async with connect_to_gateway(server.port, clock, token=f"guess{n}"):
                    return "in"
            except MethodError as error:
                return str(error.details["code"])

        codes = await asyncio.gather(*(guess(n) for n in range(50)))
        assert codes.count("AUTH_TOKEN_MISMATCH") == 10 and codes.count("AUTH_RATE_LIMITED") == 40
        async with aiohttp.ClientSession() as client:
            for token, status in ((TOKEN[:-1], 429), (TOKEN, 200)):
                headers = {"Authorization": f"Bearer {token}"}
                answer = await client.get(f"http://127.0.0.1:{server.port}/v1/models", headers=headers)
                assert answer.status == status
        assert (await inside.call("health"))["ok"]


async def test_a_gateway_that_starts_says_so(server: GatewayServer, host: FakeHost, clock: FakeClock) -> None:
    host.failing = ["starting"]
    with pytest.raises(MethodError) as found:
        async with connect_to_gateway(server.port, clock, token=TOKEN):
            pass
    assert (found.value.code, found.value.retryable, found.value.retry_after_ms) == ("UNAVAILABLE", True, 500)


# --- revocation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["device.pair.remove", "device.token.revoke", "device.token.rotate"])
async def test_taking_access_away_closes_live_connections_at_once(
    server: GatewayServer, clock: FakeClock, how: str
) -> None:
    me, owner = make_identity(), make_identity()
    async with connect_to_gateway(server.port, clock, token=TOKEN, identity=owner) as admin:
        async with connect_to_gateway(server.port, clock, token=TOKEN, identity=me, scopes=(READ,)) as first:
            token = first.hello["auth"]["deviceToken"]
            async with connect_to_gateway(
                server.port, clock, device_token=token, identity=me, scopes=(READ,)
            ) as second:
                hanging = asyncio.ensure_future(second.call("test.hang"))
                await second.call("health")
                params = {"deviceId": me.id} | ({} if how == "device.pair.remove" else {"role": "operator"})
                assert "token" not in await admin.call(how, params)
                assert (await first.wait_closed(), await second.wait_closed()) == (4001, 4001)
                with pytest.raises(PalinurusError):
                    await hanging
        assert not server.clients.tasks
        assert (await admin.call("health"))["ok"]
        with pytest.raises(MethodError) as found:
            async with connect_to_gateway(server.port, clock, device_token=token, identity=me, scopes=(READ,)):
                pass
        assert found.value.details["code"] == "AUTH_DEVICE_TOKEN_MISMATCH"


async def test_a_device_that_wants_more_waits_for_a_yes(server: GatewayServer, clock: FakeClock) -> None:
    me = make_identity()
    async with connect_to_gateway(server.port, clock, token=TOKEN, identity=me, scopes=(READ,)) as link:
        token = link.hello["auth"]["deviceToken"]
    async with connect_to_gateway(server.port, clock, token=TOKEN, scopes=(ADMIN,)) as admin:
        with pytest.raises(MethodError) as found:
            async with connect_to_gateway(server.port, clock, device_token=token, identity=me, scopes=(WRITE,)):
                pass
        error = found.value
        assert error.code == "NOT_PAIRED"
        assert error.message == "pairing required: device is asking for more scopes than currently approved"
        assert error.details["reason"] == "scope-upgrade" and error.details["requestedScopes"] == [WRITE]
        assert error.details["approvedScopes"] == [READ] and error.details["deviceId"] == me.id
        asked = await asyncio.wait_for(admin.event("device.pair.requested"), 60)
        assert asked["payload"]["requestId"] == error.details["requestId"]
        pending = (await admin.call("device.pair.list"))["pending"]
        assert [p["requestId"] for p in pending] == [error.details["requestId"]]
        await admin.call("device.pair.approve", {"requestId": error.details["requestId"]})
        async with connect_to_gateway(server.port, clock, device_token=token, identity=me, scopes=(WRITE,)) as link:
            assert link.hello["auth"]["scopes"] == [WRITE]


async def test_a_pairing_client_cannot_make_itself_admin(server: GatewayServer, clock: FakeClock) -> None:
    me = make_identity()
    async with connect_to_gateway(server.port, clock, token=TOKEN, identity=me, scopes=(PAIRING,)) as link:
        token = link.hello["auth"]["deviceToken"]
        with pytest.raises(MethodError) as found:
            async with connect_to_gateway(server.port, clock, device_token=token, identity=me, scopes=(ADMIN,)):
                pass
        wish = {"requestId": found.value.details["requestId"]}
        assert await said(link.call("device.pair.approve", wish)) == f"missing scope: {ADMIN}"
        more = {"deviceId": me.id, "role": "operator", "scopes": [ADMIN]}
        assert await said(link.call("device.token.rotate", more)) == "requested scopes exceed the approved ones"


async def test_a_login_under_way_loses_against_a_removal(
    server: GatewayServer, host: FakeHost, clock: FakeClock
) -> None:
    me = make_identity()
    async with connect_to_gateway(server.port, clock, token=TOKEN, identity=me, scopes=(READ,)):
        pass
    gate = asyncio.Event()
    host.store.pause = gate.wait  # type: ignore[assignment]
    removing = asyncio.ensure_future(server.clients.pairing.remove(me.id, {ADMIN}))
    coming = asyncio.ensure_future(said(_login(server, clock, me)))
    await asyncio.sleep(0.05)
    gate.set()
    await removing
    assert (await coming).startswith("pairing required: ")


async def _login(server: GatewayServer, clock: FakeClock, me: Any) -> None:
    async with connect_to_gateway(server.port, clock, token=TOKEN, identity=me, scopes=(READ, WRITE)):
        pass


async def test_a_device_token_also_opens_http_within_its_scopes(server: GatewayServer, clock: FakeClock) -> None:
    me = make_identity()
    async with connect_to_gateway(server.port, clock, token=TOKEN, identity=me, scopes=(READ,)) as link:
        headers = {"Authorization": f"Bearer {link.hello['auth']['deviceToken']}"}
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}", headers=headers) as client:
        assert (await client.get("/v1/models")).status == 200
        assert (await client.post("/sessions/main/kill")).status == 403
        await server.clients.pairing.remove(me.id, {ADMIN})
        assert (await client.get("/v1/models")).status == 401


# --- events -------------------------------------------------------------------------------------------------------


async def test_ticks_and_health(server: GatewayServer, clock: FakeClock) -> None:
    async with connect_to_gateway(server.port, clock, token=TOKEN) as link:
        await clock.until_sleeping()
        await clock.advance(30)
        tick = await asyncio.wait_for(link.event("tick"), 60)
        assert tick["payload"] == {"ts": clock.now()} and tick["seq"] == 1
        await clock.advance(30)
        health = await asyncio.wait_for(link.event("health"), 60)
        assert health["payload"]["ok"] and health["stateVersion"]["health"] > 1 and health["seq"] == 3


async def test_presence_shows_who_comes_and_goes(server: GatewayServer, clock: FakeClock) -> None:
    async with connect_to_gateway(server.port, clock, token=TOKEN) as link:
        me = make_identity()
        async with connect_to_gateway(server.port, clock, token=TOKEN, client=UI, identity=me):
            here = await asyncio.wait_for(link.event("presence"), 60)
            assert [e.get("deviceId") for e in here["payload"]["presence"]] == [None, me.id]
            assert [e["mode"] for e in await link.call("system-presence")] == ["gateway", "ui"]
        gone = await asyncio.wait_for(link.event("presence"), 60)
        assert len(gone["payload"]["presence"]) == 1
        assert gone["stateVersion"]["presence"] > here["stateVersion"]["presence"]


async def test_a_stop_is_announced(server: GatewayServer, clock: FakeClock) -> None:
    async with connect_to_gateway(server.port, clock, token=TOKEN, scopes=()) as link:
        stopping = asyncio.ensure_future(server.stop())
        bye = await asyncio.wait_for(link.event("shutdown"), 60)
        assert bye["payload"] == {"reason": "gateway stopping", "restartExpectedMs": None}
        assert await link.wait_closed() == 1012
        await stopping


async def test_a_client_that_comes_back_misses_nothing(server: GatewayServer, clock: FakeClock) -> None:
    me = make_identity()
    options: dict[str, Any] = {"token": TOKEN, "identity": me, "caps": ("resume",)}
    async with connect_to_gateway(server.port, clock, **options) as link:
        conn = link.hello["server"]["connId"]
        server.clients.follow(conn, ALL_SESSIONS)
        server.clients.broadcast("chat", {"n": 0})
        await link.event("chat")
        where = link.resume()
    while server.clients.clients():
        await asyncio.sleep(0.01)
    server.clients.broadcast("chat", {"n": 1})
    server.clients.tell((ALL_SESSIONS,), "sessions.changed", {"n": 2})
    server.clients.send(conn, "agent", {"n": 3})
    async with connect_to_gateway(server.port, clock, **options, resume=where) as link:
        assert link.hello["resume"]["ok"] is True
        server.clients.broadcast("chat", {"n": 4})
        got = [await asyncio.wait_for(link.events.get(), 60) for _ in range(4)]
        assert [(f["event"], f["payload"]["n"]) for f in got] == [
            ("chat", 1),
            ("sessions.changed", 2),
            ("agent", 3),
            ("chat", 4),
        ]
        assert [f.get("seq") for f in got] == [1, None, None, 2]
    async with connect_to_gateway(
        server.port, clock, **options, resume={**where, "epoch": "before the restart"}
    ) as link:
        assert link.hello["resume"]["ok"] is False


async def deaf(server: GatewayServer, clock: FakeClock) -> GatewayLink:
    """A client that logs in and then reads nothing any more."""
    link = await open_link(make_gateway_url(server.port), clock)
    challenge = await link.ws.receive_json()
    params = make_connect_params(
        LoginOptions(token=TOKEN, identity=make_identity()), challenge["payload"]["nonce"], clock.now()
    )
    await link.send({"type": "req", "id": "1", "method": "connect", "params": params})
    assert (await link.ws.receive_json())["ok"]
    return link


async def test_clients_that_do_not_read_are_closed_and_the_others_go_on(
    server: GatewayServer, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    server.clients.buffered = 1024 * 1024
    async with connect_to_gateway(server.port, clock, token=TOKEN) as good:
        slow = [await deaf(server, clock) for _ in range(100)]
        text, n = "x" * 200_000, 0
        # The kernel takes some megabytes for each of them first, so: until they are out, not so many times.
        while len(server.clients.clients()) > 1:
            server.clients.broadcast("chat", {"text": text, "n": n})
            frame = await asyncio.wait_for(good.event("chat"), 60)
            assert (frame["payload"]["n"], frame["seq"]) == (n, n + 1)
            n += 1
            assert n < 500
        assert sum("reads too slowly" in record.message for record in caplog.records) == 100
        assert (await good.call("health"))["ok"]
        await asyncio.gather(*(link.close() for link in slow))


async def test_what_may_be_dropped_is_dropped_for_the_slow_only_and_they_notice(
    server: GatewayServer, clock: FakeClock
) -> None:
    async with connect_to_gateway(server.port, clock, token=TOKEN) as good:
        slow = await deaf(server, clock)
        for n in range(200):
            server.clients.broadcast("chat", {"text": "x" * 100_000, "n": n}, drop_if_slow=True)
            await asyncio.wait_for(good.event("chat"), 60)
        server.clients.broadcast("chat", {"n": "last"})
        seqs: list[int] = []
        while True:
            frame = await asyncio.wait_for(slow.ws.receive_json(), 60)
            seqs.append(frame["seq"])
            if frame["payload"].get("n") == "last":
                break
        assert seqs[-1] == 201 and len(seqs) < 201
        assert len(server.clients.clients()) == 2
        await slow.close()


@pytest.mark.parametrize(
    "gateway_settings", [{"auth_mode": "password", "password": Secret("open sesame")}, {"auth_mode": "none"}]
)
async def test_other_modes_let_their_clients_in(
    server: GatewayServer, clock: FakeClock, gateway_settings: dict[str, Any]
) -> None:
    async with connect_to_gateway(server.port, clock, password="open sesame") as link:
        assert link.hello["auth"]["scopes"] == [ADMIN]
        assert ("deviceToken" in link.hello["auth"]) is (gateway_settings["auth_mode"] == "password")
        assert link.hello["snapshot"]["authMode"] == gateway_settings["auth_mode"]
