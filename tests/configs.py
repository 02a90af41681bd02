"""A config as the program reads it, without a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palinurus.config.check import check_config
from palinurus.config.findings import ConfigFinding, ConfigPlace
from palinurus.config.resolve import resolve_settings
from palinurus.config.schema import convert_config
from palinurus.config.settings import Settings


def read_settings(
    raw: dict[str, Any], environ: Mapping[str, str] | None = None, home: str = "/s"
) -> tuple[Settings, list[ConfigFinding]]:
    """The settings and what was found, besides kinds: those must be right, but where a slip costs only itself."""
    report = check_config(raw)
    assert not any(finding.fatal for finding in report.wrong), report.wrong
    here = ConfigPlace(home, {"HOME": "/u", **(environ or {})}, [*report.late])
    return resolve_settings(convert_config(raw, here), here, "v"), here.findings
