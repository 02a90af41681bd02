"""`tools.exec`, as far as it is about commands that go on in the background, with every default applied. Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from palinurus.config.findings import ConfigFinding
from palinurus.config.schema import Config
from palinurus.config.schema.tools import ExecSection, TaintSection, ToolsSection
from palinurus.core.types.approval import SAFE_HOSTS, TaintRules

# `tools.taint` with every default applied: what passes unasked after untrusted content was read. Pure.

_HOST = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+")


def resolve_taint(section: ToolsSection, findings: list[ConfigFinding]) -> TaintRules:
    """The rules. `hosts` adds to those we know; a host that is none is a finding and is left out."""
    told = section.taint or TaintSection()
    hosts = []
    for host in told.hosts or ():
        name = host.strip().lower().rstrip(".")
        if _HOST.fullmatch(name) and not name.rpartition(".")[2].isdigit():
            hosts.append(name)
        else:
            findings.append(
                ConfigFinding(("tools", "taint", "hosts"), f"{host!r} is no host name", "write docs.example.org")
            )
    allow = tuple(dict.fromkeys(name.strip() for name in told.allow or () if name.strip()))
    return TaintRules(told.enabled is not False, allow, (*SAFE_HOSTS, *hosts))


# tools.message: where a turn may write besides the chat it answers. Pure.


class MessageToolRules(msgspec.Struct, frozen=True):
    """Other chats than the one a turn answers. What is no yes or no counts as not written."""

    within: bool = True  # crossContext.allowWithinProvider: on the same channel
    across: bool | None = None  # crossContext.allowAcrossProviders: to other channels; None: for the owner only
    broadcast: bool = True  # broadcast.enabled: several at once


def resolve_messaging(config: Config) -> MessageToolRules:
    """The settings."""
    section: dict[str, Any] = (config.tools.message if config.tools else None) or {}
    cross, many = (_section(section.get(name)) for name in ("crossContext", "broadcast"))
    usual = MessageToolRules()
    return MessageToolRules(
        bool(_flag(cross.get("allowWithinProvider"), usual.within)),
        _flag(cross.get("allowAcrossProviders"), _flag(section.get("allowCrossContextSend"), usual.across)),
        bool(_flag(many.get("enabled"), usual.broadcast)),
    )


def _section(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _flag(value: Any, usual: bool | None) -> bool | None:
    return value if isinstance(value, bool) else usual


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
