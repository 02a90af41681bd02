"""The declared keys as one tree: what is wrong with a config, what can stand where. Pure.

The declarations of `schema` are the only source. No message quotes a secret.
"""

from __future__ import annotations

from typing import Any

from palinurus.config.findings import ConfigFinding
from palinurus.config.keypath import Path
from palinurus.config.kinds import Kind, KindReport, make_kind, name_kind
from palinurus.config.schema import Config


def check_config(raw: Any) -> KindReport:
    """Everything wrong with a whole config. Unknown keys are not fatal, all else is."""
    report = KindReport([], [])
    if isinstance(raw, dict):
        make_kind(Config).check(raw, (), report)
    else:
        text = f"the config must be an object, not {name_kind(raw)}"
        report.wrong.append(ConfigFinding((), text, "write { … } around it"))
    return report


def describe_key(path: Path) -> Kind | None:
    """The kind of the key at `path`, any inside free-form sections; None if there is no such key."""
    kind: Kind | None = make_kind(Config)
    for part in path:
        kind = kind.step(part) if kind is not None else None
    return kind


def list_keys_below(path: Path) -> list[str]:
    """The keys that can stand directly below `path`."""
    kind = describe_key(path)
    return kind.list_keys() if kind is not None else []
