"""Who makes room in long conversations, wired: the summarising model, the pinned keys, what still stands."""

from __future__ import annotations

from typing import NamedTuple

from palinurus.agent.compaction import CompactionCoordinator
from palinurus.agent.shorten import CompactionServices, Mark, Standing
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.model import Model
from palinurus.plugins.hooks import Hooks
from palinurus.providers.catalog import Catalog
from palinurus.providers.stream import ProviderModels


class CompactionCallbacks(NamedTuple):
    """`standing` says what a session has open besides its messages; `mark` notes what is written under taint."""

    standing: Standing = lambda session: ()
    mark: Mark | None = None


def make_compactions(
    settings: Settings,
    model: Model,
    providers: ProviderModels | None,
    catalog: Catalog,
    hooks: Hooks,
    clock: Clock,
    family: CompactionCallbacks,
) -> CompactionCoordinator:
    """One for the program."""

    def forget(session: str) -> None:
        if providers is not None:
            providers.forget(session)

    shared = (settings.compaction, settings.agents, model, catalog, hooks, clock)
    return CompactionCoordinator(CompactionServices(*shared, family.standing, forget, family.mark))
