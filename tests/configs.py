"""A config as the program reads it, without a file."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from palinurus.config.findings import ConfigFinding, ConfigPlace
from palinurus.config.mend import mend_config
from palinurus.config.resolve import resolve_settings
from palinurus.config.schema import convert_config
from palinurus.config.settings import Settings


def read_settings(
    raw: dict[str, Any], environ: Mapping[str, str] | None = None, home: str = "/s"
) -> tuple[Settings, list[ConfigFinding]]:
    """The settings and what was found, but for unknown keys."""
    made = copy.deepcopy(raw)
    report = mend_config(made, None)
    here = ConfigPlace(home, {"HOME": "/u", **(environ or {})}, [*report.late])
    settings = resolve_settings(convert_config(made, here), here, "v")
    better = {finding.path for finding in here.findings}  # who reads a section may have more to say
    slips = [one for one in report.wrong if one.path not in better and (one.fatal or one.message != "unknown key")]
    return settings, [*slips, *here.findings]
