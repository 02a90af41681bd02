"""`pal channels`: which chat channels there are, how they are, adding and removing them, signing in, a test message.

What a channel needs to be told is the table `NEEDS`; everything else about it stands in the config.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import os
import sys
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from palinurus.app.channels import make_signin_kit
from palinurus.channels import CHANNELS, LOGINS, advise_missing_library, load_signin_action, make_channel
from palinurus.cli.args import JSON, Verb, load_settings, make_arg, parse_verb, read_pair, to_json
from palinurus.cli.reach.gateway import call_gateway, reach_gateway
from palinurus.cli.reach.http import is_gateway_running
from palinurus.cli.render import strip_controls
from palinurus.clock import SystemClock
from palinurus.config.declare import list_declared
from palinurus.config.findings import suggest_nearest
from palinurus.config.kinds import KindReport
from palinurus.config.load import LoadedConfig
from palinurus.config.rewrite import KeyChange, set_config_key, unset_config_key
from palinurus.config.secrets import is_secret
from palinurus.config.sections.channels import ChannelSection
from palinurus.config.settings import Settings
from palinurus.core.channelneeds import NEEDS, OWN_KEYS, SAID, ChannelNeed, find_own_kind, read_own_value
from palinurus.core.types.channel import ChannelAbilities
from palinurus.errors import BadRequest, NotFound
from palinurus.patterns import compile_late
from palinurus.tools.web.egress import EgressGuard

_NAME = compile_late(r"[A-Za-z0-9_-]{1,40}")


def run_channels(argv: list[str]) -> int:
    """0; 1 if it did not work out. Raises BadRequest, NotFound, ConfigError, GatewayUnreachable, StateError kinds."""
    asked = parse_verb("channels", "Chat channels.", VERBS, argv, default="list")
    if asked.account and not _NAME.fullmatch(asked.account):
        raise BadRequest("the name of an account is letters, digits, - and _, 40 at most")
    return int(asked.run(asked, load_settings(dict(os.environ))))


def _list(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    accounts = [one for by in loaded.settings.accounts.values() for one in by.values()]
    rows = [{"channel": a.channel, "account": a.account, "dmPolicy": a.dm, "groupPolicy": a.group} for a in accounts]
    if asked.json:
        print(to_json(rows))
        return 0
    for row in rows:
        print(strip_controls(f"{row['channel']}/{row['account']}  dm {row['dmPolicy']}, groups {row['groupPolicy']}"))
    for name, entry in CHANNELS.items() if asked.all else ():
        if name not in loaded.settings.accounts:
            fix = advise_missing_library(entry)
            print(f"{name}  not set up" + (f"; needs `{fix}`" if fix else ""))
    if not rows:
        print("no channels yet; `pal channels add telegram` adds one")
    return 0


def _status(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    found = call_gateway(loaded.settings, "channels.status", {})
    bad = 0
    for name, accounts in found["channelAccounts"].items():
        for one in accounts:
            state, detail = one.get("healthState", "not running"), one.get("lastError", "")
            bad += state not in ("ready", "stopped")
            me = f" as {one['name']}" if one.get("name") else ""
            if not asked.json:
                print(strip_controls(f"{name}/{one['accountId']}  {state}{me}" + (f": {detail}" if detail else "")))
    if asked.json:
        print(to_json(found))
    elif not found["channelAccounts"]:
        print("no channels yet; `pal channels add telegram` adds one")
    return 1 if bad else 0


def _capabilities(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    """What each channel that is set up can do, as the rest of the program is told. Nothing is connected."""
    found: dict[str, dict[str, Any]] = {}
    for name in [asked.channel] if asked.channel else sorted(loaded.settings.accounts):
        _must_exist(name)
        if name not in loaded.settings.accounts:
            raise NotFound(f"{name} is not set up", fix=f"`pal channels add {name}`")
        account = asked.account or next(iter(loaded.settings.accounts[name]))
        door = EgressGuard(loaded.settings.web.fetch.rules)
        made = make_channel(name, make_signin_kit(loaded.settings, name, account, SystemClock(), door=door))
        if made is not None:
            found[name] = _show_abilities(made.abilities)
    if asked.json:
        print(to_json(found, pretty=True))
        return 0
    for name, facts in found.items():
        told = [
            f"{key} {', '.join(map(str, value)) if isinstance(value, list) else value}" for key, value in facts.items()
        ]
        print(f"{name}  {'; '.join(told)}")
    if not found:
        print("no channels yet; `pal channels add telegram` adds one")
    return 0


def _must_exist(name: str) -> None:
    if name not in CHANNELS:
        fix = suggest_nearest(name, CHANNELS) or f"there are: {', '.join(sorted(CHANNELS))}"
        raise NotFound(f"there is no channel {name!r}", fix=fix)


def _show_abilities(abilities: ChannelAbilities) -> dict[str, Any]:
    """With names in order, without what it cannot do."""
    facts: dict[str, Any] = msgspec.to_builtins(abilities)
    return {key: sorted(value) if isinstance(value, list) else value for key, value in facts.items() if value}


def _add(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    name = (asked.channel or _choose()).lower()
    if not name:
        return 0
    _must_exist(name)
    section: dict[str, Any] = dict((loaded.raw.get("channels") or {}).get(name) or {})
    given = {key: _read_value(name, key, text) for key, text in (read_pair(one, "KEY=VALUE", 20) for one in asked.set)}
    own = {**section, **given}
    for need in NEEDS.get(name, ()):
        if asked.account or not own.get(need.key):
            given.setdefault(need.key, _answer(need, name, use_env=asked.use_env))
    key, value = f"channels.{name}", {**section, **given, "enabled": True}
    if asked.account:
        known = section.get("accounts") or ({"default": {}} if section else {})
        accounts = {**known, asked.account: {**known.get(asked.account, {}), **given}}
        value = {**section, "enabled": True, "accounts": accounts}
    _told(set_config_key(loaded.settings.home, os.environ, key, value), f"{name}{_of(asked)} is set up")
    if name in LOGINS:
        print(f"now sign in: pal channels login {name}")
    if fix := advise_missing_library(CHANNELS[name]):
        print(f"its library is missing: `{fix}`")
    print("strangers who write get a code; `pal pairing approve CODE` lets them in, the first one as the owner")
    return 0


def _choose() -> str:
    """What there is, and which one a person at the terminal wants; "" for none."""
    for name, entry in sorted(CHANNELS.items()):
        needs = "; ".join(need.about for need in NEEDS.get(name, ())) or "a sign-in"
        fix = advise_missing_library(entry)
        print(f"{name:<15} {needs}" + (f" (first `{fix}`)" if fix else ""))
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("`pal channels add NAME` adds one")
        return ""
    try:
        return input("which one? ").strip()
    except EOFError:
        return ""


def _read_value(channel: str, key: str, text: str) -> Any:
    """What was typed, as the kind of thing that the key is. Raises BadRequest for a key that nobody reads, and for a
    value that would be passed over."""
    if (own := find_own_kind(channel, key)) is not None:
        if (value := read_own_value(own, text)) is None:
            raise BadRequest(f"channels.{channel}.{key} is {SAID[own]}", fix=f"--set {key}=…")
        return value
    shared = list_declared(ChannelSection)
    if (declared := shared.step(key)) is None:
        known = sorted({*shared.list_keys(), *" ".join(OWN_KEYS.get(channel, {}).values()).split()})
        raise BadRequest(
            f"{channel} has no key {key!r}", fix=suggest_nearest(key, known) or f"it has {', '.join(known)}"
        )
    for value in (*_decode(text), text):
        report = KindReport([], [])
        declared.check(value, ("channels", channel, key), report)
        if not report.wrong:
            return value
    raise BadRequest(
        f"channels.{channel}.{key}: {report.wrong[0].message}", fix=f"`pal config explain channels.{channel}.{key}`"
    )


def _decode(text: str) -> list[Any]:
    try:
        return [json.loads(text)]
    except ValueError:
        return []


def _answer(need: ChannelNeed, channel: str, *, use_env: bool) -> str:
    if use_env and need.env:
        if not os.environ.get(need.env):
            raise BadRequest(f"{need.env} is not set", fix="set it here and where the gateway runs")
        return f"${{{need.env}}}"
    if not sys.stdin.isatty():
        more = f", or --use-env with {need.env}" if need.env else ""
        raise BadRequest(f"{channel} needs {need.key}: {need.about}", fix=f"--set {need.key}=…{more}")
    ask: Callable[[str], str] = getpass.getpass if is_secret(("channels", channel, need.key)) else input
    told = ask(f"{need.key} ({need.about}): ").strip()
    if not told:
        raise BadRequest(f"{channel} cannot do without {need.key}")
    return told


def _remove(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    key = f"channels.{asked.channel}" + (f".accounts.{asked.account}" if asked.account else "")
    if asked.channel not in (loaded.raw.get("channels") or {}):
        raise NotFound(f"{asked.channel} is not set up", fix="`pal channels list`")
    if asked.delete:
        _told(unset_config_key(loaded.settings.home, os.environ, key), f"{asked.channel}{_of(asked)} is gone")
    else:
        done = set_config_key(loaded.settings.home, os.environ, f"{key}.enabled", False)
        _told(done, f"{asked.channel}{_of(asked)} is switched off")
    return 0


def _told(done: KeyChange, text: str) -> None:
    print(f"{text} ({done.file})" if done.changed else f"{text} already")
    if done.changed:
        print(done.when)


def _login(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    enter = load_signin_action(LOGINS, asked.channel)
    if enter is None:
        _must_exist(asked.channel)
        raise BadRequest(f"{asked.channel} has no sign-in of its own", fix=f"`pal channels add {asked.channel}`")
    return asyncio.run(_signed(asked, loaded.settings, enter))


async def _signed(asked: argparse.Namespace, settings: Settings, enter: Callable[..., Any]) -> int:
    """A gateway that runs lets go of the channel meanwhile: two of us on one account throw each other out."""
    clock, alive = SystemClock(), await is_gateway_running(settings)

    async def tell(method: str) -> None:
        async with reach_gateway(settings, clock) as gateway:
            await gateway.call(method, {"channel": asked.channel})

    if alive:
        await tell("channels.stop")
    kit = make_signin_kit(
        settings, asked.channel, asked.account or "default", clock, door=EgressGuard(settings.web.fetch.rules)
    )
    try:
        problem = await enter(kit, print)
    finally:
        if alive:
            await tell("channels.start")
    print(strip_controls(problem) or f"{asked.channel} is signed in")
    return 1 if problem else 0


def _logout(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    params = {"channel": asked.channel, "accountId": asked.account or "default"}
    done = call_gateway(loaded.settings, "channels.logout", params)
    print(strip_controls(done["detail"]) or f"{asked.channel} is signed out")
    return 0 if done["loggedOut"] else 1


def _test(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    params = {
        "channel": asked.channel,
        "to": asked.target,
        "accountId": asked.account or "default",
        "threadId": asked.thread,
        "message": asked.text,
        "idempotencyKey": uuid.uuid4().hex,
    }
    done = call_gateway(loaded.settings, "send", params)
    if asked.json:
        print(to_json(done))
        return 0 if done["state"] == "sent" else 1
    if done["state"] == "sent":
        print(strip_controls(f"sent; the platform's receipt: {done['receipt']}"))
        return 0
    why = f": {done['error']}" if done["error"] else ""
    print(
        strip_controls(
            f"not sent ({done['state']}){why}" + ("" if done["state"] == "failed" else "; it is tried again")
        )
    )
    return 1


def _of(asked: argparse.Namespace) -> str:
    return f", account {asked.account}," if asked.account else ""


_CHANNEL = make_arg("channel")
_ACCOUNT = make_arg("--account", default="", help="where a channel has several")
VERBS = {
    "list": Verb(
        _list,
        "list the accounts; --all: every channel there is",
        (make_arg("--all", action="store_true", help="also those that nobody set up"), JSON, _ACCOUNT),
    ),
    "status": Verb(_status, "show how each account is connected", (JSON, _ACCOUNT)),
    "capabilities": Verb(
        _capabilities,
        "show what each can do: length, formatting, buttons, files, …",
        (make_arg("channel", nargs="?", default="", help="of this one only"), JSON, _ACCOUNT),
    ),
    "add": Verb(
        _add,
        "add a channel or an account; without a name: what there is",
        (
            make_arg("channel", nargs="?", default="", help="which one"),
            make_arg("--set", action="append", default=[], metavar="KEY=VALUE", help="better KEY='${NAME}'"),
            make_arg("--use-env", action="store_true", help="secrets stay in the environment: ${NAME}"),
            _ACCOUNT,
        ),
    ),
    "remove": Verb(
        _remove,
        "switch a channel off; --delete removes it from the config",
        (_CHANNEL, make_arg("--delete", action="store_true", help="take it out of the config"), _ACCOUNT),
    ),
    "login": Verb(_login, "sign in, where a channel needs more than a token", (_CHANNEL, _ACCOUNT)),
    "logout": Verb(_logout, "sign out again", (_CHANNEL, _ACCOUNT)),
    "test": Verb(
        _test,
        "send a message and wait for its receipt",
        (
            _CHANNEL,
            make_arg("target", help="the chat or person, by the platform's id"),
            make_arg("--text", default="This is a test of Palinurus.", help="what to say"),
            make_arg("--thread", default=""),
            JSON,
            _ACCOUNT,
        ),
    ),
}
