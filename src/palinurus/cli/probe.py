"""`pal models probe REF`: ask a model once to use a tool, and remember what it did."""

from __future__ import annotations

import asyncio
import os

from palinurus.cli.args import CommandParser, load_settings
from palinurus.clock import SystemClock
from palinurus.core.types.model import ModelFailure
from palinurus.errors import NotFound
from palinurus.providers.catalog import Catalog
from palinurus.providers.local.ability import ModelCapabilities, save_capabilities
from palinurus.providers.local.ask import probe_tool_calls
from palinurus.providers.stream import ProviderModels


def run_models_probe(argv: list[str]) -> int:
    """0 if the model calls tools. Raises NotFound for a model nobody knows."""
    parser = CommandParser("models probe", "Ask a model once to use a tool, and remember whether it can.")
    parser.add_argument("model", help="provider/model")
    options = parser.parse_args(argv)
    environ = dict(os.environ)
    found = asyncio.run(_probe(options.model, environ))
    print(f"{options.model}: tool calls: {found.calls}" + (f" ({found.problem})" if found.problem else ""))
    return 0 if found.calls in ("structured", "text") else 1


async def _probe(ref: str, environ: dict[str, str]) -> ModelCapabilities:
    settings = load_settings(environ).settings
    catalog = Catalog(settings, environ)
    info = catalog.find(ref, settings.agents[settings.default_agent])
    if isinstance(info, ModelFailure):
        raise NotFound(info.message, fix="`pal models` lists what can be used")
    clock = SystemClock()
    models = ProviderModels(catalog, clock)
    try:
        found = await probe_tool_calls(models, info, now=clock.now())
    finally:
        await models.close()
    save_capabilities(settings.home, info, found)
    return found
