"""`tools.taint` with every default applied: what passes unasked after untrusted content was read. Pure."""

from __future__ import annotations

import re

from palinurus.config.check import ConfigFinding
from palinurus.config.schema.tools import TaintSection, ToolsSection
from palinurus.core.types.taint import SAFE_HOSTS, TaintRules

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
