"""What is done to a fleet: a table of harms. Each does its worst for a while and returns with everything whole again,
but for what has to mend itself."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable

from torture.fleet.history import Death
from torture.fleet.proxy import Proxy
from torture.fleet.world import Fleet, Node, now_ms

BALLAST = "ballast"


class Nemesis:
    """Harms a fleet for `seconds`. `deaths` are those of which others must have taken over."""

    def __init__(self, fleet: Fleet, dice: random.Random, seconds: float) -> None:
        self.fleet, self.dice, self.seconds = fleet, dice, seconds
        self.deaths: list[Death] = []
        self.did = 0

    async def again(self, once: Callable[[Node, Proxy], Awaitable[None]], pause: float = 2.0) -> None:
        """One node after the other, drawn."""
        until = time.monotonic() + self.seconds
        await asyncio.sleep(self.dice.uniform(0.3, 1.0))
        while time.monotonic() < until:
            number = self.dice.randrange(len(self.fleet.nodes))
            await once(self.fleet.nodes[number], self.fleet.proxies[number])
            self.did += 1
            await asyncio.sleep(self.dice.uniform(0.5, 1.0) * pause)

    async def back(self, node: Node) -> None:
        """It is started again, and ready."""
        node.wanted = True
        async with asyncio.timeout(90):
            while node.process.poll() is not None or not await node.ready():
                await asyncio.sleep(0.1)


async def kill(nemesis: Nemesis) -> None:
    async def once(node: Node, _: Proxy) -> None:
        stays = nemesis.dice.random() < 0.6  # dead for longer than its lease, or back at once
        node.wanted = not stays
        if stays:
            nemesis.deaths.append(Death(node.name, now_ms()))
        node.signal(signal.SIGKILL)
        await asyncio.sleep(nemesis.fleet.lease + 1.5 if stays else 0.5)
        await nemesis.back(node)

    await nemesis.again(once)


async def freeze(nemesis: Nemesis) -> None:
    """For longer than the lease, or shortly."""

    async def once(node: Node, _: Proxy) -> None:
        long = nemesis.dice.random() < 0.7
        if long:
            node.wanted = False
            nemesis.deaths.append(Death(node.name, now_ms()))
        node.signal(signal.SIGSTOP)
        await asyncio.sleep(nemesis.fleet.lease + 2.0 if long else nemesis.dice.uniform(0.2, 0.5) * nemesis.fleet.lease)
        node.signal(signal.SIGCONT)
        await nemesis.back(node)

    await nemesis.again(once)


async def freeze_in_write(nemesis: Nemesis) -> None:
    """Its change is on the way when it is stopped: it happens, and nobody there hears the answer."""

    async def once(node: Node, proxy: Proxy) -> None:
        hit = asyncio.Event()

        def stop() -> None:
            node.wanted = False
            node.signal(signal.SIGSTOP)
            nemesis.deaths.append(Death(node.name, now_ms()))
            hit.set()

        proxy.on_write = stop
        try:
            async with asyncio.timeout(5):
                await hit.wait()
            await asyncio.sleep(nemesis.fleet.lease + 2.0)
        except TimeoutError:
            proxy.on_write = None
        node.signal(signal.SIGCONT)
        await nemesis.back(node)

    await nemesis.again(once)


async def terminate(nemesis: Nemesis) -> None:
    async def once(node: Node, _: Proxy) -> None:
        node.signal(signal.SIGTERM)
        await asyncio.sleep(nemesis.dice.uniform(0.5, 3.0))
        await nemesis.back(node)

    await nemesis.again(once)


async def crash_server(nemesis: Nemesis) -> None:
    postgres = nemesis.fleet.postgres
    assert postgres is not None

    async def once(_: Node, __: Proxy) -> None:
        await asyncio.to_thread(postgres.stop, "immediate")
        await asyncio.sleep(nemesis.dice.uniform(0.0, 2.0))
        await asyncio.to_thread(postgres.start)

    await nemesis.again(once, 4.0)


def cut_backends(query: str) -> Callable[[Nemesis], Awaitable[None]]:
    """Have the server end the connections of a node whose last statement was of this kind."""

    async def harm(nemesis: Nemesis) -> None:
        async def once(node: Node, _: Proxy) -> None:
            whose = "application_name = $1 AND query LIKE $2"
            ends = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {whose}"
            await nemesis.fleet.read(ends, f"palinurus {node.name}", query)

        await nemesis.again(once, 0.6)

    return harm


async def drop(nemesis: Nemesis) -> None:
    async def once(_: Node, proxy: Proxy) -> None:
        proxy.refuse = True
        proxy.cut()
        await asyncio.sleep(nemesis.dice.choice((0.0, 0.5, 1.5, nemesis.fleet.lease + 1)))
        proxy.heal()

    await nemesis.again(once)


async def delay(nemesis: Nemesis) -> None:
    async def once(_: Node, proxy: Proxy) -> None:
        proxy.delay = nemesis.dice.choice((0.1, 0.5, 1.0))  # each way: up to two seconds for an answer
        await asyncio.sleep(nemesis.dice.uniform(1.0, 6.0))
        proxy.heal()

    await nemesis.again(once)


async def half_open(nemesis: Nemesis) -> None:
    """Connections stay, nothing gets through, new ones neither."""

    async def once(_: Node, proxy: Proxy) -> None:
        proxy.swallow = True
        await asyncio.sleep(nemesis.dice.choice((0.5, 1.0, nemesis.fleet.lease + 1)))
        if nemesis.dice.random() < 0.5:
            proxy.swallow = False  # … or the old ones never come back, and the node has to notice by itself
        else:
            proxy.heal()

    await nemesis.again(once)


async def set_clocks(nemesis: Nemesis) -> None:
    """One node's clock is ten minutes wrong."""

    async def once(node: Node, _: Proxy) -> None:
        node.skew = nemesis.dice.choice((-600.0, 600.0))
        node.signal(signal.SIGTERM)
        await asyncio.sleep(1.0)
        await nemesis.back(node)
        await asyncio.sleep(4.0)
        node.skew = 0.0
        node.signal(signal.SIGTERM)
        await asyncio.sleep(1.0)
        await nemesis.back(node)

    await nemesis.again(once, 1.0)


async def change_versions(nemesis: Nemesis) -> None:
    """Nodes become those of the next version, and some of them go back, so both are at work together."""
    assert nemesis.fleet.next_version

    async def once(node: Node, _: Proxy) -> None:
        node.source = "" if node.source else nemesis.fleet.next_version
        node.signal(nemesis.dice.choice((signal.SIGTERM, signal.SIGTERM, signal.SIGKILL)))
        await asyncio.sleep(1.0)
        await nemesis.back(node)

    await nemesis.again(once, 1.0)
    for node in nemesis.fleet.nodes:
        if node.source:
            node.source = ""
            node.signal(signal.SIGTERM)
            await asyncio.sleep(0.2)
            await nemesis.back(node)


async def deafen(nemesis: Nemesis) -> None:
    """No notification gets to anybody, all the time."""
    for proxy in nemesis.fleet.proxies:
        proxy.deaf = True
    await asyncio.sleep(nemesis.seconds)
    for proxy in nemesis.fleet.proxies:
        proxy.deaf = False
    nemesis.did += 1


async def fill_disk(nemesis: Nemesis) -> None:
    """The server's disk is full for a while; it may come down with that."""
    postgres = nemesis.fleet.postgres
    assert postgres is not None

    async def once(_: Node, __: Proxy) -> None:
        ballast = os.path.join(postgres.folder, BALLAST)
        await asyncio.to_thread(_fill, ballast)
        await asyncio.sleep(nemesis.dice.uniform(1.0, 3.0))
        os.unlink(ballast)
        await asyncio.to_thread(postgres.revive)

    await nemesis.again(once, 3.0)


def _fill(path: str) -> None:
    with open(path, "wb", buffering=0) as out:
        size = 1 << 20
        while size >= 512:
            try:
                out.write(bytes(size))
            except OSError:
                size //= 2


async def nothing(nemesis: Nemesis) -> None:
    await asyncio.sleep(nemesis.seconds)


# name -> what is done, and whether the database is there all the time
HARMS: dict[str, tuple[Callable[[Nemesis], Awaitable[None]], bool]] = {
    "nothing": (nothing, True),
    "kill": (kill, True),
    "freeze": (freeze, True),
    "freeze-in-write": (freeze_in_write, True),
    "term": (terminate, True),
    "server-crash": (crash_server, False),
    "cut-writer": (cut_backends("%apply_changes%"), True),
    "cut-listener": (cut_backends("%keep_lease%"), True),
    "drop": (drop, False),
    "delay": (delay, False),
    "half-open": (half_open, False),
    "clock": (set_clocks, True),
    "versions": (change_versions, True),
    "deaf": (deafen, True),
    "disk-full": (fill_disk, False),
}
