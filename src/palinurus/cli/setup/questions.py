"""The questions of a first run: who answers, where the agent works, whether to begin. Each has an answer to press
Enter for. A key is tried with one tiny request before it is written down.
"""

from __future__ import annotations

import asyncio
import getpass
import textwrap
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from palinurus.cli.look.status import find_model_in_use
from palinurus.cli.render import strip_controls
from palinurus.clock import SystemClock
from palinurus.config.edit import put_value
from palinurus.config.findings import suggest_nearest
from palinurus.config.keypath import get_at, parse_path
from palinurus.config.load import load_config
from palinurus.config.rewrite import adjust_config
from palinurus.config.sections.models import ModelSettings, ProviderSettings
from palinurus.config.settings import Secret, Settings
from palinurus.errors import PalinurusError
from palinurus.providers import VENDORS
from palinurus.providers.catalog import Catalog
from palinurus.providers.discovery import API, SERVER, explain_silence, inspect_server

# A model to begin with: what a person named, made into config, and tried with one tiny request. Writes nothing.

DEFAULT = "agents.defaults.model"


class SetupCandidate(msgspec.Struct, frozen=True):
    """A model and what the config must say for it. `ready`: nothing more is needed, no key either."""

    provider: str
    ref: str
    written: dict[str, Any]
    ready: bool = True
    address: str = ""
    models: tuple[str, ...] = ()


def list_keyed_providers(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """Providers that a key opens, the best known first."""
    catalog = Catalog(settings, environ)
    found = [(name, catalog.vendor(name)) for name in VENDORS]
    return [name for name, vendor in found if vendor is not None and vendor.keys and vendor.models]


def parse_candidate(settings: Settings, environ: Mapping[str, str], text: str) -> SetupCandidate | str:
    """A provider, or provider/model. Why not, if there is none such."""
    catalog = Catalog(settings, environ)
    provider, _, wanted = text.strip().partition("/")
    vendor = catalog.vendor(provider.lower())
    if vendor is None or provider.lower() not in VENDORS:
        known = list_keyed_providers(settings, environ)
        return f"there is no provider {provider!r}; {suggest_nearest(provider, known) or ', '.join(known)}"
    ident = wanted or next((known.id for known in vendor.models), "")
    if not ident:
        return f"write which model: {vendor.id}/NAME, or the address of the server"
    ready = vendor.keyless or bool(catalog.key_source(vendor.id))
    return SetupCandidate(vendor.id, f"{vendor.id}/{ident}", {DEFAULT: f"{vendor.id}/{ident}"}, ready)


def add_candidate_key(candidate: SetupCandidate, secret: str) -> SetupCandidate:
    """With this key."""
    written = {**candidate.written, f"models.providers.{candidate.provider}.apiKey": secret}
    return msgspec.structs.replace(candidate, written=written, ready=True)


async def ask_server(address: str, name: str = SERVER, key: str = "") -> SetupCandidate | str:
    """The server at an address: it is asked what it has, the first model is taken. Why not, if it does not say."""
    found = await inspect_server(address, key)
    if isinstance(found, str):
        return found
    ref = f"{name}/{found.models[0]}"
    written = {f"models.providers.{name}": found.entry, DEFAULT: ref}
    made = SetupCandidate(name, ref, written, True, address=found.base, models=found.models)
    return add_candidate_key(made, key) if key else made


async def try_candidate(settings: Settings, environ: Mapping[str, str], candidate: SetupCandidate) -> str:
    """Ask it for one word. "" if it answers, else why not."""
    return await explain_silence(_with(settings, candidate), environ, SystemClock(), candidate.ref)


async def try_current_model(settings: Settings, environ: Mapping[str, str]) -> tuple[str, str]:
    """The default agent's model is asked for one word: its name, and why it did not answer ("" if it did)."""
    name, *_ = await find_model_in_use(settings, environ)
    return name, await try_candidate(settings, environ, SetupCandidate(name.partition("/")[0], name, {}))


def _with(settings: Settings, candidate: SetupCandidate) -> Settings:
    """As if the config said it already."""
    if not candidate.written:
        return settings
    now = settings.providers.get(candidate.provider) or ProviderSettings(candidate.provider)
    if candidate.address:
        listed = tuple(ModelSettings(one) for one in candidate.models)
        now = ProviderSettings(candidate.provider, candidate.address, API, models=listed)
    secret = candidate.written.get(f"models.providers.{candidate.provider}.apiKey")
    if secret:
        now = replace(now, api_key=Secret(secret))
    return replace(settings, providers={**settings.providers, candidate.provider: now})


def write_candidate(home: str, environ: Mapping[str, str], made: SetupCandidate) -> list[str]:
    """Into the config, in one write: which keys, without secret values. Fallbacks beside the default model stay.
    Raises PalinurusError."""

    def lay(raw: Any) -> Any:
        for key, value in made.written.items():
            path = parse_path(key)
            if key == DEFAULT and isinstance(get_at(raw, path), dict):
                path = (*path, "primary")
            raw = put_value(raw, path, value)
        return raw

    adjust_config(home, environ, lay)
    default = [f"{DEFAULT} = {made.ref}"] if DEFAULT in made.written else []
    return [*(key for key in made.written if key != DEFAULT), *default]


SHOWN = 6  # providers named in the question
WIDTH = 78


class SetupPerson(msgspec.Struct, frozen=True):
    """Somebody to ask. `hidden` does not show what is typed. All raise EOFError when nobody is there any more."""

    ask: Callable[[str], str]
    hidden: Callable[[str], str]
    say: Callable[[str], None]


def open_terminal_questions(home: str, environ: Mapping[str, str]) -> SetupQuestions:
    """The one at this terminal."""
    return SetupQuestions(home, environ, SetupPerson(input, getpass.getpass, print))


def _wrapped(text: str) -> str:
    return textwrap.fill(strip_controls(text), WIDTH, initial_indent="   ", subsequent_indent="   ")


class SetupQuestions:
    """Asks, and writes what was answered into the config."""

    def __init__(self, home: str, environ: Mapping[str, str], person: SetupPerson) -> None:
        self._home = home
        self._environ = environ
        self._person = person
        self._asked = 1  # the first question always comes, the second does not

    def model(self) -> list[str]:
        """Who answers; what was written, without values that are secret. Enter keeps what there is."""
        person, settings = self._person, load_config(self._home, self._environ).settings
        name, source, _ = asyncio.run(find_model_in_use(settings, self._environ))
        keep = "for the demo for now"
        if "/" in name and not name.startswith("builtin/"):
            keep = f"to keep {strip_controls(name)}" + (f" (key from {source})" if source else "")
        found = list_keyed_providers(settings, self._environ)
        names = ", ".join(found[:SHOWN])
        person.say(
            f"1. Which model should answer? A provider that you have an API key for\n   ({names}, …),\n"
            "   `local` for a small one on this machine, the address of a model server\n"
            f"   (http://…), or Enter {keep}."
        )
        kept: SetupCandidate | None = None
        while True:
            more = f" (Enter: take {kept.ref} all the same)" if kept is not None else ""
            text = self._ask(f"   model{more}: ")
            if not text:
                return self._write(kept) if kept is not None else []
            made = self._made(text)
            if isinstance(made, str):
                person.say(_wrapped(made))
                continue
            person.say(f"   asking {made.ref} …")
            problem = asyncio.run(try_candidate(settings, self._environ, made))
            if not problem:
                person.say("   it answers")
                return self._write(made)
            person.say(_wrapped(f"no answer: {problem}"))
            kept = made

    def _made(self, text: str) -> SetupCandidate | str:
        settings = load_config(self._home, self._environ).settings
        if "://" in text:
            return asyncio.run(ask_server(text))
        found = parse_candidate(settings, self._environ, text)
        if isinstance(found, str) or found.ready:
            return found
        secret = self._ask(f"   API key for {found.provider} (not shown): ", self._person.hidden)
        return add_candidate_key(found, secret) if secret else "no key, no answer"

    def _write(self, made: SetupCandidate) -> list[str]:
        try:
            return write_candidate(self._home, self._environ, made)
        except PalinurusError as exc:
            self._person.say(f"   the config was not changed: {strip_controls(exc.message)}")
            return []

    def workspace(self, default: str) -> str:
        """Where the agent works; "" for where it would anyway."""
        self._asked += 1
        self._person.say(f"{self._asked}. Where should the agent keep its files?")  # a plain terminal cuts long prompts
        return self._ask(f"   [{default}]: ")

    def begin(self) -> bool:
        """Whether to chat now."""
        self._person.say("   Chat apps can be connected at any time: `pal channels add`.")
        return self._ask(f"{self._asked + 1}. Begin? [Y/n]: ").lower() in ("", "y", "yes")

    def agrees(self, question: str) -> bool:
        """Whether the answer is a yes; Enter is one, nobody there is none."""
        with suppress(EOFError):
            return self._person.ask(question).strip().lower() in ("", "y", "yes")
        return False

    def _ask(self, text: str, how: Callable[[str], str] | None = None) -> str:
        with suppress(EOFError):
            return (how or self._person.ask)(text).strip()
        return ""
