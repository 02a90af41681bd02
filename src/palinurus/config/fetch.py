"""How a secret of the config is found: written out, or where its reference says. Pure; the environment is handed in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.config.check import ConfigFinding, suggest_nearest
from palinurus.config.keypath import Path
from palinurus.config.schema.words import SecretRef, SecretText
from palinurus.config.secrets import Secret


def resolve_secret(
    value: SecretText | None,
    path: Path,
    environ: Mapping[str, str],
    findings: list[ConfigFinding],
    *,
    fatal: bool = True,
) -> Secret:
    """A secret written out, or fetched from where its reference says. Not found = a finding and an empty Secret."""
    if value is None or isinstance(value, str):
        return Secret(value or "")
    if value.source != "env":
        hint = "write it as ${NAME} and set that variable"
        findings.append(ConfigFinding(path, f"secrets from source {value.source!r} are not supported yet", hint, fatal))
        return Secret()
    found = environ.get(value.id, "")
    if not found:
        hint = suggest_nearest(value.id, environ)
        findings.append(ConfigFinding(path, f"the environment variable {value.id} is not set", hint, fatal))
    return Secret(found)


def resolve_loose_secret(value: Any, path: Path, environ: Mapping[str, str], findings: list[ConfigFinding]) -> Secret:
    """As `secret_text`, for a value the schema did not check. What is no secret at all is an empty one."""
    if isinstance(value, dict):
        try:
            value = msgspec.convert(value, SecretRef)
        except msgspec.ValidationError:
            findings.append(ConfigFinding(path, "is neither a text nor a reference to a secret", "", False))
            return Secret()
    elif not isinstance(value, str):
        return Secret()
    return resolve_secret(value, path, environ, findings, fatal=False)
