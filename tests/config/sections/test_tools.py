"""tools.exec: when commands go on in the background, and what then."""

from __future__ import annotations

from typing import Any

import pytest

from configs import read_settings
from palinurus.config.sections.tools import ExecSettings, ProcessSettings


def read(**told: Any) -> ExecSettings:
    return read_settings({"tools": {"exec": told}})[0].tools.exec


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, ProcessSettings(10_000, 1800.0, True, False)),
        ({"backgroundMs": 1}, ProcessSettings(yield_ms=10)),
        ({"backgroundMs": 999_999}, ProcessSettings(yield_ms=120_000)),
        ({"cleanupMs": 1}, ProcessSettings(cleanup=60.0)),
        ({"cleanupMs": 99_999_999}, ProcessSettings(cleanup=10_800.0)),
        ({"notifyOnExit": False}, ProcessSettings(notify=False)),
        ({"notifyOnExitEmptySuccess": True}, ProcessSettings(notify_empty=True)),
    ],
)
def test_defaults_and_ranges(told: dict[str, Any], expected: ProcessSettings) -> None:
    assert read(**told).process == expected


def test_patches_stay_in_the_workspace_unless_told() -> None:
    assert read().patch_workspace_only and read(applyPatch={"enabled": True}).patch_workspace_only
    assert not read(applyPatch={"workspaceOnly": False}).patch_workspace_only
