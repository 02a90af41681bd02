"""`make torture PART=fleet`: every harm against every load, on three gateways and a PostgreSQL of their own, judged.

    python tests/torture/fleet/run.py [--harms kill,freeze] [--loads chat,tools] [--mixed] [--seconds 10] [--seeds 1,2]

`--mixed`: all loads at the same time, each in conversations of its own and judged by itself. `--log FILE`: what was
found is written there, cells that it has are left out, and the table is of all that it has; `--minutes N`: then it
stops, and the same line goes on with the rest. Prints a line for each cell and a table of harms and loads.
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
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).parents[2]))

from nursery import Nursery
from palinurus.testing.home import make_provider_entry
from palinurus.testing.server import ModelServer
from palinurus.testing.telegram.server import CHATS, FakeTelegram
from ports import reserve_port
from store.postgres.server import MISSING, Postgres, find_programs, read_fleet
from torture.fleet import world
from torture.fleet.harms import HARMS, Nemesis
from torture.fleet.history import RULES, FleetStory, find_slowest_takeover, find_whose, judge_fleet
from torture.fleet.loads import KINDS, LIMIT, LOADS, Scene, live, remove_jobs
from torture.fleet.proxy import Proxy

LEASE = 6.0  # seconds; a machine that others need, too, wants more: a start alone may take as long
SMALL = 320 << 20  # bytes of the server's disk, where one of a size can be made
SETTLED = 180.0  # seconds for everything to end
BETWEEN = "TRUNCATE inbox, outbox, steps, slots, spent, hold"
OPEN = """SELECT (SELECT count(*) FROM inbox WHERE state IN ('queued', 'running'))
  + (SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending'))
  + (SELECT count(*) FROM kept WHERE kind = 'child' AND convert_from(data, 'UTF8')::jsonb ->> 'state' <> 'told')"""


class Result(msgspec.Struct, frozen=True):
    """One harm, one load, one seed. `together`: with how many other loads."""

    harm: str
    load: str
    seed: int
    together: int
    messages: int
    harms: int
    wrong: dict[str, list[str]]
    takeover: int
    calm: bool
    seconds: float


def make_config(model: str, telegram: FakeTelegram, work: str, thrifty: list[str]) -> dict[str, Any]:
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
            "list": [{"id": "main", "default": True}, careful, *({"id": name} for name in thrifty)],
        },
        "channels": {"telegram": {"enabled": True, "dmPolicy": "allowlist", "allowFrom": known, **telegram.section}},
        "budgets": {"agents": {name: {"hardTokens": LIMIT} for name in thrifty}},
        "session": {"dmScope": "per-channel-peer"},
        "logging": {"level": "info"},
    }


class Matrix:
    """One fleet for all cells, one after the other."""

    def __init__(self, fleet: world.Fleet, telegram: FakeTelegram, work: Path, seconds: float) -> None:
        self.fleet, self.telegram, self.work = fleet, telegram, work
        self.seconds = seconds
        self.number = 0

    async def play(self, harm: str, loads: list[str], seed: int) -> list[Result]:
        self.number += 1
        began, name = time.monotonic(), f"{self.number}s{seed}"
        dice = random.Random(f"{seed}/{harm}/{','.join(loads)}")
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
            try:
                await harms(nemesis)
            except TimeoutError:
                wrong.append("a node that was harmed did not come back in time")
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
        found = [(rule, text) for rule, texts in judge_fleet(story).items() for text in texts]
        found += [("otherwise", text) for text in (*wrong, *scene.wrong)]
        whose = [(find_whose(text, story, loads) or loads[0], rule, text) for rule, text in found]
        await self.fleet.read(BETWEEN)
        if scene.file.exists():
            scene.file.unlink()
        for one in self.telegram.messages:
            one.text = ""
        took, counts = time.monotonic() - began, Counter(KINDS[ack.token[0]] for ack in scene.acks)
        return [
            Result(
                harm, load, seed, len(loads), counts[load], nemesis.did,
                {rule: [text for which, what, text in whose if (which, what) == (load, rule)] for rule in RULES},
                find_slowest_takeover(story), calm, took / len(loads),
            )
            for load in loads
        ]  # fmt: skip

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
            tuple((agent, used) for agent, used in await self.fleet.read("SELECT agent, input + output FROM spent")),
            ((scene.thrifty, LIMIT),),
            len(self.fleet.nodes),
            calm,
        )


def world_bot(telegram: FakeTelegram) -> int:
    """Who the bot is among the senders."""
    return int(telegram.me["id"])


def print_table(results: list[Result], lease: float) -> int:
    """Returns how many cells were wrong."""
    bad = [one for one in results if any(one.wrong.values())]
    for one in bad:
        for rule, found in one.wrong.items():
            for text in found[:8]:
                print(f"  {one.harm} x {one.load}, seed {one.seed}: {rule}: {text}")
    print(f"\n| harm | load | seeds | messages | {' | '.join(RULES)} | takeover |")
    print("|---|---|" + "--:|" * (len(RULES) + 3))
    cells: dict[tuple[str, str], list[Result]] = {}
    for one in results:
        cells.setdefault((one.harm, one.load), []).append(one)
    for (harm, load), some in [*cells.items(), (("all", f"{len(cells)} cells"), results)]:
        counts = " | ".join(str(sum(len(one.wrong[rule]) for one in some)) for rule in RULES)
        slowest = max((one.takeover for one in some if one.calm), default=0)
        seeds = len({one.seed for one in some})
        told = f"{slowest / 1000:.1f} s" if slowest else ""
        print(f"| {harm} | {load} | {seeds} | {sum(one.messages for one in some)} | {counts} | {told} |")
    print(f"\n{len(results)} times, {len(bad)} with something wrong; lease {lease:g} s")
    return len(bad)


def read_log(path: str | None) -> list[Result]:
    """What was found before."""
    if not path or not os.path.exists(path):
        return []
    with open(path, "rb") as source:
        return [msgspec.json.decode(line, type=Result) for line in source]


def choose_cells(options: argparse.Namespace, done: list[Result]) -> list[tuple[str, list[str], int]]:
    """Harm, loads, seed; those that were not done before."""
    harms, loads = options.harms.split(","), options.loads.split(",")
    sides = [loads] if options.mixed else [[one] for one in loads]
    known = {(one.harm, one.load, one.seed, one.together) for one in done}
    seeds = [int(one) for one in options.seeds.split(",")]
    cells = [(harm, side, seed) for seed in seeds for harm in harms for side in sides]
    return [cell for cell in cells if (cell[0], cell[1][0], cell[2], len(cell[1])) not in known][: options.most]


async def play_all(options: argparse.Namespace) -> int:
    world.limit_files()
    results = read_log(options.log)
    cells, ended, until = choose_cells(options, results), [], time.monotonic() + 60 * options.minutes
    if not cells:
        return print_table(results, options.lease)
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
        thrifty = [f"thrifty{number + 1}" for number, (_, some, _) in enumerate(cells) if "budget" in some]
        config = make_config(model.url, telegram, str(work), thrifty)
        await fleet.begin(config, [Proxy(("127.0.0.1", port)) for _ in range(3)], postgres)
        fleet.next_version = world.make_next_version(str(root / "next"))
        matrix = Matrix(fleet, telegram, work, options.seconds)
        for cell in cells:
            if time.monotonic() > until:
                break
            results += (last := await matrix.play(*cell))
            tell_cell(last, options.log)
            if options.keep and any(any(one.wrong.values()) for one in last):
                shutil.copytree(root, options.keep, dirs_exist_ok=True, ignore_dangling_symlinks=True)
        ended = await fleet.end()
        print(*ended, sep="\n", end="\n" if ended else "")
    return print_table(results, options.lease) or len(ended)


def tell_cell(last: list[Result], log: str | None) -> None:
    """A line, and one for the log."""
    found = ", ".join(f"{one.load}: {r} {len(what)}" for one in last for r, what in one.wrong.items() if what) or "held"
    loads, messages = "+".join(one.load for one in last), sum(one.messages for one in last)
    took = sum(one.seconds for one in last)
    print(
        f"{last[0].harm} x {loads}, seed {last[0].seed}: {messages} messages, {last[0].harms} harms, {took:.0f} s,"
        f" takeover {last[0].takeover / 1000:.1f} s: {found}",
        flush=True,
    )
    if log:
        with open(log, "ab") as out:
            out.writelines(msgspec.json.encode(one) + b"\n" for one in last)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harms", default=",".join(HARMS), help="some of: %(default)s")
    parser.add_argument("--loads", default=",".join(LOADS), help="some of: %(default)s")
    parser.add_argument("--mixed", action="store_true", help="all loads at once")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each cell is harmed")
    parser.add_argument("--seeds", default="1", help="several: 1,2,3")
    parser.add_argument("--log", help="a file that remembers what was found")
    parser.add_argument("--minutes", type=float, default=1e6, help="after which no further cell begins")
    parser.add_argument("--most", type=int, default=1000, help="cells in one go")
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
