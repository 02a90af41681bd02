"""`pal node`: this machine as a node. `pal nodes`: the nodes of this home's gateway. `pal qr`: a code for the next one.

`pal nodes` talks to the running gateway: only it can reach a node, or end its connection at once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from palinurus.cli.args import JSON, Verb, load_settings, make_arg, parse_verb, to_json
from palinurus.cli.main import PARTS, load_part
from palinurus.cli.reach.gateway import GatewayConnection, reach_gateway
from palinurus.cli.render import strip_controls
from palinurus.clock import SystemClock
from palinurus.errors import BadRequest, NotFound
from palinurus.tools.commands.environ import hide_process

NODE = make_arg("node", help="id, beginning of the id, or name")
REQUEST = make_arg("request", help="a request, how its id begins, or the node's name")
URL = make_arg("--url", default="", help="how the other machine reaches this gateway, such as wss://192.168.1.5:18789")

PHONE = make_arg("--phone", action="store_true", help="for OpenClaw's app on a phone: it may chat and approve, too")


def run_node(argv: list[str]) -> int:
    """0 when it was stopped. Raises BadRequest, Unauthorized, StateUnwritable."""
    asked = parse_verb("node", "This machine as a node of a gateway.", NODE_VERBS, argv)
    loaded = load_settings(dict(os.environ))
    return int(asked.run(loaded.settings, asked))


def _serve(settings: Any, asked: argparse.Namespace) -> int:
    hide_process()
    serve, options = (load_part(PARTS[name]) for name in ("node", "node-options"))
    wanted = options(asked.gateway, asked.name, asked.code, asked.fingerprint)  # type: ignore[operator]

    def show(line: str) -> None:
        print(strip_controls(f"node: {line}"), file=sys.stderr, flush=True)

    work = serve(settings, dict(os.environ), SystemClock(), wanted, show)  # type: ignore[operator]
    return int(asyncio.run(work))


def _show_state(settings: Any, asked: argparse.Namespace) -> int:
    read, identity = (load_part(PARTS[name]) for name in ("node-state", "identity"))
    state = read(settings.home)  # type: ignore[operator]
    told = {
        "nodeId": identity(settings.home).id,  # type: ignore[operator]
        "gateway": state.url or None,
        "name": state.name or None,
        "paired": bool(state.token) and not state.refused,
        "devices": sorted(settings.node_host.devices),
    }
    if asked.json:
        print(to_json(told, pretty=True))
    else:
        how = "paired" if told["paired"] else "refused us" if state.refused else "not paired yet"
        known = f"{state.url}, {how}" if state.url else "none yet; `pal node run --code CODE` joins one"
        print(f"node     {told['nodeId'][:12]} {state.name}".rstrip() + f"\ngateway  {strip_controls(known)}")
    return 0


def _install(settings: Any, asked: argparse.Namespace) -> int:
    if asked.what == "install":
        state = load_part(PARTS["node-state"])(settings.home)  # type: ignore[operator]
        if not state.token or state.refused:
            raise BadRequest("a service needs a node that is paired", fix="`pal node run --code CODE`, then install it")
    return int(load_part(PARTS["node-service"])(asked.what))  # type: ignore[operator]


NODE_VERBS: dict[str, Verb] = {
    "run": Verb(
        _serve,
        "connect to a gateway and serve it until stopped",
        (
            make_arg("--gateway", default="", help="ws://HOST:PORT or wss://HOST:PORT"),
            make_arg("--name", default="", help="what people call this machine"),
            make_arg("--code", default="", help="a code of `pal nodes pair` or `pal qr`: pairs it"),
            make_arg("--fingerprint", default="", help="SHA-256 of the only certificate to trust, in hex"),
        ),
    ),
    "status": Verb(_show_state, "show which gateway this node belongs to", (JSON,)),
    "install": Verb(_install, "as a service of yours (systemd, launchd): at login, and again after a crash"),
    "uninstall": Verb(_install, "stop that service and take it away; it stays paired"),
}

# pal nodes

NodesAction = Callable[[GatewayConnection, argparse.Namespace], Awaitable[tuple[str, int]]]


def run_nodes(argv: list[str]) -> int:
    """0, or the exit code of a command there. Raises GatewayUnreachable, Unauthorized, NotFound, BadRequest."""
    asked = parse_verb("nodes", "Other machines that do something for the agent.", VERBS, argv, default="list")
    return asyncio.run(_perform(asked.run, asked))


def run_qr(argv: list[str]) -> int:
    """0. Raises GatewayUnreachable, BadRequest."""
    return run_nodes(["pair", "--qr", *argv])


async def _perform(action: NodesAction, asked: argparse.Namespace) -> int:
    settings = load_settings(dict(os.environ)).settings
    async with reach_gateway(settings, SystemClock()) as gateway:
        text, code = await action(gateway, asked)
    sys.stdout.write(strip_controls(text) + "\n")
    return code


async def _list(gateway: GatewayConnection, asked: argparse.Namespace) -> tuple[str, int]:
    nodes, pairs = await gateway.call("node.list"), await gateway.call("node.pair.list")
    if asked.json:
        return to_json({"pending": pairs["pending"], "nodes": nodes["nodes"]}, pretty=True), 0
    out: list[str] = []
    for row in pairs["pending"]:
        name = row.get("displayName") or row["nodeId"][:12]
        out += [f"{row['requestId'][:8]}  waits  {name} on {row.get('platform')}: {', '.join(row['commands'])}"]
        out += [f"          pal nodes approve {row['requestId'][:8]}"]
    for row in (one for one in nodes["nodes"] if one["paired"]):
        state = "connected" if row["connected"] else "not connected"
        name = row.get("displayName") or ""
        out += [f"{row['nodeId'][:12]}  {name} on {row.get('platform')}, {state}: {', '.join(row['commands'])}"]
    return "\n".join(out) or "no nodes yet; `pal nodes pair` makes a code for one", 0


async def _describe(gateway: GatewayConnection, asked: argparse.Namespace) -> tuple[str, int]:
    return to_json(await gateway.call("node.describe", {"nodeId": asked.node}), pretty=True), 0


async def _approve(gateway: GatewayConnection, asked: argparse.Namespace) -> tuple[str, int]:
    request = _find(await gateway.call("node.pair.list"), asked.request)
    only = {"commands": asked.commands.split(",")} if asked.commands else {}
    node = (await gateway.call("node.pair.approve", {"requestId": request, **only}))["node"]
    told = f"paired: {node.get('displayName') or node['nodeId'][:12]} may be asked for {', '.join(node['commands'])}"
    return told, 0


async def _reject(gateway: GatewayConnection, asked: argparse.Namespace) -> tuple[str, int]:
    request = _find(await gateway.call("node.pair.list"), asked.request)
    await gateway.call("node.pair.reject", {"requestId": request})
    return f"rejected: {request[:8]}", 0


async def _rename(gateway: GatewayConnection, asked: argparse.Namespace) -> tuple[str, int]:
    done = await gateway.call("node.rename", {"nodeId": asked.node, "displayName": asked.name})
    return f"{done['nodeId'][:12]} is called {done['displayName']}", 0


async def _revoke(gateway: GatewayConnection, asked: argparse.Namespace) -> tuple[str, int]:
    done = await gateway.call("node.pair.remove", {"nodeId": asked.node})
    return f"revoked: {done['nodeId'][:12]} is disconnected and stays out until it is approved again", 0


async def _invoke(gateway: GatewayConnection, asked: argparse.Namespace) -> tuple[str, int]:
    try:
        params = msgspec.json.decode(asked.params)
    except msgspec.DecodeError:
        raise BadRequest(
            "--params is no JSON", fix="one JSON object in quotes of the shell: --params '{\"x\": 1}'"
        ) from None
    told = await _ask(gateway, asked, asked.command, params)
    return to_json(told["payload"], pretty=True), 0


async def _run(gateway: GatewayConnection, asked: argparse.Namespace) -> tuple[str, int]:
    words = asked.words[1:] if asked.words[:1] == ["--"] else asked.words
    if not words:
        raise BadRequest("which command?", fix="`pal nodes run NODE -- uname -a`")
    argv = ["/bin/sh", "-c", words[0]] if len(words) == 1 else words
    told = (await _ask(gateway, asked, "system.run", {"command": argv, "timeoutMs": asked.timeout}))["payload"]
    text = "".join(str(told.get(name) or "") for name in ("stdout", "stderr", "error")).rstrip("\n")
    return text, int(told.get("exitCode") or 0)


async def _ask(gateway: GatewayConnection, asked: argparse.Namespace, command: str, params: Any) -> Any:
    order = {"nodeId": asked.node, "command": command, "params": params, "timeoutMs": asked.timeout}
    return await gateway.call("node.invoke", {**order, "idempotencyKey": str(uuid.uuid4())})


async def _pair(gateway: GatewayConnection, asked: argparse.Namespace) -> tuple[str, int]:
    access = "phone" if asked.phone else "node"
    made = await gateway.call("device.pair.setupCode", {"url": asked.url, "access": access})
    if asked.json:
        return to_json(made, pretty=True), 0
    code = made["setupCode"]
    where = f"within ten minutes (gateway {made['gatewayUrl']}):"
    lines = [f"On the other machine, {where}", f"pal node run --code {code}"]
    if asked.phone:
        lines = [f"In the phone's app, {where}", code, "It may then chat, answer questions and be used as a node."]
    return "\n".join((*(draw_code(code) if asked.qr else ()), *lines)), 0


def draw_code(code: str) -> list[str]:
    """The code as a QR code; where nothing draws one, why not."""
    try:
        draw = load_part(PARTS["qr"])
    except ModuleNotFoundError:
        return ["(no QR code: `pal extras add whatsapp` brings what draws one)"]
    return [str(draw(code))]  # type: ignore[operator]


def _find(found: dict[str, Any], wanted: str) -> str:
    word = wanted.lower()
    hits = [
        str(row["requestId"])
        for row in found["pending"]
        if row["requestId"].startswith(wanted) or row["nodeId"] == wanted or row.get("displayName", "").lower() == word
    ]
    if len(hits) != 1:
        raise (BadRequest if hits else NotFound)(
            f"{wanted!r} names {'several requests' if hits else 'no request that waits'}", fix="`pal nodes` lists them"
        )
    return hits[0]


TIMEOUT = make_arg("--timeout", type=int, default=60_000, metavar="MS", help="milliseconds to wait")
VERBS: dict[str, Verb] = {
    "list": Verb(_list, "list nodes, and those that wait for approval", (JSON,)),
    "describe": Verb(_describe, "show one node", (NODE,)),
    "pair": Verb(
        _pair,
        "show a code to pair another machine",
        (URL, JSON, PHONE, make_arg("--qr", action="store_true", help="as a QR code, too")),
    ),
    "approve": Verb(
        _approve,
        "approve a node",
        (REQUEST, make_arg("--commands", default="", help="only these, with commas between")),
    ),
    "reject": Verb(_reject, "refuse a node", (REQUEST,)),
    "rename": Verb(_rename, "rename a node", (NODE, make_arg("name"))),
    "revoke": Verb(_revoke, "remove a node, at once and for good", (NODE,)),
    "invoke": Verb(
        _invoke,
        "call any command of a node",
        (NODE, make_arg("command"), make_arg("--params", default="{}", help="JSON"), TIMEOUT),
    ),
    "run": Verb(_run, "run a program on a node", (NODE, make_arg("words", nargs=argparse.REMAINDER), TIMEOUT)),
}
