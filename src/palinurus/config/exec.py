"""`tools.exec`, as far as it is about commands that go on in the background, with every default applied. Pure."""

from __future__ import annotations

import msgspec

from palinurus.config.schema.tools import ExecSection

YIELD_RANGE = (10, 120_000)  # milliseconds: the range of backgroundMs and of a call's yieldMs
CLEANUP = (60_000, 10_800_000)


class ProcessSettings(msgspec.Struct, frozen=True):
    """When a command moves to the background, and what happens when it ends there."""

    yield_ms: int = 10_000
    cleanup: float = 1800.0  # seconds a finished one can still be looked at
    notify: bool = True  # its end wakes the session that started it
    notify_empty: bool = False  # … also when it succeeded and printed nothing


def resolve_processes(section: ExecSection) -> ProcessSettings:
    """The settings; values out of range are brought into it, as OpenClaw does."""
    base = ProcessSettings()
    wait, kept = section.background_ms, section.cleanup_ms
    return ProcessSettings(
        yield_ms=base.yield_ms if wait is None else clamp_between(wait, YIELD_RANGE),
        cleanup=base.cleanup if kept is None else clamp_between(kept, CLEANUP) / 1000,
        notify=section.notify_on_exit is not False,
        notify_empty=section.notify_on_exit_empty_success is True,
    )


def confines_patches(section: ExecSection) -> bool:
    """tools.exec.applyPatch.workspaceOnly: patches stay in the workspace unless that is switched off."""
    return section.apply_patch is None or section.apply_patch.workspace_only is not False


def clamp_between(value: int, between: tuple[int, int]) -> int:
    """`value`, or the end of the range that is nearer to it."""
    return min(max(value, between[0]), between[1])
