"""`pal cron`, without a gateway and through one."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from flow.test_app import CONFIG, running, until
from palinurus.cli import cron
from palinurus.cli.main import main
from palinurus.clock import SystemClock
from palinurus.core.schedule.fire import EverySchedule, MissedSpan
from palinurus.errors import NotFound
from palinurus.gateway import token
from palinurus.gateway.server import GatewayServer
from palinurus.store.factory import open_store
from palinurus.testing.model import ScriptedModel, say

TOKEN = "t" * 43


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "h"
    place.mkdir()
    (place / "palinurus.json").write_text(json.dumps({**CONFIG, "gateway": {"port": 1}}))
    monkeypatch.setenv("PALINURUS_HOME", str(place))
    return place


def pal(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["cron", *words]) == code
    heard = capsys.readouterr()
    return heard.out if code == 0 else heard.err


def test_jobs_are_kept_without_a_gateway(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pal(capsys, "list") == "no jobs\n"
    made = pal(capsys, "add", "--cron", "0 9 * * 1-5", "--tz", "Europe/Berlin", "--message", "news", "--name", "news")
    assert made.startswith("added ") and "0 9 * * 1-5 Europe/Berlin" in made
    soon = pal(capsys, "add", "--at", "20m", "--event", "Tea")
    due = datetime.now() + timedelta(minutes=20)
    assert f"next: {due:%Y-%m-%d %H}" in soon or f"next: {due + timedelta(minutes=1):%Y-%m-%d %H}" in soon
    assert [line.split("  ")[1] for line in pal(capsys, "list").splitlines()] == ["Tea", "news"]
    assert "every 120 min" in pal(capsys, "edit", "news", "--every", "2h", "--model", "fake/m")
    job = next(j for j in json.loads(pal(capsys, "list", "--json")) if j["name"] == "news")
    assert job["payload"] == {"kind": "agentTurn", "message": "news", "model": "fake/m"}
    words = ["--window", "6h", "--light", "--channel", "telegram", "--to", "4", "--account", "work", "--thread", "7"]
    pal(capsys, "edit", "news", *words, "--wake", "next-heartbeat", "--message", "news")
    job = next(j for j in json.loads(pal(capsys, "list", "--json")) if j["name"] == "news")
    assert (job["misfireWindowMs"], job["wakeMode"], job["payload"]["lightContext"]) == (
        21_600_000,
        "next-heartbeat",
        True,
    )
    place = {"mode": "announce", "channel": "telegram", "to": "4", "accountId": "work", "threadId": "7"}
    assert job["delivery"] == place
    assert "paused" in pal(capsys, "pause", "news") and "it is paused" in pal(capsys, "why", "news")
    assert "next: 2" in pal(capsys, "resume", "news") and "It runs next at" in pal(capsys, "why", job["id"][:6])
    assert pal(capsys, "runs", "news") == "this job has not run yet\n"
    assert "none is running" in pal(capsys, "run", "news", code=69)
    made = json.loads(pal(capsys, "add", "--at", "30m", "--event", "Milk", "--json"))
    told = json.loads(pal(capsys, "why", "Milk", "--json"))
    assert made["name"] == "Milk" and told == {"job": made, "runs": []}
    assert json.loads(pal(capsys, "edit", "Milk", "--name", "Cream", "--json"))["name"] == "Cream"
    assert pal(capsys, "rm", "Tea").startswith("removed ") and "Tea" not in pal(capsys, "list")


def missed(home: Path, hours: int) -> None:
    """As after a downtime: a row of missed times in the history of the job `sea`."""

    async def write() -> None:
        store = await open_store(str(home), SystemClock())
        (kept,) = await store.list_records("job")
        begin = 1_772_000_000_000 // 3_600_000 * 3_600_000
        row = MissedSpan(
            kept.key, begin, begin + hours * 3_600_000, hours, EverySchedule(3_600_000), "missed (misfire: skip)"
        )
        entry = {"ts": 1, "jobId": kept.key, "jobName": "sea", "status": "skipped", "runId": "x", "runAtMs": row.upto}
        entry |= {"summary": f"{hours} due times missed", "missed": msgspec.to_builtins(row)}
        await store.put_record("jobruns", kept.key, msgspec.json.encode([entry]))
        await store.close()

    asyncio.run(write())


def test_a_row_of_missed_times_is_one_line_and_a_line_for_each_when_asked(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pal(capsys, "add", "--every", "1h", "--event", "look", "--name", "sea")
    missed(home, 1200)
    (line,) = pal(capsys, "runs", "sea").splitlines()
    assert "skipped  sea: 1200 due times missed" in line
    lines = pal(capsys, "runs", "sea", "--slots", "--limit", "5000").splitlines()
    assert len(lines) == len(set(lines)) == 1200 and all("missed (misfire: skip)" in line for line in lines)
    assert len(pal(capsys, "runs", "sea", "--slots").splitlines()) == 20


def test_what_is_missing_or_wrong_is_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "when? --at" in pal(capsys, "add", "--message", "x", code=64)
    assert "what? --message" in pal(capsys, "add", "--every", "1h", code=64)
    assert "not a duration" in pal(capsys, "add", "--every", "soon", "--event", "x", code=64)
    told = pal(capsys, "add", "--at", "tomorrow", "--event", "x", code=64)
    assert "is no time" in told and "20m" in told and "2026-02-01T09:00" in told
    assert "five fields" in pal(capsys, "add", "--cron", "9", "--event", "x", code=64)
    assert "no job is called" in pal(capsys, "rm", "nobody", code=66)


async def test_a_running_gateway_does_it(home: Path) -> None:
    options = cron.make_cron_parser()
    model = ScriptedModel([say("It is blue.")])
    changes = {"gateway": {"auth": {"mode": "token", "token": TOKEN}}}
    async with running(home, model, **changes) as app:
        server = GatewayServer(app, SystemClock(), TOKEN)
        port = await server.start("127.0.0.1", 0)
        token.announce_location(str(home), token.GatewayLocation("127.0.0.1", port, 1, proof=server.proof_key))

        async def ask(*words: str) -> str:
            return await cron.perform_cron_command(app.settings, SystemClock(), options.parse_args(list(words)))

        assert "added" in await ask("add", "--every", "1h", "--message", "look", "--name", "sea", "--silent")
        assert app.scheduler.job("sea")["delivery"] == {"mode": "none"}
        assert (await ask("run", "sea")).startswith("started: manual:")
        await until(lambda: "lastRunStatus" in app.scheduler.job("sea")["state"])
        assert "ok  sea: It is blue." in await ask("runs", "sea") and "ok" in await ask("why", "sea")
        with pytest.raises(NotFound, match="no job is called"):
            await ask("pause", "nobody")
        assert "removed" in await ask("rm", "sea") and app.scheduler.jobs(True) == []
        await server.stop()
