from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import msgspec
import pytest

from palinurus.cli.doctor import run_doctor
from palinurus.cli.setup import run_setup as setup
from palinurus.clock import SystemClock
from palinurus.core.schedule.fire import AtSchedule
from palinurus.core.schedule.job import CronJob, CronJobState, CronPayload
from palinurus.core.types.approval import ApprovalRequest
from palinurus.services.approvals import KIND, ApprovalRow
from palinurus.store.factory import open_store
from palinurus.triggers.jobs import JOB, STATE
from ports import reserve_port


@pytest.fixture
def sound(demo: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    setup(["--non-interactive"])
    capsys.readouterr()
    return demo


def test_a_sound_home(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_doctor([]) == 0
    out = capsys.readouterr().out
    assert "fail" not in out and out.count("\nok") >= 7


def test_loose_modes_are_found_and_fixed(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (sound / "gateway.token").chmod(0o644)
    sound.chmod(0o755)
    assert run_doctor([]) == 1
    out = capsys.readouterr().out
    assert "gateway.token can be read by others (mode 644)" in out and "chmod 600" in out
    (sound / "gateway.token").chmod(0o644)
    assert run_doctor(["--fix"]) == 0
    assert (sound / "gateway.token").stat().st_mode & 0o777 == 0o600
    assert run_doctor([]) == 0


def test_a_broken_config(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (sound / "palinurus.json").write_text('{"gateway": {"port": }')
    assert run_doctor([]) == 1
    out = capsys.readouterr().out
    assert "fail  config:" in out and "last good copy" in out


def test_a_broken_database(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (sound / "state.db").write_bytes(b"this is no database" * 500)
    (sound / "state.db").chmod(0o600)
    assert run_doctor([]) == 1
    assert "fail  database:" in capsys.readouterr().out


def test_what_runs_changed_is_no_transcript(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = sound / "changes" / "runs"
    folder.mkdir(parents=True)
    (folder / "01m7.jsonl").write_text('{"at": 1}\n')
    run_doctor([])
    assert "broken" not in capsys.readouterr().out


def test_a_broken_transcript_is_a_warning(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = sound / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    for made in (sound / "agents", sound / "agents" / "main", folder):
        made.chmod(0o700)
    (folder / "x.jsonl").write_text('{"type":"session","version":3,"id":"x","timestamp":"","cwd":"/"}\n{"type":"mess')
    (folder / "x.jsonl").chmod(0o600)
    assert run_doctor([]) == 0
    assert "x.jsonl: 1 broken lines" in capsys.readouterr().out


def test_a_taken_port(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        (sound / "palinurus.json").write_text(f"{{gateway: {{port: {port}}}}}")
        assert run_doctor([]) == 1
    assert f"port: 127.0.0.1:{port}" in capsys.readouterr().out


def test_no_home_yet(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_doctor([])
    assert "does not exist yet" in capsys.readouterr().out
    assert not home.exists()


def test_rules_for_commands_that_cannot_be_read(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = sound / "exec-approvals.json"
    file.write_text('{"version": 1, "agents": {"main": {"allowlist": [{"pattern": "a/../b"}]}}}')
    file.chmod(0o600)
    assert run_doctor([]) == 0
    assert "the rule 'a/../b' for main is never used" in capsys.readouterr().out
    file.write_text("{")
    assert run_doctor([]) == 1
    assert "every command is denied" in capsys.readouterr().out


async def _jobs(home: Path) -> None:
    store = await open_store(str(home), SystemClock())
    try:
        job = CronJob("j1", "tidy up", AtSchedule(0), CronPayload("systemEvent", "x"), "main", "main", 0, 0)
        await store.put_record(JOB, "j1", msgspec.json.encode(job))
        await store.put_record(
            STATE, "j1", msgspec.json.encode(CronJobState(0, consecutive_errors=4, last_error="no\x1b[31m"))
        )
        await store.put_record(JOB, "j2", b"{")
        ask = ApprovalRequest("exec", "main", "agent:main:main", "r", "c", "exec", "run", "ls")
        for ident, expires in (("a", 2**60), ("b", 1)):
            await store.put_record(KIND, ident, msgspec.json.encode(ApprovalRow(ident, "d", ask, 0, expires)))
    finally:
        await store.close()


def test_jobs_that_fail_and_questions_that_wait(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(_jobs(sound))
    assert run_doctor([]) == 0
    out = capsys.readouterr().out
    assert "warn  jobs: tidy up failed 4 times in a row: no[31m" in out and "pal cron why j1" in out
    assert "jobs: 1 wait, but they run only while the gateway does" in out
    assert "approvals: 1 question waiting" in out


def test_the_model_is_asked_only_when_told_to(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_doctor(["--ask"]) == 0
    assert "ok    model: builtin/demo answers" in capsys.readouterr().out
    assert run_doctor([]) == 0
    assert "demo answers" not in capsys.readouterr().out
    text = (sound / "palinurus.json").read_text()
    (sound / "palinurus.json").write_text(text.replace("builtin/demo", "openai/nosuch"))
    assert run_doctor(["--ask"]) == 1
    assert "fail  model: openai/nosuch does not answer: " in capsys.readouterr().out


def test_the_faces_are_looked_at(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_doctor([])
    out = capsys.readouterr().out
    assert "chat: full screen" in out and "web page: " in out


def test_channels_and_servers_that_cannot_work_are_named(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Issue 27, finding 23."""
    (sound / "palinurus.json").write_text(
        f"""{{agents: {{defaults: {{model: "builtin/demo"}}}}, gateway: {{port: {reserve_port()}}},
        channels: {{irc: {{enabled: true, nick: "pal"}}, spool: {{enabled: true, dir: "{sound}/spool"}},
        webhook: {{enabled: false, url: "https://h.example", secret: "s3cret-of-it"}}}},
        mcp: {{servers: {{gone: {{command: "no-such-program"}}, sh: {{command: "sh"}},
        off: {{command: "nothing", enabled: false}}}}}}}}"""
    )
    run_doctor([])
    out = capsys.readouterr().out
    assert "warn  channel irc/default: " in out and "host" in out
    assert (
        "ok    channel spool/default: set up; no gateway runs" in out and "ok    channel webhook: switched off" in out
    )
    assert "warn  MCP server gone: no-such-program is not there" in out and "s3cret" not in out
    assert "ok    MCP server sh: set up" in out and "ok    MCP server off: switched off" in out


@pytest.mark.seed(251)
def test_what_the_files_weigh_on_disk_and_in_the_prompt(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (sound / "workspace" / "SOUL.md").write_text("short")
    assert run_doctor([]) == 0
    assert "SOUL.md 5" in capsys.readouterr().out
    (sound / "workspace" / "AGENTS.md").write_text("x" * 20_000)
    assert run_doctor([]) == 0
    out = capsys.readouterr().out
    assert "warn  prompt of main: AGENTS.md has 20000 characters, " in out and "bootstrapMaxChars" in out
