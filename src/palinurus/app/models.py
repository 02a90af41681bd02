"""The model port as a run sees it: providers, cassette, budgets and the watch over the prompt cache, one around
the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from palinurus.agent.watch import Watch, Watched
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.model import Model
from palinurus.providers.budget import Budgets
from palinurus.providers.cassette import wrap
from palinurus.providers.catalog import Catalog
from palinurus.providers.meter import Metered
from palinurus.providers.rotation import Rotation
from palinurus.providers.stream import Models
from palinurus.store.port import Store

Defer = Callable[[Callable[[], None]], None]


def providers(settings: Settings, catalog: Catalog, clock: Clock) -> Models:
    """Every model there is, with the keys it takes turns with. To be closed by who made it."""
    return Models(catalog, clock, keys=Rotation(clock, settings.home))


def recorded(model: Model, environ: Mapping[str, str]) -> Model:
    """With a cassette in between, if PALINURUS_CASSETTE asks for one."""
    return wrap(model, environ.get("PALINURUS_CASSETTE", ""))


def watched(model: Model, settings: Settings, store: Store, clock: Clock, defer: Defer) -> tuple[Model, Watch]:
    """Within budgets, and with each request's prefix remembered; the watch is to be flushed at the end."""
    zone = settings.agents[settings.default_agent].user_timezone
    metered = Metered(model, Budgets(settings.budgets, store, clock, zone))
    watch = Watch(settings.home, defer=defer)
    return Watched(metered, watch, clock), watch
