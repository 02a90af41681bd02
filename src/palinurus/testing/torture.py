"""`pal torture`: is nothing lost and nothing doubled, with your own configuration?

A scratch copy of a home gets a fake provider in place of its models and a channel made of files in place of its chats.
People write there and over HTTP while the gateway is killed, at random and at named points of its durable steps, while
the model fails in every way or hangs, while the disk is full, and with clocks that are wrong. At the end the story on
disk is judged, and what people saw. The home itself is only read.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import resource
import secrets
import signal
import socket
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import IO, Any, NoReturn

import aiohttp
import msgspec

from palinurus.config.include import read_included
from palinurus.config.paths import find_home, locate_config_file
from palinurus.errors import BadRequest, PalinurusError
from palinurus.testing import home as homes
from palinurus.testing.harm import FAULTS, MOST_HOURS, POINTS, SKEWED, TortureReport, format_report
from palinurus.testing.server import ModelServer, ModelServerRequest, ScriptedResponse, follow_markers

ARM = "PALINURUS_CRASH"  # see crashpoints.py
CHATS, CALLERS = 4, 2  # who writes at the same time
FULL = 2.5  # seconds during which the disk is full
PATIENCE = 3  # seconds the copy waits for a model that hangs; the default would outlast us
LIMIT = 120.0  # seconds for a start, and for all to end


class Torture:
    """One run. `run` returns when everything has ended and was judged."""

    faulty = 0.2  # share of the model's answers that go wrong
    spawn = staticmethod(asyncio.create_subprocess_exec)
    skewed = 0.3  # share of lives whose clock goes wrong

    def __init__(self, root: str, raw: Mapping[str, Any], seed: int, tell: Callable[[str], None]) -> None:
        self.report = TortureReport(seed=seed)
        self._dice, self._tell = random.Random(seed), tell
        self._token = secrets.token_hex(16)
        self._root, self._raw = root, raw
        self.home = ""
        self._process: asyncio.subprocess.Process | None = None
        self._port = 0
        self._calm = False  # nothing goes wrong any more
        self._told: dict[str, str] = {}  # token of a message -> how it was sent
        self._answers: Counter[str] = Counter()

    async def run(self, seconds: float) -> TortureReport:
        """Raises PalinurusError if the gateway does not start at all with this configuration."""
        began = time.monotonic()
        self.report.left_out = [name for name in homes.OUTWARD if self._raw.get(name)]
        async with ModelServer(default=self._answer) as model:
            config = {
                **homes.copy_config(self._raw),
                "gateway": {"auth": {"mode": "token", "token": self._token}},
                "models": {"providers": {"fake": {"timeoutSeconds": PATIENCE}}},
            }
            self.home = homes.make_home(self._root, config, url=model.url, spool=True)
            await self._start("")
            people = [asyncio.ensure_future(self._write(f"chat{n}")) for n in range(CHATS)]
            people += [asyncio.ensure_future(self._call(f"http{n}")) for n in range(CALLERS)]
            try:
                await self._harm_until(began + seconds)
                self._calm = True
                await asyncio.wait_for(asyncio.gather(*people), LIMIT)
                await self._wait_idle()
            except TimeoutError:
                self.report.wrong.append(f"not everything ended within {LIMIT:.0f} s")
            finally:
                for person in people:
                    person.cancel()
                await self._stop()
        self.report.seconds = time.monotonic() - began
        self.judge()
        return self.report

    # --- the gateway

    async def _start(self, crash: str) -> None:
        """Ready to answer. Raises PalinurusError if it never is."""
        for _ in range(3):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self._port = probe.getsockname()[1]
            line = [sys.executable, *self._draw_clock(), "gateway", "--port", str(self._port)]
            env = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
            env |= {"HOME": self._root, "PALINURUS_HOME": self.home, ARM: crash}
            with self._open_log("ab") as log:
                self._process = await self.spawn(
                    *line, env=env, cwd=self._root, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
                )
            if await self._until_ready() or crash:
                return
        with self._open_log("rb") as log:
            raise PalinurusError(f"the gateway does not start: {log.read()[-1500:].decode(errors='replace')}")

    def _draw_clock(self) -> list[str]:
        """How Python is told to run the program; its clock may be wrong from the start, or leap meanwhile."""
        if self._calm or self._dice.random() >= self.skewed:
            return ["-m", "palinurus"]
        hours = self._dice.choice((-1, 1)) * self._dice.uniform(1, MOST_HOURS)
        self.report.faults["wrong clock"] += 1
        return ["-c", SKEWED, f"{hours * 3600:.0f}", f"{self._dice.choice((0.0, 1.0)):g}"]

    def _open_log(self, mode: str) -> IO[bytes]:
        return open(os.path.join(self._root, "gateway.log"), mode)

    async def _until_ready(self) -> bool:
        assert self._process is not None
        end = time.monotonic() + LIMIT
        async with aiohttp.ClientSession() as http:
            while self._process.returncode is None and time.monotonic() < end:
                with contextlib.suppress(aiohttp.ClientError, OSError):
                    async with http.get(f"http://127.0.0.1:{self._port}/readyz") as response:
                        if response.status == 200:
                            return True
                await asyncio.sleep(0.02)
        return False

    async def _stop(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM if self._calm else signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), LIMIT)
        if process.returncode is None:
            process.kill()
            self.report.wrong.append("the gateway did not end when it was asked to")

    # --- what goes wrong

    async def _harm_until(self, end: float) -> None:
        """Once at least: on a busy machine the first start alone may take that long."""
        shown = 0.0
        while not shown or time.monotonic() < end:
            shown = shown or time.monotonic()
            await asyncio.sleep(min(self._dice.uniform(0.5, 4.0), max(0.5, end - time.monotonic())))
            if self._dice.random() < 0.15:
                await self._fill_disk()
            await self._kill()
            if time.monotonic() - shown > 10:
                shown = time.monotonic()
                kills = sum(self.report.kills.values())
                often = "once" if kills == 1 else f"{kills} times"
                self._tell(f"{sum(self.report.sent.values())} messages, killed {often} …")

    async def _kill(self) -> None:
        """kill -9 now, or let it die at a named point of its next life. The time until it answers again is taken."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
            self.report.kills["at random"] += 1
        await self._process.wait()
        began = time.monotonic()
        if self._dice.random() < 0.5:
            point = f"{self._dice.choice(POINTS)}:{self._dice.randrange(1, 4)}"
            await self._start(point)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), 4.0)
            if self._process.returncode == 128 + signal.SIGKILL:
                self.report.kills["at a point"] += 1
            if self._process.returncode is None:
                return
            began = time.monotonic()
        await self._start("")
        self.report.recoveries.append(time.monotonic() - began)

    async def _fill_disk(self) -> None:
        """For a while no file of the gateway can grow."""
        assert self._process is not None
        size = os.path.getsize(os.path.join(self.home, "state.db"))
        with contextlib.suppress(OSError):  # it died meanwhile
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            self.report.faults["full disk"] += 1
            await asyncio.sleep(FULL)
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, unlimited)

    def _answer(self, asked: ModelServerRequest) -> ScriptedResponse:
        if not self._calm and self._dice.random() < self.faulty:
            name = self._dice.choice(tuple(FAULTS))
            self.report.faults[name] += 1
            return FAULTS[name](self._dice)
        return follow_markers(asked)

    # --- people

    def _make_message(self, kind: str) -> tuple[str, str]:
        token = f"{kind}{len(self._told):05}"
        self._told[token] = kind
        self.report.sent[kind] += 1
        effect = f'TOOL exec {{"command": "echo {token} >> effects.txt"}}\n' if self._dice.random() < 0.4 else ""
        return token, f"{effect}SAY answer {token}"

    async def _write(self, chat: str) -> None:
        """Into the folder that is a channel; the next one when this one has ended: of more than wait may, some are
        dropped, by design."""
        while not self._calm:
            token, text = self._make_message("chat")
            homes.drop_message(self.home, token, text, to=chat)
            await self._until(partial(self._ended, token))
            await asyncio.sleep(self._dice.uniform(0.05, 0.8))

    async def _call(self, name: str) -> None:
        """Over HTTP, with a key; whoever gets no answer asks again with the same one."""
        while not self._calm:
            token, text = self._make_message("http")
            for _ in itertools.count():
                if await self._ask(name, token, text):
                    break
                await asyncio.sleep(0.2)
            await asyncio.sleep(self._dice.uniform(0.05, 0.8))

    async def _until(self, condition: Callable[[], bool]) -> None:
        for _ in itertools.count():
            if condition():
                return
            await asyncio.sleep(0.1)

    async def _ask(self, name: str, token: str, text: str) -> bool:
        """True when it was answered or refused for good."""
        headers = {"authorization": f"Bearer {self._token}", "idempotency-key": token}
        headers["x-openclaw-session-key"] = f"agent:main:{name}"
        body = {"model": "openclaw", "messages": [{"role": "user", "content": text}]}
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(LIMIT)) as http,
                http.post(f"http://127.0.0.1:{self._port}/v1/chat/completions", json=body, headers=headers) as response,
            ):
                said = await response.text()
                self._answers[token] += response.status == 200 and token in said
                return response.status == 200 or self._ended(token)  # else it was the gateway's own trouble
        return False

    def _ended(self, token: str) -> bool:
        """Is its outcome on disk?"""
        return bool(self._count("inbox WHERE state IN ('done', 'absorbed') AND instr(body, ?)", token.encode()))

    async def _wait_idle(self) -> None:
        end, folder = time.monotonic() + LIMIT, os.path.join(homes.get_spool_dir(self.home), "in")
        while time.monotonic() < end:
            waiting = self._count("inbox WHERE state IN ('queued', 'running')")
            waiting += self._count("outbox WHERE state IN ('pending', 'sending')")
            if not waiting and not any(name.endswith(".json") for name in os.listdir(folder)):
                return
            await asyncio.sleep(0.2)
        self.report.wrong.append(f"messages still waited after {LIMIT:.0f} s")

    def _count(self, rows: str, *values: bytes) -> int:
        with closing(sqlite3.connect(f"file:{self.home}/state.db?mode=ro", uri=True)) as conn:
            return int(conn.execute(f"SELECT count(*) FROM {rows}", values).fetchone()[0])

    # --- the end

    def judge(self) -> None:
        """Fill in what was lost and doubled: the story on disk, what was seen, what was done."""
        report, story = self.report, homes.read_snapshot(self.home)
        report.wrong += homes.check_home(self.home)
        bodies: dict[str, list[dict[str, Any]]] = {token: [] for token in self._told}
        for row in story.inbox:
            text = row["body"].decode(errors="replace")
            for token in (token for token in bodies if token in text):
                bodies[token].append(row)
        for token, rows in bodies.items():
            if not rows:
                report.lost.append(f"{token}: accepted, and in no inbox")
            elif len(rows) > 1:
                report.doubled.append(f"{token}: {len(rows)} times in the inbox")
            else:
                report.outcomes[str(rows[0]["outcome"] or rows[0]["state"])] += 1
        shown = Counter(_count_tokens(line["text"] for line in homes.read_delivered(self.home)))
        report.doubled += [f"{token}: shown {n} times" for token, n in shown.items() if n > 1]
        with (
            contextlib.suppress(FileNotFoundError),
            open(os.path.join(homes.get_work_dir(self.home), "effects.txt")) as done,
        ):
            effects = Counter(done.read().split())
            report.doubled += [f"{token}: done {n} times" for token, n in effects.items() if n > 1]


def _count_tokens(texts: Any) -> Counter[str]:
    return Counter(text.split("answer ", 1)[1].split()[0] for text in texts if "answer " in text)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadRequest(message, fix="`pal torture --help`")


def main(argv: list[str] | None = None) -> int:
    """The command line. Returns 1 if something was lost, doubled or wrong."""
    about = "Is nothing lost and nothing doubled, with your own configuration? On a copy; no model or chat is asked."
    raw = argparse.RawDescriptionHelpFormatter
    lines = "examples:\n  pal torture --quick\n  pal torture --minutes 10 --seed 7"
    parser = _Parser(prog="pal torture", description=about, epilog=lines, formatter_class=raw, allow_abbrev=False)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long (default: 2)")
    parser.add_argument("--quick", action="store_true", help="half a minute of harm; all in less than one")
    parser.add_argument("--seed", type=int, default=0, help="draw the same again (times still differ)")
    parser.add_argument("--keep", metavar="DIR", help="make the copy there, and leave it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args(argv)
    seed = asked.seed or random.randrange(1, 10**6)

    def tell(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    raw, _ = read_included(locate_config_file(find_home(os.environ)), os.environ)
    with tempfile.TemporaryDirectory(prefix="pal-torture-") as folder:
        root = os.path.abspath(asked.keep or folder)
        os.makedirs(root, mode=0o700, exist_ok=True)
        seconds = 25.0 if asked.quick else asked.minutes * 60
        report = asyncio.run(Torture(root, raw, seed, tell).run(seconds))
    sys.stdout.write((msgspec.json.encode(report).decode() if asked.json else format_report(report)) + "\n")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
