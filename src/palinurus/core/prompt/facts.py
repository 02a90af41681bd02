"""What the prompt is made from. Gathered once per run by `agent/prepare`; the renderer looks at nothing else."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Mode: TypeAlias = Literal["full", "minimal", "none"]


class ToolFact(msgspec.Struct, frozen=True):
    name: str
    summary: str


class Facts(msgspec.Struct, frozen=True):
    """`stable` sections may use only what does not change from turn to turn of a session."""

    mode: Mode = "full"
    tools: tuple[ToolFact, ...] = ()
    workspace: str = ""
    timezone: str = ""
    files: tuple[tuple[str, str], ...] = ()  # injected workspace files: name, text
    agent: str = "main"
    host: str = ""
    os: str = ""
    model: str = ""
    level: str = "off"
    channel: str = ""
    extra: str = ""  # a client's own system text
