"""The order of the sections, and where the cache boundary lies. A new section is a new row."""

from __future__ import annotations

from collections.abc import Callable

from palinurus.core.prompt import sections
from palinurus.core.prompt.facts import Facts, Mode

Row = tuple[str, Callable[[Facts], str], frozenset[Mode]]

ALL: frozenset[Mode] = frozenset(("full", "minimal", "none"))
RUN: frozenset[Mode] = frozenset(("full", "minimal"))

# Above the boundary: byte-equal from turn to turn.
STABLE: tuple[Row, ...] = (
    ("identity", sections.identity, ALL),
    ("tooling", sections.tooling, RUN),
    ("safety", sections.safety, RUN),
    ("workspace", sections.workspace, RUN),
    ("time", sections.when, RUN),
    ("context", sections.context, RUN),
)

# Below: may differ between turns.
VOLATILE: tuple[Row, ...] = (
    ("extra", sections.extra, RUN),
    ("runtime", sections.runtime, RUN),
)
