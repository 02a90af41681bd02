"""environments, gateway.restart, system.info, update.status, doctor.memory.status, exec.approvals.node, voicewake: the
machines that commands run on, and this one, in OpenClaw's words.

Nothing is kept but the words that wake a listening device (records of the store, so `kill -9` takes none).
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
from typing import Annotated, Any

from msgspec import Meta

from palinurus import __version__
from palinurus.core.text import format_count
from palinurus.gateway.context import require
from palinurus.gateway.methods import nodes
from palinurus.gateway.rpc import (
    ADMIN,
    READ,
    WRITE,
    GatewayMethod,
    MethodCall,
    MethodError,
    MethodParams,
    NonEmpty,
    NoParams,
)
from palinurus.store.records import Records

RULES = {"get": "system.execApprovals.get", "set": "system.execApprovals.set"}  # commands of a node
WORDS = ("pal", "palinurus")  # that wake a device, until somebody says others


class EnvironmentParams(MethodParams, frozen=True):
    environment_id: NonEmpty


class NodeRulesParams(nodes.NodeParams, frozen=True):
    file: dict[str, Any] | None = None
    base_hash: str = ""


class RestartParams(MethodParams, frozen=True):
    reason: str = ""
    delay_ms: Annotated[int, Meta(ge=0, le=60_000)] = 2000
    safe: bool = True
    skip_deferral: bool = False


async def list_environments(call: MethodCall, asked: None) -> dict[str, Any]:
    """This machine, and the nodes."""
    own = {"id": "gateway", "type": "gateway", "label": socket.gethostname(), "status": "available"}
    known = (await nodes.list_nodes(call, NoParams()))["nodes"] if call.program.nodes is not None else []
    return {"environments": [own, *map(_show_node, known)]}


def _show_node(one: dict[str, Any]) -> dict[str, Any]:
    state = "available" if one.get("connected") else "unavailable"
    made = {"id": str(one["nodeId"]), "type": "node", "label": str(one.get("displayName") or one["nodeId"])}
    return {**made, "status": state, "capabilities": [str(word) for word in one.get("commands") or ()]}


async def describe_environment(call: MethodCall, asked: EnvironmentParams) -> dict[str, Any]:
    for one in (await list_environments(call, None))["environments"]:
        if one["id"] == asked.environment_id:
            return dict(one)
    raise MethodError("there is no such environment: environments.list has them")


async def get_node_rules(call: MethodCall, asked: NodeRulesParams) -> Any:
    return await _ask_rules(call, asked, "get", {})


async def set_node_rules(call: MethodCall, asked: NodeRulesParams) -> Any:
    return await _ask_rules(call, asked, "set", {"file": asked.file or {}, "baseHash": asked.base_hash})


async def _ask_rules(call: MethodCall, asked: NodeRulesParams, verb: str, params: dict[str, Any]) -> Any:
    order = nodes.NodeInvokeParams(asked.node_id, RULES[verb], call.id, params)
    return (await nodes.invoke_node(call, order))["payload"]


async def preview_restart(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """What a restart would meet. Turns that run are finished, or go on after it."""
    busy = len(call.program.inbox.busy)
    told = f"{format_count(busy, 'turn')} at work: finished before it, or going on after it"
    block = [{"kind": "run", "count": busy, "message": told}]
    return {"safe": not busy, "counts": {"runs": busy, "totalActive": busy}, "blockers": block if busy else []}


async def request_restart(call: MethodCall, asked: RestartParams) -> dict[str, Any]:
    program = call.program
    if not program.settings.commands.restart:
        raise MethodError("restarting is switched off (commands.restart)")
    begin = require(program.restart, "this program cannot restart itself: `pal gateway restart`")
    told = await preview_restart(call, NoParams())
    begin(max(asked.delay_ms / 1000, 0.5))
    return {"ok": True, "status": "scheduled", "preflight": told}


async def describe_machine(call: MethodCall, asked: None) -> dict[str, Any]:
    disk = shutil.disk_usage(call.program.settings.home)
    pages, size = (os.sysconf(name) for name in ("SC_PHYS_PAGES", "SC_PAGE_SIZE"))
    free = os.sysconf("SC_AVPHYS_PAGES")
    host = socket.gethostname()
    return {
        "machineName": host, "hostname": host, "platform": platform.system().lower(), "release": platform.release(),
        "arch": platform.machine(), "osLabel": platform.platform(terse=True), "pid": os.getpid(),
        "nodeVersion": f"Python {platform.python_version()}", "version": __version__,
        "uptimeMs": call.gateway.uptime_ms, "cpuCount": os.cpu_count() or 1, "loadAverage": list(os.getloadavg()),
        "memoryTotalBytes": pages * size, "memoryFreeBytes": free * size,
        "diskTotalBytes": disk.total, "diskAvailableBytes": disk.free,
    }  # fmt: skip


async def get_update_status(call: MethodCall, asked: None) -> dict[str, Any]:
    """Nobody looks for updates unasked: `pal update` does."""
    return {"sentinel": None, "updateAvailable": None, "effectiveChannel": "stable", "version": __version__}


async def get_memory_status(call: MethodCall, asked: None) -> dict[str, Any]:
    """Whether memory is searched by meaning as well as by words."""
    made = await call.program.embed(["memory"]) if call.program.embed is not None else "no model for embeddings"
    embedding = {"ok": False, "error": f"{made}: `pal memory pull`"} if isinstance(made, str) else {"ok": True}
    told = {"agentId": call.program.settings.default_agent, "searchRuntimeRegistered": call.program.recall is not None}
    return {**told, "embedding": embedding, "dreaming": {"enabled": False}}


class WakeWordsParams(MethodParams, frozen=True):
    triggers: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...], Meta(max_length=32)]


class WakeRoutingParams(MethodParams, frozen=True):
    config: dict[str, Any]


def _wake(call: MethodCall) -> Records[dict[str, Any]]:
    return Records(call.program.store, "voicewake", dict[str, Any])


async def get_wake_words(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    return {"triggers": list((await _wake(call).get("words") or {}).get("triggers") or WORDS)}


async def set_wake_words(call: MethodCall, asked: WakeWordsParams) -> dict[str, Any]:
    """Empty: those that were there at first."""
    told = {"triggers": [word.strip() for word in asked.triggers if word.strip()] or list(WORDS)}
    await _wake(call).put("words", told)
    call.gateway.broadcast("voicewake.changed", told)
    return told


async def get_wake_routing(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    plain = {"version": 1, "defaultTarget": {"mode": "current"}, "routes": [], "updatedAtMs": 0}
    return {"config": await _wake(call).get("routing") or plain}


async def set_wake_routing(call: MethodCall, asked: WakeRoutingParams) -> dict[str, Any]:
    told = {"config": {**asked.config, "updatedAtMs": call.program.clock.now()}}
    await _wake(call).put("routing", told["config"])
    call.gateway.broadcast("voicewake.routing.changed", told)
    return told


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("environments.list", READ, None, list_environments),
    GatewayMethod("environments.status", READ, EnvironmentParams, describe_environment),
    GatewayMethod("exec.approvals.node.get", ADMIN, NodeRulesParams, get_node_rules),
    GatewayMethod("exec.approvals.node.set", ADMIN, NodeRulesParams, set_node_rules),
    GatewayMethod("gateway.restart.preflight", READ, NoParams, preview_restart),
    GatewayMethod("gateway.restart.request", ADMIN, RestartParams, request_restart, write=True),
    GatewayMethod("system.info", READ, None, describe_machine),
    GatewayMethod("update.status", ADMIN, None, get_update_status),
    GatewayMethod("doctor.memory.status", READ, None, get_memory_status),
    GatewayMethod("voicewake.get", READ, NoParams, get_wake_words),
    GatewayMethod("voicewake.set", WRITE, WakeWordsParams, set_wake_words),
    GatewayMethod("voicewake.routing.get", READ, NoParams, get_wake_routing),
    GatewayMethod("voicewake.routing.set", WRITE, WakeRoutingParams, set_wake_routing),
)
