"""Which program does a run, if not our own loop. How programs are spoken to is in `programs.py`, which nobody needs who
has none.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Protocol

from palinurus import late
from palinurus.agent.plan.runplan import RunPlan
from palinurus.agent.ports import RunPorts
from palinurus.config.settings import Settings
from palinurus.core.prompt.facts import FileFact
from palinurus.core.types.events import RunEvent
from palinurus.core.types.keys import SessionKey
from palinurus.store.port import Store

WorkspaceFiles = Callable[[str, SessionKey], tuple[FileFact, ...]]


class ProgramRuntime(Protocol):
    """A run done by another program."""

    def __call__(self, plan: RunPlan, ports: RunPorts) -> AsyncGenerator[RunEvent, None]: ...


class Runtimes:
    """One per configuration."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], store: Store, files: WorkspaceFiles) -> None:
        self._settings = settings
        self._needs = (settings, environ, store, files)
        self._busy: list[str] = []  # kinds of programs that are at work

    def of(self, plan: RunPlan) -> ProgramRuntime | None:
        """Who does this run; None: our own loop."""
        ref = plan.model.ref
        name = self._settings.runtimes.choose_program(plan.route.agent, ref.provider, ref.model)
        return partial(late.load_part("programs")(*self._needs, busy=self._busy).run, name) if name else None
