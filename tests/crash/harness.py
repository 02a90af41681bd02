"""A real gateway in a process of its own, killed at a crash point, started again, and judged.

`World` is one home with its gateway; a scenario drives it through `ask` (HTTP, with an idempotency key, as a careful
client does it) and `tell` (the spool channel). What was not answered because the gateway died is asked again
after the restart, with the same key.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from contextlib import closing
from typing import NamedTuple

import aiohttp

from palinurus.clock import SystemClock
from palinurus.errors import GatewayUnreachable
from palinurus.gateway.client import make_identity
from palinurus.testing import home
from palinurus.testing.client import connect_to_gateway
from palinurus.testing.home import TOKEN, drop_message, get_spool_dir, get_work_dir, make_home, read_delivered
from ports import reserve_port

LIMIT = 90.0  # seconds for anything that must happen
REFUSED = "refused by a budget"
GIVEN_UP = "killed three times with it"  # a message that seems to stop the gateway is not tried a fourth time


class Asked(NamedTuple):
    text: str
    session: str
    key: str
    stream: bool


class World:
    def __init__(self, root, model_url, nursery, defaults=None, config=None, limit=LIMIT):
        self._limit = limit
        self._nursery = nursery
        self._device = make_identity()  # the same before and after a crash, or a key of a message is another's
        config = {"agents": {"defaults": {"maxConcurrent": 8, **(defaults or {})}}, **(config or {})}
        self.home = make_home(root, config, url=model_url, spool=True)
        self.work = get_work_dir(self.home)
        self.process = None
        self.answers: dict[str, str] = {}
        self.asked: dict[str, Asked] = {}
        self.told: list[str] = []
        self.stopped = False  # somebody was told so
        self.dropped = False
        self.starts = 0
        self.log = os.path.join(os.path.dirname(self.home), "gateway.log")

    # --- the gateway ------------------------------------------------------------------------------------------

    async def up(self, crash=""):
        """Start; returns False if it died before it was ready."""
        self.port = reserve_port()
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
        env = {**kept, "HOME": os.path.dirname(self.home), "PALINURUS_HOME": self.home, "PALINURUS_CRASH": crash}
        argv = ["gateway", "--port", str(self.port)]
        self.process = self._nursery.start(argv, env=env, cwd=self.work, log=self.log)
        self.starts += 1
        return await self._until(self._ready)

    async def _ready(self):
        try:
            async with aiohttp.ClientSession() as http, http.get(self._url("/readyz")) as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    async def down(self):
        """SIGTERM, and wait."""
        self.process.terminate()
        await self._gone()

    async def ended(self, code):
        """The gateway has ended, or ends now, with this exit code."""
        await self._gone()
        got = self.process.returncode
        assert got == code, self.tail(f"the gateway ended with {got}, not {code}")

    async def _gone(self):
        async with asyncio.timeout(self._limit):
            while not self.dead:
                await asyncio.sleep(0.01)

    def tail(self, what):
        """`what`, and the end of the gateway's log."""
        with open(self.log, errors="replace") as handle:
            return f"{what}\n{handle.read()[-3000:]}"

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    @property
    def dead(self):
        return self.process.poll() is not None

    async def _until(self, condition):
        """True when the condition came true, False when the gateway died first."""
        async with asyncio.timeout(self._limit):
            while not self.dead:
                if await condition():
                    return True
                await asyncio.sleep(0.01)
        return False

    def _url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"

    # --- people -----------------------------------------------------------------------------------------------

    async def ask(self, text, *, session="main", key, stream=False):
        """A message over HTTP. The answer goes to `answers[key]`; nothing there if the gateway died."""
        asked = self.asked[key] = Asked(text, session, key, stream)
        await self._post(asked)

    async def _post(self, asked):
        headers = {
            "authorization": f"Bearer {TOKEN}",
            "x-openclaw-session-key": f"agent:main:{asked.session}",
            "idempotency-key": asked.key,
        }
        body = {"model": "openclaw", "stream": asked.stream, "messages": [{"role": "user", "content": asked.text}]}
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(self._limit)) as http:
                async with http.post(self._url("/v1/chat/completions"), json=body, headers=headers) as response:
                    data = await response.read()
                    if response.status in (500, 502) and b"budgets." in data:  # the second: it was told before
                        self.answers[asked.key] = REFUSED
                        return
                    if b"is not tried again" in data:
                        self.answers[asked.key] = GIVEN_UP
                        return
                    if response.status != 200:
                        raise AssertionError(f"{asked.key}: HTTP {response.status} {data[:500]!r}")
                    text = streamed(data) if asked.stream else json.loads(data)["choices"][0]["message"]["content"]
                    if text is not None:
                        self.answers[asked.key] = text
        except (aiohttp.ClientError, ConnectionError):
            pass  # it died; the client asks again

    async def stop(self, session="main"):
        """Stop what runs in a session. `stopped` says whether that was acknowledged."""
        headers = {"authorization": f"Bearer {TOKEN}"}
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(self._limit)) as http:
                async with http.post(self._url(f"/sessions/agent:main:{session}/kill"), headers=headers) as response:
                    self.stopped = (await response.json())["aborted"]
        except (aiohttp.ClientError, ConnectionError):
            pass

    async def call(self, method, **params):
        """What the gateway answers over WebSocket; None if it died first."""
        try:
            async with connect_to_gateway(self.port, SystemClock(), token=TOKEN, identity=self._device) as link:
                return await link.call(method, params)
        except (aiohttp.ClientError, ConnectionError, GatewayUnreachable):
            return None

    def tell(self, ident, text, **rest):
        """A message through the spool channel."""
        self.told.append(ident)
        drop_message(self.home, ident, text, **rest)

    def dealt_with(self, *idents):
        """Have these messages of channels ended?"""
        try:
            with closing(sqlite3.connect(f"file:{self.home}/state.db?mode=ro", uri=True)) as conn:
                rows = conn.execute("SELECT dedupe FROM inbox WHERE state IN ('done', 'absorbed')").fetchall()
        except sqlite3.Error:
            return False
        return {*idents} <= {dedupe.rpartition("/")[2] for (dedupe,) in rows}

    async def again(self):
        """What careful clients do after a lost connection."""
        await asyncio.gather(*(self._post(a) for key, a in self.asked.items() if key not in self.answers))

    # --- the end ----------------------------------------------------------------------------------------------

    async def drained(self):
        """Wait until nothing is left to do. False if the gateway died first."""
        return await self._until(self._idle)

    async def _idle(self):
        if any(name.endswith(".json") for name in os.listdir(os.path.join(get_spool_dir(self.home), "in"))):
            return False
        try:
            with closing(sqlite3.connect(f"file:{self.home}/state.db?mode=ro", uri=True)) as conn:
                open_items = "SELECT count(*) FROM inbox WHERE state IN ('queued', 'running')"
                open_parts = "SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending')"
                children = "SELECT count(*) FROM kept WHERE kind = 'child' AND json_extract(data, '$.state') != 'told'"
                jobs = "SELECT count(*) FROM kept WHERE kind = 'job'"
                queries = (open_items, open_parts, children, jobs)
                return not sum(conn.execute(query).fetchone()[0] for query in queries)
        except sqlite3.Error:
            return False

    def judge(self):
        """Everything that is wrong with the story, and with what people were told."""
        wrong = home.check_home(self.home)
        wrong += [f"{key} was never answered" for key in self.asked if key not in self.answers]
        events = {row["dedupe"].rpartition("/")[2] for row in home.read_snapshot(self.home).inbox}
        wrong += [f"{ident} was taken from the spool and forgotten" for ident in self.told if ident not in events]
        return wrong

    def screen(self, to="chat"):
        """What was seen in one chat of the spool channel."""
        return "\n".join(line["text"] for line in read_delivered(self.home) if line["to"] == to)

    def read(self, name):
        try:
            with open(os.path.join(self.work, name)) as handle:
                return handle.read()
        except FileNotFoundError:
            return ""


def streamed(data):
    """The text of a complete event stream, None if it was cut."""
    events = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: ")]
    if not events or events[-1] != b"[DONE]":
        return None
    choices = [choice for event in events[:-1] for choice in json.loads(event)["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


async def survive(world, scenario, point):
    """Start, drive into the crash, restart, finish. Returns (was the point reached, what is wrong)."""
    try:
        if scenario.before:  # a first crash, so that the one under test happens while starting again
            if await world.up(scenario.before):
                await scenario.drive(world)
                await world.drained()
            await world.ended(137)
        if await world.up(point):
            await (world.again() if scenario.before else scenario.drive(world))
            await world.drained()
        if not world.dead:
            await world.down()
        reached = world.process.returncode == 137
        if reached:
            assert await world.up(), world.tail("the gateway does not start again")
            await world.again()
            assert await world.drained(), world.tail("the gateway died without a crash point")
            await world.down()
        await world.ended(0)
        return reached, [*world.judge(), *scenario.expect(world, point)]
    finally:
        world.kill()
