from __future__ import annotations

import socket
from pathlib import Path

import pytest

from palinurus.cli.doctor import run
from palinurus.cli.setup import run as setup


@pytest.fixture
def sound(demo: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (demo / "palinurus.json").write_text(
        f'{{agents: {{defaults: {{model: "builtin/demo"}}}}, gateway: {{port: {port}}}}}'
    )
    setup(["--non-interactive"])
    capsys.readouterr()
    return demo


def test_a_sound_home(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    out = capsys.readouterr().out
    assert "fail" not in out and out.count("\nok") >= 7


def test_loose_modes_are_found_and_fixed(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (sound / "gateway.token").chmod(0o644)
    sound.chmod(0o755)
    assert run([]) == 1
    out = capsys.readouterr().out
    assert "gateway.token can be read by others (mode 644)" in out and "chmod 600" in out
    (sound / "gateway.token").chmod(0o644)
    assert run(["--fix"]) == 0
    assert (sound / "gateway.token").stat().st_mode & 0o777 == 0o600
    assert run([]) == 0


def test_a_broken_config(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (sound / "palinurus.json").write_text('{"gateway": {"port": }')
    assert run([]) == 1
    out = capsys.readouterr().out
    assert "fail  config:" in out and "last good copy" in out


def test_a_broken_database(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (sound / "state.db").write_bytes(b"this is no database" * 500)
    (sound / "state.db").chmod(0o600)
    assert run([]) == 1
    assert "fail  database:" in capsys.readouterr().out


def test_a_broken_transcript_is_a_warning(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = sound / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    for made in (sound / "agents", sound / "agents" / "main", folder):
        made.chmod(0o700)
    (folder / "x.jsonl").write_text('{"type":"session","version":3,"id":"x","timestamp":"","cwd":"/"}\n{"type":"mess')
    (folder / "x.jsonl").chmod(0o600)
    assert run([]) == 0
    assert "x.jsonl: 1 broken lines" in capsys.readouterr().out


def test_a_taken_port(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        (sound / "palinurus.json").write_text(f"{{gateway: {{port: {port}}}}}")
        assert run([]) == 1
    assert f"port: 127.0.0.1:{port}" in capsys.readouterr().out


def test_no_home_yet(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run([])
    assert "does not exist yet" in capsys.readouterr().out
    assert not home.exists()
