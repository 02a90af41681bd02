"""A fleet on one machine: a PostgreSQL of its own, gateways in processes of their own with a proxy before each, and a
service manager that starts again what has ended."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp

from nursery import Nursery
from palinurus.clock import SystemClock
from palinurus.errors import GatewayUnreachable, PalinurusError
from palinurus.gateway.client import GatewayLink, LoginOptions, connect_gateway, make_identity
from palinurus.gateway.rpc import MethodError
from palinurus.testing.client import make_gateway_url
from palinurus.testing.harm import SKEWED
from palinurus.testing.home import TOKEN, get_work_dir, make_home
from ports import reserve_port
from store.postgres.server import Postgres, connected
from torture.fleet.proxy import Proxy

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../src")
START = 90.0  # seconds for a gateway to be ready
NEXT_TABLES = """
-- version {version}
ALTER TABLE inbox ADD COLUMN mood text NOT NULL DEFAULT 'calm';
CREATE TABLE moods (mood text PRIMARY KEY);
"""
NEXT_FUNCTIONS = """
CREATE FUNCTION read_mood(ident text) RETURNS text LANGUAGE sql AS $$ SELECT mood FROM inbox WHERE id = ident $$;
"""
GONE = (aiohttp.ClientError, ConnectionError, TimeoutError, GatewayUnreachable, PalinurusError, MethodError, OSError)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Node:
    """One gateway and its proxy. `keep` has it running again whenever it has ended."""

    def __init__(self, root: Path, name: str, url: str, config: dict[str, Any], nursery: Nursery) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.name, self._url, self._nursery = name, url, nursery
        self.home = make_home(root, config)
        self.port = reserve_port()
        self.log = str(root / "log")
        self.process: Any = None
        self.skew = 0.0  # seconds that its clock is wrong by, from its next start on
        self.source = ""  # the folder of another version of the program that it is, from its next start on
        self.wanted = False
        self.starts = 0
        self.ends: list[int] = []

    def start(self) -> None:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        env = {**kept, "HOME": os.path.dirname(self.home), "PALINURUS_HOME": self.home, "PALINURUS_STORE": self._url}
        order = ["gateway", "--port", str(self.port)]
        self.starts += 1
        if not self.skew and not self.source:
            self.process = self._nursery.start(order, env=env, cwd=get_work_dir(self.home), log=self.log)
            return
        env["PYTHONPATH"] = self.source or SOURCE
        line = [sys.executable, "-c", SKEWED, f"{self.skew:.0f}", "0", *order]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(line, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    async def ready(self) -> bool:
        """It answers. False if it ended before."""
        async with aiohttp.ClientSession() as http:
            while self.process.poll() is None:
                try:
                    async with http.get(f"http://127.0.0.1:{self.port}/readyz") as response:
                        if response.status == 200:
                            return True
                except (aiohttp.ClientError, OSError):
                    pass
                await asyncio.sleep(0.05)
        return False

    async def keep(self, pause: float) -> None:
        """The service manager."""
        while True:
            if self.wanted and (self.process is None or self.process.poll() is not None):
                if self.process is not None:
                    self.ends.append(self.process.returncode)
                    await asyncio.sleep(pause)
                if self.wanted:
                    self.start()
            await asyncio.sleep(0.05)

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    async def stop(self, seconds: float = 60.0) -> str:
        """Have it end by itself; what was wrong with that."""
        self.wanted = False
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        until = time.monotonic() + seconds
        while self.process is not None and self.process.poll() is None:
            if time.monotonic() > until:
                self.process.kill()
                return f"{self.name} did not end when it was asked to"
            await asyncio.sleep(0.02)
        return ""

    def tail(self, size: int = 2000) -> str:
        with open(self.log, "rb") as source:
            return source.read()[-size:].decode(errors="replace")


class Fleet:
    """Use with `async with`. Nodes are there and ready."""

    def __init__(self, root: Path, url: str, nursery: Nursery, *, lease: float, size: int = 3) -> None:
        self.root, self.url, self._nursery = root, url, nursery
        self.lease, self._size = lease, size
        self.nodes: list[Node] = []
        self.proxies: list[Proxy] = []
        self.postgres: Postgres | None = None
        self.next_version = ""  # the source of a newer program
        self._keepers: list[asyncio.Task[None]] = []
        self._identity = make_identity()
        self._links: dict[str, GatewayLink] = {}
        self._turns = {name: asyncio.Lock() for name in "abc"}

    async def begin(
        self, config: dict[str, Any], proxies: Sequence[Proxy] = (), postgres: Postgres | None = None
    ) -> None:
        """Start the nodes, one after the other; each behind its proxy, if there are some."""
        self.proxies = list(proxies)
        self.postgres = postgres
        for number in range(self._size):
            name, url = "abc"[number], self.url
            if postgres is not None:
                await self.proxies[number].start()
                url = postgres.make_url(self.proxies[number].port)
            own = {**config, "store": {"node": name, "leaseSeconds": self.lease, "sharedWorkspaces": True}}
            self.nodes.append(Node(self.root / name, name, url, own, self._nursery))
        for node in self.nodes:
            node.wanted = True
            node.start()
            async with asyncio.timeout(START):
                assert await node.ready(), node.tail()
        self._keepers = [asyncio.ensure_future(node.keep(0.3)) for node in self.nodes]

    async def end(self) -> list[str]:
        """Everything stops by itself. What was wrong with that."""
        for link in self._links.values():
            await link.close()
        for task in self._keepers:
            task.cancel()
        wrong = [told for node in self.nodes if (told := await node.stop())]
        for proxy in self.proxies:
            await proxy.stop()
        return wrong

    def kill(self) -> None:
        for node in self.nodes:
            node.wanted = False
            if node.process is not None and node.process.poll() is None:
                node.process.kill()

    async def call(self, node: Node, method: str, params: dict[str, Any], seconds: float) -> Any:
        """What a node answers to a person who is the same on each. Raises one of GONE. One connection to each node for
        everybody: to make one costs more than to use it."""
        async with asyncio.timeout(seconds):
            async with self._turns[node.name]:
                if node.name not in self._links:
                    login = LoginOptions(token=TOKEN, identity=self._identity)
                    self._links[node.name] = await connect_gateway(make_gateway_url(node.port), SystemClock(), login)
                link = self._links[node.name]
            try:
                return await link.call(method, params)
            except MethodError:
                raise
            except GONE:
                if self._links.get(node.name) is link:
                    del self._links[node.name]
                    await link.close()
                raise

    async def read(self, query: str, *args: Any) -> list[Any]:
        """Beside the proxies. Raises OSError kinds while there is no server."""
        async with connected(self.url) as conn:
            return list(await conn.fetch(query, *args))


class Person:
    """Somebody who writes through any node."""

    def __init__(self, fleet: Fleet, dice: random.Random) -> None:
        self._fleet, self._dice = fleet, dice

    async def call(self, method: str, **params: Any) -> Any:
        """Raises one of GONE."""
        return await self._fleet.call(self._dice.choice(self._fleet.nodes), method, params, 20.0)

    async def insist(self, method: str, over: float, **params: Any) -> Any:
        """The same until somebody answers. Raises TimeoutError after `over` seconds."""
        async with asyncio.timeout(over):
            while True:
                try:
                    return await self.call(method, **params)
                except GONE:
                    await asyncio.sleep(0.2)


def make_next_version(folder: str) -> str:
    """The source of a Palinurus whose fleet has a table and functions more than this one's."""
    shutil.copytree(SOURCE, folder, copy_function=os.link, ignore=shutil.ignore_patterns("static"))
    for name, more in (("tables", NEXT_TABLES), ("functions", NEXT_FUNCTIONS)):
        path = os.path.join(folder, f"palinurus/store/postgres/{name}.sql")
        with open(path) as source:
            text = source.read()
        os.unlink(path)  # it is a link to ours
        with open(path, "w") as out:
            out.write(text + more.format(version=text.count("\n-- version ") + 1))
    return folder


def make_small_disk(size: int) -> str:
    """A folder that holds `size` bytes, by a file system of its own. Raises OSError where that is not allowed."""
    folder = tempfile.mkdtemp(prefix="pal-small-")
    line = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    if shutil.which("mount") is None or subprocess.run(line, capture_output=True, check=False).returncode:
        os.rmdir(folder)
        raise OSError("no file system of a size can be made here (needs root)")
    return folder


def drop_small_disk(folder: str) -> None:
    subprocess.run(["umount", "-l", folder], capture_output=True, check=False)
    os.rmdir(folder)


def limit_files() -> None:
    """Room for three gateways, their clients and a proxy."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
