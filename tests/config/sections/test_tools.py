"""tools.exec: when commands go on in the background, and what then."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from palinurus.config.schema.tools import ExecSection
from palinurus.config.sections.tools import ProcessSettings, confines_patches, resolve_processes


def section(**told: Any) -> ExecSection:
    return msgspec.convert(told, ExecSection)


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
    assert resolve_processes(section(**told)) == expected


def test_patches_stay_in_the_workspace_unless_told() -> None:
    assert confines_patches(section()) and confines_patches(section(applyPatch={"enabled": True}))
    assert not confines_patches(section(applyPatch={"workspaceOnly": False}))
