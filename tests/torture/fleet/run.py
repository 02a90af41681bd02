"""`make torture PART=fleet`: every harm against every load, on three gateways and a PostgreSQL of their own, judged.

    python tests/torture/fleet/run.py [--harms kill,freeze] [--loads chat,tools] [--mixed] [--seconds 10] [--seed 1]

`--mixed`: all loads at the same time, one cell for each harm. Prints a line for each cell and a table of all.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from nursery import Nursery
from palinurus.testing.home import make_provider_entry
from palinurus.testing.server import ModelServer
from palinurus.testing.telegram.server import CHATS, FakeTelegram
from ports import reserve_port
from store.postgres.server import MISSING, Postgres, find_programs, read_fleet
from torture.fleet import world
from torture.fleet.harms import HARMS, Nemesis
from torture.fleet.history import RULES, FleetStory, find_slowest_takeover, judge_fleet
from torture.fleet.loads import LOADS, Scene, live, remove_jobs
from torture.fleet.proxy import Proxy

LEASE = 6.0  # seconds; a machine that others need, too, wants more: a start alone may take as long
SMALL = 320 << 20  # bytes of the server's disk, where one of a size can be made
SETTLED = 180.0  # seconds for everything to end
BETWEEN = "TRUNCATE inbox, outbox, steps, slots, spent, hold"
OPEN = """SELECT (SELECT count(*) FROM inbox WHERE state IN ('queued', 'running'))
  + (SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending'))
  + (SELECT count(*) FROM kept WHERE kind = 'child' AND convert_from(data, 'UTF8')::jsonb ->> 'state' <> 'told')"""


class Result(NamedTuple):
    harm: str
    load: str
    messages: int
    harms: int
    wrong: dict[str, list[str]]
    takeover: int
    calm: bool
    seconds: float


def make_config(model: str, telegram: FakeTelegram, work: str) -> dict[str, Any]:
    known = [str(CHATS[name]) for name in ("ann", "bob")]
    careful = {"id": "careful", "tools": {"exec": {"ask": "always", "security": "full"}}}
    return {
        "models": {"providers": {"fake": make_provider_entry(model)}},
        "agents": {
            "defaults": {
                "workspace": work,
                "model": {"primary": "fake/model"},
                "maxConcurrent": 12,
                "heartbeat": {"every": "0m"},
            },
            "list": [{"id": "main", "default": True}, careful],
        },
        "channels": {"telegram": {"enabled": True, "dmPolicy": "allowlist", "allowFrom": known, **telegram.section}},
        "session": {"dmScope": "per-channel-peer"},
        "logging": {"level": "info"},
    }


class Matrix:
    """One fleet for all cells, one after the other."""

    def __init__(self, fleet: world.Fleet, telegram: FakeTelegram, work: Path, seconds: float, seed: int) -> None:
        self.fleet, self.telegram, self.work = fleet, telegram, work
        self.seconds, self.seed = seconds, seed
        self.number = 0

    async def play(self, harm: str, loads: list[str]) -> Result:
        self.number += 1
        began, name = time.monotonic(), f"x{self.number}s{self.seed}"
        dice = random.Random(f"{self.seed}/{harm}/{','.join(loads)}")
        scene = Scene(self.fleet, self.telegram, dice, name, self.work)
        harms, calm = HARMS[harm]
        nemesis = Nemesis(self.fleet, dice, self.seconds)
        people = [
            asyncio.ensure_future(live(scene, load, number))
            for load in loads
            for number in range(LOADS[load].people if len(loads) == 1 else max(1, LOADS[load].people // 2))
        ]
        wrong: list[str] = []
        try:
            await harms(nemesis)
            scene.over.set()
            async with asyncio.timeout(SETTLED):
                await asyncio.gather(*people)
                await remove_jobs(scene)
                await self._settled()
        except TimeoutError:
            wrong.append(f"not everything ended within {SETTLED:g} s")
        finally:
            for one in people:
                one.cancel()
            await asyncio.gather(*people, return_exceptions=True)
        story = await self._read(scene, nemesis, calm)
        judged = judge_fleet(story)
        judged["otherwise"] = [*wrong, *scene.wrong, *judged["otherwise"]]
        await self.fleet.read(BETWEEN)
        if scene.file.exists():
            scene.file.unlink()
        for one in self.telegram.messages:
            one.text = ""
        took = time.monotonic() - began
        return Result(
            harm, "+".join(loads), len(scene.acks), nemesis.did, judged, find_slowest_takeover(story), calm, took
        )

    async def _settled(self) -> None:
        """Nothing is left to do, at two looks in a row."""
        quiet = 0
        while quiet < 2:
            try:
                ((count,),) = await self.fleet.read(OPEN)
                quiet = quiet + 1 if not count and not self.telegram.updates else 0
            except Exception as error:  # border: the server comes up
                logging.debug("not yet: %s", error)
            await asyncio.sleep(0.3)

    async def _read(self, scene: Scene, nemesis: Nemesis, calm: bool) -> FleetStory:
        rows = await read_fleet(self.fleet.url)
        steps = await self.fleet.read("SELECT item, at, what, detail FROM steps ORDER BY n")
        shown = [one.text for one in self.telegram.messages if one.sender == world_bot(self.telegram)]
        return FleetStory(
            int(self.fleet.lease * 1000),
            rows,
            tuple(dict(step) for step in steps),
            tuple(scene.acks),
            tuple(scene.stops),
            tuple(scene.read_marks()),
            tuple(nemesis.deaths),
            tuple(shown),
            calm,
        )


def world_bot(telegram: FakeTelegram) -> int:
    """Who the bot is among the senders."""
    return int(telegram.me["id"])


def print_table(results: list[Result], seed: int, lease: float) -> int:
    """Returns how many cells were wrong."""
    bad = [one for one in results if any(one.wrong.values())]
    for one in bad:
        for rule, found in one.wrong.items():
            for text in found[:8]:
                print(f"  {one.harm} x {one.load}: {rule}: {text}")
    totals = {rule: sum(len(one.wrong[rule]) for one in results) for rule in RULES}
    slowest = max((one.takeover for one in results if one.calm), default=0)
    print(f"\ncells              {len(results)} ({len(bad)} with something wrong), seed {seed}")
    print(f"messages           {sum(one.messages for one in results)} acknowledged")
    print(f"harms              {sum(one.harms for one in results)}")
    for rule, count in totals.items():
        print(f"{rule:<18} {count}")
    print(f"slowest takeover   {slowest / 1000:.1f} s (lease {lease:g} s)")
    return len(bad)


async def play_all(options: argparse.Namespace) -> int:
    world.limit_files()
    harms, loads = options.harms.split(","), options.loads.split(",")
    cells = [(harm, loads) for harm in harms] if options.mixed else [(h, [one]) for h in harms for one in loads]
    results: list[Result] = []
    async with AsyncExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pal-fleet-")))
        os.chmod(root, 0o755)
        disk = ""
        try:
            disk = world.make_small_disk(SMALL)
            stack.callback(world.drop_small_disk, disk)
        except OSError as error:
            print(f"disk-full is left out: {error}")
            cells = [cell for cell in cells if cell[0] != "disk-full"]
        wal = "-c min_wal_size=32MB -c max_wal_size=64MB"
        postgres = Postgres(disk, reserve_port(), f"-c fsync=on {wal}")
        stack.callback(shutil.rmtree, postgres.folder if not disk else "", ignore_errors=True)
        await asyncio.to_thread(postgres.create)
        await asyncio.to_thread(postgres.start)
        stack.callback(postgres.stop)
        model = await stack.enter_async_context(ModelServer(remember=False))
        telegram = await stack.enter_async_context(FakeTelegram())
        nursery = stack.enter_context(Nursery())
        work = root / "work"
        work.mkdir()
        fleet = world.Fleet(root, postgres.url, nursery, lease=options.lease)
        stack.callback(fleet.kill)
        port = int(postgres.make_url().rpartition(":")[2].partition("/")[0])
        await fleet.begin(
            make_config(model.url, telegram, str(work)), [Proxy(("127.0.0.1", port)) for _ in range(3)], postgres
        )
        matrix = Matrix(fleet, telegram, work, options.seconds, options.seed)
        for harm, some in cells:
            results.append(await matrix.play(harm, some))
            last = results[-1]
            found = ", ".join(f"{rule} {len(what)}" for rule, what in last.wrong.items() if what) or "held"
            print(
                f"{harm} x {last.load}: {last.messages} messages, {last.harms} harms, {last.seconds:.0f} s,"
                f" takeover {last.takeover / 1000:.1f} s: {found}",
                flush=True,
            )
            if options.keep and any(last.wrong.values()):
                shutil.copytree(root, options.keep, dirs_exist_ok=True, ignore_dangling_symlinks=True)
        ended = await fleet.end()
        print(*ended, sep="\n", end="\n" if ended else "")
    return print_table(results, options.seed, options.lease) or len(ended)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harms", default=",".join(HARMS), help="some of: %(default)s")
    parser.add_argument("--loads", default=",".join(LOADS), help="some of: %(default)s")
    parser.add_argument("--mixed", action="store_true", help="all loads at once")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each cell is harmed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lease", type=float, default=LEASE)
    parser.add_argument("--keep", help="a folder for the homes and logs when something is wrong")
    options = parser.parse_args()
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that what was started is stopped
    if find_programs() is None:
        print(f"the fleet was not tortured: {MISSING}")
        return 0
    return 1 if asyncio.run(play_all(options)) else 0


if __name__ == "__main__":
    sys.exit(main())
