"""Servers made with the official SDK, in all three ways of speaking; and the reference server of the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from aiohttp import web
from mcp.server.mcpserver import MCPServer

from palinurus.config.load import load_config
from palinurus.core.types.messages import ImageBlock
from palinurus.core.types.tool import ToolFailure
from palinurus.gateway.tls import load_certificate
from palinurus.testing.loopback import EVERY_REQUEST, LoopbackHttp
from palinurus.tools.commands import descendants
from tools.mcp.kit import SAMPLE, Asked, context, joined, settings, text


async def noted(trace: Path, words: str) -> None:
    async with asyncio.timeout(60):
        while not trace.exists() or words not in trace.read_text():
            await asyncio.sleep(0.01)


async def test_a_program_made_with_the_official_sdk(tmp_path: Path) -> None:
    """One start for all of it: a program of the SDK takes seconds to start."""
    trace = tmp_path / "out" / "trace"
    trace.parent.mkdir()
    body = {**SAMPLE, "env": {"TRACE": str(trace)}, "sandbox": {"write": [str(trace.parent)]}}
    async with joined(tmp_path / "h", sdk=body) as (servers, table):
        server = servers.all["sdk"]
        assert server.connected, (server.problem, server.noise)
        ctx = context()
        assert text(await table["sdk__echo"].run(ctx, text="hi")) == "echo: hi"
        assert text(await table["sdk__add"].run(ctx, a=2, b=3)) == "5"
        (picture,) = (await table["sdk__picture"].run(ctx)).content
        assert isinstance(picture, ImageBlock) and picture.mimeType == "image/png"
        broken = await table["sdk__broken"].run(ctx)
        assert broken.is_error and broken.source == "mcp:sdk"
        assert text(await table["sdk__slow"].run(ctx)) == "done"
        assert isinstance(ctx, Asked) and ctx.shown == ["1 of 3 step 1", "2 of 3 step 2", "3 of 3 step 3"]
        assert text(await table["sdk__resource"].run(ctx)) == "note://one  one"
        assert text(await table["sdk__resource"].run(ctx, uri="note://one")) == "[resource note://one]\nthe note"

        hanging = asyncio.create_task(table["sdk__hang"].run(ctx))  # type: ignore[arg-type]
        await noted(trace, "hang began")
        hanging.cancel()
        assert isinstance((await asyncio.gather(hanging, return_exceptions=True))[0], asyncio.CancelledError)
        await noted(trace, "hang cancelled")

        await table["sdk__grow"].run(ctx)
        async with asyncio.timeout(60):
            while servers.waiting["sdk"] != ("grown",):  # new tools wait for the owner
                await servers.ready()
        assert "sdk__grown" not in table

        with pytest.raises(ToolFailure, match="whether it was done is not known"):
            await table["sdk__crash"].run(ctx)
        assert "sdk__echo" in table
        assert text(await table["sdk__echo"].run(ctx, text="back")) == "echo: back"
    pids = [int(line.split()[1]) for line in trace.read_text().splitlines() if line.startswith("start")]
    assert len(pids) == 2 and not descendants.find_strays(
        (f"TRACE={trace}",)
    )  # the numbers may be those of its own namespace


@asynccontextmanager
async def elsewhere(kind: str, seen: list[dict[str, str]], **tls: Any) -> AsyncIterator[int]:
    """The SDK's server behind HTTP, in this process; `seen` gets the headers of each request."""
    server = MCPServer("far")

    @server.tool()
    def echo(text: str) -> str:
        return f"far: {text}"

    app: Any = server.streamable_http_app() if kind == "http" else server.sse_app()

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append({k.decode(): v.decode() for k, v in scope["headers"]})
        await app(scope, receive, send)

    sock = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(watched, log_level="critical", timeout_graceful_shutdown=1, **tls))
    running.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.create_task(running.serve([sock]))
    try:
        yield sock.getsockname()[1]
    finally:
        running.should_exit = True
        with contextlib.suppress(BaseException):
            await task


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_server_at_an_address(tmp_path: Path, kind: str) -> None:
    seen: list[dict[str, str]] = []
    async with elsewhere(kind, seen) as port:
        path = "mcp" if kind == "http" else "sse"
        body = {"url": f"http://127.0.0.1:{port}/{path}", "headers": {"X-Key": "k"}, "transport": kind}
        async with joined(tmp_path / "h", far=body) as (servers, table):
            assert servers.all["far"].connected, servers.all["far"].problem
            assert text(await table["far__echo"].run(context(), text="hi")) == "far: hi"
    assert seen and all(one["x-key"] == "k" and one["host"] == f"127.0.0.1:{port}" for one in seen)


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
async def test_certificates_are_checked_and_shown_as_the_config_says(tmp_path: Path) -> None:
    home = settings(tmp_path / "g", {}).home
    load_certificate(load_config(home, {}).settings)
    cert, key = (f"{home}/gateway/tls/gateway-{name}.pem" for name in ("cert", "key"))
    asks = {"ssl_certfile": cert, "ssl_keyfile": key, "ssl_ca_certs": cert, "ssl_cert_reqs": ssl.CERT_REQUIRED}
    tried = (({}, False), ({"sslVerify": False}, False), ({"sslVerify": False, "clientCert": cert}, False))
    whole = {"sslVerify": False, "clientCert": cert, "clientKey": key}
    async with elsewhere("http", [], **asks) as port:
        for number, (more, works) in enumerate((*tried, (whole, True), ({**whole, "sslVerify": True}, False))):
            body = {"url": f"https://127.0.0.1:{port}/mcp", "transport": "http", **more}
            async with joined(tmp_path / f"h{number}", far=body) as (servers, table):
                assert servers.all["far"].connected is works, (more, servers.all["far"].problem)
                if works:
                    assert text(await table["far__echo"].run(context(), text="hi")) == "far: hi"


async def test_the_way_of_speaking_is_found_out(tmp_path: Path) -> None:
    async with elsewhere("sse", []) as port:
        async with joined(tmp_path / "h", far={"url": f"http://127.0.0.1:{port}/sse"}) as (servers, table):
            assert servers.all["far"].connected, servers.all["far"].problem
            assert text(await table["far__echo"].run(context(), text="hi")) == "far: hi"


@pytest.mark.torture
async def test_the_reference_server_of_the_protocol(tmp_path: Path) -> None:
    """`everything` from npm: tools, images, errors, progress, cancellation, crash and return."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are not installed")
    line = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "@modelcontextprotocol/server-everything"]
    done = await asyncio.to_thread(subprocess.run, line, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"npm cannot install it: {done.stderr[-200:]}")
    script = tmp_path / "node_modules" / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
    body = {"command": "node", "args": [str(script), "stdio"], "sandbox": {"read": [str(tmp_path / "node_modules")]}}
    async with joined(tmp_path / "h", every=body) as (servers, table):
        server = servers.all["every"]
        assert server.connected, (server.problem, server.noise)
        ctx = context()
        assert text(await table["every__echo"].run(ctx, message="hi")) == "Echo: hi"
        assert "3" in text(await table["every__get-sum"].run(ctx, a=1, b=2))
        assert any(isinstance(one, ImageBlock) for one in (await table["every__get-tiny-image"].run(ctx)).content)
        assert (await table["every__get-sum"].run(ctx, a="x")).is_error
        await table["every__trigger-long-running-operation"].run(ctx, duration=1, steps=4)
        assert isinstance(ctx, Asked) and len(ctx.shown) == 4
        long = asyncio.create_task(table["every__trigger-long-running-operation"].run(ctx, duration=60, steps=2))  # type: ignore[arg-type]
        await asyncio.sleep(0.3)
        long.cancel()
        await asyncio.gather(long, return_exceptions=True)
        environment = json.loads(text(await table["every__get-env"].run(ctx)))
        mark = f"PALINURUS_MCP={environment['PALINURUS_MCP']}"
        descendants.signal_each(descendants.find_strays((mark,)), signal.SIGKILL)
        async with asyncio.timeout(60):
            while server.connected:
                await asyncio.sleep(0.01)
        assert text(await table["every__echo"].run(ctx, message="back")) == "Echo: back"
    assert not descendants.find_strays((mark,))


@pytest.mark.parametrize(
    ("kind", "words"),
    [("text/html", "Unexpected content type: text/html"), ("application/json", "Failed to parse JSON")],
)
async def test_what_is_no_mcp_server_is_told_in_one_sentence_and_nothing_is_logged_beside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, words: str
) -> None:
    """The SDK logs with a traceback, and with a piece of what came."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="<p>canary", content_type=kind)

    page = LoopbackHttp({EVERY_REQUEST: answer})
    await page.start()
    async with joined(tmp_path / "h", page={"url": f"{page.url}/mcp"}) as (servers, _):
        assert servers.all["page"].problem.startswith(f"what it answers is not MCP ({words}")
    await page.stop()
    assert "canary" not in caplog.text and not [one for one in caplog.records if one.name.startswith("mcp")]
