"""The model port as a run sees it: providers, cassette, budgets and the watch over the prompt cache, one around
the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from palinurus.agent.compaction.compactor import CompactionCoordinator
from palinurus.agent.compaction.shorten import CompactionServices, Mark, Standing
from palinurus.agent.promptcache import CacheWatch, WatchedModel
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.model import Model
from palinurus.plugins.hooks import Hooks
from palinurus.providers.budget import Budgets
from palinurus.providers.cassette import wrap_model
from palinurus.providers.catalog import Catalog
from palinurus.providers.meter import MeteredModel
from palinurus.providers.rotation import KeyRotation
from palinurus.providers.stream import ProviderModels
from palinurus.store.port import Store

# Who makes room in long conversations, wired: the summarising model, the pinned keys, what still stands.


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


Defer = Callable[[Callable[[], None]], None]


def make_provider_models(settings: Settings, catalog: Catalog, clock: Clock) -> ProviderModels:
    """Every model there is, with the keys it takes turns with. To be closed by who made it."""
    return ProviderModels(catalog, clock, keys=KeyRotation(clock, settings.home))


def wrap_with_cassette(model: Model, environ: Mapping[str, str]) -> Model:
    """With a cassette in between, if PALINURUS_CASSETTE asks for one."""
    return wrap_model(model, environ.get("PALINURUS_CASSETTE", ""))


def add_budgets_and_watch(
    model: Model, settings: Settings, store: Store, clock: Clock, defer: Defer
) -> tuple[Model, CacheWatch]:
    """Within budgets, and with each request's prefix remembered; the watch is to be flushed at the end."""
    zone = settings.agents[settings.default_agent].user_timezone
    metered = MeteredModel(model, Budgets(settings.budgets, store, clock, zone))
    watch = CacheWatch(settings.home, defer=defer)
    return WatchedModel(metered, watch, clock), watch
