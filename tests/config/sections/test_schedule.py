"""heartbeat and cron of the config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palinurus.config.load import load_config
from palinurus.core.schedule.heartbeat import HeartbeatHours


def settings(home: Path, **config: Any) -> Any:
    home.mkdir(exist_ok=True)
    (home / "palinurus.json").write_text(json.dumps(config))
    return load_config(str(home), {}).settings


def test_defaults_and_every_key(tmp_path: Path) -> None:
    plain = settings(tmp_path / "a").heartbeats["main"]
    assert (plain.every, plain.target, plain.ack_chars, plain.timeout) == (1800.0, "none", 300, 600.0)
    beat = {
        "every": "10m", "target": "Telegram", "to": "42", "accountId": "work", "model": "x/y", "session": "main",
        "lightContext": True, "isolatedSession": True, "includeReasoning": True, "ackMaxChars": 5, "skipWhenBusy": True,
        "timeoutSeconds": 30, "prompt": " Look. ", "directPolicy": "block", "watch": " git log -1 ",
        "activeHours": {"start": "08:00", "end": "22:00", "timezone": "user"},
    }  # fmt: skip
    defaults = {"heartbeat": beat, "userTimezone": "Europe/Berlin"}
    own = settings(tmp_path / "b", agents={"defaults": defaults}).heartbeats["main"]
    assert (own.every, own.target, own.to, own.account, own.model) == (600.0, "telegram", "42", "work", "x/y")
    assert (own.direct, own.watch, plain.direct, plain.watch) == ("block", "git log -1", "allow", "")
    assert own.light and own.isolated and own.reasoning and own.skip_busy and own.prompt == "Look."
    assert (own.ack_chars, own.timeout, own.hours, own.timezone) == (
        5,
        30.0,
        HeartbeatHours(480, 1320),
        "Europe/Berlin",
    )


def test_agents_with_a_block_of_their_own_beat_alone(tmp_path: Path) -> None:
    agents = {"defaults": {"heartbeat": {"every": "5m"}}, "list": [{"id": "a"}, {"id": "b", "heartbeat": {"to": "1"}}]}
    found = settings(tmp_path / "a", agents=agents).heartbeats
    assert {key: beat.every for key, beat in found.items()} == {"b": 300.0}
    for word in ("0m", "off", "never", False):
        assert settings(tmp_path / "b", agents={"defaults": {"heartbeat": {"every": word}}}).heartbeats == {}


def test_cron(tmp_path: Path) -> None:
    made = settings(
        tmp_path / "a",
        cron={"enabled": False, "webhook": "https://e.org", "webhookToken": "s3cret", "runLog": {"keepLines": 7}},
        agents={"defaults": {"userTimezone": "Asia/Tokyo"}},
    ).cron
    assert (made.enabled, made.webhook, made.runs, made.timezone) == (False, "https://e.org", 7, "Asia/Tokyo")
    assert made.webhook_token.reveal() == "s3cret" and "s3cret" not in repr(made)
