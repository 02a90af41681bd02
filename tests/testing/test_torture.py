"""`pal torture` on a real gateway, for a few seconds: it holds, and it finds what was planted."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from nursery import PythonProgram
from palinurus.testing import home as homes
from palinurus.testing.harm import FAULTS, SKEWED, TortureReport, format_report
from palinurus.testing.server import ModelServerRequest, ScriptedResponse, follow_markers
from palinurus.testing.torture import Torture


class Forked:
    """A gateway that has its modules already. (`pal torture` with interpreters: cli/test_first_minutes.)"""

    def __init__(self, _: str, *args: str, **options: Any) -> None:
        self._program = PythonProgram(*args, **options)
        self.pid, self.send_signal, self.kill = self._program.pid, self._program.send_signal, self._program.kill

    @property
    def returncode(self) -> int | None:
        return self._program.poll()

    async def wait(self) -> None:
        while self.returncode is None:
            await asyncio.sleep(0.01)


class Quick(Torture):
    @staticmethod
    async def spawn(*line: str, **options: Any) -> Any:
        return Forked(*line, **options)


async def test_it_holds_and_finds_what_is_planted(tmp_path: Path) -> None:
    """Three faults are put into the story of one run: a message that is gone, one shown twice, one done twice."""
    said: list[str] = []
    raw = {"agents": {"defaults": {"model": {"primary": "anthropic/x"}}}, "channels": {"telegram": {"botToken": "t"}}}
    torture = Quick(str(tmp_path), raw, 7, said.append)
    report = await torture.run(4.0)
    assert not report.failed, format_report(report)
    assert report.left_out == ["channels"] and report.sent["chat"] and report.sent["http"]
    assert sum(report.kills.values()) and sum(report.outcomes.values()) == sum(report.sent.values())
    assert format_report(report).startswith("left out   channels") and "\nheld: each of " in format_report(report)
    config = json.loads((tmp_path / "home" / "palinurus.json").read_text())
    assert "telegram" not in config["channels"] and config["agents"]["defaults"]["model"] == {"primary": "fake/model"}
    with closing(sqlite3.connect(tmp_path / "home" / "state.db")) as conn, conn:
        gone = conn.execute("SELECT id FROM inbox WHERE instr(body, 'http00')").fetchone()[0]
        conn.execute("DELETE FROM inbox WHERE id = ?", (gone,))
    out = Path(homes.get_spool_dir(torture.home)) / "out.jsonl"
    shown = next(line for line in out.read_text().splitlines() if "answer chat" in line)
    out.write_text(f"{out.read_text()}{shown}\n")
    (Path(homes.get_work_dir(torture.home)) / "effects.txt").write_text("chat00001\nchat00001\n")
    torture.report = TortureReport(sent=report.sent)
    torture.judge()
    found = format_report(torture.report)
    assert [line.partition(": ")[2] for line in torture.report.lost] == ["accepted, and in no inbox"]
    assert any("shown 2 times" in line for line in torture.report.doubled)
    assert "chat00001: done 2 times" in torture.report.doubled and "FAILED" in found


class Wronged(Quick):
    """Every life has a wrong clock, and the first answer of the model hangs."""

    skewed = 1.0
    hung = False

    def _answer(self, asked: ModelServerRequest) -> ScriptedResponse:
        if self.hung:
            return follow_markers(asked)
        self.hung = True
        self.report.faults["hang"] += 1
        return FAULTS["hang"](self._dice)


async def test_wrong_clocks_and_a_model_that_hangs(tmp_path: Path) -> None:
    torture = Wronged(str(tmp_path), {}, 3, lambda text: None)
    report = await torture.run(3.0)
    assert not report.failed, format_report(report)
    assert report.faults["wrong clock"] and report.faults["hang"] == 1
    now = time.time() * 1000
    assert any(abs(row["at"] - now) > 3_000_000 for row in homes.read_snapshot(torture.home).inbox), (
        "no clock was wrong"
    )


def test_a_clock_goes_wrong_when_it_is_told_to() -> None:
    shows = SKEWED.replace("from palinurus.cli.main import main\nmain()", "print(time.time(), time.time_ns() / 1e9)")
    for after, leap in (("0", 7200), ("60", 0)):
        done = subprocess.run([sys.executable, "-c", shows, "7200", after], capture_output=True, text=True, check=True)
        assert [round((float(word) - time.time()) / 3600) * 3600 for word in done.stdout.split()] == [leap, leap]


def test_a_copy_reaches_nobody() -> None:
    raw = {
        "models": {"providers": {"openai": {"apiKey": "sk-1"}}},
        "gateway": {"auth": {"token": "mine"}},
        "mcp": {"servers": {"x": {"command": "y"}}},
        "plugins": {},
        "session": {"dmScope": "per-peer"},
        "agents": {
            "defaults": {"model": "a/b", "workspace": "/home/me", "timeoutSeconds": 60},
            "list": [{"id": "main", "heartbeat": {"every": "5m", "model": "a/b"}}, "odd"],
        },
    }
    assert homes.copy_config(raw) == {
        "session": {"dmScope": "per-peer"},
        "agents": {"defaults": {"timeoutSeconds": 60}, "list": [{"id": "main"}]},
    }
