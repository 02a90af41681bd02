"""What a check looks at, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from palinurus.config.load import LoadedConfig


class DoctorFinding(NamedTuple):
    """One line of the report. `repair` does what `fix` says, when that is safe."""

    level: Literal["ok", "warn", "fail"]
    what: str
    fix: str = ""
    repair: Callable[[], object] | None = None


class DoctorCase(NamedTuple):
    """What the checks look at. `loaded` is None when the config cannot be used."""

    home: str
    environ: Mapping[str, str]
    loaded: LoadedConfig | None
    running: bool
