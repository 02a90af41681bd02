"""The client against a gateway over real sockets, a fake program behind it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from gateway.host import TOKEN, FakeHost, settings, words
from palinurus.cli.args import resolve_session_key
from palinurus.cli.reach import http
from palinurus.cli.reach.client import (
    CliMessage,
    CliOutcome,
    HttpAgentClient,
)
from palinurus.clock import SystemClock
from palinurus.core.types.events import RunEvent
from palinurus.core.types.inbound import TurnOptions
from palinurus.core.types.model import ModelFailure
from palinurus.errors import BadRequest, DiskFull, GatewayUnreachable, NotFound, PalinurusError, QueueFull, Unauthorized
from palinurus.gateway import token
from palinurus.gateway.client import LoginOptions, connect_gateway
from palinurus.gateway.server import GatewayServer

HI = CliMessage("hi", "agent:main:main", "main")


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
async def server(host: FakeHost) -> AsyncIterator[GatewayServer]:
    gateway = GatewayServer(host, SystemClock(), TOKEN)
    await gateway.start("127.0.0.1", 0)
    yield gateway
    await gateway.stop()


def remote(server: GatewayServer, secret: str = TOKEN) -> HttpAgentClient:
    return HttpAgentClient(lambda: endpoint(server, secret), SystemClock())


def endpoint(server: GatewayServer, secret: str = TOKEN) -> http.GatewayEndpoint:
    return http.GatewayEndpoint("127.0.0.1", server.port, secret, proof=server.proof_key)


async def told(client: HttpAgentClient, message: CliMessage = HI) -> tuple[list[RunEvent], CliOutcome]:
    pieces = [piece async for piece in client.send(message)]
    assert isinstance(pieces[-1], CliOutcome)
    return [p for p in pieces if not isinstance(p, CliOutcome)], pieces[-1]


async def test_events_and_outcome(server: GatewayServer, host: FakeHost) -> None:
    events, outcome = await told(remote(server), CliMessage("hi", "agent:work:x", "work", "acme/one"))
    assert events == words("Hel", "lo")
    assert (outcome.outcome, outcome.text, outcome.error, outcome.usage.output) == ("answered", "Hello", "", 7)
    assert (host.seen[0].session, host.seen[0].options) == ("agent:work:x", TurnOptions(model="acme/one"))


async def test_pictures_go_along_and_files_are_refused_where_nothing_keeps_them(
    server: GatewayServer, host: FakeHost
) -> None:
    picture = {"fileName": "dot.png", "mimeType": "image/png", "content": "aGk="}
    await told(remote(server), CliMessage("look", "agent:main:main", "main", files=(picture,)))
    assert [image.data for image in host.seen[0].images] == ["aGk="]
    other = {"fileName": "a.txt", "mimeType": "text/plain", "content": "aGk="}
    with pytest.raises(BadRequest, match="only pictures"):
        await told(remote(server), CliMessage("look", "agent:main:main", "main", files=(other,)))
    assert len(host.seen) == 1


async def test_our_own_terminal_needs_no_openai_endpoint(host: FakeHost, tmp_path: Path) -> None:
    host.settings = settings(str(tmp_path), chat_completions=False)
    gateway = GatewayServer(host, SystemClock(), TOKEN)
    await gateway.start("127.0.0.1", 0)
    assert (await told(remote(gateway)))[1].text == "Hello"
    address = http.GatewayEndpoint("127.0.0.1", gateway.port, TOKEN, proof=gateway.proof_key)
    assert (await http.send_request(address, "POST", "/v1/chat/completions", b"{}")).status == 404
    await gateway.stop()


async def test_a_failed_turn_has_its_reason(server: GatewayServer, host: FakeHost) -> None:
    host.outcome = "failed"
    host.script = lambda i: words("par", end="error", failure=ModelFailure("overloaded", "busy"))
    _, outcome = await told(remote(server))
    assert (outcome.outcome, outcome.error) == ("failed", "busy")


async def test_refusals_are_errors(server: GatewayServer, host: FakeHost) -> None:
    with pytest.raises(Unauthorized):
        await told(remote(server, "wrong"))
    with pytest.raises(NotFound, match="did you mean"):
        await told(remote(server), CliMessage("hi", "agent:main:main", "main", "other/x"))


@pytest.mark.parametrize(
    "refusal", [DiskFull("no room", fix="make some"), QueueFull("too many"), PalinurusError("odd")]
)
async def test_a_refusal_keeps_its_kind_and_its_way_out(
    server: GatewayServer, host: FakeHost, refusal: PalinurusError
) -> None:
    """A full disk ended `pal agent` with 64: the line would have been wrong."""
    host.refuse = refusal
    with pytest.raises(type(refusal)) as caught:
        await told(remote(server))
    found = caught.value
    assert (found.message, found.fix, found.exit_code) == (refusal.message, refusal.fix, refusal.exit_code)


async def test_abort(server: GatewayServer, host: FakeHost) -> None:
    await remote(server).abort("agent:main:a b")
    assert host.aborted == [("agent:main:a b", "user")]


async def test_a_gateway_that_restarts_is_asked_again_and_the_message_is_sent_once(
    server: GatewayServer, host: FakeHost
) -> None:
    host.hold = asyncio.Event()
    host.note = "Hello"
    running = [server]
    asking = asyncio.ensure_future(told(HttpAgentClient(lambda: endpoint(running[-1]), SystemClock())))
    while not host.seen:
        await asyncio.sleep(0)
    await server.stop()
    second = GatewayServer(host, SystemClock(), TOKEN)
    await second.start("127.0.0.1", server.port)
    running.append(second)
    host.hold.set()
    _, outcome = await asyncio.wait_for(asking, 60)
    assert (outcome.text, len(host.seen)) == ("Hello", 1)
    await second.stop()


async def test_nobody_there() -> None:
    address = http.GatewayEndpoint("127.0.0.1", 1)
    assert not await http.is_gateway_alive(address)
    with pytest.raises(GatewayUnreachable, match="no gateway"):
        await http.send_request(address, "GET", "/")


async def test_something_else_on_the_port_is_no_gateway_and_sees_no_token() -> None:
    seen = b""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nhello")
        writer.close()

    other = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    for proof in ("", "a" * 64):
        address = http.GatewayEndpoint("127.0.0.1", port, TOKEN, proof=proof)
        assert not await http.is_gateway_alive(address)
        with pytest.raises(GatewayUnreachable, match="no gateway"):
            await http.send_request(address, "POST", "/reach/turn", b"{}")
    assert seen and TOKEN.encode() not in seen
    other.close()


@pytest.mark.parametrize("proof", ["", "0" * 64], ids=["no key is known", "another gateway's key"])
async def test_the_websocket_is_not_logged_in_at_a_gateway_that_proves_nothing(
    server: GatewayServer, proof: str
) -> None:
    url = f"ws://127.0.0.1:{server.port}"
    with pytest.raises(GatewayUnreachable, match="cannot prove"):
        await connect_gateway(url, SystemClock(), LoginOptions(token=TOKEN, proof=proof or "-"))
    link = await connect_gateway(url, SystemClock(), LoginOptions(token=TOKEN, proof=server.proof_key))
    await link.close()


async def test_who_listens_elsewhere_cannot_pass_the_gateways_proof_on(server: GatewayServer) -> None:
    """A relay on another port of the same loopback: the proof names the address at which it was asked for."""
    seen = b""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        inner, outer = await asyncio.open_connection("127.0.0.1", server.port)
        while head := await reader.read(65536):
            seen += head
            outer.write(head)
            writer.write(await inner.read(65536))
        writer.close()

    other = await asyncio.start_server(relay, "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    with pytest.raises(GatewayUnreachable, match="cannot prove"):
        await http.send_request(
            http.GatewayEndpoint("127.0.0.1", port, TOKEN, proof=server.proof_key), "POST", "/reach/turn", b"{}"
        )
    assert b"healthz" in seen and TOKEN.encode() not in seen
    other.close()


async def test_both_loopbacks_are_taken(server: GatewayServer) -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with pytest.raises(OSError, match="in use"), socket.create_server(("::1", server.port), family=socket.AF_INET6):
        pass
    async with aiohttp.ClientSession() as session, session.get(f"http://[::1]:{server.port}/healthz") as answer:
        assert answer.status == 200


async def test_who_sits_on_the_other_loopback_keeps_the_gateway_from_starting(server: GatewayServer) -> None:
    """A browser may take `localhost` for either: a page there would be of our origin, with its keys and drafts."""
    try:
        squatter = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    port = squatter.getsockname()[1]
    other = GatewayServer(server.host, server.clock, TOKEN)
    with squatter, pytest.raises(GatewayUnreachable, match="::1 is taken"):
        await other.start("127.0.0.1", port)
    with socket.create_server(("127.0.0.1", port)):  # nothing was left listening
        pass
    await other.stop()


def test_where_a_gateway_is(tmp_path: Path) -> None:
    config = settings(str(tmp_path), port=1234, bind="0.0.0.0")
    assert http.find_gateway_address(config) == http.GatewayEndpoint("127.0.0.1", 1234, TOKEN)
    token.announce_location(str(tmp_path), token.GatewayLocation("127.0.0.1", 99, 1))
    assert http.find_gateway_address(config).port == 99


@pytest.mark.parametrize(
    ("typed", "agent", "expected"),
    [
        ("", "", "agent:main:main"),
        ("", "work", "agent:work:main"),
        ("notes", "", "agent:main:notes"),
        ("agent:work:x", "", "agent:work:x"),
    ],
)
def test_session_keys(typed: str, agent: str, expected: str) -> None:
    assert str(resolve_session_key(settings(), typed, agent)) == expected


@pytest.mark.parametrize(("typed", "agent"), [("a/b", ""), ("agent:nobody:x", ""), ("", "nobody"), ("agent:", "")])
def test_session_keys_that_are_refused(typed: str, agent: str) -> None:
    with pytest.raises(BadRequest):
        resolve_session_key(settings(), typed, agent)
