"""The one network door, against a canary that must never be reached and servers that mean no good."""

from __future__ import annotations

import ast
import asyncio
import gzip
import ssl
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import palinurus
from palinurus.core.policy.address import OpenHosts
from palinurus.tools.web.egress import EgressGuard, FetchFailure, FetchLimits, FetchRequest
from tools.web.kit import Canary, Names, Site, moved

HOSTS = [
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "0", "0.0.0.0",
    "127.0.0.1.", "①②⑦.⓪.⓪.①", "１２７.0.0.1", "127。0。0。1", "localhost", "LOCALHOST", "localhost.", "ip6-localhost",
    "foo.localhost", "127.127.127.127", "0x0", "00", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[0000::1]",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:0:0]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]",
    "[2001:0:808:808::80ff:fffe]", "[fe80::1]", "[::1%25lo]", "[fec0::1]", "user@127.0.0.1", "example.com@127.0.0.1",
    "%31%32%37.0.0.1", "127.0.0.1%2f", "localhost%00.example.com", "0x7f.0x0.0x0.0x1", "0177.0.0.01", "[::0001]",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
async def test_no_form_of_loopback_reaches_the_canary(host: str, canary: Canary) -> None:
    for scheme in ("http", "https"):
        with pytest.raises(FetchFailure):
            await EgressGuard().get(FetchRequest(f"{scheme}://{host}:{canary.port}/"), FetchLimits(time=5))


def test_there_are_more_than_forty_forms() -> None:
    assert len(set(HOSTS)) >= 40


async def test_the_canary_can_be_reached_at_all(canary: Canary) -> None:
    """Else the tests above would prove nothing."""
    with pytest.raises(FetchFailure):
        await EgressGuard(OpenHosts(frozenset({f"127.0.0.1:{canary.port}"}))).get(
            FetchRequest(f"http://127.1:{canary.port}/")
        )
    assert canary.hits
    canary.hits = 0


async def test_a_refusal_names_reason_and_config_line() -> None:
    with pytest.raises(FetchFailure) as shut:
        await EgressGuard().get(FetchRequest("http://127.0.0.1:8123/x"))
    assert "127.0.0.1 is a loopback address" in str(shut.value)
    assert 'tools.web.fetch.allowedHosts: ["127.0.0.1:8123"]' in str(shut.value)


async def test_an_opened_host_is_fetched_and_its_neighbour_port_is_not(
    site: Site, canary: Canary, door: EgressGuard
) -> None:
    site.routes["/a"] = "<p>hello</p>"
    came = await door.get(FetchRequest(site.url("/a?b=c#d")))
    assert (came.status, came.type, came.data, came.cut, came.hops) == (200, "text/html", b"<p>hello</p>", False, ())
    assert site.seen[0].path_qs == "/a?b=c" and site.seen[0].headers["Host"] == site.entry
    with pytest.raises(FetchFailure):
        await door.get(FetchRequest(f"http://127.0.0.1:{canary.port}/"))


# --- names ---------------------------------------------------------------------------------------------------------


async def test_names_that_lead_inside_are_refused_with_all_their_addresses(canary: Canary) -> None:
    for answers in (["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["::1"], ["10.0.0.1"], ["fe80::1%eth0"], ["rubbish"], []):
        names = Names(evil_example=[answers])
        with pytest.raises(FetchFailure):
            await EgressGuard(resolve=names).get(
                FetchRequest(f"http://evil.example:{canary.port}/"), FetchLimits(time=5)
            )
        assert names.asked == ["evil.example"]


async def test_rebinding_a_name_is_resolved_once_and_the_judged_address_is_used(site: Site, canary: Canary) -> None:
    """First answer: allowed (the site under an opened name). Every later one: somewhere else. It is never asked."""
    names = Names(opened_example=[["127.0.0.1"], ["127.0.0.2"]])
    door = EgressGuard(OpenHosts(frozenset({f"opened.example:{site.port}"})), names)
    site.routes["/"] = lambda request: request.headers["Host"]
    came = await door.get(FetchRequest(f"http://opened.example:{site.port}/"))
    assert came.data == f"opened.example:{site.port}".encode()
    assert names.asked == ["opened.example"]


async def test_rebinding_between_redirects_is_judged_again(site: Site, canary: Canary) -> None:
    """The name was fine at the first hop and leads to loopback at the second: the second look sees it."""
    names = Names(evil_example=[["127.0.0.1"]], opened_example=[["127.0.0.1"]])
    door = EgressGuard(OpenHosts(frozenset({f"opened.example:{site.port}"})), names)
    site.routes["/"] = lambda _: moved(f"http://evil.example:{canary.port}/")
    with pytest.raises(FetchFailure, match=r"evil\.example leads to 127.0.0.1.*redirected there by opened.example"):
        await door.get(FetchRequest(f"http://opened.example:{site.port}/"))


async def test_the_system_resolver_is_not_asked_behind_our_back(site: Site) -> None:
    """Every connection of the whole fetch goes to a judged address: seen from inside the interpreter."""
    touched: list[Any] = []
    on = [True]

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if on[0] and event in ("socket.connect", "socket.getaddrinfo"):
            touched.append((event, args[1] if event == "socket.connect" else args[0]))

    sys.addaudithook(hook)
    names = Names(opened_example=[["127.0.0.1"]])
    door = EgressGuard(OpenHosts(frozenset({f"opened.example:{site.port}"})), names)
    try:
        await door.get(FetchRequest(f"http://opened.example:{site.port}/"))
    finally:
        on[0] = False
    connects = [where for event, where in touched if event == "socket.connect"]
    assert connects == [("127.0.0.1", site.port)]
    assert not [host for event, host in touched if event == "socket.getaddrinfo" and "example" in str(host)]


async def test_unknown_names_are_said() -> None:
    with pytest.raises(FetchFailure, match=r"nowhere\.example cannot be found"):
        await EgressGuard(resolve=Names()).get(FetchRequest("http://nowhere.example/"))


# --- redirects -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:{port}/", "//127.1:{port}/", "http://localhost:{port}/", "http://[::1]:{port}/",
        "http://2130706433:{port}/", "file:///etc/passwd", "gopher://127.0.0.1:{port}/_x", "ftp://127.0.0.1:{port}/",
        "data:text/html,hi", "javascript:x", "http://user:pass@127.0.0.1:{port}/", "HTTP://[::ffff:127.0.0.1]:{port}/",
        "http://169.254.169.254/latest/", "http:\\\\127.0.0.1:{port}\\", "http://①②⑦.⓪.⓪.①:{port}/",
    ],
)  # fmt: skip
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_judged_like_addresses(
    target: str, status: int, site: Site, canary: Canary, door: EgressGuard
) -> None:
    where = target.format(port=canary.port)
    site.routes["/"] = lambda _: moved(where, status)
    with pytest.raises(FetchFailure):
        await door.get(FetchRequest(site.url("/")), FetchLimits(time=5))


async def test_redirects_within_are_followed_and_counted(site: Site, door: EgressGuard) -> None:
    for n in range(5):
        site.routes[f"/{n}"] = lambda _, n=n: moved(f"/{n + 1}")
    site.routes["/5"] = "there"
    came = await door.get(FetchRequest(site.url("/2")), FetchLimits(redirects=3))
    assert came.data == b"there" and came.url == site.url("/5") and len(came.hops) == 3
    with pytest.raises(FetchFailure, match="redirects again"):
        await door.get(FetchRequest(site.url("/1")), FetchLimits(redirects=3))
    site.routes["/loop"] = lambda _: moved("/loop")
    with pytest.raises(FetchFailure, match="redirects again"):
        await door.get(FetchRequest(site.url("/loop")))


async def test_headers_and_body_do_not_follow_a_redirect(site: Site, door: EgressGuard) -> None:
    site.routes["/a"] = lambda _: moved("/b", 307)
    await door.get(FetchRequest(site.url("/a"), {"Authorization": "Bearer secret", "Cookie": "a=b"}))
    first, second = site.seen
    assert first.headers["Authorization"] == "Bearer secret"
    assert "Authorization" not in second.headers and "Cookie" not in second.headers
    with pytest.raises(FetchFailure, match="body is not sent on"):
        await door.get(FetchRequest(site.url("/a"), body=b"data"))
    assert [request.path for request in site.seen] == ["/a", "/b", "/a"]


async def test_cookies_are_not_kept(site: Site, door: EgressGuard) -> None:
    site.routes["/"] = lambda _: web.Response(text="x", headers={"Set-Cookie": "id=1; Path=/"})
    await door.get(FetchRequest(site.url("/")))
    await door.get(FetchRequest(site.url("/")))
    assert "Cookie" not in site.seen[1].headers


async def test_a_proxy_of_the_environment_is_not_used(
    site: Site, canary: Canary, door: EgressGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{canary.port}")
    assert (await door.get(FetchRequest(site.url("/")))).status == 200


# --- limits --------------------------------------------------------------------------------------------------------


async def test_long_answers_are_cut_at_the_limit(site: Site, door: EgressGuard) -> None:
    site.routes["/"] = lambda _: web.Response(body=b"x" * 100_000)
    came = await door.get(FetchRequest(site.url("/")), FetchLimits(size=1000))
    assert len(came.data) == 1000 and came.cut
    assert not (await door.get(FetchRequest(site.url("/")), FetchLimits(size=100_000))).cut


def packed(data: bytes, coding: str) -> bytes:
    if coding == "gzip":
        return gzip.compress(data)
    made = zlib.compressobj(wbits=15 if coding == "deflate" else -15)
    return made.compress(data) + made.flush()


@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw deflate"])
async def test_packed_answers_are_unpacked_within_the_limit(coding: str, site: Site, door: EgressGuard) -> None:
    name = coding.removeprefix("raw ")
    for data in (b"hello " * 100, b"\x00" * 40_000_000 if coding == "gzip" else b"\x00" * 20_000_000):
        body = packed(data, coding)
        site.routes["/"] = lambda _, b=body: web.Response(body=b, headers={"Content-Encoding": name})
        came = await door.get(FetchRequest(site.url("/")), FetchLimits(size=50_000))
        assert came.data == data[:50_000] and came.cut == (len(data) > 50_000)


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "compress", "x" * 500])
async def test_packings_that_nobody_asked_for_are_refused(coding: str, site: Site, door: EgressGuard) -> None:
    site.routes["/"] = lambda _: web.Response(body=b"x", headers={"Content-Encoding": coding})
    with pytest.raises(FetchFailure, match="not asked for"):
        await door.get(FetchRequest(site.url("/")))
    site.routes["/"] = lambda _: web.Response(body=b"no gzip", headers={"Content-Encoding": "gzip"})
    with pytest.raises(FetchFailure, match="cannot be unpacked"):
        await door.get(FetchRequest(site.url("/")))


async def test_slow_bodies_and_silence_end_with_the_time(site: Site, door: EgressGuard) -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x")
                await asyncio.sleep(0.02)
        except (ConnectionError, asyncio.CancelledError):
            return response

    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    site.routes |= {"/drip": drip, "/silent": silent}
    for path in ("/drip", "/silent"):
        with pytest.raises(FetchFailure, match=r"within 0\.2 seconds"):
            await door.get(FetchRequest(site.url(path)), FetchLimits(time=0.2))


async def test_a_resolver_that_never_answers_ends_with_the_time() -> None:
    async def never(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(FetchFailure, match="within"):
        await EgressGuard(resolve=never).get(FetchRequest("http://a.example/"), FetchLimits(time=0.05))


RAW = [
    b"", b"\x00\x01\x02", b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1 200\r\nContent-Length: -5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\n" + b"A: " + b"x" * 100_000 + b"\r\n\r\n", b"HTTP/9.9 999 X\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: \r\n\r\n", b"HTTP/1.1 302 Found\r\nLocation: http://\xff\xfe/\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n", b"ICY 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"".join(b"H%d: x\r\n" % n for n in range(40_000)),
]  # fmt: skip


@pytest.mark.parametrize("raw", RAW, ids=range(len(RAW)))
async def test_servers_that_speak_nonsense(raw: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        try:
            await writer.drain()
        except ConnectionError:
            pass
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        came = await EgressGuard(OpenHosts(frozenset({f"127.0.0.1:{port}"}))).get(
            FetchRequest(f"http://127.0.0.1:{port}/"), FetchLimits(time=5)
        )
        assert came.status in (200, 302, 999)
    except FetchFailure as shut:
        assert len(str(shut)) < 300 and "\xff" not in str(shut)
    finally:
        server.close()


async def test_a_certificate_for_another_name_is_refused(tmp_path: Any) -> None:
    """Self-signed: nobody vouches for it. No handler is ever called."""
    pem = _certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    hits: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hits.append(1)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    door = EgressGuard(OpenHosts(frozenset({f"secure.example:{port}"})), Names(secure_example=[["127.0.0.1"]]))
    try:
        with pytest.raises(FetchFailure, match="certificate"):
            await door.get(FetchRequest(f"https://secure.example:{port}/"), FetchLimits(time=5))
    finally:
        server.close()
    assert hits == []


def _certificate(folder: Any) -> str:
    crypto = pytest.importorskip("cryptography")
    assert crypto
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "secure.example")])
    now = datetime.datetime(2020, 1, 1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=36500))
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    path = folder / "cert.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return str(path)


async def test_a_cancelled_fetch_leaves_no_connection(site: Site, door: EgressGuard) -> None:
    arrived = asyncio.Event()

    async def hold(request: web.Request) -> web.StreamResponse:
        arrived.set()
        await asyncio.sleep(30)
        return web.Response()

    site.routes["/"] = hold
    task = asyncio.ensure_future(door.get(FetchRequest(site.url("/"))))
    await arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert not [t for t in asyncio.all_tasks() if "_walk" in repr(t)]


SRC = Path(palinurus.__file__).parent
CLIENTS = {"aiohttp", "socket", "http.client", "urllib.request", "requests", "httpx", "urllib3", "websockets", "ftplib"}
WAYS = ("open_connection", "create_connection", "sock_connect")
# Where content is handled: nothing there may open connections of its own. (Git is a program, started by `install`;
# the sandbox makes Unix sockets for its children.)
# The browser's proxy connects to what the guard has judged, its process gets the proxy's socket over a pair, and `link`
# goes to the browser that the config names, after a yes of the owner.
BROWSER = {f"tools/browser/{name}.py" for name in ("inside", "process", "proxy", "link")}
HANDLERS = ("tools", "workspace", "agent", "inbox", "outbox", "core", "sessions")


def test_there_is_no_second_door() -> None:
    found = []
    for folder in HANDLERS:
        for path in sorted((SRC / folder).rglob("*.py")):
            name = path.relative_to(SRC).as_posix()
            if name == "tools/web/egress.py" or name.startswith("tools/sandbox/") or name in BROWSER:
                continue
            text = path.read_text(encoding="utf-8")
            if not any(word in text for word in (*WAYS, *(one.split(".")[0] for one in CLIENTS))):
                continue  # parsing all takes seconds
            for node in ast.walk(ast.parse(text)):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                if name == "tools/commands/look.py":  # its sockets are a pair on this machine; it connects to nobody
                    names = [one for one in names if one != "socket"]
                found += [f"{name} imports {one}" for one in names if one in CLIENTS or one.split(".")[0] in CLIENTS]
                if isinstance(node, ast.Attribute) and node.attr in WAYS:
                    found.append(f"{name}:{node.lineno} {node.attr}")
    assert found == []
