"""agents.defaults.compaction: defaults, and what each key becomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.config.load import load_config
from palinurus.config.sections.context import CompactionSettings, MemoryFlushSettings


def settings(tmp_path: Path, section: dict[str, Any]) -> CompactionSettings:
    (tmp_path / "palinurus.json").write_text(json.dumps({"agents": {"defaults": {"compaction": section}}}))
    return load_config(str(tmp_path), {}).settings.compaction


def test_nothing_written_is_the_defaults(tmp_path: Path) -> None:
    assert settings(tmp_path, {}) == CompactionSettings()


def test_every_key(tmp_path: Path) -> None:
    made = settings(
        tmp_path,
        {
            "mode": "safeguard", "reserveTokens": 1, "reserveTokensFloor": 0, "keepRecentTokens": 3,
            "maxHistoryShare": 0.3, "recentTurnsPreserve": 0, "qualityGuard": {"maxRetries": 9},
            "identifierPolicy": "custom", "identifierInstructions": " ids ", "customInstructions": "be brief",
            "model": "a/b", "timeoutSeconds": 5, "notifyUser": True, "maxActiveTranscriptBytes": "2mb",
            "midTurnPrecheck": {"enabled": False},
            "memoryFlush": {"enabled": False, "softThresholdTokens": 7, "forceFlushTranscriptBytes": 0, "prompt": "p",
                            "systemPrompt": "s", "model": "m"},
        },
    )  # fmt: skip
    flush = MemoryFlushSettings(False, 7, 0, "p", "s", "m")
    wanted = (1, 0, 3, True, 0.3, 0, 3, "custom", "ids", "be brief", "a/b", 5.0, True, 2 << 20, False, flush)
    assert made == CompactionSettings(*wanted)


@pytest.mark.parametrize(
    ("section", "retries"),
    [({"mode": "default"}, 0), ({"qualityGuard": {"enabled": False}}, 0), ({"qualityGuard": {"maxRetries": "x"}}, 2)],
)
def test_how_often_a_poor_summary_is_tried_again(tmp_path: Path, section: dict[str, Any], retries: int) -> None:
    assert settings(tmp_path, section).retries == retries
