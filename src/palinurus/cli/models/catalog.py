"""`pal models`: which models there are, and where their keys come from. Shows names of variables, never values.

`thinking`, `pull` and `use`, `add`, `fallbacks`, `aliases` (`choose`) have files of their own.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from palinurus.cli import main
from palinurus.cli.args import CommandParser, load_settings, load_vendors, to_json
from palinurus.cli.models import choose, pull, thinking
from palinurus.cli.reach.elsewhere import find_elsewhere, refuse_elsewhere
from palinurus.cli.reach.gateway import call_gateway
from palinurus.clock import SystemClock
from palinurus.config import load, paths
from palinurus.config.settings import Settings
from palinurus.core.types.model import ModelFailure, ModelSpec
from palinurus.errors import NotFound
from palinurus.providers import VENDORS, credentials
from palinurus.providers.catalog import Catalog
from palinurus.providers.local.capabilities import ModelCapabilities, save_capabilities
from palinurus.providers.local.probe import probe_tool_calls
from palinurus.providers.probe import probe_ollama
from palinurus.providers.signin.vault import describe_signins, name_login
from palinurus.providers.stream import ProviderModels

# `pal models probe REF`: ask a model once to use a tool, and remember what it did.


def run_models_probe(argv: list[str]) -> int:
    """0 if the model calls tools. Raises NotFound for a model nobody knows."""
    parser = CommandParser("models probe", "Ask a model once to use a tool, and remember whether it can.")
    parser.add_argument("model", help="provider/model")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(argv)
    environ = dict(os.environ)
    found = asyncio.run(_probe(options.model, environ))
    line = f"{options.model}: tool calls: {found.calls}" + (f" ({found.problem})" if found.problem else "")
    print(to_json({"model": options.model, "calls": found.calls, "problem": found.problem}) if options.json else line)
    return 0 if found.calls in ("structured", "text") else 1


async def _probe(ref: str, environ: dict[str, str]) -> ModelCapabilities:
    settings = load_settings(environ).settings
    catalog = Catalog(settings, environ)
    info = catalog.find(ref, settings.agents[settings.default_agent])
    if isinstance(info, ModelFailure):
        raise NotFound(info.message.partition("; `pal models`")[0], fix="`pal models` lists what can be used")
    clock = SystemClock()
    models = ProviderModels(catalog, clock)
    try:
        found = await probe_tool_calls(models, info, now=clock.now())
    finally:
        await models.close()
    save_capabilities(settings.home, info, found)
    return found


PARTS: dict[str, Callable[[list[str]], int]] = {
    "thinking": thinking.run_models_thinking,
    "pull": pull.run_models_pull,
    "probe": run_models_probe,
    "use": choose.run_models_use,
    "set": choose.run_models_use,  # OpenClaw's word
    "add": choose.run_models_add,
    "fallbacks": choose.run_models_fallbacks,
    "login": lambda argv: main.load_part(main.PARTS["model-login"])(argv),  # type: ignore[operator]
    "logout": lambda argv: main.load_part(main.PARTS["model-logout"])(argv),  # type: ignore[operator]
    "aliases": choose.run_models_aliases,
}


def run_models(argv: list[str]) -> int:
    """Exit code 0; raises PalinurusError when the config cannot be read."""
    far = find_elsewhere(os.environ)
    if argv and argv[0] in PARTS:
        if far is not None and not {"-h", "--help"} & set(argv):
            raise refuse_elsewhere(far, f"models {argv[0]}", "models list, models status; the page, under Models")
        return PARTS[argv[0]](argv[1:])
    parser = CommandParser("models", "Models and their providers.")
    parser.add_argument(
        "what",
        nargs="?",
        choices=("list", "status", *PARTS),
        default="list",
        help="list (default); status: the default and where keys come from; "
        "thinking REF: its levels and what each sends; pull [NAME]: fetch a model that runs here; "
        "probe REF: does it call tools? use REF: make it the default; add PROVIDER or ADDRESS; "
        "fallbacks [add|remove|clear]; aliases [add|remove]; login VENDOR, logout VENDOR: instead of a key",
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(argv)
    if far is not None:
        told = _ask_models(far) if options.what == "list" else _ask_providers(far)
    else:
        catalog = load_catalog(os.environ)
        told = list_models(catalog) if options.what == "list" else describe_providers(catalog)
    if options.json:
        sys.stdout.write(to_json(told, pretty=True) + "\n")
    else:
        sys.stdout.write((_lines if options.what == "list" else _report)(told) + "\n")
    return 0


def _ask_models(far: Settings) -> dict[str, Any]:
    """As `list_models`, of the gateway elsewhere."""
    default = _ask_default(far)
    shown = call_gateway(far, "models.list", {})["models"]
    keys = [f"{model['provider']}/{model['id']}" for model in shown]
    return {"models": [{**m, "key": key, "default": key == default} for key, m in zip(keys, shown, strict=True)]}


def _ask_providers(far: Settings) -> dict[str, Any]:
    """As `describe_providers`; addresses and sign-ins stay there."""
    known = call_gateway(far, "models.authStatus", {})["providers"]
    providers = [{"id": one["provider"], "baseUrl": "", "key": one["source"] or "not needed"} for one in known]
    nothing: dict[str, Any] = {"problem": "", "fallbacks": [], "ollama": [], "signIns": []}
    return {"default": _ask_default(far), "providers": providers, **nothing}


def _ask_default(far: Settings) -> str:
    told = call_gateway(far, "agents.list", {})
    return next((str(one["model"]["primary"]) for one in told["agents"] if one["id"] == told["defaultId"]), "")


def load_catalog(environ: Mapping[str, str]) -> Catalog:
    """The catalog of this home, an Ollama that is running included. Raises PalinurusError."""
    loaded = load.load_config(paths.find_home(environ), environ)
    catalog = Catalog(loaded.settings, environ, ollama=asyncio.run(probe_ollama()))
    catalog.vendors = load_vendors(loaded.settings)
    return catalog


def list_models(catalog: Catalog) -> dict[str, Any]:
    """Every model that can be used, the default marked."""
    agent = catalog.settings.agents[catalog.settings.default_agent]
    default = catalog.default(agent)
    models = {m.ref: m for m in catalog.all(agent)}
    if default.api:
        models.setdefault(default.ref, default)
    return {"models": [_facts(m, m.ref == default.ref) for m in models.values()]}


def describe_providers(catalog: Catalog) -> dict[str, Any]:
    """The default model, and each provider that is configured or has a key."""
    agent = catalog.settings.agents[catalog.settings.default_agent]
    default = catalog.default(agent)
    providers = []
    for name in dict.fromkeys((*catalog.settings.providers, *VENDORS)):
        vendor, configured = catalog.vendor(name), catalog.provider(name)
        key = catalog.key_source(name)
        if configured is None and not key and not (name == "ollama" and catalog.ollama):
            continue
        base = (configured.base_url if configured else "") or (vendor.base_url if vendor else "")
        base = credentials.resolve_base_url(base, vendor, catalog.environ)
        keyless = vendor is not None and vendor.keyless
        providers.append({"id": name, "baseUrl": base, "key": key or ("not needed" if keyless else "missing")})
    return {
        "default": str(default.ref) if default.api else agent.model,
        "problem": catalog.explain_missing(agent) or catalog.explain_missing_key(default),
        "fallbacks": list(agent.fallbacks),
        "ollama": list(catalog.ollama),
        "providers": providers,
        "signIns": describe_signins(catalog.vault),
    }


def _facts(model: ModelSpec, default: bool) -> dict[str, Any]:
    return {
        "key": str(model.ref),
        "name": model.name,
        "api": model.api,
        "input": ["text", "image"] if model.vision else ["text"],
        "reasoning": model.reasoning,
        "contextWindow": model.context_window,
        "maxTokens": model.max_tokens,
        "default": default,
    }


def _lines(told: dict[str, Any]) -> str:
    rows = [
        (
            ("* " if m["default"] else "  ") + m["key"],
            f"{m['contextWindow'] // 1000}k",
            "+".join(m["input"]),
            "thinks" if m["reasoning"] else "",
            m["name"],
        )
        for m in told["models"]
    ]
    wide = [max((len(row[n]) for row in rows), default=0) for n in range(4)]
    lines = ["  ".join([*(row[n].ljust(wide[n]) for n in range(4)), row[4]]).rstrip() for row in rows]
    return "\n".join([*lines, "", "* is the default; `pal models use PROVIDER/MODEL` changes it"])


def _report(told: dict[str, Any]) -> str:
    lines = [f"default model  {told['default']}"]
    if told["problem"]:
        lines.append(f"  problem: {told['problem']}")
    if told["fallbacks"]:
        lines.append(f"fallbacks      {', '.join(told['fallbacks'])}")
    for provider in told["providers"]:
        key = provider["key"]
        where = key if key in ("missing", "not needed") else f"from {key}"
        lines.append(f"{provider['id']:<14} {provider['baseUrl']}  key: {where}")
    if told["signIns"]:
        lines += ["", "signed in", *describe_signed_in(told["signIns"], SystemClock().now())]
    if told["default"] == "builtin/demo":
        lines.append("No key was found: the scripted demo answers. Set ANTHROPIC_API_KEY or OPENAI_API_KEY, start")
        lines.append("Ollama, or run `pal setup`.")
    return "\n".join(lines)


def describe_signed_in(rows: list[dict[str, Any]], now: int) -> list[str]:
    """Lines for `pal models status`."""
    lines = []
    for row in rows:
        who = f"{row['id']} ({row['account']})" if row["account"] else row["id"]
        until = datetime.fromtimestamp(row["expires"] / 1000).strftime("%Y-%m-%d %H:%M") if row["expires"] else ""
        state = f"until {until}" if until else "for as long as the vendor lets it"
        if row["renews"] and until:
            state += ", renewed by itself" if row["expires"] > now else " (ended; renewed with the next call)"
        if row["problem"]:
            state = f"signed out: {row['problem']}; {name_login(row['provider'])}"
        lines.append(f"{who}  {state}  ({row['where']})")
    return lines
