"""The files of examples/fleet at work: nginx before three real gateways, of which one is killed and one replaced; the
unit as systemd reads it."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest

import nursery as nurseries
from gateway.whole import until_over
from palinurus.clock import SystemClock
from palinurus.gateway.client import GatewayLink
from palinurus.testing.client import connect_to_gateway
from palinurus.testing.home import TOKEN, check_snapshot, make_provider_entry
from palinurus.testing.server import ModelServer
from ports import reserve_port
from store.postgres.server import empty_tables, read_fleet
from torture.fleet.world import Fleet, Node

EXAMPLES = Path(__file__).parents[2] / "examples" / "fleet"
LEASE = 10.0
MAIN = """daemon off; pid {here}/pid; error_log {here}/error.log; events {{}}
http {{
  access_log off; client_body_temp_path {here}/a; proxy_temp_path {here}/b; fastcgi_temp_path {here}/c;
  uwsgi_temp_path {here}/d; scgi_temp_path {here}/e;
  include {here}/balancer.conf;
}}
"""


async def start_nginx(stack: AsyncExitStack, here: Path, ports: list[int]) -> int:
    """With the example's config, in which only names and ports are others. Returns where it listens."""
    here.mkdir()
    port, text = reserve_port(), (EXAMPLES / "balancer.conf").read_text()
    for name, there in zip("abc", ports, strict=True):
        text = text.replace(f"gateway-{name}:18789", f"127.0.0.1:{there}")
    (here / "balancer.conf").write_text(text.replace("listen 18789", f"listen 127.0.0.1:{port}"))
    (here / "nginx.conf").write_text(MAIN.format(here=here))
    nginx = subprocess.Popen(["nginx", "-c", str(here / "nginx.conf"), "-e", str(here / "error.log")])
    stack.callback(nginx.wait)
    stack.callback(nginx.terminate)
    async with asyncio.timeout(60):
        while not await _listens(port):
            assert nginx.poll() is None, (here / "error.log").read_text()
            await asyncio.sleep(0.05)
    return port


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def count_clients(node: Node) -> int:
    return len(re.findall(r"ws \w+ joined", Path(node.log).read_text()))


async def ask(link: GatewayLink, name: str, text: str) -> None:
    told = await link.call("chat.send", {"sessionKey": f"s-{name}", "message": text, "idempotencyKey": name})
    assert told["status"] == "started"


async def complete(http: aiohttp.ClientSession, port: int, number: int) -> str:
    body = {"model": "openclaw", "messages": [{"role": "user", "content": f"SAY by http {number}"}]}
    address = f"http://127.0.0.1:{port}/v1/chat/completions"
    async with http.post(address, json=body, headers={"Authorization": f"Bearer {TOKEN}"}) as response:
        assert response.status == 200, await response.text()
        return str((await response.json())["choices"][0]["message"]["content"])


@pytest.mark.torture
@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
async def test_three_gateways_behind_nginx_of_which_one_dies_and_one_is_replaced(server: str, tmp_path: Path) -> None:
    await empty_tables(server)
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(ModelServer(remember=False))
        fleet = Fleet(tmp_path, server, nurseries.nursery(), lease=LEASE)
        stack.callback(fleet.kill)
        agents = {"workspace": str(tmp_path / "work"), "model": {"primary": "fake/model"}, "maxConcurrent": 8}
        served = {"http": {"endpoints": {"chatCompletions": {"enabled": True}}}}
        config = {"models": {"providers": {"fake": make_provider_entry(model.url)}}, "agents": {"defaults": agents}}
        await fleet.begin({**config, "gateway": served})
        port = await start_nginx(stack, tmp_path / "nginx", [node.port for node in fleet.nodes])
        http = await stack.enter_async_context(aiohttp.ClientSession())
        links = [await stack.enter_async_context(connect_to_gateway(port, clock, token=TOKEN)) for _ in range(6)]
        assert [count_clients(node) for node in fleet.nodes] == [2, 2, 2]  # nobody has to stay with one: least_conn
        for number, link in enumerate(links):
            await ask(link, f"k{number}", f"SAY answer {number}")
        for number, link in enumerate(links):
            assert f"answer {number}" in str((await until_over(link, f"k{number}"))[-1])
        assert [await complete(http, port, n) for n in range(6)] == [f"by http {n}" for n in range(6)]

        # killed with a run: its client comes back through the balancer, and hears how the run ended
        await ask(links[0], "long", "SLOW 100\nWORDS 60")
        ((busy,),) = await fleet.read("SELECT node FROM inbox WHERE state = 'running'")
        dead = next(node for node in fleet.nodes if node.name == busy)
        dead.wanted = False
        dead.signal(signal.SIGKILL)
        for number in range(6):  # and nobody who comes now notices
            async with connect_to_gateway(port, clock, token=TOKEN) as fresh:
                await ask(fresh, f"then{number}", f"SAY then {number}")
                assert f"then {number}" in str((await until_over(fresh, f"then{number}"))[-1])
        assert "by http 7" in await complete(http, port, 7)
        back = await stack.enter_async_context(connect_to_gateway(port, clock, token=TOKEN))
        async with asyncio.timeout(120):
            while await fleet.read("SELECT 1 FROM inbox WHERE state IN ('queued', 'running')"):
                await asyncio.sleep(0.2)
        history = await back.call("chat.history", {"sessionKey": "s-long"})
        assert [m["role"] for m in history["messages"]] == ["user", "assistant"] and "w59" in str(history)

        # replaced: it finishes what it runs, and whoever comes meanwhile is let in elsewhere
        old = next(node for node in fleet.nodes if node is not dead)
        old.wanted = False
        old.signal(signal.SIGTERM)
        for number in range(6):
            async with connect_to_gateway(port, clock, token=TOKEN) as fresh:
                await ask(fresh, f"last{number}", f"SAY last {number}")
                assert f"last {number}" in str((await until_over(fresh, f"last{number}"))[-1])
        assert await fleet.end() == []
    story = await read_fleet(server)
    assert check_snapshot(story) == []
    assert {row["outcome"] for row in story.inbox} == {"answered"}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    text = (EXAMPLES / "palinurus@.service").read_text().replace("/opt/palinurus/bin/pal", shutil.which("true") or "")
    unit = tmp_path / "palinurus@a.service"
    unit.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.replace(str(tmp_path), "")) == (0, "")
