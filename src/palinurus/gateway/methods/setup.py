"""setup.*: what a first run on the page needs: which models there could be, whether one answers, and writing it down.

Ours. What is tried is exactly what would be written: the change is laid over the config in memory, and one word is
asked for. Keys go in and never come out again.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from palinurus.config import paths
from palinurus.config.load import judge_config, read_config
from palinurus.config.rewrite import digest_config
from palinurus.config.settings import Settings
from palinurus.errors import PalinurusError
from palinurus.gateway.context import refuse_in_fleet, require
from palinurus.gateway.methods import config
from palinurus.gateway.rpc import ADMIN, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty, NoParams
from palinurus.inbox.commands.command import CommandContext
from palinurus.providers import VENDORS, discovery
from palinurus.providers.catalog import DEMO_REF
from palinurus.providers.probe import ADDRESS, probe_ollama

LOCAL = "ollama"  # the one local server that is looked for
SHOWN = 12  # models named for a provider
ASSUMED = " assumed"  # among the facts of a server, what it did not say

Text = Annotated[str, Meta(max_length=4096)]


class SetupChoiceParams(MethodParams, frozen=True):
    provider: NonEmpty | None = None  # None: the server at `base_url`
    model: Text = ""  # "": the first one there is
    key: Text = ""  # "": the one that is known already, or none
    base_url: Text = ""
    workspace: Text = ""  # "": where it is now
    primary: bool = True  # the model that answers from now on; else it is only there to be chosen


async def get_setup_status(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """Whether a model is missing, and which there could be. `needed`: nobody chose one and the demo answers."""
    program = call.program
    agent = program.settings.agents[program.settings.default_agent]
    found, vendor = program.catalog.default(agent), program.catalog.vendor(LOCAL)
    running = await probe_ollama(_address(program.settings))
    return {
        "needed": found.ref == DEMO_REF and not agent.model,
        "model": str(found.ref),
        "workspace": _short(agent.workspace, program.environ.get("HOME", "").rstrip("/")),
        "reload": program.settings.gateway.reload,
        "providers": _providers(program),
        "local": {"provider": LOCAL, "name": vendor.name if vendor else LOCAL, "models": list(running)},
    }


def _short(path: str, home: str) -> str:
    """As people write it."""
    return f"~{path[len(home) :]}" if home and path.startswith(f"{home}/") else path


def _providers(program: CommandContext) -> list[dict[str, Any]]:
    """Those that a key opens, the best known first. `source`: where a key was found already."""
    vendors = [vendor for name in VENDORS if (vendor := program.catalog.vendor(name)) is not None]
    return [
        {
            "id": vendor.id,
            "name": vendor.name,
            "source": program.catalog.key_source(vendor.id),
            "models": [{"id": known.id, "name": known.name or known.id} for known in vendor.models[:SHOWN]],
        }
        for vendor in vendors
        if vendor.keys and vendor.models and not vendor.keyless
    ]


def _address(settings: Settings) -> str:
    own = settings.providers.get(LOCAL)
    return own.base_url if own is not None and own.base_url else ADDRESS


async def try_setup(call: MethodCall, asked: SetupChoiceParams) -> dict[str, Any]:
    """Ask the chosen model for one word. `problem` says why there was none."""
    program = call.program
    ref, change, assumed = await _change(program, asked)
    problem = await _asked(program, ref, change)
    return {"ok": not problem, "model": ref, "assumed": assumed, **({"problem": problem} if problem else {})}


async def apply_setup(call: MethodCall, asked: SetupChoiceParams) -> dict[str, Any]:
    """Write the choice into the config, tried or not. It acts when the gateway has read it again."""
    program = call.program
    ref, change, assumed = await _change(program, asked)
    file = paths.locate_config_file(program.settings.home)
    found = await asyncio.to_thread(read_config, file, program.settings.home, program.environ)
    text = msgspec.json.encode(change).decode()
    done = await config.merge_config(call, config.ConfigPatchParams(raw=text, base_hash=digest_config(found.data)))
    told = {"changedPaths": done["changedPaths"], "assumed": assumed, "reload": program.settings.gateway.reload}
    return {"ok": True, "model": ref, **told}


async def _change(program: CommandContext, asked: SetupChoiceParams) -> tuple[str, dict[str, Any], list[str]]:
    """The model's name, the merge patch that makes it the one in use (or only known), and what its server does not
    say of it. Raises MethodError."""
    if asked.base_url and not discovery.is_server_address(asked.base_url):
        raise MethodError(discovery.ADDRESS)
    ref, entry = _known(program, asked) if asked.provider else await _server(asked)
    if asked.key:
        entry["apiKey"] = asked.key.strip()
    assumed = entry.pop(ASSUMED, [])
    change: dict[str, Any] = {"agents": {"defaults": {"model": ref}}} if asked.primary else {}
    wanted = _workspace(program, asked.workspace.strip())
    if wanted != program.settings.agents[program.settings.default_agent].workspace:
        change.setdefault("agents", {}).setdefault("defaults", {})["workspace"] = wanted
    if entry:
        change["models"] = {"providers": {ref.partition("/")[0]: entry}}
    return ref, change, assumed


def _workspace(program: CommandContext, text: str) -> str:
    """The folder that somebody wrote; "" is the one there is."""
    if "\0" in text:
        raise MethodError("that cannot be the name of a folder")
    try:
        now = program.settings.agents[program.settings.default_agent].workspace
        return paths.expand_path(text, program.environ, program.settings.home) if text else now
    except PalinurusError as exc:  # nobody knows where ~ is
        raise MethodError(exc.message) from None


def _known(program: CommandContext, asked: SetupChoiceParams) -> tuple[str, dict[str, Any]]:
    provider = (asked.provider or "").strip().lower()
    vendor = program.catalog.vendor(provider) if provider in VENDORS else None
    if vendor is None:
        raise MethodError(f"no provider {provider[:80]!r}")
    model = asked.model.strip() or next((known.id for known in vendor.models), "")
    if not model:
        raise MethodError("which model?")
    if not (asked.key or vendor.keyless or program.catalog.key_source(vendor.id) or vendor.id == DEMO_REF.provider):
        raise MethodError(f"{vendor.name} needs a key")
    return f"{vendor.id}/{model}", {"baseUrl": asked.base_url.strip()} if asked.base_url else {}


async def _server(asked: SetupChoiceParams) -> tuple[str, dict[str, Any]]:
    """A server that speaks the usual protocol: it is asked what it has."""
    if not asked.base_url.strip():
        raise MethodError("a provider or an address is needed")
    found = await discovery.inspect_server(asked.base_url, asked.key.strip())
    if isinstance(found, str):
        raise MethodError(found)
    model = asked.model.strip() or found.models[0]
    return f"{discovery.SERVER}/{model}", {**found.entry, ASSUMED: found.list_assumed(model)}


async def _asked(program: CommandContext, ref: str, change: dict[str, Any]) -> str:
    """Why the model does not answer, if the config were so; "" if it does."""
    settings = await asyncio.to_thread(_as_if, program, change)
    return await discovery.explain_silence(settings, program.environ, program.clock, ref)


def _as_if(program: CommandContext, change: dict[str, Any]) -> Settings:
    """The settings that the change would give. Raises MethodError with the first problem."""
    home = program.settings.home
    file = paths.locate_config_file(home)
    raw = _laid(read_config(file, home, program.environ).raw, change)
    made = judge_config(msgspec.json.encode(raw).decode(), file, home, program.environ)
    first = next((problem for problem in made.problems if problem.fatal), None)
    if made.settings is None or first is not None:
        assert first is not None
        raise MethodError(f"{first.path}: {first.message}" if first.path else first.message)
    return made.settings


def _laid(under: Any, over: Any) -> Any:
    if not isinstance(over, dict):
        return over
    base = under if isinstance(under, dict) else {}
    return {**base, **{key: _laid(base.get(key), value) for key, value in over.items()}}


class ImportParams(MethodParams, frozen=True):
    program: NonEmpty


async def list_imports(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """Homes of other agent programs on this machine: what could come over, and what has."""
    return {"homes": await require(call.program.homes, "there is nothing to import from here")().look()}


async def start_import(call: MethodCall, asked: ImportParams) -> dict[str, Any]:
    """Bring one over; the answer is the report. Asked again it goes on where it was cut off."""
    await refuse_in_fleet(call)
    return await require(call.program.homes, "there is nothing to import from here")().bring(asked.program)


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("setup.status", ADMIN, NoParams, get_setup_status),
    GatewayMethod("setup.try", ADMIN, SetupChoiceParams, try_setup),
    GatewayMethod("import.status", ADMIN, NoParams, list_imports),
    GatewayMethod("import.start", ADMIN, ImportParams, start_import, write=True),
    GatewayMethod("setup.apply", ADMIN, SetupChoiceParams, apply_setup, write=True),
)
