"""`pal agents`: which agents there are, one more, one less, and whose messages go to which. All of it is in the config;
a gateway that runs reads it again by itself."""

from __future__ import annotations

import argparse
import asyncio
import os
import posixpath
from typing import Any

from palinurus.cli.args import JSON, Verb, find_agent, load_settings, make_arg, parse_verb, to_json
from palinurus.cli.reach.elsewhere import refuse_elsewhere
from palinurus.cli.reach.gateway import call_gateway, reach_program
from palinurus.cli.render import strip_controls
from palinurus.clock import SystemClock
from palinurus.config.load import LoadedConfig
from palinurus.config.rewrite import adjust_config
from palinurus.config.sections.bindings import AgentBinding
from palinurus.config.settings import Settings
from palinurus.core.text import format_count
from palinurus.errors import BadRequest, NotFound


def run_agents(argv: list[str]) -> int:
    """0. Raises BadRequest, NotFound, ConfigError, StateError."""
    asked = parse_verb("agents", "Agents, and whose messages go to which.", VERBS, argv, default="list")
    loaded = load_settings(dict(os.environ))
    if loaded.settings.gateway.mode == "remote":
        if asked.what not in _THERE:
            raise refuse_elsewhere(loaded.settings, f"agents {asked.what}", ", ".join(_THERE))
        print(strip_controls(_THERE[asked.what](asked, loaded)))
        return 0
    print(strip_controls(asked.run(asked, loaded)))
    return 0


def _list(asked: argparse.Namespace, loaded: LoadedConfig) -> str:
    settings = loaded.settings
    rows: list[dict[str, Any]] = [
        {
            "id": agent.id,
            "default": agent.id == settings.default_agent,
            "model": agent.model,
            "workspace": agent.workspace,
            "bindings": [_show(one) for one in settings.bindings if one.agent == agent.id],
        }
        for agent in settings.agents.values()
    ]
    return _tell(rows, as_json=asked.json)


def _list_there(asked: argparse.Namespace, loaded: LoadedConfig) -> str:
    """Those of the gateway elsewhere."""
    told = call_gateway(loaded.settings, "agents.list", {})
    config = call_gateway(loaded.settings, "config.get", {}).get("config") or {}
    bound = [(row.get("agentId"), row.get("match") or {}) for row in config.get("bindings") or ()]
    rows = [
        {
            "id": agent["id"],
            "default": agent["id"] == told["defaultId"],
            "model": agent["model"]["primary"],
            "workspace": agent["workspace"],
            "bindings": [_show_match(match) for owner, match in bound if owner == agent["id"]],
        }
        for agent in told["agents"]
    ]
    return _tell(rows, as_json=asked.json)


def _show_match(match: dict[str, Any]) -> str:
    peer, account = match.get("peer") or {}, match.get("accountId", "default")
    where = f"{match.get('channel')}" + ("" if account == "default" else f":{account}")
    return where + (f"/{peer.get('kind')}:{peer.get('id')}" if peer else "")


def _tell(rows: list[dict[str, Any]], *, as_json: bool) -> str:
    if as_json:
        return to_json(rows, pretty=True)
    return "\n".join(
        f"{row['id']}{' (default)' if row['default'] else ''}  {row['model'] or 'the usual model'}  {row['workspace']}"
        + "".join(f"\n  gets {one}" for one in row["bindings"])
        for row in rows
    )


def _show(one: AgentBinding) -> str:
    """CHANNEL[:ACCOUNT][/KIND:PEER], as `bind` takes it."""
    account = "" if one.account == "default" else f":{one.account}"
    return f"{one.channel}{account}" + (f"/{one.kind}:{one.peer}" if one.peer else "")


def _add(asked: argparse.Namespace, loaded: LoadedConfig) -> str:
    place = asked.workspace or os.path.join(loaded.settings.home, f"workspace-{asked.name.strip().lower()}")
    params = {"name": asked.name, "workspace": place, **({"model": asked.model} if asked.model else {})}
    made = _call(loaded, "agents.create", params)
    for what in asked.bind:
        _bind_to(loaded.settings, made["agentId"], what)
    return f"agent {made['agentId']} works in {place}; write to it: pal agent --agent {made['agentId']} -m hello"


def _add_there(asked: argparse.Namespace, loaded: LoadedConfig) -> str:
    """Its workspace is a folder of that machine: beside the default agent's, unless one is named."""
    if asked.bind:
        raise refuse_elsewhere(loaded.settings, "agents add --bind", "the page, under Agents")
    told = call_gateway(loaded.settings, "agents.list", {})
    usual = next(one["workspace"] for one in told["agents"] if one["id"] == told["defaultId"])
    beside = posixpath.join(posixpath.dirname(usual), f"workspace-{asked.name.strip().lower()}")
    given = {"name": asked.name, "workspace": asked.workspace or beside, "model": asked.model}
    made = call_gateway(loaded.settings, "agents.create", {name: value for name, value in given.items() if value})
    return f"agent {made['agentId']} works in {made['workspace']} there"


def _delete_there(asked: argparse.Namespace, loaded: LoadedConfig) -> str:
    call_gateway(loaded.settings, "agents.delete", {"agentId": asked.agent})
    return f"{asked.agent} is gone there; its files and conversations are where they were"


def _delete(asked: argparse.Namespace, loaded: LoadedConfig) -> str:
    done = _call(loaded, "agents.delete", {"agentId": find_agent(loaded.settings, asked.agent).id})
    many = format_count(done["removedBindings"], "binding")
    return f"{asked.agent} is gone, and {many}; its files and conversations are where they were"


def _call(loaded: LoadedConfig, method: str, params: dict[str, Any]) -> dict[str, Any]:
    async def call() -> Any:
        async with reach_program(loaded, dict(os.environ), SystemClock()) as program:
            return await program.call(method, params)

    return dict(asyncio.run(call()))


def _bind(asked: argparse.Namespace, loaded: LoadedConfig) -> str:
    agent = find_agent(loaded.settings, asked.agent).id
    return "\n".join(_bind_to(loaded.settings, agent, what) for what in asked.what)


def _bind_to(settings: Settings, agent: str, what: str) -> str:
    match = _read(what)
    taken = [one for one in settings.bindings if _show(one) == what]
    if taken and taken[0].agent != agent:
        raise BadRequest(
            f"{what} goes to {taken[0].agent} already", fix=f"pal agents unbind --agent {taken[0].agent} {what}"
        )

    def lay(raw: Any) -> Any:
        kept = list(raw.get("bindings") or ())
        row = {"agentId": agent, "match": match}
        return {**raw, "bindings": kept if row in kept else [*kept, row]}

    adjust_config(settings.home, os.environ, lay)
    return f"{what} goes to {agent}"


def _unbind(asked: argparse.Namespace, loaded: LoadedConfig) -> str:
    agent = find_agent(loaded.settings, asked.agent).id
    known = [_show(one) for one in loaded.settings.bindings if one.agent == agent]
    wanted = known if asked.all else asked.what
    if gone := next((what for what in wanted if what not in known), ""):
        raise NotFound(f"{gone} does not go to {agent}", fix=f"bound: {', '.join(known) or 'nothing'}")
    matches = [_read(what) for what in wanted]

    def lay(raw: Any) -> Any:
        kept = [row for row in raw.get("bindings") or () if not _is_one(row, agent, matches)]
        return {**raw, "bindings": kept}

    adjust_config(loaded.settings.home, os.environ, lay)
    return f"{', '.join(wanted) or 'nothing'} goes to {loaded.settings.default_agent} again"


def _is_one(row: Any, agent: str, matches: list[dict[str, Any]]) -> bool:
    if not isinstance(row, dict) or str(row.get("agentId", "")).lower() != agent:
        return False
    match = {key: value for key, value in (row.get("match") or {}).items() if (key, value) != ("accountId", "default")}
    return match in matches


def _read(what: str) -> dict[str, Any]:
    """What `CHANNEL[:ACCOUNT][/KIND:PEER]` matches. Raises BadRequest."""
    where, slash, peer = what.partition("/")
    channel, _, account = where.partition(":")
    kind, colon, ident = peer.partition(":")
    if not channel or (slash and not (colon and ident)):
        raise BadRequest(
            f"{what!r} is not CHANNEL[:ACCOUNT][/KIND:PEER]", fix="such as telegram:work or discord/group:123"
        )
    found: dict[str, Any] = {"channel": channel.lower()}
    if account and account != "default":
        found["accountId"] = account
    return {**found, "peer": {"kind": kind, "id": ident}} if slash else found


def _bindings(asked: argparse.Namespace, loaded: LoadedConfig) -> str:
    rows = [{"agent": one.agent, "binding": _show(one)} for one in loaded.settings.bindings]
    if asked.json:
        return to_json(rows, pretty=True)
    lines = [f"{row['binding']} goes to {row['agent']}" for row in rows]
    return "\n".join(lines) or f"everything goes to {loaded.settings.default_agent}; `pal agents bind` changes that"


_WHAT = make_arg("what", nargs="+", metavar="CHANNEL[:ACCOUNT][/KIND:PEER]", help="such as telegram:work")
_AGENT = make_arg("--agent", required=True, help="its name")
VERBS = {
    "list": Verb(
        _list, "list the agents, their models and workspaces", (JSON, make_arg("--bindings", action="store_true"))
    ),
    "add": Verb(
        _add,
        "add an agent",
        (
            make_arg("name", help="what it is called"),
            make_arg("--workspace", help="its folder (default: workspace-NAME in this home)"),
            make_arg("--model", help="provider/model"),
            make_arg("--bind", action="append", default=[], metavar="CHANNEL[:ACCOUNT]", help="whose messages it gets"),
        ),
    ),
    "delete": Verb(_delete, "remove an agent from the config; its files stay", (make_arg("agent", help="its name"),)),
    "bind": Verb(_bind, "send messages of a channel, an account or a chat to an agent", (_WHAT, _AGENT)),
    "unbind": Verb(
        _unbind,
        "send these messages to the default agent again",
        (
            make_arg("what", nargs="*", metavar="CHANNEL[:ACCOUNT][/KIND:PEER]"),
            _AGENT,
            make_arg("--all", action="store_true", help="all of its bindings"),
        ),
    ),
    "bindings": Verb(_bindings, "list whose messages go to which agent", (JSON,)),
}

_THERE = {"list": _list_there, "add": _add_there, "delete": _delete_there}
