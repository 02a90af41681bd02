"""kill -9 of a real gateway on the way of a message from and to Telegram: what people see in the end.

Telegram takes no client ids and shows bots nothing of the past: a reply that was shown when its receipt was lost is
seen twice, never three times, and the trace says that nobody could know.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from channels.telegram.world import RULES, until
from palinurus.testing.home import make_home, work_dir
from palinurus.testing.server import ModelServer
from palinurus.testing.telegram.people import FakeTelegram


def gateway(home: str, crash: str) -> subprocess.Popen[bytes]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
    env = {**kept, "HOME": os.path.dirname(home), "PALINURUS_HOME": home, "PALINURUS_CRASH": crash}
    argv = [sys.executable, "-m", "palinurus", "gateway", "--port", str(port)]
    with open(os.path.join(os.path.dirname(home), "gateway.log"), "ab") as log:
        return subprocess.Popen(argv, env=env, cwd=work_dir(home), stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def rows(home: str, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{home}/state.db?mode=ro", uri=True)) as conn:
        return conn.execute(query).fetchall()


async def died(process: subprocess.Popen[bytes]) -> int:
    async with asyncio.timeout(30):
        while process.poll() is None:
            await asyncio.sleep(0.01)
    return process.returncode


async def story(tmp_path: Path, crash: str) -> tuple[FakeTelegram, ModelServer, str]:
    """Ann says hello, the gateway dies at the point, a new one goes on until all is said and acknowledged."""
    async with FakeTelegram() as fake, ModelServer() as model:
        home = make_home(tmp_path, {"channels": {"telegram": fake.section(**RULES)}}, url=model.url)
        await fake.say("hello from ann")
        first = gateway(home, crash)
        try:
            assert await died(first) == 137
        finally:
            first.kill()
        second = gateway(home, "")
        try:
            await until(lambda: fake.read() and not fake.updates, 30)
            done = "SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending')"
            await until(lambda: rows(home, done) == [(0,)], 30)
            await fake.say("and again")
            await until(lambda: fake.read() and "and again" in fake.read()[-1], 30)
        finally:
            second.kill()
            second.wait()
        return fake, model, home


@pytest.mark.parametrize("crash", ["outbox.sent:1"])
async def test_a_reply_whose_receipt_was_lost_is_seen_twice_at_most(tmp_path: Path, crash: str) -> None:
    fake, model, home = await story(tmp_path, crash)
    answers = [text for text in fake.read() if "hello from ann" in text]
    assert len(answers) == 2 and len(set(answers)) == 1
    assert len([one for one in model.requests if "and again" not in str(one.body)]) == 1
    told = [f"{what} {detail}" for what, detail in rows(home, "SELECT what, detail FROM steps ORDER BY item, n")]
    assert any("not known" in line or "uncertain" in line for line in told), told


@pytest.mark.torture
@pytest.mark.parametrize("crash", ["accept.after:1", "model.done:1", "settle.after:1", "outbox.claimed:1"])
async def test_wherever_it_dies_before_it_is_answered_once(tmp_path: Path, crash: str) -> None:
    fake, _, _ = await story(tmp_path, crash)
    assert len([text for text in fake.read() if "hello from ann" in text]) == 1
