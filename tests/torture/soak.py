"""Mixed load with `kill -9` at random moments, judged at the end: `make torture PART=soak ARGS="--minutes 5"`.

People write over HTTP, WebSocket, webhooks, the spool and a fake Telegram; what they write uses tools, sets up jobs and
starts sub-agents; after some messages each begins a new conversation. Who gets no answer because the gateway died asks
again, with the same key. For the last part (`--calm`) nobody kills it: once it is warm, its memory and its descriptors
must not grow with the messages. Prints what was wrong, and figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[1]))

import nursery as nurseries
from crash.harness import GIVEN_UP, World
from palinurus.clock import SystemClock
from palinurus.core.history.repair import UNKNOWN_OUTCOME
from palinurus.testing import home as homes
from palinurus.testing.telegram.server import CHATS, FakeTelegram
from torture.test_leak import fit_slope

HOOK = "hook-token"
SETTLED = 600.0  # seconds for a start, and for everything to end: others may need the machine
# while nobody kills it: bytes that a message may leave behind, descriptors; and the size of the log
LEFT, MORE_FILES, LOG_BYTES = 2048, 20, 20 << 20
SERVED = 5  # messages between two kills, at least
TALK = 6  # messages of a conversation: what is kept of the last 64 in memory is full before the calm is half over


class Sample(NamedTuple):
    """The gateway at one moment."""

    memory: int
    files: int
    messages: int


def measure(pid: int, messages: int) -> Sample:
    """Raises OSError if it is gone."""
    with open(f"/proc/{pid}/status") as source:
        memory = next(int(line.split()[1]) for line in source if line.startswith("VmRSS"))
    return Sample(memory * 1024, len(os.listdir(f"/proc/{pid}/fd")), messages)


class Footprint(NamedTuple):
    """What the home takes after so many messages."""

    messages: int
    size: int


def find_litter(before: Footprint, after: Footprint) -> list[str]:
    """A message costs its lines, whenever it comes: later ones must not cost a multiple of what the first did."""
    came = after.messages - before.messages
    if min(came, before.messages) < 100:
        return []
    early, late = before.size / max(1, before.messages), (after.size - before.size) / came
    return [] if late <= 2 * early else [f"a message took {early:.0f} bytes of disk, and later {late:.0f}"]


class Soak:
    def __init__(self, world: World, telegram: FakeTelegram, seed: int) -> None:
        self.world, self.telegram, self.chance = world, telegram, random.Random(seed)
        self.over = asyncio.Event()
        self.up = asyncio.Event()
        self.number = 0
        self.effects: list[str] = []  # each happens once at most
        self.jobs: list[str] = []  # each is told once
        self.told_telegram: list[str] = []  # its numbers of messages
        self.accepted: list[str] = []  # tokens of messages that somebody was told are accepted
        self.sent: Counter[str] = Counter()
        self.kills = 0
        self.wrong: list[str] = []

    def token(self, kind: str) -> str:
        self.number += 1
        self.sent[kind] += 1
        return f"{kind}{self.number:06}"

    def text(self, token: str) -> str:
        """What a message asks for, with a token that is found again."""
        kind = self.chance.random()
        if kind < 0.4:
            return f"SAY answer {token}"
        if kind < 0.55:
            return f"WORDS {self.chance.randrange(10, 80)}\nSLOW {self.chance.randrange(1, 8)}\nTHINK {token}"
        return f"{self._effect(token)}\nSAY done {token}"

    def _effect(self, token: str) -> str:
        self.effects.append(token)
        return "TOOL exec " + json.dumps({"command": f"echo {token} >> effects.txt"})

    # --- people

    async def _again_until(self, work: Callable[[], Awaitable[bool]]) -> None:
        """Until it is done; whoever finds nobody there waits for the next start."""
        while True:
            await self.up.wait()
            try:
                if await work():
                    return
            except (aiohttp.ClientError, ConnectionError, TimeoutError):
                pass
            except AssertionError as exc:  # the gateway says no: it is about to stop, or too much waits
                if "HTTP 5" not in str(exc) and "HTTP 429" not in str(exc):
                    self.wrong.append(str(exc))
                    return
            await asyncio.sleep(0.1)

    async def ask(self, token: str, text: str, session: str) -> None:
        """Over HTTP, until it is answered."""

        async def once() -> bool:
            await self.world.ask(text, session=session, key=token, stream=self.chance.random() < 0.3)
            return token in self.world.answers

        await self._again_until(once)
        self.accepted.append(token)

    async def http(self, name: str) -> None:
        token = self.token("h")
        await self.ask(token, self.text(token), name)

    async def socket(self, name: str) -> None:
        token = self.token("w")
        asked = {"sessionKey": f"agent:main:{name}", "message": self.text(token), "idempotencyKey": token}
        await self._again_until(lambda: self._sent_by_socket(asked))
        self.accepted.append(token)

    async def _sent_by_socket(self, asked: dict[str, Any]) -> bool:
        return await self.world.call("chat.send", **asked) is not None

    async def webhook(self, _name: str) -> None:
        token = self.token("k")
        body = {"message": f"SAY heard {token}", "idempotencyKey": token, "deliver": False}

        async def once() -> bool:
            headers = {"authorization": f"Bearer {HOOK}"}
            url = f"http://127.0.0.1:{self.world.port}/hooks/agent"
            async with aiohttp.ClientSession() as http, http.post(url, json=body, headers=headers) as response:
                return response.status in (200, 202)

        await self._again_until(once)
        self.accepted.append(token)

    async def spool(self, name: str) -> None:
        """Some at once, and then nothing until these are dealt with: more than wait may be is dropped, by design."""
        tokens = [self.token("s") for _ in range(self.chance.choice((1, 1, 2, 4)))]
        for token in tokens:
            self.world.tell(token, self.text(token), to=name)
            self.accepted.append(token)
        while not self.world.dealt_with(*tokens):
            await asyncio.sleep(0.1)

    async def write_telegram(self, name: str) -> None:
        token, chat = self.token("t"), self.chance.choice(("ann", "bob"))
        if self.sent["t"] % TALK == 0:
            await self.telegram.say("/new", chat=chat)
        ident = await self.telegram.say(f"SAY reply {token}", chat=chat, times=self.chance.choice((1, 1, 2)))
        self.told_telegram.append(f"{CHATS[chat]}:{ident}")
        self.accepted.append(token)

    async def job(self, name: str) -> None:
        token = self.token("j")
        asked = {
            "name": token,
            "schedule": {"kind": "at", "at": SystemClock().now() + 500},
            "payload": {"kind": "agentTurn", "message": f"\nSAY reminded {token}"},
            "delivery": {"mode": "announce", "channel": "spool", "to": "jobs"},
        }
        cron = "TOOL cron " + json.dumps({"action": "add", "job": asked})
        self.jobs.append(token)
        await self.ask(token, f"Remind me of {token} in a moment, in the other chat.\n{cron}\nSAY set up", name)

    async def child(self, name: str) -> None:
        token = self.token("c")
        task = f"{self._effect(token)}\nSAY SAY the child of {token} is done"
        await self.ask(token, "TOOL sessions_spawn " + json.dumps({"task": task}) + "\nSAY started", name)

    async def person(self, act: Callable[[str], Awaitable[None]], name: str, pause: float) -> None:
        for number in count():
            if self.over.is_set():
                return
            await act(f"{name}-{number // TALK}")
            await asyncio.sleep(self.chance.uniform(0.2, 1.8) * pause)

    # --- the one who kills

    async def kill_until(self, end: float) -> None:
        served = 0
        while time.monotonic() < end:
            await asyncio.sleep(min(self.chance.uniform(2, 12), max(0.0, end - time.monotonic())))
            while len(self.accepted) < served + SERVED and time.monotonic() < end:  # where a start takes long
                await asyncio.sleep(0.1)
            if time.monotonic() >= end:
                return
            served = len(self.accepted)
            self.up.clear()
            self.world.kill()
            self.kills += 1
            while not await self.world.up():
                self.wrong.append(self.world.tail("the gateway does not start again"))
            self.up.set()

    async def watch_until(self, end: float) -> list[Sample]:
        """Its size while nobody kills it, once it is warm."""
        found = []
        while time.monotonic() < end:
            await asyncio.sleep(min(5.0, max(0.1, end - time.monotonic())))
            found.append(measure(self.world.process.pid, sum(self.sent.values())))
        return found

    # --- the end

    def judge(self) -> list[str]:
        wrong = [*self.wrong, *self.world.judge()]
        rows = homes.read_snapshot(self.world.home).inbox
        bodies = b"\n".join(row["body"] for row in rows).decode(errors="replace")
        wrong += [f"{token} was accepted and is in no inbox" for token in self.accepted if token not in bodies]
        wrong += self._missing(rows)
        did = Counter(self.world.read("effects.txt").split())
        wrong += [f"the effect of {token} happened {n} times" for token, n in did.items() if n > 1]
        seen = self.world.screen("jobs")
        wrong += [f"job {t} was told {seen.count(t)} times" for t in self.jobs if seen.count(t) > 1]
        for token, times in Counter(
            word for text in self._telegram() for word in text.split() if word[0] == "t"
        ).items():
            if token[1:].isdigit() and times > 2:  # nobody can know more than once whether Telegram had it
                wrong.append(f"the reply to {token} was shown {times} times on Telegram")
        wrong += [f"{name} is left over" for name in self._left_over()]
        return wrong

    def _missing(self, rows: tuple[dict[str, Any], ...]) -> list[str]:
        """Effects and jobs that did not happen, though their message was answered alone (of several the model of the
        tests reads the last) and nobody was told "unknown"."""
        told = set(self.world.read("effects.txt").split()) | set(self.world.screen("jobs").split())
        unknown = set()
        for path in Path(self.world.home).glob("agents/*/sessions/*.jsonl*"):
            lines = [json.loads(line) for line in path.read_text().splitlines() if UNKNOWN_OUTCOME in line]
            unknown |= {line.get("item", "") for line in lines}
        wrong, hosts = [], {row["absorbed_by"] for row in rows}
        for token in (token for token in (*self.effects, *self.jobs) if token not in told and token[0] != "c"):
            row = next(row for row in rows if token.encode() in row["body"])
            alone = not row["absorbed_by"] and row["id"] not in hosts
            if alone and row["outcome"] in ("answered", "silent") and row["id"] not in unknown:
                wrong.append(f"{token} was answered, but what it asked for did not happen")
        return wrong

    def weigh(self) -> Footprint:
        """Of the database its pages, wherever they are: its log has a limit of its own."""
        with closing(sqlite3.connect(f"file:{self.world.home}/state.db?mode=ro", uri=True)) as conn:
            size = conn.execute("PRAGMA page_count").fetchone()[0] * conn.execute("PRAGMA page_size").fetchone()[0]
        for path in (path for path in Path(self.world.home).rglob("*") if not path.name.startswith("state.db")):
            with suppress(FileNotFoundError):  # of the gateway that is at work
                size += path.lstat().st_size
        return Footprint(sum(self.sent.values()), size)

    def _telegram(self) -> list[str]:
        return [text for chat in ("ann", "bob") for text in self.telegram.read(chat)]

    def _left_over(self) -> list[str]:
        found = [str(p.relative_to(self.world.home)) for p in Path(self.world.home).rglob("*.tmp")]
        log = Path(self.world.home) / "state.db-wal"
        found += [f"a log of {log.stat().st_size} bytes"] if log.exists() and log.stat().st_size > LOG_BYTES else []
        with closing(sqlite3.connect(os.path.join(self.world.home, "state.db"))) as conn:
            for table in (
                "SELECT 'line ' || id FROM journal",
                "SELECT 'process ' || key FROM kept WHERE kind='process'",
            ):
                found += [row[0] for row in conn.execute(table)]
        return found

    def figures(self, samples: list[Sample]) -> str:
        twice = Counter(
            word for text in self._telegram() for word in text.split() if word[0] == "t" and word[1:].isdigit()
        )
        kinds = ", ".join(f"{name} {times}" for name, times in sorted(self.sent.items()))
        missing = len(set(self.effects) - set(self.world.read("effects.txt").split()))
        shown = self.world.screen("jobs")
        given_up = sum(text == GIVEN_UP for text in self.world.answers.values())
        lines = [
            f"messages: {sum(self.sent.values())} ({kinds}), killed {self.kills} times",
            f"given up, because three kills met them: {given_up}",
            f"effects: {len(self.effects)}, of which {missing} did not happen (interrupted, and the model was told)",
            f"jobs told: {sum(t in shown for t in self.jobs)} of {len(self.jobs)}; "
            f"Telegram showed {sum(n > 1 for n in twice.values())} of {len(twice)} replies twice",
        ]
        if samples:
            first, last = samples[0], samples[-1]
            lines.append(
                f"while nobody killed it: {first.memory >> 20} -> {last.memory >> 20} MB, "
                f"{first.files} -> {last.files} descriptors, {last.messages - first.messages} messages, "
                f"once it was warm {fit_memory(samples):.0f} bytes of memory a message"
            )
        return "\n".join(lines)


def fit_memory(samples: list[Sample]) -> float:
    """Bytes of memory that a message leaves behind, once everything was used that is loaded late: after a third."""
    warm = samples[len(samples) // 3 :]
    return fit_slope([(sample.messages, sample.memory) for sample in warm]) if len(warm) > 3 else 0.0


def find_growth(samples: list[Sample]) -> list[str]:
    """What grew that should not."""
    if len(samples) < 6:
        return []
    third = len(samples) // 3
    before, after = samples[:third], samples[-third:]
    wrong = []
    if fit_memory(samples) > LEFT and samples[-1].messages - samples[0].messages >= 1_000:
        wrong.append(f"memory grows by {fit_memory(samples):.0f} bytes with each message")
    if min(s.files for s in after) > max(s.files for s in before) + MORE_FILES:
        wrong.append(f"descriptors grew from {before[0].files} to {after[-1].files}")
    return wrong


async def soak(root: Path, options: argparse.Namespace, seed: int, model_url: str) -> list[str]:
    seconds = options.minutes * 60
    async with FakeTelegram() as telegram:
        known = [str(CHATS[name]) for name in ("ann", "bob")]  # of strangers what comes in a burst is turned away
        section = {"enabled": True, "dmPolicy": "allowlist", "allowFrom": known, **telegram.section}
        config = {
            "channels": {"telegram": section},
            "hooks": {"enabled": True, "token": HOOK},
            "session": {"dmScope": "per-channel-peer"},
        }
        world = World(root, model_url, nurseries.nursery(), None, config, limit=SETTLED)
        it = Soak(world, telegram, seed)
        assert await world.up(), world.tail("the gateway does not start")
        it.up.set()
        begun = time.monotonic()
        acts = [(it.http, 1.0)] * 4 + [(it.socket, 1.0)] * 2 + [(it.webhook, 2.0), (it.spool, 1.0), (it.spool, 1.0)]
        acts += [(it.write_telegram, 2.0), (it.job, 6.0), (it.child, 4.0)]
        people = [
            asyncio.ensure_future(it.person(act, f"p{n}", pause * options.pace)) for n, (act, pause) in enumerate(acts)
        ]
        try:
            await it.kill_until(begun + seconds * (1 - options.calm))
            half = it.weigh()
            samples = await it.watch_until(begun + seconds)
            it.over.set()
            async with asyncio.timeout(SETTLED):
                await asyncio.gather(*people)
                while not world.dealt_with(*it.told_telegram):
                    await asyncio.sleep(0.2)
                while not await world.drained():
                    it.wrong.append(world.tail("the gateway died by itself"))
                    await world.up()
            await world.down()
            await world.ended(0)
            whole = it.weigh()
            print(it.figures(samples))
            print(
                f"disk: {half.size >> 10} KB after {half.messages} messages, {whole.size >> 10} after {whole.messages}"
            )
            return [*it.judge(), *find_growth(samples), *find_litter(half, whole)]
        finally:
            for task in people:
                task.cancel()
            world.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--calm", type=float, default=0.4, help="the share of it in which nobody kills")
    parser.add_argument("--pace", type=float, default=1.0, help="2: people write half as often")
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--keep", help="a folder for the home, left as it is")
    options = parser.parse_args()
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)  # of connections that died with the gateway
    seed = options.seed or random.randrange(1, 10**6)
    argv = [sys.executable, "-m", "palinurus.testing.server", "--port", "0"]
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            root = Path(options.keep or folder)
            wrong = asyncio.run(soak(root, options, seed, server.stdout.readline().strip()))
        finally:
            server.kill()
    print(*wrong, sep="\n")
    print(f"soak: {options.minutes:g} minutes, seed {seed}, {len(wrong)} things wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
