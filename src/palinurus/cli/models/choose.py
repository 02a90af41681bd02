"""`pal models use|add|fallbacks|aliases`: which model answers, one more provider or server, who answers when it does
not, short names.

A model is asked for one word before it is written down. A key is typed unseen or comes from stdin, never from the line.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
from typing import Any

import msgspec

from palinurus.cli.args import CommandParser, load_settings
from palinurus.cli.setup.questions import (
    DEFAULT,
    SetupCandidate,
    add_candidate_key,
    ask_server,
    parse_candidate,
    try_candidate,
    write_candidate,
)
from palinurus.config.edit import put_value
from palinurus.config.keypath import get_at, parse_path
from palinurus.config.rewrite import adjust_config
from palinurus.config.settings import Settings
from palinurus.core.types.model import ModelFailure
from palinurus.errors import BadRequest, NotFound, PalinurusError
from palinurus.providers.catalog import Catalog
from palinurus.providers.discovery import SERVER, is_server_address

LIST_FIX = "`pal models` lists what can be used"
UNTRIED = "--no-try writes it down all the same"


def run_models_use(argv: list[str]) -> int:
    """0 if the model answers and is the default now. Raises NotFound, PalinurusError."""
    parser = CommandParser(
        "models use", "Make a model the default. Example: pal models use anthropic/claude-sonnet-4-6"
    )
    parser.add_argument("model", help="provider/model, or an alias")
    parser.add_argument("--no-try", action="store_true", help="do not ask it for one word first")
    options = parser.parse_args(argv)
    environ = dict(os.environ)
    settings = load_settings(environ).settings
    ref = find_model(settings, environ, options.model)
    made = SetupCandidate(ref.partition("/")[0], ref, {DEFAULT: ref})
    return _finish(settings, environ, made, tried=not options.no_try)


def find_model(settings: Settings, environ: dict[str, str], text: str) -> str:
    """The model's whole name. Raises NotFound."""
    found = Catalog(settings, environ).find(text, settings.agents[settings.default_agent])
    if isinstance(found, ModelFailure):
        raise NotFound(found.message.partition("; `pal models`")[0], fix=LIST_FIX)
    return str(found.ref)


def run_models_add(argv: list[str]) -> int:
    """0 if what was added answers. Raises BadRequest, PalinurusError."""
    parser = CommandParser(
        "models add",
        "Add a provider with its key, or a model server by its address. "
        "Examples: pal models add openai --use; pal models add http://127.0.0.1:8080 --name lab",
    )
    parser.add_argument("what", help="a provider, provider/model, or the address of a server (http://…)")
    parser.add_argument("--name", default=SERVER, help="what a server is called in the config")
    parser.add_argument("--key-stdin", action="store_true", help="read the key from standard input")
    parser.add_argument("--use", action="store_true", help="make it the default model, too")
    parser.add_argument("--no-try", action="store_true", help="do not ask it for one word first")
    options = parser.parse_args(argv)
    if not options.name.replace("-", "").replace("_", "").isalnum():
        raise BadRequest(
            f"--name {options.name!r}: letters, digits, - and _ only", fix="choose another, such as --name house"
        )
    environ = dict(os.environ)
    settings = load_settings(environ).settings
    key = sys.stdin.readline().strip() if options.key_stdin else ""
    if is_server_address(options.what):
        made = asyncio.run(ask_server(options.what, options.name, key))
    else:
        made = parse_candidate(settings, environ, options.what)
        if not isinstance(made, str) and (key or not made.ready):
            key = key or _ask_key(made.provider)
            made = add_candidate_key(made, key)
    if isinstance(made, str):
        raise BadRequest(made, fix=LIST_FIX)
    if not options.use:
        made = msgspec.structs.replace(made, written={k: v for k, v in made.written.items() if k != DEFAULT})
    return _finish(settings, environ, made, tried=not options.no_try)


def _ask_key(provider: str) -> str:
    given = getpass.getpass(f"API key for {provider} (not shown): ").strip() if sys.stdin.isatty() else ""
    if not given:
        raise BadRequest(f"{provider} needs a key", fix="type it at a terminal, or give it with --key-stdin")
    return given


def _finish(settings: Settings, environ: dict[str, str], made: SetupCandidate, *, tried: bool) -> int:
    if tried:
        print(f"asking {made.ref} …", file=sys.stderr)
        problem = asyncio.run(try_candidate(settings, environ, made))
        if problem:
            raise PalinurusError(f"{made.ref} does not answer: {problem}; nothing was changed", fix=UNTRIED)
    if not made.written:
        print(f"{made.ref} answers; nothing had to be written")
        return 0
    for line in write_candidate(settings.home, environ, made):
        print(line)
    if DEFAULT not in made.written:
        print(f"{made.ref} can be used: `pal models use {made.ref}` makes it the default, /model takes it for one chat")
    return 0


def run_models_fallbacks(argv: list[str]) -> int:
    """0. Raises NotFound for a model nobody knows, PalinurusError."""
    parser = CommandParser(
        "models fallbacks",
        "Who answers when the default model does not. Example: pal models fallbacks add openai/gpt-5",
    )
    parser.add_argument("verb", nargs="?", choices=("list", "add", "remove", "clear"), default="list")
    parser.add_argument("model", nargs="?", default="", help="provider/model, or an alias")
    options = parser.parse_args(argv)
    environ = dict(os.environ)
    settings = load_settings(environ).settings
    agent = settings.agents[settings.default_agent]
    if options.verb in ("add", "remove") and not options.model:
        raise BadRequest(f"which model shall be {options.verb}{'ed' if options.verb == 'add' else 'd'}?", fix=LIST_FIX)
    if options.verb != "list":
        ref = find_model(settings, environ, options.model) if options.verb == "add" else options.model
        if options.verb == "remove" and ref not in agent.fallbacks:
            raise NotFound(f"{ref} is not among them: {', '.join(agent.fallbacks) or 'there are none'}")
        kept = [one for one in agent.fallbacks if one != ref and options.verb != "clear"]
        _write_fallbacks(settings, environ, [*kept, ref] if options.verb == "add" else kept)
        agent = load_settings(environ).settings.agents[settings.default_agent]
    print("\n".join(agent.fallbacks) or "none: `pal models fallbacks add PROVIDER/MODEL` adds one")
    return 0


def _write_fallbacks(settings: Settings, environ: dict[str, str], wanted: list[str]) -> None:
    path = parse_path(DEFAULT)

    def lay(raw: Any) -> Any:
        stands = get_at(raw, path)
        whole = stands if isinstance(stands, dict) else {"primary": stands} if stands else {}
        return put_value(raw, path, {**whole, "fallbacks": wanted})

    adjust_config(settings.home, environ, lay)


def run_models_aliases(argv: list[str]) -> int:
    """0. Raises NotFound for a model or an alias nobody knows, PalinurusError."""
    parser = CommandParser(
        "models aliases", "Short names of models. Example: pal models aliases add fast openai/gpt-5-mini"
    )
    parser.add_argument("verb", nargs="?", choices=("list", "add", "remove"), default="list")
    parser.add_argument("alias", nargs="?", default="", help="the short name")
    parser.add_argument("model", nargs="?", default="", help="add: provider/model")
    options = parser.parse_args(argv)
    environ = dict(os.environ)
    settings = load_settings(environ).settings
    known = settings.agents[settings.default_agent].aliases
    if options.verb == "add" and not (options.alias and options.model):
        raise BadRequest("which name, for which model?", fix="pal models aliases add NAME PROVIDER/MODEL")
    if options.verb == "remove" and options.alias not in known:
        raise NotFound(f"{options.alias!r} is no alias", fix=f"there is: {', '.join(known) or 'none'}")
    if options.verb != "list":
        ref = find_model(settings, environ, options.model) if options.verb == "add" else known[options.alias]
        _write_alias(settings, environ, ref, options.alias if options.verb == "add" else None)
        known = load_settings(environ).settings.agents[settings.default_agent].aliases
    print("\n".join(f"{name}  {ref}" for name, ref in known.items()) or "none: `pal models aliases add NAME MODEL`")
    return 0


def _write_alias(settings: Settings, environ: dict[str, str], ref: str, alias: str | None) -> None:
    """An alias names one model: another that had it loses it."""
    path = ("agents", "defaults", "models")

    def lay(raw: Any) -> Any:
        stands = get_at(raw, path)
        models = {name: dict(one or {}) for name, one in (stands if isinstance(stands, dict) else {}).items()}
        for one in models.values():
            if one.get("alias") == alias:
                del one["alias"]
        own = models.setdefault(ref, {})
        if alias is None:
            own.pop("alias", None)
        else:
            own["alias"] = alias
        return put_value(raw, path, {name: one for name, one in models.items() if one or name != ref})

    adjust_config(settings.home, environ, lay)
