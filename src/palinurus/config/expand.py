"""`${VAR}` in config texts, and the few corrections every value needs. Pure: the variables are handed in.

`${VAR}` is the variable, `${VAR:-text}` has a fallback, `$${VAR}` stays `${VAR}`. Only upper-case names count, as in
OpenClaw, so that templates such as `${name}` inside prompts are left alone. An empty variable counts as missing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from palinurus.config.findings import ConfigFinding, suggest_nearest
from palinurus.config.keypath import Path
from palinurus.patterns import compile_late

_VARIABLE = compile_late(r"\$?\$\{([A-Z_][A-Z0-9_]*)(?::-([^${}]*))?\}")
_LOWER = compile_late(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_WIDE = 2**63
_EXACT = 2**53  # above, a float is no longer a certain whole number


def collect_variables(raw: Any, environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` on top of what the config's own `env` section declares."""
    declared: dict[str, str] = {}
    section = raw.get("env") if isinstance(raw, dict) else None
    if isinstance(section, dict):
        for source in (section, section.get("vars")):
            if isinstance(source, dict):
                declared.update((k, v) for k, v in source.items() if isinstance(v, str))
    declared.update((k, v) for k, v in environ.items() if v)
    return declared


def expand_variables(value: Any, env: Mapping[str, str], findings: list[ConfigFinding], path: Path = ()) -> Any:
    """A copy of `value` with variables filled in and `1e3` read as 1000. What cannot be is added to `findings`."""
    if isinstance(value, dict):
        off = value.get("enabled") is False or value.get("disabled") is True
        said = [] if off else findings  # what is switched off needs no variables
        return {k: expand_variables(v, env, said, (*path, k)) for k, v in value.items()}
    if isinstance(value, list):
        return [expand_variables(v, env, findings, (*path, i)) for i, v in enumerate(value)]
    if isinstance(value, str):
        return _text(value, env, findings, path) if "${" in value else value
    if isinstance(value, int) and not -_WIDE <= value < _WIDE:
        findings.append(ConfigFinding(path, "the number is too large"))
        return 0
    if isinstance(value, float):
        if not math.isfinite(value):
            findings.append(ConfigFinding(path, "must be a finite number"))
            return 0
        if value.is_integer() and abs(value) < _EXACT:
            return int(value)
    return value


def _text(value: str, env: Mapping[str, str], findings: list[ConfigFinding], path: Path) -> str:
    lower = _LOWER.fullmatch(value)
    if lower and not _VARIABLE.fullmatch(value):
        name = lower[1].upper()
        findings.append(
            ConfigFinding(path, f"${{{lower[1]}}} is taken literally", f"write ${{{name}}} for a variable", False)
        )
        return value

    def fill(found: re.Match[str]) -> str:
        if found[0].startswith("$$"):
            return found[0][1:]
        name, fallback = found[1], found[2]
        if env.get(name):
            return env[name]
        if fallback is not None:
            return fallback
        hint = suggest_nearest(name, env) or f"set {name}, or write ${{{name}:-text}} for a fallback"
        missing.append(ConfigFinding(path, f"the environment variable {name} is not set", hint))
        return ""

    missing: list[ConfigFinding] = []
    made = _VARIABLE.sub(fill, value)
    findings.extend(missing)
    return "" if missing else made  # half a path or an address would lead somewhere else
