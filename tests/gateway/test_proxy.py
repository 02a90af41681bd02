"""The recipes of docs/remote.md with the real servers: page, WebSocket, streams come through; no header gives a right.

Without nginx or caddy (`apt-get install nginx-light caddy`) these are skipped and say so.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.host import TOKEN
from gateway.whole import Place, place
from palinurus.gateway.client import GatewayLink
from palinurus.testing.client import connect_to_gateway
from palinurus.testing.model import ScriptedModel, say

RECIPES = (Path(__file__).parents[2] / "docs" / "remote.md").read_text(encoding="utf-8")
NGINX = """
daemon off; pid {home}/nginx.pid; error_log {home}/error.log;
events {{}}
http {{ access_log off; client_body_temp_path {home}/b; proxy_temp_path {home}/p; fastcgi_temp_path {home}/f;
  uwsgi_temp_path {home}/u; scgi_temp_path {home}/s;
  server {{ listen 127.0.0.1:{port}; {recipe} }} }}
"""
CADDY = """
{{
  admin off
  auto_https off
}}
http://127.0.0.1:{port} {{
{recipe}
}}
"""
CLAIMS = {"Tailscale-User-Login": "owner@example.com", "X-Forwarded-User": "owner", "X-Forwarded-For": "127.0.0.1"}


def recipe(name: str, gateway: int, where: str = "/") -> str:
    """As the page of the docs has it, for this gateway; `where`: below this path only."""
    found = re.search(rf"```{name}\n(.*?)```", RECIPES, re.S)
    assert found is not None
    return found[1].replace("18789", str(gateway)).replace("location /", f"location {where}")


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


@asynccontextmanager
async def proxied(name: str, gateway: int, home: Path, port: int, where: str = "/") -> AsyncIterator[None]:
    """The real server in front of it."""
    program = shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        pytest.skip(f"{name} is not installed")
    home.mkdir()
    file = home / f"{name}.conf"
    text = (NGINX if name == "nginx" else CADDY).format(home=home, port=port, recipe=recipe(name, gateway, where))
    file.write_text(text)
    ways = {
        "nginx": ["-c", str(file), "-p", str(home)],
        "caddy": ["run", "--adapter", "caddyfile", "--config", str(file)],
    }
    environ = {"HOME": str(home), "PATH": "/usr/sbin:/usr/bin:/bin"}
    child = await asyncio.create_subprocess_exec(
        program, *ways[name], env=environ, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                assert child.returncode is None, f"{name} ended: {text}"
                await asyncio.sleep(0.05)
                continue
            writer.close()
            break
        yield
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()


def opened(port: int, **more: Any) -> dict[str, Any]:
    return {"gateway": {"controlUi": {"allowedOrigins": [f"http://127.0.0.1:{port}"], **more}}}


async def come_through(here: Place, port: int) -> None:
    """What every client needs, through the proxy."""
    link: GatewayLink
    async with connect_to_gateway(port, here.app.clock, token=TOKEN) as link:
        assert (await link.call("health", {}))["ok"]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:
        nobody = await http.get("/v1/models", headers=CLAIMS)
        assert nobody.status == 401  # whatever the headers say
        asked = {"model": "openclaw", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        said = await http.post("/v1/chat/completions", json=asked, headers={"Authorization": f"Bearer {TOKEN}"})
        text = await said.text()
        assert said.status == 200 and "Hello" in text and text.rstrip().endswith("data: [DONE]")


@pytest.mark.parametrize("name", ["nginx", "caddy"])
async def test_a_proxy_lets_clients_through_and_no_header_is_a_right(name: str, tmp_path: Path) -> None:
    port = free_port()
    model = ScriptedModel([say("Hello there.")], repeat=True)
    async with place(tmp_path / "h", model, **opened(port)) as here:
        async with proxied(name, here.server.port, tmp_path / "proxy", port):
            await come_through(here, port)


@pytest.mark.parametrize("name", ["nginx", "caddy"])
async def test_the_page_stands_under_its_path(name: str, tmp_path: Path) -> None:
    port = free_port()
    async with place(tmp_path / "h", **opened(port, basePath="/pal")) as here:
        async with proxied(name, here.server.port, tmp_path / "proxy", port):
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:
                page = await http.get("/pal/")
                text = await page.text()
                assert page.status == 200
                for file in re.findall(r'(?:src|href)="(/pal/[^"]+)"', text):
                    assert (await http.get(file)).status == 200, file
                assert (await http.get("/pal/push/news", headers=CLAIMS)).status == 401
