"""`pal mcp`: servers that bring tools (list, test, add, remove), and our own tools for other agents (serve).

`test` connects to one server exactly as the gateway does, without a gateway.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
from typing import Any

import msgspec

from palinurus.app import mcp
from palinurus.app.mcpsignin import McpSignIns
from palinurus.cli.args import (
    JSON,
    Verb,
    load_settings,
    make_arg,
    parse_verb,
    read_pair,
    resolve_session_key,
    to_json,
)
from palinurus.cli.main import PARTS, load_part
from palinurus.cli.models import login
from palinurus.cli.models.catalog import describe_signed_in
from palinurus.cli.reach.http import find_gateway_address, is_gateway_running
from palinurus.cli.render import strip_controls
from palinurus.clock import SystemClock
from palinurus.config.load import LoadedConfig
from palinurus.config.rewrite import set_config_key, unset_config_key
from palinurus.config.sections.mcp import McpServerSettings, McpSettings
from palinurus.core.text import format_count
from palinurus.core.types.caller import ADMIN, READ, WRITE
from palinurus.core.types.tool import Tool
from palinurus.errors import BadRequest, GatewayUnreachable, NotFound, PalinurusError
from palinurus.providers.signin.vault import MCP
from palinurus.tools.mcp.pins import digest_tool
from palinurus.tools.mcp.server import McpServer
from palinurus.tools.web.egress import EgressGuard

CELL = 'it runs in a cell: open folders with sandbox: {read: ["…"], write: ["…"]}'
# What a program says when it cannot start -> what helps.
FIXES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("is not there",), "install it, or write its whole path"),
    (("extra that is not installed",), "`pal extras add mcp`"),
    (("permission denied", "eacces", "operation not permitted"), CELL),
    (("is not mcp", "redirect to"), "is this the right address or command? its pages say which one speaks MCP"),
    (("cannot be reached",), "is the server running, and is the address right?"),
    (("pal mcp login",), ""),  # the problem says it
    (("http 401",), "the key that the config sends (headers.Authorization) is not taken there"),
    (("did not start within",), "give it longer: connectionTimeoutMs"),
    (("the connection was closed",), "it ended by itself: run the command by hand and read what it says"),
    (("breaks the protocol", "line of more than", "http 5"), "the server is at fault: try a newer version of it"),
)

AGAIN = "a gateway that runs takes it over by itself; a turn that is not over in 30 s goes on afterwards"


def run_mcp(argv: list[str]) -> int:
    """0; 1 if `test` found the server not working. Raises BadRequest, NotFound, ConfigError, PalinurusError."""
    given, command = argv, list[str]()
    if argv[:1] == ["add"] and "--" in argv:
        given, command = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    asked = parse_verb("mcp", "MCP: tools of other programs, and ours for others.", VERBS, given, default="list")
    asked.command = command
    return int(asked.run(asked, load_settings(os.environ)))


def _list(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    servers = loaded.settings.mcp.servers.values()
    if asked.json:
        print(to_json([_plain(one) for one in servers]))
        return 0
    width = max((len(one.name) for one in servers), default=0)
    for one in servers:
        held = " (not contained)" if one.command and not one.contained else ""
        print(
            strip_controls(f"{'+' if one.enabled else '-'} {one.name:<{width}}  {one.wires[0]:<5}  {one.place}{held}")
        )
    more = "`pal mcp test NAME` connects to one" if servers else "`pal mcp add NAME …` adds one"
    print(f"{format_count(len(servers), 'server')}; {more}")
    return 0


def _plain(one: McpServerSettings) -> dict[str, Any]:
    return {
        "name": one.name,
        "enabled": one.enabled,
        "transport": one.wires[0],
        "where": one.place,
        "contained": bool(one.command) and one.contained,
    }


def _test(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    here = loaded.settings
    one = here.mcp.servers.get(asked.name)
    if one is None:
        raise NotFound(f"there is no MCP server {asked.name!r}", fix="`pal mcp list`")
    alone = McpSettings({one.name: msgspec.structs.replace(one, enabled=True)})
    told, good = asyncio.run(_tried(msgspec.structs.replace(here, mcp=alone), one.name))
    if asked.json:
        print(to_json(told))
    else:
        print("\n".join(strip_controls(line) for line in _lines(told)))
    return 0 if good else 1


async def _tried(here: Any, name: str) -> tuple[dict[str, Any], bool]:
    table: dict[str, Tool] = {}
    logging.getLogger("palinurus.tools.mcp").setLevel(logging.ERROR)  # what it would warn of is the answer here
    made = mcp.make_mcp_servers(
        here, os.environ, SystemClock(), EgressGuard(here.web.fetch.rules), life=f"test {os.getpid()}"
    )
    made.attach(table, lambda: None)
    server = made.all[name]
    clock = asyncio.get_running_loop().time
    with contextlib.suppress(PalinurusError):  # where it is missing, connecting says so
        await asyncio.to_thread(mcp.load_mcp_connect)  # so that the time shown is the server's
    began = clock()
    server.wake()
    await server.wait_settled()
    took, good = clock() - began, server.connected
    told = {**_plain(server.settings), "ok": good, "seconds": round(took, 2)}
    if good and server.facts is not None:
        facts = server.facts
        told |= {"server": f"{facts.name} {facts.version}".strip(), "protocol": facts.protocol, "left": server.left}
        told["tools"] = [
            {"name": tool.name, "description": tool.description, "readOnly": tool.effect == "pure"}
            for tool in table.values()
        ]
        told["changed"] = [
            {"name": str(one["name"]), "digest": digest_tool(one), "description": str(one.get("description") or "")}
            for one in server.listed
            if one.get("name") in made.waiting[name]
        ]
    else:
        told |= {"problem": server.problem, "fix": _fix(server), "output": server.noise[-2000:]}
    await made.close()
    return told, good


def _fix(server: McpServer) -> str:
    text = f"{server.problem}\n{server.noise}".lower()
    found = (fix for words, fix in FIXES if any(one in text for one in words))
    return next(found, "`pal mcp list` shows what is configured")


def _lines(told: dict[str, Any]) -> list[str]:
    if not told["ok"]:
        lines = [f"{told['name']}: not connected after {told['seconds']} s: {told['problem']}"]
        lines += [f"  | {line}" for line in str(told["output"]).splitlines()[-8:]]
        said = not told["fix"] or told["fix"] in str(told["problem"])
        return lines if said else [*lines, f"  fix: {told['fix']}"]
    what = f"{told['transport']}, {told['server']}, {told['protocol']}"
    lines = [f"{told['name']}: connected in {told['seconds']} s ({what})"]
    for one in told["tools"]:
        lines.append(f"  {one['name']}{' (read-only)' if one['readOnly'] else ''}  {one['description'][:100]}")
    for one in told["changed"]:
        lines.append(f"  ! {one['name']} is not what it was, and waits: {one['description'][:1000]}")
    if told["changed"]:
        lines.append(f"  `pal mcp trust {told['name']}` takes it as it is now")
    more = f"; {told['left']} more are not used: toolFilter.include chooses" if told["left"] else ""
    return [*lines, format_count(len(told["tools"]), "tool") + more]


def _add(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    if bool(asked.command) == bool(asked.url):
        raise BadRequest("say either what to start (-- COMMAND …) or where it is (--url)", fix="`pal mcp add --help`")
    if asked.name in loaded.settings.mcp.servers:
        raise BadRequest(f"there is an MCP server {asked.name!r} already", fix=f"`pal mcp remove {asked.name}`")
    body: dict[str, Any] = {"url": asked.url} if asked.url else {"command": asked.command[0], "args": asked.command[1:]}
    for word, given in (("env", asked.env), ("headers", asked.header)):
        pairs = dict(read_pair(one) for one in given)
        body |= {word: pairs} if pairs else {}
    body |= {"transport": asked.transport} if asked.transport else {}
    body |= {"cwd": os.path.abspath(asked.cwd)} if asked.cwd else {}
    done = set_config_key(loaded.settings.home, os.environ, _key(asked.name), body)
    if asked.json:
        print(to_json({"name": asked.name, "file": done.file, "line": done.line}))
        return 0
    print(strip_controls(f"{asked.name} is added ({done.file}:{done.line}); `pal mcp test {asked.name}` tries it"))
    print(AGAIN)
    return 0


def _key(name: str) -> str:
    if not name.strip() or any(char in name for char in '"\\'):
        raise BadRequest(f"{name[:60]!r} cannot be a server's name", fix="letters, digits, - and _")
    return f'mcp.servers["{name}"]'


def _remove(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    if asked.name not in loaded.settings.mcp.servers:
        raise NotFound(f"there is no MCP server {asked.name!r}", fix="`pal mcp list`")
    unset_config_key(loaded.settings.home, os.environ, _key(asked.name))
    print(strip_controls(f"{asked.name} is removed"))
    print(AGAIN)
    return 0


def _trust(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    if not mcp.make_mcp_pins(loaded.settings).forget(asked.name):
        raise NotFound(f"nothing is remembered of an MCP server {asked.name!r}", fix="`pal mcp list`")
    print(strip_controls(f"{asked.name} is taken as it is when it is next connected; start a running gateway again"))
    return 0


def _login(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    """Sign in. Raises NotFound, BadRequest, PalinurusError."""
    client = login.read_client(asked.client) if asked.client else {}
    return asyncio.run(_sign_in(asked, loaded, {**client, "scope": asked.scope}))


async def _sign_in(asked: argparse.Namespace, loaded: LoadedConfig, client: dict[str, str]) -> int:
    signins = _open_signins(loaded)
    going = await signins.start(asked.name, device=asked.device, client=client)
    return await login.finish_sign_in(signins, going, browser=not asked.no_open)


def _open_signins(loaded: LoadedConfig) -> McpSignIns:
    here = loaded.settings
    return mcp.make_mcp_signins(here, os.environ, SystemClock(), EgressGuard(here.web.fetch.rules))


def _logout(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    for line in asyncio.run(_open_signins(loaded).sign_out(asked.name)):
        print(strip_controls(line))
    return 0


def _status(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    signed = {str(row["provider"]): row for row in _open_signins(loaded).describe()}
    found = [one for one in loaded.settings.mcp.servers.values() if one.url]
    if asked.json:
        rows = [{"name": one.name, "where": one.place, "signIn": signed.get(f"{MCP}{one.name}")} for one in found]
        print(to_json(rows))
        return 0
    for one in found:
        kept = signed.get(f"{MCP}{one.name}")
        print(strip_controls(f"{one.name}  {one.place}" + ("" if kept else "  not signed in")))
        for line in describe_signed_in([kept] if kept else [], SystemClock().now()):
            print(strip_controls(f"  {line}"))
    count = format_count(len(found), "server")
    print(f"{count} elsewhere; `pal mcp login NAME` signs in, `pal mcp test NAME` connects to one")
    return 0


def _serve(asked: argparse.Namespace, loaded: LoadedConfig) -> int:
    target = str(resolve_session_key(loaded.settings, asked.session, asked.agent))
    query = {"session": target, "send": "0" if asked.read_only else "1"}
    scopes = ",".join((READ, WRITE, *((ADMIN,) if asked.memory else ())))
    serve: Any = load_part(PARTS["server"])

    async def run() -> None:
        if not await is_gateway_running(loaded.settings):
            raise GatewayUnreachable("no gateway runs here", fix="`pal gateway` starts it")
        await serve(find_gateway_address(loaded.settings), query, scopes)

    asyncio.run(run())
    return 0


_NAMED = make_arg("name")
VERBS = {
    "list": Verb(_list, "list the configured servers", (JSON,)),
    "test": Verb(_test, "connect to a server; show its tools, or what is wrong", (_NAMED, JSON)),
    "add": Verb(
        _add,
        "add a server: `pal mcp add NAME -- COMMAND …` or `pal mcp add NAME --url ADDRESS`",
        (
            _NAMED,
            make_arg("--url", default="", help="address of a server elsewhere"),
            make_arg("--transport", default="", choices=("", "http", "sse"), help="default: found out"),
            make_arg("--env", action="append", default=[], metavar="NAME=VALUE", help="better NAME='${NAME}'"),
            make_arg("--header", action="append", default=[], metavar="NAME=VALUE"),
            make_arg("--cwd", default=""),
            JSON,
        ),
    ),
    "trust": Verb(_trust, "accept a server's tools as they are now (changed ones are not offered before)", (_NAMED,)),
    "login": Verb(
        _login,
        "sign in to a server that asks for it, in the browser",
        (
            _NAMED,
            make_arg("--device", action="store_true", help="a code that is typed on another device"),
            make_arg("--scope", default="", help="what is asked for, instead of what the server names"),
            make_arg("--client", default="", metavar="FILE", help="a client registered by hand (JSON, client_id)"),
            make_arg("--no-open", action="store_true", help="open no browser"),
        ),
    ),
    "logout": Verb(_logout, "sign out of a server", (_NAMED,)),
    "status": Verb(_status, "list sign-ins, and when they end", (JSON,)),
    "remove": Verb(_remove, "remove a server from the config", (_NAMED,)),
    "serve": Verb(
        _serve,
        "serve our tools and sessions to another agent, on standard input and output",
        (
            make_arg("--agent", default="", help="which agent (default: the default one)"),
            make_arg("--session", default="", help="which session's tools (default: the main one)"),
            make_arg("--memory", action="store_true", help="what you noted (MEMORY.md, USER.md), too"),
            make_arg("--read-only", action="store_true", help="no sending of messages to sessions"),
        ),
    ),
}
